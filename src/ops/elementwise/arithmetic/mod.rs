//! Elementwise arithmetic of two or more values, with broadcasting.
//!
//! Integers of 8 and 16 bits wrap around by FLOOR. ncnn computes in float32; results of 32 and 64 bits are
//! assumed to stay below 2^24 in magnitude, so that they are exact. Constants that rule this out are refused.
//! Integer divisors are assumed not to be zero, as onnxruntime requires. The minimum of NaN and a number may
//! be either.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Add.html>, `onnx__Mod.html`, `onnx__Pow.html`,
//! `onnx__BitShift.html`.

mod bitwise;
mod floor;
mod fold;
mod lower;
mod modulo;
mod pow;

use super::broadcast::infer_first;
use crate::ncnn::layer::binary_op;
use crate::op::identity::{either_paired_with, only_input, paired_with};
use crate::ops::prelude::*;

use bitwise::{Bitwise, lower_bitwise};
use floor::infer_sub;
use fold::*;
pub(in crate::ops) use fold::{ADD, MUL};
use lower::*;
use modulo::{infer_mod, lower_mod, range_mod};
use pow::{expand_int_pow, lower_pow, range_power};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Add", Access::Broadcast, infer_first)
        .fold(|call| fold_pairs(call, &ADD))
        .range(|_, x| over(x, Range::plus))
        .keeps_magnitude()
        .lower(|l| lower_chain(l, binary_op::ADD))
        .identity(|graph, node| either_paired_with(graph, node, 0.0))
        .lowers_to("BinaryOp"),
    Row::new("BitShift", Access::Broadcast, infer_first)
        .fold(fold_bit_shift)
        .range(range_bit_shift)
        .lower(lower_bit_shift)
        .lowers_to("BinaryOp: products with powers of two"),
    Row::new("BitwiseAnd", Access::Broadcast, infer_first)
        .fold(|call| fold_bits(call, |x, y| x & y))
        .range(|_, x| Bitwise::And.range(x))
        .lower(|l| lower_bitwise(l, Bitwise::And))
        .lowers_to("BinaryOp on rows of bits, Reduction")
        .limits("integers of 32 and 64 bits, unless one side has only the lowest 24 bits"),
    Row::new("BitwiseNot", Access::Elementwise, infer_first)
        .fold(fold_bitwise_not)
        .lower(lower_bitwise_not)
        .lowers_to("BinaryOp: -x - 1")
        .limits("unsigned integers of 32 and 64 bits"),
    Row::new("BitwiseOr", Access::Broadcast, infer_first)
        .fold(|call| fold_bits(call, |x, y| x | y))
        .range(|_, x| Bitwise::Or.range(x))
        .lower(|l| lower_bitwise(l, Bitwise::Or))
        .lowers_to("BinaryOp on rows of bits, Reduction")
        .limits("integers of 32 and 64 bits, unless both sides have only the lowest 24 bits"),
    Row::new("BitwiseXor", Access::Broadcast, infer_first)
        .fold(|call| fold_bits(call, |x, y| x ^ y))
        .range(|_, x| Bitwise::Xor.range(x))
        .lower(|l| lower_bitwise(l, Bitwise::Xor))
        .lowers_to("BinaryOp on rows of bits, Reduction")
        .limits("integers of 32 and 64 bits, unless both sides have only the lowest 24 bits"),
    Row::new("Div", Access::Broadcast, infer_div)
        .nan(nan_quotient)
        .fold(|call| fold_pairs(call, &DIV))
        .range(range_quotient)
        .lower(lower_div)
        .identity(|graph, node| paired_with(graph, node, 0, 1.0))
        .lowers_to(
            "BinaryOp; UnaryOp TRUNC after it for integers; Power, or Clip, Threshold and BinaryOp, for divisors that \
             may be zero or infinite",
        ),
    Row::new("Max", Access::Broadcast, infer_first)
        .fold(|call| fold_pairs(call, &MAX))
        .tolerates_rounding(|_, _| true)
        .range(|_, x| over(x, Range::maximum))
        .lower(|l| lower_extreme(l, binary_op::MAX))
        .identity(only_input)
        .lowers_to("BinaryOp"),
    Row::new("Mean", Access::Broadcast, infer_first)
        .fold(fold_mean)
        .range(|_, x| over(x, Range::union).averaged(over(x, Range::plus)))
        .lower(lower_mean)
        .identity(only_input)
        .lowers_to("BinaryOp"),
    Row::new("Min", Access::Broadcast, infer_first)
        .fold(|call| fold_pairs(call, &MIN))
        .tolerates_rounding(|_, _| true)
        .range(|_, x| over(x, Range::minimum))
        .lower(|l| lower_extreme(l, binary_op::MIN))
        .identity(only_input)
        .lowers_to("BinaryOp"),
    Row::new("Mod", Access::Broadcast, infer_mod)
        .nan(nan_quotient)
        .fold(fold_mod)
        .range(range_mod)
        .lower(lower_mod)
        .discontinuous(|_, _| true)
        .lowers_to("BinaryOp, UnaryOp TRUNC or FLOOR, Threshold")
        .states("floats whose quotient is 2^24 or more, stated by value"),
    Row::new("Mul", Access::Broadcast, infer_first)
        .fold(|call| fold_pairs(call, &MUL))
        .range(range_product)
        .keeps_magnitude()
        .lower(lower_mul)
        .identity(|graph, node| either_paired_with(graph, node, 1.0))
        .lowers_to("BinaryOp"),
    Row::new("Pow", Access::Broadcast, infer_first)
        .nan(nan_power)
        .fold(|call| fold_pairs(call, &POW))
        .range(range_power)
        .expand(expand_int_pow)
        .lower(lower_pow)
        .identity(|graph, node| paired_with(graph, node, 0, 1.0))
        .lowers_to(
            "UnaryOp, Power or Exp if one side is constant; otherwise Exp of a product with \
            Log, and the sign separately, or for integers a product of squares",
        )
        .limits(
            "integers of 8 and 16 bits by exponents computed at run time; constant exponents \
            that are not finite, or of integers that are negative or fractions",
        )
        .differs("-inf to the power of 0.5, which becomes NaN"),
    Row::new("Sub", Access::Broadcast, infer_sub)
        .fold(|call| fold_pairs(call, &SUB))
        .range(|_, x| over(x, |a, b| a.plus(b.negated())))
        .keeps_magnitude()
        .lower(|l| lower_chain(l, binary_op::SUB))
        .identity(|graph, node| paired_with(graph, node, 0, 0.0))
        .lowers_to("BinaryOp"),
    Row::new("Sum", Access::Broadcast, infer_first)
        .fold(|call| fold_pairs(call, &ADD))
        .range(|_, x| over(x, Range::plus))
        .keeps_magnitude()
        .lower(|l| lower_chain(l, binary_op::ADD))
        .identity(only_input)
        .lowers_to("BinaryOp"),
];

