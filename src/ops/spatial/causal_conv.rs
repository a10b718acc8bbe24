//! CausalConvWithState: a convolution over past elements, with the end of the sequence as its state. That of
//! `com.microsoft` also has gaps between the elements, and a layout with the channels last.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CausalConvWithState.html>,
//! <https://github.com/microsoft/onnxruntime/blob/main/docs/ContribOperators.md#commicrosoftcausalconvwithstate>.

use std::ops::Add;

use crate::graph::Attribute;
use crate::op::CONTRIB_DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    causal_conv("").limits("large kernels computed at run time; kernel sizes known only at run time"),
    causal_conv(CONTRIB_DOMAIN).limits("as for ONNX's; two or three spatial axes; a window of states"),
];

const fn causal_conv(domain: &'static str) -> Row {
    Row::expanded(domain, "CausalConvWithState", expand_causal_conv).lowers_to(
        "Concat of state and input, depthwise Conv, Slice of the state; a sum of products for \
        weights computed at run time",
    )
}

/// The maximum size of a kernel computed at run time: each element becomes a product and a sum.
const MAX_RUNTIME_TAPS: i64 = 64;

struct CausalConv {
    channels: i64,
    /// The size of the kernel.
    taps: i64,
    /// The distance of neighbouring elements of the kernel.
    dilation: i64,
    /// Whether the channels follow the sequence.
    channels_last: bool,
    /// Whether the activation `x * Sigmoid(x)` follows.
    swish: bool,
}

impl CausalConv {
    /// Returns the number of past elements that an element depends on.
    fn past(&self) -> i64 {
        (self.taps - 1).saturating_mul(self.dilation)
    }

    /// Returns a sequence or a state with the channels before the sequence.
    fn channels_first<'x>(&self, value: Expr<'x>) -> Expr<'x> {
        if self.channels_last { value.reshape(&[0, 0, self.channels]).transpose(&[0, 2, 1]) } else { value }
    }

    /// Returns a sequence or a state in the layout and shape of a value.
    fn restored<'x>(&self, value: Expr<'x>, like: &[Dim]) -> Result<Expr<'x>> {
        if !self.channels_last {
            return Ok(value);
        }
        let value = value.transpose(&[0, 2, 1]);
        let Some(channels) = Dim::known_sizes::<i64>(like.iter().skip(2)) else {
            unsupported!("the number of channels is known only at run time");
        };
        Ok(if channels.len() == 1 { value } else { value.reshape(&[vec![0, 0], channels].concat()) })
    }
}

fn read_causal_conv(call: &Call) -> Result<CausalConv> {
    let swish = call.word("activation", &[("none", false), ("silu", true), ("swish", true)])?;
    if call.int_or("ndim", 1)? != 1 || call.int_or("state_window", 0)? != 0 {
        unsupported!("several spatial axes, or a window of states");
    }
    let dilation = call.int_or("dilation", 1)?;
    let channels_last = call.flag_or_false("channels_last")?;
    let (shape, weight) = (call.shape(0)?, call.shape(1)?);
    let [channels, one, taps] = weight else { invalid!("the weight has {} axes, expected 3", weight.len()) };
    let has_axes = if channels_last { shape.len() >= 3 } else { shape.len() == 3 };
    if !has_axes || one.known().is_some_and(|n| n != 1) {
        invalid!("input and weight need three axes, and the weight one input channel");
    }
    let (Some(channels), Some(taps)) = (channels.known(), taps.known()) else {
        unsupported!("the sizes of the kernel are known only at run time");
    };
    if taps < 1 || dilation < 1 {
        invalid!("a kernel of size {taps} with a dilation of {dilation}");
    }
    let conv = CausalConv { channels, taps, dilation, channels_last, swish };
    if conv.past() == i64::MAX {
        return Err(Error::limit(format!(
            "a kernel of size {taps} with a dilation of {dilation} is too long"
        )));
    }
    if channels_last {
        if !Dim::product(shape.iter().skip(2)).is(channels) {
            invalid!("an input of other channels than the weight");
        }
        let mut state = shape.to_vec();
        state.put(1, conv.past().into());
        call.check_shape(3, &state)?;
    } else {
        call.check_shape(0, &shape![shape.at(0)?, channels, shape.at(2)?])?;
        call.check_shape(3, &shape![shape.at(0)?, channels, conv.past()])?;
    }
    call.check_shape(2, &[Dim::Known(channels)])?;
    Ok(conv)
}

/// Returns the input preceded by its state, or by zeros.
fn padded<'x>(x: &'x Expand, conv: &CausalConv) -> Result<Expr<'x>> {
    let input = conv.channels_first(x.operand_as(0, DType::F32));
    if conv.taps == 1 {
        return Ok(input);
    }
    let state = if x.has_input(3) {
        conv.channels_first(x.operand_as(3, DType::F32))
    } else {
        let Some(batch) = x.shape(0)?.at(0)?.known() else {
            unsupported!("the batch size is known only at run time");
        };
        x.make.number(0.0, DType::F32).broadcast(&[batch, conv.channels, conv.past()])
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
        let end = match tap + 1 - conv.taps {
            0 => i64::MAX,
            before_last => before_last * conv.dilation,
        };
        padded.slice(2, tap * conv.dilation, end)
            * weight.slice(2, tap, tap + 1).reshape(&[1, conv.channels, 1])
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
        let dilations = Attribute::Ints(vec![conv.dilation]);
        x.make.op("Conv", inputs, [("group", conv.channels.into()), ("dilations", dilations)])
    } else {
        convolve_by_tap(x, &conv, padded)?
    };
    if conv.swish {
        result = result * result.sigmoid();
    }
    let shape = x.shape(0)?;
    x.output(0, conv.restored(result, shape)?.to_type(dtype));
    if x.has_output(1) {
        if conv.taps == 1 {
            unsupported!("an output state without elements: ncnn has no empty blobs");
        }
        let state = padded.slice(2, -conv.past(), i64::MAX);
        x.output(1, conv.restored(state, shape)?.to_type(dtype));
    }
    Ok(true)
}
