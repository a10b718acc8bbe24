//! Pooling over regions of interest.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__RoiAlign.html>, `onnx__MaxRoiPool.html`.

mod max;

use num_traits::AsPrimitive;

use crate::ncnn::Layer;
use crate::ncnn::layer::ROIAlign;
use crate::ops::prelude::*;
use crate::ops::spatial::image_of;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined("", "MaxRoiPool", expand_max_roi_pool)
        .lowers_to("Slice and ReduceMax for each cell of each region")
        .limits("regions computed at run time; many cells"),
    Row::new("RoiAlign", Access::Any, infer_roi_align)
        .expand(max::expand_roi_align)
        .lower(lower_roi_align)
        .lowers_to("ROIAlign for each region; Slice, MatMul and ReduceMax for each region in mode max")
        .limits(
            "mode max with regions computed at run time; batch indices computed at run time; many regions",
        ),
];

/// The maximum number of regions: each becomes a layer.
const MAX_REGIONS: i64 = 256;
/// The maximum number of pooled cells of all regions: each becomes a few layers.
const MAX_CELLS: usize = 1024;
/// `ROIAlign::version`: samples outside the image are 0, as in detectron2 and in ONNX.
const DETECTRON2: i32 = 1;

struct RoiAlign {
    layer: ROIAlign,
    max: bool,
}

fn read_roi_align(call: &Call) -> Result<RoiAlign> {
    let max = call.word("mode", &[("avg", false), ("max", true)])?;
    // Version 10 has no coordinate transformation mode.
    let default = if call.since() < 16 { "output_half_pixel" } else { "half_pixel" };
    let words = [("half_pixel", 1), ("output_half_pixel", 0)];
    let aligned = call.word_or("coordinate_transformation_mode", default, &words)?;
    let size = |name| match call.int(name)? {
        n if n < 1 => Err(Error::invalid(format!("{name} {n} is not positive"))),
        n => Ok(i32::try_from(n)?),
    };
    let layer = ROIAlign {
        pooled_width: size("output_width")?,
        pooled_height: size("output_height")?,
        spatial_scale: call.float("spatial_scale")?,
        sampling_ratio: i32::try_from(call.int("sampling_ratio")?)?,
        aligned,
        version: DETECTRON2,
    };
    Ok(RoiAlign { layer, max })
}

/// Checks that the regions have `fields` elements each, and the input four axes.
fn check_regions(call: &Call, fields: i64) -> Result<()> {
    let (x, rois) = (call.shape(0)?, call.shape(1)?);
    let fits = |size: &Dim| size.known().is_none_or(|n| n == fields);
    if x.len() != 4 || rois.len() != 2 || !rois.last().is_some_and(fits) {
        invalid!(
            "regions of shape {} do not fit an input of shape {}",
            display_shape(rois),
            display_shape(x)
        );
    }
    Ok(())
}

