//! Several sequences, and sequences of other lengths than X, as one sequence of ncnn's layer.
//!
//! X gets a further element, which is 1 at the steps after the end of a sequence, and its weights close gates
//! there. One sequence keeps its state, so its final state is the final state of the layer. Of several
//! sequences each is followed by such a step, at which the state becomes 0, the state with which the next
//! sequence begins. No gate of RNN resets its state, which becomes -1; further elements, which are 1 at the
//! first steps of sequences, compensate for this state.

use super::length::{Lengths, read_lengths};
use super::node::{Cell, Recurrent, Sizes, input, is_zero};
use crate::graph::{Attribute, pairs};
use crate::ops::prelude::*;

/// A summand of a gate that closes it: the others are negligible next to it. Half precision represents it.
const CLOSING: f32 = 10_000.0;

/// The sequences during the expansion.
struct Joined<'x> {
    expand: &'x Expand<'x>,
    recurrent: &'x Recurrent,
    hidden: i64,
    /// Whether there is one sequence.
    single: bool,
    /// The length of each sequence, a column, if present.
    lengths: Option<Expr<'x>>,
    /// 1 after the end of a sequence, else 0: `[batch, steps, 1]`.
    ended: Expr<'x>,
    /// The positions of the steps.
    positions: Expr<'x>,
    /// For each direction, 1 at the steps after a state of -1, else 0: `[batch, steps, 1]`.
    firsts: Vec<Expr<'x>>,
}

/// Returns whether the layer can compute one sequence that ends before the last step, or several sequences.
pub(super) fn can_join(call: &Call, recurrent: &Recurrent, single: bool) -> Result<bool> {
    let has_state = !is_zero(call, input::INITIAL_H)? || !is_zero(call, input::INITIAL_C)?;
    Ok(match (single, recurrent.cell) {
        (true, Cell::Gru) => true,
        (true, _) => !has_state || recurrent.reverse == [false],
        (false, Cell::Gru | Cell::Rnn) => !has_state,
        (false, Cell::Lstm) => !has_state && !call.has_output(2),
    })
}

/// Expands the node to one of a single sequence, if it [can be one](can_join).
pub(super) fn join<'x>(expand: &'x Expand<'x>, recurrent: &Recurrent, sizes: &Sizes) -> Result<()> {
    let single = sizes.batch.is(1);
    let dtype = expand.dtype(input::X)?;
    let sequences = expand.operand(input::X);
    let x = if recurrent.batch_first { sequences } else { sequences.transpose(&[1, 0, 2]) };
    let steps = x.size(1);
    let count = if single { steps } else { steps + 1 };
    let positions = expand.make.range(expand.make.int(0).typed(DType::I64), count);
    let lengths = match read_lengths(expand, &sizes.steps) {
        Lengths::All => None,
        _ => Some(expand.operand(input::SEQUENCE_LENS).cast(DType::I64).reshape(&[-1, 1])),
    };
    let ends = lengths.unwrap_or_else(|| steps.reshape(&[1, 1]));
    let repeats = expand.make.concat(&[x.size(0).reshape(&[1]), expand.make.ints(&[1, 1])], 0);
    let of_all = lengths.is_none();
    let repeated = |row: Expr<'x>| if of_all { row.broadcast_to(repeats) } else { row };
    let ended = repeated(positions.greater_or_equal(ends).cast(dtype).unsqueeze(&[-1]));
    let resets = !single && recurrent.cell == Cell::Rnn;
    let first = |reverse: &bool| match reverse {
        true => repeated(positions.equal(ends - expand.make.int(1)).cast(dtype).unsqueeze(&[-1])),
        false => positions.reshape(&[1, -1, 1]).equal(expand.make.int(0)).cast(dtype).broadcast_to(repeats),
    };
    let firsts = recurrent.reverse.iter().filter(|_| resets).map(first).collect();
    let joined =
        Joined { expand, recurrent, hidden: sizes.hidden, single, lengths, ended, positions, firsts };
    let mut rows = x;
    if !single {
        let pads = expand.make.ints(&[0, 0, 0, 0, 1, 0]);
        rows = expand.make.op("Pad", [rows, pads], []);
    }
    if lengths.is_some() {
        rows = rows * (1.0 - ended);
    }
    let closing = joined.closing(dtype);
    let further = closing.iter().map(|_| ended).chain(joined.firsts.iter().copied());
    let parts: Vec<Expr> = [rows].into_iter().chain(further).collect();
    let width = width_of(expand)? + parts.len().int() - 1;
    let rows = expand.make.concat(&parts, 2).reshape(&[-1, 1, width]);
    let [y, h, c] = joined.layer(rows, closing, dtype);
    joined.set_outputs(x, y, h, c);
    Ok(())
}

