//! ReverseSequence: the first elements of each sequence of a batch, reversed.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__ReverseSequence.html>.

use ndarray::{ArrayD, Axis, Slice};

use crate::error::{At, Result, invalid};
use crate::graph::Attribute;
use crate::lower::Lower;
use crate::op::{Access, Attributes, Call, Fact, required_input};
use crate::ops::Row;
use crate::pass::expand::Expand;
use crate::tensor::{Array, DType, Dim, display_shape, move_elements};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("ReverseSequence", &[10, 28], Access::Any, infer_reverse)
    .fold(fold_reverse)
    .expand(expand_reverse)
    .lower(lower_reverse)
    .lowers_to("Crop, Slice, Concat for constant lengths; else MatMul with a matrix of zeros and ones")];

/// The maximum number of sequences that are reversed by separate layers.
const MAX_SEQUENCES: i64 = 32;

/// Returns whether time is the first axis and the batch the second, not the other way round.
fn time_is_first(attributes: &Attributes) -> Result<bool> {
    match (attributes.int_or("time_axis", 0)?, attributes.int_or("batch_axis", 1)?) {
        (0, 1) => Ok(true),
        (1, 0) => Ok(false),
        (time, batch) => invalid!("time axis {time} and batch axis {batch}"),
    }
}

fn infer_reverse(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let batch = if time_is_first(call)? { 1 } else { 0 };
    let (true, Some(sequences)) = (shape.len() >= 2, shape.get(batch)) else {
        invalid!("the sequences have shape {}, expected time and batch axes", display_shape(shape));
    };
    call.check_shape(1, std::slice::from_ref(sequences))?;
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

fn check_len(len: i64, size: i64) -> Result<()> {
    if !(0..=size).contains(&len) {
        invalid!("a sequence of length {len} in an axis of size {size}");
    }
    Ok(())
}

/// Returns the indices of a sequence of `size` whose first `len` elements are reversed.
fn places(len: i64, size: i64) -> Result<Vec<i64>> {
    check_len(len, size)?;
    Ok((0..len).rev().chain(len..size).collect())
}

fn fold_reverse(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let (time, batch) = if time_is_first(attributes)? { (0, 1) } else { (1, 0) };
    let size = i64::try_from(*data.shape().at(time)?)?;
    let lens = required_input(inputs, 1)?.int_list()?;
    lens.iter().try_for_each(|len| check_len(*len, size))?;
    let lens: Vec<isize> = lens.into_iter().map(isize::try_from).collect::<std::result::Result<_, _>>()?;
    Ok(vec![move_elements!(data, elements => reverse(elements, Axis(batch), &lens))])
}

fn reverse<T: Clone>(data: &ArrayD<T>, batch: Axis, lens: &[isize]) -> ArrayD<T> {
    let mut result = data.clone();
    let sequences = result.axis_iter_mut(batch).zip(data.axis_iter(batch));
    for ((mut to, from), len) in sequences.zip(lens) {
        // Without the batch axis, the time axis is the first.
        let begin = Slice::from(..*len);
        let mut reversed = from.slice_axis(Axis(0), begin);
        reversed.invert_axis(Axis(0));
        to.slice_axis_mut(Axis(0), begin).assign(&reversed);
    }
    result
}

/// Emits a matrix for each sequence: row `t` has its 1 at the index of element `t`.
fn expand_reverse(expand: &mut Expand) -> Result<bool> {
    let sizes = expand.sizes(0)?;
    let first = time_is_first(expand)?;
    let (time, batch) = if first { (0, 1) } else { (1, 0) };
    let (time, batch) = (*sizes.at(time)?, *sizes.at(batch)?);
    if expand.constant(1).is_some() && batch <= MAX_SEQUENCES {
        return Ok(false);
    }
    let rest: i64 = sizes.iter().skip(2).product();
    let lens = expand.operand(1)?;
    let to = Attribute::Int(DType::I64.to_onnx().into());
    let column = expand.ints(&[batch, 1])?;
    let lens = expand.op("Reshape", &[lens, column], &[])?;
    let lens = expand.op("Cast", &[lens], &[("to", to)])?;
    let ramp = expand.ints(&(0..time).collect::<Vec<_>>())?;
    let (one, depth) = (expand.ints(&[1])?, expand.ints(&[time])?);
    let last = expand.op("Sub", &[lens, one], &[])?;
    let mirrored = expand.op("Sub", &[last, ramp], &[])?;
    let within = expand.op("Less", &[ramp, lens], &[])?;
    let source = expand.op("Where", &[within, mirrored, ramp], &[])?;
    let dtype = expand.dtype(0)?;
    let values =
        expand.literal(&Array::i64(ndarray::Array1::from_vec(vec![0, 1]).into_dyn()).cast(dtype)?)?;
    let matrix = expand.op("OneHot", &[source, depth, values], &[])?;
    let swap = || [("perm", Attribute::Ints(vec![1, 0, 2]))];
    let mut data = expand.operand(0)?;
    let form = expand.ints(&if first { [time, batch, rest] } else { [batch, time, rest] })?;
    data = expand.op("Reshape", &[data, form], &[])?;
    if first {
        data = expand.op("Transpose", &[data], &swap())?;
    }
    let mut reversed = expand.op("MatMul", &[matrix, data], &[])?;
    if first {
        reversed = expand.op("Transpose", &[reversed], &swap())?;
    }
    let shape = expand.ints(&sizes)?;
    let reversed = expand.op("Reshape", &[reversed, shape], &[])?;
    expand.output(0, reversed)?;
    Ok(true)
}

fn lower_reverse(lower: &mut Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let sizes = lower.sizes(0)?;
    let (time, batch) = if time_is_first(lower)? { (0, 1) } else { (1, 0) };
    let size = *sizes.at(time)?;
    let lens = lower.int_list(1)?;
    let whole = lower.blob(0)?;
    if let Some(len) = lens.first().filter(|first| lens.iter().all(|len| len == *first)) {
        let (alone, place) = lower.alone(whole, &shape, time)?;
        let reversed = lower.gather(alone, place, &places(*len, size)?)?;
        return lower.set(0, reversed);
    }
    let rest = Dim::Known(sizes.iter().skip(2).product());
    let mut one = shape.clone();
    if let Some(slot) = one.get_mut(batch) {
        *slot = Dim::Known(1);
    }
    let mut sequences = Vec::with_capacity(lens.len());
    for (number, len) in lens.iter().enumerate() {
        let number = i32::try_from(number)?;
        let (alone, place) = lower.alone(whole, &shape, batch)?;
        let sequence = lower.crop(alone, place, number, number + 1, &Dim::Known(1))?;
        let (alone, place) = lower.alone(sequence, &one, time)?;
        let reversed = lower.gather(alone, place, &places(*len, size)?)?;
        let form = [one.at(0)?.clone(), one.at(1)?.clone(), rest.clone()];
        sequences.push(lower.reshape(reversed, &form)?);
    }
    let top = lower.concat(&sequences, batch)?;
    lower.set(0, top)
}
