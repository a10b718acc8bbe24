//! Quantised operators, computed in float: integers of up to 24 bits are exact there.
//!
//! Refused: a rounding that follows another one (see `pass::rounding`). <https://onnx.ai/onnx/operators/onnx__QuantizeLinear.html>

mod contrib;
mod level;
mod mixed;
mod nearest;
mod packed;
mod product;

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, CONTRIB_DOMAIN as MICROSOFT, Call, Fact, OWN_DOMAIN, resolve_axis};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim};

use level::{Target, constant_int, finalize, levels, read_bounds};
use product::{Places, convolve, multiply};

pub(in crate::ops) use contrib::OPS as CONTRIB;
pub(in crate::ops) use mixed::OPS as MIXED;
pub(in crate::ops) use packed::OPS as PACKED;

// `precision` is about the rounding of a division that is done in float32 here.
const QUANTIZE: Row =
    Row::new("QuantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], Access::Any, infer_quantize)
        .expand(expand_quantize)
        .rounds()
        .exact()
        .ignore(&["precision"])
        .lowers_to("UnaryOp ROUND of x / scale, plus the zero point, Clip; Cast to floats of 8 and 4 bits")
        .limits("a rounding that follows another one, of what is not computed in integers");
const DEQUANTIZE: Row =
    Row::new("DequantizeLinear", &[10, 13, 19, 21, 23, 24, 25, 28], Access::Any, infer_dequantize)
        .expand(expand_dequantize)
        .exact()
        .lowers_to("(x - zero point) * scale")
        .limits("blocks of a size that is not fixed");

pub(in crate::ops) const OPS: &[Row] = &[
    // `precision` is about the rounding of a division that is done in float32 here.
    QUANTIZE,
    DEQUANTIZE,
    QUANTIZE.domain(MICROSOFT).since(&[1]),
    DEQUANTIZE.domain(MICROSOFT).since(&[1]),
    Row::new("DynamicQuantizeLinear", &[11], Access::Any, infer_dynamic)
        .variadic()
        .expand(expand_dynamic)
        .rounds()
        .exact()
        .lowers_to("ReduceMin, ReduceMax, then QuantizeLinear")
        .limits("a rounding that follows another one"),
    Row::new("QLinearMatMul", &[10, 21], Access::Any, infer_qlinear_matmul)
        .expand(expand_qlinear_matmul)
        .rounds()
        .exact()
        .lowers_to("MatMul of the differences to the zero points, QuantizeLinear")
        .limits("a rounding that follows another one, of what is not computed in integers"),
    Row::new("QLinearConv", &[10], Access::Any, infer_qlinear_conv)
        .expand(expand_qlinear_conv)
        .rounds()
        .exact()
        .lowers_to("Conv of the differences to the zero points, QuantizeLinear")
        .limits("a rounding that follows another one"),
    Row::new("QLinearMatMul", &[1], Access::Any, infer_qlinear_matmul)
        .domain(OWN_DOMAIN)
        .expand(expand_qlinear_matmul)
        .rounds()
        .exact()
        .lowers_to("as that of ONNX, with the bounds of an activation"),
    Row::new("QLinearConv", &[1], Access::Any, infer_qlinear_conv)
        .domain(OWN_DOMAIN)
        .expand(expand_qlinear_conv)
        .rounds()
        .exact()
        .lowers_to("as that of ONNX, with the bounds of an activation"),
    Row::new("ConvInteger", &[10], Access::Any, infer_conv_integer)
        .expand(expand_conv_integer)
        .exact()
        .lowers_to("Convolution in int8, or Conv of the differences to the zero points"),
    Row::new("Levels", &[1], Access::Any, level::infer_levels)
        .domain(OWN_DOMAIN)
        .lower(level::lower_levels)
        .lowers_to("BinaryOp that adds the zero point"),
];

/// How scale and zero point lie along the input.
struct Granularity {
    axis: i64,
    /// Elements of the axis that share a scale; 0 for all where the scale is a scalar, for one where it is a vector.
    block_size: i64,
}

fn read_granularity(call: &Call) -> Result<Granularity> {
    let from = |version: i64| call.since() >= version && call.node().domain.is_empty();
    // That of onnxruntime has had an axis from the beginning, and no blocks.
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
    let given = read_output_dtype(call)?;
    let dtype = match given {
        Some(dtype) => dtype,
        None if call.has_input(2) => call.dtype(2)?,
        None => DType::U8,
    };
    if dtype.bits() > if dtype.is_float() { 8 } else { 16 } {
        invalid!("numbers quantized to {dtype}");
    }
    Ok(vec![Fact::new(dtype, call.shape(0)?.to_vec())])
}

fn infer_dequantize(call: &Call) -> Result<Vec<Fact>> {
    read_granularity(call)?;
    let dtype = match read_output_dtype(call)? {
        Some(dtype) => dtype,
        None => call.dtype(1)?,
    };
    Ok(vec![Fact::new(dtype, call.shape(0)?.to_vec())])
}

fn cast(x: &mut Expand, operand: Operand, to: DType) -> Result<Operand> {
    x.op("Cast", &[operand], &[("to", Attribute::Int(i64::from(to.to_onnx())))])
}

/// Scale or zero point, input `index`, as float32 in a shape that broadcasts against input 0.
fn parameter(x: &mut Expand, index: usize, granularity: &Granularity) -> Result<Operand> {
    let operand = x.operand(index)?;
    let operand = cast(x, operand, DType::F32)?;
    let (shape, parameter) = (x.shape(0)?.to_vec(), x.shape(index)?.to_vec());
    if parameter.iter().all(|d| d.is(1)) {
        let scalar = x.ints(&[])?;
        return x.op("Reshape", &[operand, scalar], &[]);
    }
    let axis = resolve_axis(granularity.axis, shape.len())?;
    if parameter.len() == 1 && granularity.block_size == 0 {
        let mut sizes = vec![1; shape.len()];
        if let Some(size) = sizes.get_mut(axis) {
            *size = -1;
        }
        let sizes = x.ints(&sizes)?;
        return x.op("Reshape", &[operand, sizes], &[]);
    }
    if parameter.len() != shape.len() || granularity.block_size <= 0 {
        unsupported!("a scale of {} axes for an input of {}", parameter.len(), shape.len());
    }
    // Blocks: each element of the parameter stands `block_size` times along the axis.
    let numbers = |dims: &[Dim]| dims.iter().map(Dim::known).collect::<Option<Vec<i64>>>();
    let (Some(mut sizes), Some(whole)) = (numbers(&parameter), numbers(&shape)) else {
        unsupported!("blocks of a size that is not fixed");
    };
    sizes.insert(axis + 1, 1);
    let apart = x.ints(&sizes)?;
    if let Some(size) = sizes.get_mut(axis + 1) {
        *size = granularity.block_size;
    }
    let repeated = x.ints(&sizes)?;
    let mut merged = sizes;
    let block = merged.remove(axis + 1);
    let size = merged.at(axis)?.saturating_mul(block);
    if let Some(slot) = merged.get_mut(axis) {
        *slot = size;
    }
    let together = x.ints(&merged)?;
    let operand = x.op("Reshape", &[operand, apart], &[])?;
    let operand = x.op("Expand", &[operand, repeated], &[])?;
    let operand = x.op("Reshape", &[operand, together], &[])?;
    // The last block may be cut short.
    let (start, end, axes) = (x.ints(&[0])?, x.ints(&[*whole.at(axis)?])?, x.ints(&[i64::try_from(axis)?])?);
    x.op("Slice", &[operand, start, end, axes], &[])
}

/// `operand`, of integers plus a fraction, rounded, moved by the zero point and clipped to the type.
fn round_to(x: &mut Expand, operand: Operand, zero: Option<Operand>, dtype: DType) -> Result<Operand> {
    let Some((low, high)) = dtype.int_range() else {
        unsupported!("a quantized value of type {dtype}");
    };
    let mut operand = x.op("Round", &[operand], &[])?;
    if let Some(zero) = zero {
        operand = x.op("Add", &[operand, zero], &[])?;
    }
    let scalar = |n: i128| -> Result<Array> {
        let n = i64::try_from(n)?;
        Array::i64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), n)).cast(DType::F32)
    };
    let (low, high) = (x.literal(&scalar(low)?)?, x.literal(&scalar(high)?)?);
    operand = x.op("Clip", &[operand, low, high], &[])?;
    cast(x, operand, dtype)
}

