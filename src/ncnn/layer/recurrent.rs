//! Recurrent layers: a sequence along h in, a sequence along h out; states may come in and go out as further blobs.

use super::{between, layer, weight_len};

layer! {
    /// Gates in the order I, F, O, G. Further bottoms and tops are the hidden state and the cell state, `[directions, size]`.
    LSTM(between(1, 3), between(1, 3)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 both.
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
    }
}

layer! {
    /// Gates in the order R, U, N; four biases, the last one is of the recurrent part of N. The second bottom and top are the
    /// hidden state, `[directions, size]`.
    GRU(between(1, 2), between(1, 2)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 both.
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
    }
}

layer! {
    /// The second bottom and top are the hidden state, `[directions, size]`.
    RNN(between(1, 2), between(1, 2)) {
        params {
            0 num_output: i32 = 0,
            /// 0 forward, 1 reverse, 2 both.
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
    }
}
