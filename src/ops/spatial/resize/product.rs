//! Resize by matrix products: of constant weights, or of weights computed from free sizes.

use num_traits::AsPrimitive;

use super::axis::{AxisMap, matrix};
use super::node::{AxisResize, Filter, Mode, Transform};
use crate::ncnn::Cost;
use crate::ncnn::layer::reduction_op::SUM;
use crate::ops::prelude::*;

/// The most bands of a matrix: 16 take 0.9 of the time of 8, with twice the layers.
const MAX_BANDS: usize = 8;

/// Returns the product of an axis with the matrix of its map. The weights of a row are few and adjacent, so
/// the matrix is cut into bands of rows, each of which reads a part of the axis, if that takes less time.
pub(super) fn multiply<'l>(lower: &'l Lower, x: Nd<'l>, axis: usize, map: &AxisMap) -> Result<Nd<'l>> {
    let [outer, inner] = Dim::around(&x.shape(), axis);
    let others =
        Dim::known_product(&[outer.clone(), inner.clone()]).and_then(|others| u64::try_from(others).ok());
    let bands = (1..=MAX_BANDS.min(map.rows.len())).map(|count| map.bands(count));
    let bands = bands.min_by_key(|bands| time(bands, others.unwrap_or(1))).unwrap_or_default();
    let elements: usize = bands.iter().map(|(_, band)| band.rows.len().saturating_mul(band.input)).sum();
    if elements > limits::MATRIX_ELEMENTS {
        return Err(Error::unsupported(format!(
            "a matrix of {} rows and {} columns (at most {} elements)",
            map.rows.len(),
            map.input,
            limits::MATRIX_ELEMENTS
        )));
    }
    let form = if inner.is(1) { vec![outer, x.size(axis)] } else { vec![outer, x.size(axis), inner] };
    let plane = if bands.len() > 1 { x.reshape(form).isolated() } else { x.reshape(form) };
    let mut products = Vec::with_capacity(bands.len());
    for (start, band) in bands {
        let part = plane.slice(1, start.int(), band.input.int());
        products.push(part.linear(1, &matrix(band)?));
    }
    let mut shape = x.shape().to_vec();
    shape.put(axis, map.rows.len().into());
    Ok(lower.join(&products, 1).reshape(shape))
}

/// Returns the nanoseconds of the products of bands with so many elements for each one of the axis.
fn time(bands: &[(usize, AxisMap)], others: u64) -> u64 {
    let mut cost = Cost::default();
    for (_, band) in bands {
        let [rows, read] =
            [band.rows.len(), band.input].map(|count| u64::try_from(count).unwrap_or(u64::MAX));
        cost = cost + Cost::product(others.saturating_mul(rows), read);
        if bands.len() > 1 {
            cost = cost + Cost::passes(1, others.saturating_mul(read));
        }
    }
    cost.nanoseconds()
}

/// Returns whether [`multiply_free`] computes the weights of a filter.
pub(super) fn computes_weights(filter: &Filter) -> bool {
    let is_centred = matches!(filter.transform, Transform::HalfPixel | Transform::PytorchHalfPixel);
    filter.antialias && filter.exclude_outside && is_centred
}

/// Returns the product of an axis with weights that are computed from its size: those of each output element
/// are the filter around its coordinate, wider for an axis that shrinks, divided by their sum.
pub(super) fn multiply_free<'l>(
    lower: &'l Lower,
    x: Nd<'l>,
    axis: &AxisResize,
    filter: &Filter,
) -> Result<Nd<'l>> {
    lower.compute_in_float32();
    let (input, output) = (x.size(axis.axis), &axis.output);
    if filter.transform == Transform::PytorchHalfPixel {
        lower.require(SizeCondition::at_least(output, 2))?;
    }
    let step = match (axis.scale, output.known()) {
        (Some(scale), _) => lower.tensor(Tensor::from_f32(&[1], vec![1.0 / scale])),
        (None, Some(output)) => {
            let output: f32 = output.as_();
            lower.scalar(&input) * (1.0 / output)
        }
        (None, None) => lower.scalar(&input) / lower.scalar(output),
    };
    let coordinate = (lower.indices_along(output, 0, 2) + 0.5) * step - 0.5;
    let distance = (lower.indices_along(&input, 1, 2) - coordinate).compute(|x| x.abs());
    let distance = distance / step.compute(|step| step.maximum(1.0));
    let weights = match filter.mode {
        Mode::Linear => distance.compute(|x| (1.0 - x).maximum(0.0)),
        Mode::Cubic => cubic(distance, filter.cubic_coeff_a),
        Mode::Nearest(_) => return Err(Error::internal("weights of nearest neighbours")),
    };
    Ok(x.product(axis.axis, weights / weights.reduce(SUM, &[1])))
}

/// Returns the cubic convolution kernel at distances: each of its two pieces is 0 where it meets the other
/// one.
fn cubic<'l>(distance: Nd<'l>, a: f32) -> Nd<'l> {
    let near = distance.compute(|x| x.minimum(1.0));
    let far = distance.compute(|x| x.clip(1.0, 2.0));
    let inner = (near * (a + 2.0) - (a + 3.0)) * near * near + 1.0;
    inner + (((far - 5.0) * far + 8.0) * far - 4.0) * a
}