fn infer_roi_align(call: &Call) -> Result<Vec<Fact>> {
    let ROIAlign { pooled_height, pooled_width, .. } = read_roi_align(call)?.layer;
    check_regions(call, 4)?;
    let (channels, regions) = (call.shape(0)?.at(1)?, call.shape(1)?.at(0)?);
    call.check_shape(2, std::slice::from_ref(regions))?;
    let shape = shape![regions, channels, i64::from(pooled_height), i64::from(pooled_width)];
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn lower_roi_align(lower: &Lower) -> Result<()> {
    let align = read_roi_align(lower)?;
    if align.max {
        unsupported!("mode max: ncnn's ROIAlign averages its samples");
    }
    let images = match lower.shape(0)?.at(0)? {
        batch if batch.is(1) => None,
        _ => Some(lower.int_list(2)?),
    };
    let layer = Layer::from(align.layer);
    lower_regions(lower, &layer, images.as_deref())
}

struct MaxRoiPool {
    height: i32,
    width: i32,
    spatial_scale: f32,
}

fn read_max_roi_pool(call: &Call) -> Result<MaxRoiPool> {
    let shape = call.ints("pooled_shape")?;
    let [height @ (1..), width @ (1..)] = shape.as_slice() else {
        invalid!("pooled_shape {shape:?} is not two positive sizes")
    };
    let (height, width) = (i32::try_from(*height)?, i32::try_from(*width)?);
    Ok(MaxRoiPool { height, width, spatial_scale: call.float("spatial_scale")? })
}

/// Returns the elements of each of `count` cells of the region `first..=last`, along an axis of size `size`.
fn cells(first: f32, last: f32, count: i32, size: i64) -> Vec<(i64, i64)> {
    let length = (last - first + 1.0).max(1.0);
    let step = length / AsPrimitive::<f32>::as_(count);
    let position = |offset: f32| -> i64 { AsPrimitive::<i64>::as_(first + offset).clamp(0, size) };
    let cell = |n: i32| {
        let n: f32 = n.as_();
        (position((n * step).floor()), position(((n + 1.0) * step).ceil()))
    };
    (0..count).map(cell).collect()
}

/// Expands MaxRoiPool into a maximum for each cell.
///
/// ncnn's ROIPooling is not used: as compiled, it divides by a reciprocal (`roipooling.cpp`), so cells whose
/// bounds lie between elements begin one element early.
fn expand_max_roi_pool<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let pool = read_max_roi_pool(x)?;
    check_regions(x, 5)?;
    let [batch, channels, height, width] = *x.sizes(0)?.as_slice() else {
        return Err(Error::internal("an image without four axes"));
    };
    let rois = x.float_list(1)?;
    let cell_count =
        (rois.len() / 5).saturating_mul(usize::try_from(pool.height.saturating_mul(pool.width))?);
    if cell_count > MAX_CELLS {
        unsupported!("{cell_count} cells, each of which becomes a layer (at most {MAX_CELLS})");
    }
    let data = x.operand(0);
    let zero = Array::f32(ndarray::ArrayD::zeros(vec![1, usize::try_from(channels)?, 1, 1]));
    let zero = x.make.cast_literal(&zero, x.dtype(0)?);
    let mut regions = Vec::new();
    for roi in rois.chunks_exact(5) {
        let [image, corners @ ..] = roi else { invalid!("a region has {} elements, expected 5", roi.len()) };
        if let Some(value) = roi.iter().find(|value| !value.is_finite()) {
            invalid!("a region contains {value}");
        }
        let image: i64 = image.as_();
        if !(0..batch).contains(&image) {
            invalid!("batch index {image} is out of range for a batch of {batch}");
        }
        let corners: Vec<f32> = corners.iter().map(|at| (at * pool.spatial_scale).round()).collect();
        let [left, top, right, bottom] = *corners.as_slice() else {
            invalid!("a region has {} corners, expected 4", corners.len())
        };
        let mut parts = Vec::new();
        for rows in cells(top, bottom, pool.height, height) {
            for columns in cells(left, right, pool.width, width) {
                if rows.0 >= rows.1 || columns.0 >= columns.1 {
                    parts.push(zero);
                    continue;
                }
                let (starts, ends) = ([image, rows.0, columns.0], [image + 1, rows.1, columns.1]);
                let cell = data.slices(&[0, 2, 3], &starts, &ends);
                parts.push(cell.reduce("ReduceMax", &[2, 3], true));
            }
        }
        let cells = x.make.concat(&parts, 2);
        regions.push(cells.reshape(&[1, channels, pool.height.into(), pool.width.into()]));
    }
    Ok(x.make.concat(&regions, 0))
}

/// Emits `layer` for each region, applied to the image of the region.
fn lower_regions(lower: &Lower, layer: &Layer, images: Option<&[i64]>) -> Result<()> {
    let output = lower.output_shape(0)?.to_vec();
    let Some(count) = output.at(0)?.known().filter(|count| *count <= MAX_REGIONS) else {
        unsupported!("{} regions, each of which becomes a layer (at most {MAX_REGIONS})", output.at(0)?);
    };
    let form = output.get(1..).unwrap_or_default();
    let (data, regions) = (lower.input(0), lower.input(1));
    let mut pooled = Vec::new();
    for region in 0..usize::try_from(count)? {
        let image = image_of(data, *images.map_or(Ok(&0), |images| images.at(region))?)?;
        let region = regions.slice(0, region.int(), 1).reshape(shape![4]);
        pooled.push(lower.layer(layer.clone(), &[image, region], form));
    }
    lower.give(0, lower.join(&pooled, 0))
}
