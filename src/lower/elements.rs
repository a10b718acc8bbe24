//! The elements of blobs.

use num_traits::AsPrimitive;

use crate::common::limits;
use crate::error::{Error, ErrorCode, Result};
use crate::graph::{Graph, ValueId};
use crate::tensor::{DType, Dim, Tensor};

/// The magnitude from which all float32 numbers are integers.
pub(super) const INTEGERS: f32 = 16_777_216.0;

/// Refuses elements that are not numbers, or are complex.
pub(super) fn check_elements(dtype: DType) -> Result<()> {
    match dtype {
        DType::String | DType::C64 | DType::C128 => {
            let error = Error::unsupported(format!("ncnn has no blobs of {dtype}"));
            Err(error.code_is(ErrorCode::NO_NUMBERS))
        }
        _ => Ok(()),
    }
}

/// Returns whether a value is known to have no elements.
pub(super) fn is_empty(graph: &Graph, id: ValueId) -> bool {
    graph.value(id).shape.iter().flatten().any(|size| size.is(0))
}

/// Refuses a value with more elements than a blob can have.
pub(crate) fn check_size(graph: &Graph, id: ValueId) -> Result<()> {
    check_count(graph.value(id).shape.as_deref().unwrap_or_default())
}

/// Refuses a shape of more elements than a blob can have.
pub(crate) fn check_count(shape: &[Dim]) -> Result<()> {
    let known = shape.iter().filter_map(Dim::known);
    let elements = known.fold(1_i64, |n, size| n.saturating_mul(size.max(1)));
    if elements > limits::BLOB_ELEMENTS {
        return Err(Error::limit(format!(
            "{elements} elements; a blob has at most {}",
            limits::BLOB_ELEMENTS
        )));
    }
    Ok(())
}

/// Refuses integers of a constant that float32 does not represent, and floats beyond its largest number.
pub(crate) fn check_numbers(tensor: &Tensor) -> Result<()> {
    if let Some(found) = inexact_integer(tensor)? {
        return Err(Error::unsupported(format!(
            "the integer {found}: float32 represents integers up to 2^24 exactly"
        )));
    }
    match float_beyond(tensor)? {
        Some(found) => Err(Error::unsupported(format!("the number {found:e} is beyond those of float32"))),
        None => Ok(()),
    }
}

/// Returns a finite number of a constant of float64 that is infinite in float32.
fn float_beyond(tensor: &Tensor) -> Result<Option<f64>> {
    if tensor.dtype() != DType::F64 || !has(tensor, f32::is_infinite)? {
        return Ok(None);
    }
    let is_beyond = |element: &&f64| element.is_finite() && AsPrimitive::<f32>::as_(**element).is_infinite();
    Ok(tensor.load_listed()?.to_f64()?.iter().find(is_beyond).copied())
}

/// Returns an integer of a constant that float32 does not represent.
pub(crate) fn inexact_integer(tensor: &Tensor) -> Result<Option<i64>> {
    if !tensor.dtype().is_wide_int() || !has(tensor, |element| element.abs() >= INTEGERS)? {
        return Ok(None);
    }
    let rounds = |element: &i64| {
        let rounded: f32 = element.as_();
        let back: i128 = rounded.as_();
        back != i128::from(*element)
    };
    Ok(tensor.load_listed()?.int_list()?.into_iter().find(rounds))
}

/// Returns whether `is_found` is true of an element as float32.
fn has(tensor: &Tensor, is_found: impl Fn(f32) -> bool) -> Result<bool> {
    let mut found = false;
    tensor.for_each_f32(&mut |elements| {
        found |= elements.iter().any(|element| is_found(*element));
        Ok(())
    })?;
    Ok(found)
}
