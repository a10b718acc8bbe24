//! Quantized operators, computed in float32, in which integers of up to 24 bits are exact.
//!
//! Refused: a second rounding (see `pass::rounding`).
//! <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>

mod blocks;
mod contrib;
mod in_blocks;
mod integer;
mod level;
mod mixed;
mod nearest;
pub(in crate::ops) mod packed;
mod product;

use crate::op::CONTRIB_DOMAIN as MICROSOFT;
use crate::ops::linear::matmul;
use crate::ops::prelude::*;
use crate::ops::spatial::conv;
use crate::pass::channels::Layout;

use level::{Target, constant_int, levels, requantize};
use product::{InputIndices, convolve, multiply};

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[OPS, blocks::OPS, contrib::OPS, mixed::OPS, packed::OPS];

const QUANTIZE: Row = Row::new("QuantizeLinear", Access::Any, infer_quantize)
    .formula(expand_quantize)
    // The model may not declare the type of the value.
    .range(|call, _| quantized_type(call).map_or(Range::ANY, Range::of))
    .rounds()
    .exact()
    .lowers_to("UnaryOp ROUND of x / scale, plus the zero point, Clip; Cast to floats of 8 and 4 bits")
    .limits("a second rounding, of values not computed in integers");
const DEQUANTIZE: Row = Row::new("DequantizeLinear", Access::Any, infer_dequantize)
    .formula(expand_dequantize)
    .range(range_dequantize)
    .exact()
    .lowers_to("(x - zero point) * scale")
    .limits("blocks along an axis of free size");

/// The differences to the zero point times the scale.
fn range_dequantize(call: &Call, inputs: &[Range]) -> Range {
    let [levels, scale, others @ ..] = inputs else { return Range::ANY };
    let zero = others.first().filter(|_| call.has_input(2));
    zero.map_or(*levels, |zero| levels.plus(zero.negated())).times(*scale)
}

const OPS: &[Row] = &[
    QUANTIZE,
    DEQUANTIZE,
    QUANTIZE.domain(MICROSOFT),
    DEQUANTIZE.domain(MICROSOFT),
    Row::expanded("", "DynamicQuantizeLinear", expand_dynamic)
        .rounds()
        .exact()
        .lowers_to("ReduceMin, ReduceMax, then QuantizeLinear")
        .limits("a second rounding"),
    Row::defined("", "MatMulInteger", integer::expand_matmul_integer)
        .multiply_adds(matmul::multiply_adds)
        .exact()
        .lowers_to("InnerProduct in int8, or MatMul of the differences to the zero points"),
    Row::defined("", "QLinearMatMul", expand_qlinear_matmul)
        .multiply_adds(matmul::multiply_adds)
        .rounds()
        .exact()
        .lowers_to("MatMul of the differences to the zero points, QuantizeLinear")
        .limits("a second rounding, of values not computed in integers"),
    Row::defined("", "QLinearConv", expand_qlinear_conv)
        .multiply_adds(|call| conv::multiply_adds_by(call, 3))
        .rounds()
        .exact()
        .lowers_to("Conv of the differences to the zero points, QuantizeLinear")
        .limits("a second rounding"),
    Row::defined(MICROSOFT, "QLinearConv", expand_laid_out_conv)
        .multiply_adds(|call| conv::multiply_adds_by(call, 3))
        .rounds()
        .exact()
        .lowers_to("QLinearConv; Transpose for channels that are last"),
    Row::defined("", "ConvInteger", |x| Ok(convolve(x, INTEGER)?.cast(DType::I32)))
        .multiply_adds(conv::multiply_adds)
        .exact()
        .lowers_to("Convolution in int8, or Conv of the differences to the zero points"),
    Row::of(NCNN_DOMAIN, "Levels", Access::Any, level::infer_levels)
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
    let block_size = if from(21) { call.int("block_size")? } else { 0 };
    Ok(Granularity { axis, block_size })
}

fn read_output_dtype(call: &Call) -> Result<Option<DType>> {
    if call.since() < 21 || call.node().domain == MICROSOFT {
        return Ok(None);
    }
    match call.int("output_dtype")? {
        0 => Ok(None),
        code => i32::try_from(code).ok().and_then(DType::from_onnx).map(Some).ok_or_else(|| {
            Error::invalid(format!("the element type {code}")).at_part("attribute output_dtype")
        }),
    }
}

/// Returns the type of the result of QuantizeLinear.
fn quantized_type(call: &Call) -> Result<DType> {
    let dtype = match read_output_dtype(call)? {
        Some(dtype) => dtype,
        None if call.has_input(2) => call.dtype(2)?,
        None => DType::U8,
    };
    if dtype.bits() > if dtype.is_float() { 8 } else { 16 } {
        invalid!("quantization to {dtype}");
    }
    Ok(dtype)
}

fn infer_quantize(call: &Call) -> Result<Vec<Fact>> {
    for index in 0..2 {
        let dtype = call.dtype(index)?;
        if !dtype.is_float() && dtype != DType::I32 {
            return Err(Error::invalid(format!("quantization of {dtype}")).at_part(call.label(index)));
        }
    }
    Ok(vec![Fact::new(quantized_type(call)?, call.shape(0)?.to_vec())])
}

