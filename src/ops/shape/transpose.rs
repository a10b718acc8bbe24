//! Transpose.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Transpose.html>.

use crate::op::identity::same_shape;
use crate::op::{self};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Transpose", Access::Selection, infer_transpose)
    .fold(fold_transpose)
    .expects_for(|call, result| {
        let shape = result.shape.as_deref()?;
        let perm = read_perm(call.attributes(), shape.len()).ok()?;
        let size = |axis| shape.get(perm.iter().position(|from| *from == axis)?).cloned();
        Some(Fact::new(result.dtype, (0..shape.len()).map(size).collect::<Option<Vec<_>>>()?))
    })
    .batched(|call, _| {
        let perm = call.shape(0).and_then(|shape| read_perm(call, shape.len()));
        perm.is_ok_and(|perm| perm.first() == Some(&0))
    })
    .lower(lower_transpose)
    .identity(unmoved)
    .transparent(|_, _| true)
    .lowers_to("Permute, several in a row for more than four axes; nothing if no element moves")];

/// Returns the order of the axes; by default reversed.
fn read_perm(attributes: &Attributes, rank: usize) -> Result<Vec<usize>> {
    let Some(perm) = attributes.given_ints("perm")? else { return Ok((0..rank).rev().collect()) };
    let perm: Result<Vec<usize>> = perm.iter().map(|axis| resolve_axis(*axis, rank)).collect();
    let perm = perm?;
    if perm.len() != rank || (0..rank).any(|axis| !perm.contains(&axis)) {
        invalid!("perm {perm:?} is not a permutation of {rank} axes");
    }
    Ok(perm)
}

/// Returns the data if only axes of size 1 move and the shape stays.
fn unmoved(graph: &Graph, node: &Node) -> Option<ValueId> {
    let data = same_shape(graph, node)?;
    let shape = graph.value(data).shape.as_ref()?;
    let perm = read_perm(&Attributes::new(node, op::find_handled(node).ok()?), shape.len()).ok()?;
    let moved: Vec<usize> =
        perm.into_iter().filter(|axis| shape.get(*axis).is_none_or(|size| !size.is(1))).collect();
    Some(data).filter(|_| moved.is_sorted())
}

fn infer_transpose(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let perm = read_perm(call, shape.len())?;
    let moved: Result<Vec<_>> = perm.iter().map(|axis| shape.at(*axis).cloned()).collect();
    Ok(vec![Fact::new(call.dtype(0)?, moved?)])
}

fn fold_transpose(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    Ok(vec![data.transpose(&read_perm(attributes, data.shape().len())?)?])
}

fn lower_transpose(lower: &mut Lower) -> Result<()> {
    let shape = lower.shape(0)?;
    let perm = read_perm(lower, shape.len())?;
    let blob = lower.blob(0)?;
    let moved = lower.transpose(blob, shape, &perm)?;
    lower.set(0, moved)
}
