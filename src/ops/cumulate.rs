//! CumSum and CumProd.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | CumSum | CumulativeSum; `exclusive` is Padding and Crop before it, `reverse` Slice and Concat around it |
//! | CumProd | products with itself moved by 1, 2, 4 and so on places: Padding, Crop, BinaryOp |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CumSum.html>, `onnx__CumProd.html`.

use super::broadcast::{Kernel, fold_arithmetic};
use super::{Attributes, Call, Fact, Op, given, resolve_axis};
use crate::error::{At, Result, invalid, unsupported};
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::{CumulativeSum, binary_op};
use crate::tensor::{Array, Dim};

pub(super) const OPS: &[Op] = &[
    Op::new("CumProd", &[26], infer_cumulate).fold(fold_cumulate).lower(lower_cum_prod),
    Op::new("CumSum", &[11, 14], infer_cumulate).fold(fold_cumulate).lower(lower_cum_sum),
];

/// How the elements up to each are taken together.
struct Cumulation {
    /// Without the element itself.
    exclusive: bool,
    /// From the end.
    reverse: bool,
}

fn read_cumulation(attributes: &Attributes) -> Result<Cumulation> {
    Ok(Cumulation {
        exclusive: attributes.flag("exclusive", false)?,
        reverse: attributes.flag("reverse", false)?,
    })
}

/// The axis; where it is computed at run time, the only one that there is.
fn axis_of(call: &Call) -> Result<usize> {
    let rank = call.shape(0)?.len();
    match call.int_list(1) {
        Ok(axis) => single_axis(&axis, rank),
        Err(_) if rank == 1 => Ok(0),
        Err(error) => Err(error),
    }
}

fn single_axis(axis: &[i64], rank: usize) -> Result<usize> {
    let [axis] = *axis else { invalid!("{} axes where one is needed", axis.len()) };
    resolve_axis(axis, rank)
}

fn infer_cumulate(call: &Call) -> Result<Vec<Fact>> {
    read_cumulation(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, call.shape(0)?.to_vec())])
}

fn fold_cumulate(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = given(inputs, 0)?;
    let axis = single_axis(&given(inputs, 1)?.int_list()?, data.shape().len())?;
    let how = read_cumulation(attributes)?;
    let (kernel, neutral): (Kernel<f64, i64, Dim>, f32) = match attributes.op_type() {
        "CumProd" => {
            (Kernel { float: |x, y| x * y, int: |x, y| Ok(x.wrapping_mul(y)), dim: |x, y| x.mul(y) }, 1.0)
        }
        _ => (Kernel { float: |x, y| x + y, int: |x, y| Ok(x.wrapping_add(y)), dim: |x, y| x.add(y) }, 0.0),
    };
    let size = *data.shape().at(axis)?;
    if size == 0 {
        return Ok(vec![data.clone()]);
    }
    let mut one = data.shape().to_vec();
    if let Some(slot) = one.get_mut(axis) {
        *slot = 1;
    }
    let neutral = Array::f32(ndarray::ArrayD::from_elem(one, neutral)).cast(data.dtype())?;
    let mut sum = neutral.clone();
    let mut sums = Vec::with_capacity(size);
    for step in 0..size {
        let place = if how.reverse { size - 1 - step } else { step };
        let next = fold_arithmetic(&sum, &data.take(axis, &[place])?, &kernel)?;
        sums.push(if how.exclusive { sum } else { next.clone() });
        sum = next;
    }
    if how.reverse {
        sums.reverse();
    }
    Ok(vec![Array::concat(&sums, axis)?])
}

/// Runs `forwards` on the axis in the order in which it is cumulated, without the last element where each is left out of its own.
fn lower_cumulation(
    lower: &mut Lower,
    neutral: f32,
    forwards: impl Fn(&mut Lower, BlobId, usize) -> Result<BlobId>,
) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let axis = axis_of(lower)?;
    let how = read_cumulation(lower)?;
    let blob = lower.blob(0)?;
    let (blob, place) = lower.alone(blob, &shape, axis)?;
    // Until 2025 CumulativeSum overlooks the axis d.
    let (mut blob, place) = lower.grouped(blob, place)?;
    if how.reverse {
        blob = lower.reverse(blob, place)?;
    }
    if how.exclusive {
        blob = moved(lower, blob, place, 1, neutral)?;
    }
    blob = forwards(lower, blob, place)?;
    if how.reverse {
        blob = lower.reverse(blob, place)?;
    }
    lower.set(0, blob)
}

/// The axis moved by some places; what comes in is `value`.
fn moved(lower: &mut Lower, blob: BlobId, place: usize, by: i32, value: f32) -> Result<BlobId> {
    let size = lower.form(blob).at(place)?.clone();
    let padded = lower.padded(blob, place, by.into(), 0, value)?;
    lower.crop(padded, place, 0, -by, &size)
}

fn lower_cum_sum(lower: &mut Lower) -> Result<()> {
    lower_cumulation(lower, 0.0, |lower, blob, place| {
        lower.map(CumulativeSum { axis: i32::try_from(place)? }, blob)
    })
}

fn lower_cum_prod(lower: &mut Lower) -> Result<()> {
    lower_cumulation(lower, 1.0, |lower, mut blob, place| {
        let size = lower.form(blob).at(place)?.clone();
        let Some(size) = size.known() else { unsupported!("products along an axis of {size}") };
        let mut by = 1;
        while i64::from(by) < size {
            let before = moved(lower, blob, place, by, 1.0)?;
            blob = lower.binary(binary_op::MUL, blob, before)?;
            by *= 2;
        }
        Ok(blob)
    })
}
