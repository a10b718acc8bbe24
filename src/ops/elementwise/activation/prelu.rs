//! PRelu: a slope for negative elements, of any shape that broadcasts to the shape of the input.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__PRelu.html>.

use super::super::broadcast::{Kernel, fold_arithmetic};
use crate::lower::extended;
use crate::ncnn::layer::{PReLU, ReLU};
use crate::ops::prelude::*;

/// Returns the number of axes after the axes of the slopes: before operator set 7 a list of slopes belongs to
/// axis 1, then numpy's rules apply.
fn trailing_axes(call: &Call, input: usize, slope: usize) -> usize {
    if call.since() < 7 && slope == 1 { input.saturating_sub(2) } else { 0 }
}

/// Returns the shape of the slopes, extended to the rank of the input.
fn slope_shape(call: &Call) -> Result<Vec<Dim>> {
    let (input, slope) = (call.shape(0)?, call.shape(1)?);
    let mut shape = slope.to_vec();
    if !Dim::product(slope).is(1) {
        let trailing = trailing_axes(call, input.len(), slope.len());
        shape.extend(std::iter::repeat_n(Dim::ONE, trailing));
    }
    // Leading axes of size 1 have no effect.
    let surplus = shape.len().saturating_sub(input.len());
    if !shape.iter().take(surplus).all(|d| d.is(1)) {
        invalid!("the slopes have more axes than the input");
    }
    Ok(extended(&shape.split_off(surplus), input.len()))
}

pub(super) fn infer_prelu(call: &Call) -> Result<Vec<Fact>> {
    let (shape, slopes) = (call.shape(0)?, slope_shape(call)?);
    let differ = |(a, b): (&Dim, &Dim)| a.known().is_some_and(|a| a != 1) && b.known().is_some() && a != b;
    if slopes.iter().zip(shape).any(differ) {
        invalid!("slopes of shape {} do not broadcast to {}", display_shape(&slopes), display_shape(shape));
    }
    // The result has the shape of the input, to which the slopes are broadcast.
    let mut result = shape.to_vec();
    for (slope, size) in slopes.iter().zip(&mut result) {
        match (slope.known(), size.known()) {
            (Some(1), _) => {}
            (None, Some(_)) => call.require(SizeCondition::broadcast(slope, size))?,
            (known, _) => {
                call.require_equal(slope, size)?;
                if known.is_some() {
                    *size = slope.clone();
                }
            }
        }
    }
    Ok(vec![Fact::new(call.dtype(0)?, result)])
}

pub(super) fn fold_prelu(call: &Call) -> Result<Vec<Array>> {
    let (x, slope) = (call.array(0)?, call.array(1)?);
    let mut shape = slope.shape().to_vec();
    if slope.len() != 1 {
        shape.extend(std::iter::repeat_n(1, trailing_axes(call, x.shape().len(), shape.len())));
    }
    let kernel = Kernel {
        float: |x, slope| if x < 0.0 { x * slope } else { x },
        int: |x, slope| Ok(if x < 0 { x.wrapping_mul(slope) } else { x }),
        dim: |x, _| Ok(x.clone()),
    };
    Ok(vec![fold_arithmetic(x, &slope.reshape(&shape)?, &kernel)?])
}

pub(super) fn lower_prelu(lower: &Lower) -> Result<()> {
    let slopes = slope_shape(lower)?;
    if let Some(slope) = lower.constant(1).cloned() {
        if slope.len() == 1 {
            let x = lower.blob(0)?;
            return lower.set(0, x.map(ReLU { slope: slope.load_listed()?.scalar_f32()? }));
        }
        let long: Vec<usize> =
            (0..slopes.len()).filter(|axis| !slopes.get(*axis).is_some_and(|d| d.is(1))).collect();
        if let [axis] = *long.as_slice()
            && lower.shape(0)?.iter().take(axis).all(|d| d.is(1))
            && lower.shape(0)?.get(axis).is_some_and(|size| size.known().is_some())
        {
            let layer = PReLU { slope_data: Some(slope.reshaped(&[slope.len()])?) };
            return lower.give(0, lower.input(0).with_outermost(axis).compute(|x| x.map(layer)));
        }
    }
    let shape = lower.shape(0)?.to_vec();
    let sides = lower.broadcast(&[(0, shape), (1, slopes)])?;
    let (x, slopes) = (lower.compute(*sides.at(0)?)?, *sides.at(1)?);
    lower.set(0, x.map(ReLU::default()) + x.minimum(0.0) * slopes)
}
