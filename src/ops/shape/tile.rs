//! Expand and Tile: repeated elements.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Expand.html>, `onnx__Tile.html`.

use super::size::{dims_of, fixed_shape, resized};
use crate::op::identity::same_shape;
use crate::ops::prelude::*;
use crate::tensor::{Shape, broadcast_shapes};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Expand", Access::Selection, infer_expand)
        .fold(fold_expand)
        .identity(same_shape)
        .lower(lower_tile)
        .transparent(|_, _| true)
        .lowers_to("Tile along one axis after the other; BinaryOp MUL with ones for an axis of free size")
        .limits("a shape computed at run time"),
    Row::new("Tile", Access::Selection, infer_tile)
        .fold(fold_tile)
        .identity(same_shape)
        .lower(lower_tile)
        .transparent(|_, _| true)
        .lowers_to("Tile along each axis")
        .limits("repeats computed at run time"),
];

// Expand

fn infer_expand(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let shape = match (call.dims(1), call.declared_instead_of(1)) {
        (Ok(target), _) => call.broadcast_shapes(data, &target)?,
        (Err(_), Some(declared)) => call.broadcast_shapes(data, declared)?,
        (Err(error), None) => return Err(error),
    };
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_expand(_: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let target = dims_of(required_input(inputs, 1)?)?;
    let shape = broadcast_shapes(&Shape::try_from(data.shape())?, &target)?;
    Ok(vec![data.broadcast(&fixed_shape(&shape)?)?])
}

// Tile

/// Returns the repeats of each axis; version 1 gives one axis and its repeats.
fn repeats(
    attributes: &Attributes,
    rank: usize,
    input: impl Fn(usize) -> Result<Vec<Dim>>,
) -> Result<Vec<Dim>> {
    let first = input(1)?;
    if attributes.since() > 1 {
        if first.len() != rank {
            invalid!("repeats has {} elements for {rank} axes", first.len());
        }
        return Ok(first);
    }
    let (Some(tiles), Some(Some(axis))) = (first.first(), input(2)?.first().map(Dim::known)) else {
        invalid!("tiles and axis must be one integer each");
    };
    Ok(resized(&vec![Dim::Known(1); rank], resolve_axis(axis, rank)?, tiles.clone()))
}

fn infer_tile(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let shape = match (repeats(call, data.len(), |index| call.dims(index)), call.declared_instead_of(1)) {
        (Ok(repeats), _) => {
            data.iter().zip(&repeats).map(|(size, times)| size.mul(times)).collect::<Result<_>>()?
        }
        (Err(_), Some(declared)) if declared.len() == data.len() => declared.to_vec(),
        (Err(error), _) => return Err(error),
    };
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_tile(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let mut data = required_input(inputs, 0)?.clone();
    let input = |index| dims_of(required_input(inputs, index)?);
    for (axis, times) in repeats(attributes, data.shape().len(), input)?.iter().enumerate() {
        let Some(times) = times.known() else { unsupported!("the number of repeats {times} is not fixed") };
        if times == 1 {
            continue;
        }
        let size = *data.shape().at(axis)?;
        let places: Vec<usize> = (0..times).flat_map(|_| 0..size).collect();
        data = data.gather(axis, &places)?;
    }
    Ok(vec![data])
}

fn lower_tile(lower: &mut Lower) -> Result<()> {
    let to = lower.output_shape(0)?.to_vec();
    let mut shape = vec![Dim::Known(1); to.len() - lower.shape(0)?.len()];
    shape.extend(lower.shape(0)?.iter().cloned());
    let blob = lower.blob(0)?;
    let blob = lower.broadcast_to(blob, &shape, &to)?;
    lower.set(0, blob)
}
