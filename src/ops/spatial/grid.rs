//! Sampling at the coordinates of a grid.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__GridSample.html>, `onnx__AffineGrid.html`.

use num_traits::AsPrimitive;

use super::image_of;
use crate::lower::line_form;
use crate::ncnn::layer::{BinaryOp, GridSample, binary_op};
use crate::op::CONTRIB_DOMAIN;
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;
use crate::tensor::Border;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined("", "AffineGrid", expand_affine_grid)
        .lowers_to("MatMul of the identity grid with the transform")
        .limits("sizes computed at run time; align_corners over an axis of one element"),
    GRID_SAMPLE,
    GRID_SAMPLE.domain(CONTRIB_DOMAIN),
];

const GRID_SAMPLE: Row = Row::new("GridSample", Access::Any, infer_grid_sample)
    .precise(|_, index| index == 1)
    .batched(|_, _| true)
    .lower(lower_grid_sample)
    .lowers_to("GridSample, of several images as slices of a volume")
    .limits(
        "mode cubic over three axes; more than 64 images, or a batch of free size, with mode cubic or three axes",
    )
    .differs("infinities next to a sample, whose weight may be 0");

/// The maximum batch size for which each image becomes a layer.
const MAX_LAYERS: i64 = 64;
/// The maximum batch size for which that is preferred to a volume.
const FEW_LAYERS: i64 = 4;
/// `GridSample::sample_type`.
const NEAREST: i32 = 2;
/// See [`NEAREST`].
const CUBIC: i32 = 3;
/// `GridSample::padding_mode`.
const REFLECTION: i32 = 3;

fn read_grid_sample(call: &Call) -> Result<GridSample> {
    // Version 20 renamed the modes.
    let modes = [("bilinear", 1), ("linear", 1), ("nearest", NEAREST), ("bicubic", CUBIC), ("cubic", CUBIC)];
    let sample_type = call.word("mode", &modes)?;
    let padding_mode =
        call.word("padding_mode", &[("zeros", 1), ("border", 2), ("reflection", REFLECTION)])?;
    let align_corner = i32::from(call.flag("align_corners")?);
    Ok(GridSample { sample_type, padding_mode, align_corner, permute_fusion: 0 })
}