/// Returns whether all elements of a constant input are known and satisfy a condition.
fn all(graph: &Graph, node: &Node, index: usize, condition: fn(f64) -> bool) -> bool {
    let constant = node.input(index).and_then(|id| graph.value(id).constant.as_ref());
    let tensor = constant.filter(|tensor| tensor.len() <= limits::LOOKED_AT);
    let array = tensor.and_then(|tensor| tensor.load_listed().ok());
    array.is_some_and(|array| array.all_numbers(condition))
}

/// A quotient is NaN if the divisor is 0.
fn nan_quotient(graph: &Graph, node: &Node) -> Option<(usize, f32)> {
    (!all(graph, node, 1, |x| x != 0.0)).then_some((1, 1.0))
}

/// A power is NaN if the base is negative and the exponent a fraction, and infinite for a base of 0 and a
/// negative exponent.
fn nan_power(graph: &Graph, node: &Node) -> Option<(usize, f32)> {
    let defined = all(graph, node, 1, |x| x.fract() == 0.0 && x >= 0.0) || all(graph, node, 0, |x| x > 0.0);
    (!defined).then_some((0, 1.0))
}

/// Returns the range of one operation over all operands.
fn over(inputs: &[Range], combine: fn(Range, Range) -> Range) -> Range {
    inputs.iter().copied().reduce(combine).unwrap_or(Range::ANY)
}

fn range_product(call: &Call, inputs: &[Range]) -> Range {
    match (inputs, call.node().inputs.as_slice()) {
        ([a, b], [first, second]) if first == second => a.abs().times(b.abs()),
        _ => over(inputs, Range::times),
    }
}

fn range_quotient(call: &Call, inputs: &[Range]) -> Range {
    match inputs {
        // A quotient of integers, which is truncated, is not larger than the dividend.
        [a, _] if call.dtype(0).is_ok_and(DType::is_int) => a.union(a.negated()),
        [a, b] if b.excludes_zero() && b.is_finite() => a.times(b.negated().map(|x| -1.0 / x)),
        _ => Range::ANY,
    }
}

/// A shift to the right by constants divides by a power of two and rounds down.
fn range_bit_shift(call: &Call, inputs: &[Range]) -> Range {
    match (read_bit_shift(call), inputs) {
        (Ok(false), [x, by]) if by.least >= 0.0 => {
            let shifted = |by: f64| x.map(|x| libm::floor(x * libm::exp2(-by.min(64.0))));
            shifted(by.least).union(shifted(by.most))
        }
        _ => Range::ANY,
    }
}

fn infer_div(call: &Call) -> Result<Vec<Fact>> {
    require_signs(call)?;
    infer_first(call)
}
