//! Constants: element types, sizes, tensors in files or memory, and arrays for computation.

mod array;
mod border;
mod broadcast;
mod condition;
mod cost;
mod dim;
mod dtype;
mod float8;
mod function;
mod grouping;
mod list;
mod movement;
mod range;
mod read_ahead;
mod shape;
mod source;
mod span;
mod stream;
mod write;

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, OnceLock};

use bytes::Bytes;
use smallvec::SmallVec;

use crate::common::limits::{self, Meter};
use crate::error::{Error, Result, invalid};

pub(crate) use array::move_elements;
pub use array::{Array, Elements};
pub(crate) use border::Border;
pub(crate) use broadcast::{broadcast_lens, merged_axes, try_zip_broadcast, zip_broadcast};
pub(crate) use condition::Found;
pub use condition::SizeCondition;
pub(crate) use cost::Cost;
#[cfg(test)]
pub(crate) use dim::dims;
pub(crate) use dim::{Bounds, Operation, Sum};
pub use dim::{Dim, broadcast_shapes, display_shape};
pub use dtype::DType;
pub use float8::{Narrowing, Power};
pub(crate) use float8::{Steps, magnitudes, steps};
pub(crate) use function::erf;
pub(crate) use grouping::{axis_groups, pair_axes};
pub(crate) use list::{period, progression, repetition, segment_count, segments};
pub(crate) use movement::{coordinates, row_major};
pub(crate) use range::Range;
pub use shape::Shape;
pub(crate) use shape::shape;
pub use source::end_clearly_when_truncated;
use source::read_exactly;
pub(crate) use source::{Passing, RELEASED, SourceBytes, SourceFile, spool};
pub(crate) use span::{Span, from_either_end};
use stream::Streamed;
pub(crate) use stream::{Ranges, Take};

/// The number of elements that are converted at a time when a tensor is written in another type.
const CHUNK_ELEMENTS: usize = 1 << 20;

/// The number of integers that stay in memory once they are read.
const FEW: usize = 16;

/// A constant: type, shape, and the location of its bytes, which copies share.
#[derive(Clone)]
pub struct Tensor(Arc<Parts>);

struct Parts {
    dtype: DType,
    shape: SmallVec<[usize; 4]>,
    data: Data,
    /// The elements, if they are few integers, from the first read on: patterns read the same sizes, bounds
    /// and axes many times.
    few: OnceLock<Box<Array>>,
}

#[derive(Clone)]
enum Data {
    Owned(Bytes),
    Mapped {
        bytes: Bytes,
        source: Arc<SourceBytes>,
    },
    External {
        file: Arc<SourceFile>,
        offset: u64,
        len: u64,
    },
    /// String elements.
    Text(Arc<[Bytes]>),
    /// One repeated element, without memory for each.
    Filled(Box<Array>),
    Deferred(Arc<Deferred>),
    /// Bytes that are computed in parts.
    Streamed(Arc<Streamed>),
}

type Evaluate = dyn Fn(Vec<Array>) -> Result<Array> + Send + Sync;

/// A tensor that is evaluated from others on each read, and dropped again.
struct Deferred {
    inputs: Vec<Tensor>,
    evaluate: Box<Evaluate>,
    depth: usize,
    cost: Cost,
    /// The budget of evaluations.
    meter: Option<Meter>,
}

impl Tensor {
    fn of(dtype: DType, shape: impl Into<SmallVec<[usize; 4]>>, data: Data) -> Tensor {
        Tensor(Arc::new(Parts { dtype, shape: shape.into(), data, few: OnceLock::new() }))
    }

    /// Creates a tensor from its `raw_data`.
    pub(crate) fn from_raw(dtype: DType, shape: Vec<usize>, bytes: Bytes) -> Result<Tensor> {
        let tensor = Tensor::of(dtype, shape, Data::Owned(bytes));
        tensor.check()
    }

