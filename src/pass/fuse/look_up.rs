//! `y = gather(table, select(indices))` with a constant `table`, where `select` is a Slice, or a Gather at
//! constant indices
//!
//! becomes `select(gather(table, indices))`: if `indices` is a constant and the constant Gather is at most 4
//! times larger than the table, or if it is an input of the graph, which Embed can read. Exporters look up
//! position embeddings of texts of any length so, and the embedding of the last token.
//!
//! `y = gather(x, view(range(0, n, 1)))` along an axis, with a free size `n`
//!
//! becomes `unsqueeze(slice(x, 0, n))`, without the slice if the axis has `n` elements, and without the
//! unsqueeze if the view of the indices adds no axes of size 1.

use super::matcher::{Found, Matcher, fuse, two};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op;
use crate::pass::pattern::axis;
use crate::pass::progression::{Line, Progression};
use crate::tensor::{DType, Dim, SizeCondition};

/// The largest ratio of the gathered constant to the table.
const MAX_GROWTH: usize = 4;

/// A selection of indices, and of the elements at them.
enum Selection {
    /// By a Slice along these axes.
    Slice(Node, Vec<usize>),
    /// At constant positions along an axis.
    Gather(ValueId, usize),
}

struct Part {
    table: ValueId,
    axis: usize,
    indices: ValueId,
    selection: Selection,
}

pub(crate) fn fuse_gather_of_selected(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_part, |made, Part { table, axis, indices, selection }| {
        let gathered = made.value(table).gather(made.value(indices), axis);
        Ok(match selection {
            Selection::Gather(positions, along) => gathered.gather(made.value(positions), axis + along),
            Selection::Slice(slice, axes) => {
                let axes: Vec<usize> = axes.iter().map(|along| axis + along).collect();
                gathered.slice_as(&slice, &axes)
            }
        })
    })
}

fn find_part(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [table, selected] = two(node).filter(|_| node.is("Gather"))?;
    let data = matcher.constant(table)?;
    let along = axis(node, 0, matcher.rank(table)?)?;
    let (indices, selection) =
        if let Some(slice) = matcher.made_by(selected, "Slice").filter(|slice| slice.version >= 10) {
            let (indices, spans) = op::taken(matcher.graph, selected)?;
            (indices, Selection::Slice(slice.clone(), spans.into_iter().map(|(axis, _)| axis).collect()))
        } else {
            let gather = matcher.made_by(selected, "Gather")?;
            let [indices, positions] = two(gather)?;
            matcher.constant(positions)?;
            (indices, Selection::Gather(positions, self::axis(gather, 0, matcher.rank(indices)?)?))
        };
    let row = data.len().checked_div(*data.shape().get(along)?)?;
    let fits = match matcher.constant(indices) {
        Some(all) => {
            matches!(selection, Selection::Slice(..))
                && all.len().checked_mul(row)? <= data.len().checked_mul(MAX_GROWTH)?
        }
        None => along == 0 && matcher.is_input(indices),
    };
    fits.then_some(Found::open(Part { table, axis: along, indices, selection }))
}

/// A Gather of the first elements of an axis.
struct Front {
    x: ValueId,
    axis: usize,
    /// The number of elements, a scalar; `None` for all elements.
    count: Option<ValueId>,
    /// The number of elements, and the size of the axis.
    sizes: [Dim; 2],
    /// The axes of size 1 that the result has in addition to the axes of `x`.
    added: Vec<i64>,
}

pub(crate) fn eliminate_nop_gather(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_front, |made, Front { x, axis, count, sizes: [taken, size], added }| {
        let mut part = made.value(x);
        if let Some(count) = count {
            // A Slice takes fewer elements from a shorter axis, where a Gather fails.
            made.require(SizeCondition::first_of(&taken, &size)?);
            part = part.first_of(axis, made.value(count));
        }
        Ok(if added.is_empty() { part } else { part.unsqueeze(&added) })
    })
}

fn find_front(matcher: &Matcher, node: &Node) -> Option<Found<Front>> {
    let [x, indices] = two(node).filter(|_| node.is("Gather"))?;
    let axis = axis(node, 0, matcher.rank(x)?)?;
    let size = matcher.shape(x)?.get(axis)?;
    let shape = matcher.shape(indices)?;
    let mut long = shape.iter().filter(|size| !size.is(1));
    let taken = long.next().filter(|taken| taken.known().is_none() && long.next().is_none())?;
    let line = Progression::of(matcher.graph, indices)?.line().filter(Line::counts)?;
    let count = if taken == size { None } else { Some(matcher.limit(line.range?)?) };
    if count.is_some_and(|count| matcher.graph.value(count).dtype != Some(DType::I64)) {
        return None;
    }
    let added = shape.iter().enumerate().filter(|(_, size): &(usize, &Dim)| size.is(1));
    let added = added.map(|(at, _)| i64::try_from(axis + at).ok()).collect::<Option<_>>()?;
    Some(Found::open(Front { x, axis, count, sizes: [taken.clone(), size.clone()], added }))
}
