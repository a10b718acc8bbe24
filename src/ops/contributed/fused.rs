//! Operators of `com.microsoft` that compute several operators of ONNX.

use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::elementwise::gated::swish;
use crate::ops::linear::matmul;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(DOMAIN, "BiasSoftmax", expand_bias_softmax)
        .lowers_to("Add, Softmax")
        .limits("several free sizes among those that Softmax adds up"),
    Row::defined(DOMAIN, "CDist", expand_distances)
        .multiply_adds(distance_multiply_adds)
        .lowers_to("MatMul, sums of squares, Relu, Sqrt")
        .limits("other metrics than euclidean and sqeuclidean"),
    Row::defined(DOMAIN, "GatedAdd", |x| Ok(x.operand(0).plus(x.operand(1) * x.operand(2))))
        .lowers_to("Mul, Add"),
    Row::defined(DOMAIN, "GatedRMSNorm", expand_gated_norm).lowers_to("RMSNormalization, Sigmoid, Mul"),
    Row::defined(DOMAIN, "GemmFastGelu", expand_gemm_gelu)
        .multiply_adds(matmul::multiply_adds)
        .lowers_to("MatMul, Add, Gelu"),
    Row::defined(DOMAIN, "ScaledSiLU", expand_scaled_silu).lowers_to("Mul, Sigmoid, Mul"),
    Row::defined(DOMAIN, "UnfoldTensor", expand_unfold)
        .tolerates_rounding(|_, _| true)
        .lowers_to("the frames of an axis, Transpose"),
];

/// All axes from `axis` on are one distribution.
fn expand_bias_softmax<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let rank = x.shape(0)?.len();
    let axis = resolve_axis(x.int("axis")?, rank)?;
    let sum = x.operand(0).plus(x.operand(1));
    if axis + 1 == rank {
        return Ok(sum.softmax(-1));
    }
    let mut rows = vec![0; axis];
    rows.push(-1);
    Ok(sum.reshape(&rows).softmax(-1).reshape_to(x.operand(0).shape()))
}

fn distance_multiply_adds(call: &Call) -> Option<u64> {
    Some(element_count(call.shape(0).ok()?)?.saturating_mul(element_count(call.shape(1).ok()?.get(..1)?)?))
}

/// `|a|^2 - 2 a b + |b|^2`, bounded by 0, as the kernel computes it (`cdist.h`).
fn expand_distances<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let ([_, _], [_, _]) = (x.shape(0)?, x.shape(1)?) else {
        invalid!("distances of {} and {}", display_shape(x.shape(0)?), display_shape(x.shape(1)?));
    };
    let [a, b] = [0, 1].map(|index| x.operand(index));
    let [a_squares, b_squares] = [a, b].map(|rows| (rows * rows).reduce("ReduceSum", &[1], true));
    let squares = (a_squares - a.matmul(b.transpose(&[1, 0])) * 2.0 + b_squares.transpose(&[1, 0])).relu();
    Ok(match x.string("metric")? {
        "euclidean" => squares.sqrt(),
        "sqeuclidean" => squares,
        other => unsupported!("the metric {other}"),
    })
}

/// Normalizes groups of as many elements as the scale has.
fn expand_gated_norm<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let [value, scale, gate] = [0, 1, 2].map(|index| x.operand(index));
    let gate = match x.string("activation")? {
        "silu" | "swish" => swish(gate, 1.0),
        "sigmoid" => gate.sigmoid(),
        other => unsupported!("the activation {other}"),
    };
    let Some(size) = x.shape(1)?.at(0)?.known() else { unsupported!("a scale of free size") };
    let shape = x.shape(0)?;
    let norm = |value: Expr<'x>| super::normalized_rows(x, value, scale);
    let normalized = if shape.last().is_some_and(|last| last.is(size)) {
        norm(value)?
    } else {
        let mut groups = vec![0; shape.len().saturating_sub(1)];
        groups.extend([-1, size]);
        norm(value.reshape(&groups))?.reshape_to(value.shape())
    };
    Ok(normalized.times(gate))
}

fn expand_gemm_gelu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let product = x.operand(0).matmul(x.operand(1));
    Ok(super::gelu(product.add_optional(x.optional(2)), "tanh"))
}

fn expand_scaled_silu<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let value = x.operand(0);
    let scaled = match x.optional(1) {
        Some(scale) => value * scale.scalar(),
        None => value * x.float("alpha")?,
    };
    Ok(swish(scaled, 1.0))
}

/// The parts of an axis, `size` elements each.
struct Unfold {
    axis: usize,
    size: i64,
    step: i64,
}

fn read_unfold(call: &Call) -> Result<Unfold> {
    let axis = resolve_axis(call.int("dim")?, call.shape(0)?.len())?;
    let (size, step) = (call.int("size")?, call.int("step")?);
    if size < 1 || step < 1 {
        invalid!("parts of {size} elements with step {step}");
    }
    Ok(Unfold { axis, size, step })
}

fn expand_unfold<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Unfold { axis, size, step } = read_unfold(x)?;
    let (data, rank) = (x.operand(0), x.shape(0)?.len());
    let count = (data.size(axis) - size) / step + 1_i64;
    let attributes = [
        ("axis", axis.into()),
        ("dilation", 1.into()),
        ("elements", size.into()),
        ("elements_first", 0.into()),
        ("start", 0.into()),
        ("stride", step.into()),
    ];
    let frames = x.make.op("ncnn.Frames", [data, count.reshape(&[1])], attributes);
    // The elements of a frame come last.
    let mut order: Vec<usize> = (0..=rank).collect();
    order.remove(axis + 1);
    order.push(axis + 1);
    Ok(frames.transpose(&order))
}
