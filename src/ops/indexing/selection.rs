//! Compress and NonZero: the elements of an input, which must be constant, determine the size of the output.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Compress.html>, `onnx__NonZero.html`.

use crate::error::ErrorCode;
use crate::op::{Move, Moved};
use crate::ops::prelude::*;
use crate::tensor::coordinates;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::moving("", "Compress", Access::Any, compressed)
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
fn kept(condition: &[i64], size: &Dim) -> Result<Vec<i64>> {
    let kept: Vec<i64> = (0..).zip(condition).filter(|(_, keep)| **keep != 0).map(|(at, _)| at).collect();
    if let Some(outside) = kept.last().filter(|last| size.known().is_some_and(|size| **last >= size)) {
        invalid!("the condition keeps element {outside} of an axis of size {size}");
    }
    Ok(kept)
}

/// Reads the axis; without one, the input is flattened.
pub(super) fn read_axis(call: &Call, rank: usize) -> Result<Option<usize>> {
    call.optional_int("axis")?.map(|axis| resolve_axis(axis, rank)).transpose()
}

fn compressed(call: &Call) -> Result<Vec<Moved>> {
    let shape = call.shape(0)?;
    let condition = call.int_list(1).map_err(unknown_size)?;
    let (axis, size, flattened) = match read_axis(call, shape.len())? {
        Some(axis) => (axis, shape.at(axis)?.clone(), None),
        None => {
            let count = Dim::product(shape);
            (0, count.clone(), Some(Move::Reshape(vec![count])))
        }
    };
    let indices = kept(&condition, &size)?;
    if let Some(last) = indices.last() {
        call.require(SizeCondition::at_least(&size, last + 1))?;
    }
    Ok(vec![Moved::by(flattened.into_iter().chain([Move::Pick { axis, indices }]))])
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
        assert_eq!(kept(&[0, 1], &5.into()).unwrap(), [1]);
        assert_eq!(kept(&[1, 0, 0, 0, 0, 0], &5.into()).unwrap(), [0]);
        assert!(kept(&[0, 0, 1], &2.into()).is_err());
    }
}
