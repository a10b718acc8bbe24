//! Sparse constants, converted to dense ones.

use bytes::Bytes;

use crate::common::int::Int;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::tensor::{DType, Tensor};

/// Returns the dense tensor of `shape`, whose bytes are subtracted from `left`. `indices` have shape
/// `[count]`, row-major offsets, or `[count, axes]`.
pub(super) fn densify(
    shape: Vec<usize>,
    values: &Tensor,
    indices: &Tensor,
    left: &mut usize,
) -> Result<Tensor> {
    let dtype = values.dtype();
    let width = dtype.bits() / 8;
    if width == 0 {
        unsupported!("a sparse tensor of {dtype}");
    }
    let bytes = shape.iter().try_fold(width, |n, d| n.checked_mul(*d));
    let Some((bytes, fewer)) = bytes.and_then(|bytes| Some((bytes, left.checked_sub(bytes)?))) else {
        return Err(Error::limit(format!("a sparse tensor of shape {shape:?} is too large in dense form")));
    };
    if values.shape().len() != 1 || values.len() > bytes / width {
        invalid!("values of shape {:?} in a tensor of shape {shape:?}", values.shape());
    }
    *left = fewer;
    let offsets = read_offsets(&shape, values.len(), indices)?;
    let raw = values.to_raw()?;
    let mut dense = vec![0_u8; bytes];
    for (offset, element) in offsets.iter().zip(raw.chunks_exact(width)) {
        if let Some(target) = dense.chunks_exact_mut(width).nth(*offset) {
            target.copy_from_slice(element);
        }
    }
    Tensor::from_raw(dtype, shape, Bytes::from(dense))
}

/// Returns the row-major offsets of the values; they must ascend.
fn read_offsets(shape: &[usize], count: usize, indices: &Tensor) -> Result<Vec<usize>> {
    let rank = shape.len();
    let linear = indices.shape() == [count];
    if indices.dtype() != DType::I64 || !(linear || (indices.shape() == [count, rank] && rank > 0)) {
        invalid!(
            "{} indices of shape {:?} for {count} values in a tensor of {rank} axes",
            indices.dtype(),
            indices.shape()
        );
    }
    let sizes: Vec<i64> = shape.iter().map(Int::int).collect();
    let elements: i64 = sizes.iter().product();
    let list = indices.load()?.int_list()?;
    let offsets: Vec<i64> = match linear {
        true => list,
        false => list.chunks(rank).map(|index| offset_of(index, &sizes)).collect::<Result<_>>()?,
    };
    if !offsets.is_sorted_by(|a, b| a < b) {
        invalid!("the indices do not ascend");
    }
    if offsets.iter().any(|offset| !(0..elements).contains(offset)) {
        invalid!("an index is out of range for shape {shape:?}");
    }
    offsets.into_iter().map(|offset| Ok(usize::try_from(offset)?)).collect()
}

fn offset_of(index: &[i64], sizes: &[i64]) -> Result<i64> {
    let mut offset = 0_i64;
    for (axis, size) in sizes.iter().enumerate() {
        let i = *index.at(axis)?;
        if !(0..*size).contains(&i) {
            invalid!("index {i} is out of range for an axis of size {size}");
        }
        // Below the number of elements, which was checked.
        offset = offset.saturating_mul(*size).saturating_add(i);
    }
    Ok(offset)
}
