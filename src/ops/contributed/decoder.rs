//! Operators of `com.microsoft` in decoders of today's exporters: projections that share an input, positions
//! of pictures, connections of several streams.

use num_traits::AsPrimitive;

use super::attention::rotary_attributes;
use super::{last_sizes, normalized_rows};
use crate::op::CONTRIB_DOMAIN as DOMAIN;
use crate::ops::elementwise::gated::swish;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined(DOMAIN, "BranchwiseRMSNorm", expand_branch_norm).lowers_to("RMSNormalization, Mul"),
    Row::expanded(DOMAIN, "EngramGate", expand_engram)
        .lowers_to("RMSNormalization, Mul, ReduceSum, Sqrt, Sigmoid"),
    Row::defined(DOMAIN, "HyperConnectionPostMix", expand_post_mix).lowers_to("MatMul, Mul, Add"),
    Row::defined(DOMAIN, "HyperConnectionPreMix", expand_pre_mix).lowers_to("Mul, ReduceSum"),
    Row::expanded(DOMAIN, "MatMulNBitsMlp", expand_mlp)
        .lowers_to("RMSNormalization, MatMulNBits, Sigmoid, Mul")
        .limits("other activations than silu"),
    Row::expanded(DOMAIN, "MatMulNBitsQkv", expand_projections).lowers_to("RMSNormalization, MatMulNBits"),
    Row::defined(DOMAIN, "MRotaryEmbedding", expand_rotary)
        .lowers_to("Gather, RotaryEmbedding of ONNX")
        .limits("packed batches, a scale"),
];

/// Returns a value normalized along its last axis of `size`, by a scale of that axis or none.
fn normalized<'x>(x: &'x Expand, value: Expr<'x>, size: i64, scale: Option<Expr<'x>>) -> Result<Expr<'x>> {
    let scale = scale.unwrap_or_else(|| x.make.number(1.0, DType::F32).broadcast(&[size]));
    normalized_rows(x, value, scale)
}

/// Adjacent streams, `[.., branches, size]`.
struct Streams<'x> {
    value: Expr<'x>,
    rank: usize,
    branches: i64,
    size: i64,
    /// Whether the model has both axes as one.
    is_flat: bool,
}

impl<'x> Streams<'x> {
    /// Returns the streams of input 0, which has both axes as one if it has the attribute `num_branches`.
    fn of(x: &'x Expand) -> Result<Streams<'x>> {
        let (value, shape, branches) = (x.operand_as(0, DType::F32), x.shape(0)?, x.int("num_branches")?);
        if branches == 0 {
            let [branches, size] = last_sizes(shape)?;
            return Ok(Streams { value, rank: shape.len(), branches, size, is_flat: false });
        }
        let [width] = last_sizes(shape)?;
        let Some((size, 0)) = width.checked_div(branches).zip(width.checked_rem(branches)) else {
            invalid!("{width} elements in {branches} branches");
        };
        let mut form = vec![0; shape.len().saturating_sub(1)];
        form.extend([branches, size]);
        Ok(Streams { value: value.reshape(&form), rank: shape.len() + 1, branches, size, is_flat: true })
    }

    /// Returns the factors of each stream or of each element, input `index`, in a shape that is broadcast to
    /// the streams.
    fn factors(&self, x: &'x Expand, index: usize) -> Result<Expr<'x>> {
        let (factors, shape) = (x.operand_as(index, DType::F32), x.shape(index)?);
        Ok(if shape.len() == self.rank {
            factors
        } else if shape.last().is_some_and(|last| last.is(self.branches)) {
            factors.unsqueeze(&[-1_i64])
        } else {
            let mut form = vec![0; shape.len().saturating_sub(1)];
            form.extend([self.branches, self.size]);
            factors.reshape(&form)
        })
    }

    /// Returns streams in the shape and type of the input.
    fn restored(&self, x: &'x Expand, streams: Expr<'x>) -> Result<Expr<'x>> {
        let streams = if self.is_flat { streams.reshape_to(x.operand(0).shape()) } else { streams };
        Ok(streams.to_type(x.dtype(0)?))
    }
}

fn expand_branch_norm<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let streams = Streams::of(x)?;
    let Streams { value, branches, size, .. } = streams;
    let scale = x.optional(1).map(|scale| scale.to_type(DType::F32));
    let result = match scale {
        Some(scale) if x.shape(1)?.len() > 1 || !x.shape(1)?.at(0)?.is(size) => {
            normalized(x, value, size, None)? * scale.reshape(&[branches, size])
        }
        of_size => normalized(x, value, size, of_size)?,
    };
    streams.restored(x, result)
}

/// The product of the streams with a matrix, which is the identity if absent, plus the new output with a
/// factor for each stream.
fn expand_post_mix<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let streams = Streams::of(x)?;
    let added = x.operand_as(1, DType::F32).unsqueeze(&[-2_i64]) * streams.factors(x, 2)?;
    let mut perm: Vec<usize> = (0..streams.rank).collect();
    perm.swap(streams.rank - 2, streams.rank - 1);
    let kept = match x.has_input(3) {
        true => x.operand_as(3, DType::F32).transpose(&perm).matmul(streams.value),
        false => streams.value,
    };
    streams.restored(x, kept + added)
}

