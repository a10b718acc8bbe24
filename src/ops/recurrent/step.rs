//! The equations of the cells, as in the ONNX specification.

use super::activation::Activation;
use super::unroll::direction_of;
use super::{Cell, Recurrent, input, is_zero};
use crate::ops::prelude::*;

/// The properties of one direction.
pub(super) struct Direction<'a> {
    pub recurrent: &'a Recurrent,
    pub activations: &'a [Activation],
    pub hidden: i64,
    /// The number of sequences.
    pub batch: i64,
    /// Whether the steps run from the last to the first.
    pub reverse: bool,
}

/// The states between two steps, `[batch, hidden]` each; `None` stands for 0.
#[derive(Clone, Default)]
pub(super) struct State<'x> {
    pub h: Option<Expr<'x>>,
    pub c: Option<Expr<'x>>,
}

/// The weights of one direction.
pub(super) struct Constants<'x> {
    /// `[input, rows]`.
    w: Expr<'x>,
    /// `[hidden, rows]`; for a GRU without `linear_before_reset`, without the columns of the hidden gate.
    r: Expr<'x>,
    /// `[hidden, hidden]`: the columns of the hidden gate of such a GRU.
    r_hidden: Option<Expr<'x>>,
    /// `[rows]`: the bias of the projection of X.
    bias: Option<Expr<'x>>,
    /// `[hidden]`: the recurrent bias of the hidden gate of a GRU with `linear_before_reset`.
    bias_hidden: Option<Expr<'x>>,
    /// The peepholes of the gates i, o and f, `[hidden]` each.
    peepholes: Option<[Expr<'x>; 3]>,
    /// The number of gates times `hidden`.
    pub rows: i64,
}

impl<'x> Constants<'x> {
    /// Emits the weights of direction `index`; `width` is the size of the input.
    pub fn new(
        expand: &'x Expand,
        recurrent: &Recurrent,
        index: usize,
        hidden: i64,
        width: i64,
    ) -> Result<Constants<'x>> {
        let rows = hidden * i64::try_from(recurrent.cell.gates())?;
        let of_direction = |input: usize, shape: &[i64]| direction_of(expand.operand(input), index, shape);
        let w = of_direction(input::W, &[rows, width])?.transpose(&[1, 0]);
        let mut r = of_direction(input::R, &[rows, hidden])?;
        let mut r_hidden = None;
        if recurrent.cell == Cell::Gru && !recurrent.linear_before_reset {
            r_hidden = Some(r.slice(0, 2 * hidden, rows).transpose(&[1, 0]));
            r = r.slice(0, 0, 2 * hidden);
        }
        let r = r.transpose(&[1, 0]);
        let (mut bias, mut bias_hidden) = (None, None);
        if expand.has_input(input::B) {
            let both = of_direction(input::B, &[2 * rows])?;
            let (of_w, of_r) = (both.slice(0, 0, rows), both.slice(0, rows, 2 * rows));
            bias = Some(if recurrent.linear_before_reset {
                bias_hidden = Some(of_r.slice(0, 2 * hidden, rows));
                let of_w_hidden = of_w.slice(0, 2 * hidden, rows);
                let gates = of_w.slice(0, 0, 2 * hidden) + of_r.slice(0, 0, 2 * hidden);
                expand.make.concat(&[gates, of_w_hidden], 0)
            } else {
                of_w + of_r
            });
        }
        let mut peepholes = None;
        if recurrent.cell == Cell::Lstm && !is_zero(expand, input::P)? {
            let p = of_direction(input::P, &[3 * hidden])?;
            peepholes = Some([0, 1, 2].map(|gate| p.slice(0, gate * hidden, (gate + 1) * hidden)));
        }
        Ok(Constants { w, r, r_hidden, bias, bias_hidden, peepholes, rows })
    }

    /// Returns the projection of X for all steps: `[steps, batch, rows]`.
    pub fn project(&self, x: Expr<'x>) -> Expr<'x> {
        let projected = x.matmul(self.w);
        self.bias.map_or(projected, |bias| projected + bias)
    }
}

