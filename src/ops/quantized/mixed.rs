//! onnxruntime's operators that multiply quantized values and give numbers: what its quantizer writes for attention and recurrent
//! networks, and its optimizer for products of matrices.

use super::{MICROSOFT, cast};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, Call, Fact, required};
use crate::ops::Row;
use crate::ops::linear::matmul::matmul_shape;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("MatMulIntegerToFloat", &[1], Access::Any, infer_to_float)
        .domain(MICROSOFT)
        .expand(expand_to_float)
        .lowers_to("MatMulInteger, Mul, Add"),
    Row::new("DynamicQuantizeMatMul", &[1], Access::Any, infer_dynamic_matmul)
        .domain(MICROSOFT)
        .expand(expand_dynamic_matmul)
        .rounds()
        .lowers_to("DynamicQuantizeLinear, MatMulInteger, Mul, Add")
        .limits("a rounding that follows another one"),
    // `past_present_share_buffer` is about memory.
    Row::new("QAttention", &[1], Access::Any, infer_attention)
        .domain(MICROSOFT)
        .expand(expand_attention)
        .ignore(&["past_present_share_buffer"])
        .lowers_to("DequantizeLinear, Attention")
        .limits("past and present states; rotary positions inside; masks that give lengths"),
    Row::new("DynamicQuantizeLSTM", &[1], Access::Any, infer_lstm)
        .domain(MICROSOFT)
        .expand(expand_lstm)
        .ignore(&["activation_alpha", "activation_beta", "activations", "clip", "input_forget"])
        .rounds()
        .lowers_to("LSTM, with --dequantize")
        .limits("its rounding, which follows another one at each step of the sequence"),
];

/// The places of steps and of the number that is added: none of them makes the result larger.
fn infer_product(call: &Call, numbers: &[usize]) -> Result<Vec<Fact>> {
    let shape = matmul_shape(call.shape(0)?, call.shape(1)?)?;
    numbers.iter().try_for_each(|index| call.check_stretches(*index, &shape))?;
    Ok(vec![Fact::new(DType::F32, shape)])
}

fn infer_to_float(call: &Call) -> Result<Vec<Fact>> {
    infer_product(call, &[2, 3, 6])
}

fn infer_dynamic_matmul(call: &Call) -> Result<Vec<Fact>> {
    if !call.dtype(0)?.is_float() {
        invalid!("the range of {}", call.dtype(0)?);
    }
    infer_product(call, &[2, 4])
}

/// Input `index`, which may be left out.
fn required_input(x: &Expand, index: usize) -> Result<Option<Operand>> {
    if x.has_input(index) { x.operand(index).map(Some) } else { Ok(None) }
}

/// A product of integers `a`, `b` with their zero points, times both steps, plus a number.
fn product(
    x: &mut Expand,
    [a, b]: [Operand; 2],
    [a_scale, b_scale]: [Operand; 2],
    zeros: [Option<Operand>; 2],
    bias: Option<Operand>,
) -> Result<Operand> {
    let sums = x.op_n("MatMulInteger", &[Some(a), Some(b), zeros[0], zeros[1]], &[], 1)?;
    let sums = cast(x, *sums.at(0)?, DType::F32)?;
    let scale = x.op("Mul", &[a_scale, b_scale], &[])?;
    let result = x.op("Mul", &[sums, scale], &[])?;
    match bias {
        Some(bias) => x.op("Add", &[result, bias], &[]),
        None => Ok(result),
    }
}

fn expand_to_float(x: &mut Expand) -> Result<bool> {
    let operands = [x.operand(0)?, x.operand(1)?];
    let scales = [x.operand(2)?, x.operand(3)?];
    let zeros = [required_input(x, 4)?, required_input(x, 5)?];
    let bias = required_input(x, 6)?;
    let result = product(x, operands, scales, zeros, bias)?;
    x.output(0, result)?;
    Ok(true)
}

