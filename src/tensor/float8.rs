//! Floats of eight bits and fewer (<https://onnx.ai/onnx/technical/float8.html>).

use num_traits::AsPrimitive;

use super::DType;

/// Layout of a small float.
struct Layout {
    mantissa_bits: u32,
    exponent_bits: u32,
    bias: i32,
    /// The bytes (without the sign) from which on there are only infinities and NaN.
    first_special: u8,
    has_infinity: bool,
    /// `fnuz`: the byte of negative zero is the only NaN.
    unsigned_zero: bool,
}

fn layout(dtype: DType) -> Layout {
    let (mantissa_bits, exponent_bits, bias, first_special, has_infinity, unsigned_zero) = match dtype {
        DType::F8E4M3FN => (3, 4, 7, 0x7f, false, false),
        DType::F8E4M3FNUZ => (3, 4, 8, 0x80, false, true),
        DType::F8E5M2 => (2, 5, 15, 0x7c, true, false),
        DType::F8E5M2FNUZ => (2, 5, 16, 0x80, false, true),
        DType::F6E2M3 => (3, 2, 1, 0x20, false, false),
        DType::F6E3M2 => (2, 3, 3, 0x20, false, false),
        // float4e2m1, as those of six bits, has neither infinities nor NaN.
        _ => (1, 2, 1, 0x08, false, false),
    };
    Layout { mantissa_bits, exponent_bits, bias, first_special, has_infinity, unsigned_zero }
}

/// The value of one encoded element.
pub fn decode(byte: u8, dtype: DType) -> f32 {
    if dtype == DType::F8E8M0 {
        return if byte == 0xff { f32::NAN } else { 2_f32.powi(i32::from(byte) - 127) };
    }
    let l = layout(dtype);
    let sign_bit = 1_u8.wrapping_shl(l.mantissa_bits + l.exponent_bits);
    let magnitude = byte & sign_bit.wrapping_sub(1);
    let negative = byte & sign_bit != 0;
    if l.unsigned_zero && negative && magnitude == 0 {
        return f32::NAN;
    }
    let value = if magnitude >= l.first_special {
        if l.has_infinity && magnitude == l.first_special { f32::INFINITY } else { f32::NAN }
    } else {
        let fraction = magnitude & 1_u8.wrapping_shl(l.mantissa_bits).wrapping_sub(1);
        let exponent = i32::from(magnitude.wrapping_shr(l.mantissa_bits));
        let steps: i32 = l.mantissa_bits.as_();
        let fraction = f32::from(fraction) / 2_f32.powi(steps);
        if exponent == 0 {
            fraction * 2_f32.powi(1 - l.bias)
        } else {
            (1.0 + fraction) * 2_f32.powi(exponent - l.bias)
        }
    };
    if negative { -value } else { value }
}

/// The nearest element, ties to the even one, saturated at the largest finite value.
pub fn encode(value: f32, dtype: DType) -> u8 {
    if dtype == DType::F8E8M0 {
        let exponent: i32 = value.abs().log2().round().as_();
        return if value.is_nan() { 0xff } else { u8::try_from((exponent + 127).clamp(0, 254)).unwrap_or(0) };
    }
    let l = layout(dtype);
    let sign_bit = 1_u8.wrapping_shl(l.mantissa_bits + l.exponent_bits);
    if value.is_nan() {
        return if l.unsigned_zero { sign_bit } else { sign_bit.wrapping_sub(1) };
    }
    let magnitude = value.abs();
    let mut best = 0_u8;
    for candidate in 0..l.first_special.min(sign_bit) {
        let (new, old) = (decode(candidate, dtype) - magnitude, decode(best, dtype) - magnitude);
        if new.abs() < old.abs() || (new.abs() == old.abs() && candidate % 2 == 0) {
            best = candidate;
        }
    }
    if value.is_infinite() && l.has_infinity {
        best = l.first_special;
    }
    if value.is_sign_negative() && !(l.unsigned_zero && best == 0) { best | sign_bit } else { best }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        for (byte, dtype, value) in [
            (0x7e, DType::F8E4M3FN, 448.0),
            (0x01, DType::F8E4M3FN, 0.001_953_125),
            (0x7f, DType::F8E4M3FNUZ, 240.0),
            (0x7b, DType::F8E5M2, 57344.0),
            (0x7f, DType::F8E5M2FNUZ, 57344.0),
            (0x07, DType::F4E2M1, 6.0),
            (0x1f, DType::F6E2M3, 7.5),
            (0x21, DType::F6E2M3, -0.125),
            (0x1f, DType::F6E3M2, 28.0),
            (0x01, DType::F6E3M2, 0.0625),
            (0x80, DType::F8E8M0, 2.0),
        ] {
            assert_eq!(decode(byte, dtype), value, "{dtype} {byte:#x}");
            assert_eq!(encode(value, dtype), byte, "{dtype} {value}");
        }
        assert!(decode(0x7f, DType::F8E4M3FN).is_nan());
        assert!(decode(0x80, DType::F8E5M2FNUZ).is_nan());
        assert_eq!(decode(0xfc, DType::F8E5M2), f32::NEG_INFINITY);
    }
}
