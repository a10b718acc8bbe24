//! Overlapping parts of an axis, which the fusion of `src/pass/fuse/frames.rs` makes of Gather.

use crate::ncnn::layer::Unfold;
use crate::ops::prelude::*;
use crate::ops::shape::size::divided;
use crate::ops::spatial::window::WindowAxis;

pub(in crate::ops) const OPS: &[Row] = &[Row::of(NCNN_DOMAIN, "Frames", Access::Selection, infer_frames)
    .lower(lower_frames)
    .tolerates_rounding(|_, _| true)
    .lowers_to("Unfold, and Permute if the frames come first")];

/// The parts of an axis: element `e` of frame `f` is that at `start + f * stride + e * dilation`.
struct Frames {
    axis: usize,
    start: i64,
    stride: i64,
    /// The number of elements of a frame.
    elements: i64,
    dilation: i64,
    /// Whether the axis of the elements precedes the axis of the frames.
    elements_first: bool,
    count: Dim,
}

fn read_frames(call: &Call) -> Result<Frames> {
    let axis = resolve_axis(call.int("axis")?, call.shape(0)?.len())?;
    let [count] = call.dims(1)?.try_into().map_err(|_| Error::invalid("one number of frames"))?;
    Ok(Frames {
        axis,
        start: call.int("start")?,
        stride: call.int("stride")?,
        elements: call.int("elements")?,
        dilation: call.int("dilation")?,
        elements_first: call.flag("elements_first")?,
        count,
    })
}

impl Frames {
    /// Returns the number of elements of the axis from the first to the last of all frames.
    fn length(&self) -> Dim {
        (&self.count - 1) * self.stride + ((self.elements - 1) * self.dilation + 1)
    }
}

fn infer_frames(call: &Call) -> Result<Vec<Fact>> {
    let frames = read_frames(call)?;
    let shape = call.shape(0)?;
    let end = frames.length() + frames.start;
    call.require(SizeCondition::first_of(&end, shape.at(frames.axis)?))?;
    let mut axes = [frames.count.clone(), Dim::Known(frames.elements)];
    if frames.elements_first {
        axes.reverse();
    }
    Ok(vec![Fact::new(call.dtype(0)?, divided(shape, frames.axis, axes))])
}

fn lower_frames(lower: &Lower) -> Result<()> {
    let frames = read_frames(lower)?;
    let (length, mut x) = (frames.length(), lower.input(0));
    // Unfold takes as many frames as fit.
    let left = x.size(frames.axis) - &length - frames.start;
    if frames.start > 0 || !left.floor_div(frames.stride).is(0) {
        x = x.slice(frames.axis, frames.start, length);
    }
    let [outer, inner] = Dim::around(&x.shape(), frames.axis);
    let elements = Dim::Known(frames.elements);
    let window = WindowAxis {
        kernel: frames.elements.try_into()?,
        stride: frames.stride.try_into()?,
        dilation: frames.dilation.try_into()?,
        ..WindowAxis::ONE
    };
    let ([height, width], plane) = if inner.is(1) {
        ([WindowAxis::ONE, window], [outer.clone(), Dim::ONE, x.size(frames.axis)])
    } else {
        ([window, WindowAxis::ONE], [outer.clone(), x.size(frames.axis), inner.clone()])
    };
    let layer = Unfold {
        kernel_w: width.kernel,
        kernel_h: height.kernel,
        stride_w: width.stride,
        stride_h: height.stride,
        dilation_w: width.dilation,
        dilation_h: height.dilation,
        ..Unfold::default()
    };
    let columns = x.reshape(plane).layer(layer, [&outer * &elements, &frames.count * &inner]);
    let y = columns.reshape([outer, elements, frames.count, inner]);
    lower.give(0, if frames.elements_first { y } else { y.transpose(&[0, 2, 1, 3]) })
}
