//! Random elements.

use fastrand::Rng;
use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::Assumed;
use crate::error::{Result, unsupported};
use crate::tensor::{Array, DType, Elements, Range};

/// A generator of random elements: the same seed gives the same elements.
pub(super) struct Random(Rng);

/// A law of random numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Law {
    /// Near 0, with a variance of 1.
    Ordinary,
    /// Far from 0, where functions saturate.
    Large,
    /// Near 0, where small constants show.
    Tiny,
    /// Small integers, among them ties.
    Integers,
}

impl Law {
    pub const ALL: [Law; 4] = [Law::Ordinary, Law::Large, Law::Tiny, Law::Integers];
}

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(Rng::with_seed(seed))
    }

    /// Returns elements of an input of a model, as they are assumed; integers and whole numbers are within
    /// the bounds.
    pub fn input(
        &mut self,
        dtype: DType,
        shape: &[usize],
        (least, most): (u32, u32),
        assumed: Option<Assumed>,
    ) -> Result<Array> {
        let shape = IxDyn(shape);
        let limit = dtype.int_range().and_then(|(_, most)| u32::try_from(most).ok());
        let most = limit.map_or(most, |limit| limit.min(most));
        let mut integers = |most: u32| {
            let one = || self.0.u32(least.min(most)..=most).into();
            Elements::I64(ArrayD::from_shape_simple_fn(shape.clone(), one))
        };
        let elements = match dtype {
            DType::Bool => integers(1),
            dtype if dtype.is_int() => integers(most),
            dtype if assumed == Some(Assumed::Whole) && dtype.is_float() => {
                return Array::new(DType::I64, integers(most)).cast(dtype);
            }
            dtype if assumed == Some(Assumed::NotTiny) && dtype.is_float() => {
                Elements::F32(ArrayD::from_shape_simple_fn(shape, || 1.0 - self.0.f32()))
            }
            DType::F64 => Elements::F64(ArrayD::from_shape_simple_fn(shape, || 2.0 * self.0.f64() - 1.0)),
            dtype if dtype.is_float() => {
                let has_sign = Range::of(dtype).least < 0.0;
                Elements::F32(ArrayD::from_shape_simple_fn(shape, || {
                    let x = 2.0 * self.0.f32() - 1.0;
                    if has_sign { x } else { x.abs() }
                }))
            }
            dtype => unsupported!("no elements can be made for an input of type {dtype}"),
        };
        Ok(Array::new(dtype, elements))
    }

    /// Returns elements of a law instead of the elements of a run, and keeps their sign, the bound 1
    /// and a range: layers may rely on the ranges of their operators. Integers are returned as they are.
    pub fn like(&mut self, array: &Array, law: Law, range: Range) -> Array {
        let Elements::F32(run) = array.elements() else { return array.clone() };
        if run.iter().all(|x| x.fract() == 0.0) {
            return array.clone();
        }
        let (least, most): (f32, f32) = (range.least.as_(), range.most.as_());
        let low = run.iter().copied().fold(f32::INFINITY, f32::min);
        let high = run.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        let elements = run.map(|_| {
            let x = self.number(law);
            let x = if low >= 0.0 { x.abs() } else { x };
            let x = if low >= -1.0 && high <= 1.0 { x / (1.0 + x.abs()) } else { x };
            x.max(least).min(most)
        });
        Array::new(array.dtype(), Elements::F32(elements))
    }

    /// Returns floats, each of which is larger or smaller by at most a part: of float32, and by as many units
    /// in the last place of types with fewer digits. Small numbers of float16 may be 0. The whole part shows
    /// most, but what repeats, as remainders do, may be the same after it.
    pub fn rounded(&mut self, array: &Array, part: f32, is_whole: bool) -> Array {
        let Elements::F32(elements) = array.elements() else { return array.clone() };
        let unit = part / f32::EPSILON;
        let (part, step) = match array.dtype() {
            DType::F16 => (unit * f16::EPSILON.to_f32(), f16::MIN_POSITIVE_SUBNORMAL.to_f32()),
            DType::BF16 => (unit * bf16::EPSILON.to_f32(), 0.0),
            _ => (part, 0.0),
        };
        let elements = elements.map(|x| {
            let share = if is_whole { 1.0 } else { self.0.f32() };
            let change = share * (part * x + step);
            x + if self.0.bool() { change } else { -change }
        });
        Array::new(array.dtype(), Elements::F32(elements))
    }

    /// Returns levels of at most 8 bits, some of which are the next larger or smaller one.
    pub fn dithered(&mut self, array: &Array) -> Array {
        let range = array.dtype().int_range().filter(|_| array.dtype().bits() <= 8);
        let (Elements::I64(levels), Some((least, most))) = (array.elements(), range) else {
            return array.clone();
        };
        let levels =
            levels.map(|x| (i128::from(*x) + i128::from(self.0.i8(-1..=1))).clamp(least, most).as_());
        Array::new(array.dtype(), Elements::I64(levels))
    }

    /// Returns floats with others, in a range, instead of those that are not finite.
    pub fn finite(&mut self, array: &Array, range: Range) -> Array {
        let (least, most): (f32, f32) = (range.least.as_(), range.most.as_());
        let Elements::F32(elements) = array.elements() else { return array.clone() };
        let elements = elements.map(|x| {
            if x.is_finite() {
                return *x;
            }
            let other = self.number(Law::Large);
            let other = if least >= 0.0 { other.abs() } else { other };
            other.max(least).min(most)
        });
        Array::new(array.dtype(), Elements::F32(elements))
    }

    fn number(&mut self, law: Law) -> f32 {
        // Twice the sum of three uniform numbers has a variance of 1.
        let mut normal = || 2.0 * (self.0.f32() + self.0.f32() + self.0.f32() - 1.5);
        match law {
            Law::Ordinary => normal(),
            Law::Large => 6.0 * normal(),
            Law::Tiny => 1e-3 * normal(),
            // Quotients by 0 say nothing.
            Law::Integers => (2.0 * normal()).trunc() + normal().signum(),
        }
    }
}
