//! Recurrent layers over a sequence along h. Initial and final states are optional bottoms and tops.

use super::shape::{Size, Sizes, Tops, differ};
use super::{between, layer, weight_len};
use crate::error::{At, Result, unsupported};

layer! {
    /// LSTM with the gates in the order I, F, O, G. Further bottoms and tops are the hidden state and the
    /// cell state, `[directions, size]`.
    LSTM(between(1, 3), between(1, 3)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 bidirectional.
            2 direction: i32 = 0,
        }
        depends {
            3 hidden_size: i32 = num_output,
        }
        derived {
            1 weight_data_size = |layer| weight_len(&layer.weight_xc_data),
        }
        weights {
            Tagged weight_xc_data,
            Tagged bias_c_data,
            Tagged weight_hc_data,
            Tagged weight_hr_data,
        }
        tops { |l, bottoms, tops| recurrent(bottoms, l.direction, l.num_output, l.hidden_size, tops) }
    }

    /// GRU with the gates in the order R, U, N and four biases, the last one of the recurrent part of N. The
    /// second bottom and top are the hidden state, `[directions, size]`.
    GRU(between(1, 2), between(1, 2)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 bidirectional.
            2 direction: i32 = 0,
        }
        derived {
            1 weight_data_size = |layer| weight_len(&layer.weight_xc_data),
        }
        weights {
            Tagged weight_xc_data,
            Tagged bias_c_data,
            Tagged weight_hc_data,
        }
        tops { |l, bottoms, tops| recurrent(bottoms, l.direction, l.num_output, l.num_output, tops) }
    }

    /// Vanilla RNN. The second bottom and top are the hidden state, `[directions, size]`.
    RNN(between(1, 2), between(1, 2)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 bidirectional.
            2 direction: i32 = 0,
        }
        derived {
            1 weight_data_size = |layer| weight_len(&layer.weight_xc_data),
        }
        weights {
            Tagged weight_xc_data,
            Tagged bias_c_data,
            Tagged weight_hc_data,
        }
        tops { |l, bottoms, tops| recurrent(bottoms, l.direction, l.num_output, l.num_output, tops) }
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
    // A computed state has the form of the given one; each direction takes a row of it.
    for (computed, given) in all.iter_mut().zip(bottoms).skip(1) {
        let as_channel = [&[Size::from(1)], computed.as_slice()].concat();
        if directions == 1 && !differ(given, &as_channel) {
            *computed = as_channel;
        } else if differ(given, computed) {
            unsupported!("a state of {given:?}");
        }
    }
    all.truncate(tops);
    Ok(Some(all))
}
