//! Layers that move, copy, drop or convert elements.

mod copy;

use std::collections::BTreeSet;

use half::{bf16, f16};
use ndarray::{ArrayViewD, Axis, IxDyn, concatenate};

use self::copy::{copy_to, crop, narrow, replaced, slice};
use super::Mat;
use super::array::{axis, bottom, shaped, size, weight};
use super::expression::{axis_names, size_of};
use crate::common::int::Int;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{
    Cast, Concat, Dequantize, Diag, Flip, MemoryData, Padding, Permute, PixelShuffle, Reorg, ShuffleChannel,
    Tile,
};
use crate::tensor::Tensor;

/// The largest number of elements of a top.
const MOST: usize = 1 << 28;

/// Computes a layer of this file.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat], tops: usize) -> Result<Vec<Mat>> {
    if let Layer::MemoryData(layer) = layer {
        return Ok(vec![memory(layer)?]);
    }
    let mat = bottom(bottoms, 0)?;
    let top = match layer {
        Layer::Noop(_) => return Ok(bottoms.iter().map(|mat| (*mat).clone()).collect()),
        Layer::Slice(layer) => return slice(layer, mat, tops),
        Layer::Cast(layer) => cast(layer, mat),
        Layer::Concat(layer) => concat(layer, bottoms),
        Layer::CopyTo(layer) => copy_to(layer, mat, bottom(bottoms, 1)?),
        Layer::Crop(layer) => crop(layer, mat, bottoms),
        Layer::DeepCopy(_) => Ok(mat.clone()),
        Layer::Dequantize(layer) => dequantize(layer, mat),
        Layer::Diag(layer) => diag(layer, mat),
        Layer::Flatten(_) => shaped(&[mat.len()], mat.iter().copied().collect()),
        Layer::Flip(layer) => flip(layer, mat),
        Layer::Padding(layer) => padding(layer, mat),
        Layer::Permute(layer) => permute(layer, mat),
        Layer::PixelShuffle(layer) => pixel_shuffle(layer, mat),
        Layer::Reorg(layer) => reorg(layer, mat),
        Layer::ShuffleChannel(layer) => shuffle_channel(layer, mat),
        Layer::Tile(layer) => tile(layer, mat),
        _ => unsupported!("{} does not move elements", layer.type_name()),
    };
    Ok(vec![top?])
}

/// Returns the number of elements of a Mat of these sizes, which a param may have made too large.
fn count(sizes: &[usize]) -> Result<usize> {
    let count = sizes.iter().try_fold(1, |product: usize, size| product.checked_mul(*size));
    match count.filter(|count| *count <= MOST) {
        Some(count) => Ok(count),
        None => invalid!("sizes {sizes:?} are too large"),
    }
}

/// Returns a Mat of equal elements.
fn filled(sizes: &[usize], value: f64) -> Result<Mat> {
    count(sizes)?;
    Ok(Mat::from_elem(IxDyn(sizes), value))
}

/// Returns a Mat with the elements of `view` in their order.
fn rearranged(view: ArrayViewD<f64>, split: &[usize], order: &[usize], merged: &[usize]) -> Result<Mat> {
    let split = shaped(split, view.iter().copied().collect())?;
    shaped(merged, split.permuted_axes(IxDyn(order)).iter().copied().collect())
}

/// Returns one number for each index of an axis, of a weight of one number or of one for each.
fn each(data: &Option<Tensor>, len: usize) -> Result<Vec<f64>> {
    let single = data.as_ref().is_some_and(|data| data.len() == 1);
    let numbers = weight(data, if single { 1 } else { len })?;
    Ok(numbers.into_iter().cycle().take(len).collect())
}

/// Returns elements that the net has.
fn memory(layer: &MemoryData) -> Result<Mat> {
    let sizes = match (layer.w, layer.h, layer.c, layer.d) {
        (w, 0, 0, 0) => vec![w],
        (w, h, 0, 0) => vec![h, w],
        (w, h, c, 0) => vec![c, h, w],
        (w, h, c, d) => vec![c, d, h, w],
    };
    let sizes: Vec<usize> = sizes.into_iter().map(size).collect::<Result<_>>()?;
    match count(&sizes)? {
        0 => invalid!("data of sizes {sizes:?}"),
        count => shaped(&sizes, weight(&layer.data, count)?),
    }
}

/// Rounds to another type of elements.
fn cast(layer: &Cast, mat: &Mat) -> Result<Mat> {
    match (layer.type_from, layer.type_to) {
        (from, to) if from == to => Ok(mat.clone()),
        (1, 2) => Ok(mat.mapv(|x| f16::from_f64(x).into())),
        (1, 4) => Ok(mat.mapv(|x| bf16::from_f64(x).into())),
        (2..=4, 1) => Ok(mat.clone()),
        (from, to) => unsupported!("a Cast from type {from} to type {to}"),
    }
}