    /// Creates a tensor of strings.
    pub(crate) fn from_text(shape: Vec<usize>, elements: Vec<Bytes>) -> Result<Tensor> {
        let tensor = Tensor::of(DType::String, shape, Data::Text(elements.into()));
        match tensor.text() {
            Some(elements) if elements.len() != tensor.len() => {
                invalid!(
                    "found {} strings, but a tensor of shape {:?} has {}",
                    elements.len(),
                    tensor.0.shape,
                    tensor.len()
                )
            }
            _ => Ok(tensor),
        }
    }

    /// Creates a tensor whose `raw_data` is a slice of a source.
    pub(crate) fn from_source(
        dtype: DType,
        shape: Vec<usize>,
        bytes: Bytes,
        source: &Arc<SourceBytes>,
    ) -> Result<Tensor> {
        let source = source.clone();
        let data = if source.is_mapped() { Data::Mapped { bytes, source } } else { Data::Owned(bytes) };
        Tensor::of(dtype, shape, data).check()
    }

    /// Creates a tensor whose bytes are a range of another file.
    pub(crate) fn from_file(
        dtype: DType,
        shape: Vec<usize>,
        file: Arc<SourceFile>,
        offset: u64,
        len: u64,
    ) -> Result<Tensor> {
        Tensor::of(dtype, shape, Data::External { file, offset, len }).check()
    }

    /// Creates a tensor with the elements of an array, all of which must be known.
    pub(crate) fn from_array(array: &Array) -> Result<Tensor> {
        Tensor::from_raw(array.dtype(), array.shape().to_vec(), Bytes::from(array.to_bytes()?))
    }

    /// Creates a tensor of float32 values.
    pub fn from_f32(shape: &[usize], elements: Vec<f32>) -> Result<Tensor> {
        Tensor::from_array(&Array::f32(ndarray::ArrayD::from_shape_vec(shape, elements)?))
    }

    /// Creates a tensor of one repeated element.
    pub(crate) fn filled(element: &Array, shape: Vec<usize>) -> Result<Tensor> {
        Tensor::of(element.dtype(), shape, Data::Filled(Box::new(element.reshape(&[])?))).check()
    }

    /// Creates a tensor of one repeated float32.
    pub(crate) fn all(number: f32, shape: Vec<usize>) -> Result<Tensor> {
        Tensor::filled(&Array::f32(ndarray::ArrayD::from_elem(Vec::new(), number)), shape)
    }

    /// Creates a tensor that `evaluate` computes from `inputs` on each read. The result must have `dtype` and
    /// `shape`.
    pub(crate) fn deferred(
        dtype: DType,
        shape: Vec<usize>,
        inputs: Vec<Tensor>,
        evaluate: impl Fn(&[Array]) -> Result<Array> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let cost = Tensor::cost(dtype, &shape, &inputs);
        let meter = inputs.iter().find_map(|input| match &input.0.data {
            Data::Deferred(deferred) => deferred.meter.clone(),
            _ => None,
        });
        Tensor::deferred_at(cost, meter, dtype, shape, inputs, move |arrays| evaluate(&arrays))
    }

    /// Like [`Tensor::deferred`], at a known cost, which each read takes from the meter.
    pub(crate) fn deferred_at(
        cost: Cost,
        meter: Option<Meter>,
        dtype: DType,
        shape: Vec<usize>,
        inputs: Vec<Tensor>,
        evaluate: impl Fn(Vec<Array>) -> Result<Array> + Send + Sync + 'static,
    ) -> Result<Tensor> {
        let depth = 1 + inputs.iter().map(Tensor::depth).max().unwrap_or(0);
        let deferred = Deferred { inputs, evaluate: Box::new(evaluate), depth, cost, meter };
        let tensor = Tensor::of(dtype, shape, Data::Deferred(Arc::new(deferred)));
        if depth > limits::DEFERRED_DEPTH { Tensor::from_array(&tensor.load()?) } else { Ok(tensor) }
    }

    fn depth(&self) -> usize {
        match &self.0.data {
            Data::Deferred(deferred) => deferred.depth,
            _ => 0,
        }
    }