/// Returns the number of elements of a step.
fn width_of(expand: &Expand) -> Result<i64> {
    let width = expand.required_constant(input::W)?.shape().last().copied().unwrap_or_default();
    Ok(width.int())
}

impl<'x> Joined<'x> {
    /// Emits the node of one sequence. Returns its outputs.
    fn layer(&self, rows: Expr<'x>, closing: Vec<Expr<'x>>, dtype: DType) -> [Expr<'x>; 3] {
        let (expand, recurrent) = (self.expand, self.recurrent);
        let mut weights = vec![expand.operand(input::W)];
        weights.extend(closing.into_iter().chain(self.resetting(dtype)));
        let w = expand.make.concat(&weights, 2);
        let state = |index: usize| {
            if index == input::INITIAL_H && !self.firsts.is_empty() {
                return Some(self.filled(-1.0, [1, self.hidden], dtype));
            }
            let state = expand.optional(index).filter(|_| self.single)?;
            Some(if recurrent.batch_first { state.transpose(&[1, 0, 2]) } else { state })
        };
        let (r, b) = (Some(expand.operand(input::R)), expand.optional(input::B));
        let inputs = [Some(rows), Some(w), r, b, None, state(input::INITIAL_H), state(input::INITIAL_C)];
        let attributes: Vec<(&str, Attribute)> = pairs(&expand.node().attributes)
            .filter(|(name, _)| !["output_sequence", "layout"].contains(name))
            .collect();
        let y = expand.make.op(recurrent.cell.name(), inputs, attributes);
        let h = y.output(1);
        [y, h, if recurrent.cell == Cell::Lstm { y.output(2) } else { h }]
    }

