//! Floats of at most eight bits.
//!
//! Spec: <https://onnx.ai/onnx/technical/float8.html>.

use num_traits::AsPrimitive;

use super::DType;

/// The rounding of a number to a type of at most eight bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Narrowing {
    /// Whether large magnitudes become the largest finite number, not an infinity, or NaN for a type without
    /// infinities.
    pub saturate: bool,
    /// The rounding to powers of two, for `float8e8m0`. The others round to nearest, ties to even.
    pub power: Power,
}

/// The choice between the powers of two around a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Power {
    /// The larger one.
    Up,
    /// The smaller one.
    Down,
    /// The nearer one; ties to the larger one.
    Nearest,
}

impl Default for Narrowing {
    fn default() -> Narrowing {
        Narrowing { saturate: true, power: Power::Up }
    }
}

/// The layout of a small float.
struct Layout {
    mantissa_bits: u32,
    exponent_bits: u32,
    bias: i32,
    /// The first byte (without the sign) of infinities and NaN.
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
        // float4e2m1 and the floats of six bits have neither infinities nor NaN.
        _ => (1, 2, 1, 0x08, false, false),
    };
    Layout { mantissa_bits, exponent_bits, bias, first_special, has_infinity, unsigned_zero }
}

/// Returns 2 to a power from -126 to 127.
fn power_of_two(exponent: i32) -> f32 {
    let biased: u32 = (exponent + 127).as_();
    f32::from_bits(biased.wrapping_shl(23))
}

/// Returns the value of an encoded element.
pub(super) fn decode(byte: u8, dtype: DType) -> f32 {
    if dtype == DType::F8E8M0 {
        return match byte {
            0 => f32::MIN_POSITIVE / 2.0,
            0xff => f32::NAN,
            _ => power_of_two(i32::from(byte) - 127),
        };
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
        let fraction = f32::from(fraction) * power_of_two(-steps);
        if exponent == 0 {
            fraction * power_of_two(1 - l.bias)
        } else {
            (1.0 + fraction) * power_of_two(exponent - l.bias)
        }
    };
    if negative { -value } else { value }
}

/// The cost of decoding and encoding an element, in float32 operations.
pub const STEPS: u64 = 4;

/// The parameters of a float of eight or six bits for arithmetic that rounds to it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Steps {
    /// The number of binary digits, including the leading one.
    pub digits: u8,
    /// The least magnitude with all digits; smaller ones are multiples of `least`.
    pub normal: f32,
    /// The smallest positive number.
    pub least: f32,
    /// The largest finite number.
    pub largest: f32,
    /// Whether the type has infinities.
    pub has_infinity: bool,
}

/// Returns the parameters of a type of eight or six bits; `None` for powers of two, which have neither sign
/// nor zero.
pub(crate) fn steps(dtype: DType) -> Option<Steps> {
    if !dtype.is_float() || !matches!(dtype.bits(), 6 | 8) || dtype == DType::F8E8M0 {
        return None;
    }
    let l = layout(dtype);
    let sign_bit = 1_u8.wrapping_shl(l.mantissa_bits + l.exponent_bits);
    let digits: u8 = (l.mantissa_bits + 1).as_();
    Some(Steps {
        digits,
        normal: decode(1_u8.wrapping_shl(l.mantissa_bits), dtype),
        least: decode(1, dtype),
        largest: decode(l.first_special.min(sign_bit).wrapping_sub(1), dtype),
        has_infinity: l.has_infinity,
    })
}

/// Returns the nonnegative numbers of a type of four bits, in order.
pub(crate) fn magnitudes(dtype: DType) -> Vec<f32> {
    let l = layout(dtype);
    let sign_bit = 1_u8.wrapping_shl(l.mantissa_bits + l.exponent_bits);
    (0..sign_bit).map(|byte| decode(byte, dtype)).collect()
}

/// A bound above all numbers of these types.
const BEYOND: f32 = 262_144.0;

/// Returns the encoded element of `value`.
pub(super) fn encode(value: f32, dtype: DType, narrowing: Narrowing) -> u8 {
    if dtype == DType::F8E8M0 {
        return encode_power(value, narrowing);
    }
    let l = layout(dtype);
    let sign_bit = 1_u8.wrapping_shl(l.mantissa_bits + l.exponent_bits);
    let nan = if l.unsigned_zero { sign_bit } else { sign_bit.wrapping_sub(1) };
    let has_nan = l.unsigned_zero || l.first_special < sign_bit;
    if value.is_nan() {
        return nan;
    }
    let magnitude = value.abs().min(BEYOND);
    // Within an exponent numbers are equidistant, and all ascend with their bytes: a byte is the number of
    // smaller magnitudes.
    let biased: i32 = magnitude.to_bits().wrapping_shr(23).as_();
    let exponent = (biased - 127).max(1 - l.bias);
    let mantissa_bits: i32 = l.mantissa_bits.as_();
    let steps: u32 = (magnitude * power_of_two(mantissa_bits - exponent)).round_ties_even().as_();
    let before: u32 = (exponent + l.bias - 1).as_();
    let rounded = before.wrapping_shl(l.mantissa_bits) + steps;
    let end = l.first_special.min(sign_bit);
    let best = match u8::try_from(rounded) {
        Ok(byte) if byte < end => byte,
        _ if narrowing.saturate || !has_nan => end - 1,
        _ if l.has_infinity => l.first_special,
        _ => return nan,
    };
    if value.is_sign_negative() && !(l.unsigned_zero && best == 0) { best | sign_bit } else { best }
}