    fn check(self) -> Result<Tensor> {
        if self.0.shape.len() > limits::AXES {
            return Err(Error::limit(format!("a tensor of {} axes", self.0.shape.len())));
        }
        let product = self.0.shape.iter().try_fold(1_usize, |n, size| n.checked_mul((*size).max(1)));
        if self.is_empty() && product.is_none_or(|product| product > limits::EMPTY_POSITIONS) {
            return Err(Error::limit(format!("a tensor of shape {:?}", self.0.shape)));
        }
        let needed = self.byte_len()?;
        let have = match &self.0.data {
            Data::Owned(bytes) | Data::Mapped { bytes, .. } => u64::try_from(bytes.len())?,
            Data::External { len, .. } => *len,
            Data::Text(_) | Data::Filled(_) | Data::Deferred(_) | Data::Streamed(_) => needed,
        };
        if needed != have {
            let Parts { dtype, shape, .. } = &*self.0;
            invalid!("{have} bytes of data, but a {dtype} tensor of shape {shape:?} has {needed}");
        }
        Ok(self)
    }

    /// Returns the element type.
    pub fn dtype(&self) -> DType {
        self.0.dtype
    }

    /// Returns the sizes of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.0.shape
    }

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.0.shape.iter().fold(1, |n, d| n.saturating_mul(*d))
    }

    /// Returns whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the bytes of the elements in the tensor's type.
    pub fn byte_len(&self) -> Result<u64> {
        let too_large = || Error::limit(format!("a tensor of shape {:?} is too large", self.0.shape));
        let count = self.0.shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d)).ok_or_else(too_large)?;
        Ok(u64::try_from(self.0.dtype.byte_len(count).ok_or_else(too_large)?)?)
    }

    /// Returns whether reading evaluates the tensor.
    pub fn is_deferred(&self) -> bool {
        matches!(self.0.data, Data::Deferred(_))
    }

    /// Returns the bytes of `raw_data`, if they are mapped or in memory.
    pub(crate) fn raw_bytes(&self) -> Option<&Bytes> {
        match &self.0.data {
            Data::Owned(bytes) | Data::Mapped { bytes, .. } => Some(bytes),
            Data::Text(_)
            | Data::External { .. }
            | Data::Filled(_)
            | Data::Deferred(_)
            | Data::Streamed(_) => None,
        }
    }

    /// Returns the elements of a tensor of strings.
    pub(crate) fn text(&self) -> Option<&[Bytes]> {
        match &self.0.data {
            Data::Text(elements) => Some(elements),
            _ => None,
        }
    }

    /// Returns an identity of the bytes: their location and length. `None` for computed bytes.
    pub(crate) fn source(&self) -> Option<(usize, u64, u64)> {
        match &self.0.data {
            Data::Owned(bytes) | Data::Mapped { bytes, .. } => {
                Some((bytes.as_ptr().addr(), 0, u64::try_from(bytes.len()).ok()?))
            }
            Data::External { file, offset, len } => Some((Arc::as_ptr(file).addr(), *offset, *len)),
            Data::Text(_) | Data::Filled(_) | Data::Deferred(_) | Data::Streamed(_) => None,
        }
    }

    /// Returns an identity of the elements: tensors of one identity have equal ones.
    pub(crate) fn identity(&self) -> (usize, u64, u64) {
        self.source().unwrap_or_else(|| (Arc::as_ptr(&self.0).addr(), 0, 0))
    }

    /// Returns the elements as `raw_data`; reads or evaluates them if necessary.
    pub fn to_raw(&self) -> Result<Bytes> {
        match &self.0.data {
            Data::Owned(bytes) | Data::Mapped { bytes, .. } => Ok(bytes.clone()),
            Data::External { file, offset, len } => {
                let mut bytes = Vec::new();
                read_exactly(file, *offset, *len, &mut bytes)?;
                Ok(bytes.into())
            }
            Data::Streamed(streamed) => streamed.collect(),
            Data::Text(_) | Data::Filled(_) | Data::Deferred(_) => Ok(self.load()?.to_bytes()?.into()),
        }
    }

    /// Returns the same elements in another shape, without moving data.
    pub fn reshaped(&self, shape: &[usize]) -> Result<Tensor> {
        let count = shape.iter().try_fold(1_usize, |n, d| n.checked_mul(*d));
        if count != Some(self.len()) {
            invalid!("a constant of shape {:?} reshaped to {shape:?}", self.0.shape);
        }
        if let Data::Deferred(_) = self.0.data {
            let target = shape.to_vec();
            return Tensor::deferred(self.0.dtype, shape.to_vec(), vec![self.clone()], move |inputs| {
                inputs.first().ok_or_else(|| Error::invalid("no input"))?.reshape(&target)
            });
        }
        Ok(Tensor::of(self.0.dtype, shape, self.0.data.clone()))
    }

    /// Returns the tensor of a shape with a size of 0; `None` for other shapes.
    pub(crate) fn without_elements(dtype: DType, shape: &[Dim]) -> Result<Option<Tensor>> {
        if !shape.iter().any(|size| size.is(0)) {
            return Ok(None);
        }
        let sizes: Option<Vec<usize>> = Dim::known_sizes(shape);
        sizes.map(|sizes| Tensor::from_raw(dtype, sizes, Bytes::new())).transpose()
    }

    /// Reads or evaluates all elements.
    pub fn load(&self) -> Result<Array> {
        if let Data::Deferred(deferred) = &self.0.data
            && let Some(meter) = &deferred.meter
        {
            meter.take(deferred.cost.work())?;
        }
        self.read()
    }

    fn read(&self) -> Result<Array> {
        match &self.0.data {
            Data::Owned(bytes) => Array::from_bytes(self.0.dtype, &self.0.shape, bytes),
            Data::Mapped { bytes, source } => {
                let array = Array::from_bytes(self.0.dtype, &self.0.shape, bytes);
                if bytes.len() >= CHUNK_ELEMENTS {
                    source.release(bytes);
                }
                array
            }
            Data::External { file, offset, len } => {
                let mut bytes = Vec::new();
                read_exactly(file, *offset, *len, &mut bytes)?;
                Array::from_bytes(self.0.dtype, &self.0.shape, &bytes)
            }
            Data::Text(_) => Array::from_bytes(self.0.dtype, &self.0.shape, &[]),
            Data::Filled(element) => element.broadcast(&self.0.shape),
            Data::Streamed(streamed) => Array::from_bytes(self.0.dtype, &self.0.shape, &streamed.collect()?),
            Data::Deferred(deferred) => {
                let inputs: Result<Vec<Array>> = deferred.inputs.iter().map(Tensor::read).collect();
                let array = (deferred.evaluate)(inputs?)?;
                if array.dtype() != self.0.dtype || array.shape() != self.shape() {
                    return Err(Error::invalid(format!(
                        "a constant was inferred as {} {:?} and computed as {} {:?}",
                        self.0.dtype,
                        self.0.shape,
                        array.dtype(),
                        array.shape()
                    )));
                }
                Ok(array)
            }
        }
    }

    /// Like [`Tensor::load`] during conversion: refuses to list more repeated or computed elements than the
    /// limit.
    pub(crate) fn load_listed(&self) -> Result<Cow<'_, Array>> {
        if let Some(few) = self.few()? {
            return Ok(Cow::Borrowed(few));
        }
        if let Data::Filled(_) = &self.0.data {
            limits::check_listed(self.len())?;
        }
        self.load().map(Cow::Owned)
    }

    /// Returns the elements, if they are few integers.
    pub(crate) fn few(&self) -> Result<Option<&Array>> {
        if self.len() > FEW || !self.0.dtype.is_int() {
            return Ok(None);
        }
        if self.0.few.get().is_none() {
            // Another thread may have set the same elements.
            let _ = self.0.few.set(Box::new(self.load()?));
        }
        Ok(self.0.few.get().map(Box::as_ref))
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {:?}", self.0.dtype, self.0.shape)?;
        match &self.0.data {
            Data::Owned(_) => Ok(()),
            Data::Mapped { .. } => f.write_str(" (mapped)"),
            Data::External { .. } => f.write_str(" (external)"),
            Data::Text(_) => f.write_str(" (text)"),
            Data::Filled(_) => f.write_str(" (filled)"),
            Data::Deferred(_) => f.write_str(" (deferred)"),
            Data::Streamed(_) => f.write_str(" (streamed)"),
        }
    }
}
