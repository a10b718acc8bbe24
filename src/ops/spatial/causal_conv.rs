//! The convolution of a sequence that sees only what is behind, with the end of the sequence as a state.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>.

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim};

pub(in crate::ops) const OPS: &[Row] =
    &[Row::new("CausalConvWithState", &[27], infer_causal_conv).variadic().expand(expand_causal_conv).lowers_to("Concat of state and input, Conv by channel, Slice of the end; a sum of products for weights computed at run time").limits("many taps computed at run time; sizes of the kernel that are not fixed")];

/// Most taps of a kernel that is computed at run time: each is a product and a sum.
const MAX_RUNTIME_TAPS: i64 = 64;

struct CausalConv {
    channels: i64,
    /// Elements of the kernel.
    taps: i64,
    /// Whether the result goes through x * Sigmoid(x).
    swish: bool,
}

fn read_causal_conv(call: &Call) -> Result<CausalConv> {
    let swish = match call.string_or("activation", "none")? {
        "none" => false,
        "silu" | "swish" => true,
        other => return Err(Error::invalid(format!("\"{other}\"")).at_part("attribute activation")),
    };
    let weight = call.shape(1)?;
    let [channels, one, taps] = weight else { invalid!("a weight of {} axes, where it has 3", weight.len()) };
    if call.shape(0)?.len() != 3 || one.known().is_some_and(|n| n != 1) {
        invalid!("a kernel over several channels, or an input without batch, channels and length");
    }
    let (Some(channels), Some(taps)) = (channels.known(), taps.known()) else {
        unsupported!("a kernel whose sizes are not fixed");
    };
    if taps < 1 {
        invalid!("a kernel of {taps}");
    }
    Ok(CausalConv { channels, taps, swish })
}

fn infer_causal_conv(call: &Call) -> Result<Vec<Fact>> {
    let conv = read_causal_conv(call)?;
    let (shape, dtype) = (call.shape(0)?.to_vec(), call.dtype(0)?);
    let channels = Dim::Known(conv.channels);
    call.check_shape(0, &[shape.at(0)?.clone(), channels.clone(), shape.at(2)?.clone()])?;
    call.check_shape(2, std::slice::from_ref(&channels))?;
    let state = vec![shape.at(0)?.clone(), channels, Dim::Known(conv.taps - 1)];
    call.check_shape(3, &state)?;
    Ok(vec![Fact::new(dtype, shape), Fact::new(dtype, state)])
}

/// The input behind its state, or behind zeros.
fn padded(x: &mut Expand, conv: &CausalConv) -> Result<Operand> {
    let input = x.operand_as(0, DType::F32)?;
    if conv.taps == 1 {
        return Ok(input);
    }
    let state = if x.has_input(3) {
        x.operand_as(3, DType::F32)?
    } else {
        let Some(batch) = x.shape(0)?.at(0)?.known() else {
            unsupported!("a batch whose size is not fixed");
        };
        let shape = x.ints(&[batch, conv.channels, conv.taps - 1])?;
        let zero = x.literal(&Array::f32(ndarray::ArrayD::zeros(ndarray::IxDyn(&[]))))?;
        x.op("Expand", &[zero, shape], &[])?
    };
    x.op("Concat", &[state, input], &[("axis", Attribute::Int(2))])
}

/// Slice of the last axis; an `end` of 0 is the end of the axis.
fn slice_last(x: &mut Expand, operand: Operand, start: i64, end: i64) -> Result<Operand> {
    let end = if end == 0 { i64::MAX } else { end };
    let (start, end, axes) = (x.ints(&[start])?, x.ints(&[end])?, x.ints(&[2])?);
    x.op("Slice", &[operand, start, end, axes], &[])
}

/// The convolution with a kernel that is computed at run time.
fn convolve_by_tap(x: &mut Expand, conv: &CausalConv, padded: Operand) -> Result<Operand> {
    if conv.taps > MAX_RUNTIME_TAPS {
        unsupported!("a kernel of {} that is computed at run time", conv.taps);
    }
    let weight = x.operand_as(1, DType::F32)?;
    let mut sum = None;
    for tap in 0..conv.taps {
        let part = slice_last(x, padded, tap, tap + 1 - conv.taps)?;
        let end = tap + 1;
        let factor = slice_last(x, weight, tap, end)?;
        let factor = x.reshape(factor, &[1, conv.channels, 1])?;
        let product = x.op("Mul", &[part, factor], &[])?;
        sum = Some(match sum {
            Some(sum) => x.op("Add", &[sum, product], &[])?,
            None => product,
        });
    }
    let mut result = sum.ok_or_else(|| Error::invalid("a kernel without elements"))?;
    if x.has_input(2) {
        let bias = x.operand_as(2, DType::F32)?;
        let bias = x.reshape(bias, &[1, conv.channels, 1])?;
        result = x.op("Add", &[result, bias], &[])?;
    }
    Ok(result)
}

fn expand_causal_conv(x: &mut Expand) -> Result<bool> {
    let conv = read_causal_conv(x)?;
    let dtype = x.dtype(0)?;
    let padded = padded(x, &conv)?;
    let constant = x.constant(1).is_some() && (!x.has_input(2) || x.constant(2).is_some());
    let mut result = if constant {
        let mut inputs = vec![padded, x.operand_as(1, DType::F32)?];
        if x.has_input(2) {
            inputs.push(x.operand_as(2, DType::F32)?);
        }
        x.op("Conv", &inputs, &[("group", Attribute::Int(conv.channels))])?
    } else {
        convolve_by_tap(x, &conv, padded)?
    };
    if conv.swish {
        let open = x.op("Sigmoid", &[result], &[])?;
        result = x.op("Mul", &[result, open], &[])?;
    }
    let result = if dtype == DType::F32 { result } else { x.cast(result, dtype)? };
    x.output(0, result)?;
    if x.has_output(1) {
        if conv.taps == 1 {
            unsupported!("a state without elements: ncnn has no such blobs");
        }
        let state = slice_last(x, padded, 1 - conv.taps, 0)?;
        let state = if dtype == DType::F32 { state } else { x.cast(state, dtype)? };
        x.output(1, state)?;
    }
    Ok(true)
}
