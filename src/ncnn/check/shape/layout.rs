//! Layers that move elements or take some of them.

use super::{Sizes, axis_of};
use crate::error::{At, Result, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{Crop, Input, MemoryData, Padding, Reduction, Reshape, Slice, Tile};

/// "As much as there is" in Crop and Slice.
const REST: i32 = -233;

/// The sizes of each top of such a layer; `None` for others.
pub(super) fn top_sizes(layer: &Layer, bottoms: &[Sizes], tops: usize) -> Result<Option<Vec<Sizes>>> {
    let bottom = bottoms.first().map(Vec::as_slice).unwrap_or_default();
    let one = match layer {
        Layer::Input(l) => of_input(l),
        Layer::MemoryData(l) => of_memory_data(l),
        Layer::Concat(l) => Some(concat(l.axis, bottoms)?),
        Layer::Slice(l) => return slice(l, bottom, tops).map(Some),
        Layer::Crop(l) if bottoms.len() == 1 => crop(l, bottom)?,
        Layer::Padding(l) => Some(pad(l, bottom)?),
        Layer::Permute(l) => Some(permuted(l.order_type, bottom)?),
        Layer::Reshape(l) if l.shape_expr.is_empty() => Some(reshape(l, bottom)?),
        Layer::Flatten(_) => Some(vec![bottom.iter().product()]),
        Layer::Tile(l) => Some(tile(l, bottom)?),
        Layer::Reduction(l) => Some(reduce(l, bottom)?),
        Layer::GLU(l) => Some(scaled(bottom, axis_of(l.axis, bottom)?, |size| size / 2)),
        Layer::PixelShuffle(l) => {
            let factor = i64::from(l.upscale_factor.max(1));
            Some(of_blocks(bottom, |[c, h, w]| [c / (factor * factor), h * factor, w * factor])?)
        }
        Layer::Reorg(l) => {
            let stride = i64::from(l.stride.max(1));
            Some(of_blocks(bottom, |[c, h, w]| [c * stride * stride, h / stride, w / stride])?)
        }
        Layer::ShuffleChannel(l) => {
            if l.group < 1 || bottom.len() < 3 || bottom.at(0)? % i64::from(l.group) != 0 {
                unsupported!("{bottom:?} in {} groups", l.group);
            }
            Some(bottom.to_vec())
        }
        _ => None,
    };
    Ok(one.map(|sizes| vec![sizes]))
}

/// Sizes by their names, where they are written.
fn named(w: i32, h: i32, d: i32, c: i32) -> Option<Sizes> {
    let sizes = match (w, h, d, c) {
        (0, ..) => return None,
        (w, 0, 0, 0) => vec![w],
        (w, h, 0, 0) => vec![h, w],
        (w, h, 0, c) => vec![c, h, w],
        (w, h, d, c) => vec![c, d, h, w],
    };
    Some(sizes.into_iter().map(i64::from).collect())
}

fn of_input(layer: &Input) -> Option<Sizes> {
    named(layer.w, layer.h, layer.d, layer.c)
}

fn of_memory_data(layer: &MemoryData) -> Option<Sizes> {
    named(layer.w, layer.h, layer.d, layer.c)
}

fn scaled(sizes: &[i64], axis: usize, scale: impl Fn(i64) -> i64) -> Sizes {
    sizes.iter().enumerate().map(|(i, size)| if i == axis { scale(*size) } else { *size }).collect()
}

fn of_blocks(bottom: &[i64], blocks: impl Fn([i64; 3]) -> [i64; 3]) -> Result<Sizes> {
    match *bottom {
        [c, h, w] => Ok(blocks([c, h, w]).to_vec()),
        _ => unsupported!("a bottom of {bottom:?}"),
    }
}

fn concat(axis: i32, bottoms: &[Sizes]) -> Result<Sizes> {
    let first = bottoms.at(0)?;
    let axis = axis_of(axis, first)?;
    let mut total = 0;
    for sizes in bottoms {
        if sizes.len() != first.len() || scaled(sizes, axis, |_| 0) != scaled(first, axis, |_| 0) {
            unsupported!("{bottoms:?} along axis {axis}");
        }
        total += sizes.at(axis)?;
    }
    Ok(scaled(first, axis, |_| total))
}

fn slice(layer: &Slice, bottom: &[i64], tops: usize) -> Result<Vec<Sizes>> {
    let axis = axis_of(layer.axis, bottom)?;
    let size = *bottom.at(axis)?;
    let mut done = 0;
    let mut parts = Vec::with_capacity(tops);
    for i in 0..tops {
        let part = if layer.indices.is_empty() {
            match *layer.slices.at(i)? {
                REST => (size - done) / i64::try_from(tops - i)?,
                part => i64::from(part),
            }
        } else if i + 1 == tops {
            size - done
        } else {
            let index = i64::from(*layer.indices.at(i)?);
            (if index < 0 { size + index } else { index }) - done
        };
        if part < 1 || done + part > size {
            unsupported!("a part of {part} after {done} of {size}");
        }
        done += part;
        parts.push(scaled(bottom, axis, |_| part));
    }
    Ok(parts)
}

fn crop(layer: &Crop, bottom: &[i64]) -> Result<Option<Sizes>> {
    if !layer.starts_expr.is_empty() || !layer.ends_expr.is_empty() {
        return Ok(None);
    }
    if layer.starts.is_empty() || layer.ends.is_empty() {
        return crop_by_offsets(layer, bottom).map(Some);
    }
    let mut sizes = bottom.to_vec();
    let count = if layer.axes.is_empty() { bottom.len() } else { layer.axes.len() };
    for i in 0..count {
        let axis = match layer.axes.get(i) {
            Some(axis) => axis_of(*axis, bottom)?,
            None => i,
        };
        let size = *bottom.at(axis)?;
        // `Crop::resolve_crop_roi`: an end of 0 is the end of the axis.
        let from = match *layer.starts.at(i)? {
            REST => 0,
            start if start < 0 => size + i64::from(start),
            start => i64::from(start),
        };
        let to = match *layer.ends.at(i)? {
            REST => size,
            end if end > 0 => size.min(i64::from(end)),
            end => size + i64::from(end),
        };
        if from < 0 || to <= from {
            unsupported!("elements {from} to {to} of {size}");
        }
        sizes = scaled(&sizes, axis, |_| to - from);
    }
    Ok(Some(sizes))
}

fn crop_by_offsets(layer: &Crop, bottom: &[i64]) -> Result<Sizes> {
    let w = (layer.woffset, layer.woffset2, layer.outw);
    let h = (layer.hoffset, layer.hoffset2, layer.outh);
    let d = (layer.doffset, layer.doffset2, layer.outd);
    let c = (layer.coffset, layer.coffset2, layer.outc);
    let crops = match bottom.len() {
        1 => vec![w],
        2 => vec![h, w],
        3 => vec![c, h, w],
        _ => vec![c, d, h, w],
    };
    let mut sizes = Vec::with_capacity(bottom.len());
    for (size, (before, after, out)) in bottom.iter().zip(crops) {
        let rest = size - i64::from(before) - i64::from(after);
        let size = if out == REST { rest } else { rest.min(i64::from(out)) };
        if before < 0 || after < 0 || size < 1 {
            unsupported!("{bottom:?} without {before} elements before and {after} after, {out} at most");
        }
        sizes.push(size);
    }
    Ok(sizes)
}

fn pad(layer: &Padding, bottom: &[i64]) -> Result<Sizes> {
    let (w, h) = ((layer.left, layer.right), (layer.top, layer.bottom));
    let outer = (layer.front, layer.behind);
    let pads = match bottom.len() {
        1 => vec![w],
        2 => vec![h, w],
        3 => vec![outer, h, w],
        // `front` and `after` are along d where there are four axes.
        _ => vec![(0, 0), outer, h, w],
    };
    let unused = match bottom.len() {
        1 => h != (0, 0) || outer != (0, 0),
        2 => outer != (0, 0),
        _ => false,
    };
    if unused || pads.iter().any(|(before, after)| *before < 0 || *after < 0) {
        unsupported!("a bottom of {bottom:?} with these paddings");
    }
    let sizes =
        bottom.iter().zip(pads).map(|(size, (before, after))| size + i64::from(before) + i64::from(after));
    Ok(sizes.collect())
}

/// The orders of `n` axes are the sorted words over their numbers, both counted from the innermost axis (`permute.cpp`).
pub(in crate::ncnn) fn permuted(order_type: i32, bottom: &[i64]) -> Result<Sizes> {
    let mut left: Vec<i64> = bottom.to_vec();
    let mut number = usize::try_from(order_type)?;
    let mut digits = Vec::with_capacity(left.len());
    for base in 1..=left.len() {
        digits.push(number % base);
        number /= base;
    }
    if number != 0 {
        unsupported!("order_type {order_type} of {} axes", bottom.len());
    }
    // The outermost axis of the top comes first, taken from the axes that are left, outermost first.
    Ok(digits
        .into_iter()
        .rev()
        .map(|digit| if digit < left.len() { left.remove(digit) } else { 0 })
        .collect())
}

fn reshape(layer: &Reshape, bottom: &[i64]) -> Result<Sizes> {
    let wanted: Vec<(i32, usize)> = match (layer.w, layer.h, layer.d, layer.c) {
        (w, REST, ..) => vec![(w, 0)],
        (w, h, _, REST) => vec![(h, 1), (w, 0)],
        (w, h, REST, c) => vec![(c, 2), (h, 1), (w, 0)],
        (w, h, d, c) => vec![(c, 2), (d, 3), (h, 1), (w, 0)],
    };
    // w, h, c, d of the bottom; what it does not have is 1.
    let own = match *bottom {
        [w] => [w, 1, 1, 1],
        [h, w] => [w, h, 1, 1],
        [c, h, w] => [w, h, c, 1],
        [c, d, h, w] => [w, h, c, d],
        _ => unsupported!("a bottom of {bottom:?}"),
    };
    let total: i64 = bottom.iter().product();
    let mut sizes = Vec::with_capacity(wanted.len());
    for (size, axis) in &wanted {
        sizes.push(if *size == 0 { *own.at(*axis)? } else { i64::from(*size) });
    }
    let known: i64 = sizes.iter().filter(|size| **size != -1).product();
    for size in &mut sizes {
        if *size == -1 {
            *size = total.checked_div(known).unwrap_or(0);
        }
    }
    if sizes.iter().product::<i64>() != total || sizes.iter().any(|size| *size < 1) {
        unsupported!("{bottom:?} as {sizes:?}");
    }
    Ok(sizes)
}

fn tile(layer: &Tile, bottom: &[i64]) -> Result<Sizes> {
    if layer.repeats.is_empty() {
        let axis = axis_of(layer.axis, bottom)?;
        return Ok(scaled(bottom, axis, |size| size * i64::from(layer.tiles)));
    }
    let axes = bottom.len().max(layer.repeats.len());
    let from_behind = |i: usize, have: usize| (i + have).checked_sub(axes);
    let mut sizes = Vec::with_capacity(axes);
    for i in 0..axes {
        let size = from_behind(i, bottom.len()).and_then(|i| bottom.get(i)).copied().unwrap_or(1);
        let repeat =
            from_behind(i, layer.repeats.len()).and_then(|i| layer.repeats.get(i)).copied().unwrap_or(1);
        sizes.push(size * i64::from(repeat));
    }
    Ok(sizes)
}

fn reduce(layer: &Reduction, bottom: &[i64]) -> Result<Sizes> {
    if layer.fixbug0 == 0 && !layer.axes.is_empty() {
        unsupported!("axes without fixbug0");
    }
    let mut reduced = vec![layer.reduce_all != 0 || bottom.len() == 1; bottom.len()];
    for axis in &layer.axes {
        if let Some(flag) = reduced.get_mut(axis_of(*axis, bottom)?) {
            *flag = true;
        }
    }
    let keep = layer.keepdims != 0;
    let mut sizes: Sizes = bottom
        .iter()
        .zip(reduced)
        .filter_map(|(size, reduced)| match (reduced, keep) {
            (false, _) => Some(*size),
            (true, true) => Some(1),
            (true, false) => None,
        })
        .collect();
    if sizes.is_empty() {
        sizes.push(1);
    }
    Ok(sizes)
}