fn concat(layer: &Concat, bottoms: &[&Mat]) -> Result<Mat> {
    let axes = bottom(bottoms, 0)?.ndim();
    let views: Vec<_> = bottoms.iter().map(|mat| mat.view()).collect();
    if views.iter().any(|view| view.ndim() != axes) {
        invalid!("bottoms of different numbers of axes");
    }
    let axis = axis(layer.axis, axes)?;
    concatenate(Axis(axis), &views).map_err(|_| Error::invalid("bottoms of different sizes"))
}

/// Multiplies by the scale of the outermost index, and adds its bias.
fn dequantize(layer: &Dequantize, mat: &Mat) -> Result<Mat> {
    axis_names(mat.ndim())?;
    // A Mat of one axis has one scale.
    let len = if mat.ndim() == 1 { 1 } else { mat.len_of(Axis(0)) };
    let scales = each(&layer.scale_data, len)?;
    let biases = if layer.bias_data.is_some() { each(&layer.bias_data, len)? } else { vec![0.0; len] };
    let mut top = mat.clone();
    let mut parts: Vec<_> = if len == 1 { vec![top.view_mut()] } else { top.outer_iter_mut().collect() };
    for (part, (scale, bias)) in parts.iter_mut().zip(scales.into_iter().zip(biases)) {
        part.mapv_inplace(|x| x * scale + bias);
    }
    Ok(top)
}

/// Returns a diagonal of a matrix, or a matrix with a diagonal.
fn diag(layer: &Diag, mat: &Mat) -> Result<Mat> {
    let away = usize::try_from(layer.diagonal.unsigned_abs())?;
    let (below, right) = if layer.diagonal < 0 { (away, 0) } else { (0, away) };
    match mat.ndim() {
        1 => {
            let size = mat.len() + away;
            let mut top = filled(&[size, size], 0.0)?;
            for (index, element) in mat.iter().enumerate() {
                if let Some(slot) = top.get_mut(IxDyn(&[index + below, index + right])) {
                    *slot = *element;
                }
            }
            Ok(top)
        }
        2 => {
            let element = |index| mat.get(IxDyn(&[index + below, index + right])).copied();
            let elements: Vec<f64> = (0..).map_while(element).collect();
            shaped(&[elements.len()], elements)
        }
        axes => invalid!("a diagonal of {axes} axes"),
    }
}

fn flip(layer: &Flip, mat: &Mat) -> Result<Mat> {
    let axes = layer.axes.iter().map(|param| axis(*param, mat.ndim()));
    let mut view = mat.view();
    for axis in axes.collect::<Result<BTreeSet<usize>>>()? {
        view.invert_axis(Axis(axis));
    }
    Ok(view.as_standard_layout().into_owned())
}

/// Returns a Mat with further elements before and after those of each axis.
fn padding(layer: &Padding, mat: &Mat) -> Result<Mat> {
    // Params of axes that the bottom has not are not read. `front` and `behind` are those of d, or else of c.
    let names = axis_names(mat.ndim())?;
    let params = names.chars().map(|name| match name {
        'w' => (layer.left, layer.right),
        'h' => (layer.top, layer.bottom),
        'c' if names.contains('d') => (0, 0),
        _ => (layer.front, layer.behind),
    });
    let pads: Vec<_> =
        params.map(|(before, after)| Ok((size(before)?, size(after)?))).collect::<Result<_>>()?;
    let sizes: Vec<usize> =
        mat.shape().iter().zip(&pads).map(|(size, (before, after))| size + before + after).collect();
    match layer.type_ {
        0 => {
            let mut top = filled(&sizes, layer.value.into())?;
            if layer.per_channel_pad_data.is_some() && mat.ndim() > 2 {
                // It has one value for each channel of the top.
                let values = weight(&layer.per_channel_pad_data, top.len_of(Axis(0)))?;
                for (mut channel, value) in top.outer_iter_mut().zip(values) {
                    channel.fill(value);
                }
            }
            let starts: Vec<i64> = pads.iter().map(|(before, _)| before.int()).collect();
            replaced(top, &starts, mat.view())
        }
        type_ @ (1 | 2) => {
            count(&sizes)?;
            let mut top = mat.clone();
            for (axis, (before, _)) in pads.iter().enumerate() {
                let last = mat.len_of(Axis(axis)).int() - 1;
                let from = |index: usize| {
                    let index = index.int() - before.int();
                    // The reflection does not repeat the outermost element.
                    let index = if type_ == 1 {
                        index.max(0).min(last)
                    } else {
                        index.abs().min(2 * last - index.abs())
                    };
                    usize::try_from(index).map_err(|_| Error::invalid("a border that is larger than the Mat"))
                };
                let from: Vec<usize> = (0..*sizes.at(axis)?).map(from).collect::<Result<_>>()?;
                top = top.select(Axis(axis), &from);
            }
            Ok(top)
        }
        type_ => invalid!("padding of type {type_}"),
    }
}

