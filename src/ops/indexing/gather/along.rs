//! GatherAlong, of this program: GatherElements whose indices broadcast, with an axis of 1 where the indices
//! are the same along an axis of the data.

use super::lower::sampled_indices;
use crate::lower::Gathered;
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;

pub(super) const ROW: Row = Row::of(NCNN_DOMAIN, "GatherAlong", Access::Selection, infer)
    .lower(lower)
    .transparent(|_, _| true)
    .lowers_to("GridSample: the nearest elements");

/// The most nodes between the indices and the indices that they repeat.
const DEPTH: usize = 8;

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let (data, indices) = (call.shape(0)?, call.shape(1)?);
    let axis = resolve_axis(call.int("axis")?, data.len())?;
    let fits = |(size, of): (&Dim, &Dim)| size.is(1) || size == of;
    if !resized(indices, axis, Dim::ONE).iter().zip(&resized(data, axis, Dim::ONE)).all(fits) {
        unsupported!("indices {} along axis {axis} of {}", display_shape(indices), display_shape(data));
    }
    Ok(vec![Fact::new(call.dtype(0)?, resized(data, axis, indices.at(axis)?.clone()))])
}

/// Returns the value of whose elements an Expand or a Tile repeats some along other axes than `axis`, and its
/// shape.
pub(in crate::ops) fn repeated(graph: &Graph, mut id: ValueId, axis: usize) -> (ValueId, Option<Vec<Dim>>) {
    let shape_of = |id: ValueId| graph.value(id).shape.as_ref().map(|shape| shape.to_vec());
    for _ in 0..DEPTH {
        let Some(node) = graph.producer(id) else { break };
        let is_repeated = node.is_one_of(&["Expand", "Tile", "Identity"]);
        let Some(source) = node.input(0).filter(|_| is_repeated) else { break };
        let (Some(from), Some(to)) = (shape_of(source), shape_of(id)) else { break };
        let is_kept = |(i, (from, to)): (usize, (&Dim, &Dim))| from == to || i != axis && from.is(1);
        if from.len() != to.len() || !from.iter().zip(&to).enumerate().all(is_kept) {
            break;
        }
        id = source;
    }
    (id, shape_of(id))
}

/// Returns the sizes of a gather along an axis by indices that broadcast: axes before it along which they are
/// all the same are channels.
pub(super) fn gathered(shape: &[Dim], indices: &[Dim], axis: usize) -> Result<Gathered> {
    let is_same = |other: &usize| indices.get(*other).is_some_and(|size| size.is(1));
    let channels = (0..axis).take_while(is_same).count();
    let columns = Dim::product(indices.iter().skip(axis + 1));
    let width = Dim::product(shape.iter().skip(axis + 1));
    Ok(Gathered {
        channels: Dim::product(shape.iter().take(channels)),
        groups: Dim::product(shape.iter().take(axis).skip(channels)),
        size: shape.at(axis)?.clone(),
        count: indices.at(axis)?.clone(),
        columns: if columns.is(1) { columns } else { width.clone() },
        width,
    })
}

fn lower(lower: &Lower) -> Result<()> {
    let (shape, indices) = (lower.shape(0)?.to_vec(), lower.shape(1)?.to_vec());
    let axis = resolve_axis(lower.int("axis")?, shape.len())?;
    let gathered = gathered(&shape, &indices, axis)?;
    let sampled = sampled_indices(lower, 1, &gathered.size);
    // Some of the axes of the groups or of the columns may be 1.
    let mut whole = indices.clone();
    for (i, size) in whole.iter_mut().enumerate() {
        let is_after = i > axis && !gathered.columns.is(1);
        let is_group = i < axis && indices.iter().take(i + 1).any(|size| !size.is(1));
        if is_after || is_group {
            size.clone_from(shape.at(i)?);
        }
    }
    let y = lower.input(0).sample(sampled.broadcast(&whole), &gathered, lower.output_shape(0)?);
    lower.give(0, y)
}