fn infer_grid_sample(call: &Call) -> Result<Vec<Fact>> {
    let (x, grid) = (call.shape(0)?, call.shape(1)?);
    let coordinates = x.len().int() - 2;
    let images = x.first().and_then(Dim::known).zip(grid.first().and_then(Dim::known));
    if x.len() < 3
        || grid.len() != x.len()
        || images.is_some_and(|(x, grid)| x != grid)
        || grid.last().is_some_and(|n| n.known().is_some_and(|n| n != coordinates))
    {
        invalid!(
            "a grid of shape {} does not fit an input of shape {}",
            display_shape(grid),
            display_shape(x)
        );
    }
    call.require_equal(x.at(0)?, grid.at(0)?)?;
    call.require_equal(grid.at(grid.len() - 1)?, &Dim::Known(coordinates))?;
    let mut shape: Vec<Dim> = x.iter().take(2).cloned().collect();
    shape.extend(grid.iter().take(grid.len() - 1).skip(1).cloned());
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn lower_grid_sample(lower: &Lower) -> Result<()> {
    lower.compute_in_float32();
    let layer = read_grid_sample(lower)?;
    let (rank, dtype) = (lower.shape(0)?.len(), lower.dtype(0)?);
    if layer.sample_type != NEAREST && !dtype.is_float() {
        unsupported!("interpolation of {dtype}: the output is rounded");
    }
    if !(4..=5).contains(&rank) || (rank == 5 && layer.sample_type == CUBIC) {
        unsupported!("this mode over {} spatial axes", rank - 2);
    }
    let batch = lower.output_shape(0)?.at(0)?.clone();
    let is_plane = rank == 4 && layer.sample_type != CUBIC;
    if is_plane && batch.known().is_none_or(|images| images > FEW_LAYERS) {
        return lower_as_volume(lower, &layer, &batch);
    }
    let Some(images) = batch.known() else {
        unsupported!("a batch of {batch} images in this mode: each image becomes a layer");
    };
    if images > MAX_LAYERS {
        unsupported!("a batch of {images} in this mode: each image becomes a layer (at most {MAX_LAYERS})");
    }
    let form = lower.output_shape(0)?.get(1..).unwrap_or_default();
    let mut sampled = Vec::new();
    for image in 0..images {
        let grid = prepared(lower, image_of(lower.input(1), image)?, &layer)?;
        let bottoms = [image_of(lower.input(0), image)?, grid];
        sampled.push(lower.layer(layer.clone(), &bottoms, form));
    }
    // Images joined along the outermost axis have their elements in the order of the batch.
    lower.give(0, lower.join(&sampled, 0))
}

/// Returns the coordinates with which ncnn samples as ONNX does.
fn prepared<'l>(lower: &'l Lower, mut grid: Nd<'l>, layer: &GridSample) -> Result<Nd<'l>> {
    if layer.sample_type == NEAREST {
        grid = rounded(lower, grid, layer.align_corner != 0)?;
    }
    Ok(if layer.padding_mode == REFLECTION { reflected(grid) } else { grid })
}

/// Samples all images as the slices of a volume, each at the depth of its slice.
fn lower_as_volume(lower: &Lower, layer: &GridSample, batch: &Dim) -> Result<()> {
    let [_, rows, columns, _] = lower.shape(1)? else { invalid!("a grid of four axes") };
    let slices = lower.input(0).transpose(&[1, 0, 2, 3]).isolated();
    let corners = layer.align_corner != 0;
    let (volume, depths) = match batch.known() {
        Some(images) => padded_volume(lower, slices, images, corners)?,
        None => doubled_volume(lower, slices, batch, corners),
    };
    let depths = depths.reshape(shape![batch, 1, 1, 1]);
    let positions = lower.all(1.0, shape![1, rows, columns, 1]);
    let product = BinaryOp { op_type: binary_op::MUL, ..BinaryOp::default() };
    let depths = lower.layer(product, &[depths, positions], shape![batch, rows, columns, 1]);
    let grid = prepared(lower, lower.input(1), layer)?.join(depths, 3);
    let sampled = lower.layer(layer.clone(), &[volume, grid], shape![slices.size(0), batch, rows, columns]);
    lower.give(0, sampled.transpose(&[1, 0, 2, 3]))
}

/// Pads slices to a depth at which their coordinates are exact, so that no other slice has a weight. Returns
/// the coordinates, too.
fn padded_volume<'l>(
    lower: &'l Lower,
    slices: Nd<'l>,
    images: i64,
    corners: bool,
) -> Result<(Nd<'l>, Nd<'l>)> {
    // The positions are (z + 1) / 2 * (depth - 1), or ((z + 1) * depth - 1) / 2.
    let power = u64::try_from(images - i64::from(corners))?.next_power_of_two();
    let depth = i64::try_from(power)? + i64::from(corners);
    let volume = slices.pad(&[(1, [0, depth - images].map(Dim::Known))], Border::Constant(0.0));
    let depth: f64 = depth.as_();
    let coordinate = |image: i64| -> f32 {
        let image: f64 = image.as_();
        let z = if corners { 2.0 * image / (depth - 1.0) - 1.0 } else { (2.0 * image + 1.0) / depth - 1.0 };
        z.as_()
    };
    let depths = Tensor::from_f32(&[usize::try_from(images)?], (0..images).map(coordinate).collect());
    Ok((volume, lower.tensor(depths)))
}

/// Doubles each slice, and returns the coordinates between both, too: their rounding moves no weight to
/// another image.
fn doubled_volume<'l>(lower: &'l Lower, slices: Nd<'l>, batch: &Dim, corners: bool) -> (Nd<'l>, Nd<'l>) {
    let shape = slices.shape();
    let plane = Dim::product(shape.iter().skip(2));
    let slices = slices.reshape(shape![slices.size(0), batch, 1, plane]).isolated();
    let volume = slices.join(slices, 2).reshape(resized(&shape, 1, batch * 2));
    // The positions 2 * i + 1/2 of twice the depth.
    let positions = lower.indices_along(batch, 0, 1);
    let depths = if corners {
        (positions * 4.0 + 1.0) / (lower.scalar(&(batch * 2)) - 1.0) - 1.0
    } else {
        (positions * 2.0 + 1.0) / lower.scalar(batch) - 1.0
    };
    (volume, depths)
}

