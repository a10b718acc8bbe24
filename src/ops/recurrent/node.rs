//! The attributes and inputs of a node: its cell, directions, functions and sizes.

use super::activation::{Activation, read_activations};
use crate::op::meaning;
use crate::ops::prelude::*;

/// Indices of the inputs.
pub(super) mod input {
    pub const X: usize = 0;
    pub const W: usize = 1;
    pub const R: usize = 2;
    pub const B: usize = 3;
    pub const SEQUENCE_LENS: usize = 4;
    pub const INITIAL_H: usize = 5;
    pub const INITIAL_C: usize = 6;
    pub const P: usize = 7;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Cell {
    Gru,
    Lstm,
    Rnn,
}

impl Cell {
    /// Returns the type of the operator.
    pub fn name(self) -> &'static str {
        match self {
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
            Cell::Rnn => "RNN",
        }
    }

    /// Returns the number of gates, each with a matrix in W and in R.
    pub fn gates(self) -> usize {
        match self {
            Cell::Gru => 3,
            Cell::Lstm => 4,
            Cell::Rnn => 1,
        }
    }
}

pub(super) struct Recurrent {
    pub cell: Cell,
    /// Whether each direction runs from the last step to the first.
    pub reverse: Vec<bool>,
    /// The functions f, g, h of each direction, as many as the cell has.
    pub activations: Vec<Vec<Activation>>,
    pub clip: Option<f32>,
    pub input_forget: bool,
    pub linear_before_reset: bool,
    /// Whether the batch is the first axis (`layout` 1).
    pub batch_first: bool,
    pub hidden_size: Option<i64>,
}

pub(super) fn read_recurrent(call: &Call, cell: Cell) -> Result<Recurrent> {
    let defaults: &[&str] = match cell {
        Cell::Gru => &["Sigmoid", "Tanh"],
        Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        Cell::Rnn => &["Tanh"],
    };
    let directions =
        [("forward", vec![false]), ("reverse", vec![true]), ("bidirectional", vec![false, true])];
    let reverse = meaning("direction", &call.string("direction")?.to_ascii_lowercase(), &directions)?;
    Ok(Recurrent {
        cell,
        activations: read_activations(call, defaults, reverse.len())?,
        reverse,
        clip: call.optional_float("clip")?.filter(|clip| *clip > 0.0),
        input_forget: cell == Cell::Lstm && call.flag_or_false("input_forget")?,
        linear_before_reset: cell == Cell::Gru && call.flag("linear_before_reset")?,
        batch_first: call.since() >= 14 && call.flag("layout")?,
        hidden_size: call.optional_int("hidden_size")?,
    })
}

/// The sizes of the axes.
pub(super) struct Sizes {
    pub steps: Dim,
    pub batch: Dim,
    pub input: Dim,
    pub hidden: i64,
}

pub(super) fn sizes(call: &Call, recurrent: &Recurrent) -> Result<Sizes> {
    let [first, second, input] = call.shape(input::X)? else {
        invalid!("X has shape {}, expected three axes", display_shape(call.shape(input::X)?));
    };
    let (steps, batch) = if recurrent.batch_first { (second, first) } else { (first, second) };
    let r = call.shape(input::R)?;
    let hidden = match (r.last().and_then(Dim::known), recurrent.hidden_size) {
        (Some(stored), Some(declared)) if stored != declared => {
            invalid!("hidden_size {declared} does not match R with {stored}")
        }
        (Some(hidden), _) | (None, Some(hidden)) => hidden,
        (None, None) => {
            return Err(Error::unsupported("the size of the hidden state is known only at run time"));
        }
    };
    Ok(Sizes { steps: steps.clone(), batch: batch.clone(), input: input.clone(), hidden })
}

/// Returns whether input `index` is omitted or all zeros.
pub(super) fn is_zero(call: &Call, index: usize) -> Result<bool> {
    match (call.has_input(index), call.constant(index)) {
        (false, _) => Ok(true),
        (true, Some(tensor)) if tensor.len() <= limits::LOOKED_AT => {
            Ok(tensor.load_listed()?.float_list()?.iter().all(|x| *x == 0.0))
        }
        _ => {
            let range = call.range(index);
            Ok(range.least == 0.0 && range.most == 0.0)
        }
    }
}

/// Returns the feature of the node that ncnn's layer lacks over one sequence of all steps, if there is one.
pub(super) fn lacking(call: &Call, recurrent: &Recurrent) -> Result<Option<&'static str>> {
    let defaults: &[Activation] = match recurrent.cell {
        Cell::Gru => &[Activation::Sigmoid, Activation::Tanh],
        Cell::Lstm => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
        Cell::Rnn => &[Activation::Tanh],
    };
    let constant = |index: usize| !call.has_input(index) || call.constant(index).is_some();
    let lacks = [
        (recurrent.activations.iter().any(|activations| activations != defaults), "other activations"),
        (recurrent.clip.is_some(), "a clip"),
        (recurrent.input_forget, "coupled gates"),
        (recurrent.cell == Cell::Gru && !recurrent.linear_before_reset, "a product after the reset"),
        (![input::W, input::R, input::B].into_iter().all(constant), "weights computed at run time"),
        (recurrent.cell == Cell::Lstm && !is_zero(call, input::P)?, "peepholes"),
    ];
    Ok(lacks.into_iter().find(|(is_lacking, _)| *is_lacking).map(|(_, what)| what))
}

/// Returns the form of a state of one sequence: `[directions, hidden]`.
pub(super) fn state_shape(recurrent: &Recurrent, sizes: &Sizes) -> Shape {
    shape![Dim::from(recurrent.reverse.len()), sizes.hidden].into()
}
