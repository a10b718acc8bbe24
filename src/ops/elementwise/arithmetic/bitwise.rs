//! Bitwise operations: each integer becomes a row of bits, and the resulting rows are summed.

use crate::lower::Formula;
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

/// An operation on two bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bitwise {
    And,
    Or,
    Xor,
}

impl Bitwise {
    /// Returns the operation on bits that are 0 or 1.
    fn of(self, a: BlobId, b: BlobId) -> Formula {
        match self {
            Bitwise::And => a * b,
            Bitwise::Or => a.maximum(b),
            Bitwise::Xor => (a - b).abs(),
        }
    }

    /// Returns the largest result if it is never negative, and has only the lowest 24 bits.
    fn largest(self, [a, b]: [Range; 2]) -> Option<f64> {
        let largest = |range: Range| {
            (range.least >= 0.0 && range.most < Range::EXACT_INTEGERS.most).then_some(range.most)
        };
        match (self, largest(a), largest(b)) {
            (Bitwise::And, Some(a), Some(b)) => Some(a.min(b)),
            (Bitwise::And, one, other) => one.or(other),
            (_, Some(a), Some(b)) => Some(whole_bits(a.max(b))),
            _ => None,
        }
    }

    /// Returns the range of the result.
    pub fn range(self, inputs: &[Range]) -> Range {
        let ranges = <[Range; 2]>::try_from(inputs).ok();
        let largest = ranges.and_then(|ranges| self.largest(ranges));
        largest.map_or(Range::ANY, |most| Range { least: 0.0, most })
    }
}

/// Returns the least number above or equal to `most` of which all bits are 1.
fn whole_bits(most: f64) -> f64 {
    (0..).map(|bits| libm::exp2(f64::from(bits)) - 1.0).find(|whole| *whole >= most).unwrap_or(f64::INFINITY)
}

/// Lowers an operation on the bits of two inputs. Bits above the largest result decide nothing.
pub(super) fn lower_bitwise(lower: &Lower, operation: Bitwise) -> Result<()> {
    lower.compute_in_float32();
    let dtype = lower.dtype(0)?;
    let weights = match operation.largest([lower.range(0), lower.range(1)]) {
        Some(largest) => {
            bit_weights(DType::U32)?.into_iter().take_while(|w| f64::from(*w) <= largest.max(1.0)).collect()
        }
        None if dtype.bits() > 16 => {
            unsupported!("the bits of {dtype} at run time: float32 represents only 24 of them")
        }
        None => bit_weights(dtype)?,
    };
    let row = |row: Vec<f32>| lower.tensor(Tensor::from_f32(&[1, row.len()], row));
    let steps = row(weights.iter().map(|weight| weight.abs().recip()).collect());
    let shape = lower.output_shape(0)?;
    let bits = [0, 1].map(|index| {
        let x = lower.input(index);
        let is_single = Dim::product(&x.shape()).is(1);
        bit_rows(if is_single { x } else { x.stretch(shape) }, steps)
    });
    let chosen = bits[0].compute_with(bits[1], |a, b| operation.of(a, b));
    let sum = (chosen * row(weights)).reduce(reduction_op::SUM, &[1]);
    lower.give(0, sum.reshape(shape))
}

/// Returns the value of each bit, the lowest first. The value of the sign bit is negative.
fn bit_weights(dtype: DType) -> Result<Vec<f32>> {
    let sign = i32::from(!dtype.is_unsigned());
    let digits = bits(dtype)? - sign;
    let mut weights: Vec<f32> = (0..digits).map(|bit| 2_f32.powi(bit)).collect();
    if sign == 1 {
        weights.push(-(2_f32.powi(digits)));
    }
    Ok(weights)
}

/// Returns the bits of each element along a second axis: `floor(x / 2^k) - 2 * floor(x / 2^(k + 1))`.
fn bit_rows<'l>(x: Nd<'l>, steps: Nd<'l>) -> Nd<'l> {
    let column = x.reshape([Dim::product(&x.shape()), Dim::ONE]);
    let shifted = column.compute_with(steps, |x, steps| (x * steps).floor());
    shifted.compute(|shifted| shifted - (shifted * 0.5).floor() * 2.0)
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

    #[test]
    fn results_are_bounded_by_masks() {
        let to = |most| Range { least: 0.0, most };
        for (operation, a, b, most) in [
            (Bitwise::And, Range::ANY, to(5.0), Some(5.0)),
            (Bitwise::And, to(1.0), to(255.0), Some(1.0)),
            (Bitwise::Or, to(4.0), to(9.0), Some(15.0)),
            (Bitwise::Xor, Range::ANY, to(9.0), None),
            (Bitwise::And, to(f64::from(1 << 24)), Range::ANY, None),
        ] {
            assert_eq!(operation.largest([a, b]), most, "{operation:?}");
        }
    }
}
