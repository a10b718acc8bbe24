//! onnxruntime's operators on quantized values, of the domain `com.microsoft`. They follow its kernels to the
//! last bit, which decides how a value halfway between two steps is rounded.

mod arithmetic;
mod function;
mod gemm;
mod operand;
mod part;
mod pool;

use super::MICROSOFT as DOMAIN;
use crate::ops::prelude::*;
use crate::pass::expand::Formula;

const fn row(name: &'static str, formula: Formula) -> Row {
    Row::defined(DOMAIN, name, formula).rounds().exact()
}

pub(in crate::ops) const OPS: &[Row] = &[
    row("QLinearLeakyRelu", function::expand_leaky_relu).lowers_to("LeakyRelu, QuantizeLinear"),
    Row::defined(DOMAIN, "QLinearSigmoid", function::expand_sigmoid)
        .rounds()
        .lowers_to("Sigmoid, QuantizeLinear"),
    row("QLinearAveragePool", pool::expand_pool)
        .lowers_to("Pooling or sums of slices, QuantizeLinear; Transpose for channels that are last")
        .limits(
            "windows of free sizes or of more than 64 elements, unless all of their counts are powers of two",
        ),
    // Not exact: the exponentials of two runtimes differ in their last bits.
    Row::defined(DOMAIN, "QLinearSoftmax", function::expand_softmax)
        .rounds()
        .lowers_to("Softmax, QuantizeLinear")
        .limits(
            "several axes together, as before operator set 13; a scale or a zero point of the result that is known \
            only at run time",
        ),
    row("QLinearAdd", arithmetic::expand_add)
        .lowers_to("BinaryOp on the differences to the zero points, QuantizeLinear"),
    row("QLinearMul", arithmetic::expand_mul)
        .lowers_to("BinaryOp on the differences to the zero points, QuantizeLinear"),
    row("QLinearConcat", part::expand_concat).lowers_to("QuantizeLinear of each part, Concat"),
    row("QLinearWhere", part::expand_where).lowers_to("QuantizeLinear of both operands, Where"),
    row("QLinearGlobalAveragePool", pool::expand_global_pool).lowers_to("Reduction, QuantizeLinear"),
    row("QGemm", gemm::expand_gemm)
        .lowers_to("InnerProduct in int8, or MatMul of the differences to the zero points, QuantizeLinear")
        .limits("an alpha together with c"),
];
