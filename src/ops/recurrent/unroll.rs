//! What ncnn's layers do not compute: several sequences, and cells of which each step becomes nodes of its own.

use super::length::{Masks, masked};
use super::step::{Constants, Direction, State, emit_step};
use super::{Cell, Recurrent, Sizes, activations_of, input, is_native, is_zero, read_recurrent, sizes};
use crate::error::{Error, Result, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::Tensor;

/// Most steps, of all directions together, that become nodes: each takes about ten layers.
const MAX_UNROLLED_STEPS: i64 = 512;

/// Most sequences that have a layer each.
const MAX_SEQUENCES: i64 = 256;

/// Most bytes of weights that are written again so that each sequence has a layer of its own.
const MAX_REPEATED_BYTES: u64 = 1 << 25;

pub(super) fn expand_recurrent(expand: &mut Expand) -> Result<bool> {
    let recurrent = read_recurrent(expand)?;
    let sizes = sizes(expand, &recurrent)?;
    let native = is_native(expand, &recurrent, &sizes)?;
    if native && sizes.batch.is(1) {
        return Ok(false);
    }
    let Some(batch) = sizes.batch.known() else {
        return Err(
            Error::unsupported("a number of sequences that is not fixed").help("fix it with --input-shape")
        );
    };
    if native && batch <= MAX_SEQUENCES && repeated_bytes(expand, batch)? <= MAX_REPEATED_BYTES {
        split_batch(expand, &recurrent, batch)?;
        return Ok(true);
    }
    let steps = sizes.steps.known();
    match steps.map(|steps| steps.saturating_mul(if recurrent.reverse.len() == 2 { 2 } else { 1 })) {
        Some(steps) if (1..=MAX_UNROLLED_STEPS).contains(&steps) => {}
        Some(steps) => unsupported!(
            "ncnn's {} is another one, and {steps} steps are too many to write one by one (at most {MAX_UNROLLED_STEPS})",
            expand.op_type()
        ),
        None => {
            let message =
                format!("ncnn's {} is another one, and the number of steps is not fixed", expand.op_type());
            return Err(Error::unsupported(message).help("fix it with --input-shape"));
        }
    }
    unroll(expand, &recurrent, &sizes, batch)?;
    Ok(true)
}

/// Bytes of the weights that stand in the model again for each sequence after the first.
fn repeated_bytes(expand: &Expand, batch: i64) -> Result<u64> {
    let count =
        [input::W, input::R].iter().filter_map(|i| expand.constant(*i)).map(Tensor::len).sum::<usize>();
    Ok(u64::try_from(count)?.saturating_mul(4).saturating_mul(u64::try_from(batch.max(1) - 1)?))
}

/// A node of the same kind for each sequence.
fn split_batch(expand: &mut Expand, recurrent: &Recurrent, batch: i64) -> Result<()> {
    let (x_axis, state_axis, y_axis) = if recurrent.batch_first { (0, 0, 0) } else { (1, 1, 2) };
    let count = usize::try_from(batch)?;
    let x = expand.operand(input::X)?;
    let x = split(expand, x, x_axis, count)?;
    let mut states = Vec::new();
    for place in [input::INITIAL_H, input::INITIAL_C] {
        states.push(match expand.has_input(place) {
            true => {
                let state = expand.operand(place)?;
                Some(split(expand, state, state_axis, count)?)
            }
            false => None,
        });
    }
    let name = match recurrent.cell {
        Cell::Gru => "GRU",
        Cell::Lstm => "LSTM",
        Cell::Rnn => "RNN",
    };
    let node_attributes = expand.node().attributes.clone();
    let attributes: Vec<(&str, Attribute)> = node_attributes
        .iter()
        .filter(|(name, _)| name.as_str() != "output_sequence")
        .map(|(name, attribute)| (name.as_str(), attribute.clone()))
        .collect();
    let outputs = if recurrent.cell == Cell::Lstm { 3 } else { 2 };
    let mut made: Vec<Vec<Operand>> = vec![Vec::new(); outputs];
    let (w, r) = (expand.operand(input::W)?, expand.operand(input::R)?);
    let b = expand.operand(input::B).ok();
    for (i, x) in x.into_iter().enumerate() {
        let mut inputs = vec![Some(x), Some(w), Some(r), b, None];
        for state in &states {
            inputs.push(state.as_ref().and_then(|state| state.get(i).copied()));
        }
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        for (list, output) in made.iter_mut().zip(expand.op_n(name, &inputs, &attributes, outputs)?) {
            list.push(output);
        }
    }
    for (index, list) in made.into_iter().enumerate() {
        if expand.has_output(index) {
            let axis = if index == 0 { y_axis } else { state_axis };
            let whole = expand.op("Concat", &list, &[("axis", Attribute::Int(axis))])?;
            expand.output(index, whole)?;
        }
    }
    Ok(())
}

/// Slices of size 1 along an axis.
fn split(expand: &mut Expand, x: Operand, axis: i64, count: usize) -> Result<Vec<Operand>> {
    if count == 1 {
        return Ok(vec![x]);
    }
    let sizes = expand.ints(&vec![1; count])?;
    expand.op_n("Split", &[Some(x), Some(sizes)], &[("axis", Attribute::Int(axis))], count)
}

/// Every step as nodes of its own.
fn unroll(expand: &mut Expand, recurrent: &Recurrent, sizes: &Sizes, batch: i64) -> Result<()> {
    let (Some(steps), Some(width)) = (sizes.steps.known(), sizes.input.known()) else {
        unsupported!("sizes of X that are not fixed");
    };
    let hidden = sizes.hidden;
    let masks = Masks::new(expand, &sizes.steps, batch)?;
    let x = first_axis_second(expand, input::X, recurrent.batch_first)?;
    let mut initial = Vec::new();
    for place in [input::INITIAL_H, input::INITIAL_C] {
        initial.push(match is_zero(expand, place)? {
            true => None,
            false => Some(first_axis_second(expand, place, recurrent.batch_first)?),
        });
    }
    // Sequences without a step end with zeros in onnxruntime, whatever they begin with.
    let begins = if initial.iter().any(Option::is_some) { masks.at(expand, 0)? } else { None };
    let mut y = Vec::new();
    let mut last: Vec<Vec<Operand>> = vec![Vec::new(); 2];
    for (number, reverse) in recurrent.reverse.iter().enumerate() {
        let constants = Constants::new(expand, recurrent, number, hidden, width)?;
        let projected = constants.project(expand, x)?;
        let parts = split(expand, projected, 0, usize::try_from(steps)?)?;
        let mut state = State::default();
        for (slot, place) in [&mut state.h, &mut state.c].into_iter().zip(&initial) {
            if let Some(place) = place {
                *slot = Some(direction_of(expand, *place, number, [batch, hidden])?);
                if let Some(begins) = begins {
                    *slot = masked(expand, begins, None, *slot)?;
                }
            }
        }
        let direction = Direction {
            cell: recurrent.cell,
            activations: activations_of(recurrent, number)?,
            clip: recurrent.clip,
            input_forget: recurrent.input_forget,
            hidden,
            batch,
            reverse: *reverse,
        };
        let outputs = run(expand, &direction, &constants, &masks, parts, &mut state)?;
        if expand.has_output(0) {
            let whole = concat(expand, &outputs, 0)?;
            y.push(reshape(expand, whole, &[steps, 1, batch, hidden])?);
        }
        for (list, state) in last.iter_mut().zip([state.h, state.c]) {
            if let Some(state) = state {
                list.push(reshape(expand, state, &[1, batch, hidden])?);
            }
        }
    }
    finish(expand, recurrent, &y, &last)
}

/// All steps of a direction, of which `parts` are the projections: the output of each, in the order of the steps.
fn run(
    expand: &mut Expand,
    direction: &Direction,
    constants: &Constants,
    masks: &Masks,
    parts: Vec<Operand>,
    state: &mut State,
) -> Result<Vec<Operand>> {
    let mut parts: Vec<(usize, Operand)> = parts.into_iter().enumerate().collect();
    if direction.reverse {
        parts.reverse();
    }
    let mut outputs = Vec::with_capacity(parts.len());
    for (step, part) in parts {
        let part = reshape(expand, part, &[direction.batch, constants.rows])?;
        let before = state.clone();
        emit_step(expand, direction, constants, part, state)?;
        let mut output = state.h;
        if let Some(mask) = masks.at(expand, i64::try_from(step)?)? {
            output = masked(expand, mask, None, output)?;
            state.h = masked(expand, mask, before.h, state.h)?;
            state.c = masked(expand, mask, before.c, state.c)?;
        }
        outputs.extend(output);
    }
    if direction.reverse {
        outputs.reverse();
    }
    Ok(outputs)
}

/// Puts the directions together and the axes in the order of the layout.
fn finish(expand: &mut Expand, recurrent: &Recurrent, y: &[Operand], last: &[Vec<Operand>]) -> Result<()> {
    if expand.has_output(0) {
        let mut whole = concat(expand, y, 1)?;
        if recurrent.batch_first {
            whole = expand.op("Transpose", &[whole], &[("perm", Attribute::Ints(vec![2, 0, 1, 3]))])?;
        }
        expand.output(0, whole)?;
    }
    for (index, list) in last.iter().enumerate() {
        if expand.has_output(index + 1) {
            let mut whole = concat(expand, list, 0)?;
            if recurrent.batch_first {
                whole = expand.op("Transpose", &[whole], &[("perm", Attribute::Ints(vec![1, 0, 2]))])?;
            }
            expand.output(index + 1, whole)?;
        }
    }
    Ok(())
}

/// Input `index` with its first two axes swapped, where `swap`.
fn first_axis_second(expand: &mut Expand, index: usize, swap: bool) -> Result<Operand> {
    let x = expand.operand(index)?;
    match swap {
        true => expand.op("Transpose", &[x], &[("perm", Attribute::Ints(vec![1, 0, 2]))]),
        false => Ok(x),
    }
}

/// Element `number` of the first axis of `x`, seen with `shape`.
pub(super) fn direction_of<const N: usize>(
    expand: &mut Expand,
    x: Operand,
    number: usize,
    shape: [i64; N],
) -> Result<Operand> {
    let number = i64::try_from(number)?;
    let part = slice(expand, x, 0, number, number + 1)?;
    reshape(expand, part, &shape)
}

/// A run of an axis.
pub(super) fn slice(expand: &mut Expand, x: Operand, axis: i64, start: i64, end: i64) -> Result<Operand> {
    let bounds = [expand.ints(&[start])?, expand.ints(&[end])?, expand.ints(&[axis])?];
    expand.op("Slice", &[[x].as_slice(), &bounds].concat(), &[])
}

pub(super) fn reshape(expand: &mut Expand, x: Operand, shape: &[i64]) -> Result<Operand> {
    let shape = expand.ints(shape)?;
    expand.op("Reshape", &[x, shape], &[])
}

fn concat(expand: &mut Expand, parts: &[Operand], axis: i64) -> Result<Operand> {
    match parts {
        [one] => Ok(*one),
        _ => expand.op("Concat", parts, &[("axis", Attribute::Int(axis))]),
    }
}
