//! Pooling of regions.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__RoiAlign.html>, `onnx__MaxRoiPool.html`.

use super::{Call, Fact, Op, required};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::lower::Lower;
use crate::ncnn::layer::{ROIAlign, ROIPooling};
use crate::ncnn::{BlobId, Layer};
use crate::tensor::{Dim, display_shape};

pub(super) const OPS: &[Op] = &[
    Op::new("MaxRoiPool", &[1, 22], infer_max_roi_pool)
        .lower(lower_max_roi_pool)
        .becomes("ROIPooling, one for each region")
        .limits("images of a batch chosen at run time; many regions"),
    Op::new("RoiAlign", &[10, 16, 22], infer_roi_align)
        .lower(lower_roi_align)
        .becomes("ROIAlign, one for each region")
        .limits("mode max; images of a batch chosen at run time; many regions"),
];

/// Most regions: each is a layer.
const MAX_REGIONS: i64 = 256;
/// `ROIAlign::version`: samples outside the image count as 0, as in detectron2 and in ONNX.
const DETECTRON2: i32 = 1;

struct RoiAlign {
    layer: ROIAlign,
    max: bool,
}

fn read_roi_align(call: &Call) -> Result<RoiAlign> {
    let max = match call.string_or("mode", "avg")? {
        "avg" => false,
        "max" => true,
        other => invalid!("mode is {other}"),
    };
    // Version 10 knows no half pixels.
    let default = if call.since() < 16 { "output_half_pixel" } else { "half_pixel" };
    let aligned = match call.string_or("coordinate_transformation_mode", default)? {
        "half_pixel" => 1,
        "output_half_pixel" => 0,
        other => invalid!("coordinate_transformation_mode is {other}"),
    };
    let size = |name| match call.int_or(name, 1)? {
        n if n < 1 => Err(Error::invalid(format!("{name} is {n}"))),
        n => Ok(i32::try_from(n)?),
    };
    let layer = ROIAlign {
        pooled_width: size("output_width")?,
        pooled_height: size("output_height")?,
        spatial_scale: call.float_or("spatial_scale", 1.0)?,
        sampling_ratio: i32::try_from(call.int_or("sampling_ratio", 0)?)?,
        aligned,
        version: DETECTRON2,
    };
    Ok(RoiAlign { layer, max })
}

/// Regions, channels, height and width.
fn pooled_shape(call: &Call, height: i32, width: i32) -> Result<Vec<Dim>> {
    let (x, rois) = (call.shape(0)?, call.shape(1)?);
    if x.len() != 4 || rois.len() != 2 {
        invalid!("{} in the regions {}", display_shape(x), display_shape(rois));
    }
    Ok(vec![
        rois.at(0)?.clone(),
        x.at(1)?.clone(),
        Dim::Known(i64::from(height)),
        Dim::Known(i64::from(width)),
    ])
}

fn infer_roi_align(call: &Call) -> Result<Vec<Fact>> {
    let align = read_roi_align(call)?;
    let shape = pooled_shape(call, align.layer.pooled_height, align.layer.pooled_width)?;
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn lower_roi_align(lower: &mut Lower) -> Result<()> {
    let align = read_roi_align(lower)?;
    if align.max {
        unsupported!("the largest of weighted samples");
    }
    let images = match lower.shape(0)?.at(0)? {
        batch if batch.is(1) => None,
        _ => Some(lower.int_list(2)?),
    };
    let layer = Layer::from(align.layer);
    lower_regions(lower, &layer, images.as_deref(), 0)
}

fn read_max_roi_pool(call: &Call) -> Result<ROIPooling> {
    let shape = required(call.ints("pooled_shape")?, "pooled_shape")?;
    let [height, width] = shape.as_slice() else { invalid!("pooled_shape is {shape:?}") };
    if *height < 1 || *width < 1 {
        invalid!("pooled_shape is {shape:?}");
    }
    Ok(ROIPooling {
        pooled_width: i32::try_from(*width)?,
        pooled_height: i32::try_from(*height)?,
        spatial_scale: call.float_or("spatial_scale", 1.0)?,
    })
}

fn infer_max_roi_pool(call: &Call) -> Result<Vec<Fact>> {
    let pool = read_max_roi_pool(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, pooled_shape(call, pool.pooled_height, pool.pooled_width)?)])
}

fn lower_max_roi_pool(lower: &mut Lower) -> Result<()> {
    let layer = Layer::from(read_max_roi_pool(lower)?);
    // A region is the number of its image, and four coordinates.
    let images = match lower.shape(0)?.at(0)? {
        batch if batch.is(1) => None,
        _ => {
            let rois = lower.float_list(1)?;
            Some(
                rois.chunks(5)
                    .filter_map(|roi| roi.first())
                    .map(|n| num_traits::AsPrimitive::as_(*n))
                    .collect::<Vec<i64>>(),
            )
        }
    };
    lower_regions(lower, &layer, images.as_deref(), 1)
}

/// A layer for each region, over its image; coordinates begin at column `first` of the regions.
fn lower_regions(lower: &mut Lower, layer: &Layer, images: Option<&[i64]>, first: i32) -> Result<()> {
    let output = lower.output_shape(0)?.to_vec();
    let rois_shape = lower.shape(1)?.to_vec();
    let Some(count) = output.at(0)?.known().filter(|count| *count <= MAX_REGIONS) else {
        unsupported!("{} regions, each a layer", output.at(0)?);
    };
    let rois = lower.blob_as(1, &rois_shape)?;
    let form = output.get(1..).unwrap_or_default().to_vec();
    let mut tops = Vec::new();
    for region in 0..usize::try_from(count)? {
        let image = match images {
            Some(images) => *images.at(region)?,
            None => 0,
        };
        let x = image_of(lower, image)?;
        let row = i32::try_from(region)?;
        let mut roi = rois;
        if count != 1 {
            roi = lower.crop(roi, 0, row, row + 1, &Dim::Known(1))?;
        }
        if first != 0 {
            roi = lower.crop(roi, 1, first, first + 4, &Dim::Known(4))?;
        }
        let roi = lower.reshape(roi, &[Dim::Known(4)])?;
        tops.push(lower.emit(layer.clone(), &[x, roi], &form)?);
    }
    let top = lower.concat(&tops, 0)?;
    lower.set(0, top)
}

fn image_of(lower: &mut Lower, image: i64) -> Result<BlobId> {
    let shape = lower.shape(0)?.to_vec();
    let form = shape.get(1..).unwrap_or_default().to_vec();
    let batch = shape.at(0)?;
    if batch.is(1) {
        return lower.blob_as(0, &form);
    }
    if image < 0 || batch.known().is_some_and(|batch| image >= batch) {
        invalid!("image {image} of {batch}");
    }
    let rows = lower.blob_as(0, &[batch.clone(), Dim::product(&form)?])?;
    let row = lower.crop(rows, 0, i32::try_from(image)?, i32::try_from(image + 1)?, &Dim::Known(1))?;
    lower.reshape(row, &form)
}