/// The quotient of two floats as IEEE rounds it. ncnn's own division is off by a unit in the last place (it is built with
/// `-ffast-math`), which decides where a value in the middle between two steps goes. What the first quotient leaves of the dividend is
/// computed exactly, from halves of the factors (T. J. Dekker, 1971), and added to the quotient.
fn quotient(x: &mut Expand, dividend: Operand, divisor: Operand) -> Result<Operand> {
    let first = x.op("Div", &[dividend, divisor], &[])?;
    let product = x.op("Mul", &[first, divisor], &[])?;
    let (first_high, first_low) = halves(x, first)?;
    let (divisor_high, divisor_low) = halves(x, divisor)?;
    let mut error = x.op("Mul", &[first_high, divisor_high], &[])?;
    error = x.op("Sub", &[error, product], &[])?;
    for (a, b) in [(first_high, divisor_low), (first_low, divisor_high), (first_low, divisor_low)] {
        let part = x.op("Mul", &[a, b], &[])?;
        error = x.op("Add", &[error, part], &[])?;
    }
    let rest = x.op("Sub", &[dividend, product], &[])?;
    let rest = x.op("Sub", &[rest, error], &[])?;
    let correction = x.op("Div", &[rest, divisor], &[])?;
    x.op("Add", &[first, correction], &[])
}

