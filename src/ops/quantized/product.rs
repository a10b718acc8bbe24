//! Convolutions and matrix products of quantized values. Sums of products of bytes are exact integers: in
//! ncnn's int8 layers, which convert the sums to float32, and in float32 itself below 2^24.
//!
//! ncnn's int8 layers take integers from -127 to 127, and a byte has 256 values. Levels with all of them are
//! split into a part within these bounds and the excess, which is 0 or 1; the sums of both parts are added.

use num_traits::AsPrimitive;

use super::level::{Levels, constant_int, levels, minus};
use super::{axis_parameter, difference};
use crate::graph::Attribute;
use crate::ops::prelude::*;

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i64 = 127;

/// The indices of the inputs of a product.
#[derive(Clone, Copy)]
pub(super) struct InputIndices {
    pub x: usize,
    pub x_zero: usize,
    pub weight: usize,
    pub weight_zero: usize,
    /// Integers that are added to the sums.
    pub bias: Option<usize>,
}

/// The weights of an int8 layer.
struct Weights<'x> {
    /// The int8 values, with the outputs along the first axis.
    values: Expr<'x>,
    /// The sum of the weights of each output.
    sums: Vec<i64>,
}

/// The shift that brings levels within the bounds of ncnn's int8 layers.
struct Shift {
    /// The integer that is subtracted from the levels.
    by: i64,
    excess: Excess,
}

/// The side on which one shifted level exceeds the bounds.
#[derive(Clone, Copy, PartialEq)]
enum Excess {
    None,
    Above,
    Below,
}

/// Returns 0 if possible, which leaves the padding unchanged.
fn shift(low: i64, high: i64) -> Option<Shift> {
    let (by, excess) = if low >= -LARGEST && high <= LARGEST {
        (0, Excess::None)
    } else if high - low <= 2 * LARGEST {
        (low + LARGEST, Excess::None)
    } else if high - low > 2 * LARGEST + 1 {
        return None;
    } else if high == LARGEST {
        (0, Excess::Below)
    } else {
        (low + LARGEST, Excess::Above)
    };
    // The padding, `-by`, must be within the bounds too.
    (by.abs() <= LARGEST).then_some(Shift { by, excess })
}

/// Returns the weights of a product if they are constant bytes with one zero point and within ncnn's bounds.
/// `transposed`: the outputs are along the last of two axes.
fn weights<'x>(x: &'x Expand, indices: InputIndices, transposed: bool) -> Result<Option<Weights<'x>>> {
    let (Some(tensor), Some(zero)) = (x.constant(indices.weight), constant_int(x, indices.weight_zero)?)
    else {
        return Ok(None);
    };
    let dtype = tensor.dtype();
    if !matches!(dtype, DType::I8 | DType::U8) {
        return Ok(None);
    }
    let outputs = if transposed { tensor.shape().last() } else { tensor.shape().first() };
    let outputs = outputs.copied().unwrap_or(0);
    let elements = tensor.load_listed()?.int_list()?;
    let Some(each) = elements.len().checked_div(outputs).filter(|each| *each > 0) else { return Ok(None) };
    let mut sums = vec![0_i64; outputs];
    for (index, element) in elements.iter().enumerate() {
        let element = element - zero;
        if element.abs() > LARGEST {
            return Ok(None);
        }
        let output = if transposed { index % outputs } else { index / each };
        if let Some(sum) = sums.get_mut(output) {
            *sum += element;
        }
    }
    let mut values = x.operand(indices.weight);
    if zero != 0 || dtype != DType::I8 {
        values = (values.cast(DType::I32) - zero).cast(DType::I8);
    }
    if transposed {
        values = values.transpose(&[1, 0]);
    }
    Ok(Some(Weights { values, sums }))
}

/// Returns the bias of each output plus the contribution of the shift, or `None` if the bias is not constant.
fn shifted_bias(x: &Expand, indices: InputIndices, sums: &[i64], by: i64) -> Result<Option<Tensor>> {
    let bias = match indices.bias.filter(|index| x.has_input(*index)) {
        None => None,
        Some(index) => match x.constant(index) {
            Some(constant) => Some(constant.load_listed()?.int_list()?),
            None => return Ok(None),
        },
    };
    if bias.as_ref().is_some_and(|bias| bias.len() != sums.len()) {
        return Ok(None);
    }
    let bias = bias.iter().flatten().copied().chain(std::iter::repeat(0));
    let bias = sums.iter().zip(bias).map(|(sum, bias)| bias.saturating_add(sum.saturating_mul(by)).as_());
    Tensor::from_f32(&[sums.len()], bias.collect()).map(Some)
}

/// A product of levels by one int8 layer, or by two of them if a level exceeds the bounds.
struct Int8<'x> {
    op_type: &'static str,
    levels: Levels<'x>,
    shift: Shift,
    weights: Weights<'x>,
    bias: Tensor,
    attributes: Vec<(&'static str, Attribute)>,
}

