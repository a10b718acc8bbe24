//! Convolutions and linear maps of quantized values. Sums of products of bytes are integers, and computed exactly: by ncnn's
//! int8 layers, which make floats of them when they are summed up, or in floats, which hold integers below 2^24.
//!
//! ncnn's int8 layers take numbers from -127 to 127, ONNX's bytes have 256 values. Bytes that may have all of them are two numbers: one
//! within these bounds, and one for the last value, which is 0 or 1. Both are multiplied, and the sums added.

use num_traits::AsPrimitive;

use super::level::{Levels, constant_int, levels, number, whole};
use super::{cast, channel_parameter, difference};
use crate::error::Result;
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, Tensor};

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: i64 = 127;

/// Where the inputs of a product stand.
#[derive(Clone, Copy)]
pub(super) struct Places {
    pub x: usize,
    pub x_zero: usize,
    pub weight: usize,
    pub weight_zero: usize,
    /// Whole numbers that are added to the sums.
    pub bias: Option<usize>,
}

/// Weights that ncnn multiplies as integers.
struct Weights {
    /// In int8, the outputs along the first axis.
    operand: Operand,
    /// What the weights of each output add up to.
    sums: Vec<i64>,
}

/// How levels are brought within the bounds of ncnn's integers.
struct Shift {
    /// The levels are moved down by this.
    by: i64,
    /// The one level that is still out of the bounds.
    beyond: Beyond,
}

#[derive(Clone, Copy, PartialEq)]
enum Beyond {
    Nothing,
    Above,
    Below,
}

/// The smallest shift: none keeps padding what it is.
fn shift(levels: &Levels) -> Option<Shift> {
    let (low, high) = (levels.low, levels.high);
    let (by, beyond) = if low >= -LARGEST && high <= LARGEST {
        (0, Beyond::Nothing)
    } else if high - low <= 2 * LARGEST {
        (low + LARGEST, Beyond::Nothing)
    } else if high - low > 2 * LARGEST + 1 {
        return None;
    } else if high == LARGEST {
        (0, Beyond::Below)
    } else {
        (low + LARGEST, Beyond::Above)
    };
    // Padding is a number, too.
    (by.abs() <= LARGEST).then_some(Shift { by, beyond })
}

/// The weights of a product, where they are constants of bytes about one zero point and none is beyond what ncnn multiplies.
/// `transposed`: the outputs lie along the last of two axes.
fn weights(x: &mut Expand, places: Places, transposed: bool) -> Result<Option<Weights>> {
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
    let mut operand = x.operand(places.weight)?;
    if zero != 0 || dtype != DType::I8 {
        operand = cast(x, operand, DType::I32)?;
        let zero = x.ints(&[zero])?;
        let zero = cast(x, zero, DType::I32)?;
        operand = x.op("Sub", &[operand, zero], &[])?;
        operand = cast(x, operand, DType::I8)?;
    }
    if transposed {
        operand = x.transpose(operand, &[1, 0])?;
    }
    Ok(Some(Weights { operand, sums }))
}

/// The bias of each output, together with what moving the levels takes from the sums. None where it is not constant.
fn moved_bias(x: &Expand, places: Places, sums: &[i64], by: i64) -> Result<Option<Tensor>> {
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

/// A product by an int8 layer, or by two of them: the operands of one that take the place of `Conv` or `Gemm` over levels.
struct Int8<'a> {
    op_type: &'static str,
    levels: Levels,
    shift: Shift,
    weights: Weights,
    bias: Tensor,
    attributes: Vec<(&'a str, Attribute)>,
}

impl Int8<'_> {
    fn emit(self, x: &mut Expand) -> Result<Operand> {
        let moved = moved_down(x, self.levels.operand, self.shift.by)?;
        let most = self.layer(x, moved, self.bias.clone(), -self.shift.by)?;
        let rest = match self.shift.beyond {
            Beyond::Nothing => return Ok(most),
            Beyond::Above => {
                let above = moved_down(x, self.levels.operand, self.shift.by + LARGEST)?;
                x.op("Relu", &[above], &[])?
            }
            Beyond::Below => {
                let below = moved_down(x, self.levels.operand, self.shift.by - LARGEST)?;
                let zero = number(x, 0.0)?;
                x.op("Min", &[below, zero], &[])?
            }
        };
        let no_bias = Tensor::all(0.0, self.bias.shape().to_vec())?;
        let rest = self.layer(x, rest, no_bias, 0)?;
        x.op("Add", &[most, rest], &[])
    }

    /// The layer, where padding is `padding`. Its scales are 1: it is given integers, and gives integers.
    fn layer(&self, x: &mut Expand, input: Operand, bias: Tensor, padding: i64) -> Result<Operand> {
        let scales = x.tensor(Tensor::all(1.0, bias.shape().to_vec())?)?;
        let bias = x.tensor(bias)?;
        let mut attributes = self.attributes.clone();
        attributes.push(("scale", Attribute::Float(1.0)));
        attributes.push(("zero", Attribute::Int(padding)));
        x.own_op(self.op_type, &[input, self.weights.operand, scales, bias], &attributes)
    }
}

