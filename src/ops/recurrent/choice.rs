//! The choice between ncnn's layer, which takes one row of one sequence after the other, and steps of
//! products over all sequences.

use super::length::{Lengths, read_lengths};
use super::node::{Cell, Recurrent, Sizes};
use crate::ncnn::Cost;
use crate::ops::prelude::*;

/// The maximum number of steps of a direction that are unrolled although the layer computes the node. The
/// runtime recurses over the steps of a sequence that begins with the last: 256 take 300 KB of the stack.
const MAX_STEPS: u64 = 256;

/// The number that is assumed for a free number of sequences: the geometric mean of 1, at which the layer is
/// faster, and [`USUAL_SIZE`](crate::ncnn::USUAL_SIZE), at which steps are. A batch of inputs is not
/// free but 1.
const USUAL_BATCH: i64 = 16;

/// The layers around the recurrent one that join the sequences.
const JOINING: u64 = 9;

/// The nanoseconds of a row of the layer, and of an element of its state.
const ROW: u64 = 800;
/// See [`ROW`].
const STATE: u64 = 25;

/// The nanoseconds of a hundred multiply-adds of products over several rows.
const PRODUCTS: u64 = 3;

/// The rows of a product that take as long as packing a matrix that is a blob.
const PACKING: u64 = 4;

/// The elements of a row that take as long as the row itself, over which layers loop.
const ROW_START: u64 = 16;

/// The layers that end sequences at a step.
const MASKS: u64 = 6;

impl Cell {
    /// Returns the nanoseconds of a hundred multiply-adds of the layer.
    fn nanoseconds(self) -> u64 {
        match self {
            Cell::Lstm => 5,
            Cell::Gru => 15,
            Cell::Rnn => 22,
        }
    }

    /// Returns the layers of a step.
    fn layers(self) -> u64 {
        match self {
            Cell::Lstm => 13,
            Cell::Gru => 15,
            Cell::Rnn => 4,
        }
    }
}

/// Returns whether steps of products take less time than the layer, once over all sequences if they can be
/// `joined`, else once for each.
pub(super) fn are_steps_faster(
    call: &Call,
    recurrent: &Recurrent,
    sizes: &Sizes,
    joined: bool,
) -> Result<bool> {
    let cell = recurrent.cell;
    let batch = Dim::Known(sizes.batch.known().unwrap_or(USUAL_BATCH));
    let known = [&sizes.steps, &batch, &sizes.input, &Dim::Known(sizes.hidden)];
    let Some([steps, batch, width, hidden]) =
        Dim::known_sizes(known).and_then(|sizes| <[u64; 4]>::try_from(sizes).ok())
    else {
        return Ok(false);
    };
    if batch < 2 || steps > MAX_STEPS {
        return Ok(false);
    }
    let directions = u64::try_from(recurrent.reverse.len())?;
    let steps = steps.saturating_mul(directions);
    let gates = u64::try_from(cell.gates())?.saturating_mul(hidden);
    let product =
        |rows: u64, columns: u64| steps.saturating_mul(rows).saturating_mul(columns).saturating_mul(gates);
    let multiply_adds =
        |count: u64, each: u64| Cost { scalars: count.saturating_mul(each) / 100, ..Cost::default() };
    let rows = steps.saturating_add(directions).saturating_mul(batch);
    let layer = multiply_adds(product(batch, width.saturating_add(hidden)), cell.nanoseconds())
        + multiply_adds(rows, STATE.saturating_mul(hidden).saturating_add(ROW).saturating_mul(100))
        + if joined {
            Cost { layers: JOINING, ..Cost::default() }
        } else {
            Cost::constants(gates.saturating_mul(width.saturating_add(hidden)).saturating_mul(directions))
                * batch
        };
    let masks = match read_lengths(call, &sizes.steps) {
        Lengths::All => 0,
        _ => MASKS,
    };
    let layers = steps.saturating_mul(cell.layers() + masks);
    let products = Cost::passes(layers, batch.saturating_mul(hidden.saturating_add(ROW_START)))
        + multiply_adds(product(batch, width), PRODUCTS)
        + multiply_adds(product(batch.saturating_add(PACKING), hidden), PRODUCTS);
    Ok(products.nanoseconds() < layer.nanoseconds())
}
