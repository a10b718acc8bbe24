//! CumSum and CumProd.
//!
//! `exclusive` is Padding and Crop before CumulativeSum, `reverse` Slice and Concat around it. CumProd
//! multiplies element by element, in the order of the specification: the product of a part may overflow if
//! the product of all does not.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__CumSum.html>, `onnx__CumProd.html`.

use ndarray::{ArrayD, Axis};
use num_traits::AsPrimitive;

use crate::error::ErrorKind;
use crate::ncnn::layer::CumulativeSum;
use crate::op::range;
use crate::ops::elementwise::arithmetic::{ADD, MUL};
use crate::ops::elementwise::broadcast::Kernel;
use crate::ops::prelude::*;
use crate::tensor::Border;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined("", "CumProd", expand_cum_prod)
        .fold(|call| fold_cumulate(call, &MUL, 1.0))
        .lowers_to("Slice, BinaryOp, Concat, element by element")
        .limits("an axis of free size"),
    Row::new("CumSum", Access::Any, infer_cumulate)
        .fold(|call| fold_cumulate(call, &ADD, 0.0))
        .range(range_cum_sum)
        .lower(lower_cum_sum)
        .lowers_to("CumulativeSum"),
];

/// The maximum number of elements along the axis of CumProd: each is a layer.
const MAX_PRODUCTS: i64 = 1024;

fn range_cum_sum(call: &Call, inputs: &[Range]) -> Range {
    let summands = range::positions(call, inputs);
    range::first(call, inputs).times(summands)
}

/// The attributes of a cumulation.
struct Cumulation {
    /// Whether an element is excluded from its result.
    exclusive: bool,
    /// Whether it starts at the end.
    reverse: bool,
}

fn read_cumulation(call: &Call) -> Result<Cumulation> {
    Ok(Cumulation { exclusive: call.flag("exclusive")?, reverse: call.flag("reverse")? })
}

/// Returns the axis; if it is computed at run time, the only one of the input.
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
    call.check_integer(1)?;
    let shape = call.shape(0)?;
    if shape.is_empty() {
        invalid!("a scalar has no axis");
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

fn fold_cumulate(call: &Call, kernel: &Kernel<f64, i64, Dim>, neutral: f32) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let axis = single_axis(&call.array(1)?.int_list()?, data.shape().len())?;
    let how = read_cumulation(call)?;
    let axis = Axis(axis);
    let elements = match data.elements() {
        Elements::F32(x) => Elements::F32(cumulate(x, axis, &how, neutral, |x, y| {
            Ok((kernel.float)(f64::from(*x), f64::from(*y)).as_())
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

/// Returns the sums, or products, of the elements up to each index along an axis.
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

/// The axis is reversed and shifted as the attributes require, before and after the layer.
fn lower_cum_sum(lower: &Lower) -> Result<()> {
    let axis = axis_of(lower)?;
    let how = read_cumulation(lower)?;
    let turned = |x| if how.reverse { Nd::reverse(x, axis) } else { x };
    let mut x = turned(lower.input(0).with_lanes(axis));
    if how.exclusive {
        let size = x.size(axis);
        x = x.pad(&[(axis, [Dim::ONE, Dim::ZERO])], Border::Constant(0.0)).first(axis, size);
    }
    lower.give(0, turned(x.map_along(axis, |axis| CumulativeSum { axis })))
}

fn expand_cum_prod<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    x.check_integer(1)?;
    let how = read_cumulation(x)?;
    let axis = axis_of(x)?;
    let shape = x.shape(0)?.to_vec();
    let count = match shape.at(axis)? {
        Dim::Known(count @ 1..=MAX_PRODUCTS) => *count,
        size => {
            x.refuse(Error::unsupported(format!("{size} products along an axis (at most {MAX_PRODUCTS})")));
            return Ok(x.operand(0));
        }
    };
    let along = axis.int();
    let mut parts = x.operand(0).split_list(along, &vec![1; usize::try_from(count)?]);
    if how.reverse {
        parts.reverse();
    }
    let mut products = Vec::new();
    if how.exclusive {
        products.push(ones(x, &shape, axis)?);
        parts.pop();
    }
    let mut product: Option<Expr> = None;
    for part in parts {
        let next = product.map_or(part, |product| product * part);
        products.push(next);
        product = Some(next);
    }
    if how.reverse {
        products.reverse();
    }
    Ok(x.make.concat(&products, along))
}

/// Returns ones in the shape of the input, with one element along the axis.
fn ones<'x>(x: &'x Expand, shape: &[Dim], axis: usize) -> Result<Expr<'x>> {
    let mut sizes = Vec::with_capacity(shape.len());
    for (index, size) in shape.iter().enumerate() {
        let Some(size) = size.known() else { unsupported!("ones of a free size") };
        sizes.push(if index == axis { 1 } else { size });
    }
    // Expand is evaluated only when needed: the result has as many elements as the input.
    Ok(x.make.number(1.0, x.dtype(0)?).broadcast(&sizes))
}
