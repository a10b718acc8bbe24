//! Elements in memory, for the evaluation of constants.
//!
//! Arithmetic has four kinds of elements; the exact type is stored with them, and [`Array::new`] rounds and
//! wraps to it. Integers may be [`Dim`]s, so that shape arithmetic on free sizes folds.

mod encoding;

use std::collections::BTreeMap;

use half::{bf16, f16};
use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::float8;
use super::{DType, Dim, Narrowing, Power};
use crate::error::{Error, Result, invalid, unsupported};

/// The elements of an [`Array`], in row-major order.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// Float32, and narrower floats.
    F32(ArrayD<f32>),
    /// Float64.
    F64(ArrayD<f64>),
    /// Integers of every width, and bool as 0 and 1.
    I64(ArrayD<i64>),
    /// Integers, some of them symbolic.
    Dim(ArrayD<Dim>),
}

/// Elements with their shape and type.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    pub(super) dtype: DType,
    pub(super) elements: Elements,
}

/// Rearranges the elements of an array of any kind.
macro_rules! move_elements {
    ($array:expr, $elements:ident => $body:expr) => {{
        use $crate::tensor::Elements;
        let array: &$crate::tensor::Array = $array;
        let moved = match array.elements() {
            Elements::F32($elements) => Elements::F32($body),
            Elements::F64($elements) => Elements::F64($body),
            Elements::I64($elements) => Elements::I64($body),
            Elements::Dim($elements) => Elements::Dim($body),
        };
        $crate::tensor::Array::moved(array.dtype(), moved)
    }};
}
pub(crate) use move_elements;

/// Computes a value from the elements of an array of any kind.
macro_rules! with_elements {
    ($array:expr, $elements:ident => $body:expr) => {{
        use $crate::tensor::Elements;
        match $array {
            Elements::F32($elements) => $body,
            Elements::F64($elements) => $body,
            Elements::I64($elements) => $body,
            Elements::Dim($elements) => $body,
        }
    }};
}

fn wrap(value: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Bool => i64::from(value != 0),
        DType::I64 | DType::U64 => value,
        _ => {
            let drop = 64_u32.saturating_sub(dtype.bits().as_());
            let high = value.wrapping_shl(drop);
            if dtype.is_unsigned() {
                let unsigned: u64 = high.as_();
                unsigned.wrapping_shr(drop).as_()
            } else {
                high.wrapping_shr(drop)
            }
        }
    }
}

/// The encoding of a value that its type already represents: infinities stay.
const KEPT: Narrowing = Narrowing { saturate: false, power: Power::Up };

/// Rounds a result to a float type of at most 32 bits.
pub(crate) fn round_float(value: f32, dtype: DType) -> f32 {
    narrow_float(value, dtype, KEPT)
}

fn narrow_float(value: f32, dtype: DType, narrowing: Narrowing) -> f32 {
    match dtype {
        DType::F16 => f16::from_f32(value).to_f32(),
        DType::BF16 => bf16::from_f32(value).to_f32(),
        DType::F32 => value,
        _ => float8::decode(float8::encode(value, dtype, narrowing), dtype),
    }
}

impl Array {
    /// Creates an array of `dtype`: elements are rounded and wrapped to the type.
    pub fn new(dtype: DType, elements: Elements) -> Array {
        let elements = match elements {
            Elements::F32(a) if dtype == DType::F32 => Elements::F32(a),
            Elements::F32(a) => Elements::F32(a.mapv_into(|x| round_float(x, dtype))),
            Elements::I64(a) if matches!(dtype, DType::I64 | DType::U64) => Elements::I64(a),
            Elements::I64(a) => Elements::I64(a.mapv_into(|x| wrap(x, dtype))),
            Elements::Dim(a) => {
                let known: Option<Vec<i64>> = a.iter().map(Dim::known).collect();
                match known.map(|known| ArrayD::from_shape_vec(a.raw_dim(), known)) {
                    Some(Ok(known)) => return Array::new(dtype, Elements::I64(known)),
                    _ => Elements::Dim(a),
                }
            }
            other => other,
        };
        Array { dtype, elements }
    }

    /// Creates an array of elements from arrays of `dtype`: nothing is rounded.
    pub(crate) fn moved(dtype: DType, elements: Elements) -> Array {
        match elements {
            // All remaining sizes may be known.
            Elements::Dim(_) => Array::new(dtype, elements),
            _ => Array { dtype, elements },
        }
    }

    /// Creates an array of float32 values.
    pub fn f32(elements: ArrayD<f32>) -> Array {
        Array::new(DType::F32, Elements::F32(elements))
    }

    /// Creates an array of 64-bit integers.
    pub fn i64(elements: ArrayD<i64>) -> Array {
        Array::new(DType::I64, Elements::I64(elements))
    }

