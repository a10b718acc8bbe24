//! The equations of the cells, as in the ONNX specification.

use super::activation::Activation;
use super::unroll::{direction_of, slice};
use super::{Cell, Recurrent, input, is_zero};
use crate::error::{At, Error, Result};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};

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
pub(super) struct State {
    pub h: Option<Operand>,
    pub c: Option<Operand>,
}

/// The weights of one direction.
pub(super) struct Constants {
    /// `[input, rows]`.
    w: Operand,
    /// `[hidden, rows]`; for a GRU without `linear_before_reset`, without the columns of the hidden gate.
    r: Operand,
    /// `[hidden, hidden]`: the columns of the hidden gate of such a GRU.
    r_hidden: Option<Operand>,
    /// `[rows]`: the bias of the projection of X.
    bias: Option<Operand>,
    /// `[hidden]`: the recurrent bias of the hidden gate of a GRU with `linear_before_reset`.
    bias_hidden: Option<Operand>,
    /// The peepholes of the gates i, o and f, `[hidden]` each.
    peepholes: Option<[Operand; 3]>,
    /// The number of gates times `hidden`.
    pub rows: i64,
}

impl Constants {
    /// Emits the weights of direction `index`; `width` is the size of the input.
    pub fn new(
        expand: &mut Expand,
        recurrent: &Recurrent,
        index: usize,
        hidden: i64,
        width: i64,
    ) -> Result<Constants> {
        let rows = hidden * i64::try_from(recurrent.cell.gates())?;
        let w = expand.operand(input::W)?;
        let w = direction_of(expand, w, index, &[rows, width])?;
        let w = expand.transpose(w, &[1, 0])?;
        let r = expand.operand(input::R)?;
        let mut r = direction_of(expand, r, index, &[rows, hidden])?;
        let mut r_hidden = None;
        if recurrent.cell == Cell::Gru && !recurrent.linear_before_reset {
            let part = slice(expand, r, 0, 2 * hidden, rows)?;
            r_hidden = Some(expand.transpose(part, &[1, 0])?);
            r = slice(expand, r, 0, 0, 2 * hidden)?;
        }
        let r = expand.transpose(r, &[1, 0])?;
        let (mut bias, mut bias_hidden) = (None, None);
        if expand.has_input(input::B) {
            let both = expand.operand(input::B)?;
            let both = direction_of(expand, both, index, &[2 * rows])?;
            let (of_w, of_r) = (slice(expand, both, 0, 0, rows)?, slice(expand, both, 0, rows, 2 * rows)?);
            bias = Some(if recurrent.linear_before_reset {
                bias_hidden = Some(slice(expand, of_r, 0, 2 * hidden, rows)?);
                let of_w_hidden = slice(expand, of_w, 0, 2 * hidden, rows)?;
                let gates_w = slice(expand, of_w, 0, 0, 2 * hidden)?;
                let gates_r = slice(expand, of_r, 0, 0, 2 * hidden)?;
                let gates = expand.op("Add", &[gates_w, gates_r], &[])?;
                expand.op("Concat", &[gates, of_w_hidden], &[("axis", Attribute::Int(0))])?
            } else {
                expand.op("Add", &[of_w, of_r], &[])?
            });
        }
        let mut peepholes = None;
        if recurrent.cell == Cell::Lstm && !is_zero(expand, input::P)? {
            let p = expand.operand(input::P)?;
            let p = direction_of(expand, p, index, &[3 * hidden])?;
            let mut part = |i: i64| slice(expand, p, 0, i * hidden, (i + 1) * hidden);
            peepholes = Some([part(0)?, part(1)?, part(2)?]);
        }
        Ok(Constants { w, r, r_hidden, bias, bias_hidden, peepholes, rows })
    }

    /// Emits the projection of X for all steps: `[steps, batch, rows]`.
    pub fn project(&self, expand: &mut Expand, x: Operand) -> Result<Operand> {
        let projected = expand.op("MatMul", &[x, self.w], &[])?;
        match self.bias {
            Some(bias) => expand.op("Add", &[projected, bias], &[]),
            None => Ok(projected),
        }
    }
}

/// Emits one step; `x` is its part of the projection, `[batch, rows]`.
pub(super) fn emit_step(
    expand: &mut Expand,
    direction: &Direction,
    constants: &Constants,
    x: Operand,
    state: &mut State,
) -> Result<()> {
    match direction.recurrent.cell {
        Cell::Gru => emit_gru(expand, direction, constants, x, state),
        Cell::Lstm => emit_lstm(expand, direction, constants, x, state),
        Cell::Rnn => {
            let x = with_state(expand, x, state.h, constants.r)?;
            state.h = Some(activate(expand, direction, 0, x)?);
            Ok(())
        }
    }
}

/// Emits `x + h r`.
fn with_state(expand: &mut Expand, x: Operand, h: Option<Operand>, r: Operand) -> Result<Operand> {
    let Some(h) = h else { return Ok(x) };
    let product = expand.op("MatMul", &[h, r], &[])?;
    expand.op("Add", &[x, product], &[])
}

