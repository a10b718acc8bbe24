//! Constants with the same elements all along an axis that their reader would broadcast: `x + Expand(c)` to
//! `x + c`.
//!
//! Shapes are inferred from folded constants, so an Expand of a constant is a constant first.

use crate::error::Result;
use crate::graph::{Graph, Node};
use crate::pass::simplify::{Source, replace_operands};
use crate::tensor::{Dim, Tensor};

/// The fewest and the most elements of a constant that is compared: larger ones are not loaded before they
/// are written.
const COMPARED: std::ops::RangeInclusive<usize> = 1 << 12..=1 << 22;

pub(super) fn narrow_constants(graph: &mut Graph) -> Result<bool> {
    replace_operands(graph, narrowed)
}

/// Returns a constant input without repetitions: one element along each axis on which all are the same and
/// another input has the whole size. `None` if all are needed.
fn narrowed(graph: &Graph, node: &Node, index: usize) -> Result<Option<Source>> {
    let value = |id: &Option<_>| id.map(|id| graph.value(id));
    let Some(input) = node.inputs.get(index).and_then(value) else { return Ok(None) };
    let Some(tensor) = input.constant.as_ref().filter(|tensor| COMPARED.contains(&tensor.len())) else {
        return Ok(None);
    };
    let others = node.inputs.iter().enumerate().filter(|(other, _)| *other != index);
    let Some(others) = others.map(|(_, id)| value(id)?.shape.as_deref()).collect::<Option<Vec<&[Dim]>>>()
    else {
        return Ok(None);
    };
    let rank = tensor.shape().len();
    // Another input has all elements of the axis.
    let is_broadcast = |axis: usize, size: usize| {
        let from_end = rank - axis;
        let has_all = |shape: &&[Dim]| {
            let dim = shape.len().checked_sub(from_end).and_then(|axis| shape.get(axis));
            dim.and_then(Dim::known).and_then(|n| usize::try_from(n).ok()) == Some(size)
        };
        size > 1 && others.iter().any(has_all)
    };
    let shape = tensor.shape().iter().enumerate();
    let axes: Vec<usize> =
        shape.filter(|(axis, size)| is_broadcast(*axis, **size)).map(|(axis, _)| axis).collect();
    if axes.is_empty() {
        return Ok(None);
    }
    let mut array = tensor.load()?;
    let len = array.len();
    for axis in axes {
        let first = array.gather(axis, &[0])?;
        // Most constants differ at the end already.
        let last = array.shape().get(axis).map_or(0, |size| size.saturating_sub(1));
        let is_same = first.to_bytes()? == array.gather(axis, &[last])?.to_bytes()?;
        if is_same && first.broadcast(array.shape())?.to_bytes()? == array.to_bytes()? {
            array = first;
        }
    }
    if array.len() == len {
        return Ok(None);
    }
    Ok(Some(Source::Constant(input.name_of_changed(), Tensor::from_array(&array)?)))
}
