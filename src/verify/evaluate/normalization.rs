//! Operators that divide by sums of their input.

use ndarray::{Array1, Array2, ArrayD, ArrayViewMut1, Axis};
use num_traits::AsPrimitive;

use super::{rows, typed};
use crate::error::{At, Error, Result, unsupported};
use crate::op::{Call, distinct_axes, resolve_axis};
use crate::tensor::Array;

/// The version in which Softmax, LogSoftmax and Hardmax take one axis instead of all from one on.
const ONE_AXIS: i64 = 13;

/// The version in which GroupNormalization scales each channel instead of each group.
const OF_CHANNELS: i64 = 21;

/// Applies a function to each list of elements that are computed together.
fn by_lane(call: &Call, mut compute: impl FnMut(&mut ArrayViewMut1<f64>)) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let is_old = call.since() < ONE_AXIS;
    let axis = call.int_or("axis", if is_old { 1 } else { -1 })?;
    let axis = resolve_axis(axis, x.ndim().max(1))?;
    let shape = x.raw_dim();
    // The elements of one sum are along the last axis.
    let mut lanes = if is_old {
        let outer = x.shape().iter().take(axis).product();
        rows(x, outer)?.into_dyn()
    } else {
        x
    };
    let along = if is_old { Axis(1) } else { Axis(axis) };
    for mut lane in lanes.lanes_mut(along) {
        compute(&mut lane);
    }
    let lanes = lanes.into_shape_with_order(shape).map_err(|_| Error::internal("no rows"))?;
    Ok(vec![typed(call, lanes)?])
}

/// Applies a function to the exponential of each element, relative to the largest one, and to their sum.
pub(super) fn softmax(call: &Call, result: impl Fn(f64, f64) -> f64) -> Result<Vec<Array>> {
    by_lane(call, |lane| {
        let largest = lane.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        lane.mapv_inplace(|x| libm::exp(x - largest));
        let sum = lane.sum();
        lane.mapv_inplace(|x| result(x, sum));
    })
}

/// 1 at the first of the largest elements, 0 elsewhere.
pub(super) fn hard_max(call: &Call) -> Result<Vec<Array>> {
    by_lane(call, |lane| {
        let largest = lane.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let first = lane.iter().position(|x| x.total_cmp(&largest).is_eq());
        lane.indexed_iter_mut().for_each(|(index, x)| *x = f64::from(u8::from(Some(index) == first)));
    })
}

/// `x / (bias + alpha / size * sum of squares) ^ beta`, over the channels around each.
pub(super) fn local_response(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let size = call.int("size")?;
    let (alpha, beta) = (f64::from(call.float_or("alpha", 1e-4)?), f64::from(call.float_or("beta", 0.75)?));
    let bias = f64::from(call.float_or("bias", 1.0)?);
    let (before, after) = (usize::try_from((size - 1) / 2)?, usize::try_from(size / 2)?);
    let squares = x.mapv(|x| x * x);
    let channels = x.len_of(Axis(1));
    let mut top = x.clone();
    for (channel, mut slice) in top.axis_iter_mut(Axis(1)).enumerate() {
        let (from, to) = (channel.saturating_sub(before), (channel + after + 1).min(channels));
        let around = squares.slice_axis(Axis(1), (from..to).into()).sum_axis(Axis(1));
        let factor: f64 = alpha / AsPrimitive::<f64>::as_(size);
        slice.zip_mut_with(&around, |x, sum| *x /= libm::pow(bias + factor * sum, beta));
    }
    Ok(vec![typed(call, top)?])
}

/// The elements of rows without their mean and in units of their deviation, and both, each as a column.
struct Normalized {
    rows: Array2<f64>,
    mean: Array2<f64>,
    variance: Array2<f64>,
    inverse: Array2<f64>,
}

fn normalized(x: ArrayD<f64>, count: usize, epsilon: f64) -> Result<Normalized> {
    let rows = rows(x, count)?;
    let count: f64 = rows.ncols().as_();
    let column = |sums: Array1<f64>| (sums / count).insert_axis(Axis(1));
    let mean = column(rows.sum_axis(Axis(1)));
    let centred = &rows - &mean;
    let variance = column((&centred * &centred).sum_axis(Axis(1)));
    let inverse = variance.mapv(|variance| 1.0 / (variance + epsilon).sqrt());
    Ok(Normalized { rows: centred * &inverse, mean, variance, inverse })
}

fn in_shape(elements: Array2<f64>, shape: &[usize]) -> Result<ArrayD<f64>> {
    elements.into_shape_with_order(shape).map_err(|_| Error::internal("another number of elements"))
}

