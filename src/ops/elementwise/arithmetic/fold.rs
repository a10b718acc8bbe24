//! Arithmetic of constants and symbolic sizes.

use std::borrow::Cow;

use num_traits::AsPrimitive;

use super::super::broadcast::{Kernel, align_arrays, fold_arithmetic};
use crate::ops::prelude::*;
use crate::tensor::zip_broadcast;

pub(in crate::ops) type Arithmetic = Kernel<f64, i64, Dim>;

pub(in crate::ops) const ADD: Arithmetic =
    Kernel { float: |x, y| x + y, int: |x, y| Ok(x.wrapping_add(y)), dim: |x, y| Ok(x + y) };
pub(super) const SUB: Arithmetic =
    Kernel { float: |x, y| x - y, int: |x, y| Ok(x.wrapping_sub(y)), dim: |x, y| Ok(x - y) };
pub(in crate::ops) const MUL: Arithmetic =
    Kernel { float: |x, y| x * y, int: |x, y| Ok(x.wrapping_mul(y)), dim: |x, y| Ok(x * y) };
pub(super) const DIV: Arithmetic =
    Kernel { float: |x, y| x / y, int: div_int, dim: |x, y| Ok(div_dim(x, y)) };
pub(super) const MAX: Arithmetic =
    Kernel { float: max_float, int: |x, y| Ok(x.max(y)), dim: |x, y| Ok(x.maximum(y)) };
pub(super) const MIN: Arithmetic =
    Kernel { float: |x, y| -max_float(-x, -y), int: |x, y| Ok(x.min(y)), dim: |x, y| Ok(x.minimum(y)) };
pub(super) const POW: Arithmetic = Kernel { float: libm::pow, int: pow_int, dim: pow_dim };
const FLOOR_MOD: Arithmetic =
    Kernel { float: floor_mod_float, int: floor_mod_int, dim: |x, y| Ok(floor_mod_dim(x, y)) };
const TRUNC_MOD: Arithmetic =
    Kernel { float: |x, y| x % y, int: trunc_mod_int, dim: |x, y| Ok(trunc_mod_dim(x, y)) };

fn by_zero() -> Error {
    Error::unsupported("an integer division by zero")
}

fn div_int(x: i64, y: i64) -> Result<i64> {
    if y == 0 { Err(by_zero()) } else { Ok(x.wrapping_div(y)) }
}

/// Returns a quotient of sizes. ONNX truncates quotients, `Dim` rounds them down: the quotient of a negative
/// number is computed from its magnitude. A number of either sign is taken not to be negative, which
/// [`require_signs`] makes a condition.
fn div_dim(x: &Dim, y: &Dim) -> Dim {
    if let Some(exact) = x.exact_div(y) {
        return exact;
    }
    match (is_negative(x), is_negative(y)) {
        (false, false) => x.floor_div(y),
        (true, true) => (-x).floor_div(-y),
        (true, false) => -(-x).floor_div(y),
        (false, true) => -x.floor_div(-y),
    }
}

/// Returns the remainder of [`div_dim`], which has the sign of the dividend.
fn trunc_mod_dim(x: &Dim, y: &Dim) -> Dim {
    let divisor = if is_negative(y) { -y } else { y.clone() };
    if is_negative(x) { -(-x).modulo(divisor) } else { x.modulo(divisor) }
}

/// Returns the remainder that has the sign of the divisor.
fn floor_mod_dim(x: &Dim, y: &Dim) -> Dim {
    if is_negative(y) { -(-x).modulo(-y) } else { x.modulo(y) }
}

/// Returns whether a number is never positive.
fn is_negative(x: &Dim) -> bool {
    matches!(x.bounds(), (_, Some(..=0)))
}

/// Requires that sizes which are divided do not change their sign: their quotient is not truncated then.
pub(super) fn require_signs(call: &Call) -> Result<()> {
    let is_symbolic = |index| call.value(index).is_some_and(|value| value.elements.is_some());
    if !is_symbolic(0) && !is_symbolic(1) {
        return Ok(());
    }
    // An operand that is neither a constant nor a size is computed at run time.
    let (Ok(dividends), Ok(divisors)) = (call.dims(0), call.dims(1)) else { return Ok(()) };
    for x in &dividends {
        let rounds = divisors.iter().any(|y| x.exact_div(y).is_none());
        if rounds && !is_negative(x) {
            call.require(SizeCondition::at_least(x, 0))?;
        }
    }
    Ok(())
}

/// The rounding of the quotient in Mod.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Quotient {
    /// Downwards: the remainder has the sign of the divisor.
    Floor,
    /// Towards zero, as in C.
    Trunc,
}

pub(super) fn read_mod(call: &Call) -> Result<Quotient> {
    Ok(if call.flag("fmod")? { Quotient::Trunc } else { Quotient::Floor })
}

/// Returns whether BitShift shifts to the left.
pub(super) fn read_bit_shift(call: &Call) -> Result<bool> {
    call.word("direction", &[("LEFT", true), ("RIGHT", false)])
}

fn max_float(x: f64, y: f64) -> f64 {
    if x.is_nan() || y.is_nan() { f64::NAN } else { x.max(y) }
}

fn pow_int(x: i64, y: i64) -> Result<i64> {
    match u32::try_from(y) {
        Ok(y) => Ok(x.wrapping_pow(y)),
        Err(_) if x == 0 => Err(by_zero()),
        // The reciprocal of any other integer than 1 and -1 is truncated to 0.
        Err(_) => Ok(match x {
            1 => 1,
            -1 if y % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        }),
    }
}

