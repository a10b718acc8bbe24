//! Layers that interpolate or pool regions.

use ndarray::{ArrayView1, Axis};
use num_traits::AsPrimitive;

use super::Mat;
use super::array::{bottom, size};
use super::convolution::window::{axis_len, filled, inner};
use super::expression::evaluate;
use super::pooling::{Pool, Span, reduce};
use crate::error::{At, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{GridSample, Interp, ROIAlign, ROIPooling};

/// The elements of which a value is the sum, with their factors.
pub(super) type Taps = Vec<(usize, f64)>;

/// Computes a layer that interpolates or pools regions.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    match layer {
        Layer::Interp(l) => interp(l, bottoms),
        Layer::GridSample(l) => grid_sample(l, bottom(bottoms, 0)?, bottom(bottoms, 1)?),
        Layer::ROIAlign(l) => roi_align(l, bottom(bottoms, 0)?, bottom(bottoms, 1)?),
        Layer::ROIPooling(l) => roi_pooling(l, bottom(bottoms, 0)?, bottom(bottoms, 1)?),
        _ => unsupported!("{} has no reference", layer.type_name()),
    }
}

/// Returns the sum of elements with their factors.
pub(super) fn sum(taps: &Taps, elements: ArrayView1<f64>) -> f64 {
    taps.iter().filter_map(|(index, factor)| Some(elements.get(*index)? * factor)).sum()
}

/// Returns the taps of an array of these sizes in row-major order, from the taps along each axis.
pub(super) fn product(along: &[Taps], sizes: &[usize]) -> Taps {
    along.iter().zip(sizes).fold(vec![(0, 1.0)], |outer, (inner, size)| {
        let all = outer.iter().flat_map(|outer| inner.iter().map(move |inner| (outer, inner)));
        all.map(|((i, f), (j, g))| (i * size + j, f * g)).collect()
    })
}

/// Returns the elements among `len` at these positions, with their factors.
fn within(positions: &[f64], factors: &[f64], len: usize) -> Taps {
    let end: f64 = len.as_();
    let taps = positions.iter().zip(factors).filter(|(position, _)| **position >= 0.0 && **position < end);
    taps.map(|(position, factor)| (position.as_(), *factor)).collect()
}

/// Returns the two elements around a position; those outside of the axis are 0.
pub(super) fn linear(position: f64, len: usize) -> Taps {
    let below = position.floor();
    within(&[below, below + 1.0], &[1.0 - (position - below), position - below], len)
}

/// Returns the factors of the four elements around a position, which is `x` after the second one.
fn cubic(x: f64) -> [f64; 4] {
    const A: f64 = -0.75;
    let near = |x: f64| ((A + 2.0) * x - (A + 3.0)) * x * x + 1.0;
    let far = |x: f64| ((x - 5.0) * x + 8.0) * x * A - 4.0 * A;
    [far(x + 1.0), near(x), near(1.0 - x), far(2.0 - x)]
}

/// Returns each sum of elements along an axis.
fn resample(array: &Mat, axis: usize, taps: &[Taps]) -> Result<Mat> {
    let axis = Axis(axis);
    let mut sizes = array.shape().to_vec();
    if let Some(len) = sizes.get_mut(axis.index()) {
        *len = taps.len();
    }
    let mut top = filled(&sizes, 0.0)?;
    for (mut top, taps) in top.axis_iter_mut(axis).zip(taps) {
        taps.iter().for_each(|(index, factor)| top.scaled_add(*factor, &array.index_axis(axis, *index)));
    }
    Ok(top)
}

/// Returns a size that is a float.
fn truncated(x: f32) -> Result<usize> {
    let whole: i32 = x.as_();
    size(whole)
}

