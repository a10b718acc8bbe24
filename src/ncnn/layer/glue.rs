//! Layers that bring data in, copy it, or move it without computing.

use super::{EXPRESSIONS, MANY, OLDEST, between, exactly, layer};

layer! {
    /// A blob that the user gives.
    Input(exactly(0), exactly(1)) {
        params {
            0 w: i32 = 0,
            1 h: i32 = 0,
            2 c: i32 = 0,
            11 d: i32 = 0,
        }
    }
}

layer! {
    /// A constant blob.
    MemoryData(exactly(0), exactly(1)) {
        params {
            0 w: i32 = 0,
            1 h: i32 = 0,
            2 c: i32 = 0,
            11 d: i32 = 0,
            21 load_type: i32 = 1,
        }
        weights {
            // Behind a tag where `load_type` is 0.
            Raw data,
        }
    }
}

layer! {
    /// Copies of one blob by reference: a blob may be read once only.
    Split(exactly(1), MANY) {
        params {}
    }
}

layer! {
    /// The blob as it is.
    Noop(exactly(1), exactly(1)) {
        params {}
    }
}

layer! {
    /// Another shape for the same elements: -1 for the axis that is left over, 0 for the size of the same axis of the bottom.
    Reshape(between(1, 32), exactly(1)) {
        params {
            0 w: i32 = -233,
            1 h: i32 = -233,
            2 c: i32 = -233,
            /// Sizes as expressions over the bottoms, innermost first.
            6 shape_expr: String = String::new(),
            11 d: i32 = -233,
        }
        since { |layer| if layer.shape_expr.is_empty() { OLDEST } else { EXPRESSIONS } }
    }
}

layer! {
    /// Another order of the axes; `order_type` numbers the orders of two, three or four axes.
    Permute(exactly(1), exactly(1)) {
        params {
            0 order_type: i32 = 0,
        }
    }
}
