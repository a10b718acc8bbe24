//! Quantized operators, computed in float32, in which integers of up to 24 bits are exact.
//!
//! Refused: a second rounding (see `pass::rounding`).
//! <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>

mod blocks;
mod contrib;
mod kept;
mod level;
mod mixed;
mod nearest;
mod packed;
mod product;

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, CONTRIB_DOMAIN as MICROSOFT, Call, Fact, OWN_DOMAIN, resolve_axis};
use crate::ops::Row;
use crate::ops::linear::matmul::matmul_shape;
use crate::ops::spatial::conv::conv_shape;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

use level::{Target, constant_int, int_scalar, levels, requantize, scalar};
use product::{Places, convolve, multiply};

pub(in crate::ops) use blocks::OPS as BLOCKS;
pub(in crate::ops) use contrib::OPS as CONTRIB;
pub(in crate::ops) use mixed::OPS as MIXED;
pub(in crate::ops) use packed::OPS as PACKED;

// `precision` concerns the rounding of a division, which is done in float32 here.
const QUANTIZE: Row =
    Row::new("QuantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], Access::Any, infer_quantize)
        .expand(expand_quantize)
        .rounds()
        .exact()
        .ignore(&["precision"])
        .lowers_to("UnaryOp ROUND of x / scale, plus the zero point, Clip; Cast to floats of 8 and 4 bits")
        .limits("a second rounding, of values not computed in integers");
const DEQUANTIZE: Row =
    Row::new("DequantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], Access::Any, infer_dequantize)
        .expand(expand_dequantize)
        .exact()
        .lowers_to("(x - zero point) * scale")
        .limits("blocks along an axis of free size");

pub(in crate::ops) const OPS: &[Row] = &[
    QUANTIZE,
    DEQUANTIZE,
    QUANTIZE.domain(MICROSOFT).since(&[1]),
    DEQUANTIZE.domain(MICROSOFT).since(&[1]),
    Row::new("DynamicQuantizeLinear", &[11], Access::Any, infer_dynamic)
        .required_outputs(usize::MAX)
        .expand(expand_dynamic)
        .rounds()
        .exact()
        .lowers_to("ReduceMin, ReduceMax, then QuantizeLinear")
        .limits("a second rounding"),
    Row::new("QLinearMatMul", &[10, 21], Access::Any, infer_qlinear_matmul)
        .expand(expand_qlinear_matmul)
        .rounds()
        .exact()
        .lowers_to("MatMul of the differences to the zero points, QuantizeLinear")
        .limits("a second rounding, of values not computed in integers"),
    Row::new("QLinearConv", &[10], Access::Any, infer_qlinear_conv)
        .expand(expand_qlinear_conv)
        .rounds()
        .exact()
        .lowers_to("Conv of the differences to the zero points, QuantizeLinear")
        .limits("a second rounding"),
    Row::new("ConvInteger", &[10], Access::Any, infer_conv_integer)
        .expand(expand_conv_integer)
        .exact()
        .lowers_to("Convolution in int8, or Conv of the differences to the zero points"),
    Row::new("Levels", &[1], Access::Any, level::infer_levels)
        .domain(OWN_DOMAIN)
        .precise(|_, _| true)
        .lower(level::lower_levels)
        .lowers_to("BinaryOp that adds the zero point"),
];

/// The layout of scale and zero point along the input.
struct Granularity {
    axis: i64,
    /// The number of elements along the axis that share a scale. 0: all for a scalar scale, one for a vector.
    block_size: i64,
}

fn read_granularity(call: &Call) -> Result<Granularity> {
    let from = |version: i64| call.since() >= version && call.node().domain.is_empty();
    // onnxruntime's operators have an axis in every version, and no blocks.
    let has_axis = from(13) || call.node().domain == MICROSOFT;
    let axis = if has_axis { call.int_or("axis", 1)? } else { 1 };
    let block_size = if from(21) { call.int_or("block_size", 0)? } else { 0 };
    Ok(Granularity { axis, block_size })
}

fn read_output_dtype(call: &Call) -> Result<Option<DType>> {
    if call.since() < 21 || call.node().domain == MICROSOFT {
        return Ok(None);
    }
    match call.int_or("output_dtype", 0)? {
        0 => Ok(None),
        code => i32::try_from(code).ok().and_then(DType::from_onnx).map(Some).ok_or_else(|| {
            Error::invalid(format!("the element type {code}")).at_part("attribute output_dtype")
        }),
    }
}

fn infer_quantize(call: &Call) -> Result<Vec<Fact>> {
    read_granularity(call)?;
    let dtype = match read_output_dtype(call)? {
        Some(dtype) => dtype,
        None if call.has_input(2) => call.dtype(2)?,
        None => DType::U8,
    };
    if dtype.bits() > if dtype.is_float() { 8 } else { 16 } {
        invalid!("quantization to {dtype}");
    }
    Ok(vec![Fact::new(dtype, call.shape(0)?.to_vec())])
}

fn infer_dequantize(call: &Call) -> Result<Vec<Fact>> {
    read_granularity(call)?;
    let dtype = read_output_dtype(call)?.map_or_else(|| call.dtype(1), Ok)?;
    Ok(vec![Fact::new(dtype, call.shape(0)?.to_vec())])
}

/// Emits scale or zero point, input `index`, as float32 in a shape that broadcasts to input 0.
fn parameter(x: &Expand, index: usize, granularity: &Granularity) -> Result<Operand> {
    let (shape, parameter) = (x.shape(0)?.to_vec(), x.shape(index)?.to_vec());
    if parameter.iter().all(|d| d.is(1)) || parameter.len() == 1 && granularity.block_size == 0 {
        return axis_parameter(x, index, granularity.axis, shape.len());
    }
    let axis = resolve_axis(granularity.axis, shape.len())?;
    if parameter.len() != shape.len() || granularity.block_size <= 0 {
        unsupported!("a scale of {} axes for an input of {}", parameter.len(), shape.len());
    }
    // Blocks: each element of the parameter is repeated `block_size` times along the axis.
    let known = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<i64>>>();
    let (Some(mut merged), Some(sizes)) = (known(&parameter), known(&shape)) else {
        unsupported!("blocks along an axis of free size");
    };
    let (mut split, mut repeated) = (merged.clone(), merged.clone());
    split.insert(axis + 1, 1);
    repeated.insert(axis + 1, granularity.block_size);
    if let Some(size) = merged.get_mut(axis) {
        *size = size.saturating_mul(granularity.block_size);
    }
    let operand = x.raw_operand_as(index, DType::F32)?;
    let operand = x.raw_reshape(operand, &split)?;
    let repeated = x.raw_ints(&repeated)?;
    let operand = x.raw_op("Expand", &[operand, repeated], &[])?;
    let operand = x.raw_reshape(operand, &merged)?;
    // The last block may be shorter.
    first(x, operand, i64::try_from(axis)?, *sizes.at(axis)?)
}

/// Emits the first `size` elements of an axis.
fn first(x: &Expand, operand: Operand, axis: i64, size: i64) -> Result<Operand> {
    let (start, end, axes) = (x.raw_ints(&[0])?, x.raw_ints(&[size])?, x.raw_ints(&[axis])?);
    x.raw_op("Slice", &[operand, start, end, axes], &[])
}

/// Emits a scalar parameter, or a vector along an axis of `rank` axes, as float32.
fn axis_parameter(x: &Expand, index: usize, axis: i64, rank: usize) -> Result<Operand> {
    let operand = x.raw_operand_as(index, DType::F32)?;
    if x.shape(index)?.iter().all(|d| d.is(1)) {
        return x.raw_reshape(operand, &[]);
    }
    let mut sizes = vec![1; rank];
    if let Some(size) = sizes.get_mut(resolve_axis(axis, rank)?) {
        *size = -1;
    }
    x.raw_reshape(operand, &sizes)
}

/// Emits `operand` rounded, plus the zero point, and clipped to the type.
fn round_to(x: &Expand, operand: Operand, zero: Option<Operand>, dtype: DType) -> Result<Operand> {
    let Some((low, high)) = dtype.int_range() else {
        unsupported!("a quantized value of type {dtype}");
    };
    let mut operand = x.raw_op("Round", &[operand], &[])?;
    if let Some(zero) = zero {
        operand = x.raw_op("Add", &[operand, zero], &[])?;
    }
    let (low, high) = (int_scalar(x, i64::try_from(low)?)?, int_scalar(x, i64::try_from(high)?)?);
    operand = x.raw_op("Clip", &[operand, low, high], &[])?;
    x.raw_cast(operand, dtype)
}

/// Emits the quotient of two floats, correctly rounded. ncnn's division is off by a unit in the last place,
/// because it is built with `-ffast-math`, and the last bit decides how a value halfway between two steps is
/// rounded. The remainder of the first quotient is computed exactly by splitting the factors (T. J. Dekker,
/// 1971).
fn quotient(x: &Expand, dividend: Operand, divisor: Operand) -> Result<Operand> {
    let first = x.raw_op("Div", &[dividend, divisor], &[])?;
    let product = x.raw_op("Mul", &[first, divisor], &[])?;
    let (first_high, first_low) = split(x, first)?;
    let (divisor_high, divisor_low) = split(x, divisor)?;
    let mut error = x.raw_op("Mul", &[first_high, divisor_high], &[])?;
    error = x.raw_op("Sub", &[error, product], &[])?;
    for (a, b) in [(first_high, divisor_low), (first_low, divisor_high), (first_low, divisor_low)] {
        let part = x.raw_op("Mul", &[a, b], &[])?;
        error = x.raw_op("Add", &[error, part], &[])?;
    }
    let rest = x.raw_op("Sub", &[dividend, product], &[])?;
    let rest = x.raw_op("Sub", &[rest, error], &[])?;
    let correction = x.raw_op("Div", &[rest, divisor], &[])?;
    x.raw_op("Add", &[first, correction], &[])
}

/// Emits the high and the low half of the bits of each element, which add up to it.
fn split(x: &Expand, operand: Operand) -> Result<(Operand, Operand)> {
    // 2^12 + 1: half of the 24 bits of a float32 mantissa.
    let splitter = scalar(x, 4097.0)?;
    let scaled = x.raw_op("Mul", &[operand, splitter], &[])?;
    let rest = x.raw_op("Sub", &[scaled, operand], &[])?;
    let high = x.raw_op("Sub", &[scaled, rest], &[])?;
    let low = x.raw_op("Sub", &[operand, high], &[])?;
    Ok((high, low))
}

fn expand_quantize(x: &Expand) -> Result<bool> {
    let granularity = read_granularity(x)?;
    let dtype = x.output_dtype(0)?;
    let input = x.raw_operand_as(0, DType::F32)?;
    let scale = parameter(x, 1, &granularity)?;
    let scaled = quotient(x, input, scale)?;
    let zero = x.has_input(2).then(|| parameter(x, 2, &granularity)).transpose()?;
    let rounded = if dtype.is_float() {
        narrow(x, scaled, zero, dtype)?
    } else if let Some(target) = Target::of_output(x, 2)? {
        requantize(x, scaled, target)?
    } else {
        round_to(x, scaled, zero, dtype)?
    };
    x.raw_output(0, rounded)?;
    Ok(true)
}

/// Emits `operand` plus the zero point as a float of 8 or 4 bits.
fn narrow(x: &Expand, operand: Operand, zero: Option<Operand>, dtype: DType) -> Result<Operand> {
    let sum = match zero {
        Some(zero) => x.raw_op("Add", &[operand, zero], &[])?,
        None => operand,
    };
    let saturate = i64::from(x.flag("saturate", true)?);
    let to = i64::from(dtype.to_onnx());
    x.raw_op("Cast", &[sum], &[("to", Attribute::Int(to)), ("saturate", Attribute::Int(saturate))])
}

/// Emits input `index` minus its zero point, in float32.
fn difference(x: &Expand, index: usize, zero: Option<Operand>) -> Result<Operand> {
    let operand = x.raw_operand_as(index, DType::F32)?;
    match zero {
        Some(zero) => x.raw_op("Sub", &[operand, zero], &[]),
        None => Ok(operand),
    }
}

fn expand_dequantize(x: &Expand) -> Result<bool> {
    let granularity = read_granularity(x)?;
    let scale = parameter(x, 1, &granularity)?;
    let has_levels = x.constant(0).is_none() && x.dtype(0)?.int_range().is_some();
    let difference = match constant_int(x, 2)?.filter(|_| has_levels) {
        Some(zero) => levels(x, 0, zero)?.operand,
        None => {
            let zero = x.has_input(2).then(|| parameter(x, 2, &granularity)).transpose()?;
            difference(x, 0, zero)?
        }
    };
    let scaled = x.raw_op("Mul", &[difference, scale], &[])?;
    let dtype = x.output_dtype(0)?;
    let result = x.raw_cast(scaled, dtype)?;
    x.raw_output(0, result)?;
    Ok(true)
}

fn infer_dynamic(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![
        Fact::new(DType::U8, call.shape(0)?.to_vec()),
        Fact::new(DType::F32, Vec::new()),
        Fact::new(DType::U8, Vec::new()),
    ])
}

fn expand_dynamic(x: &Expand) -> Result<bool> {
    let input = x.raw_operand(0)?;
    let keep = [("keepdims", Attribute::Int(0))];
    let (zero, levels) = (x.raw_scalar_like(0, 0.0)?, x.raw_scalar_like(0, 255.0)?);
    let low = x.raw_op("ReduceMin", &[input], &keep)?;
    let high = x.raw_op("ReduceMax", &[input], &keep)?;
    let low = x.raw_op("Min", &[low, zero], &[])?;
    let high = x.raw_op("Max", &[high, zero], &[])?;
    let range = x.raw_op("Sub", &[high, low], &[])?;
    // The scale is 1 if all elements are 0.
    let is_zero = x.raw_op("Equal", &[range, zero], &[])?;
    let is_zero = x.raw_cast(is_zero, DType::F32)?;
    let scale = quotient(x, range, levels)?;
    let scale = x.raw_op("Add", &[scale, is_zero], &[])?;
    let minus_low = x.raw_op("Neg", &[low], &[])?;
    let zero_point = quotient(x, minus_low, scale)?;
    let zero_point = round_to(x, zero_point, None, DType::U8)?;
    let zero_point_float = x.raw_cast(zero_point, DType::F32)?;
    let scaled = quotient(x, input, scale)?;
    let rounded = round_to(x, scaled, Some(zero_point_float), DType::U8)?;
    x.raw_output(0, rounded)?;
    x.raw_output(1, scale)?;
    x.raw_output(2, zero_point)?;
    Ok(true)
}

fn infer_qlinear_matmul(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(7)?, matmul_shape(call, call.shape(0)?, call.shape(3)?)?)])
}

