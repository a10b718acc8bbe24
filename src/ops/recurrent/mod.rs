//! Recurrent networks.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | LSTM, GRU with `linear_before_reset`, RNN; one sequence | LSTM, GRU, RNN |
//! | Int8LSTM, Int8GRU, whose weights are steps of int8; one sequence | LSTM, GRU in int8 |
//! | the same, several sequences or shorter ones | one layer over all rows, whose state a further element of X resets; or unrolled steps of products over all sequences, where they take less time |
//! | several sequences with initial states, or of RNN | one layer for each sequence; or unrolled steps |
//! | other activations, peepholes, clip, coupled gates, GRU without `linear_before_reset`, weights at run time | unrolled steps |
//!
//! Refused: unrolling too many steps, or a number of steps known only at run time.
//! Specification: <https://onnx.ai/onnx/operators/onnx__LSTM.html>,
//! <https://onnx.ai/onnx/operators/onnx__GRU.html>, <https://onnx.ai/onnx/operators/onnx__RNN.html>.

mod activation;
mod choice;
mod join;
mod length;
mod lower;
mod step;
mod unroll;
mod weight;

use self::activation::{Activation, read_activations};
use crate::op::meaning;
use crate::ops::prelude::*;
use crate::pass::quantized::{INT8_GRU, INT8_LSTM};

pub(in crate::ops) const OPS: &[Row] = &[
    gru("", "GRU")
        .expects(expected)
        .lowers_to("GRU over all sequences, or for each; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
    lstm("", "LSTM")
        .expects(expected)
        .lowers_to("LSTM over all sequences, or for each; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
    gru(OWN_DOMAIN, INT8_GRU).lowers_to("GRU in int8, over one sequence"),
    lstm(OWN_DOMAIN, INT8_LSTM).lowers_to("LSTM in int8, over one sequence"),
    Row::new("RNN", Access::Any, |call| infer_recurrent(call, Cell::Rnn))
        .expand(|x| unroll::expand_recurrent(x, Cell::Rnn))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Rnn))
        .multiply_adds(multiply_adds)
        .expects(expected)
        .lowers_to("RNN for each sequence; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
];

const LIMITS: &str = "many unrolled steps, or a number of them known only at run time";

const fn gru(domain: &'static str, name: &'static str) -> Row {
    Row::of(domain, name, Access::Any, |call| infer_recurrent(call, Cell::Gru))
        .expand(|x| unroll::expand_recurrent(x, Cell::Gru))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Gru))
        .multiply_adds(multiply_adds)
}

const fn lstm(domain: &'static str, name: &'static str) -> Row {
    Row::of(domain, name, Access::Any, |call| infer_recurrent(call, Cell::Lstm))
        .expand(|x| unroll::expand_recurrent(x, Cell::Lstm))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Lstm))
        .multiply_adds(multiply_adds)
}

/// Returns the sequence that the weight reads.
fn expected(call: &Call, index: usize) -> Option<Fact> {
    let weight = call.value(input::W)?.shape.as_deref().filter(|_| index == input::X)?;
    Some(Fact::new(DType::F32, vec![Dim::symbol("T"), Dim::Known(1), weight.get(2)?.clone()]))
}

/// Indices of the inputs.
mod input {
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
enum Cell {
    Gru,
    Lstm,
    Rnn,
}

impl Cell {
    /// Returns the type of the operator.
    fn name(self) -> &'static str {
        match self {
            Cell::Gru => "GRU",
            Cell::Lstm => "LSTM",
            Cell::Rnn => "RNN",
        }
    }

    /// Returns the number of gates, each with a matrix in W and in R.
    fn gates(self) -> usize {
        match self {
            Cell::Gru => 3,
            Cell::Lstm => 4,
            Cell::Rnn => 1,
        }
    }
}

struct Recurrent {
    cell: Cell,
    /// Whether each direction runs from the last step to the first.
    reverse: Vec<bool>,
    /// The functions f, g, h of each direction, as many as the cell has.
    activations: Vec<Vec<Activation>>,
    clip: Option<f32>,
    input_forget: bool,
    linear_before_reset: bool,
    /// Whether the batch is the first axis (`layout` 1).
    batch_first: bool,
    hidden_size: Option<i64>,
}

fn read_recurrent(attributes: &Attributes, cell: Cell) -> Result<Recurrent> {
    let defaults: &[&str] = match cell {
        Cell::Gru => &["Sigmoid", "Tanh"],
        Cell::Lstm => &["Sigmoid", "Tanh", "Tanh"],
        Cell::Rnn => &["Tanh"],
    };
    let directions =
        [("forward", vec![false]), ("reverse", vec![true]), ("bidirectional", vec![false, true])];
    let reverse = meaning("direction", &attributes.string("direction")?.to_ascii_lowercase(), &directions)?;
    Ok(Recurrent {
        cell,
        activations: read_activations(attributes, defaults, reverse.len())?,
        reverse,
        clip: attributes.given_float("clip")?.filter(|clip| *clip > 0.0),
        input_forget: cell == Cell::Lstm && attributes.flag_or("input_forget", false)?,
        linear_before_reset: cell == Cell::Gru && attributes.flag("linear_before_reset")?,
        batch_first: attributes.since() >= 14 && attributes.flag("layout")?,
        hidden_size: attributes.given_int("hidden_size")?,
    })
}