fn pow_dim(x: &Dim, y: &Dim) -> Result<Dim> {
    match y.known() {
        Some(n @ 0..=8) => Ok(Dim::product((0..n).map(|_| x))),
        _ => unsupported!("{x} to the power of {y}"),
    }
}

fn trunc_mod_int(x: i64, y: i64) -> Result<i64> {
    if y == 0 { Err(by_zero()) } else { Ok(x.wrapping_rem(y)) }
}

fn floor_mod_int(x: i64, y: i64) -> Result<i64> {
    let remainder = trunc_mod_int(x, y)?;
    Ok(if remainder != 0 && (remainder < 0) != (y < 0) { remainder.wrapping_add(y) } else { remainder })
}

fn floor_mod_float(x: f64, y: f64) -> f64 {
    let remainder = x % y;
    if remainder != 0.0 && (remainder < 0.0) != (y < 0.0) { remainder + y } else { remainder }
}

/// Evaluates one operation over all inputs, from the first to the last.
pub(super) fn fold_pairs(call: &Call, kernel: &Arithmetic) -> Result<Vec<Array>> {
    Ok(vec![over_all(call, kernel)?])
}

fn over_all(call: &Call, kernel: &Arithmetic) -> Result<Array> {
    let arrays = align_arrays(call)?;
    let mut result = arrays.at(0)?.clone();
    for array in arrays.iter().skip(1) {
        result = Cow::Owned(fold_arithmetic(&result, array, kernel)?);
    }
    Ok(result.into_owned())
}

pub(super) fn fold_mean(call: &Call) -> Result<Vec<Array>> {
    let sum = over_all(call, &ADD)?;
    let count: f64 = call.input_count().as_();
    let count = Array::new(DType::F64, Elements::F64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), count)));
    Ok(vec![fold_arithmetic(&sum, &count.cast(sum.dtype())?, &DIV)?])
}

pub(super) fn fold_mod(call: &Call) -> Result<Vec<Array>> {
    if read_mod(call)? == Quotient::Trunc {
        return fold_pairs(call, &TRUNC_MOD);
    }
    let elements = |index: usize| call.array(index).map(Array::elements);
    if matches!((elements(0)?, elements(1)?), (Elements::I64(_), Elements::Dim(_))) {
        unsupported!("remainders by free sizes: the shape rule gives them");
    }
    fold_pairs(call, &FLOOR_MOD)
}

pub(super) fn fold_bits(call: &Call, combine: impl Fn(i64, i64) -> i64) -> Result<Vec<Array>> {
    let (a, b) = (call.array(0)?, call.array(1)?);
    let elements = zip_broadcast(&a.to_i64()?, &b.to_i64()?, |x, y| combine(*x, *y))?;
    Ok(vec![Array::new(a.dtype(), Elements::I64(elements))])
}

pub(super) fn fold_bitwise_not(call: &Call) -> Result<Vec<Array>> {
    let array = call.array(0)?;
    Ok(vec![Array::new(array.dtype(), Elements::I64(array.to_i64()?.mapv(|x| !x)))])
}

pub(super) fn fold_bit_shift(call: &Call) -> Result<Vec<Array>> {
    let left = read_bit_shift(call)?;
    let bits: i64 = call.array(0)?.dtype().bits().as_();
    fold_bits(call, |x, by| match (u32::try_from(by), left) {
        (Ok(by), true) if i64::from(by) < bits => x.wrapping_shl(by),
        (Ok(by), false) if i64::from(by) < bits => x.wrapping_shr(by),
        (_, false) if x < 0 => -1,
        _ => 0,
    })
}

#[cfg(test)]
mod tests {
    use ndarray::{ArrayD, IxDyn};

    use super::*;

    fn ints(dtype: DType, list: &[i64]) -> Array {
        let elements = ArrayD::from_shape_vec(IxDyn(&[list.len()]), list.to_vec()).unwrap();
        Array::new(dtype, Elements::I64(elements))
    }

    #[test]
    fn integers_truncate_and_wrap() {
        let a = ints(DType::I8, &[7, -7, 100, -128]);
        let b = ints(DType::I8, &[2, 2, 100, -1]);
        for (kernel, expected) in [
            (&ADD, [9, -5, -56, 127]),
            (&MUL, [14, -14, 16, -128]),
            (&DIV, [3, -3, 1, -128]),
            (&FLOOR_MOD, [1, 1, 0, 0]),
            (&TRUNC_MOD, [1, -1, 0, 0]),
            (&MAX, [7, 2, 100, -1]),
            (&MIN, [2, -7, 100, -128]),
        ] {
            assert_eq!(fold_arithmetic(&a, &b, kernel).unwrap(), ints(DType::I8, &expected));
        }
        assert!(fold_arithmetic(&a, &ints(DType::I8, &[0]), &DIV).is_err());
    }

    #[test]
    fn symbolic_sizes_give_expressions() {
        let h = Dim::symbol("H");
        let sizes = Array::from_dims(&shape![&h, 6]);
        let two = ints(DType::I64, &[2]);
        let doubled = fold_arithmetic(&sizes, &two, &MUL).unwrap();
        assert_eq!(fold_arithmetic(&doubled, &two, &DIV).unwrap(), sizes);
        let zero = fold_arithmetic(&doubled, &doubled, &SUB).unwrap();
        assert_eq!(zero, ints(DType::I64, &[0, 0]));
    }
}
