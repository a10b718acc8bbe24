//! ArgMax and ArgMin.

use ndarray::{ArrayD, Axis};
use num_traits::AsPrimitive;

use crate::ncnn::layer::{binary_op, reduction_op};
use crate::ops::prelude::*;

/// The bound up to which float32 represents every integer.
const MAX_EXACT: i64 = 1 << 24;

/// Larger magnitudes are clipped to this: Reduction starts at the largest float32, so that an axis of
/// infinities would have no extreme.
const LARGEST: f32 = 3.4e38;

struct ArgAttributes {
    max: bool,
    axis: i64,
    keepdims: bool,
    select_last_index: bool,
}

fn read_arg(call: &Call) -> Result<ArgAttributes> {
    Ok(ArgAttributes {
        max: call.op_type() == "ArgMax",
        axis: call.int("axis")?,
        keepdims: call.flag("keepdims")?,
        select_last_index: call.since() >= 12 && call.flag("select_last_index")?,
    })
}

pub(super) fn infer_arg(call: &Call) -> Result<Vec<Fact>> {
    let arg = read_arg(call)?;
    let mut shape = call.shape(0)?.to_vec();
    let axis = resolve_axis(arg.axis, shape.len())?;
    if arg.keepdims {
        shape.splice(axis..=axis, [Dim::ONE]);
    } else {
        shape.remove(axis);
    }
    Ok(vec![Fact::new(DType::I64, shape)])
}

pub(super) fn fold_arg(call: &Call) -> Result<Vec<Array>> {
    let arg = read_arg(call)?;
    let data = call.array(0)?;
    let axis = resolve_axis(arg.axis, data.shape().len())?;
    if data.shape().at(axis)? == &0 {
        invalid!("the extreme of an empty axis");
    }
    let indices = match data.elements() {
        Elements::F32(a) => indices(a, axis, &arg),
        Elements::F64(a) => indices(a, axis, &arg),
        Elements::I64(a) => indices(a, axis, &arg),
        Elements::Dim(_) => unsupported!("extremes of sizes known only at run time"),
    };
    let indices = if arg.keepdims { indices.insert_axis(Axis(axis)) } else { indices };
    Ok(vec![Array::i64(indices)])
}

fn indices<T: PartialOrd + Copy>(a: &ArrayD<T>, axis: usize, arg: &ArgAttributes) -> ArrayD<i64> {
    a.map_axis(Axis(axis), |lane| {
        let mut best = lane.first().map(|x| (0_usize, *x));
        for (i, x) in lane.iter().enumerate() {
            let better = best.is_none_or(|(_, y)| {
                let beyond = if arg.max { *x > y } else { *x < y };
                beyond || (arg.select_last_index && *x == y)
            });
            if better {
                best = Some((i, *x));
            }
        }
        best.map_or(0, |(i, _)| i.as_())
    })
}

/// Elements other than the extreme get indices out of range; of the others the first or last index is
/// selected.
pub(super) fn lower_arg(lower: &Lower) -> Result<()> {
    let arg = read_arg(lower)?;
    let axis = resolve_axis(arg.axis, lower.shape(0)?.len())?;
    let size = lower.shape(0)?.at(axis)?.clone();
    if let Some(count) = size.known().filter(|count| *count > MAX_EXACT / 2) {
        unsupported!("indices up to {count}: float32 represents integers up to {MAX_EXACT} exactly");
    }
    let mut x = lower.input(0).with_axes(&[axis]);
    if lower.dtype(0)?.is_float() {
        let (op, limit) = if arg.max { (binary_op::MAX, -LARGEST) } else { (binary_op::MIN, LARGEST) };
        x = x.compute(|x| x.with(op, limit));
    }
    let extreme = x.reduce(if arg.max { reduction_op::MAX } else { reduction_op::MIN }, &[axis]);
    let (larger, smaller) = if arg.max { (extreme, x) } else { (x, extreme) };
    let after = larger.compute_with(smaller, |larger, smaller| (larger - smaller).greater(0.0));
    let after = match size.known() {
        Some(count) => after * AsPrimitive::<f32>::as_(count),
        None => after * lower.scalar(&size),
    };
    let (move_out, pick) = match arg.select_last_index {
        false => (binary_op::ADD, reduction_op::MIN),
        true => (binary_op::SUB, reduction_op::MAX),
    };
    let index = after.compute_along(axis, &size, |after, index| index.with(move_out, after));
    lower.give(0, index.reduction(pick, &[axis], arg.keepdims))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ties_select_the_first_or_the_last() {
        let a = ArrayD::from_shape_vec(ndarray::IxDyn(&[4]), vec![1, 7, 7, 1]).unwrap();
        for (max, last, expected) in [(true, false, 1), (true, true, 2), (false, false, 0), (false, true, 3)]
        {
            let arg = ArgAttributes { max, axis: 0, keepdims: false, select_last_index: last };
            assert_eq!(indices(&a, 0, &arg).first(), Some(&expected), "{max} {last}");
        }
    }
}