/// The sizes of the axes.
struct Sizes {
    steps: Dim,
    batch: Dim,
    input: Dim,
    hidden: i64,
}

fn sizes(call: &Call, recurrent: &Recurrent) -> Result<Sizes> {
    let [first, second, input] = call.shape(input::X)? else {
        invalid!("X has shape {}, expected three axes", display_shape(call.shape(input::X)?));
    };
    let (steps, batch) = if recurrent.batch_first { (second, first) } else { (first, second) };
    let r = call.shape(input::R)?;
    let hidden = match (r.last().and_then(Dim::known), recurrent.hidden_size) {
        (Some(stored), Some(given)) if stored != given => {
            invalid!("hidden_size {given} does not match R with {stored}")
        }
        (Some(hidden), _) | (None, Some(hidden)) => hidden,
        (None, None) => {
            return Err(Error::unsupported("the size of the hidden state is known only at run time"));
        }
    };
    Ok(Sizes { steps: steps.clone(), batch: batch.clone(), input: input.clone(), hidden })
}

/// Each step of each sequence multiplies an element of X by W and a state by R.
pub(in crate::ops) fn multiply_adds(call: &Call) -> Option<u64> {
    let weights = |index: usize| element_count(call.shape(index).ok()?);
    let steps = element_count(call.shape(input::X).ok()?.first_chunk::<2>()?)?;
    Some(weights(input::W)?.saturating_add(weights(input::R)?).saturating_mul(steps))
}

fn infer_recurrent(call: &Call, cell: Cell) -> Result<Vec<Fact>> {
    let recurrent = read_recurrent(call, cell)?;
    let dtype = call.dtype(input::X)?;
    let Sizes { steps, batch, input, hidden } = sizes(call, &recurrent)?;
    let directions = Dim::try_from(recurrent.reverse.len())?;
    let rows = Dim::Known(hidden).mul(&Dim::try_from(recurrent.cell.gates())?)?;
    let hidden = Dim::Known(hidden);
    for (index, shape) in [
        (input::W, vec![directions.clone(), rows.clone(), input]),
        (input::R, vec![directions.clone(), rows.clone(), hidden.clone()]),
        (input::B, vec![directions.clone(), rows.mul(&Dim::Known(2))?]),
    ] {
        call.check_shape(index, &shape)?;
    }
    let (y, state) = if recurrent.batch_first {
        ([&batch, &steps, &directions, &hidden], [&batch, &directions, &hidden])
    } else {
        ([&steps, &directions, &batch, &hidden], [&directions, &batch, &hidden])
    };
    let (y, state) = (y.map(Dim::clone).to_vec(), state.map(Dim::clone).to_vec());
    call.check_shape(input::SEQUENCE_LENS, std::slice::from_ref(&batch))?;
    call.check_shape(input::INITIAL_H, &state)?;
    if recurrent.cell == Cell::Lstm {
        call.check_shape(input::INITIAL_C, &state)?;
        call.check_shape(input::P, &[directions.clone(), hidden.mul(&Dim::Known(3))?])?;
    }
    let state = Fact::new(dtype, state);
    let mut facts = vec![Fact::new(dtype, y), state.clone()];
    if recurrent.cell == Cell::Lstm {
        facts.push(state);
    }
    Ok(facts)
}

/// Returns whether input `index` is omitted or all zeros.
fn is_zero(call: &Call, index: usize) -> Result<bool> {
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

/// Returns whether ncnn's layer computes the node, for one sequence of all steps.
fn is_native(call: &Call, recurrent: &Recurrent) -> Result<bool> {
    let defaults: &[Activation] = match recurrent.cell {
        Cell::Gru => &[Activation::Sigmoid, Activation::Tanh],
        Cell::Lstm => &[Activation::Sigmoid, Activation::Tanh, Activation::Tanh],
        Cell::Rnn => &[Activation::Tanh],
    };
    let constant = |index: usize| !call.has_input(index) || call.constant(index).is_some();
    Ok(recurrent.activations.iter().all(|activations| activations == defaults)
        && recurrent.clip.is_none()
        && !recurrent.input_forget
        && (recurrent.cell != Cell::Gru || recurrent.linear_before_reset)
        && [input::W, input::R, input::B].into_iter().all(constant)
        && (recurrent.cell != Cell::Lstm || is_zero(call, input::P)?))
}

/// Returns the form of a state of one sequence: `[directions, hidden]`.
fn state_form(recurrent: &Recurrent, sizes: &Sizes) -> Result<Vec<Dim>> {
    Ok(vec![Dim::try_from(recurrent.reverse.len())?, Dim::Known(sizes.hidden)])
}
