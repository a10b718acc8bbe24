//! Expansion of recurrent nodes without a layer: into a node for each sequence, or into unrolled steps.

use super::choice::are_steps_faster;
use super::join::{can_join, join};
use super::length::{Lengths, Masks, masked, read_lengths};
use super::node::{Cell, Recurrent, Sizes, input, is_zero, lacking, read_recurrent, sizes};
use super::step::{Constants, Direction, State};
use crate::graph::{Attribute, pairs};
use crate::ops::prelude::*;

/// The maximum number of unrolled steps of all directions: each becomes about ten layers.
const MAX_UNROLLED_STEPS: i64 = 512;

/// The number of steps from which on they are stored in blocks.
const BLOCKED_STEPS: usize = 96;

/// The maximum number of sequences with a layer each.
const MAX_SEQUENCES: i64 = 256;

/// The maximum size in bytes of weights repeated for the layers of further sequences.
const MAX_REPEATED_BYTES: u64 = 1 << 25;

pub(super) fn expand_recurrent(expand: &Expand, cell: Cell) -> Result<bool> {
    let recurrent = read_recurrent(expand, cell)?;
    let sizes = sizes(expand, &recurrent)?;
    let lacks = lacking(expand, &recurrent)?;
    let native = lacks.is_none();
    let directions = recurrent.reverse.len().int();
    let steps = sizes.steps.known().map(|steps| steps.saturating_mul(directions));
    let is_whole = matches!(read_lengths(expand, &sizes.steps), Lengths::All);
    if native && sizes.batch.is(1) && is_whole {
        return Ok(false);
    }
    // Steps of RNN are faster where their number is known.
    let may_join = cell != Cell::Rnn || sizes.batch.is(1) || steps.is_none() && sizes.batch.known().is_none();
    let joined = may_join && can_join(expand, &recurrent, sizes.batch.is(1))?;
    let has_layer = native && (joined || sizes.batch.known().is_some());
    let is_layer = has_layer && !are_steps_faster(expand, &recurrent, &sizes, joined)?;
    if is_layer && joined {
        join(expand, &recurrent, &sizes)?;
        return Ok(true);
    }
    if let Some(batch) = sizes.batch.known() {
        let fits = is_layer && batch > 1 && (is_whole || can_join(expand, &recurrent, true)?);
        if fits && batch <= MAX_SEQUENCES && repeated_bytes(expand, batch)? <= MAX_REPEATED_BYTES {
            split_batch(expand, &recurrent, batch)?;
            return Ok(true);
        }
    }
    let several = match cell {
        Cell::Lstm => "states of several sequences, but for final hidden ones",
        Cell::Gru | Cell::Rnn => "initial states of several sequences",
    };
    let (op_type, lacks) = (expand.op_type(), lacks.unwrap_or(several));
    match steps {
        Some(steps) if (1..=MAX_UNROLLED_STEPS).contains(&steps) => {}
        Some(steps) => unsupported!(
            "ncnn's {op_type} lacks {lacks}, and {steps} steps are too many to unroll (at most {MAX_UNROLLED_STEPS})"
        ),
        None => {
            unsupported!("ncnn's {op_type} lacks {lacks}, and the number of steps is known only at run time");
        }
    }
    unroll(expand, &recurrent, &sizes)?;
    Ok(true)
}

/// Returns the size in bytes of the weights repeated for each sequence after the first.
fn repeated_bytes(expand: &Expand, batch: i64) -> Result<u64> {
    let count =
        [input::W, input::R].iter().filter_map(|i| expand.constant(*i)).map(Tensor::len).sum::<usize>();
    Ok(u64::try_from(count)?.saturating_mul(4).saturating_mul(u64::try_from(batch.max(1) - 1)?))
}