    /// Returns the weights of the further elements that are 1 after the end of a sequence, each
    /// `[directions, rows, 1]`.
    fn closing(&self, dtype: DType) -> Vec<Expr<'x>> {
        let (expand, hidden) = (self.expand, self.hidden);
        let filled = |number: f32| self.filled(number, [hidden, 1], dtype);
        // The bias of a gate: of W, which precedes R.
        let bias = |gate: i64| match expand.optional(input::B) {
            Some(bias) => bias.slice(1, gate * hidden, (gate + 1) * hidden).unsqueeze(&[-1]),
            None => filled(0.0),
        };
        let closed = filled(-CLOSING);
        let gates = match self.recurrent.cell {
            // Input and output are closed; the gate that forgets keeps the state.
            Cell::Lstm => {
                vec![closed, closed, filled(if self.single { CLOSING } else { -CLOSING }), filled(0.0)]
            }
            // The gate of updates keeps the state.
            Cell::Gru if self.single => vec![filled(CLOSING), filled(0.0), filled(0.0)],
            // The new state is the state after a step of zeros without biases.
            Cell::Gru => vec![closed, closed, -bias(2)],
            // So is a state of 0.
            Cell::Rnn if self.single => {
                let sum = -(bias(0) + bias(1));
                // A rest would grow from step to step. Both parts are exact in half precision.
                let rounded = sum.cast(DType::F16).to_type(dtype);
                return vec![rounded, sum - rounded];
            }
            Cell::Rnn => vec![closed],
        };
        vec![expand.make.concat(&gates, 1)]
    }

    /// Returns the weights of the elements that undo a state of -1: the sums of the factors of the state,
    /// each only for its direction.
    fn resetting(&self, dtype: DType) -> Vec<Expr<'x>> {
        let sums = self.expand.operand(input::R).reduce("ReduceSum", &[2], true);
        let of_direction = |direction: usize| {
            let selected = (0..self.firsts.len()).map(|other| if other == direction { 1.0 } else { 0.0 });
            let selected = ndarray::Array3::from_shape_vec((self.firsts.len(), 1, 1), selected.collect());
            selected.map_or(sums, |selected| {
                sums * self.expand.make.cast_literal(&Array::f32(selected.into_dyn()), dtype)
            })
        };
        (0..self.firsts.len()).map(of_direction).collect()
    }

    /// Returns the number in this shape for each direction.
    fn filled(&self, number: f32, shape: [i64; 2], dtype: DType) -> Expr<'x> {
        let directions = i64::try_from(self.recurrent.reverse.len()).unwrap_or(1);
        let number = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[1, 1, 1]), number));
        let [rows, columns] = shape;
        self.expand.make.cast_literal(&number, dtype).broadcast(&[directions, rows, columns])
    }

    /// Sets the outputs from the outputs of the layer; `x` has the sequences as its first axis.
    fn set_outputs(&self, x: Expr<'x>, y: Expr<'x>, h: Expr<'x>, c: Expr<'x>) {
        let (expand, make, cell) = (self.expand, &self.expand.make, self.recurrent.cell);
        let directions = i64::try_from(self.recurrent.reverse.len()).unwrap_or(1);
        let batch = x.size(0).reshape(&[1]);
        let shape = make.concat(&[batch, make.ints(&[-1, directions, self.hidden])], 0);
        let mut whole = y.reshape_to(shape);
        if !self.single {
            whole = whole.slice(1, 0, -1);
        }
        if !self.firsts.is_empty() && self.lengths.is_some() {
            whole = whole * (1.0 - self.ended.slice(1, 0, -1).unsqueeze(&[-1]));
        }
        if expand.has_output(0) {
            // The output gate of LSTM closes, and further steps of several sequences are 0.
            let masked = if self.single && cell != Cell::Lstm {
                whole * (1.0 - self.ended.unsqueeze(&[-1]))
            } else {
                whole
            };
            let by_steps = if self.recurrent.batch_first { masked } else { masked.transpose(&[1, 2, 0, 3]) };
            expand.output(0, by_steps);
        }
        let first_of = |state: Expr<'x>| {
            let state = state.transpose(&[1, 0, 2]);
            // A sequence without a step has no state in the end.
            let has_state = [input::INITIAL_H, input::INITIAL_C].iter().any(|index| expand.has_input(*index));
            if has_state && self.single { state * (1.0 - self.ended.slice(1, 0, 1)) } else { state }
        };
        if expand.has_output(1) {
            let of_layer = first_of(h);
            let states: Vec<Expr> = (0..)
                .zip(&self.recurrent.reverse)
                .map(|(direction, reverse)| match (self.single, *reverse) {
                    (true, reverse) if reverse || cell == Cell::Gru => {
                        of_layer.slice(1, direction, direction + 1)
                    }
                    (_, reverse) => self.end_of(whole.element(2, direction), reverse),
                })
                .collect();
            self.set_state(1, make.concat(&states, 1));
        }
        if expand.has_output(2) {
            self.set_state(2, first_of(c));
        }
    }

    /// Returns the last output of each sequence in a direction: `[batch, 1, hidden]`.
    fn end_of(&self, y: Expr<'x>, reverse: bool) -> Expr<'x> {
        match self.lengths {
            _ if reverse => y.slice(1, 0, 1),
            None => y.slice(1, -1, i64::MAX),
            Some(lengths) => {
                let positions = if self.single { self.positions } else { self.positions.slice(0, 0, -1) };
                let is_last = positions.equal(lengths - self.expand.make.int(1));
                y.dtype.map_or(y, |dtype| is_last.cast(dtype)).unsqueeze(&[1]).matmul(y)
            }
        }
    }

    /// Makes `[batch, directions, hidden]` output `index`.
    fn set_state(&self, index: usize, state: Expr<'x>) {
        let state = if self.recurrent.batch_first { state } else { state.transpose(&[1, 0, 2]) };
        self.expand.output(index, state);
    }
}