/// Returns the type of the result of DequantizeLinear.
fn dequantized_type(call: &Call) -> Result<DType> {
    read_output_dtype(call)?.map_or_else(|| call.dtype(1), Ok)
}

fn infer_dequantize(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(dequantized_type(call)?, call.shape(0)?.to_vec())])
}

/// Returns scale or zero point, input `index`, as float32 in a shape that broadcasts to input 0.
fn parameter<'x>(x: &'x Expand, index: usize, granularity: &Granularity) -> Result<Expr<'x>> {
    let (shape, parameter) = (x.shape(0)?, x.shape(index)?);
    let is_scalar = parameter.iter().all(|d| d.is(1));
    if is_scalar || parameter.len() == 1 && granularity.block_size == 0 {
        if !is_scalar {
            let axis = resolve_axis(granularity.axis, shape.len())?;
            x.check_shape(index, std::slice::from_ref(shape.at(axis)?))?;
        }
        return axis_parameter(x, index, granularity.axis, shape.len());
    }
    let axis = resolve_axis(granularity.axis, shape.len())?;
    if parameter.len() != shape.len() || granularity.block_size <= 0 {
        unsupported!("a scale of {} axes for an input of {}", parameter.len(), shape.len());
    }
    // Blocks: each element of the parameter is repeated `block_size` times along the axis.
    let known: Option<(Vec<i64>, Vec<i64>)> = Dim::known_sizes(parameter).zip(Dim::known_sizes(shape));
    let Some((mut merged, sizes)) = known else {
        unsupported!("blocks along an axis of free size");
    };
    let mut others = sizes.iter().zip(&merged).enumerate().filter(|(other, _)| *other != axis);
    if others.any(|(_, (size, scales))| scales != size && *scales != 1) {
        invalid!("a scale of shape {merged:?} for an input of shape {sizes:?}");
    }
    let (mut split, mut repeated) = (merged.clone(), merged.clone());
    split.insert(axis + 1, 1);
    repeated.insert(axis + 1, granularity.block_size);
    if let Some(size) = merged.get_mut(axis) {
        *size = size.saturating_mul(granularity.block_size);
    }
    let elements = x.operand_as(index, DType::F32).reshape(&split).broadcast(&repeated).reshape(&merged);
    // The last block may be shorter.
    Ok(elements.slice(axis, 0, *sizes.at(axis)?))
}

/// Returns a scalar parameter, or a vector along an axis of `rank` axes, as float32.
fn axis_parameter<'x>(x: &'x Expand, index: usize, axis: i64, rank: usize) -> Result<Expr<'x>> {
    let value = x.operand_as(index, DType::F32);
    let is_scalar = x.shape(index)?.iter().all(|d| d.is(1));
    Ok(if is_scalar { value.scalar() } else { value.along(resolve_axis(axis, rank)?, rank) })
}

/// Returns the rounded value plus the zero point, clipped to the type.
fn round_to<'x>(value: Expr<'x>, zero: Option<Expr<'x>>, dtype: DType) -> Result<Expr<'x>> {
    let Target { low, high, .. } = Target::new(dtype, 0)?;
    Ok(value.round().add_optional(zero).clip(low, high).cast(dtype))
}

/// Returns the quotient of two floats, correctly rounded. ncnn's division is off by an ulp,
/// because it is built with `-ffast-math`, and the last bit decides how a value halfway between two steps is
/// rounded. The remainder of the first quotient is computed exactly by splitting the factors (T. J. Dekker,
/// 1971).
fn quotient<'x>(dividend: Expr<'x>, divisor: Expr<'x>) -> Expr<'x> {
    let first = dividend / divisor;
    let product = first * divisor;
    let [(a, a_low), (b, b_low)] = [first, divisor].map(split);
    let error = a * b - product + a * b_low + a_low * b + a_low * b_low;
    first + (dividend - product - error) / divisor
}

/// Returns the high and the low half of the bits of each element, which add up to it.
fn split(value: Expr) -> (Expr, Expr) {
    // 2^12 + 1: half of the 24 bits of a float32 mantissa.
    let scaled = value * 4097.0;
    let high = scaled - (scaled - value);
    (high, value - high)
}

fn expand_quantize<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let granularity = read_granularity(x)?;
    let dtype = quantized_type(x)?;
    let input = x.operand_as(0, DType::F32);
    let scaled = quotient(input, parameter(x, 1, &granularity)?);
    let zero = x.has_input(2).then(|| parameter(x, 2, &granularity)).transpose()?;
    if dtype.is_float() {
        // A float of 8 or 4 bits.
        let saturate = ("saturate", i64::from(x.flag("saturate")?).into());
        let to = ("to", i64::from(dtype.to_onnx()).into());
        return Ok(x.make.op("Cast", [scaled.add_optional(zero)], [to, saturate]));
    }
    match Target::of_zero(x, 2, dtype)? {
        Some(target) => Ok(requantize(scaled, target)),
        None => round_to(scaled, zero, dtype),
    }
}