/// Resizes the innermost axis, and the one before it if there are three.
fn interp(l: &Interp, bottoms: &[&Mat]) -> Result<Mat> {
    let blob = bottom(bottoms, 0)?;
    let planar = |blob: &Mat| match *blob.shape() {
        [_] => Ok((1, 1)),
        [h, w] | [_, h, w] => Ok((h, w)),
        _ => invalid!("a bottom of {:?}", blob.shape()),
    };
    if blob.is_empty() {
        invalid!("an empty bottom of {:?}", blob.shape());
    }
    let (h, w) = planar(blob)?;
    let scaled = |len: usize, scale: f32| {
        let len: f32 = len.as_();
        truncated(len * scale)
    };
    let (out_h, out_w) = if !l.size_expr.is_empty() {
        match *evaluate(&l.size_expr, bottoms)?.as_slice() {
            [w] => (h, usize::try_from(w)?),
            [w, h] => (usize::try_from(h)?, usize::try_from(w)?),
            ref sizes => invalid!("{} sizes", sizes.len()),
        }
    } else if l.dynamic_target_size == 1 {
        let reference = bottom(bottoms, 1)?;
        match *reference.shape() {
            [w] => (1, w),
            [.., h, w] => (h, w),
            [] => invalid!("a bottom without axes"),
        }
    } else if l.output_height == 0 || l.output_width == 0 {
        (scaled(h, l.height_scale)?, scaled(w, l.width_scale)?)
    } else {
        (size(l.output_height)?, size(l.output_width)?)
    };
    if out_w == 0 || out_h == 0 && blob.ndim() != 2 {
        invalid!("a size of {out_h} by {out_w}");
    }
    // Positions go by a scale if it defines the size, although the size is rounded.
    let sized = !l.size_expr.is_empty() || l.dynamic_target_size == 1;
    let step = |len: usize, out: usize, size: i32, scale: f32| {
        let (len, out): (f64, f64) = (len.as_(), out.as_());
        if sized || size != 0 { len / out } else { 1.0 / f64::from(scale) }
    };
    let along_w = |out| axis_taps(l, w, out, step(w, out, l.output_width, l.width_scale));
    // Elements stay if the size does, whatever the scale is, but those of cubic interpolation.
    let kept = l.resize_type != 3;
    match blob.ndim() {
        1 => {
            let copied = blob.to_shape((blob.len(), 1, 1))?;
            filled(&[blob.len(), out_h, out_w], 0.0).map(|zeros| zeros + &copied)
        }
        2 if out_w == w && kept => Ok(blob.clone()),
        2 => resample(blob, 1, &along_w(out_w)?),
        _ if (out_h, out_w) == (h, w) && kept => Ok(blob.clone()),
        _ => {
            let rows = axis_taps(l, h, out_h, step(h, out_h, l.output_height, l.height_scale))?;
            resample(&resample(blob, 1, &rows)?, 2, &along_w(out_w)?)
        }
    }
}

/// Returns the taps of `out` elements that resize an axis of `len`, with this step from one to the next.
fn axis_taps(l: &Interp, len: usize, out: usize, step: f64) -> Result<Vec<Taps>> {
    let (end, last): (f64, f64) = (len.saturating_sub(1).as_(), out.saturating_sub(1).as_());
    let position = |i: usize| {
        let i: f64 = i.as_();
        match l.align_corner {
            0 => (i + 0.5) * step - 0.5,
            _ if out == 1 => 0.0,
            _ => i * end / last,
        }
    };
    // Elements beyond the ends are those at the ends.
    let clamped = |below: f64, factors: &[f64]| {
        let index = |i: usize| {
            let offset: f64 = i.as_();
            (below + offset).clamp(0.0, end).as_()
        };
        factors.iter().enumerate().map(|(i, factor)| (index(i), *factor)).collect()
    };
    let taps = |i: usize| {
        let below = position(i).floor();
        let x = position(i) - below;
        Ok(match l.resize_type {
            // The position is rounded as in the runtime, because it decides on the element.
            1 => {
                let (i, step): (f32, f32) = (i.as_(), step.as_());
                clamped((i * step).trunc().into(), &[1.0])
            }
            2 => clamped(below, &[1.0 - x, x]),
            3 => clamped(below - 1.0, &cubic(x)),
            other => invalid!("resize_type {other}"),
        })
    };
    (0..axis_len(out)?).map(taps).collect()
}

