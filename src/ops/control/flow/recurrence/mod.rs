//! Loops and scans of a recurrent cell, as Keras and TensorFlow export their layers: LSTM, GRU or RNN over
//! the sequence, whose length may be free.
//!
//! ```text
//! h, c = cell(x[t], h, c);                      y[t] = h
//! h, c = mask[t] ? cell(x[t], h, c) : (h, c);   y[t] = mask[t] ? h : 0, or h
//! ```

mod body;
mod cell;
mod layer;

use self::body::{Body, State};
use crate::ops::prelude::*;

/// Replaces a Loop by a recurrent operator; `false` if its body is not a cell, or reads a sequence in another
/// way than to its end.
pub(super) fn replace_loop(x: &Expand) -> Result<bool> {
    let graph = x.body("body")?;
    let carried = x.input_count().saturating_sub(2);
    let (inputs, outputs) = (graph.inputs.iter().skip(2), graph.outputs.iter().skip(1));
    let Some(states) = states(x, inputs.zip(outputs), 2) else { return Ok(false) };
    let counters = graph.inputs.first().copied();
    let Some(mut body) = Body::read(x, graph, states, counters) else { return Ok(false) };
    body.scanned.extend(graph.outputs.iter().skip(1).copied().enumerate().skip(carried));
    let Some(cell) = body.cell() else { return Ok(false) };
    let Some(steps) = body.steps(&cell) else { return Ok(false) };
    if !runs_to(x, &body, steps)? {
        return Ok(false);
    }
    body.replace(&cell)
}

/// Replaces a Scan, likewise. Its first `count` inputs are states, the others sequences along their first
/// axes.
pub(super) fn replace_scan(x: &Expand, count: usize, is_reversed: bool) -> Result<bool> {
    let graph = x.body("body")?;
    let pairs = graph.inputs.iter().zip(&graph.outputs).take(count);
    let Some(states) = states(x, pairs, 0) else { return Ok(false) };
    let Some(mut body) = Body::read(x, graph, states, None) else { return Ok(false) };
    body.is_reversed = is_reversed;
    for (index, input) in graph.inputs.iter().enumerate().skip(count) {
        body.elements.extend(x.node().input(index).map(|sequence| (*input, sequence)));
    }
    body.scanned.extend(graph.outputs.iter().copied().enumerate().skip(count));
    let Some(cell) = body.cell() else { return Ok(false) };
    if body.steps(&cell).is_none() {
        return Ok(false);
    }
    body.replace(&cell)
}

/// Returns the states, whose values before the first step are the inputs of the node from `first` on.
fn states<'b>(
    x: &Expand,
    pairs: impl Iterator<Item = (&'b ValueId, &'b ValueId)>,
    first: usize,
) -> Option<Vec<State>> {
    let state = |(output, (input, next)): (usize, (&ValueId, &ValueId))| {
        let start = x.node().input(first + output)?;
        Some(State { input: *input, next: *next, start, output })
    };
    pairs.enumerate().map(state).collect()
}

/// Returns whether a Loop takes `steps` iterations, by its number of iterations and its condition.
fn runs_to(x: &Expand, body: &Body, steps: &Dim) -> Result<bool> {
    let most = if x.has_input(0) { x.dims(0).ok().and_then(|list| list.first().cloned()) } else { None };
    if x.has_input(0) && most.is_none() {
        return Ok(false);
    }
    let starts = match x.node().input(1) {
        Some(condition) => body::is_met_at_first(x.graph(), condition, steps),
        None => true,
    };
    // A condition that ends the loop may be stated along with the number of iterations.
    let is_number = most.as_ref() == Some(steps);
    let is_above = most.as_ref().is_none_or(|most| most.known().is_some_and(|n| n >= i64::from(i32::MAX)));
    Ok(starts
        && match body.last_test(steps) {
            Some(body::Test::Never) => is_number,
            Some(body::Test::AtEnd) => is_number || is_above,
            None => false,
        })
}