/// Returns a parameter that is multiplied or added along the axis of the channels, with each element
/// `repeated` times.
fn of_channels(call: &Call, index: usize, rank: usize, repeated: usize) -> Result<ArrayD<f64>> {
    let each = call.array(index)?.to_f64()?;
    let all: Vec<f64> = each.iter().flat_map(|x| std::iter::repeat_n(*x, repeated)).collect();
    let mut shape = vec![1; rank];
    if let Some(channels) = shape.get_mut(1) {
        *channels = all.len();
    }
    ArrayD::from_shape_vec(shape, all).map_err(|_| Error::internal("an input without channels"))
}

/// Returns the broadcast product and sum.
fn scaled(x: &ArrayD<f64>, scale: &ArrayD<f64>, bias: Option<&ArrayD<f64>>) -> Result<ArrayD<f64>> {
    let fitted = |array: &ArrayD<f64>| {
        let fitted = array.broadcast(x.raw_dim()).map(|view| view.to_owned());
        fitted.ok_or_else(|| Error::invalid("a scale or a bias of another shape"))
    };
    let product = x * &fitted(scale)?;
    Ok(match bias {
        Some(bias) => product + &fitted(bias)?,
        None => product,
    })
}

pub(super) fn layer_normalization(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let axis = resolve_axis(call.int_or("axis", -1)?, rank)?;
    let outer: Vec<usize> = shape.iter().copied().take(axis).collect();
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, mean, inverse, .. } = normalized(x, outer.iter().product(), epsilon)?;
    let bias = if call.has_input(2) { Some(call.array(2)?.to_f64()?) } else { None };
    let top = scaled(&in_shape(rows, &shape)?, &call.array(1)?.to_f64()?, bias.as_ref())?;
    let reduced: Vec<usize> = outer.into_iter().chain(vec![1; rank - axis]).collect();
    Ok(vec![
        typed(call, top)?,
        typed(call, in_shape(mean, &reduced)?)?,
        typed(call, in_shape(inverse, &reduced)?)?,
    ])
}

pub(super) fn group_normalization(call: &Call) -> Result<Vec<Array>> {
    by_groups(call, usize::try_from(call.int("num_groups")?)?)
}

/// The normalization by a group for each channel.
pub(super) fn instance_normalization(call: &Call) -> Result<Vec<Array>> {
    by_groups(call, *call.array(0)?.shape().at(1)?)
}

/// Normalizes each group of channels of each element of the batch.
fn by_groups(call: &Call, groups: usize) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let [batch, channels, ..] = shape[..] else { unsupported!("an input without channels") };
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, .. } = normalized(x, batch * groups, epsilon)?;
    // Scale and bias have an element for each group in the first version of GroupNormalization.
    let is_by_group = call.since() < OF_CHANNELS;
    let repeated = if is_by_group { channels.checked_div(groups).unwrap_or_default() } else { 1 };
    let (scale, bias) = (of_channels(call, 1, rank, repeated)?, of_channels(call, 2, rank, repeated)?);
    Ok(vec![typed(call, scaled(&in_shape(rows, &shape)?, &scale, Some(&bias))?)?])
}

/// BatchNormalization by mean and variance of the batch; the running ones are outputs.
pub(super) fn training(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let channels = *shape.at(1)?;
    let (scale, bias) = (of_channels(call, 1, rank, 1)?, of_channels(call, 2, rank, 1)?);
    let mut by_channel = x.view();
    by_channel.swap_axes(0, 1);
    let swapped = by_channel.shape().to_vec();
    let by_channel = by_channel.as_standard_layout().into_owned();
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, mean, variance, .. } = normalized(by_channel, channels, epsilon)?;
    let mut top = in_shape(rows, &swapped)?;
    top.swap_axes(0, 1);
    let momentum = f64::from(call.float_or("momentum", 0.9)?);
    let running = |index: usize, of_batch: Array2<f64>| {
        let old = call.array(index)?.to_f64()?;
        typed(call, old * momentum + in_shape(of_batch, &[channels])? * (1.0 - momentum))
    };
    let top = typed(call, scaled(&top, &scale, Some(&bias))?)?;
    Ok(vec![top, running(3, mean)?, running(4, variance)?])
}

/// The elements minus their mean along some axes, divided by their deviation. Like onnxruntime, and unlike
/// the function in the specification, it adds nothing to the deviation.
pub(super) fn mean_variance(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let axes = distinct_axes(&call.ints("axes")?, x.ndim())?;
    let mean_of = |x: &ArrayD<f64>| {
        axes.iter().fold(x.clone(), |x, axis| {
            let count: f64 = x.len_of(Axis(*axis)).as_();
            (x.sum_axis(Axis(*axis)) / count).insert_axis(Axis(*axis))
        })
    };
    let centred = &x - &mean_of(&x);
    let deviation = mean_of(&(&centred * &centred)).mapv(f64::sqrt);
    Ok(vec![typed(call, centred / deviation)?])
}