/// Interpolates at the coordinates in `grid`, from -1 to 1 along each axis, the innermost axis first.
fn grid_sample(l: &GridSample, image: &Mat, grid: &Mat) -> Result<Mat> {
    let axes = inner(image).len();
    let (coordinates, counts): (usize, Vec<usize>) = match (l.permute_fusion, grid.shape()) {
        (0, [counts @ .., n]) => (*n, counts.to_vec()),
        (_, [n, counts @ ..]) => (*n, counts.to_vec()),
        _ => invalid!("a grid without axes"),
    };
    if !(2..=3).contains(&axes) || coordinates != axes || counts.len() != axes || image.is_empty() {
        invalid!("a grid of {:?} for an image of {:?}", grid.shape(), image.shape());
    }
    if axes == 3 && l.sample_type == 3 {
        unsupported!("cubic interpolation of volumes");
    }
    let channels = image.to_shape((image.len_of(Axis(0)), inner(image).iter().product::<usize>()))?;
    let mut top = filled(&[&[channels.len_of(Axis(0))], counts.as_slice()].concat(), 0.0)?;
    let positions = counts.iter().product::<usize>();
    let mut columns = top.view_mut().into_shape_with_order((channels.len_of(Axis(0)), positions))?;
    let axis = if l.permute_fusion == 0 { Axis(axes) } else { Axis(0) };
    for (mut column, coordinates) in columns.lanes_mut(Axis(0)).into_iter().zip(grid.lanes(axis)) {
        let along = coordinates.iter().rev().zip(inner(image));
        let along = along.map(|(x, len)| coordinate_taps(l, *x, *len)).collect::<Result<Vec<_>>>()?;
        let taps = product(&along, inner(image));
        for (element, channel) in column.iter_mut().zip(channels.outer_iter()) {
            *element = sum(&taps, channel);
        }
    }
    Ok(top)
}

/// Returns the taps of a coordinate from -1 to 1 along an axis.
fn coordinate_taps(l: &GridSample, x: f64, len: usize) -> Result<Taps> {
    let size: f64 = len.as_();
    let aligned = l.align_corner != 0;
    let position = if aligned { (x + 1.0) / 2.0 * (size - 1.0) } else { ((x + 1.0) * size - 1.0) / 2.0 };
    let clamp = |x: f64| x.max(0.0).min(size - 1.0);
    // Positions are reflected once at either end.
    let reflect = |x: f64, end: f64| end - (x.abs() - end).abs();
    let padded = |x: f64| match l.padding_mode {
        1 => Ok(x),
        2 => Ok(clamp(x)),
        3 if aligned => Ok(reflect(x, size - 1.0)),
        3 => Ok(clamp(reflect(x + 0.5, size) - 0.5)),
        other => unsupported!("padding_mode {other}"),
    };
    match l.sample_type {
        1 => Ok(linear(padded(position)?, len)),
        2 => Ok(within(&[(padded(position)? + 0.5).floor()], &[1.0], len)),
        3 => {
            let below = position.floor();
            let around = [below - 1.0, below, below + 1.0, below + 2.0].map(padded);
            let around: Vec<f64> = around.into_iter().collect::<Result<_>>()?;
            Ok(within(&around, &cubic(position - below), len))
        }
        other => unsupported!("sample_type {other}"),
    }
}

/// Returns the bounds (top, bottom), (left, right) of the first region, in elements.
fn region(regions: &Mat, image: &Mat, scale: f32) -> Result<[(f32, f32); 2]> {
    if image.ndim() != 3 || image.is_empty() {
        invalid!("an image of {:?}", image.shape());
    }
    let bounds: Vec<f32> = regions.iter().take(4).map(|x| x.as_()).map(|x: f32| x * scale).collect();
    match *bounds.as_slice() {
        [left, top, right, bottom] => Ok([(top, bottom), (left, right)]),
        _ => invalid!("a region of {:?}", regions.shape()),
    }
}

