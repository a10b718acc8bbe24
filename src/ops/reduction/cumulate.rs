//! CumSum and CumProd.
//!
//! `exclusive` is Padding and Crop before CumulativeSum, `reverse` Slice and Concat around it.
//! CumProd goes element by element, as the spec does: a product of some elements may be infinite where that from the first one on is not.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CumSum.html>, `onnx__CumProd.html`.

use ndarray::{ArrayD, Axis};
use num_traits::AsPrimitive;

use crate::error::{At, ErrorKind, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::lower::Lower;
use crate::ncnn::BlobId;
use crate::ncnn::layer::CumulativeSum;
use crate::op::{Access, Attributes, Call, Fact, required_input, resolve_axis};
use crate::ops::Row;
use crate::ops::elementwise::broadcast::Kernel;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, Dim, Elements, round_float};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("CumProd", &[26], Access::Any, infer_cumulate)
        .fold(fold_cumulate)
        .expand(expand_cum_prod)
        .lowers_to("Slice, BinaryOp, Concat: one element after the other")
        .limits("an axis whose size is not fixed"),
    Row::new("CumSum", &[11, 14], Access::Any, infer_cumulate)
        .fold(fold_cumulate)
        .lower(lower_cum_sum)
        .lowers_to("CumulativeSum"),
];

/// Most elements along the axis of CumProd: each is a layer.
const MAX_PRODUCTS: i64 = 1024;

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
    match call.axes(1) {
        Ok(axis) => single_axis(&axis, rank),
        Err(error) if rank == 1 && error.kind() == ErrorKind::Unsupported => Ok(0),
        Err(error) => Err(error),
    }
}

fn single_axis(axis: &[i64], rank: usize) -> Result<usize> {
    let [axis] = *axis else { invalid!("{} axes where one is needed", axis.len()) };
    resolve_axis(axis, rank)
}

fn infer_cumulate(call: &Call) -> Result<Vec<Fact>> {
    read_cumulation(call)?;
    call.check_integer(1)?;
    let shape = call.shape(0)?;
    if shape.is_empty() {
        invalid!("a scalar has no axis");
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

fn fold_cumulate(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let axis = single_axis(&required_input(inputs, 1)?.int_list()?, data.shape().len())?;
    let how = read_cumulation(attributes)?;
    let (kernel, neutral): (Kernel<f64, i64, Dim>, f32) = match attributes.op_type() {
        "CumProd" => {
            (Kernel { float: |x, y| x * y, int: |x, y| Ok(x.wrapping_mul(y)), dim: |x, y| x.mul(y) }, 1.0)
        }
        _ => (Kernel { float: |x, y| x + y, int: |x, y| Ok(x.wrapping_add(y)), dim: |x, y| x.add(y) }, 0.0),
    };
    let axis = Axis(axis);
    let elements = match data.elements() {
        Elements::F32(x) => Elements::F32(cumulate(x, axis, &how, neutral, |x, y| {
            Ok(round_float((kernel.float)(f64::from(*x), f64::from(*y)).as_(), data.dtype()))
        })?),
        Elements::F64(x) => {
            let neutral = f64::from(neutral);
            Elements::F64(cumulate(x, axis, &how, neutral, |x, y| Ok((kernel.float)(*x, *y)))?)
        }
        Elements::I64(x) => {
            Elements::I64(cumulate(x, axis, &how, neutral.as_(), |x, y| (kernel.int)(*x, *y))?)
        }
        Elements::Dim(x) => Elements::Dim(cumulate(x, axis, &how, Dim::Known(neutral.as_()), kernel.dim)?),
    };
    Ok(vec![Array::new(data.dtype(), elements)])
}

/// The sums, or products, of what comes before each place along an axis, that itself among them or not.
fn cumulate<T: Clone>(
    data: &ArrayD<T>,
    axis: Axis,
    how: &Cumulation,
    neutral: T,
    add: impl Fn(&T, &T) -> Result<T>,
) -> Result<ArrayD<T>> {
    let mut result = data.clone();
    for mut lane in result.lanes_mut(axis) {
        if how.reverse {
            lane.invert_axis(Axis(0));
        }
        let mut sum = neutral.clone();
        for element in lane {
            let next = add(&sum, element)?;
            *element = if how.exclusive { sum } else { next.clone() };
            sum = next;
        }
    }
    Ok(result)
}

/// The axis is summed in the order in which it is cumulated, without the last element where each is left out of its own.
fn lower_cum_sum(lower: &mut Lower) -> Result<()> {
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
        blob = moved(lower, blob, place)?;
    }
    blob = lower.map(CumulativeSum { axis: i32::try_from(place)? }, blob)?;
    if how.reverse {
        blob = lower.reverse(blob, place)?;
    }
    lower.set(0, blob)
}

/// The axis moved by one place; what comes in is zero.
fn moved(lower: &mut Lower, blob: BlobId, place: usize) -> Result<BlobId> {
    let size = lower.form(blob).at(place)?.clone();
    let padded = lower.padded(blob, place, 1, 0, 0.0)?;
    lower.crop(padded, place, 0, -1, &size)
}

fn expand_cum_prod(x: &mut Expand) -> Result<bool> {
    let how = read_cumulation(x)?;
    let axis = axis_of(x)?;
    let shape = x.shape(0)?.to_vec();
    let Some(count) = shape.at(axis)?.known() else { unsupported!("an axis whose size is not fixed") };
    if !(1..=MAX_PRODUCTS).contains(&count) {
        unsupported!("{count} products along an axis, where 1 to {MAX_PRODUCTS} are written out");
    }
    let (operand, along) = (x.operand(0)?, [("axis", Attribute::Int(i64::try_from(axis)?))]);
    let sizes = vec![1; usize::try_from(count)?];
    let mut parts = vec![operand];
    if count > 1 {
        let split = x.ints(&sizes)?;
        parts = x.op_n("Split", &[Some(operand), Some(split)], &along, sizes.len())?;
    }
    if how.reverse {
        parts.reverse();
    }
    let mut products = Vec::new();
    if how.exclusive {
        products.push(ones(x, &shape, axis)?);
        parts.pop();
    }
    let mut product = None;
    for part in parts {
        let next = match product {
            Some(product) => x.op("Mul", &[product, part], &[])?,
            None => part,
        };
        products.push(next);
        product = Some(next);
    }
    if how.reverse {
        products.reverse();
    }
    let result = match products.as_slice() {
        [one] => *one,
        all => x.op("Concat", all, &along)?,
    };
    x.output(0, result)?;
    Ok(true)
}

/// Ones in the shape of the input with one element along the axis.
fn ones(x: &mut Expand, shape: &[Dim], axis: usize) -> Result<Operand> {
    let mut sizes = Vec::with_capacity(shape.len());
    for (index, size) in shape.iter().enumerate() {
        let Some(size) = size.known() else { unsupported!("ones of a size that is not fixed") };
        sizes.push(if index == axis { 1 } else { size });
    }
    // As many as the input has elements: they are not made before they are needed.
    let (one, sizes) = (x.scalar_like(0, 1.0)?, x.ints(&sizes)?);
    x.op("Expand", &[one, sizes], &[])
}
