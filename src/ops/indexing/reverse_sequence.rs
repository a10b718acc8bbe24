//! ReverseSequence: reverses the first elements of each sequence of a batch.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__ReverseSequence.html>.

use super::one_hot::pick;
use crate::op::{ElementSum, Move, Moved};
use crate::ops::prelude::*;
use crate::tensor::Span;

pub(in crate::ops) const OPS: &[Row] = &[Row::moving("", "ReverseSequence", Access::Any, reversed)
    .infer(infer_reverse)
    .expand(expand_reverse)
    .tolerates_rounding(|_, _| true)
    .lowers_to("Crop, Slice, Concat for constant lengths; else MatMul with a matrix of zeros and ones")];

/// The maximum number of sequences that are reversed one after the other.
const MAX_SEQUENCES: i64 = 32;

/// Returns the time axis and the batch axis.
fn read_axes(call: &Call) -> Result<(usize, usize)> {
    match (call.int("time_axis")?, call.int("batch_axis")?) {
        (0, 1) => Ok((0, 1)),
        (1, 0) => Ok((1, 0)),
        (time, batch) => invalid!("time axis {time} and batch axis {batch} are not 0 and 1"),
    }
}

fn infer_reverse(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let (_, batch) = read_axes(call)?;
    let (true, Some(sequences)) = (shape.len() >= 2, shape.get(batch)) else {
        invalid!("the input {} has no time and batch axes", display_shape(shape));
    };
    call.check_shape(1, std::slice::from_ref(sequences))?;
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

/// Returns the step that reverses the first `len` of `size` elements.
fn reversal(axis: usize, len: i64, size: i64) -> Result<Move> {
    if !(0..=size).contains(&len) {
        invalid!("sequence length {len} is out of range for a time axis of size {size}");
    }
    Ok(Move::Pick { axis, indices: (0..len).rev().chain(len..size).collect() })
}

/// The lengths are constant.
fn reversed(call: &Call) -> Result<Vec<Moved>> {
    let (time, batch) = read_axes(call)?;
    let size = call.shape(0)?.at(time)?;
    let size = size.known().ok_or_else(|| Error::unsupported(format!("the time axis of size {size}")))?;
    let lens = call.int_list(1)?;
    if let Some(len) = lens.first().filter(|first| lens.iter().all(|len| len == *first)) {
        return Ok(vec![Moved::by([reversal(time, *len, size)?])]);
    }
    let sequence = |(index, len): (i64, &i64)| {
        let one = Move::Take { axis: batch, span: Span::of(index, 1) };
        Ok(Moved::by([one, reversal(time, *len, size)?]))
    };
    Ok(vec![Moved::Join((0..).zip(&lens).map(sequence).collect::<Result<_>>()?, batch)])
}

/// Returns the lengths of all sequences: each of them, or one that is expanded to their free number.
fn known_lens(expand: &Expand) -> Option<Vec<Dim>> {
    expand.dims(1).ok().or_else(|| {
        let graph = expand.graph();
        let node = graph.producer(expand.node().input(1)?).filter(|node| node.is("Expand"))?;
        let len = node.input(0)?;
        let is_one = graph.value(len).shape.as_deref()?.iter().all(|size| size.is(1));
        let sum = ElementSum::of(graph, len, 0);
        (is_one && sum.computed.is_none()).then(|| vec![sum.size])
    })
}

/// Multiplies each sequence by a matrix: row `t` has its 1 at the source of element `t`.
fn expand_reverse(expand: &Expand) -> Result<bool> {
    let (time, batch) = read_axes(expand)?;
    let size = expand.shape(0)?.at(time)?;
    // Lengths are often computed from the shape of the data, so they are compared as sizes.
    if known_lens(expand).is_some_and(|lens| !lens.is_empty() && lens.iter().all(|len| len == size)) {
        expand.output(0, expand.operand(0).slice_by(time, -1, i64::MIN, -1));
        return Ok(true);
    }
    let sizes = expand.sizes(0)?;
    let time_first = time == 0;
    let (time, batch) = (*sizes.at(time)?, *sizes.at(batch)?);
    if expand.constant(1).is_some() && batch <= MAX_SEQUENCES {
        return Ok(false);
    }
    let rest: i64 = sizes.iter().skip(2).product();
    let lens = expand.operand(1).reshape(&[batch, 1]).cast(DType::I64);
    let ramp = expand.make.ints(&(0..time).collect::<Vec<_>>());
    let mirrored = lens - 1 - ramp;
    let source = ramp.less(lens).select(mirrored, ramp);
    let matrix = source.one_hot(time, -1, DType::F32);
    let form = if time_first { [time, batch, rest] } else { [batch, time, rest] };
    let data = swapped(expand.operand(0).reshape(&form), time_first);
    let reversed = pick(data, expand.dtype(0)?, |data| matrix.matmul(data));
    expand.output(0, swapped(reversed, time_first).reshape(&sizes));
    Ok(true)
}

/// Returns a value with its first two axes exchanged if `time_first` is true.
fn swapped(value: Expr, time_first: bool) -> Expr {
    if time_first { value.transpose(&[1, 0, 2]) } else { value }
}
