//! Compress and NonZero: the elements of an input, which must be constant, determine the size of the output.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Compress.html>, `onnx__NonZero.html`.

use crate::error::ErrorCode;
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;
use crate::tensor::coordinates;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Compress", Access::Any, infer_compress)
        .fold(fold_compress)
        .lower(lower_compress)
        .tolerates_rounding(|_, _| true)
        .lowers_to("Crop, Concat")
        .limits("a condition computed at run time"),
    Row::new("NonZero", Access::Any, infer_non_zero)
        .lowers_to("a constant")
        .limits("elements computed at run time: they determine the size of the output"),
];

fn unknown_size(error: Error) -> Error {
    Error::unsupported("the size of the output is known only at run time")
        .code_is(ErrorCode::UNKNOWN_SHAPE)
        .caused_by(error)
}

/// Returns the indices that a condition keeps of an axis of `size`; a shorter condition drops the rest.
fn kept(condition: &[i64], size: usize) -> Result<Vec<usize>> {
    let kept: Vec<usize> =
        condition.iter().enumerate().filter(|(_, keep)| **keep != 0).map(|(at, _)| at).collect();
    if let Some(outside) = kept.last().filter(|index| **index >= size) {
        invalid!("the condition keeps element {outside} of an axis of size {size}");
    }
    Ok(kept)
}

/// Reads the axis; without one, the input is flattened.
pub(super) fn read_axis(call: &Call, rank: usize) -> Result<Option<usize>> {
    call.optional_int("axis")?.map(|axis| resolve_axis(axis, rank)).transpose()
}

fn infer_compress(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let axis = read_axis(call, shape.len())?;
    let condition = call.int_list(1).map_err(unknown_size)?;
    let count = Dim::from(condition.iter().filter(|keep| **keep != 0).count());
    let shape = match axis {
        Some(axis) => resized(shape, axis, count),
        None => vec![count],
    };
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_compress(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let condition = call.array(1)?.int_list()?;
    let (data, axis) = match read_axis(call, data.shape().len())? {
        Some(axis) => (data.clone(), axis),
        None => (data.reshape(&[data.len()])?, 0),
    };
    let size = *data.shape().at(axis)?;
    Ok(vec![data.gather(axis, &kept(&condition, size)?)?])
}

fn lower_compress(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?;
    let (shape, axis) = match read_axis(lower, shape.len())? {
        Some(axis) => (shape.to_vec(), axis),
        None => (vec![Dim::product(shape)], 0),
    };
    let size =
        shape.at(axis)?.known().ok_or_else(|| Error::unsupported("the size of the axis is not fixed"))?;
    let indices: Result<Vec<i64>> =
        kept(&lower.int_list(1)?, usize::try_from(size)?)?.into_iter().map(|index| Ok(index.int())).collect();
    lower.give(0, lower.input(0).reshape(shape).pick(axis, &indices?))
}

/// Infers a constant with a row per axis and a column per nonzero element.
fn infer_non_zero(call: &Call) -> Result<Vec<Fact>> {
    let data = call.required_constant(0).map_err(unknown_size)?.load_listed()?;
    let flags: Vec<bool> = match data.elements() {
        Elements::F32(a) => a.iter().map(|x| *x != 0.0).collect(),
        Elements::F64(a) => a.iter().map(|x| *x != 0.0).collect(),
        Elements::I64(a) => a.iter().map(|x| *x != 0).collect(),
        Elements::Dim(_) => return Err(Error::unsupported("its elements are free sizes")),
    };
    let shape = data.shape();
    let count = flags.iter().filter(|flag| **flag).count();
    let mut rows = vec![Vec::new(); shape.len()];
    for (at, _) in coordinates(shape).zip(flags).filter(|(_, flag)| *flag) {
        for (row, index) in rows.iter_mut().zip(at) {
            row.push(index.int());
        }
    }
    let indices = ndarray::ArrayD::from_shape_vec(vec![shape.len(), count], rows.concat())?;
    Ok(vec![Fact::constant(Tensor::from_array(&Array::i64(indices))?)])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_conditions_drop_the_rest() {
        assert_eq!(kept(&[0, 1], 5).unwrap(), [1]);
        assert_eq!(kept(&[1, 0, 0, 0, 0, 0], 5).unwrap(), [0]);
        assert!(kept(&[0, 0, 1], 2).is_err());
    }
}
