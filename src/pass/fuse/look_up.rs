//! Slices of tables, from Gather at constant indices whose number is known only at run time.
//!
//! `gather(table, range(0, n))` to `table[..n]`: position embeddings of sequences of any length.

use std::collections::BTreeSet;

use super::view::ints;
use super::{Build, Found, Look, first, fuse, two};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::resolve_axis;
use crate::tensor::Dim;

/// The maximum number of views between a Range and the Gather that reads it.
const MAX_VIEWS: usize = 8;
/// The maximum size of the table gathered at all indices, relative to the table.
const MAX_GROWTH: usize = 4;

/// The axis of a Gather.
fn axis_of(look: &Look, node: &Node, data: ValueId) -> Option<usize> {
    let axis = match node.attributes.get("axis") {
        Some(Attribute::Int(axis)) => *axis,
        _ => 0,
    };
    resolve_axis(axis, look.rank(data)?).ok()
}

struct Part {
    data: ValueId,
    axis: usize,
    indices: ValueId,
    slice: Node,
    axes: Vec<i64>,
}

/// Fuses `gather(constant, slice(indices))` to `slice(gather(constant, indices))`.
pub(crate) fn fuse_gather_of_slice(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_part, |made: &mut Build, part| {
        let Part { data, axis, indices, slice, axes } = part;
        let rows = made.op("Gather", &[data, indices], &[("axis", Attribute::Int(i64::try_from(axis)?))])?;
        let mut inputs = slice.inputs.clone();
        let axes = made.ints(&axes)?;
        if let Some(slot) = inputs.get_mut(3) {
            *slot = Some(axes);
        }
        if let Some(slot) = inputs.first_mut() {
            *slot = Some(rows);
        }
        made.last_as(Node { inputs, ..slice });
        Ok(())
    })
}

fn find_part(look: &Look, node: &Node) -> Option<Found<Part>> {
    let [data, places] = two(node).filter(|_| node.is("Gather"))?;
    let slice = look.made_by(places, "Slice").filter(|slice| slice.version >= 10)?;
    let (indices, axes) = (first(slice)?, ints(look, slice.inputs.get(3).copied().flatten()?)?);
    let table = look.graph.value(data).constant.as_ref()?;
    let all = look.graph.value(indices).constant.as_ref()?;
    let axis = axis_of(look, node, data)?;
    let row = table.len().checked_div(*table.shape().get(axis)?)?;
    if all.len().checked_mul(row)? > table.len().checked_mul(MAX_GROWTH)? {
        return None;
    }
    let shift = |own: i64| i64::try_from(resolve_axis(own, all.shape().len()).ok()? + axis).ok();
    let axes: Option<Vec<i64>> = axes.into_iter().map(shift).collect();
    let parts = Part { data, axis, indices, slice: slice.clone(), axes: axes? };
    Some(Found { inner: BTreeSet::new(), parts })
}

/// Removes a Gather of all indices of an axis in their order; axes of size 1 of the indices are inserted.
pub(crate) fn remove_gathers_of_all(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_all, |made: &mut Build, (data, axes): (ValueId, Vec<i64>)| {
        if axes.is_empty() {
            made.last("Identity", &[data], &[]);
        } else {
            let axes = made.ints(&axes)?;
            made.last("Unsqueeze", &[data, axes], &[]);
        }
        Ok(())
    })
}

fn find_all(look: &Look, node: &Node) -> Option<Found<(ValueId, Vec<i64>)>> {
    let [data, places] = two(node).filter(|_| node.is("Gather"))?;
    let axis = axis_of(look, node, data)?;
    let size = look.shape(data)?.get(axis)?;
    let shape = look.shape(places)?;
    let wide = shape.iter().filter(|size| !size.is(1)).collect::<Vec<&Dim>>();
    if size.known().is_some() || wide != [size] {
        return None;
    }
    let mut source = places;
    for _ in 0..MAX_VIEWS {
        let views = ["Unsqueeze", "Reshape", "Squeeze", "Cast", "Identity"];
        let Some(view) = views.iter().find_map(|op_type| look.made_by(source, op_type)) else { break };
        source = first(view)?;
    }
    let range = look.made_by(source, "Range")?;
    let number = |index: usize, number: f64| {
        range.inputs.get(index).copied().flatten().is_some_and(|value| look.is_number(value, number))
    };
    if !number(0, 0.0) || !number(2, 1.0) || look.shape(source)? != std::slice::from_ref(size) {
        return None;
    }
    let units = (0..shape.len()).filter(|place| shape.get(*place).is_some_and(|size| size.is(1)));
    let axes: Option<Vec<i64>> = units.map(|place| i64::try_from(axis + place).ok()).collect();
    Some(Found { inner: BTreeSet::new(), parts: (data, axes?) })
}
