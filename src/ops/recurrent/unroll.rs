//! Expansion of recurrent nodes without a layer: into a node for each sequence, or into unrolled steps.

use super::length::{Masks, masked};
use super::step::{Constants, Direction, State, emit_step};
use super::{Cell, Recurrent, Sizes, input, is_native, is_zero, read_recurrent, sizes};
use crate::error::{At, Error, Result, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::Tensor;

/// The maximum number of unrolled steps of all directions: each becomes about ten layers.
const MAX_UNROLLED_STEPS: i64 = 512;

/// The maximum number of sequences with a layer each.
const MAX_SEQUENCES: i64 = 256;

/// The maximum size in bytes of weights repeated for the layers of further sequences.
const MAX_REPEATED_BYTES: u64 = 1 << 25;

pub(super) fn expand_recurrent(expand: &mut Expand) -> Result<bool> {
    let recurrent = read_recurrent(expand)?;
    let sizes = sizes(expand, &recurrent)?;
    let native = is_native(expand, &recurrent, &sizes)?;
    if native && sizes.batch.is(1) {
        return Ok(false);
    }
    let Some(batch) = sizes.batch.known() else {
        return Err(Error::unsupported("the number of sequences is known only at run time")
            .help("fix it with --input-shape"));
    };
    if native && batch <= MAX_SEQUENCES && repeated_bytes(expand, batch)? <= MAX_REPEATED_BYTES {
        split_batch(expand, &recurrent, batch)?;
        return Ok(true);
    }
    let steps = sizes.steps.known();
    match steps.map(|steps| steps.saturating_mul(if recurrent.reverse.len() == 2 { 2 } else { 1 })) {
        Some(steps) if (1..=MAX_UNROLLED_STEPS).contains(&steps) => {}
        Some(steps) => unsupported!(
            "ncnn's {} differs, and {steps} steps are too many to unroll (at most {MAX_UNROLLED_STEPS})",
            expand.op_type()
        ),
        None => {
            let message = format!(
                "ncnn's {} differs, and the number of steps is known only at run time",
                expand.op_type()
            );
            return Err(Error::unsupported(message).help("fix it with --input-shape"));
        }
    }
    unroll(expand, &recurrent, &sizes, batch)?;
    Ok(true)
}

/// Returns the size in bytes of the weights repeated for each sequence after the first.
fn repeated_bytes(expand: &Expand, batch: i64) -> Result<u64> {
    let count =
        [input::W, input::R].iter().filter_map(|i| expand.constant(*i)).map(Tensor::len).sum::<usize>();
    Ok(u64::try_from(count)?.saturating_mul(4).saturating_mul(u64::try_from(batch.max(1) - 1)?))
}

/// Emits the same node for each sequence.
fn split_batch(expand: &mut Expand, recurrent: &Recurrent, batch: i64) -> Result<()> {
    let (x_axis, state_axis, y_axis) = if recurrent.batch_first { (0, 0, 0) } else { (1, 1, 2) };
    let count = usize::try_from(batch)?;
    let x = expand.operand(input::X)?;
    let x = split(expand, x, x_axis, count)?;
    let mut states = Vec::new();
    for index in [input::INITIAL_H, input::INITIAL_C] {
        states.push(if expand.has_input(index) {
            let state = expand.operand(index)?;
            Some(split(expand, state, state_axis, count)?)
        } else {
            None
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
    let mut results: Vec<Vec<Operand>> = vec![Vec::new(); outputs];
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
        for (list, output) in results.iter_mut().zip(expand.op_n(name, &inputs, &attributes, outputs)?) {
            list.push(output);
        }
    }
    for (index, list) in results.into_iter().enumerate() {
        if expand.has_output(index) {
            let axis = if index == 0 { y_axis } else { state_axis };
            let whole = expand.op("Concat", &list, &[("axis", Attribute::Int(axis))])?;
            expand.output(index, whole)?;
        }
    }
    Ok(())
}

/// Splits an axis into parts of size 1.
fn split(expand: &mut Expand, x: Operand, axis: i64, count: usize) -> Result<Vec<Operand>> {
    if count == 1 {
        return Ok(vec![x]);
    }
    let sizes = expand.ints(&vec![1; count])?;
    expand.op_n("Split", &[Some(x), Some(sizes)], &[("axis", Attribute::Int(axis))], count)
}

/// Unrolls all steps.
fn unroll(expand: &mut Expand, recurrent: &Recurrent, sizes: &Sizes, batch: i64) -> Result<()> {
    let (Some(steps), Some(width)) = (sizes.steps.known(), sizes.input.known()) else {
        unsupported!("the sizes of X are known only at run time");
    };
    let hidden = sizes.hidden;
    let masks = Masks::new(expand, &sizes.steps, batch)?;
    let x = steps_first(expand, recurrent, input::X)?;
    let mut initial = Vec::new();
    for index in [input::INITIAL_H, input::INITIAL_C] {
        let zero = is_zero(expand, index)?;
        initial.push(if zero { None } else { Some(steps_first(expand, recurrent, index)?) });
    }
    // The states of empty sequences end as zeros in onnxruntime, regardless of their initial values.
    let nonempty = if initial.iter().any(Option::is_some) { masks.at(expand, 0)? } else { None };
    let mut y = Vec::new();
    let mut last: Vec<Vec<Operand>> = vec![Vec::new(); 2];
    for (index, reverse) in recurrent.reverse.iter().enumerate() {
        let constants = Constants::new(expand, recurrent, index, hidden, width)?;
        let projected = constants.project(expand, x)?;
        let parts = split(expand, projected, 0, usize::try_from(steps)?)?;
        let mut state = State::default();
        for (slot, operand) in [&mut state.h, &mut state.c].into_iter().zip(&initial) {
            if let Some(operand) = operand {
                *slot = Some(direction_of(expand, *operand, index, &[batch, hidden])?);
                if let Some(nonempty) = nonempty {
                    *slot = masked(expand, nonempty, None, *slot)?;
                }
            }
        }
        let direction = Direction {
            recurrent,
            activations: recurrent.activations.at(index)?,
            hidden,
            batch,
            reverse: *reverse,
        };
        let outputs = run(expand, &direction, &constants, &masks, parts, &mut state)?;
        if expand.has_output(0) {
            let whole = concat(expand, &outputs, 0)?;
            y.push(expand.reshape(whole, &[steps, 1, batch, hidden])?);
        }
        for (list, state) in last.iter_mut().zip([state.h, state.c]) {
            if let Some(state) = state {
                list.push(expand.reshape(state, &[1, batch, hidden])?);
            }
        }
    }
    finish(expand, recurrent, &y, &last)
}

/// Emits all steps of a direction from their projections `parts`. Returns the outputs, first step first.
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
        let part = expand.reshape(part, &[direction.batch, constants.rows])?;
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

/// Concatenates the directions, transposes them to the layout, and sets the outputs.
fn finish(expand: &mut Expand, recurrent: &Recurrent, y: &[Operand], last: &[Vec<Operand>]) -> Result<()> {
    if expand.has_output(0) {
        let mut whole = concat(expand, y, 1)?;
        if recurrent.batch_first {
            whole = expand.transpose(whole, &[2, 0, 1, 3])?;
        }
        expand.output(0, whole)?;
    }
    for (index, list) in last.iter().enumerate() {
        if expand.has_output(index + 1) {
            let mut whole = concat(expand, list, 0)?;
            if recurrent.batch_first {
                whole = expand.transpose(whole, &[1, 0, 2])?;
            }
            expand.output(index + 1, whole)?;
        }
    }
    Ok(())
}

/// Returns input `index` in layout 0, with the batch as its second axis.
fn steps_first(expand: &mut Expand, recurrent: &Recurrent, index: usize) -> Result<Operand> {
    let x = expand.operand(index)?;
    if recurrent.batch_first { expand.transpose(x, &[1, 0, 2]) } else { Ok(x) }
}

/// Emits element `index` of the first axis of `x`, reshaped to `shape`.
pub(super) fn direction_of(expand: &mut Expand, x: Operand, index: usize, shape: &[i64]) -> Result<Operand> {
    let index = i64::try_from(index)?;
    let part = slice(expand, x, 0, index, index + 1)?;
    expand.reshape(part, shape)
}

/// Emits the slice `start..end` of an axis.
pub(super) fn slice(expand: &mut Expand, x: Operand, axis: i64, start: i64, end: i64) -> Result<Operand> {
    let bounds = [expand.ints(&[start])?, expand.ints(&[end])?, expand.ints(&[axis])?];
    expand.op("Slice", &[[x].as_slice(), &bounds].concat(), &[])
}

/// Concatenates along an axis; a single part is returned as it is.
fn concat(expand: &mut Expand, parts: &[Operand], axis: i64) -> Result<Operand> {
    match parts {
        [one] => Ok(*one),
        _ => expand.op("Concat", parts, &[("axis", Attribute::Int(axis))]),
    }
}
