//! Convolutions and matrix products of quantized values. Sums of products of bytes are exact integers: in
//! ncnn's int8 layers, which convert the sums to float32, and in float32 itself below 2^24.
//!
//! ncnn's int8 layers take integers from -127 to 127, and a byte has 256 values. Levels with all of them are
//! split into a part within these bounds and the excess, which is 0 or 1; the sums of both parts are added.

use num_traits::AsPrimitive;

use super::level::{Levels, constant_int, levels, minus, scalar};
use super::{axis_parameter, difference};
use crate::error::Result;
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, Tensor};

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i64 = 127;

/// The indices of the inputs of a product.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub x: usize,
    pub x_zero: usize,
    pub weight: usize,
    pub weight_zero: usize,
    /// Integers that are added to the sums.
    pub bias: Option<usize>,
}

/// The weights of an int8 layer.
struct Weights {
    /// The int8 values, with the outputs along the first axis.
    operand: Operand,
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
fn shift(levels: &Levels) -> Option<Shift> {
    let (low, high) = (levels.low, levels.high);
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
fn weights(x: &Expand, places: Places, transposed: bool) -> Result<Option<Weights>> {
    let (Some(tensor), Some(zero)) = (x.constant(places.weight), constant_int(x, places.weight_zero)?) else {
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
    let mut operand = x.raw_operand(places.weight)?;
    if zero != 0 || dtype != DType::I8 {
        operand = x.raw_cast(operand, DType::I32)?;
        let zero = x.raw_ints(&[zero])?;
        let zero = x.raw_cast(zero, DType::I32)?;
        operand = x.raw_op("Sub", &[operand, zero], &[])?;
        operand = x.raw_cast(operand, DType::I8)?;
    }
    if transposed {
        operand = x.raw_transpose(operand, &[1, 0])?;
    }
    Ok(Some(Weights { operand, sums }))
}

/// Returns the bias of each output plus the contribution of the shift, or `None` if the bias is not constant.
fn shifted_bias(x: &Expand, places: Places, sums: &[i64], by: i64) -> Result<Option<Tensor>> {
    let given = match places.bias.filter(|index| x.has_input(*index)) {
        None => None,
        Some(index) => match x.constant(index) {
            Some(constant) => Some(constant.load_listed()?.int_list()?),
            None => return Ok(None),
        },
    };
    if given.as_ref().is_some_and(|given| given.len() != sums.len()) {
        return Ok(None);
    }
    let given = given.iter().flatten().copied().chain(std::iter::repeat(0));
    let bias = sums.iter().zip(given).map(|(sum, bias)| bias.saturating_add(sum.saturating_mul(by)).as_());
    Tensor::from_f32(&[sums.len()], bias.collect()).map(Some)
}

/// A product of levels by one int8 layer, or by two of them if a level exceeds the bounds.
struct Int8 {
    op_type: &'static str,
    levels: Levels,
    shift: Shift,
    weights: Weights,
    bias: Tensor,
    attributes: Vec<(&'static str, Attribute)>,
}

impl Int8 {
    fn read(
        x: &Expand,
        op_type: &'static str,
        places: Places,
        transposed: bool,
        attributes: &[(&'static str, Attribute)],
    ) -> Result<Option<Int8>> {
        let Some(zero) = constant_int(x, places.x_zero)? else { return Ok(None) };
        let Some(weights) = weights(x, places, transposed)? else { return Ok(None) };
        let levels = levels(x, places.x, zero)?;
        let Some(shift) = shift(&levels) else { return Ok(None) };
        let Some(bias) = shifted_bias(x, places, &weights.sums, shift.by)? else { return Ok(None) };
        Ok(Some(Int8 { op_type, levels, shift, weights, bias, attributes: attributes.to_vec() }))
    }

    fn emit(self, x: &Expand) -> Result<Operand> {
        let shifted = minus(x, self.levels.operand, self.shift.by)?;
        let sums = self.layer(x, shifted, self.bias.clone(), -self.shift.by)?;
        let excess = match self.shift.excess {
            Excess::None => return Ok(sums),
            Excess::Above => {
                let above = minus(x, self.levels.operand, self.shift.by + LARGEST)?;
                x.raw_op("Relu", &[above], &[])?
            }
            Excess::Below => {
                let below = minus(x, self.levels.operand, self.shift.by - LARGEST)?;
                let zero = scalar(x, 0.0)?;
                x.raw_op("Min", &[below, zero], &[])?
            }
        };
        let no_bias = Tensor::all(0.0, self.bias.shape().to_vec())?;
        let excess = self.layer(x, excess, no_bias, 0)?;
        x.raw_op("Add", &[sums, excess], &[])
    }

    /// Emits the layer. Its scales are 1, so that it maps integers to integers.
    fn layer(&self, x: &Expand, input: Operand, bias: Tensor, padding: i64) -> Result<Operand> {
        let scales = x.raw_tensor(Tensor::all(1.0, bias.shape().to_vec())?)?;
        let bias = x.raw_tensor(bias)?;
        let mut attributes = self.attributes.clone();
        attributes.push(("scale", Attribute::Float(1.0)));
        attributes.push(("zero", Attribute::Int(padding)));
        x.raw_own_op(self.op_type, &[input, self.weights.operand, scales, bias], &attributes)
    }
}

/// Emits the sums of a convolution, integers in float32.
pub(super) fn convolve(x: &Expand, places: Places) -> Result<Operand> {
    let attributes = crate::ops::spatial::conv::conv_attributes(x);
    if let Some(sums) = convolve_int8(x, places, &attributes)? {
        return Ok(sums);
    }
    let rank = x.shape(places.x)?.len();
    let x_zero = zero_point(x, places.x_zero, 1, rank)?;
    let weight_zero = zero_point(x, places.weight_zero, 0, rank)?;
    let (input, weight) = (difference(x, places.x, x_zero)?, difference(x, places.weight, weight_zero)?);
    let mut inputs = vec![input, weight];
    if let Some(bias) = places.bias.filter(|index| x.has_input(*index)) {
        inputs.push(x.raw_operand_as(bias, DType::F32)?);
    }
    let sum = x.raw_op("Conv", &inputs, &attributes)?;
    // Winograd's transforms of kernels of 3x3 have fractions; the other sums are integers already.
    let kernel = x.shape(places.weight)?.get(2..).unwrap_or_default();
    if kernel.len() == 2 && kernel.iter().all(|size| size.is(3)) {
        return x.raw_op("Round", &[sum], &[]);
    }
    Ok(sum)
}

/// Emits the zero point at input `index`, if there is one.
fn zero_point(x: &Expand, index: usize, axis: i64, rank: usize) -> Result<Option<Operand>> {
    if !x.has_input(index) {
        return Ok(None);
    }
    axis_parameter(x, index, axis, rank).map(Some)
}

fn convolve_int8(
    x: &Expand,
    places: Places,
    attributes: &[(&'static str, Attribute)],
) -> Result<Option<Operand>> {
    let [batch, _, _, _] = x.shape(places.x)? else { return Ok(None) };
    let [outputs, channels, _, _] = x.shape(places.weight)? else { return Ok(None) };
    let group = x.int_or("group", 1)?;
    let depth_wise = outputs.is(group) && channels.is(1);
    if !batch.is(1) || !(group == 1 || depth_wise) {
        return Ok(None);
    }
    // Two depth-wise int8 layers are slower than one in float32.
    let int8 = Int8::read(x, "Int8Conv", places, false, attributes)?
        .filter(|int8| group == 1 || int8.shift.excess == Excess::None);
    int8.map(|int8| int8.emit(x)).transpose()
}

/// Emits the sums of a product with a matrix, integers in float32, if an int8 layer can compute them.
/// `weight_transposed`: the outputs are along the first axis of the weight.
pub(super) fn multiply(x: &Expand, places: Places, weight_transposed: bool) -> Result<Option<Operand>> {
    let shape = x.shape(places.x)?.to_vec();
    let weight_shape = x.shape(places.weight)?.to_vec();
    let ([outer @ .., size], [rows, columns]) = (shape.as_slice(), weight_shape.as_slice()) else {
        return Ok(None);
    };
    let outputs = if weight_transposed { rows } else { columns };
    let sizes: Option<Vec<i64>> = outer.iter().chain([size, outputs]).map(Dim::known).collect();
    let Some(mut sizes) = sizes else { return Ok(None) };
    let Some(mut int8) = Int8::read(x, "Int8Linear", places, !weight_transposed, &[])? else {
        return Ok(None);
    };
    let size = sizes.remove(outer.len());
    if outer.len() == 1 {
        return int8.emit(x).map(Some);
    }
    int8.levels.operand = x.raw_reshape(int8.levels.operand, &[-1, size])?;
    let sums = int8.emit(x)?;
    x.raw_reshape(sums, &sizes).map(Some)
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
            let levels = Levels { operand: crate::common::index::Index::of(0), low, high };
            let found = shift(&levels).map(|shift| (shift.by, shift.excess == Excess::None));
            assert_eq!(found, expected, "{low} {high}");
        }
    }
}
