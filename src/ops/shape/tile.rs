//! Expand and Tile: repeated elements.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Expand.html>, `onnx__Tile.html`.

use crate::error::{At, Result, invalid, unsupported};
use crate::lower::Lower;
use crate::op::identity::same_shape;
use crate::op::{Access, Attributes, Call, Fact, required_input, resolve_axis};
use crate::ops::Row;
use crate::tensor::{Array, Dim, Shape};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Expand", &[8, 13], Access::Selection, infer_expand)
        .fold(fold_expand)
        .identity(same_shape)
        .lower(lower_tile)
        .transparent(|_, _| true)
        .lowers_to("Tile along each axis; a product with ones along a free one")
        .limits("a shape computed at run time"),
    Row::new("Tile", &[1, 6, 13], Access::Selection, infer_tile)
        .fold(fold_tile)
        .identity(same_shape)
        .lower(lower_tile)
        .transparent(|_, _| true)
        .lowers_to("Tile along each axis")
        .limits("repeats computed at run time"),
];

// Expand

/// Broadcasts two shapes.
fn expand(data: &[Dim], target: &[Dim]) -> Result<Vec<Dim>> {
    let rank = data.len().max(target.len());
    let aligned = |shape: &[Dim]| {
        let mut aligned = vec![Dim::Known(1); rank - shape.len()];
        aligned.extend(shape.iter().cloned());
        aligned
    };
    aligned(data).iter().zip(aligned(target)).map(|(a, b)| a.broadcast(&b)).collect()
}

fn infer_expand(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let shape = match (call.dims(1), call.declared_instead_of(1)) {
        (Ok(target), _) => expand(data, &target)?,
        (Err(_), Some(declared)) => expand(data, declared)?,
        (Err(error), None) => return Err(error),
    };
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_expand(_: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let sizes = Shape::try_from(data.shape())?;
    let target: Vec<Dim> = required_input(inputs, 1)?.to_dims()?.iter().cloned().collect();
    let mut shape = Vec::new();
    for size in expand(&sizes, &target)? {
        let Some(known) = size.known() else { unsupported!("the size {size} is known only at run time") };
        shape.push(usize::try_from(known)?);
    }
    Ok(vec![data.broadcast(&shape)?])
}

// Tile

/// Returns the number of repetitions of each axis; version 1 gives one axis and its number.
fn repeats(
    attributes: &Attributes,
    rank: usize,
    input: impl Fn(usize) -> Result<Vec<Dim>>,
) -> Result<Vec<Dim>> {
    let first = input(1)?;
    if attributes.since() > 1 {
        if first.len() != rank {
            invalid!("{} repeats for {rank} axes", first.len());
        }
        return Ok(first);
    }
    let (Some(tiles), Some(Some(axis))) = (first.first(), input(2)?.first().map(Dim::known)) else {
        invalid!("tiles and axis have one element each");
    };
    let mut repeats = vec![Dim::Known(1); rank];
    if let Some(slot) = repeats.get_mut(resolve_axis(axis, rank)?) {
        slot.clone_from(tiles);
    }
    Ok(repeats)
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
    let input = |index| Ok(required_input(inputs, index)?.to_dims()?.iter().cloned().collect());
    for (axis, times) in repeats(attributes, data.shape().len(), input)?.iter().enumerate() {
        let Some(times) = times.known() else {
            unsupported!("the number of repeats {times} is known only at run time")
        };
        if times == 1 {
            continue;
        }
        let size = *data.shape().at(axis)?;
        let places: Vec<usize> = (0..times).flat_map(|_| 0..size).collect();
        data = data.take(axis, &places)?;
    }
    Ok(vec![data])
}

/// The sizes of input and output determine the repetitions.
fn lower_tile(lower: &mut Lower) -> Result<()> {
    let to = lower.output_shape(0)?.to_vec();
    let mut shape = vec![Dim::Known(1); to.len() - lower.shape(0)?.len()];
    shape.extend(lower.shape(0)?.iter().cloned());
    let blob = lower.blob(0)?;
    let blob = lower.broadcast_to(blob, &shape, &to)?;
    lower.set(0, blob)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_broadcast_from_the_end() {
        let known = |list: &[i64]| list.iter().copied().map(Dim::Known).collect::<Vec<_>>();
        assert_eq!(expand(&known(&[3, 1]), &known(&[2, 1, 6])).unwrap(), known(&[2, 3, 6]));
        assert_eq!(expand(&known(&[2, 3, 4]), &known(&[1])).unwrap(), known(&[2, 3, 4]));
        assert!(expand(&known(&[3]), &known(&[2])).is_err());
        let h = Dim::symbol("H");
        assert_eq!(expand(&known(&[1]), std::slice::from_ref(&h)).unwrap(), [h]);
    }
}
