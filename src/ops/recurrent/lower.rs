//! Lowering of one sequence to ncnn's recurrent layers.

use super::length::{Lengths, read_lengths};
use super::node::{Cell, Sizes, input, is_zero, lacking, read_recurrent, sizes, state_shape};
use super::weight;
use crate::ncnn::layer::{GRU, LSTM, Layer, RNN};
use crate::ops::prelude::*;
use crate::pass::quantized::{INT8_GRU, INT8_LSTM};

/// Returns ncnn's `direction` param.
fn direction(reverse: &[bool]) -> i32 {
    match reverse {
        [false] => 0,
        [true] => 1,
        _ => 2,
    }
}

pub(super) fn lower_recurrent(lower: &Lower, cell: Cell) -> Result<()> {
    let recurrent = read_recurrent(lower, cell)?;
    let sizes = sizes(lower, &recurrent)?;
    let is_whole = matches!(read_lengths(lower, &sizes.steps), Lengths::All);
    let lacks = match lacking(lower, &recurrent)? {
        None if !sizes.batch.is(1) => Some("several sequences"),
        None if !is_whole => Some("sequences of other lengths"),
        lacks => lacks,
    };
    if let Some(lacks) = lacks {
        unsupported!("ncnn's {} lacks {lacks}", lower.op_type());
    }
    let Sizes { steps, input: width, hidden, .. } = &sizes;
    let directions = recurrent.reverse.len();
    let xc = weight::matrix(cell, lower.required_constant(input::W)?)?;
    let bias_c_data =
        Some(weight::bias(cell, lower.constant(input::B), directions, usize::try_from(*hidden)?)?);
    let hc = weight::matrix(cell, lower.required_constant(input::R)?)?;
    let is_int8 = [INT8_GRU, INT8_LSTM].contains(&lower.op_type());
    let stored = |weight: Tensor| -> Result<[Option<Tensor>; 2]> {
        Ok(if is_int8 { weight::int8_rows(&weight)?.map(Some) } else { [Some(weight), None] })
    };
    let [weight_xc_data, weight_xc_data_int8_scales] = stored(xc)?;
    let [weight_hc_data, weight_hc_data_int8_scales] = stored(hc)?;
    let num_output = i32::try_from(*hidden)?;
    let direction = direction(&recurrent.reverse);
    let layer: Layer = match cell {
        Cell::Gru => GRU {
            num_output,
            direction,
            weight_xc_data,
            bias_c_data,
            weight_hc_data,
            weight_xc_data_int8_scales,
            weight_hc_data_int8_scales,
        }
        .into(),
        Cell::Lstm => LSTM {
            num_output,
            hidden_size: num_output,
            direction,
            weight_xc_data,
            bias_c_data,
            weight_hc_data,
            weight_xc_data_int8_scales,
            weight_hc_data_int8_scales,
            ..LSTM::default()
        }
        .into(),
        Cell::Rnn => {
            RNN { num_output, direction, weight_xc_data, bias_c_data, weight_hc_data, ..RNN::default() }
                .into()
        }
    };
    let state = state_shape(&recurrent, &sizes);
    let mut bottoms = vec![lower.input(input::X).reshape([steps.clone(), width.clone()])];
    bottoms.extend(initial_states(lower, cell, &state)?);
    let mut tops: Vec<Shape> = vec![[steps.clone(), Dim::from(directions) * *hidden].into()];
    // The runtime returns all states or none (`forward` of `lstm.cpp`, `gru.cpp`, `rnn.cpp`).
    if lower.has_output(1) || lower.has_output(2) {
        tops.push(state.clone());
        if cell == Cell::Lstm {
            tops.push(state);
        }
    }
    let tops = lower.layer_n(lower.newer(layer), &bottoms, &tops);
    tops.into_iter().enumerate().try_for_each(|(index, top)| lower.give(index, top))
}

/// Returns the initial states, or none if all are 0.
fn initial_states<'l>(lower: &'l Lower, cell: Cell, shape: &Shape) -> Result<Vec<Nd<'l>>> {
    let indices: &[usize] =
        if cell == Cell::Lstm { &[input::INITIAL_H, input::INITIAL_C] } else { &[input::INITIAL_H] };
    let zero = indices.iter().map(|index| is_zero(lower, *index)).collect::<Result<Vec<_>>>()?;
    if !zero.contains(&false) {
        return Ok(Vec::new());
    }
    let state = |index: &usize| {
        if lower.has_input(*index) {
            return Ok(lower.input(*index).reshape(shape.clone()));
        }
        let sizes = Dim::known_sizes(shape).ok_or_else(|| Error::internal("a state of free size"))?;
        Ok(lower.tensor(Tensor::all(0.0, sizes)))
    };
    indices.iter().map(state).collect()
}