/// The inputs of ConvInteger and MatMulInteger.
const INTEGER: Places = Places { x: 0, x_zero: 2, weight: 1, weight_zero: 3, bias: None };

/// The inputs of QLinearConv, without its bias, and QLinearMatMul.
const QLINEAR: Places = Places { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: None };

/// Emits the sums of MatMulInteger by an int8 layer, if one can compute them.
pub(in crate::ops) fn multiply_integers(x: &Expand) -> Result<Option<Operand>> {
    multiply(x, INTEGER, false)
}

/// Emits scale or zero point of a matrix, input `index`: a scalar, or a vector along the rows or the columns.
fn matrix_parameter(x: &Expand, index: usize, rows: bool) -> Result<Operand> {
    let operand = x.raw_operand_as(index, DType::F32)?;
    match x.shape(index)? {
        [size] if rows && !size.is(1) => x.raw_reshape(operand, &[-1, 1]),
        _ => Ok(operand),
    }
}

fn expand_qlinear_matmul(x: &Expand) -> Result<bool> {
    let sums = match multiply(x, QLINEAR, false)? {
        Some(sums) => sums,
        None => {
            let (a_zero, b_zero) = (matrix_parameter(x, 2, true)?, matrix_parameter(x, 5, false)?);
            let (a, b) = (difference(x, 0, Some(a_zero))?, difference(x, 3, Some(b_zero))?);
            x.raw_op("MatMul", &[a, b], &[])?
        }
    };
    requantize_sums(x, sums, |x, index| matrix_parameter(x, index, index != 4))
}

