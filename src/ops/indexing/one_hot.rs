//! OneHot.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__OneHot.html>.

use num_traits::AsPrimitive;

use crate::lower::HALF_OF_INFINITY;
use crate::ops::prelude::*;
use crate::tensor::{coordinates, row_major};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("OneHot", Access::Any, infer_one_hot)
    .fold(fold_one_hot)
    .lower(lower_one_hot)
    .tolerates_rounding(|_, _| true)
    .lowers_to("BinaryOp, Threshold: the distance to each position")
    .limits("a depth known only at run time")];

/// Returns the position of the new axis in the result.
fn read_axis(call: &Call, rank: usize) -> Result<usize> {
    resolve_axis(call.int("axis")?, rank + 1)
}

/// Returns the size of the new axis, or the declared one if it is computed at run time.
fn depth_of(call: &Call, axis: usize) -> Result<Dim> {
    call.array(1)
        .and_then(only_size)
        .or_else(|error| call.declared_instead_of(1).and_then(|shape| shape.get(axis)).cloned().ok_or(error))
}

fn only_size(depth: &Array) -> Result<Dim> {
    let depth = depth.cast(DType::I64)?.to_dims()?;
    match depth.iter().next() {
        Some(size) if depth.len() == 1 => Ok(size.clone()),
        _ => Err(Error::invalid(format!("the depth has {} elements, expected 1", depth.len()))),
    }
}

fn infer_one_hot(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    let axis = read_axis(call, shape.len())?;
    shape.insert(axis, depth_of(call, axis)?);
    call.check_shape(2, &shape![2])?;
    Ok(vec![Fact::new(call.dtype(2)?, shape)])
}

fn fold_one_hot(call: &Call) -> Result<Vec<Array>> {
    let (indices, values) = (call.array(0)?, call.array(2)?);
    let axis = read_axis(call, indices.shape().len())?;
    let Some(depth) = only_size(call.array(1)?)?.known() else {
        unsupported!("the depth is known only at run time")
    };
    let size = usize::try_from(depth)?;
    let requested: Vec<f64> = indices.to_f64()?.iter().copied().collect();
    let mut shape = indices.shape().to_vec();
    shape.insert(axis, size);
    let mut picked = Vec::with_capacity(shape.iter().product());
    for mut at in coordinates(&shape) {
        let position: f64 = at.remove(axis).as_();
        let index = *requested.at(row_major(indices.shape(), &at))?;
        let depth: f64 = depth.as_();
        picked.push(usize::from(index == position || index + depth == position));
    }
    Ok(vec![values.pick(&picked, &shape)?])
}

fn lower_one_hot(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let axis = read_axis(lower, shape.len())?;
    let depth = lower.output_shape(0)?.at(axis)?.clone();
    let Some(size) = depth.known() else { unsupported!("the depth {depth} is not fixed") };
    let outer = Dim::product(shape.iter().take(axis));
    let inner = Dim::product(shape.iter().skip(axis));
    let form = [outer, depth, inner];
    if Dim::product(&form).known().is_some_and(|count| count > limits::COMPARED) {
        unsupported!("too many indices to compare with each of {size} positions");
    }
    let [outer, depth, inner] = form;
    let indices = lower.input(0).reshape([outer, Dim::ONE, inner]).isolated().counted_from_front(&depth);
    // An index that is not an integer matches no position.
    let is_float = lower.dtype(0)?.is_float();
    let hit = indices.compute_along(1, &depth, |index, position| {
        let distance = index - position;
        if is_float { !distance.nonzero() } else { distance.equals_zero() }
    });
    lower.give(0, choose(lower, hit)?)
}

/// Returns the product of zeros and ones of float32 with data of any type, as `multiply` does, in the type of
/// the data. Each sum has at most one 1, so infinities of other elements must not contribute: see
/// [`Lower::bounded_half`].
pub(in crate::ops) fn pick<'x>(
    data: Expr<'x>,
    dtype: DType,
    multiply: impl FnOnce(Expr<'x>) -> Expr<'x>,
) -> Expr<'x> {
    let numbers = data.cast(DType::F32);
    if !dtype.is_float() {
        return multiply(numbers).cast(dtype);
    }
    let bounded = (numbers * 0.5).clip(-HALF_OF_INFINITY, HALF_OF_INFINITY);
    (multiply(bounded) * 2.0).cast(dtype)
}

/// Returns the second of the two values for a hit, else the first.
fn choose<'l>(lower: &'l Lower, hit: Nd<'l>) -> Result<Nd<'l>> {
    if lower.constant(2).is_some() {
        let [off, on] = *lower.float_list(2)?.as_slice() else { invalid!("values must have two elements") };
        if !off.is_finite() || !on.is_finite() {
            unsupported!("the values {off} and {on} are not finite");
        }
        return Ok(hit.compute(|hit| {
            let chosen = if on == 1.0 { hit.into() } else { hit * on };
            if off == 0.0 { chosen } else { chosen + !hit * off }
        }));
    }
    let [off, on] = [0, 1].map(|index| lower.input(2).slice(0, index, 1));
    Ok(hit * on + hit.compute(|hit| !hit) * off)
}
