//! Convolutions over three axes as convolutions over two: the runtime has fast code only for these.
//!
//! The frames along the first axis, or the images of a batch, lie below each other, each with rows of zeros
//! that no window of another frame reaches. For a window over several frames, the frames of each of its
//! elements become further channels.

use super::kernel::Kernel;
use crate::ncnn::layer::{Layer, Padding};
use crate::ops::prelude::*;
use crate::ops::spatial::window::WindowAxis;

/// The rows of a frame, before and after the convolution.
struct Rows {
    /// The rows of zeros before and after a frame.
    before: i64,
    after: i64,
    /// The rows of a frame in the result, and the first one that is kept.
    made: i64,
    first: i64,
    /// The window along the rows, and the elements that a transposed convolution adds.
    span: WindowAxis,
    output_pad: i32,
}

impl Rows {
    /// Returns the rows of frames of `height` rows. `added` is the number of rows that a transposed
    /// convolution adds.
    fn of(span: &WindowAxis, added: Option<i64>, height: i64) -> Option<Rows> {
        let (stride, begin, end) = (i64::from(span.stride), i64::from(span.begin), i64::from(span.end));
        let reach = (i64::from(span.kernel) - 1) * i64::from(span.dilation) + 1;
        if begin < 0 || end < 0 {
            return None;
        }
        let over = reach - stride;
        let pad = i32::try_from(over.max(0)).ok()?;
        let span = WindowAxis { begin: 0, end: pad, ..*span };
        if let Some(added) = added {
            let reach = reach + (added - end).max(0);
            let after = reach.checked_add(stride)?.checked_sub(1)?.checked_div(stride)? - 1;
            let output_pad = i32::try_from((-over).max(0)).ok()?;
            let made = (height + after).checked_mul(stride)?;
            return Some(Rows { before: 0, after, made, first: begin, span, output_pad });
        }
        let least = height + begin + end;
        let made = least.checked_add(stride)?.checked_sub(1)?.checked_div(stride)?;
        let after = made.checked_mul(stride)? - height - begin;
        Some(Rows { before: begin, after, made, first: 0, span, output_pad: 0 })
    }
}

/// Returns a convolution over three axes, of the shape `top`; `None` if it cannot be one over two.
pub(super) fn lower_rows<'l>(
    lower: &'l Lower,
    kernel: &Kernel,
    layer: fn(Kernel) -> Result<Layer>,
    mut x: Nd<'l>,
    top: &[Dim],
) -> Result<Option<Nd<'l>>> {
    let sizes: Option<Vec<i64>> = Dim::known_sizes(x.shape().iter().chain(top));
    let Some([channels, depth, height, width, outputs, frames, top_height, top_width]) =
        sizes.and_then(|sizes| <[i64; 8]>::try_from(sizes).ok())
    else {
        return Ok(None);
    };
    let Kernel { spans, output_pads, group, weight: Some(weight), .. } = kernel else { return Ok(None) };
    let transposed = output_pads.is_some();
    let [along, rows, columns] = spans.as_slice() else { return Ok(None) };
    let taps = i64::from(along.kernel);
    let added =
        |axis: usize| output_pads.as_ref().map(|pads| pads.get(axis).map_or(0, |pad| i64::from(*pad)));
    let is_whole = along.begin == 0 && along.end == 0 && added(0).is_none_or(|added| added == 0);
    let is_plain = taps == 1 && along.stride == 1 && is_whole;
    if !is_plain && (transposed || *group > 1 || along.begin < 0 || along.end < 0) || columns.begin < 0 {
        return Ok(None);
    }
    let Some(rows) = Rows::of(rows, added(1), height) else { return Ok(None) };
    let int = |size: i64| Ok::<_, Error>(i32::try_from(size)?);
    let padding = Padding {
        front: along.begin,
        behind: along.end,
        top: int(rows.before)?,
        bottom: int(rows.after)?,
        ..Padding::default()
    };
    let depth = depth + i64::from(along.begin) + i64::from(along.end);
    let frame_rows = rows.before + height + rows.after;
    if [padding.front, padding.behind, padding.top, padding.bottom] != [0; 4] {
        x = x.layer(padding, [channels, depth, frame_rows, width].map(Dim::Known));
    }
    if !is_plain {
        let along_depth = x.reshape([channels, depth, frame_rows * width].map(Dim::Known));
        let of_tap = |tap: i64| {
            let first = tap * i64::from(along.dilation);
            let depths: Vec<i64> = (0..frames).map(|frame| first + frame * i64::from(along.stride)).collect();
            along_depth.pick(1, &depths)
        };
        x = lower.join(&(0..taps).map(of_tap).collect::<Vec<_>>(), 0);
    }
    let x = x.reshape([channels * taps, frames * frame_rows, width].map(Dim::Known));
    let last_pad = |pads: &Vec<i32>| vec![rows.output_pad, pads.last().copied().unwrap_or(0)];
    let flat = Kernel {
        spans: vec![rows.span, *columns],
        output_pads: output_pads.as_ref().map(last_pad),
        weight: Some(taps_as_channels(weight)?),
        ..kernel.clone()
    };
    let made = x.layer(layer(flat)?, [outputs, frames * rows.made, top_width].map(Dim::Known));
    let made = made.reshape([outputs, frames, rows.made, top_width].map(Dim::Known)).isolated();
    Ok(Some(made.slice(2, rows.first, top_height)))
}

/// Returns the weight `[outputs, inputs, depth, ...]` with the depth before the inputs.
fn taps_as_channels(weight: &Tensor) -> Result<Tensor> {
    let shape = weight.shape().to_vec();
    if shape.len() < 5 || *shape.at(2)? == 1 {
        return Ok(weight.clone());
    }
    Tensor::deferred(weight.dtype(), shape.clone(), vec![weight.clone()], move |inputs| {
        inputs.at(0)?.transpose(&[0, 2, 1, 3, 4])?.reshape(&shape)
    })
}