/// The upper and the lower half of the bits of each element; they add up to it.
fn halves(x: &mut Expand, operand: Operand) -> Result<(Operand, Operand)> {
    // 2^12 + 1: half of the 24 bits of a single.
    let splitter = x.literal(&Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), 4097.0)))?;
    let scaled = x.op("Mul", &[operand, splitter], &[])?;
    let rest = x.op("Sub", &[scaled, operand], &[])?;
    let high = x.op("Sub", &[scaled, rest], &[])?;
    let low = x.op("Sub", &[operand, high], &[])?;
    Ok((high, low))
}

fn expand_quantize(x: &mut Expand) -> Result<bool> {
    let granularity = read_granularity(x)?;
    let dtype = x.output_dtype(0)?;
    let input = x.operand(0)?;
    let input = cast(x, input, DType::F32)?;
    let scale = parameter(x, 1, &granularity)?;
    let scaled = quotient(x, input, scale)?;
    let zero = if x.has_input(2) { Some(parameter(x, 2, &granularity)?) } else { None };
    let rounded = if dtype.is_float() {
        narrow(x, scaled, zero, dtype)?
    } else if let Some(target) = Target::of_output(x, 2)? {
        finalize(x, scaled, target)?
    } else {
        round_to(x, scaled, zero, dtype)?
    };
    x.output(0, rounded)?;
    Ok(true)
}

/// `operand` plus the zero point as a float of 8 or 4 bits.
fn narrow(x: &mut Expand, operand: Operand, zero: Option<Operand>, dtype: DType) -> Result<Operand> {
    let moved = match zero {
        Some(zero) => x.op("Add", &[operand, zero], &[])?,
        None => operand,
    };
    let saturate = i64::from(x.flag("saturate", true)?);
    let to = i64::from(dtype.to_onnx());
    x.op("Cast", &[moved], &[("to", Attribute::Int(to)), ("saturate", Attribute::Int(saturate))])
}

/// Input `index` less its zero point, input `zero`, in float32.
fn difference(x: &mut Expand, index: usize, zero: Option<Operand>) -> Result<Operand> {
    let operand = x.operand(index)?;
    let operand = cast(x, operand, DType::F32)?;
    match zero {
        Some(zero) => x.op("Sub", &[operand, zero], &[]),
        None => Ok(operand),
    }
}

