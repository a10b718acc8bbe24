//! `y = scatter_nd(x, transpose(nonzero(mask)), u)`
//!
//! becomes `where(mask, gather(u, cumsum(mask) - 1), x)`, with the mask as a row. `u` may be the first
//! elements of a longer value. If a mask is repeated along the last axis, whole rows are gathered. torch
//! writes its masked_scatter so, which puts the features of images into those of a text.

use std::sync::LazyLock;

use super::matcher::{Found, Matcher, fuse};
use super::text::Pattern;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{ints, text};
use crate::tensor::DType;

/// The first elements of a list.
static FRONT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of("Slice(longer, 0, count) | Slice(longer, 0, count, 0) | Slice(longer, 0, count, 0, 1)")
});

/// The most nodes that repeat a mask.
const DEPTH: usize = 8;

struct Part {
    x: ValueId,
    mask: ValueId,
    /// The axes of size 1 that the mask lacks.
    added: Vec<i64>,
    /// The values of the elements that the mask selects, in order.
    values: ValueId,
    /// The number of values of each element of the mask, if it is the size of the last axis of the values.
    width: Option<i64>,
}

pub(crate) fn fuse_masked_scatter(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, Part { x, mask, added, values, width }| {
        let (x, flags, values) = (made.value(x), made.value(mask).to_type(DType::Bool), made.value(values));
        let flags = flags.cast(DType::I64).reshape(&[-1]);
        let rows_before = (made.op("CumSum", [flags, made.int(0)], []) - 1_i64).maximum(0_i64);
        let rows = width.map_or(values, |width| values.reshape(&[-1, width]));
        let taken = rows.gather(rows_before, 0).reshape_to(x.shape());
        Ok(assigned(made, x, (mask, &added), taken))
    })
}

/// Returns `x` with other elements where a mask, which lacks these axes, is true.
pub(super) fn assigned<'b>(
    made: &'b Builder<'b>,
    x: Expr<'b>,
    (mask, added): (ValueId, &[impl Int]),
    elements: Expr<'b>,
) -> Expr<'b> {
    let mask = made.value(mask).to_type(DType::Bool);
    let mask = if added.is_empty() { mask } else { mask.unsqueeze(added) };
    mask.select(elements, x)
}

/// Returns the data, the indices and the updates of a ScatterND that replaces elements.
pub(super) fn replacement(node: &Node) -> Option<[ValueId; 3]> {
    let is_replaced = text(node, "reduction").is_none_or(|reduction| reduction == "none");
    let [x, at, updates] = [0, 1, 2].map(|index| node.input(index));
    Some([x.filter(|_| node.is("ScatterND") && is_replaced)?, at?, updates?])
}

/// Returns the mask whose positions are the tuples of indices of a value into data. It has the first sizes of
/// the data: a smaller one selects elements of a part alone.
pub(super) fn mask_of(matcher: &Matcher, at: ValueId, data: ValueId) -> Option<ValueId> {
    let turned = matcher.made_by(at, "Transpose")?;
    ints(turned, "perm").is_none_or(|perm| perm == [1, 0]).then_some(())?;
    let mask = matcher.made_by(turned.input(0)?, "NonZero")?.input(0)?;
    matcher.shape(data)?.starts_with(matcher.shape(mask)?).then_some(mask)
}

/// Returns the list of which a value has the first elements.
pub(super) fn longer(matcher: &Matcher, value: ValueId) -> Option<ValueId> {
    FRONT.matches(matcher, value).pop()?.value("longer")
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [x, at, values] = replacement(node)?;
    let mask = mask_of(matcher, at, x)?;
    let (rank, depth) = (matcher.rank(x)?, matcher.rank(mask)?);
    let values = longer(matcher, values).unwrap_or(values);
    let rows = row_mask(matcher, mask).zip(flattened(matcher, values)).and_then(|(row_mask, rows)| {
        let width = matcher.shape(mask)?.last()?.known()?;
        let fits = depth == rank && matcher.shape(rows)?.last()?.is(width);
        fits.then_some((row_mask, rows, Some(width)))
    });
    let (mask, values, width) = rows.unwrap_or((mask, values, None));
    let added = (depth..rank).map(|axis| i64::try_from(axis).ok()).collect::<Option<_>>()?;
    Some(Found::open(Part { x, mask, added, values, width }))
}

/// The value that a Reshape flattens.
fn flattened(matcher: &Matcher, value: ValueId) -> Option<ValueId> {
    matcher.made_by(value, "Reshape")?.input(0).filter(|_| matcher.rank(value) == Some(1))
}

/// The mask that is repeated along its last axis.
fn row_mask(matcher: &Matcher, mut mask: ValueId) -> Option<ValueId> {
    for _ in 0..DEPTH {
        let shape = matcher.shape(mask)?;
        if shape.last()?.is(1) {
            return Some(mask);
        }
        let source = matcher.made_by(mask, "Expand")?.input(0)?;
        let (of_mask, of_source) = (shape.split_last()?, matcher.shape(source)?.split_last()?);
        if of_mask.1 != of_source.1 || of_mask.0 != of_source.0 && !of_source.0.is(1) {
            return None;
        }
        mask = source;
    }
    None
}
