//! Integers that a reduction never selects: 9223372036854775807 where a mask leaves out elements of a
//! minimum.
//!
//! float32 does not represent them. Any number that is not below all elements serves as well.

use std::collections::BTreeSet;

use ndarray::{ArrayD, Axis, arr0};
use num_traits::AsPrimitive;

use super::only_output;
use crate::common::limits;
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId};
use crate::op::range;
use crate::pass::pattern::{Readers, axes, constant_ints};
use crate::tensor::{Array, Range, Tensor};

/// Replaces constants beyond the integers of float32 by a bound of the other elements of their Where, if a
/// reduction to the least or largest element reads it and the mask leaves it one of these elements.
pub(super) fn bound_masked_integers(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let operands = graph.nodes().flat_map(|(id, node)| [1, 2].map(|index| (id, node, index)));
    let found = operands.filter_map(|(id, node, index)| {
        Some((id, index, only_output(node)?, bounded(graph, &readers, node, index)?))
    });
    let found: Vec<_> = found.collect();
    for (id, index, y, (name, bound)) in &found {
        let bound = graph.add_constant(name, bound.clone());
        if let Some(input) = graph.node_mut(*id).and_then(|node| node.inputs.get_mut(*index)) {
            *input = Some(bound);
        }
        let y = graph.value_mut(*y)?;
        y.name = y.name_of_changed();
    }
    Ok(!found.is_empty())
}

/// Returns the constant that is input `index` of a Where, and its name.
fn bounded(graph: &Graph, readers: &Readers, node: &Node, index: usize) -> Option<(String, Tensor)> {
    let other = 3_usize.checked_sub(index).filter(|_| node.is("Where"))?;
    let value = node.input(index)?;
    let constant = graph.value(value).constant.as_ref()?;
    if !constant.dtype().is_int() || constant.len() > limits::LOOKED_AT {
        return None;
    }
    let elements: BTreeSet<i64> = constant_ints(graph, value)?.into_iter().collect();
    let [sentinel] = <[i64; 1]>::try_from(elements.into_iter().collect::<Vec<_>>()).ok()?;
    let exact = Range::EXACT_INTEGERS;
    let range = range::range(graph, node.input(other)?);
    let (reduction, bound) = match AsPrimitive::<f64>::as_(sentinel) {
        n if n > exact.most => ("ReduceMin", range.most.min(exact.most)),
        n if n < exact.least => ("ReduceMax", range.least.max(exact.least)),
        _ => return None,
    };
    let y = only_output(node)?;
    let mask =
        graph.value(node.input(0)?).constant.as_ref().filter(|mask| mask.len() <= limits::LOOKED_AT)?;
    let mask = mask.load_listed().ok()?.to_f64().ok()?;
    let keeps = mask.mapv(|truth| (truth != 0.0) == (other == 1));
    let rank = graph.value(y).shape.as_ref()?.len();
    let is_left_out = |id: &NodeId| {
        let reader = graph.node(*id).filter(|reader| reader.is(reduction))?;
        Some(has_one(&keeps, rank, axes(graph, reader)?))
    };
    if readers.is_output(y) || !readers.all(y).iter().all(|id| is_left_out(id) == Some(true)) {
        return None;
    }
    let number = Array::f32(arr0(bound.as_()).into_dyn()).cast(constant.dtype()).ok()?;
    Some((graph.value(value).name_of_changed(), Tensor::from_array(&number).ok()?))
}

/// Returns whether a mask, broadcast to `rank` axes, has a truth along the reduced axes for each element of
/// the result.
fn has_one(mask: &ArrayD<bool>, rank: usize, axes: Vec<usize>) -> bool {
    let mut left = mask.clone();
    for axis in axes {
        // The mask repeats its elements along axes that it does not have.
        if let Some(axis) = (axis + mask.ndim()).checked_sub(rank) {
            left = left.map_axis(Axis(axis), |line| line.iter().any(|truth| *truth)).insert_axis(Axis(axis));
        }
    }
    left.iter().all(|truth| *truth)
}