/// Permutes axes: `order_type` is the index of the order of the axes of the top, outermost first, among all
/// orders sorted by the alphabet c, d, h, w. One axis stays.
fn permute(layer: &Permute, mat: &Mat) -> Result<Mat> {
    let axes = mat.ndim();
    axis_names(axes)?;
    let mut orders: usize = (1..=axes).product();
    let mut number = if axes == 1 { 0 } else { size(layer.order_type)? };
    if number >= orders {
        invalid!("order {number} of {axes} axes");
    }
    let mut left: Vec<usize> = (0..axes).collect();
    let mut order = Vec::new();
    while !left.is_empty() {
        // As many orders begin with each of the axes that are left.
        orders /= left.len();
        order.push(left.remove(number / orders));
        number %= orders;
    }
    Ok(mat.view().permuted_axes(IxDyn(&order)).as_standard_layout().into_owned())
}

/// Returns the sizes of a Mat of three axes.
fn image(mat: &Mat) -> Result<[usize; 3]> {
    match *mat.shape() {
        [c, h, w] => Ok([c, h, w]),
        ref sizes => invalid!("a bottom of {sizes:?}"),
    }
}

/// Returns a factor, and its square.
fn factor(param: i32) -> Result<(usize, usize)> {
    let factor = size(param)?;
    match factor.checked_mul(factor) {
        Some(square) if square > 0 => Ok((factor, square)),
        _ => invalid!("a factor of {param}"),
    }
}

/// Moves channels to blocks of pixels.
fn pixel_shuffle(layer: &PixelShuffle, mat: &Mat) -> Result<Mat> {
    let [c, h, w] = image(mat)?;
    let (r, rr) = factor(layer.upscale_factor)?;
    let c = c / rr;
    // Channels that are left over are dropped.
    let mut view = mat.view();
    narrow(&mut view, &[(0, (c * rr).int())])?;
    let merged = [c, h * r, w * r];
    if layer.mode == 0 {
        rearranged(view, &[c, r, r, h, w], &[0, 3, 1, 4, 2], &merged)
    } else {
        rearranged(view, &[r, r, c, h, w], &[2, 3, 0, 4, 1], &merged)
    }
}

/// Moves blocks of pixels to channels.
fn reorg(layer: &Reorg, mat: &Mat) -> Result<Mat> {
    let [c, h, w] = image(mat)?;
    let (r, rr) = factor(layer.stride)?;
    let (h, w) = (h / r, w / r);
    // Pixels that are left over are dropped.
    let mut view = mat.view();
    narrow(&mut view, &[(0, c.int()), (0, (h * r).int()), (0, (w * r).int())])?;
    let order = if layer.mode == 0 { [0, 2, 4, 1, 3] } else { [2, 4, 0, 1, 3] };
    rearranged(view, &[c, h, r, w, r], &order, &[c * rr, h, w])
}

/// Transposes the channels as a matrix of groups; Mats of one or two axes have one channel.
fn shuffle_channel(layer: &ShuffleChannel, mat: &Mat) -> Result<Mat> {
    let channels = size_of(mat, 'c')?;
    let group = size(layer.group)?;
    match channels.checked_rem(group) {
        Some(0) if channels > 0 => {
            let (rows, columns) = (group, channels / group);
            let (rows, columns) = if layer.reverse == 0 { (rows, columns) } else { (columns, rows) };
            rearranged(mat.view(), &[rows, columns, mat.len() / channels], &[1, 0, 2], mat.shape())
        }
        _ => invalid!("{channels} channels in {group} groups"),
    }
}

/// Repeats the elements along axes.
fn tile(layer: &Tile, mat: &Mat) -> Result<Mat> {
    let mut sizes = mat.shape().to_vec();
    let mut repeats = vec![1; mat.ndim()];
    if layer.repeats.is_empty() {
        let axis =
            if layer.axis < 0 { invalid!("axis {}", layer.axis) } else { axis(layer.axis, mat.ndim())? };
        repeats.put(axis, size(layer.tiles)?);
    } else {
        // The repeats are of the innermost axes. A Mat of fewer axes has those with the same names.
        let names = axis_names(mat.ndim().max(layer.repeats.len()))?;
        sizes = names.chars().map(|name| size_of(mat, name)).collect::<Result<_>>()?;
        repeats = vec![1; names.len() - layer.repeats.len()];
        for param in &layer.repeats {
            repeats.push(size(*param)?);
        }
    }
    let tiled: Option<Vec<usize>> =
        sizes.iter().zip(&repeats).map(|(size, times)| size.checked_mul(*times)).collect();
    let Some(tiled) = tiled.filter(|tiled| !tiled.contains(&0)) else {
        invalid!("{sizes:?} times {repeats:?}")
    };
    let source = shaped(&sizes, mat.iter().copied().collect())?;
    let mut top = filled(&tiled, 0.0)?;
    for mut block in top.exact_chunks_mut(IxDyn(&sizes)) {
        block.assign(&source);
    }
    Ok(top)
}