/// Returns the power of two for a number, from the bits of its float32: the exponent, plus one if it is
/// rounded up.
fn encode_power(value: f32, narrowing: Narrowing) -> u8 {
    const FRACTION: u32 = 0x7f_ffff;
    const HALF: u32 = 0x40_0000;
    if value.is_nan() || (!narrowing.saturate && (value.is_infinite() || value <= 0.0)) {
        return 0xff;
    }
    if value <= 0.0 {
        return 0;
    }
    if value.is_infinite() {
        return 0xfe;
    }
    let bits = value.to_bits();
    let (exponent, fraction) = (bits.wrapping_shr(23), bits & FRACTION);
    // 2^-127 is subnormal in float32: half of the fraction.
    let exact = if exponent == 0 { HALF } else { 0 };
    let up = match narrowing.power {
        Power::Up => fraction > exact,
        Power::Down => false,
        Power::Nearest => fraction >= HALF && exponent > 0,
    };
    let most = if narrowing.saturate { 0xfe } else { 0xff };
    u8::try_from((exponent + u32::from(up)).min(most)).unwrap_or(0xff)
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
            assert_eq!(encode(value, dtype, Narrowing::default()), byte, "{dtype} {value}");
        }
        assert!(decode(0x7f, DType::F8E4M3FN).is_nan());
        assert!(decode(0x80, DType::F8E5M2FNUZ).is_nan());
        assert_eq!(decode(0xfc, DType::F8E5M2), f32::NEG_INFINITY);
    }

    /// Each number is rounded to the nearest, ties to even.
    #[test]
    fn numbers_round_to_nearest() {
        for dtype in [
            DType::F8E4M3FN,
            DType::F8E4M3FNUZ,
            DType::F8E5M2,
            DType::F8E5M2FNUZ,
            DType::F6E2M3,
            DType::F6E3M2,
            DType::F4E2M1,
        ] {
            let finite: Vec<(u8, f32)> = (0..=u8::MAX)
                .map(|byte| (byte, decode(byte, dtype)))
                .take_while(|(byte, number)| number.is_finite() && (*byte == 0 || *number > 0.0))
                .collect();
            let nearest = |value: f32| {
                let distance = |byte: u8, number: f32| ((value - number).abs(), byte % 2);
                let near = finite.iter().map(|(byte, number)| (distance(*byte, *number), *byte));
                near.min_by(|(a, _), (b, _)| a.partial_cmp(b).unwrap()).unwrap().1
            };
            // Float32 values of a leading 1 and six more bits, from 2^-20 to 2^18, and their neighbours.
            for bits in (107_u32 << 6..145 << 6).map(|bits| bits << 17) {
                for value in [bits - 1, bits, bits + 1].map(f32::from_bits) {
                    assert_eq!(encode(value, dtype, Narrowing::default()), nearest(value), "{dtype} {value}");
                }
            }
        }
    }

    #[test]
    fn large_magnitudes_saturate_or_overflow() {
        let overflowing = Narrowing { saturate: false, power: Power::Up };
        for (value, dtype, largest, beyond) in [
            (465.0, DType::F8E4M3FN, 448.0, f32::NAN),
            (f32::INFINITY, DType::F8E4M3FN, 448.0, f32::NAN),
            (248.0, DType::F8E4M3FNUZ, 240.0, f32::NAN),
            (61440.0, DType::F8E5M2, 57344.0, f32::INFINITY),
            (-f32::INFINITY, DType::F8E5M2, -57344.0, -f32::INFINITY),
            (1e9, DType::F8E5M2FNUZ, 57344.0, f32::NAN),
            (-7.0, DType::F4E2M1, -6.0, -6.0),
        ] {
            assert_eq!(decode(encode(value, dtype, Narrowing::default()), dtype), largest, "{dtype} {value}");
            let rounded = decode(encode(value, dtype, overflowing), dtype);
            assert!(rounded == beyond || (rounded.is_nan() && beyond.is_nan()), "{dtype} {value}: {rounded}");
        }
        for (value, dtype, rounded) in [
            (464.0, DType::F8E4M3FN, 448.0),
            (247.9, DType::F8E4M3FNUZ, 240.0),
            (61439.0, DType::F8E5M2, 57344.0),
        ] {
            assert_eq!(decode(encode(value, dtype, overflowing), dtype), rounded, "{dtype} {value}");
        }
    }

    #[test]
    fn powers_of_two_round_by_mode() {
        for (power, value, expected) in [
            (Power::Up, 5.0, 8.0),
            (Power::Up, 4.0, 4.0),
            (Power::Down, 5.0, 4.0),
            (Power::Nearest, 5.9, 4.0),
            (Power::Nearest, 6.0, 8.0),
            (Power::Up, f32::INFINITY, 2_f32.powi(127)),
            (Power::Up, 0.0, 2_f32.powi(-127)),
        ] {
            let narrowing = Narrowing { saturate: true, power };
            assert_eq!(decode(encode(value, DType::F8E8M0, narrowing), DType::F8E8M0), expected, "{value}");
        }
        assert_eq!(encode(-1.0, DType::F8E8M0, Narrowing { saturate: false, power: Power::Up }), 0xff);
    }

    #[test]
    fn steps_describe_the_type() {
        let of_float8 = Steps {
            digits: 4,
            normal: 2_f32.powi(-6),
            least: 2_f32.powi(-9),
            largest: 448.0,
            has_infinity: false,
        };
        assert_eq!(steps(DType::F8E4M3FN), Some(of_float8));
        assert_eq!(steps(DType::F4E2M1), None);
        assert_eq!(magnitudes(DType::F4E2M1), [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(steps(DType::F8E8M0), None);
        assert_eq!(steps(DType::F16), None);
    }
}
