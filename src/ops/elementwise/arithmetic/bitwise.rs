//! Bitwise operations: each integer becomes a row of bits, and the resulting rows are summed.

use crate::lower::Formula;
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

/// Returns 1 where two bits differ.
pub(super) fn different(a: BlobId, b: BlobId) -> Formula {
    (a - b).abs()
}

/// Lowers an operation that is the formula `combine` of bits.
pub(super) fn lower_bitwise(lower: &mut Lower, combine: fn(BlobId, BlobId) -> Formula) -> Result<()> {
    lower.compute_in_float32();
    let dtype = lower.dtype(0)?;
    if dtype.bits() > 16 {
        unsupported!("the bits of {dtype} at run time: float32 represents only 24 of them");
    }
    let weights = bit_weights(dtype)?;
    let count = Dim::try_from(weights.len())?;
    let steps =
        Tensor::from_f32(&[weights.len()], weights.iter().map(|weight| weight.abs().recip()).collect())?;
    let steps = lower.memory_data(&steps, &[Dim::Known(1), count.clone()])?;
    let (a, b) = (bit_rows(lower, 0, steps)?, bit_rows(lower, 1, steps)?);
    let chosen = lower.compute(combine(a, b))?;
    let weights = Tensor::from_f32(&[weights.len()], weights)?;
    let weights = lower.memory_data(&weights, &[Dim::Known(1), count])?;
    let sum = lower.reduce(reduction_op::SUM, chosen * weights, &[1])?;
    lower.set(0, sum)
}

/// Returns the value of each bit, the lowest first; that of the sign bit is negative.
fn bit_weights(dtype: DType) -> Result<Vec<f32>> {
    let sign = i32::from(!dtype.is_unsigned());
    let digits = bits(dtype)? - sign;
    let mut weights: Vec<f32> = (0..digits).map(|bit| 2_f32.powi(bit)).collect();
    if sign == 1 {
        weights.push(-(2_f32.powi(digits)));
    }
    Ok(weights)
}

/// Emits the bits of each element of an input along a new axis: `floor(x / 2^k) - 2 * floor(x / 2^(k + 1))`.
fn bit_rows(lower: &mut Lower, index: usize, steps: BlobId) -> Result<BlobId> {
    let one = Dim::product(lower.shape(index)?)?.is(1);
    let x = if one { lower.blob(index)? } else { lower.broadcast_input(index)? };
    let rows = Dim::product(&lower.form(x))?;
    let column = lower.reshape(x, &[rows, Dim::Known(1)])?;
    let shifted = lower.compute((column * steps).floor())?;
    lower.compute(shifted - (shifted * 0.5).floor() * 2.0)
}

/// Returns the number of bits of an integer type.
pub(super) fn bits(dtype: DType) -> Result<i32> {
    Ok(i32::try_from(dtype.bits())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bit_weights_span_the_range_of_the_type() {
        for (dtype, least, most) in
            [(DType::U8, 0.0, 255.0), (DType::I8, -128.0, 127.0), (DType::I16, -32_768.0, 32_767.0)]
        {
            let weights = bit_weights(dtype).unwrap();
            let sum = |keep: fn(&f32) -> bool| weights.iter().copied().filter(keep).sum::<f32>();
            assert_eq!((sum(|w| *w < 0.0), sum(|w| *w > 0.0)), (least, most), "{dtype}");
        }
    }
}
