//! Recurrent networks.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | LSTM, GRU with `linear_before_reset`, RNN; one sequence | LSTM, GRU, RNN |
//! | Int8LSTM, Int8GRU, whose weights are steps of int8; one sequence | LSTM, GRU in int8 |
//! | the same, several sequences or shorter ones | one layer over all rows, whose state a further element of X resets; or unrolled steps of products over all sequences, where they take less time |
//! | several sequences with initial states, or a known number of them in RNN | one layer for each sequence; or unrolled steps |
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
mod node;
mod step;
mod unroll;
mod weight;

use self::node::{Cell, Sizes, input, read_recurrent, sizes};
use crate::ops::prelude::*;
use crate::pass::quantized::{INT8_GRU, INT8_LSTM};

pub(in crate::ops) const OPS: &[Row] = &[
    gru("", "GRU")
        .expects(|call, index, _| expected(call, index))
        .lowers_to("GRU over all sequences, or for each; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
    lstm("", "LSTM")
        .expects(|call, index, _| expected(call, index))
        .lowers_to("LSTM over all sequences, or for each; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
    gru(NCNN_DOMAIN, INT8_GRU).lowers_to("GRU in int8, over one sequence"),
    lstm(NCNN_DOMAIN, INT8_LSTM).lowers_to("LSTM in int8, over one sequence"),
    Row::new("RNN", Access::Any, |call| infer_recurrent(call, Cell::Rnn))
        .expand(|x| unroll::expand_recurrent(x, Cell::Rnn))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Rnn))
        .range(|call, _| range_of_states(call, None))
        .further_range(|call, _| range_of_states(call, None))
        .multiply_adds(multiply_adds)
        .expects(|call, index, _| expected(call, index))
        .lowers_to("RNN for each sequence; unrolled steps where they are faster, or for what the layer lacks")
        .limits(LIMITS),
];

const LIMITS: &str = "many unrolled steps, or a number of them known only at run time";

const fn gru(domain: &'static str, name: &'static str) -> Row {
    Row::of(domain, name, Access::Any, |call| infer_recurrent(call, Cell::Gru))
        .expand(|x| unroll::expand_recurrent(x, Cell::Gru))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Gru))
        .range(|call, inputs| range_of_states(call, inputs.get(input::INITIAL_H)))
        .further_range(|call, inputs| range_of_states(call, inputs.get(input::INITIAL_H)))
        .multiply_adds(multiply_adds)
}

const fn lstm(domain: &'static str, name: &'static str) -> Row {
    Row::of(domain, name, Access::Any, |call| infer_recurrent(call, Cell::Lstm))
        .expand(|x| unroll::expand_recurrent(x, Cell::Lstm))
        .lower(|lower| lower::lower_recurrent(lower, Cell::Lstm))
        .range(|call, _| range_of_states(call, None))
        .multiply_adds(multiply_adds)
}

/// Returns the range of states that Tanh bounds with the usual activations. Those of GRU lie between it and
/// the initial state.
fn range_of_states(call: &Call, initial: Option<&Range>) -> Range {
    let bounded = Range { least: -1.0, most: 1.0 };
    let initial = initial.filter(|_| call.has_input(input::INITIAL_H));
    match call.node().attributes.contains_key("activations") {
        true => Range::ANY,
        false => initial.map_or(bounded, |initial| bounded.union(*initial)),
    }
}

/// Returns the sequence that the weight reads.
fn expected(call: &Call, index: usize) -> Option<Fact> {
    let weight = call.value(input::W)?.shape.as_deref().filter(|_| index == input::X)?;
    Some(Fact::new(DType::F32, shape![Dim::symbol("T"), 1, weight.get(2)?]))
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
    let directions = Dim::from(recurrent.reverse.len());
    let rows = hidden * Dim::from(recurrent.cell.gates());
    let hidden = Dim::Known(hidden);
    for (index, shape) in [
        (input::W, vec![directions.clone(), rows.clone(), input]),
        (input::R, vec![directions.clone(), rows.clone(), hidden.clone()]),
        (input::B, vec![directions.clone(), rows * 2]),
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
        call.check_shape(input::P, &[directions.clone(), hidden * 3])?;
    }
    let state = Fact::new(dtype, state);
    let mut facts = vec![Fact::new(dtype, y), state.clone()];
    if recurrent.cell == Cell::Lstm {
        facts.push(state);
    }
    Ok(facts)
}