/// Rounds the coordinates of the grid to the nearest elements, ties to even: ncnn rounds ties up.
fn rounded<'l>(lower: &'l Lower, grid: Nd<'l>, align_corners: bool) -> Result<Nd<'l>> {
    let spatial = lower.shape(0)?.get(2..).unwrap_or_default();
    let sizes: Option<Vec<i64>> = Dim::known_sizes(spatial.iter().rev());
    let Some(sizes) = sizes else {
        return Err(Error::unsupported("mode nearest over an image whose size is known only at run time"));
    };
    let sizes: Vec<f32> = sizes.iter().map(|size| size.as_()).collect();
    let scales: Vec<f32> = if align_corners { sizes.iter().map(|size| size - 1.0).collect() } else { sizes };
    // An axis of one element is sampled at 0 for every coordinate.
    let divisors: Vec<f32> = scales.iter().map(|scale| if *scale == 0.0 { 1.0 } else { *scale }).collect();
    let rank = grid.shape().len();
    let [scales, divisors] = [scales, divisors].map(|factors| {
        let line = line_form(&Dim::from(factors.len()), rank - 1, rank);
        lower.tensor(Tensor::from_f32(&[factors.len()], factors)).reshape(line)
    });
    let from_edge = grid + 1.0;
    // The operations in onnxruntime's order, whose rounding decides which coordinates are ties.
    let double = if align_corners {
        (from_edge * 0.5 * scales).compute(|at| at.round()) * 2.0
    } else {
        ((from_edge * scales - 1.0) * 0.5).compute(|at| at.round()) * 2.0 + 1.0
    };
    Ok(double / divisors - 1.0)
}

/// Reflects the coordinates at -1 and 1 until they lie between: ncnn reflects once (`gridsample.cpp`,
/// `reflect_coord`).
fn reflected(grid: Nd) -> Nd {
    (grid + 1.0).compute(|from_edge| {
        let within = from_edge - (from_edge * 0.25).floor() * 4.0;
        1.0 - (within - 2.0).abs()
    })
}

/// Returns the sizes of the sampled image: batch, channels and spatial axes.
fn grid_sizes(call: &Call) -> Result<Vec<Dim>> {
    let sizes = match (call.dims(1), call.declared_instead_of(1)) {
        (Ok(sizes), _) => sizes,
        // The number of channels is not used.
        (Err(_), Some([batch, spatial @ .., _])) => {
            [batch.clone(), Dim::ONE].into_iter().chain(spatial.iter().cloned()).collect()
        }
        (Err(error), _) => return Err(error),
    };
    if !(4..=5).contains(&sizes.len()) {
        invalid!("size has {} elements, expected 4 or 5", sizes.len());
    }
    Ok(sizes)
}

fn expand_affine_grid<'x>(expand: &'x Expand) -> Result<Expr<'x>> {
    let align_corners = expand.flag("align_corners")?;
    let sizes = grid_sizes(expand)?;
    let spatial: Option<Vec<usize>> = Dim::known_sizes(sizes.iter().skip(2));
    let Some(spatial) = spatial else {
        return Err(Error::unsupported("a grid with sizes known only at run time"));
    };
    if align_corners && spatial.contains(&1) {
        unsupported!("align_corners over an axis of one element: onnxruntime and the specification disagree");
    }
    let rank = spatial.len();
    expand.check_shape(0, &shape![sizes.at(0)?, Dim::from(rank), Dim::from(rank + 1)])?;
    let identity = expand.make.literal(&identity_grid(&spatial, align_corners)?);
    let grid = identity.matmul(expand.operand(0).transpose(&[0, 2, 1]));
    let mut shape = vec![0];
    for size in spatial.iter().copied().chain([rank]) {
        shape.push(size.int());
    }
    Ok(grid.reshape(&shape))
}

/// Returns a row for each position: its coordinates, innermost axis first, and 1.
fn identity_grid(spatial: &[usize], align_corners: bool) -> Result<Array> {
    let positions = spatial.iter().try_fold(1_usize, |n, size| n.checked_mul(*size));
    let positions = positions.ok_or_else(|| Error::limit("the grid is too large"))?;
    limits::check_listed(positions)?;
    let coordinate = |index: usize, size: usize| -> f32 {
        let (index, size): (f32, f32) = (index.as_(), size.as_());
        match align_corners {
            true => index * 2.0 / (size - 1.0) - 1.0,
            false => (index * 2.0 + 1.0) / size - 1.0,
        }
    };
    let mut rows = Vec::new();
    for position in 0..positions {
        let mut rest = position;
        for size in spatial.iter().rev() {
            rows.push(coordinate(rest % size.max(&1), *size));
            rest /= size.max(&1);
        }
        rows.push(1.0);
    }
    Ok(Array::f32(ndarray::ArrayD::from_shape_vec(vec![positions, spatial.len() + 1], rows)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_grids_span_the_image() {
        let corners = identity_grid(&[2, 3], true).unwrap();
        let rows = [-1.0, 1.0].map(|y| [-1.0, y, 1.0, 0.0, y, 1.0, 1.0, y, 1.0]);
        assert_eq!(corners.float_list().unwrap(), rows.concat());
        let pixels = identity_grid(&[2, 2], false).unwrap();
        assert_eq!(pixels.float_list().unwrap().get(..3), Some(&[-0.5, -0.5, 1.0][..]));
        assert_eq!(pixels.shape(), [4, 3]);
    }
}
