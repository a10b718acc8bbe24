//! Layers that move, copy or leave out elements.

use super::{EXPRESSIONS, MANY, OLDEST, between, exactly, layer, weight_len};

layer! {
    /// Elements as another type: 0 unknown, 1 float32, 2 float16, 3 int8, 4 bfloat16.
    Cast(exactly(1), exactly(1)) {
        params {
            0 type_from: i32 = 0,
            1 type_to: i32 = 0,
        }
    }
}

layer! {
    /// Blobs one after the other along an axis.
    Concat(MANY, exactly(1)) {
        params {
            0 axis: i32 = 0,
        }
    }
}

layer! {
    /// The second bottom written into the first, at offsets.
    CopyTo(exactly(2), exactly(1)) {
        params {
            0 woffset: i32 = 0,
            1 hoffset: i32 = 0,
            2 coffset: i32 = 0,
            9 starts: Vec<i32> = Vec::new(),
            11 axes: Vec<i32> = Vec::new(),
            13 doffset: i32 = 0,
        }
    }
}

layer! {
    /// A part of a blob: by offsets and sizes, or as numpy's slices by `starts`, `ends` and `axes`, or of the size of the second bottom.
    Crop(between(1, 32), exactly(1)) {
        params {
            0 woffset: i32 = 0,
            1 hoffset: i32 = 0,
            2 coffset: i32 = 0,
            /// -233: all that is left.
            3 outw: i32 = 0,
            4 outh: i32 = 0,
            5 outc: i32 = 0,
            /// The elements cropped at the end, if `outw` is -233.
            6 woffset2: i32 = 0,
            7 hoffset2: i32 = 0,
            8 coffset2: i32 = 0,
            9 starts: Vec<i32> = Vec::new(),
            10 ends: Vec<i32> = Vec::new(),
            11 axes: Vec<i32> = Vec::new(),
            13 doffset: i32 = 0,
            14 outd: i32 = 0,
            15 doffset2: i32 = 0,
            /// The same as expressions over the bottoms.
            19 starts_expr: String = String::new(),
            20 ends_expr: String = String::new(),
            21 axes_expr: String = String::new(),
        }
        since { |layer| {
            let expressions = [&layer.starts_expr, &layer.ends_expr, &layer.axes_expr];
            if expressions.iter().all(|text| text.is_empty()) { OLDEST } else { EXPRESSIONS }
        } }
    }
}

layer! {
    /// Sums of the elements up to each along an axis.
    CumulativeSum(exactly(1), exactly(1)) {
        params {
            0 axis: i32 = 0,
        }
    }
}

layer! {
    /// A copy in memory of its own.
    DeepCopy(exactly(1), exactly(1)) {
        params {}
    }
}

layer! {
    /// 32-bit integers as float32, times a scale.
    Dequantize(exactly(1), exactly(1)) {
        params {}
        derived {
            0 scale_data_size(1) = |layer| weight_len(&layer.scale_data),
            1 bias_data_size = |layer| weight_len(&layer.bias_data),
        }
        weights {
            Raw scale_data,
            Raw bias_data,
        }
    }
}

layer! {
    /// A diagonal of a matrix, or a matrix with this diagonal.
    Diag(exactly(1), exactly(1)) {
        params {
            0 diagonal: i32 = 0,
        }
    }
}

layer! {
    /// Further axes of size 1.
    ExpandDims(exactly(1), exactly(1)) {
        params {
            3 axes: Vec<i32> = Vec::new(),
        }
    }
}

layer! {
    /// One axis.
    Flatten(exactly(1), exactly(1)) {
        params {}
    }
}

layer! {
    /// The reverse order along axes.
    Flip(exactly(1), exactly(1)) {
        params {
            0 axes: Vec<i32> = Vec::new(),
        }
        since { |_| 20250916 }
    }
}

layer! {
    /// Elements around a blob.
    Padding(exactly(1), exactly(1)) {
        params {
            0 top: i32 = 0,
            1 bottom: i32 = 0,
            2 left: i32 = 0,
            3 right: i32 = 0,
            /// `type` in ncnn: 0 constant, 1 replicate, 2 reflect.
            4 type_: i32 = 0,
            5 value: f32 = 0.0,
            7 front: i32 = 0,
            8 behind: i32 = 0,
        }
        derived {
            6 per_channel_pad_data_size = |layer| weight_len(&layer.per_channel_pad_data),
        }
        weights {
            Raw per_channel_pad_data,
        }
    }
}

layer! {
    /// Blocks of channels to blocks of places.
    PixelShuffle(exactly(1), exactly(1)) {
        params {
            0 upscale_factor: i32 = 1,
            /// 0: the channel is the outermost part (CRD), 1: the innermost (DCR).
            1 mode: i32 = 0,
        }
    }
}

layer! {
    /// Blocks of places to blocks of channels.
    Reorg(exactly(1), exactly(1)) {
        params {
            0 stride: i32 = 1,
            1 mode: i32 = 0,
        }
    }
}

layer! {
    /// Channels as groups, transposed.
    ShuffleChannel(exactly(1), exactly(1)) {
        params {
            0 group: i32 = 1,
            1 reverse: i32 = 0,
        }
    }
}

layer! {
    /// Parts of a blob along an axis.
    Slice(exactly(1), MANY) {
        params {
            /// Sizes; -233: an equal part of what is left.
            0 slices: Vec<i32> = Vec::new(),
            1 axis: i32 = 0,
            /// Where to cut, instead of sizes.
            2 indices: Vec<i32> = Vec::new(),
        }
    }
}

layer! {
    /// Without axes of size 1.
    Squeeze(exactly(1), exactly(1)) {
        params {
            0 squeeze_w: i32 = 0,
            1 squeeze_h: i32 = 0,
            2 squeeze_c: i32 = 0,
            3 axes: Vec<i32> = Vec::new(),
            11 squeeze_d: i32 = 0,
        }
    }
}

layer! {
    /// A blob several times along one axis, or along all axes by `repeats`.
    Tile(exactly(1), exactly(1)) {
        params {
            0 axis: i32 = 0,
            1 tiles: i32 = 1,
            2 repeats: Vec<i32> = Vec::new(),
        }
    }
}