fn expand_dynamic_matmul(x: &mut Expand) -> Result<bool> {
    let a = x.operand(0)?;
    let quantised = x.op_n("DynamicQuantizeLinear", &[Some(a)], &[], 3)?;
    let [a, a_scale, a_zero] = [*quantised.at(0)?, *quantised.at(1)?, *quantised.at(2)?];
    let (b, b_scale) = (x.operand(1)?, x.operand(2)?);
    let (b_zero, bias) = (required_input(x, 3)?, required_input(x, 4)?);
    let result = product(x, [a, b], [a_scale, b_scale], [Some(a_zero), b_zero], bias)?;
    x.output(0, result)?;
    Ok(true)
}

/// Places of the inputs of QAttention.
mod attention {
    pub const BIAS: usize = 2;
    pub const X_SCALE: usize = 3;
    pub const WEIGHT_SCALE: usize = 4;
    pub const MASK: usize = 5;
    pub const X_ZERO: usize = 6;
    pub const WEIGHT_ZERO: usize = 7;
    pub const PAST: usize = 8;
}

fn infer_attention(call: &Call) -> Result<Vec<Fact>> {
    if call.has_input(attention::PAST) || call.has_output(1) {
        unsupported!("past and present states");
    }
    for name in ["num_heads", "unidirectional", "do_rotary"] {
        call.int(name)?;
    }
    for name in ["mask_filter_value", "scale"] {
        call.float(name)?;
    }
    let ([batch, length, _], [_, projected]) = (call.shape(0)?, call.shape(1)?) else {
        return Err(Error::invalid("a sequence that has not three axes, or a weight that has not two"));
    };
    // Queries, keys and values stand one after the other.
    let hidden = projected.floor_div(&Dim::Known(3))?;
    Ok(vec![Fact::new(DType::F32, vec![batch.clone(), length.clone(), hidden])])
}

/// What is quantized as numbers, then Attention: nothing is rounded on the way.
fn expand_attention(x: &mut Expand) -> Result<bool> {
    let mut numbers = Vec::new();
    for (operand, scale, zero, axis) in [
        (0, attention::X_SCALE, attention::X_ZERO, 1),
        (1, attention::WEIGHT_SCALE, attention::WEIGHT_ZERO, 1),
    ] {
        let inputs = [Some(x.operand(operand)?), Some(x.operand(scale)?), required_input(x, zero)?];
        let axis = ("axis", Attribute::Int(axis));
        numbers.extend(x.op_n("DequantizeLinear", &inputs, &[axis], 1)?.into_iter().map(Some));
    }
    numbers.extend([required_input(x, attention::BIAS)?, required_input(x, attention::MASK)?]);
    let attributes = x.node().attributes.clone();
    let attributes: Vec<(&str, Attribute)> =
        attributes.iter().map(|(name, attribute)| (name.as_str(), attribute.clone())).collect();
    let result = x.contrib_op("Attention", &numbers, &attributes)?;
    x.output(0, result)?;
    Ok(true)
}

fn infer_lstm(call: &Call) -> Result<Vec<Fact>> {
    let hidden = Dim::Known(required(call.int("hidden_size")?, "hidden_size")?);
    call.string("direction")?;
    let ([length, batch, _], [directions, _, _]) = (call.shape(0)?, call.shape(1)?) else {
        return Err(Error::invalid("a sequence or a weight that has not three axes"));
    };
    let last = Fact::new(DType::F32, vec![directions.clone(), batch.clone(), hidden.clone()]);
    let all = Fact::new(DType::F32, vec![length.clone(), directions.clone(), batch.clone(), hidden]);
    Ok(vec![all, last.clone(), last])
}

fn expand_lstm(_: &mut Expand) -> Result<bool> {
    Err(Error::unsupported("its states are rounded to steps of their own range at each step of the sequence")
        .help("convert the model from before its quantization, or this one with --dequantize"))
}