    /// Creates an array of 64-bit integers, some of them symbolic.
    pub fn dims(elements: ArrayD<Dim>) -> Array {
        Array::new(DType::I64, Elements::Dim(elements))
    }

    /// Creates an array of sizes with one axis.
    pub fn from_dims(dims: &[Dim]) -> Array {
        Array::dims(ndarray::Array1::from_vec(dims.to_vec()).into_dyn())
    }

    /// Creates an array of booleans.
    pub fn bool(elements: ArrayD<bool>) -> Array {
        Array::new(DType::Bool, Elements::I64(elements.mapv(i64::from)))
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// Returns the elements.
    pub fn elements(&self) -> &Elements {
        &self.elements
    }

    /// Returns the elements, owned.
    pub fn into_elements(self) -> Elements {
        self.elements
    }

    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        with_elements!(&self.elements, a => a.shape())
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        with_elements!(&self.elements, a => a.len())
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the same elements in another shape.
    pub fn reshape(&self, shape: &[usize]) -> Result<Array> {
        Ok(
            move_elements!(self, a => a.as_standard_layout().into_owned().into_shape_with_order(IxDyn(shape))?),
        )
    }

    /// Converts the elements to float32.
    pub fn to_f32(&self) -> Result<ArrayD<f32>> {
        Ok(match &self.elements {
            Elements::F32(a) => a.clone(),
            Elements::F64(a) => a.mapv(|x| x.as_()),
            Elements::I64(a) => a.mapv(|x| x.as_()),
            Elements::Dim(_) => unsupported!("a size is known only at run time"),
        })
    }

    /// Converts the elements to float64.
    pub fn to_f64(&self) -> Result<ArrayD<f64>> {
        Ok(match &self.elements {
            Elements::F32(a) => a.mapv(f64::from),
            Elements::F64(a) => a.clone(),
            Elements::I64(a) => a.mapv(|x| x.as_()),
            Elements::Dim(_) => unsupported!("a size is known only at run time"),
        })
    }

    /// Returns an element in row-major order; `None` for a size, and outside of the array.
    pub(crate) fn number_at(&self, index: usize) -> Option<f64> {
        match &self.elements {
            Elements::F32(a) => a.iter().nth(index).map(|x| f64::from(*x)),
            Elements::F64(a) => a.iter().nth(index).copied(),
            Elements::I64(a) => a.iter().nth(index).map(|x| x.as_()),
            Elements::Dim(_) => None,
        }
    }

    /// Returns whether all elements are numbers that satisfy a condition.
    pub(crate) fn all_numbers(&self, mut condition: impl FnMut(f64) -> bool) -> bool {
        match &self.elements {
            Elements::F32(a) => a.iter().all(|x| condition(f64::from(*x))),
            Elements::F64(a) => a.iter().all(|x| condition(*x)),
            Elements::I64(a) => a.iter().all(|x| condition(x.as_())),
            Elements::Dim(_) => false,
        }
    }

    /// Converts the elements to integers; refuses floats and symbolic sizes.
    pub fn to_i64(&self) -> Result<ArrayD<i64>> {
        self.integers().cloned()
    }

    fn integers(&self) -> Result<&ArrayD<i64>> {
        match &self.elements {
            Elements::I64(a) => Ok(a),
            Elements::Dim(_) => unsupported!("a size is known only at run time"),
            _ => invalid!("found {}, expected integers", self.dtype),
        }
    }

    /// Converts the elements to sizes; refuses floats.
    pub fn to_dims(&self) -> Result<ArrayD<Dim>> {
        match &self.elements {
            Elements::I64(a) => Ok(a.mapv(Dim::Known)),
            Elements::Dim(a) => Ok(a.clone()),
            _ => invalid!("found {}, expected integers", self.dtype),
        }
    }

    /// Replaces symbols of sizes.
    pub(crate) fn substitute(&self, symbols: &BTreeMap<String, Dim>) -> Result<Array> {
        let Elements::Dim(sizes) = &self.elements else { return Ok(self.clone()) };
        let replaced: Result<Vec<Dim>> =
            sizes.iter().map(|size| size.substitute(symbols).checked()).collect();
        Ok(Array::new(self.dtype, Elements::Dim(ArrayD::from_shape_vec(sizes.raw_dim(), replaced?)?)))
    }

    /// Returns all elements in row-major order, as integers.
    pub fn int_list(&self) -> Result<Vec<i64>> {
        Ok(self.integers()?.iter().copied().collect())
    }

    /// Returns all elements in row-major order, as sizes; refuses floats.
    pub(crate) fn dim_list(&self) -> Result<Vec<Dim>> {
        match &self.elements {
            Elements::I64(a) => Ok(a.iter().copied().map(Dim::Known).collect()),
            _ => Ok(self.to_dims()?.iter().cloned().collect()),
        }
    }

    /// Returns all elements in row-major order, as float32.
    pub fn float_list(&self) -> Result<Vec<f32>> {
        Ok(self.to_f32()?.iter().copied().collect())
    }

    /// Casts the elements by the rules of ONNX's Cast: floats are truncated, integers wrap around, and floats
    /// of at most eight bits saturate.
    pub fn cast(&self, to: DType) -> Result<Array> {
        self.cast_with(to, Narrowing::default())
    }

    /// Casts like [`Array::cast`], with other rules for floats of at most eight bits.
    pub fn cast_with(&self, to: DType, narrowing: Narrowing) -> Result<Array> {
        if to.bits() == 0 || matches!(to, DType::C64 | DType::C128) {
            unsupported!("a cast to {to}");
        }
        let elements = match &self.elements {
            Elements::Dim(a) if to.is_int() => Elements::Dim(a.clone()),
            Elements::Dim(_) => unsupported!("a size known only at run time, cast to {to}"),
            _ if to == DType::F64 => Elements::F64(self.to_f64()?),
            _ if to.is_float() => {
                let mut elements = self.to_f32()?;
                if to.bits() <= 8 {
                    elements.mapv_inplace(|x| narrow_float(x, to, narrowing));
                }
                Elements::F32(elements)
            }
            Elements::F32(a) if to == DType::Bool => Elements::I64(a.mapv(|x| i64::from(x != 0.0))),
            Elements::F64(a) if to == DType::Bool => Elements::I64(a.mapv(|x| i64::from(x != 0.0))),
            Elements::F32(a) => Elements::I64(a.mapv(|x| x.as_())),
            Elements::F64(a) => Elements::I64(a.mapv(|x| x.as_())),
            Elements::I64(a) => Elements::I64(a.clone()),
        };
        Ok(Array::new(to, elements))
    }

    /// Returns the element of an array of one element.
    pub fn scalar_f32(&self) -> Result<f32> {
        only(&self.float_list()?)
    }

    /// Returns the element of an array of one integer.
    pub fn scalar_i64(&self) -> Result<i64> {
        only(&self.int_list()?)
    }
}

fn only<T: Copy>(list: &[T]) -> Result<T> {
    match list {
        [x] => Ok(*x),
        other => Err(Error::invalid(format!("found {} elements, expected one", other.len()))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_round_trip_in_every_type() {
        let types = [
            (DType::F32, 16),
            (DType::F64, 32),
            (DType::F16, 8),
            (DType::BF16, 8),
            (DType::F8E4M3FN, 4),
            (DType::F8E4M3FNUZ, 4),
            (DType::F8E5M2, 4),
            (DType::F8E5M2FNUZ, 4),
            (DType::F8E8M0, 4),
            (DType::F4E2M1, 2),
            (DType::F6E2M3, 3),
            (DType::F6E3M2, 3),
            (DType::I2, 1),
            (DType::I4, 2),
            (DType::I8, 4),
            (DType::I16, 8),
            (DType::I32, 16),
            (DType::I64, 32),
            (DType::U2, 1),
            (DType::U4, 2),
            (DType::U8, 4),
            (DType::U16, 8),
            (DType::U32, 16),
        ];
        for (dtype, len) in types {
            let bytes: Vec<u8> = (0..len).map(|i: u8| i.wrapping_mul(37) & 0x3f).collect();
            let array = Array::from_bytes(dtype, &[4], &bytes).unwrap();
            assert_eq!(array.to_bytes().unwrap(), bytes, "{dtype}");
        }
    }

    #[test]
    fn integers_wrap_and_floats_round() {
        let a = Array::i64(ArrayD::from_shape_vec(IxDyn(&[3]), vec![300, -1, 127]).unwrap());
        assert_eq!(a.cast(DType::U8).unwrap().int_list().unwrap(), [44, 255, 127]);
        assert_eq!(a.cast(DType::I8).unwrap().int_list().unwrap(), [44, -1, 127]);
        assert_eq!(a.cast(DType::Bool).unwrap().int_list().unwrap(), [1, 1, 1]);
        let f = Array::f32(ArrayD::from_elem(IxDyn(&[]), 0.1));
        assert_eq!(f.cast(DType::F16).unwrap().scalar_f32().unwrap(), 0.099_975_586);
    }

    #[test]
    fn wrong_length_is_refused() {
        assert!(Array::from_bytes(DType::F32, &[2], &[0; 7]).is_err());
        assert!(Array::from_bytes(DType::F32, &[usize::MAX, 2], &[0; 8]).is_err());
    }
}