/// Emits function `index` of `x`, clipped first if the node has `clip`.
fn activate(expand: &mut Expand, direction: &Direction, index: usize, x: Operand) -> Result<Operand> {
    let x = match direction.recurrent.clip {
        Some(clip) => {
            let bounds = [expand.scalar_like(0, -clip)?, expand.scalar_like(0, clip)?];
            expand.op("Clip", &[[x].as_slice(), &bounds].concat(), &[])?
        }
        None => x,
    };
    direction.activations.at(index)?.apply(expand, x)
}

/// Splits the gates of `x`.
fn gates<const N: usize>(expand: &mut Expand, x: Operand, hidden: i64) -> Result<[Operand; N]> {
    let sizes = expand.ints(&[hidden; N])?;
    let parts = expand.op_n("Split", &[Some(x), Some(sizes)], &[("axis", Attribute::Int(1))], N)?;
    parts.try_into().map_err(|_| Error::invalid("Split has an unexpected number of outputs"))
}

fn emit_lstm(
    expand: &mut Expand,
    direction: &Direction,
    constants: &Constants,
    x: Operand,
    state: &mut State,
) -> Result<()> {
    let x = with_state(expand, x, state.h, constants.r)?;
    let [mut i, mut o, mut f, c] = gates(expand, x, direction.hidden)?;
    let peep = |expand: &mut Expand, gate: Operand, weight: Operand, cell: Operand| {
        let seen = expand.op("Mul", &[cell, weight], &[])?;
        expand.op("Add", &[gate, seen], &[])
    };
    if let (Some([p_i, _, p_f]), Some(before)) = (constants.peepholes, state.c) {
        i = peep(expand, i, p_i, before)?;
        f = peep(expand, f, p_f, before)?;
    }
    let i = activate(expand, direction, 0, i)?;
    let c = activate(expand, direction, 1, c)?;
    let mut cell = expand.op("Mul", &[i, c], &[])?;
    if let Some(before) = state.c {
        let f = if direction.recurrent.input_forget {
            let one = expand.scalar_like(0, 1.0)?;
            expand.op("Sub", &[one, i], &[])?
        } else {
            activate(expand, direction, 0, f)?
        };
        let kept = expand.op("Mul", &[f, before], &[])?;
        cell = expand.op("Add", &[kept, cell], &[])?;
    }
    if let Some([_, p_o, _]) = constants.peepholes {
        o = peep(expand, o, p_o, cell)?;
    }
    let o = activate(expand, direction, 0, o)?;
    // onnxruntime does not clip the operand of the last function.
    let seen = direction.activations.at(2)?.apply(expand, cell)?;
    state.h = Some(expand.op("Mul", &[o, seen], &[])?);
    state.c = Some(cell);
    Ok(())
}

fn emit_gru(
    expand: &mut Expand,
    direction: &Direction,
    constants: &Constants,
    x: Operand,
    state: &mut State,
) -> Result<()> {
    let [x_z, x_r, x_h] = gates(expand, x, direction.hidden)?;
    let Some(h) = state.h else {
        return emit_first_gru(expand, direction, constants, [x_z, x_r, x_h], state);
    };
    let product = expand.op("MatMul", &[h, constants.r], &[])?;
    let (h_z, h_r, h_h) = match constants.r_hidden {
        None => {
            let [z, r, hidden] = gates(expand, product, direction.hidden)?;
            (z, r, Some(hidden))
        }
        Some(_) => {
            let [z, r] = gates(expand, product, direction.hidden)?;
            (z, r, None)
        }
    };
    let z = expand.op("Add", &[x_z, h_z], &[])?;
    let z = activate(expand, direction, 0, z)?;
    let r = expand.op("Add", &[x_r, h_r], &[])?;
    let r = activate(expand, direction, 0, r)?;
    let seen = match (h_h, constants.r_hidden) {
        (Some(mut hidden), _) => {
            if let Some(bias) = constants.bias_hidden {
                hidden = expand.op("Add", &[hidden, bias], &[])?;
            }
            expand.op("Mul", &[r, hidden], &[])?
        }
        (None, Some(r_hidden)) => {
            let reset = expand.op("Mul", &[r, h], &[])?;
            expand.op("MatMul", &[reset, r_hidden], &[])?
        }
        (None, None) => return Err(Error::invalid("the GRU has no hidden gate")),
    };
    let new = expand.op("Add", &[x_h, seen], &[])?;
    let new = activate(expand, direction, 1, new)?;
    // (1 - z) * new + z * h
    let back = expand.op("Sub", &[h, new], &[])?;
    let back = expand.op("Mul", &[z, back], &[])?;
    state.h = Some(expand.op("Add", &[new, back], &[])?);
    Ok(())
}

/// Emits a step from a state of 0.
fn emit_first_gru(
    expand: &mut Expand,
    direction: &Direction,
    constants: &Constants,
    [z, r, mut hidden]: [Operand; 3],
    state: &mut State,
) -> Result<()> {
    let z = activate(expand, direction, 0, z)?;
    if let Some(bias) = constants.bias_hidden {
        let r = activate(expand, direction, 0, r)?;
        let seen = expand.op("Mul", &[r, bias], &[])?;
        hidden = expand.op("Add", &[hidden, seen], &[])?;
    }
    let new = activate(expand, direction, 1, hidden)?;
    let kept = expand.op("Mul", &[z, new], &[])?;
    state.h = Some(expand.op("Sub", &[new, kept], &[])?);
    Ok(())
}