/// Makes the requantized sums output 0 of QLinearConv or QLinearMatMul. `parameter` emits an input in a shape
/// that broadcasts to the sums.
fn requantize_sums(
    x: &Expand,
    sums: Operand,
    parameter: impl Fn(&Expand, usize) -> Result<Operand>,
) -> Result<bool> {
    let (x_scale, w_scale, y_scale) = (parameter(x, 1)?, parameter(x, 4)?, parameter(x, 6)?);
    let scale = x.raw_op("Mul", &[x_scale, w_scale], &[])?;
    let scaled = rescale(x, sums, scale, y_scale, [1, 4, 6])?;
    let rounded = match Target::of_output(x, 7)? {
        Some(target) => requantize(x, scaled, target)?,
        None => {
            let y_zero = parameter(x, 7)?;
            let dtype = x.output_dtype(0)?;
            round_to(x, scaled, Some(y_zero), dtype)?
        }
    };
    x.raw_output(0, rounded)?;
    Ok(true)
}

/// Emits `sums` times `scale`, the product of the scales of both operands, over `y_scale`, the scale of the
/// result. These are computed from the inputs `scales`: constants are divided exactly.
fn rescale(
    x: &Expand,
    sums: Operand,
    scale: Operand,
    y_scale: Operand,
    scales: [usize; 3],
) -> Result<Operand> {
    let ratio = if scales.iter().all(|index| x.constant(*index).is_some()) {
        x.raw_op("Div", &[scale, y_scale], &[])?
    } else {
        quotient(x, scale, y_scale)?
    };
    x.raw_op("Mul", &[sums, ratio], &[])
}

fn infer_qlinear_conv(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(7)?, conv_shape(call, call.shape(3)?)?)])
}

fn expand_qlinear_conv(x: &Expand) -> Result<bool> {
    let rank = x.shape(0)?.len();
    let sums = convolve(x, Places { bias: Some(8), ..QLINEAR })?;
    requantize_sums(x, sums, |x, index| axis_parameter(x, index, 1, rank))
}

fn infer_conv_integer(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(DType::I32, conv_shape(call, call.shape(1)?)?)])
}

fn expand_conv_integer(x: &Expand) -> Result<bool> {
    let sums = convolve(x, INTEGER)?;
    let sums = x.raw_cast(sums, DType::I32)?;
    x.raw_output(0, sums)?;
    Ok(true)
}