/// Averages interpolated elements of each bin of a region.
fn roi_align(l: &ROIAlign, image: &Mat, regions: &Mat) -> Result<Mat> {
    let mut top = image.clone();
    let bounds = region(regions, image, l.spatial_scale)?;
    for (axis, ((start, end), pooled)) in
        bounds.into_iter().zip([l.pooled_height, l.pooled_width]).enumerate()
    {
        let len = *inner(image).at(axis)?;
        top = resample(&top, axis + 1, &bins(l, start, end, size(pooled)?, len)?)?;
    }
    Ok(top)
}

/// Returns the taps of each bin of a region along an axis of `len`. Bounds are float32 as in the runtime,
/// because they decide on the number of samples.
fn bins(l: &ROIAlign, start: f32, end: f32, pooled: usize, len: usize) -> Result<Vec<Taps>> {
    if pooled == 0 {
        invalid!("no bins");
    }
    let (shift, least) = if l.aligned != 0 { (0.5, f32::MIN) } else { (0.0, 1.0) };
    let (start, end) = (start - shift, end - shift);
    let (count, axis_end): (f32, f32) = (pooled.as_(), len.as_());
    let bin = (end - start).max(least) / count;
    let bin_taps = |i: usize| {
        let i: f32 = i.as_();
        let (begin, extent) = match l.version {
            // Bins are clipped to the image.
            0 => {
                let clip = |x: f32| x.clamp(0.0, axis_end);
                let begin = clip(start + i * bin);
                (begin, clip(start + (i + 1.0) * bin) - begin)
            }
            1 => (start + i * bin, bin),
            other => unsupported!("version {other}"),
        };
        let samples = match l.sampling_ratio {
            _ if l.version == 0 && extent <= 0.0 => 0,
            ratio if ratio > 0 => size(ratio)?,
            _ => truncated(extent.ceil().max(0.0))?,
        };
        axis_len(samples.saturating_mul(pooled))?;
        let (begin, bin, all, last): (f64, f64, f64, f64) =
            (begin.into(), bin.into(), samples.as_(), f64::from(axis_end) - 1.0);
        let position = |sample: usize| {
            let sample: f64 = sample.as_();
            begin + (sample + 0.5) * bin / all
        };
        // Samples that are too far outside of the image are 0.
        let counts = |position: &f64| l.version == 0 || (-1.0..=last + 1.0).contains(position);
        let taps = (0..samples).map(position).filter(counts).flat_map(|x| linear(x.clamp(0.0, last), len));
        Ok(taps.map(|(index, factor)| (index, factor / all)).collect())
    };
    (0..axis_len(pooled)?).map(bin_taps).collect()
}

/// Returns the largest element of each bin of a region, 0 for bins without elements.
fn roi_pooling(l: &ROIPooling, image: &Mat, regions: &Mat) -> Result<Mat> {
    let mut top = image.clone();
    let bounds = region(regions, image, l.spatial_scale)?;
    let mut empty = Vec::new();
    for (axis, ((start, end), pooled)) in
        bounds.into_iter().zip([l.pooled_height, l.pooled_width]).enumerate()
    {
        let pooled = size(pooled)?;
        let (start, count): (f32, f32) = (start.round(), pooled.as_());
        let bin = (end.round() - start + 1.0).max(1.0) / count;
        let len = *inner(image).at(axis)?;
        let bound = |x: f32| -> usize { x.max(0.0).as_() };
        let span = |i: usize| {
            let i: f32 = i.as_();
            let (begin, end) = (bound(start + (i * bin).floor()), bound(start + ((i + 1.0) * bin).ceil()));
            Span { elements: begin.min(len)..end.min(len), padded: false, count: 0 }
        };
        let spans: Vec<Span> = (0..axis_len(pooled)?).map(span).collect();
        top = reduce(&top, axis + 1, &spans, Pool::Maximum)?;
        let without = spans.iter().enumerate().filter(|(_, span)| span.elements.is_empty());
        empty.extend(without.map(|(i, _)| (Axis(axis + 1), i)));
    }
    empty.into_iter().for_each(|(axis, i)| top.index_axis_mut(axis, i).fill(0.0));
    Ok(top)
}