fn expand_dequantize(x: &mut Expand) -> Result<bool> {
    let granularity = read_granularity(x)?;
    let scale = parameter(x, 1, &granularity)?;
    let single = x.constant(0).is_none() && x.dtype(0)?.int_range().is_some();
    let difference = match constant_int(x, 2)?.filter(|_| single) {
        Some(zero) => levels(x, 0, zero)?.operand,
        None => {
            let zero = if x.has_input(2) { Some(parameter(x, 2, &granularity)?) } else { None };
            difference(x, 0, zero)?
        }
    };
    let scaled = x.op("Mul", &[difference, scale], &[])?;
    let dtype = x.output_dtype(0)?;
    let result = cast(x, scaled, dtype)?;
    x.output(0, result)?;
    Ok(true)
}

fn infer_dynamic(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![
        Fact::new(DType::U8, call.shape(0)?.to_vec()),
        Fact::new(DType::F32, Vec::new()),
        Fact::new(DType::U8, Vec::new()),
    ])
}

fn expand_dynamic(x: &mut Expand) -> Result<bool> {
    let input = x.operand(0)?;
    let keep = [("keepdims", Attribute::Int(0))];
    let (zero, levels) = (x.scalar_like(0, 0.0)?, x.scalar_like(0, 255.0)?);
    let low = x.op("ReduceMin", &[input], &keep)?;
    let high = x.op("ReduceMax", &[input], &keep)?;
    let low = x.op("Min", &[low, zero], &[])?;
    let high = x.op("Max", &[high, zero], &[])?;
    let range = x.op("Sub", &[high, low], &[])?;
    // Where all elements are 0 the step is 1.
    let none = x.op("Equal", &[range, zero], &[])?;
    let none = cast(x, none, DType::F32)?;
    let scale = quotient(x, range, levels)?;
    let scale = x.op("Add", &[scale, none], &[])?;
    let minus_low = x.op("Neg", &[low], &[])?;
    let zero_point = quotient(x, minus_low, scale)?;
    let zero_point = round_to(x, zero_point, None, DType::U8)?;
    let zero_point_float = cast(x, zero_point, DType::F32)?;
    let scaled = quotient(x, input, scale)?;
    let rounded = round_to(x, scaled, Some(zero_point_float), DType::U8)?;
    x.output(0, rounded)?;
    x.output(1, scale)?;
    x.output(2, zero_point)?;
    Ok(true)
}

fn infer_qlinear_matmul(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    Ok(vec![Fact::new(
        call.dtype(7)?,
        crate::ops::linear::matmul::matmul_shape(call.shape(0)?, call.shape(3)?)?,
    )])
}

/// The sums of MatMulInteger by an int8 layer, where there is one for it.
pub(in crate::ops) fn multiply_integers(x: &mut Expand) -> Result<Option<Operand>> {
    multiply(x, Places { x: 0, x_zero: 2, weight: 1, weight_zero: 3, bias: None }, false)
}

/// Scale or zero point of a matrix, input `index`: a scalar, or one for each row (of the left) or column (of the right).
fn matrix_parameter(x: &mut Expand, index: usize, rows: bool) -> Result<Operand> {
    let operand = x.operand(index)?;
    let operand = cast(x, operand, DType::F32)?;
    let shape = x.shape(index)?;
    let axes: &[i64] = match shape.len() {
        1 if rows && !shape.iter().all(|d| d.is(1)) => &[-1, 1],
        _ => return Ok(operand),
    };
    let axes = x.ints(axes)?;
    x.op("Reshape", &[operand, axes], &[])
}

