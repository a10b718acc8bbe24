//! The equations of the cells, as in the ONNX specification.

use super::activation::Activation;
use super::node::{Cell, Recurrent, input, is_zero};
use super::unroll::direction_of;
use crate::ops::prelude::*;
use crate::pass::builder::Builder;

/// One direction.
pub(super) struct Direction<'a, 'x> {
    pub recurrent: &'a Recurrent,
    pub activations: &'a [Activation],
    pub constants: Constants<'x>,
    pub hidden: i64,
    /// Whether a state is a vector, not rows.
    pub is_row: bool,
    /// Whether the steps run from the last to the first.
    pub reverse: bool,
}

/// The states between two steps, `[batch, hidden]` or `[hidden]` each; `None` is 0.
#[derive(Clone, Default)]
pub(super) struct State<'x> {
    pub h: Option<Expr<'x>>,
    pub c: Option<Expr<'x>>,
}

/// The weights of one direction.
pub(super) struct Constants<'x> {
    make: &'x Builder<'x>,
    /// `[input, rows]`.
    w: Expr<'x>,
    /// `[hidden, rows]`; for a GRU without `linear_before_reset`, without the columns of the hidden gate.
    r: Expr<'x>,
    /// `[hidden, hidden]`: the columns of the hidden gate of such a GRU.
    r_hidden: Option<Expr<'x>>,
    /// `[rows]`: the bias of the projection of X.
    bias: Option<Expr<'x>>,
    /// `[rows]`: the recurrent bias of the hidden gate of a GRU with `linear_before_reset`, and 0 for the
    /// others, whose bias is part of X.
    bias_r: Option<Expr<'x>>,
    /// The peepholes of the gates i, o and f, `[hidden]` each.
    peepholes: Option<[Expr<'x>; 3]>,
}

impl<'x> Constants<'x> {
    /// Emits the weights of direction `index`.
    pub fn new(
        expand: &'x Expand,
        recurrent: &Recurrent,
        index: usize,
        [batch, width, hidden]: [i64; 3],
    ) -> Result<Constants<'x>> {
        let is_stored = batch != 1 && expand.constant(input::R).is_some();
        let rows = hidden * recurrent.cell.gates().int();
        let of_direction = |input: usize, shape: &[i64]| direction_of(expand.operand(input), index, shape);
        let w = of_direction(input::W, &[rows, width])?.transpose(&[1, 0]);
        let mut r = of_direction(input::R, &[rows, hidden])?;
        let mut r_hidden = None;
        if recurrent.cell == Cell::Gru && !recurrent.linear_before_reset {
            r_hidden = Some(r.slice(0, 2 * hidden, rows).transpose(&[1, 0]));
            r = r.slice(0, 0, 2 * hidden);
        }
        // All steps read one matrix. A product over one row would have to pack it first.
        let stored = |r: Expr<'x>| if is_stored { expand.make.op("ncnn.Stored", [r], []) } else { r };
        let (r, r_hidden) = (stored(r.transpose(&[1, 0])), r_hidden.map(stored));
        let (mut bias, mut bias_r) = (None, None);
        if expand.has_input(input::B) {
            let both = of_direction(input::B, &[2 * rows])?;
            let (of_w, of_r) = (both.slice(0, 0, rows), both.slice(0, rows, 2 * rows));
            bias = Some(if recurrent.linear_before_reset {
                let [gates_w, hidden_w] = of_w.split(0, [2 * hidden, hidden]);
                let [gates_r, hidden_r] = of_r.split(0, [2 * hidden, hidden]);
                bias_r = Some(expand.make.concat(&[gates_r * 0.0, hidden_r], 0));
                expand.make.concat(&[gates_w + gates_r, hidden_w], 0)
            } else {
                of_w + of_r
            });
        }
        let mut peepholes = None;
        if recurrent.cell == Cell::Lstm && !is_zero(expand, input::P)? {
            let p = of_direction(input::P, &[3 * hidden])?;
            peepholes = Some([0, 1, 2].map(|gate| p.slice(0, gate * hidden, (gate + 1) * hidden)));
        }
        Ok(Constants { make: &expand.make, w, r, r_hidden, bias, bias_r, peepholes })
    }

    /// Returns the projection of X for all steps: `[steps * batch, rows]`.
    pub fn project(&self, x: Expr<'x>) -> Expr<'x> {
        match self.bias {
            Some(bias) => self.make.op("Gemm", [x, self.w, bias], []),
            None => x.matmul(self.w),
        }
    }
}