/// Emits the same node for each sequence.
fn split_batch(expand: &Expand, recurrent: &Recurrent, batch: i64) -> Result<()> {
    let (x_axis, state_axis, y_axis) = if recurrent.batch_first { (0, 0, 0) } else { (1, 1, 2) };
    let ones = vec![1; usize::try_from(batch)?];
    let x = expand.operand(input::X).split_list(x_axis, &ones);
    let states = [input::INITIAL_H, input::INITIAL_C]
        .map(|index| expand.optional(index).map(|state| state.split_list(state_axis, &ones)));
    let lengths = expand.optional(input::SEQUENCE_LENS).map(|lengths| lengths.split_list(0, &ones));
    let attributes: Vec<(&str, Attribute)> =
        pairs(&expand.node().attributes).filter(|(name, _)| *name != "output_sequence").collect();
    let outputs = if recurrent.cell == Cell::Lstm { 3 } else { 2 };
    let mut results: Vec<Vec<Expr>> = vec![Vec::new(); outputs];
    let weights = [input::W, input::R, input::B].map(|index| expand.optional(index));
    for (i, x) in x.into_iter().enumerate() {
        let mut inputs = vec![Some(x)];
        inputs.extend(weights);
        inputs.push(lengths.as_ref().and_then(|lengths| lengths.get(i).copied()));
        inputs.extend(states.iter().map(|state| state.as_ref().and_then(|state| state.get(i).copied())));
        let y = expand.make.op(recurrent.cell.name(), inputs, attributes.iter().cloned());
        for (list, output) in results.iter_mut().zip(y.outputs(0..outputs)) {
            list.push(output);
        }
    }
    for (index, list) in results.into_iter().enumerate() {
        if expand.has_output(index) {
            let axis = if index == 0 { y_axis } else { state_axis };
            expand.output(index, expand.make.concat(&list, axis));
        }
    }
    Ok(())
}

/// Returns so many equal parts along the first axis, whose size may be free.
fn equal_parts<'x>(expand: &'x Expand, value: Expr<'x>, count: usize) -> Vec<Expr<'x>> {
    if count == 1 {
        return vec![value];
    }
    expand.make.op("Split", [value], [("axis", 0_i64.into())]).outputs(0..count)
}

/// Unrolls all steps.
fn unroll(expand: &Expand, recurrent: &Recurrent, sizes: &Sizes) -> Result<()> {
    let (Some(steps), Some(width)) = (sizes.steps.known(), sizes.input.known()) else {
        unsupported!("the sizes of X are known only at run time");
    };
    let hidden = sizes.hidden;
    // A Reshape infers a free number of sequences.
    let batch = sizes.batch.known().unwrap_or(-1);
    // One sequence has vectors, which products take as they are.
    let leading = if batch == 1 { Vec::new() } else { vec![batch] };
    let shape = |size: i64| -> Vec<i64> { leading.iter().copied().chain([size]).collect() };
    let masks = Masks::new(expand, &sizes.steps, &shape(1))?;
    // Matrices, as the products over them are, so no step has to reshape.
    let x = steps_first(expand, recurrent, input::X).reshape(&[-1, width]);
    let mut initial = Vec::new();
    for index in [input::INITIAL_H, input::INITIAL_C] {
        let zero = is_zero(expand, index)?;
        initial.push((!zero).then(|| steps_first(expand, recurrent, index)));
    }
    // The states of empty sequences end as zeros in onnxruntime, regardless of their initial values.
    let nonempty = if initial.iter().any(Option::is_some) { masks.at(0) } else { None };
    let count = usize::try_from(steps)?;
    let block = steps_of_block(count);
    let mut y = Vec::new();
    let mut last: Vec<Vec<Expr>> = vec![Vec::new(); 2];
    for (index, reverse) in recurrent.reverse.iter().enumerate() {
        let constants = Constants::new(expand, recurrent, index, [batch, width, hidden])?;
        let projection = constants.project(x);
        let activations = recurrent.activations.at(index)?;
        let direction =
            Direction { recurrent, activations, constants, hidden, is_row: batch == 1, reverse: *reverse };
        let widths = direction.widths();
        let parts = if batch == 1 {
            let blocks = equal_parts(expand, projection.reshape(&[-1]), count / block);
            let steps = blocks.into_iter().flat_map(|rows| rows.split_list(0, &widths.repeat(block)));
            steps.collect::<Vec<_>>().chunks(widths.len()).map(<[Expr]>::to_vec).collect()
        } else {
            let blocks = equal_parts(expand, projection, count / block);
            let steps = blocks.into_iter().flat_map(|rows| equal_parts(expand, rows, block));
            steps.map(|row| row.split_list(-1, &widths)).collect()
        };
        let mut state = State::default();
        for (slot, operand) in [&mut state.h, &mut state.c].into_iter().zip(&initial) {
            if let Some(operand) = operand {
                *slot = Some(direction_of(*operand, index, &shape(hidden))?);
                if let Some(nonempty) = nonempty {
                    *slot = masked(nonempty, None, *slot);
                }
            }
        }
        let outputs = run(&direction, &masks, parts, &mut state)?;
        if expand.has_output(0) {
            let blocks: Vec<Expr> =
                outputs.chunks(block).map(|outputs| expand.make.concat(outputs, 0)).collect();
            y.push(expand.make.concat(&blocks, 0).reshape(&[steps, 1, batch, hidden]));
        }
        for (list, state) in last.iter_mut().zip([state.h, state.c]) {
            list.extend(state.map(|state| state.reshape(&[1, batch, hidden])));
        }
    }
    finish(expand, recurrent, &y, &last);
    Ok(())
}