fn expand_qlinear_matmul(x: &mut Expand) -> Result<bool> {
    let places = Places { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: None };
    let product = match multiply(x, places, false)? {
        Some(product) => product,
        None => {
            let (a_zero, b_zero) = (matrix_parameter(x, 2, true)?, matrix_parameter(x, 5, false)?);
            let (a, b) = (difference(x, 0, Some(a_zero))?, difference(x, 3, Some(b_zero))?);
            x.op("MatMul", &[a, b], &[])?
        }
    };
    let (a_scale, b_scale) = (matrix_parameter(x, 1, true)?, matrix_parameter(x, 4, false)?);
    let y_scale = matrix_parameter(x, 6, true)?;
    let scale = x.op("Mul", &[a_scale, b_scale], &[])?;
    let scaled = rescaled(x, product, scale, y_scale, [1, 4, 6])?;
    let rounded = match Target::of_output(x, 7)? {
        Some(target) => finalize(x, scaled, target)?,
        None => {
            let y_zero = matrix_parameter(x, 7, true)?;
            let dtype = x.output_dtype(0)?;
            round_to(x, scaled, Some(y_zero), dtype)?
        }
    };
    x.output(0, rounded)?;
    Ok(true)
}

/// `sums` in steps of the result: times `scale`, the product of the steps of both operands, over that of the result. Inputs
/// `scales` are what these come from: constants are divided exactly.
fn rescaled(
    x: &mut Expand,
    sums: Operand,
    scale: Operand,
    result: Operand,
    scales: [usize; 3],
) -> Result<Operand> {
    let ratio = if scales.iter().all(|index| x.constant(*index).is_some()) {
        x.op("Div", &[scale, result], &[])?
    } else {
        quotient(x, scale, result)?
    };
    x.op("Mul", &[sums, ratio], &[])
}

fn infer_qlinear_conv(call: &Call) -> Result<Vec<Fact>> {
    read_bounds(call)?;
    Ok(vec![Fact::new(call.dtype(7)?, crate::ops::spatial::conv::conv_shape(call, call.shape(3)?)?)])
}

/// A parameter of the weight: a scalar, or one for each output channel, seen along axis `axis` of `rank` axes.
fn channel_parameter(x: &mut Expand, index: usize, axis: usize, rank: usize) -> Result<Operand> {
    let operand = x.operand(index)?;
    let operand = cast(x, operand, DType::F32)?;
    if x.shape(index)?.iter().all(|d| d.is(1)) {
        let scalar = x.ints(&[])?;
        return x.op("Reshape", &[operand, scalar], &[]);
    }
    let mut sizes = vec![1; rank];
    if let Some(size) = sizes.get_mut(axis) {
        *size = -1;
    }
    let sizes = x.ints(&sizes)?;
    x.op("Reshape", &[operand, sizes], &[])
}

fn expand_qlinear_conv(x: &mut Expand) -> Result<bool> {
    let rank = x.shape(0)?.len();
    let places = Places { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: Some(8) };
    let sum = convolve(x, places)?;
    let (x_scale, w_scale) = (channel_parameter(x, 1, 1, rank)?, channel_parameter(x, 4, 1, rank)?);
    let y_scale = channel_parameter(x, 6, 1, rank)?;
    let scale = x.op("Mul", &[x_scale, w_scale], &[])?;
    let scaled = rescaled(x, sum, scale, y_scale, [1, 4, 6])?;
    let rounded = match Target::of_output(x, 7)? {
        Some(target) => finalize(x, scaled, target)?,
        None => {
            let y_zero = channel_parameter(x, 7, 1, rank)?;
            let dtype = x.output_dtype(0)?;
            round_to(x, scaled, Some(y_zero), dtype)?
        }
    };
    x.output(0, rounded)?;
    Ok(true)
}

fn infer_conv_integer(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(DType::I32, crate::ops::spatial::conv::conv_shape(call, call.shape(1)?)?)])
}

fn expand_conv_integer(x: &mut Expand) -> Result<bool> {
    let places = Places { x: 0, x_zero: 2, weight: 1, weight_zero: 3, bias: None };
    let sum = convolve(x, places)?;
    let sum = cast(x, sum, DType::I32)?;
    x.output(0, sum)?;
    Ok(true)
}
