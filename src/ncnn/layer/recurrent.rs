//! Recurrent layers over a sequence along h. Initial and final states are optional bottoms and tops.

use super::shape::{Size, Sizes, Tops, differ};
use super::weight::{Expected, Reads, if_present, innermost, names_if_present, product};
use super::work::{self, Work};
use super::{OLDEST, between, layer, weight_len};
use crate::error::{At, Result, unsupported};
use crate::tensor::{Dim, Tensor};

/// Defines recurrent layers, which round the sequence and each hidden state to int8 by their ranges if their
/// weights have scales, from their arity and what they add to the shared params and weights: the numbers of
/// gates and biases, and the size of the cell if it is a param.
macro_rules! recurrent {
    ( $(
        $(#[$doc:meta])*
        $index:literal $name:ident($most:literal) {
            gates { $gates:literal $biases:literal }
            $( cell { $id:literal $size:ident $weight:ident } )?
        }
    )+ ) => { layer! { $(
        $(#[$doc])*
        $index $name(between(1, $most), between(1, $most)) {
            params {
                0 num_output: i32 = 0,
                /// 0 forward, 1 reverse, 2 bidirectional.
                2 direction: i32 = 0,
            }
            depends {
                $( $id $size: i32 = num_output, )?
            }
            derived {
                1 weight_data_size = |layer| weight_len(&layer.weight_xc_data),
                8 int8_scale_term = |layer| if layer.weight_xc_data_int8_scales.is_some() { 2 } else { 0 },
            }
            weights {
                Tagged weight_xc_data,
                Tagged bias_c_data,
                Tagged weight_hc_data,
                $( Tagged $weight, )?
                Raw weight_xc_data_int8_scales,
                Raw weight_hc_data_int8_scales,
            }
            reads { |l, bottom| {
                let mut reads = weights(bottom, l.direction, ($gates, $biases), l.cell(), l.num_output)?;
                reads.extend(int8_scales(&l.weight_xc_data_int8_scales, l.direction, $gates, l.cell())?);
                Ok(reads)
            } }
            tops { |l, bottoms, tops| recurrent(bottoms, l.direction, l.num_output, l.cell(), tops) }
            work { |l, work| steps(work, &[&l.weight_xc_data, &l.weight_hc_data, $( &l.$weight, )?]) }
            since { |layer| if layer.weight_xc_data_int8_scales.is_some() { 20240820 } else { OLDEST } }
            also {
                fn int8_weights(&self) -> &'static [&'static str] {
                    names_if_present(&self.weight_xc_data_int8_scales, &["weight_xc_data", "weight_hc_data"])
                }

                fn direction(&self) -> Option<i32> {
                    Some(self.direction)
                }
            }
        }
    )+ }

    $(
        impl $name {
            /// Returns the size of the cell.
            fn cell(&self) -> i32 {
                None $( .or(Some(self.$size)) )?.unwrap_or(self.num_output)
            }
        }
    )+ };
}

recurrent! {
    /// LSTM with the gates in the order I, F, O, G. Further bottoms and tops are the hidden state and the
    /// cell state, `[directions, size]`.
    39 LSTM(3) {
        gates { 4 4 }
        cell { 3 hidden_size weight_hr_data }
    }

    /// GRU with the gates in the order R, U, N and four biases, the last one of the recurrent part of N. The
    /// second bottom and top are the hidden state, `[directions, size]`.
    78 GRU(2) {
        gates { 3 4 }
    }

    /// Vanilla RNN. The second bottom and top are the hidden state, `[directions, size]`.
    38 RNN(2) {
        gates { 1 1 }
    }
}

/// The tops of a recurrent layer: the sequence, the hidden state and the cell state.
fn recurrent(
    bottoms: &[Sizes],
    direction: i32,
    num_output: i32,
    hidden_size: i32,
    tops: usize,
) -> Result<Tops> {
    let [steps, _] = *bottoms.at(0)?.as_slice() else { unsupported!("a sequence of {:?}", bottoms.first()) };
    let directions = Size::from(if direction == 2 { 2 } else { 1 });
    let (output, hidden) = (Size::from(num_output), Size::from(hidden_size));
    let mut all = vec![vec![steps, directions * output], vec![directions, output], vec![directions, hidden]];
    // A computed state has the form of the input state; each direction takes a row of it.
    for (computed, state) in all.iter_mut().zip(bottoms).skip(1) {
        let as_channel = [&[Size::from(1)], computed.as_slice()].concat();
        if directions == 1 && !differ(state, &as_channel) {
            *computed = as_channel;
        } else if differ(state, computed) {
            unsupported!("a state of {state:?}");
        }
    }
    all.truncate(tops);
    Ok(Some(all))
}

/// The weights of a recurrent layer with these numbers of gates and biases.
fn weights(bottom: &[Dim], direction: i32, (gates, biases): (i32, i32), hidden: i32, output: i32) -> Reads {
    let directions = if direction == 2 { 2 } else { 1 };
    let rows = product(&[directions, gates, hidden])?;
    let mut expected = vec![
        ("weight_xc_data", innermost(bottom).map(|input| rows.saturating_mul(input))),
        ("bias_c_data", Some(product(&[directions, biases, hidden])?)),
        ("weight_hc_data", Some(product(&[directions, gates, hidden, output])?)),
    ];
    if hidden != output {
        expected.push(("weight_hr_data", Some(product(&[directions, hidden, output])?)));
    }
    Ok(expected)
}

/// The scales of a recurrent layer that multiplies int8.
fn int8_scales(scales: &Option<Tensor>, direction: i32, gates: i32, hidden: i32) -> Result<Vec<Expected>> {
    let rows = Some(product(&[if direction == 2 { 2 } else { 1 }, gates, hidden])?);
    Ok(if_present(scales, &[("weight_xc_data_int8_scales", rows), ("weight_hc_data_int8_scales", rows)]))
}

/// The work of a recurrent layer: each weight is used once in each step.
fn steps(work: &Work, weights: &[&Option<Tensor>]) -> Option<u64> {
    let steps = *work.bottom(0)?.first()?;
    steps.checked_mul(weights.iter().map(|weight| work::weight_len(weight)).sum())
}