/// Returns input `index` minus its zero point, in float32.
fn difference<'x>(x: &'x Expand, index: usize, zero: Option<Expr<'x>>) -> Expr<'x> {
    let value = x.operand_as(index, DType::F32);
    zero.map_or(value, |zero| value.minus(zero))
}

fn expand_dequantize<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let granularity = read_granularity(x)?;
    let scale = parameter(x, 1, &granularity)?;
    let has_levels = x.constant(0).is_none() && x.dtype(0)?.int_range().is_some();
    let difference = match constant_int(x, 2)?.filter(|_| has_levels) {
        Some(zero) => levels(x, 0, zero)?.value,
        None => {
            let zero = x.has_input(2).then(|| parameter(x, 2, &granularity)).transpose()?;
            difference(x, 0, zero)
        }
    };
    Ok((difference * scale).cast(dequantized_type(x)?))
}

fn expand_dynamic(x: &Expand) -> Result<bool> {
    let input = x.operand(0);
    let (low, high) = (input.reduce_all("ReduceMin"), input.reduce_all("ReduceMax"));
    let (low, high) = (low.minimum(0.0), high.maximum(0.0));
    let range = high - low;
    // The scale is 1 if all elements are 0.
    let is_zero = range.equal(0.0).cast(DType::F32);
    let scale = quotient(range, x.make.number(255.0, x.dtype(0)?)) + is_zero;
    let zero_point = round_to(quotient(-low, scale), None, DType::U8)?;
    let zero = zero_point.cast(DType::F32);
    x.output(0, round_to(quotient(input, scale), Some(zero), DType::U8)?);
    x.output(1, scale);
    x.output(2, zero_point);
    Ok(true)
}

/// The inputs of ConvInteger and MatMulInteger.
const INTEGER: InputIndices = InputIndices { x: 0, x_zero: 2, weight: 1, weight_zero: 3, bias: None };

/// The inputs of QLinearConv, without its bias, and QLinearMatMul.
const QLINEAR: InputIndices = InputIndices { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: None };

/// Returns the sums of MatMulInteger by an int8 layer, if one can compute them.
fn multiply_integers<'x>(x: &'x Expand) -> Result<Option<Expr<'x>>> {
    multiply(x, INTEGER, false)
}

/// Returns scale or zero point of a matrix, input `index`: a scalar, or a vector along the rows or the
/// columns.
fn matrix_parameter<'x>(x: &'x Expand, index: usize, rows: bool) -> Result<Expr<'x>> {
    let value = x.operand_as(index, DType::F32);
    Ok(match x.shape(index)? {
        [size] if rows && !size.is(1) => value.reshape(&[-1, 1]),
        _ => value,
    })
}

fn expand_qlinear_matmul<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let sums = match multiply(x, QLINEAR, false)? {
        Some(sums) => sums,
        None => {
            let (a_zero, b_zero) = (matrix_parameter(x, 2, true)?, matrix_parameter(x, 5, false)?);
            difference(x, 0, Some(a_zero)).matmul(difference(x, 3, Some(b_zero)))
        }
    };
    requantize_sums(x, sums, |index| matrix_parameter(x, index, index != 4))
}

/// Returns the requantized sums of QLinearConv or QLinearMatMul. `parameter` returns an input in a shape that
/// broadcasts to the sums.
fn requantize_sums<'x>(
    x: &'x Expand,
    sums: Expr<'x>,
    parameter: impl Fn(usize) -> Result<Expr<'x>>,
) -> Result<Expr<'x>> {
    let (x_scale, w_scale, y_scale) = (parameter(1)?, parameter(4)?, parameter(6)?);
    let scaled = rescale(x, sums, x_scale * w_scale, y_scale, [1, 4, 6]);
    match Target::of_zero(x, 7, x.dtype(7)?)? {
        Some(target) => Ok(requantize(scaled, target)),
        None => round_to(scaled, Some(parameter(7)?), x.dtype(7)?),
    }
}

/// Returns `sums` times `scale`, the product of the scales of both operands, over `y_scale`, the scale of the
/// result. These are computed from the inputs `scales`: constants are divided exactly.
fn rescale<'x>(
    x: &Expand,
    sums: Expr<'x>,
    scale: Expr<'x>,
    y_scale: Expr<'x>,
    scales: [usize; 3],
) -> Expr<'x> {
    let is_constant = scales.iter().all(|index| x.constant(*index).is_some());
    sums.times(if is_constant { scale / y_scale } else { quotient(scale, y_scale) })
}

fn expand_laid_out_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let parameters = (1..9).map(|index| x.optional(index));
    Ok(Layout::of(x)?.apply(x.operand(0), x.shape(0)?.len(), |data| {
        x.make.op("QLinearConv", [Some(data)].into_iter().chain(parameters), conv::conv_attributes(x))
    }))
}

fn expand_qlinear_conv<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let rank = x.shape(0)?.len();
    let sums = convolve(x, InputIndices { bias: Some(8), ..QLINEAR })?;
    requantize_sums(x, sums, |index| axis_parameter(x, index, 1, rank))
}
