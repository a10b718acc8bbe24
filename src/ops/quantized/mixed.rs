//! onnxruntime's operators that multiply quantized values into floats. Its quantizer writes them for
//! attention and recurrent networks, its optimizer for matrix products.

use super::MICROSOFT;
use crate::error::ErrorCode;
use crate::graph::pairs;
use crate::ops::attention::parts::projected_multiply_adds;
use crate::ops::linear::matmul;
use crate::ops::prelude::*;
use crate::ops::recurrent;
use crate::pass::rounding::UNQUANTIZED;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(MICROSOFT, "MatMulIntegerToFloat", expand_to_float)
        .multiply_adds(matmul::multiply_adds)
        .lowers_to("MatMulInteger, Mul, Add"),
    Row::defined(MICROSOFT, "DynamicQuantizeMatMul", expand_dynamic_matmul)
        .multiply_adds(matmul::multiply_adds)
        .rounds()
        .lowers_to("DynamicQuantizeLinear, MatMulInteger, Mul, Add")
        .limits("a second rounding"),
    Row::expanded(MICROSOFT, "QAttention", expand_attention)
        .multiply_adds(|call| {
            let hidden = element_count(call.output_shape(0).ok()?.get(2..)?)?;
            projected_multiply_adds(call, [hidden; 2])
        })
        .appends(|_, _| vec![(attention::PAST, 3)])
        .lowers_to("DequantizeLinear, Attention")
        .limits("a state in a buffer; rotary positions inside; masks that give lengths"),
    Row::expanded(MICROSOFT, "DynamicQuantizeLSTM", expand_lstm)
        .multiply_adds(recurrent::multiply_adds)
        .rounds()
        .lowers_to("LSTM, with --int8 or --dequantize")
        .limits("rounding at every step of the sequence"),
];

/// Returns the product of quantized `a` and `b`, times both scales, plus a bias.
fn product<'x>(
    [a, b]: [Expr<'x>; 2],
    [a_scale, b_scale]: [Expr<'x>; 2],
    [a_zero, b_zero]: [Option<Expr<'x>>; 2],
    bias: Option<Expr<'x>>,
) -> Expr<'x> {
    let sums = a.builder.op("MatMulInteger", [Some(a), Some(b), a_zero, b_zero], []);
    sums.cast(DType::F32).times(a_scale * b_scale).add_optional(bias)
}

fn expand_to_float<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [factors, scales] = [[0, 1], [2, 3]].map(|pair| pair.map(|index| x.operand(index)));
    let zeros = [4, 5].map(|index| x.optional(index));
    Ok(product(factors, scales, zeros, x.optional(6)))
}

fn expand_dynamic_matmul<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    if !x.dtype(0)?.is_float() {
        invalid!("dynamic quantization of {}", x.dtype(0)?);
    }
    let a = x.make.op("DynamicQuantizeLinear", [x.operand(0)], []);
    let (factors, scales) = ([a, x.operand(1)], [a.output(1), x.operand(2)]);
    Ok(product(factors, scales, [Some(a.output(2)), x.optional(3)], x.optional(4)))
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
    let result = x.make.op("com.microsoft.Attention", operands, attributes);
    (0..count).for_each(|index| x.output(index, result.output(index)));
    Ok(true)
}

/// Refused: it has the types and shapes of LSTM.
fn expand_lstm(x: &Expand) -> Result<bool> {
    x.refuse(
        Error::unsupported("its states are quantized by their own range at every step of the sequence")
            .code_is(ErrorCode::ROUNDED_TWICE)
            .help(UNQUANTIZED),
    );
    let [weight, recurrence] = [1, 2].map(|index| x.operand_as(index, DType::F32).transpose(&[0, 2, 1]));
    let attributes = pairs(&x.node().attributes);
    let y = x.make.op("LSTM", [x.operand(0), weight, recurrence], attributes);
    (0..3).for_each(|index| x.output(index, y.output(index)));
    Ok(true)
}
