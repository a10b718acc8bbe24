//! Element types, as in ONNX's `TensorProto.DataType`.

use std::fmt;

/// The element type of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DType {
    /// IEEE binary32.
    F32,
    /// IEEE binary64.
    F64,
    /// IEEE binary16.
    F16,
    /// The upper half of an IEEE binary32.
    BF16,
    /// Eight bits: 4 exponent, 3 mantissa, no infinities.
    F8E4M3FN,
    /// As `F8E4M3FN` with another bias and no negative zero.
    F8E4M3FNUZ,
    /// Eight bits: 5 exponent, 2 mantissa.
    F8E5M2,
    /// As `F8E5M2` with another bias, no infinities and no negative zero.
    F8E5M2FNUZ,
    /// Four bits: 2 exponent, 1 mantissa.
    F4E2M1,
    /// Six bits: 2 exponent, 3 mantissa.
    F6E2M3,
    /// Six bits: 3 exponent, 2 mantissa.
    F6E3M2,
    /// An exponent of eight bits: a power of two.
    F8E8M0,
    /// Signed, 2 bits.
    I2,
    /// Signed, 4 bits.
    I4,
    /// Signed, 8 bits.
    I8,
    /// Signed, 16 bits.
    I16,
    /// Signed, 32 bits.
    I32,
    /// Signed, 64 bits.
    I64,
    /// Unsigned, 2 bits.
    U2,
    /// Unsigned, 4 bits.
    U4,
    /// Unsigned, 8 bits.
    U8,
    /// Unsigned, 16 bits.
    U16,
    /// Unsigned, 32 bits.
    U32,
    /// Unsigned, 64 bits.
    U64,
    /// One byte, 0 or 1.
    Bool,
    /// A string.
    String,
    /// Two float32 values.
    C64,
    /// Two float64 values.
    C128,
}

use DType::*;

const TABLE: &[(DType, i32, &str, usize)] = &[
    (F32, 1, "float", 32),
    (U8, 2, "uint8", 8),
    (I8, 3, "int8", 8),
    (U16, 4, "uint16", 16),
    (I16, 5, "int16", 16),
    (I32, 6, "int32", 32),
    (I64, 7, "int64", 64),
    (String, 8, "string", 0),
    (Bool, 9, "bool", 8),
    (F16, 10, "float16", 16),
    (F64, 11, "double", 64),
    (U32, 12, "uint32", 32),
    (U64, 13, "uint64", 64),
    (C64, 14, "complex64", 64),
    (C128, 15, "complex128", 128),
    (BF16, 16, "bfloat16", 16),
    (F8E4M3FN, 17, "float8e4m3fn", 8),
    (F8E4M3FNUZ, 18, "float8e4m3fnuz", 8),
    (F8E5M2, 19, "float8e5m2", 8),
    (F8E5M2FNUZ, 20, "float8e5m2fnuz", 8),
    (U4, 21, "uint4", 4),
    (I4, 22, "int4", 4),
    (F4E2M1, 23, "float4e2m1", 4),
    (F8E8M0, 24, "float8e8m0", 8),
    (U2, 25, "uint2", 2),
    (I2, 26, "int2", 2),
    (F6E2M3, 27, "float6e2m3", 6),
    (F6E3M2, 28, "float6e3m2", 6),
];

impl DType {
    /// Returns the type of a code of `TensorProto.DataType`.
    pub fn from_onnx(code: i32) -> Option<DType> {
        TABLE.iter().find(|row| row.1 == code).map(|row| row.0)
    }

    /// Returns the type of a name in ONNX's text format.
    pub fn from_name(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.2 == name).map(|row| row.0)
    }

    fn row(self) -> (i32, &'static str, usize) {
        TABLE.iter().find(|row| row.0 == self).map_or((0, "undefined", 0), |row| (row.1, row.2, row.3))
    }

    /// Returns the code of `TensorProto.DataType`.
    pub fn to_onnx(self) -> i32 {
        self.row().0
    }

    /// Returns the name in ONNX's text format, as in `tensor(float)`.
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the bits of an element; 0 for strings.
    pub fn bits(self) -> usize {
        self.row().2
    }

    /// Returns the bytes of `count` elements; types under 8 bits are packed, low bits first. `None` on
    /// overflow.
    pub fn byte_len(self, count: usize) -> Option<usize> {
        Some(count.checked_mul(self.bits())?.div_ceil(8))
    }

    /// Returns whether elements are floats.
    pub fn is_float(self) -> bool {
        matches!(
            self,
            F32 | F64
                | F16
                | BF16
                | F8E4M3FN
                | F8E4M3FNUZ
                | F8E5M2
                | F8E5M2FNUZ
                | F4E2M1
                | F6E2M3
                | F6E3M2
                | F8E8M0
        )
    }

    /// Returns whether elements are integers, signed or unsigned.
    pub fn is_int(self) -> bool {
        self.int_range().is_some() && self != Bool
    }

    /// Returns whether elements are integers of at most 16 bits, all of which float32 represents.
    pub(crate) fn is_narrow_int(self) -> bool {
        self.is_int() && self.bits() <= 16
    }

    /// Returns whether elements are integers of which float32 does not represent all.
    pub(crate) fn is_wide_int(self) -> bool {
        self.is_int() && !self.is_narrow_int()
    }

    /// Returns whether elements are unsigned integers.
    pub fn is_unsigned(self) -> bool {
        matches!(self, U2 | U4 | U8 | U16 | U32 | U64)
    }

    /// Returns the smallest and the largest value of an integer or bool type.
    pub fn int_range(self) -> Option<(i128, i128)> {
        let bits = self.bits();
        match self {
            Bool => Some((0, 1)),
            U2 | U4 | U8 | U16 | U32 | U64 => Some((0, (1_i128 << bits) - 1)),
            I2 | I4 | I8 | I16 | I32 | I64 => Some((-(1_i128 << (bits - 1)), (1_i128 << (bits - 1)) - 1)),
            _ => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
