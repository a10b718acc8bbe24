//! onnxruntime's operators that multiply quantized values into floats. Its quantizer writes them for
//! attention and recurrent networks, its optimizer for matrix products.

use super::MICROSOFT;
use crate::error::ErrorCode;
use crate::graph::pairs;
use crate::ops::attention::parts::projected_multiply_adds;
use crate::ops::linear::matmul::{self, matmul_shape};
use crate::ops::prelude::*;
use crate::ops::recurrent;
use crate::pass::rounding::UNQUANTIZED;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(MICROSOFT, "MatMulIntegerToFloat", Access::Any, |call| infer_product(call, &[2, 3, 6]))
        .multiply_adds(matmul::multiply_adds)
        .formula(expand_to_float)
        .lowers_to("MatMulInteger, Mul, Add"),
    Row::of(MICROSOFT, "DynamicQuantizeMatMul", Access::Any, infer_dynamic_matmul)
        .multiply_adds(matmul::multiply_adds)
        .formula(expand_dynamic_matmul)
        .rounds()
        .lowers_to("DynamicQuantizeLinear, MatMulInteger, Mul, Add")
        .limits("a second rounding"),
    Row::of(MICROSOFT, "QAttention", Access::Any, infer_attention)
        .expand(expand_attention)
        .multiply_adds(|call| {
            let hidden = element_count(call.output_shape(0).ok()?.get(2..)?)?;
            projected_multiply_adds(call, [hidden; 2])
        })
        .appends(|_, _| vec![(attention::PAST, 3)])
        .lowers_to("DequantizeLinear, Attention")
        .limits("a state in a buffer; rotary positions inside; masks that give lengths"),
    Row::of(MICROSOFT, "DynamicQuantizeLSTM", Access::Any, infer_lstm)
        .multiply_adds(recurrent::multiply_adds)
        .expand(expand_lstm)
        .rounds()
        .lowers_to("LSTM, with --int8 or --dequantize")
        .limits("rounding at every step of the sequence"),
];

/// Infers a product of inputs 0 and 1. The scales and the bias, inputs `operands`, must broadcast to its
/// shape.
fn infer_product(call: &Call, operands: &[usize]) -> Result<Vec<Fact>> {
    let shape = matmul_shape(call, call.shape(0)?, call.shape(1)?)?;
    operands.iter().try_for_each(|index| call.check_broadcasts(*index, &shape))?;
    Ok(vec![Fact::new(DType::F32, shape)])
}

fn infer_dynamic_matmul(call: &Call) -> Result<Vec<Fact>> {
    if !call.dtype(0)?.is_float() {
        invalid!("dynamic quantization of {}", call.dtype(0)?);
    }
    infer_product(call, &[2, 4])
}

/// Returns the product of quantized `a` and `b`, times both scales, plus a bias.
fn product<'x>(
    [a, b]: [Expr<'x>; 2],
    [a_scale, b_scale]: [Expr<'x>; 2],
    [a_zero, b_zero]: [Option<Expr<'x>>; 2],
    bias: Option<Expr<'x>>,
) -> Expr<'x> {
    let sums = a.builder.op("MatMulInteger", [Some(a), Some(b), a_zero, b_zero], []);
    let result = sums.cast(DType::F32) * (a_scale * b_scale);
    result.add_optional(bias)
}

fn expand_to_float<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [factors, scales] = [[0, 1], [2, 3]].map(|pair| pair.map(|index| x.operand(index)));
    let zeros = [4, 5].map(|index| x.optional(index));
    Ok(product(factors, scales, zeros, x.optional(6)))
}

fn expand_dynamic_matmul<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [a, a_scale, a_zero] = x.make.op_n("DynamicQuantizeLinear", [x.operand(0)], []);
    let (factors, scales) = ([a, x.operand(1)], [a_scale, x.operand(2)]);
    Ok(product(factors, scales, [Some(a_zero), x.optional(3)], x.optional(4)))
}

/// Indices of the inputs of QAttention.
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
    let heads = match call.int("num_heads")? {
        heads @ 1.. => Dim::Known(heads),
        heads => return Err(Error::invalid(format!("{heads} heads")).at_part("attribute num_heads")),
    };
    let ([batch, length, _], [_, projected]) = (call.shape(0)?, call.shape(1)?) else {
        return Err(Error::invalid("a sequence without three axes, or a weight without two"));
    };
    // The weight is the concatenation of those of queries, keys and values.
    let hidden = projected.floor_div(3);
    let keys = match call.has_input(attention::PAST) {
        true => call.shape(attention::PAST)?.at(3)? + length,
        false => length.clone(),
    };
    let size = hidden.floor_div(&heads);
    let present = Fact::new(DType::F32, shape![2, batch, heads, keys, size]);
    Ok(vec![Fact::new(DType::F32, vec![batch.clone(), length.clone(), hidden]), present])
}

/// Attention of the dequantized operands: the kernel rounds no intermediate result.
fn expand_attention(x: &Expand) -> Result<bool> {
    let mut operands = Vec::new();
    for (operand, scale, zero) in
        [(0, attention::X_SCALE, attention::X_ZERO), (1, attention::WEIGHT_SCALE, attention::WEIGHT_ZERO)]
    {
        let inputs = [Some(x.operand(operand)), Some(x.operand(scale)), x.optional(zero)];
        operands.push(Some(x.make.op("DequantizeLinear", inputs, [("axis", 1.into())])));
    }
    operands.extend([attention::BIAS, attention::MASK, attention::PAST].map(|index| x.optional(index)));
    let attributes = pairs(&x.node().attributes);
    let count = if x.has_output(1) { 2 } else { 1 };
    let results = x.make.op_list("com.microsoft.Attention", operands, attributes, count);
    results.into_iter().enumerate().for_each(|(index, result)| x.output(index, result));
    Ok(true)
}

fn infer_lstm(call: &Call) -> Result<Vec<Fact>> {
    let hidden = Dim::Known(call.int("hidden_size")?);
    let ([length, batch, _], [directions, _, _]) = (call.shape(0)?, call.shape(1)?) else {
        return Err(Error::invalid("a sequence or a weight without three axes"));
    };
    let last = Fact::new(DType::F32, vec![directions.clone(), batch.clone(), hidden.clone()]);
    let all = Fact::new(DType::F32, vec![length.clone(), directions.clone(), batch.clone(), hidden]);
    Ok(vec![all, last.clone(), last])
}

fn expand_lstm(_: &Expand) -> Result<bool> {
    Err(Error::unsupported("its states are quantized by their own range at every step of the sequence")
        .code_is(ErrorCode::ROUNDED_TWICE)
        .help(UNQUANTIZED))
}
