//! Conversions between signals or images and the columns of their windows.

use super::shape::unknown;
use super::windowed::windowed;
use super::{exactly, layer};

windowed! {
    /// Adds columns at the positions of their windows: the inverse of [`Unfold`].
    95 Fold(exactly(1), 2) [] columns {
        params { 20 output_w: i32 = 0, }
        depends { 21 output_h: i32 = output_w, }
    }

    /// A column for each window: `[c * kernel_h * kernel_w, windows]`.
    96 Unfold(exactly(1), 2) [Gpu] columns {
        params { 18 pad_value: f32 = 0.0, }
    }
}

layer! {
    /// The short-time Fourier transform of a signal.
    105 Spectrogram(exactly(1), exactly(1)) {
        params {
            0 n_fft: i32 = 0,
            /// 0: complex, with w of 2; 1: magnitude; 2: squared magnitude.
            1 power: i32 = 0,
            /// 0 ones, 1 Hann, 2 Hamming.
            4 window_type: i32 = 0,
            5 center: i32 = 1,
            /// 0 constant, 1 replicate, 2 reflect.
            6 pad_type: i32 = 2,
            7 normalized: i32 = 0,
            8 onesided: i32 = 1,
        }
        depends {
            3 winlen: i32 = n_fft,
        }
        always {
            2 hoplen: i32 = 0 => |layer| layer.n_fft / 4,
        }
        tops { unknown }
        since { |_| 20241226 }
    }

    /// The inverse of [`Spectrogram`].
    106 InverseSpectrogram(exactly(1), exactly(1)) {
        params {
            0 n_fft: i32 = 0,
            1 returns: i32 = 0,
            4 window_type: i32 = 0,
            5 center: i32 = 1,
            7 normalized: i32 = 0,
        }
        depends {
            3 winlen: i32 = n_fft,
        }
        always {
            2 hoplen: i32 = 0 => |layer| layer.n_fft / 4,
        }
        tops { unknown }
        since { |_| 20241226 }
    }
}