impl<'x> Direction<'_, 'x> {
    /// Returns the parts of a row of the projection that a step takes.
    pub fn widths(&self) -> Vec<i64> {
        match self.recurrent.cell {
            Cell::Gru => vec![2 * self.hidden, self.hidden],
            Cell::Lstm => vec![4 * self.hidden],
            Cell::Rnn => vec![self.hidden],
        }
    }

    /// Emits one step from its parts of the projection.
    pub fn step(&self, parts: &[Expr<'x>], state: &mut State<'x>) -> Result<()> {
        match (self.recurrent.cell, parts) {
            (Cell::Gru, [gates, new]) => self.gru(*gates, *new, state),
            (Cell::Lstm, [x]) => self.lstm(*x, state),
            (Cell::Rnn, [x]) => {
                let x = with_state(*x, state.h, self.constants.r);
                state.h = Some(self.activate(0, x)?);
                Ok(())
            }
            _ => Err(Error::internal("a step with other parts of the projection")),
        }
    }

    /// Returns function `index` of `x`, clipped first if the node has `clip`.
    fn activate(&self, index: usize, x: Expr<'x>) -> Result<Expr<'x>> {
        let x = self.recurrent.clip.map_or(x, |clip| x.clip(-clip, clip));
        Ok(self.activations.at(index)?.apply(x))
    }

    fn lstm(&self, x: Expr<'x>, state: &mut State<'x>) -> Result<()> {
        let hidden = self.hidden;
        let x = with_state(x, state.h, self.constants.r);
        let [gates, c] = x.split(-1, [3 * hidden, hidden]);
        let c = self.activate(1, c)?;
        // Peepholes of i and f read the state before the step, the peephole of o the state after it.
        let (i, o, f) = match self.constants.peepholes {
            None => {
                let [i, o, f] = self.activate(0, gates)?.split(-1, [hidden; 3]);
                (i, o, f)
            }
            Some([p_i, _, p_f]) => {
                let [i, o, f] = gates.split(-1, [hidden; 3]);
                let seen = |gate: Expr<'x>, p: Expr<'x>| state.c.map_or(gate, |before| gate + before * p);
                (self.activate(0, seen(i, p_i))?, o, self.activate(0, seen(f, p_f))?)
            }
        };
        let mut cell = i * c;
        if let Some(before) = state.c {
            let f = if self.recurrent.input_forget { 1.0 - i } else { f };
            cell = f * before + cell;
        }
        let o = match self.constants.peepholes {
            None => o,
            Some([_, p_o, _]) => self.activate(0, o + cell * p_o)?,
        };
        // onnxruntime does not clip the operand of the last function.
        state.h = Some(o * self.activations.at(2)?.apply(cell));
        state.c = Some(cell);
        Ok(())
    }

    fn gru(&self, x_gates: Expr<'x>, x_h: Expr<'x>, state: &mut State<'x>) -> Result<()> {
        let hidden = self.hidden;
        let Some(h) = state.h else {
            return self.first_gru(x_gates, x_h, state);
        };
        let Constants { make, r, bias_r, .. } = self.constants;
        let product = match self.is_row {
            true => h.matmul(r).add_optional(bias_r),
            false => make.op("Gemm", [Some(h), Some(r), bias_r], []),
        };
        let (h_gates, h_h) = match self.constants.r_hidden {
            None => {
                let [gates, hidden] = product.split(-1, [2 * hidden, hidden]);
                (gates, Some(hidden))
            }
            Some(_) => (product, None),
        };
        let [z, r] = self.activate(0, x_gates + h_gates)?.split(-1, [hidden; 2]);
        let seen = match (h_h, self.constants.r_hidden) {
            (Some(hidden), _) => r * hidden,
            (None, Some(r_hidden)) => (r * h).matmul(r_hidden),
            (None, None) => return Err(Error::invalid("the GRU has no hidden gate")),
        };
        let new = self.activate(1, x_h + seen)?;
        // (1 - z) * new + z * h
        state.h = Some(new + z * (h - new));
        Ok(())
    }

    /// Emits a step from a state of 0.
    fn first_gru(&self, gates: Expr<'x>, mut x_h: Expr<'x>, state: &mut State<'x>) -> Result<()> {
        let hidden = self.hidden;
        let [z, r] = self.activate(0, gates)?.split(-1, [hidden; 2]);
        if let Some(bias) = self.constants.bias_r {
            x_h = x_h + r * bias.slice(0, 2 * hidden, 3 * hidden);
        }
        let new = self.activate(1, x_h)?;
        state.h = Some(new - z * new);
        Ok(())
    }
}

/// Returns `x + h r`.
fn with_state<'x>(x: Expr<'x>, h: Option<Expr<'x>>, r: Expr<'x>) -> Expr<'x> {
    h.map_or(x, |h| x + h.matmul(r))
}
