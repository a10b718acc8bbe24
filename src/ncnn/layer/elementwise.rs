//! Elementwise layers.

use super::shape::{Sizes, Tops, differ, one, product};
use super::{OLDEST, between, exactly, exceeds_half, layer};
use crate::error::{At, Result, unsupported};

layer! {
    /// Arithmetic on two blobs of the same number of axes, or on a blob and the constant `b`.
    40 BinaryOp(between(1, 2), exactly(1)) [Gpu] {
        params {
            /// See [`binary_op`].
            0 op_type: i32 = 0,
            1 with_scalar: i32 = 0,
            2 b: f32 = 0.0,
        }
        tops { BinaryOp::top }
        since { |layer| if layer.op_type > binary_op::RATAN2 { 20260526 } else { OLDEST } }
        also {
            fn exceeds_half(&self) -> bool {
                let bounds = matches!(self.op_type, binary_op::MAX | binary_op::MIN);
                self.with_scalar != 0 && !bounds && exceeds_half(self.b)
            }

            fn is_function(&self) -> bool {
                self.with_scalar != 0
            }
        }
    }
}

impl BinaryOp {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let a = bottoms.at(0)?;
        if self.with_scalar != 0 {
            if bottoms.len() != 1 {
                unsupported!("a constant and {} bottoms", bottoms.len());
            }
            return one(a.as_slice());
        }
        let b = bottoms.at(1)?;
        let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
        if short.len() != long.len() {
            // `BinaryOp::forward` aligns the outermost axes, except for one element.
            let one_axis = matches!((short.as_slice(), long.first()), ([n], Some(c)) if !n.differs(*c));
            if one_axis || !product(short).differs(1) {
                return one(long.as_slice());
            }
            unsupported!("bottoms of {a:?} and {b:?}: ncnn aligns the outermost axes");
        }
        match a.iter().zip(b).map(|(x, y)| x.broadcast(*y)).collect::<Option<Sizes>>() {
            Some(sizes) => one(sizes),
            None => unsupported!("bottoms of {a:?} and {b:?}"),
        }
    }
}

/// Values of `BinaryOp::op_type`; those from `FMOD` on require release 20260526.
#[allow(missing_docs)] // The names are from ncnn's `binaryop.h`.
pub mod binary_op {
    pub const ADD: i32 = 0;
    pub const SUB: i32 = 1;
    pub const MUL: i32 = 2;
    pub const DIV: i32 = 3;
    pub const MAX: i32 = 4;
    pub const MIN: i32 = 5;
    pub const POW: i32 = 6;
    pub const RSUB: i32 = 7;
    pub const RDIV: i32 = 8;
    pub const RPOW: i32 = 9;
    pub const ATAN2: i32 = 10;
    pub const RATAN2: i32 = 11;
    pub const FMOD: i32 = 12;
    pub const RFMOD: i32 = 13;
    pub const LOGADDEXP: i32 = 14;
    pub const FLOOR_DIVIDE: i32 = 15;
    pub const RFLOOR_DIVIDE: i32 = 16;
    pub const REMAINDER: i32 = 17;
    pub const RREMAINDER: i32 = 18;
}

layer! {
    /// A function of each element.
    41 UnaryOp(exactly(1), exactly(1)) [Gpu Function] {
        params {
            /// See [`unary_op`].
            0 op_type: i32 = 0,
        }
        since { |layer| if layer.op_type > unary_op::TRUNC { 20260526 } else { OLDEST } }
    }
}

/// Values of `UnaryOp::op_type`; those from `SIGN` on require release 20260526.
#[allow(missing_docs)] // The names are from ncnn's `unaryop.h`.
pub mod unary_op {
    pub const ABS: i32 = 0;
    pub const NEG: i32 = 1;
    pub const FLOOR: i32 = 2;
    pub const CEIL: i32 = 3;
    pub const SQUARE: i32 = 4;
    pub const SQRT: i32 = 5;
    pub const RSQRT: i32 = 6;
    pub const EXP: i32 = 7;
    pub const LOG: i32 = 8;
    pub const SIN: i32 = 9;
    pub const COS: i32 = 10;
    pub const TAN: i32 = 11;
    pub const ASIN: i32 = 12;
    pub const ACOS: i32 = 13;
    pub const ATAN: i32 = 14;
    pub const RECIPROCAL: i32 = 15;
    pub const TANH: i32 = 16;
    pub const LOG10: i32 = 17;
    pub const ROUND: i32 = 18;
    pub const TRUNC: i32 = 19;
    pub const SIGN: i32 = 20;
    pub const EXPM1: i32 = 21;
    pub const SINH: i32 = 22;
    pub const ASINH: i32 = 23;
    pub const COSH: i32 = 24;
    pub const ACOSH: i32 = 25;
    pub const ATANH: i32 = 26;
    pub const LOG1P: i32 = 27;
}

layer! {
    /// The product, weighted sum or maximum of blobs of one shape.
    10 Eltwise(between(2, usize::MAX), exactly(1)) [Gpu] {
        params {
            /// 0 product, 1 sum, 2 maximum.
            0 op_type: i32 = 0,
            /// Weights of the sum.
            1 coeffs: Vec<f32> = Vec::new(),
        }
        tops { Eltwise::top }
    }
}

impl Eltwise {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let first = bottoms.at(0)?;
        if bottoms.iter().any(|sizes| differ(sizes, first)) {
            unsupported!("bottoms of {bottoms:?}");
        }
        one(first.as_slice())
    }
}

layer! {
    /// `max(x, 0) + slope * min(x, 0)`.
    26 ReLU(exactly(1), exactly(1)) [Gpu Function] {
        params {
            0 slope: f32 = 0.0,
        }
    }
}
