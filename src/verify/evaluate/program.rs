//! Operators that only the definitions of others have.

use ndarray::{Array2, ArrayD, Axis};
use num_traits::AsPrimitive;

use super::window::{biased, convolved};
use super::{of_type, typed};
use crate::error::{Error, Result, unsupported};
use crate::op::{Call, resolve_axis};
use crate::tensor::Array;

/// The largest magnitude of an integer of int8 layers.
const LARGEST: f64 = 127.0;

pub(super) fn same(call: &Call) -> Result<Vec<Array>> {
    Ok(vec![call.array(0)?.clone()])
}

/// Quantized values from their levels.
pub(super) fn levels(call: &Call) -> Result<Vec<Array>> {
    let zero: f64 = call.int("zero")?.as_();
    Ok(vec![of_type(call.element_type("to")?, call.array(0)?.to_f64()? + zero)])
}

/// Element `e` of frame `f` is that at `start + f * stride + e * dilation` of an axis.
pub(super) fn frames(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?;
    let axis = resolve_axis(call.int("axis")?, x.shape().len())?;
    let count = call.array(1)?.scalar_i64()?;
    let [start, stride, elements, dilation] =
        [call.int("start")?, call.int("stride")?, call.int("elements")?, call.int("dilation")?];
    let is_outer = call.flag("elements_first")?;
    let (outer, inner) = if is_outer { (elements, count) } else { (count, elements) };
    let mut list = Vec::new();
    for (a, b) in (0..outer).flat_map(|a| (0..inner).map(move |b| (a, b))) {
        let (frame, element) = if is_outer { (b, a) } else { (a, b) };
        list.push(usize::try_from(start + frame * stride + element * dilation)?);
    }
    let mut shape = x.shape().to_vec();
    shape.splice(axis..=axis, [usize::try_from(outer)?, usize::try_from(inner)?]);
    Ok(vec![x.gather(axis, &list)?.reshape(&shape)?])
}

/// Returns the levels of the data.
fn rounded(call: &Call) -> Result<(ArrayD<f64>, f64)> {
    let Some(scale) = call.optional_float("scale")? else {
        unsupported!("data that are rounded by their range")
    };
    let scale = f64::from(scale);
    let level = |x: f64| libm::round(x * scale).clamp(-LARGEST, LARGEST);
    Ok((call.array(0)?.to_f64()?.mapv(level), scale))
}

/// Divides the sums of the outputs, along axis 1, by both scales, and adds the bias.
fn dequantized(call: &Call, mut sums: ArrayD<f64>, scale: f64) -> Result<Array> {
    let scales = call.array(2)?.to_f64()?;
    let repeated = sums.len_of(Axis(1)).checked_div(scales.len()).unwrap_or_default().max(1);
    let scales = scales.iter().flat_map(|scale| std::iter::repeat_n(*scale, repeated));
    for (mut channel, of_weight) in sums.axis_iter_mut(Axis(1)).zip(scales) {
        channel /= scale * of_weight;
    }
    typed(call, biased(call, 3, sums)?)
}

/// A convolution of rounded data; the padding has the level `zero`.
pub(super) fn int8_conv(call: &Call) -> Result<Vec<Array>> {
    let (x, scale) = rounded(call)?;
    let sums = convolved(call, x, call.array(1)?.to_f64()?, call.int("zero")?.as_())?;
    Ok(vec![dequantized(call, sums, scale)?])
}

/// A linear map of rounded rows.
pub(super) fn int8_linear(call: &Call) -> Result<Vec<Array>> {
    let (x, scale) = rounded(call)?;
    let matrix = |x: ArrayD<f64>| -> Result<Array2<f64>> {
        x.into_dimensionality().map_err(|_| Error::internal("no rows"))
    };
    let sums = matrix(x)?.dot(&matrix(call.array(1)?.to_f64()?)?.t());
    Ok(vec![dequantized(call, sums.into_dyn(), scale)?])
}