/// Returns how many steps are taken from a blob, and joined to one, at once. The runtime searches all its
/// blobs for each one that it frees, so many steps are stored in blocks: as many as divide them, since
/// all have one size.
fn steps_of_block(steps: usize) -> usize {
    let divisor = || (2..=steps.isqrt()).rev().find(|divisor| steps.is_multiple_of(*divisor));
    if steps < BLOCKED_STEPS { steps } else { divisor().unwrap_or(steps) }
}

/// Emits all steps of a direction from their parts of the projection. Returns the outputs, first step first.
fn run<'x>(
    direction: &Direction<'_, 'x>,
    masks: &Masks<'x>,
    parts: Vec<Vec<Expr<'x>>>,
    state: &mut State<'x>,
) -> Result<Vec<Expr<'x>>> {
    let mut parts: Vec<(usize, Vec<Expr>)> = parts.into_iter().enumerate().collect();
    if direction.reverse {
        parts.reverse();
    }
    let mut outputs = Vec::with_capacity(parts.len());
    for (step, part) in parts {
        let before = state.clone();
        direction.step(&part, state)?;
        let mut output = state.h;
        if let Some(mask) = masks.at(step.int()) {
            output = masked(mask, None, output);
            state.h = masked(mask, before.h, state.h);
            state.c = masked(mask, before.c, state.c);
        }
        outputs.extend(output);
    }
    if direction.reverse {
        outputs.reverse();
    }
    Ok(outputs)
}

/// Concatenates the directions, transposes them to the layout, and sets the outputs.
fn finish<'x>(expand: &'x Expand, recurrent: &Recurrent, y: &[Expr<'x>], last: &[Vec<Expr<'x>>]) {
    let set = |index: usize, parts: &[Expr<'x>], axis: i64, perm: &[usize]| {
        if expand.has_output(index) {
            let whole = expand.make.concat(parts, axis);
            expand.output(index, if recurrent.batch_first { whole.transpose(perm) } else { whole });
        }
    };
    set(0, y, 1, &[2, 0, 1, 3]);
    for (index, parts) in last.iter().enumerate() {
        set(index + 1, parts, 0, &[1, 0, 2]);
    }
}

/// Returns input `index` in layout 0, with the batch as its second axis.
fn steps_first<'x>(expand: &'x Expand, recurrent: &Recurrent, index: usize) -> Expr<'x> {
    let x = expand.operand(index);
    if recurrent.batch_first { x.transpose(&[1, 0, 2]) } else { x }
}

/// Returns element `index` of the first axis of `x`, reshaped to `shape`.
pub(super) fn direction_of<'x>(x: Expr<'x>, index: usize, shape: &[i64]) -> Result<Expr<'x>> {
    let index = index.int();
    Ok(x.slice(0, index, index + 1).reshape(shape))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_of_steps_are_equal() {
        assert_eq!([5, 95, 101].map(steps_of_block), [5, 95, 101]);
        assert_eq!([96, 128, 150, 250].map(steps_of_block), [8, 8, 10, 10]);
    }
}
