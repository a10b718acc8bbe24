//! `y = gather(table, select(indices))` with a constant `table`, where `select` is a Slice, or a Gather at
//! constant indices
//!
//! becomes `select(gather(table, indices))`: if `indices` is a constant and the constant Gather is at most 4
//! times larger than the table, or if it is an input of the graph, which Embed can read. Exporters look up
//! position embeddings of texts of any length so, and the embedding of the last token.
//!
//! `y = gather(x, view(range(0, n, 1)))` along an axis of the free size `n`
//!
//! becomes `unsqueeze(x)`, or `x` if the view of the indices adds no axes of size 1.

use std::collections::BTreeSet;

use super::{Found, Matcher, first, fuse, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::resolve_axis;
use crate::pass::pattern::{axis, input, int};
use crate::tensor::Dim;

/// The largest ratio of the gathered constant to the table.
const MAX_GROWTH: usize = 4;

struct Part {
    table: ValueId,
    axis: usize,
    indices: ValueId,
    selection: Node,
    /// The axes of the selection in the gathered elements.
    axes: Vec<i64>,
}

pub(crate) fn fuse_gather_of_selected(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_part, |made, part| {
        let Part { table, axis, indices, mut selection, axes } = part;
        let axis = ("axis", Attribute::Int(i64::try_from(axis)?));
        let gathered = made.op("Gather", &[table, indices], &[axis]);
        if let Some(data) = selection.inputs.first_mut() {
            *data = Some(gathered);
        }
        if selection.is("Gather") {
            let axis = axes.first().copied().unwrap_or(0);
            selection.attributes.insert("axis".into(), Attribute::Int(axis));
        } else if let Some(slot) = selection.inputs.get_mut(3) {
            *slot = Some(made.ints(&axes)?);
        }
        made.last_as(selection);
        Ok(())
    })
}

fn find_part(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [table, selected] = two(node).filter(|_| node.is("Gather"))?;
    let data = matcher.constant(table)?;
    let along = axis(node, 0, matcher.rank(table)?)?;
    let (selection, axes) = match matcher.made_by(selected, "Slice").filter(|slice| slice.version >= 10) {
        Some(slice) => (slice, matcher.ints(input(slice, 3)?)?),
        None => {
            let gather = matcher.made_by(selected, "Gather")?;
            matcher.constant(input(gather, 1)?)?;
            (gather, vec![int(gather, "axis").unwrap_or(0)])
        }
    };
    let indices = first(selection)?;
    let rank = matcher.rank(indices)?;
    let row = data.len().checked_div(*data.shape().get(along)?)?;
    let fits = match matcher.constant(indices) {
        Some(all) => {
            selection.is("Slice") && all.len().checked_mul(row)? <= data.len().checked_mul(MAX_GROWTH)?
        }
        None => along == 0 && matcher.is_input(indices),
    };
    let shift = |own: i64| i64::try_from(resolve_axis(own, rank).ok()? + along).ok();
    let axes = axes.into_iter().map(shift).collect::<Option<_>>()?;
    let parts = Part { table, axis: along, indices, selection: selection.clone(), axes };
    fits.then_some(Found { inner: BTreeSet::new(), parts })
}

pub(crate) fn remove_gathers_of_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_all, |made, (x, axes)| {
        if axes.is_empty() {
            made.last("Identity", &[x], &[]);
        } else {
            let axes = made.ints(&axes)?;
            made.last("Unsqueeze", &[x, axes], &[]);
        }
        Ok(())
    })
}

fn find_all(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Vec<i64>)>> {
    let [x, indices] = two(node).filter(|_| node.is("Gather"))?;
    let axis = axis(node, 0, matcher.rank(x)?)?;
    let size = matcher.shape(x)?.get(axis)?;
    let shape = matcher.shape(indices)?;
    if size.known().is_some() || !shape.iter().filter(|size| !size.is(1)).eq([size]) {
        return None;
    }
    matcher.count_to(indices, size)?;
    let added = shape.iter().enumerate().filter(|(_, size): &(usize, &Dim)| size.is(1));
    let axes = added.map(|(at, _)| i64::try_from(axis + at).ok()).collect::<Option<_>>()?;
    Some(Found { inner: BTreeSet::new(), parts: (x, axes) })
}