fn expand_pre_mix<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let streams = Streams::of(x)?;
    let sum = (streams.value * streams.factors(x, 1)?).reduce("ReduceSum", &[-2_i64], false);
    Ok((sum * x.float("reduction_scale")?).to_type(x.dtype(0)?))
}

/// A value times `Sigmoid(Sign(dot) * Sqrt(Max(Abs(dot), 1e-6)))` of normalized keys and queries.
fn expand_engram<'x>(x: &'x Expand) -> Result<bool> {
    let ([size], dtype) = (last_sizes(x.shape(0)?)?, x.dtype(0)?);
    let norm = |value: Expr<'x>, scale: usize| -> Result<Expr<'x>> {
        Ok(normalized(x, value, size, None)? * x.operand_as(scale, DType::F32))
    };
    let [key, query, value] = [0, 1, 2].map(|index| x.operand_as(index, DType::F32));
    let product = norm(key, 3)? * norm(query, 4)?;
    let size: f32 = size.as_();
    let dot = product.reduce("ReduceSum", &[-1_i64], true) / size.sqrt();
    let gate = (x.make.op("Sign", [dot], []) * dot.abs().maximum(1e-6).sqrt()).sigmoid();
    let gated = gate * value.unsqueeze(&[2]);
    x.output(0, gated.to_type(dtype));
    if x.has_output(1) {
        x.output(1, norm(gated, 5)?.to_type(dtype));
    }
    Ok(true)
}

/// Returns the product of a value with weights in blocks, inputs `first` (weights, scales, bias), with
/// so many columns.
fn product<'x>(x: &'x Expand, value: Expr<'x>, first: usize, columns: i64) -> Result<Expr<'x>> {
    let [weights, scales, bias] = [0, 1, 2].map(|offset| x.optional(first + offset));
    let same = ["K", "bits", "block_size", "accuracy_level"].map(|name| Ok((name, x.int(name)?.into())));
    let attributes = same.into_iter().chain([Ok(("N", columns.into()))]).collect::<Result<Vec<_>>>()?;
    Ok(x.make.op("com.microsoft.MatMulNBits", [Some(value), weights, scales, None, None, bias], attributes))
}

/// Returns input 0 plus input 1, normalized by input 2, each if present; the sum is output `index`.
fn normalized_sum<'x>(x: &'x Expand, index: usize) -> Result<Expr<'x>> {
    let sum = x.operand(0).add_optional(x.optional(1));
    if x.has_output(index) {
        x.output(index, sum);
    }
    x.optional(2).map_or(Ok(sum), |scale| normalized_rows(x, sum, scale))
}

fn expand_mlp(x: &Expand) -> Result<bool> {
    match x.string("activation")? {
        "silu" | "swish" => {}
        other => unsupported!("the activation {other}"),
    }
    let (value, columns) = (normalized_sum(x, 1)?, x.int("N")?);
    x.output(0, swish(product(x, value, 3, columns)?, 1.0) * product(x, value, 6, columns)?);
    Ok(true)
}

fn expand_projections(x: &Expand) -> Result<bool> {
    let value = normalized_sum(x, 3)?;
    let (queries, keys) = (x.int("Nq")?, x.int("Nkv")?);
    for (index, columns) in [queries, keys, keys].into_iter().enumerate() {
        x.output(index, product(x, value, 3 + 3 * index, columns)?);
    }
    Ok(true)
}

/// The most angles of a position: which of three positions each has is listed.
const MAX_ANGLES: i64 = 1 << 16;

/// Each pair of elements turns by the angle at one of three positions: of time, height or width.
fn expand_rotary<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let sections = x.ints("mrope_section")?;
    let [times, heights, widths] = *sections.as_slice() else { invalid!("{} sections", sections.len()) };
    let all = times.saturating_add(heights).saturating_add(widths);
    let is_mixed = match x.int_or("mrope_layout", 0)? {
        0 => false,
        1 => true,
        other => invalid!("the layout {other}"),
    };
    let [size] = last_sizes(x.shape(2)?)?;
    if size != all {
        invalid!("sections of {all} pairs for {size} angles");
    }
    if size > MAX_ANGLES {
        return Err(Error::limit(format!("{size} angles of a position (at most {MAX_ANGLES})")));
    }
    let stream = |pair: i64| match pair % 3 {
        1 if is_mixed && pair < heights.saturating_mul(3) => 1,
        2 if is_mixed && pair < widths.saturating_mul(3) => 2,
        _ if is_mixed || pair < times => 0,
        _ if pair < times.saturating_add(heights) => 1,
        _ => 2,
    };
    let streams: Vec<i64> = (0..size).map(stream).collect();
    let angles = |index: usize| {
        let parts = [0, 1, 2].map(|position: i64| {
            let is_part = streams.iter().map(|stream| if *stream == position { 1.0 } else { 0.0 });
            let at = x.operand(index).gather(x.operand(1).element(0, position), 0);
            at * x.make.floats(&is_part.collect::<Vec<f32>>()).to_type(x.dtype(index).unwrap_or(DType::F32))
        });
        let [time, height, width] = parts;
        time + height + width
    };
    let attributes = rotary_attributes(x)?;
    Ok(x.make.op("RotaryEmbedding", [x.operand(0), angles(2), angles(3)], attributes))
}