fn moved_down(x: &mut Expand, operand: Operand, by: i64) -> Result<Operand> {
    if by == 0 {
        return Ok(operand);
    }
    let by = whole(x, by)?;
    x.op("Sub", &[operand, by], &[])
}

/// The sums of a convolution, integers in floats.
pub(super) fn convolve(x: &mut Expand, places: Places) -> Result<Operand> {
    let attributes = crate::ops::spatial::conv::conv_attributes(x);
    if let Some(sums) = convolve_int8(x, places, &attributes)? {
        return Ok(sums);
    }
    let rank = x.shape(places.x)?.len();
    let x_zero = channel_zero(x, places.x_zero, 1, rank)?;
    let weight_zero = channel_zero(x, places.weight_zero, 0, rank)?;
    let (input, weight) = (difference(x, places.x, x_zero)?, difference(x, places.weight, weight_zero)?);
    let mut inputs = vec![input, weight];
    if let Some(bias) = places.bias.filter(|index| x.has_input(*index)) {
        let bias = x.operand(bias)?;
        inputs.push(cast(x, bias, DType::F32)?);
    }
    let sum = x.op("Conv", &inputs, &attributes)?;
    // Winograd's transforms have fractions; elsewhere sums are whole already.
    let kernel = x.shape(places.weight)?.get(2..).unwrap_or_default();
    if kernel.len() == 2 && kernel.iter().all(|size| size.is(3)) {
        return x.op("Round", &[sum], &[]);
    }
    Ok(sum)
}

fn channel_zero(x: &mut Expand, index: usize, axis: usize, rank: usize) -> Result<Option<Operand>> {
    if !x.has_input(index) {
        return Ok(None);
    }
    channel_parameter(x, index, axis, rank).map(Some)
}

fn convolve_int8(
    x: &mut Expand,
    places: Places,
    attributes: &[(&'static str, Attribute)],
) -> Result<Option<Operand>> {
    let Some(zero) = constant_int(x, places.x_zero)? else { return Ok(None) };
    let [batch, _, _, _] = x.shape(places.x)? else { return Ok(None) };
    let [outputs, channels, _, _] = x.shape(places.weight)? else { return Ok(None) };
    let group = x.int_or("group", 1)?;
    let depth_wise = outputs.is(group) && channels.is(1);
    if !batch.is(1) || !(group == 1 || depth_wise) {
        return Ok(None);
    }
    let Some(weights) = weights(x, places, false)? else { return Ok(None) };
    let levels = levels(x, places.x, zero)?;
    let Some(shift) = shift(&levels) else { return Ok(None) };
    // Two layers of integers take longer than one of floats where each weight is used for one channel only.
    if group != 1 && shift.beyond != Beyond::Nothing {
        return Ok(None);
    }
    let Some(bias) = moved_bias(x, places, &weights.sums, shift.by)? else { return Ok(None) };
    let attributes = attributes.to_vec();
    Int8 { op_type: "Int8Conv", levels, shift, weights, bias, attributes }.emit(x).map(Some)
}

/// The sums of a product with a matrix, of which input `places.weight` is the transposed one where that is said. Whole numbers in
/// floats.
pub(super) fn multiply(x: &mut Expand, places: Places, weight_transposed: bool) -> Result<Option<Operand>> {
    let Some(zero) = constant_int(x, places.x_zero)? else { return Ok(None) };
    let shape = x.shape(places.x)?.to_vec();
    let weight_shape = x.shape(places.weight)?.to_vec();
    let ([outer @ .., size], [rows, columns]) = (shape.as_slice(), weight_shape.as_slice()) else {
        return Ok(None);
    };
    let outputs = if weight_transposed { rows } else { columns };
    let sizes: Option<Vec<i64>> = outer.iter().chain([size, outputs]).map(Dim::known).collect();
    let Some(mut sizes) = sizes else { return Ok(None) };
    let Some(weights) = weights(x, places, !weight_transposed)? else { return Ok(None) };
    let mut levels = levels(x, places.x, zero)?;
    let Some(shift) = shift(&levels) else { return Ok(None) };
    let Some(bias) = moved_bias(x, places, &weights.sums, shift.by)? else { return Ok(None) };
    let size = sizes.remove(outer.len());
    if outer.len() != 1 {
        levels.operand = x.reshape(levels.operand, &[-1, size])?;
    }
    let sums =
        Int8 { op_type: "Int8Linear", levels, shift, weights, bias, attributes: Vec::new() }.emit(x)?;
    if outer.len() == 1 {
        return Ok(Some(sums));
    }
    x.reshape(sums, &sizes).map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_moved_within_the_bounds() {
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
            let levels = Levels { operand: Operand::New(0), low, high };
            let found = shift(&levels).map(|shift| (shift.by, shift.beyond == Beyond::Nothing));
            assert_eq!(found, expected, "{low} {high}");
        }
    }
}