/// Emits one step; `x` is its part of the projection, `[batch, rows]`.
pub(super) fn emit_step<'x>(
    direction: &Direction,
    constants: &Constants<'x>,
    x: Expr<'x>,
    state: &mut State<'x>,
) -> Result<()> {
    match direction.recurrent.cell {
        Cell::Gru => emit_gru(direction, constants, x, state),
        Cell::Lstm => emit_lstm(direction, constants, x, state),
        Cell::Rnn => {
            let x = with_state(x, state.h, constants.r);
            state.h = Some(activate(direction, 0, x)?);
            Ok(())
        }
    }
}

/// Returns `x + h r`.
fn with_state<'x>(x: Expr<'x>, h: Option<Expr<'x>>, r: Expr<'x>) -> Expr<'x> {
    h.map_or(x, |h| x + h.matmul(r))
}

/// Returns function `index` of `x`, clipped first if the node has `clip`.
fn activate<'x>(direction: &Direction, index: usize, x: Expr<'x>) -> Result<Expr<'x>> {
    let x = direction.recurrent.clip.map_or(x, |clip| x.clip(-clip, clip));
    Ok(direction.activations.at(index)?.apply(x))
}

fn emit_lstm<'x>(
    direction: &Direction,
    constants: &Constants<'x>,
    x: Expr<'x>,
    state: &mut State<'x>,
) -> Result<()> {
    let x = with_state(x, state.h, constants.r);
    let [mut i, mut o, mut f, c] = x.split(1, [direction.hidden; 4]);
    if let (Some([p_i, _, p_f]), Some(before)) = (constants.peepholes, state.c) {
        i = i + before * p_i;
        f = f + before * p_f;
    }
    let i = activate(direction, 0, i)?;
    let mut cell = i * activate(direction, 1, c)?;
    if let Some(before) = state.c {
        let f = if direction.recurrent.input_forget { 1.0 - i } else { activate(direction, 0, f)? };
        cell = f * before + cell;
    }
    if let Some([_, p_o, _]) = constants.peepholes {
        o = o + cell * p_o;
    }
    let o = activate(direction, 0, o)?;
    // onnxruntime does not clip the operand of the last function.
    state.h = Some(o * direction.activations.at(2)?.apply(cell));
    state.c = Some(cell);
    Ok(())
}

fn emit_gru<'x>(
    direction: &Direction,
    constants: &Constants<'x>,
    x: Expr<'x>,
    state: &mut State<'x>,
) -> Result<()> {
    let hidden = direction.hidden;
    let [x_z, x_r, x_h] = x.split(1, [hidden; 3]);
    let Some(h) = state.h else {
        return emit_first_gru(direction, constants, [x_z, x_r, x_h], state);
    };
    let product = h.matmul(constants.r);
    let (h_z, h_r, h_h) = match constants.r_hidden {
        None => {
            let [z, r, hidden] = product.split(1, [hidden; 3]);
            (z, r, Some(hidden))
        }
        Some(_) => {
            let [z, r] = product.split(1, [hidden; 2]);
            (z, r, None)
        }
    };
    let z = activate(direction, 0, x_z + h_z)?;
    let r = activate(direction, 0, x_r + h_r)?;
    let seen = match (h_h, constants.r_hidden) {
        (Some(hidden), _) => r * constants.bias_hidden.map_or(hidden, |bias| hidden + bias),
        (None, Some(r_hidden)) => (r * h).matmul(r_hidden),
        (None, None) => return Err(Error::invalid("the GRU has no hidden gate")),
    };
    let new = activate(direction, 1, x_h + seen)?;
    // (1 - z) * new + z * h
    state.h = Some(new + z * (h - new));
    Ok(())
}

/// Emits a step from a state of 0.
fn emit_first_gru<'x>(
    direction: &Direction,
    constants: &Constants<'x>,
    [z, r, mut hidden]: [Expr<'x>; 3],
    state: &mut State<'x>,
) -> Result<()> {
    let z = activate(direction, 0, z)?;
    if let Some(bias) = constants.bias_hidden {
        hidden = hidden + activate(direction, 0, r)? * bias;
    }
    let new = activate(direction, 1, hidden)?;
    state.h = Some(new - z * new);
    Ok(())
}
