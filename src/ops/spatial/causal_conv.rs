//! CausalConvWithState: a convolution over past elements, with the end of the sequence as its state.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>.

use std::ops::Add;

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::expanded("", "CausalConvWithState", expand_causal_conv)
    .lowers_to(
        "Concat of state and input, depthwise Conv, Slice of the state; a sum of products for \
        weights computed at run time",
    )
    .limits("large kernels computed at run time; kernel sizes known only at run time")];

/// The maximum size of a kernel computed at run time: each element becomes a product and a sum.
const MAX_RUNTIME_TAPS: i64 = 64;

struct CausalConv {
    channels: i64,
    /// The size of the kernel.
    taps: i64,
    /// Whether the activation `x * Sigmoid(x)` follows.
    swish: bool,
}

fn read_causal_conv(call: &Call) -> Result<CausalConv> {
    let swish = call.word("activation", &[("none", false), ("silu", true), ("swish", true)])?;
    let weight = call.shape(1)?;
    let [channels, one, taps] = weight else { invalid!("the weight has {} axes, expected 3", weight.len()) };
    if call.shape(0)?.len() != 3 || one.known().is_some_and(|n| n != 1) {
        invalid!("input and weight need three axes, and the weight one input channel");
    }
    let (Some(channels), Some(taps)) = (channels.known(), taps.known()) else {
        unsupported!("the sizes of the kernel are known only at run time");
    };
    if taps < 1 {
        invalid!("a kernel of size {taps}");
    }
    let shape = call.shape(0)?;
    call.check_shape(0, &shape![shape.at(0)?, channels, shape.at(2)?])?;
    call.check_shape(2, &[Dim::Known(channels)])?;
    call.check_shape(3, &shape![shape.at(0)?, channels, taps - 1])?;
    Ok(CausalConv { channels, taps, swish })
}

/// Returns the input preceded by its state, or by zeros.
fn padded<'x>(x: &'x Expand, conv: &CausalConv) -> Result<Expr<'x>> {
    let input = x.operand_as(0, DType::F32);
    if conv.taps == 1 {
        return Ok(input);
    }
    let state = if x.has_input(3) {
        x.operand_as(3, DType::F32)
    } else {
        let Some(batch) = x.shape(0)?.at(0)?.known() else {
            unsupported!("the batch size is known only at run time");
        };
        x.make.number(0.0, DType::F32).broadcast(&[batch, conv.channels, conv.taps - 1])
    };
    Ok(x.make.concat(&[state, input], 2))
}

/// Returns the convolution with a kernel computed at run time: a product for each element of the kernel.
fn convolve_by_tap<'x>(x: &'x Expand, conv: &CausalConv, padded: Expr<'x>) -> Result<Expr<'x>> {
    if conv.taps > MAX_RUNTIME_TAPS {
        unsupported!("a kernel of size {} computed at run time (at most {MAX_RUNTIME_TAPS})", conv.taps);
    }
    let weight = x.operand_as(1, DType::F32);
    let product = |tap: i64| {
        let end = if tap + 1 == conv.taps { i64::MAX } else { tap + 1 - conv.taps };
        padded.slice(2, tap, end) * weight.slice(2, tap, tap + 1).reshape(&[1, conv.channels, 1])
    };
    let sum = (0..conv.taps).map(product).reduce(Add::add);
    let sum = sum.ok_or_else(|| Error::invalid("the kernel has no elements"))?;
    Ok(if x.has_input(2) { sum + x.operand_as(2, DType::F32).along(1, 3) } else { sum })
}

fn expand_causal_conv(x: &Expand) -> Result<bool> {
    let conv = read_causal_conv(x)?;
    let dtype = x.dtype(0)?;
    let padded = padded(x, &conv)?;
    let constant = x.constant(1).is_some() && (!x.has_input(2) || x.constant(2).is_some());
    let mut result = if constant {
        let mut inputs = vec![padded, x.operand_as(1, DType::F32)];
        if x.has_input(2) {
            inputs.push(x.operand_as(2, DType::F32));
        }
        x.make.op("Conv", inputs, [("group", conv.channels.into())])
    } else {
        convolve_by_tap(x, &conv, padded)?
    };
    if conv.swish {
        result = result * result.sigmoid();
    }
    x.output(0, result.to_type(dtype));
    if x.has_output(1) {
        if conv.taps == 1 {
            unsupported!("an output state without elements: ncnn has no empty blobs");
        }
        x.output(1, padded.slice(2, 1 - conv.taps, i64::MAX).to_type(dtype));
    }
    Ok(true)
}