impl<'x> Int8<'x> {
    fn read(
        x: &'x Expand,
        op_type: &'static str,
        indices: InputIndices,
        transposed: bool,
        attributes: &[(&'static str, Attribute)],
    ) -> Result<Option<Int8<'x>>> {
        let Some(zero) = constant_int(x, indices.x_zero)? else { return Ok(None) };
        let Some(weights) = weights(x, indices, transposed)? else { return Ok(None) };
        let levels = levels(x, indices.x, zero)?;
        let Some(shift) = shift(levels.low, levels.high) else { return Ok(None) };
        let Some(bias) = shifted_bias(x, indices, &weights.sums, shift.by)? else { return Ok(None) };
        Ok(Some(Int8 { op_type, levels, shift, weights, bias, attributes: attributes.to_vec() }))
    }

    fn emit(self) -> Result<Expr<'x>> {
        let Shift { by, excess } = self.shift;
        let level = self.levels.value;
        let sums = self.layer(minus(level, by), self.bias.clone(), -by)?;
        let excess = match excess {
            Excess::None => return Ok(sums),
            Excess::Above => minus(level, by + LARGEST).relu(),
            Excess::Below => minus(level, by - LARGEST).minimum(0.0),
        };
        Ok(sums + self.layer(excess, Tensor::all(0.0, self.bias.shape().to_vec())?, 0)?)
    }

    /// Returns the layer. Its scales are 1, so that it maps integers to integers.
    fn layer(&self, input: Expr<'x>, bias: Tensor, padding: i64) -> Result<Expr<'x>> {
        let make = input.builder;
        let scales = make.tensor(Tensor::all(1.0, bias.shape().to_vec())?);
        let attributes = [("scale", 1.0.into()), ("zero", padding.into())];
        let attributes = self.attributes.iter().cloned().chain(attributes);
        Ok(make.op(self.op_type, [input, self.weights.values, scales, make.tensor(bias)], attributes))
    }
}

/// Returns the sums of a convolution, integers in float32.
pub(super) fn convolve<'x>(x: &'x Expand, indices: InputIndices) -> Result<Expr<'x>> {
    let attributes = crate::ops::spatial::conv::conv_attributes(x);
    if let Some(sums) = convolve_int8(x, indices, &attributes)? {
        return Ok(sums);
    }
    let rank = x.shape(indices.x)?.len();
    let x_zero = zero_point(x, indices.x_zero, 1, rank)?;
    let weight_zero = zero_point(x, indices.weight_zero, 0, rank)?;
    let mut inputs = vec![difference(x, indices.x, x_zero), difference(x, indices.weight, weight_zero)];
    if let Some(bias) = indices.bias.filter(|index| x.has_input(*index)) {
        inputs.push(x.operand_as(bias, DType::F32));
    }
    let sum = x.make.op("Conv", inputs, attributes);
    // Winograd's transforms of kernels of 3x3 have fractions; the other sums are integers already.
    let kernel = x.shape(indices.weight)?.get(2..).unwrap_or_default();
    let is_winograd = kernel.len() == 2 && kernel.iter().all(|size| size.is(3));
    Ok(if is_winograd { sum.round() } else { sum })
}

/// Returns the zero point at input `index`, if there is one.
fn zero_point<'x>(x: &'x Expand, index: usize, axis: i64, rank: usize) -> Result<Option<Expr<'x>>> {
    x.has_input(index).then(|| axis_parameter(x, index, axis, rank)).transpose()
}

fn convolve_int8<'x>(
    x: &'x Expand,
    indices: InputIndices,
    attributes: &[(&'static str, Attribute)],
) -> Result<Option<Expr<'x>>> {
    let [batch, _, _, _] = x.shape(indices.x)? else { return Ok(None) };
    let [outputs, channels, _, _] = x.shape(indices.weight)? else { return Ok(None) };
    let group = x.int("group")?;
    let depth_wise = outputs.is(group) && channels.is(1);
    if !batch.is(1) || !(group == 1 || depth_wise) {
        return Ok(None);
    }
    // Two depth-wise int8 layers are slower than one in float32.
    let int8 = Int8::read(x, "ncnn.Int8Conv", indices, false, attributes)?
        .filter(|int8| group == 1 || int8.shift.excess == Excess::None);
    int8.map(Int8::emit).transpose()
}

/// Emits the sums of a product with a matrix, integers in float32, if an int8 layer can compute them.
/// `weight_transposed`: the outputs are along the first axis of the weight.
pub(super) fn multiply<'x>(
    x: &'x Expand,
    indices: InputIndices,
    weight_transposed: bool,
) -> Result<Option<Expr<'x>>> {
    let shape = x.shape(indices.x)?.to_vec();
    let weight_shape = x.shape(indices.weight)?.to_vec();
    let ([outer @ .., size], [rows, columns]) = (shape.as_slice(), weight_shape.as_slice()) else {
        return Ok(None);
    };
    let (outputs, summed) = if weight_transposed { (rows, columns) } else { (columns, rows) };
    if size != summed {
        return Ok(None);
    }
    let sizes: Option<Vec<i64>> = Dim::known_sizes(outer.iter().chain([size, outputs]));
    let Some(mut sizes) = sizes else { return Ok(None) };
    let Some(mut int8) = Int8::read(x, "ncnn.Int8Linear", indices, !weight_transposed, &[])? else {
        return Ok(None);
    };
    let size = sizes.remove(outer.len());
    if outer.len() == 1 {
        return int8.emit().map(Some);
    }
    int8.levels.value = int8.levels.value.reshape(&[-1, size]);
    Ok(Some(int8.emit()?.reshape(&sizes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn smallest_shift_within_bounds() {
        let cases = [
            ((-127, 127), Some((0, true))),
            ((0, 127), Some((0, true))),
            ((-128, 127), Some((0, false))),
            ((0, 255), Some((127, false))),
            ((-119, 136), Some((8, false))),
            ((0, 254), Some((127, true))),
            ((-300, 300), None),
        ];
        for ((low, high), expected) in cases {
            let found = shift(low, high).map(|shift| (shift.by, shift.excess == Excess::None));
            assert_eq!(found, expected, "{low} {high}");
        }
    }
}
