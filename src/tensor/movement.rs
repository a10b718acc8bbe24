//! Rearrangement of elements of any kind.

use std::borrow::{Borrow, Cow};

use ndarray::{ArrayD, Axis, IxDyn, Slice};

use super::{Array, Dim, Elements, Span, move_elements};
use crate::error::{At, Error, Result, invalid};

impl Array {
    /// Returns the elements at `indices` along an axis, in that order.
    pub fn gather(&self, axis: usize, indices: &[usize]) -> Result<Array> {
        let size = *self.shape().at(axis)?;
        if let Some(outside) = indices.iter().find(|index| **index >= size) {
            invalid!("index {outside} is out of range for axis {axis} of size {size}");
        }
        Ok(move_elements!(self, a => a.select(Axis(axis), indices)))
    }

    /// Returns the elements of a span of an axis.
    pub(crate) fn take(&self, axis: usize, span: &Span) -> Result<Array> {
        let indices = span.indices()?.into_iter().map(|index| Ok(usize::try_from(index)?));
        let indices: Vec<usize> = indices.collect::<Result<_>>()?;
        let (Some(first), Some(last), Ok(step)) = (indices.first(), indices.last(), span.step.try_into())
        else {
            return self.gather(axis, &indices);
        };
        if step < 1 || *last >= *self.shape().at(axis)? {
            return self.gather(axis, &indices);
        }
        let along = Slice::from(*first..last + 1).step_by(step);
        Ok(move_elements!(self, a => a.slice_axis(Axis(axis), along).into_owned()))
    }

    /// Permutes the axes.
    pub fn transpose(&self, perm: &[usize]) -> Result<Array> {
        let mut sorted = perm.to_vec();
        sorted.sort_unstable();
        if !sorted.into_iter().eq(0..self.shape().len()) {
            invalid!("{perm:?} is not a permutation of {} axes", self.shape().len());
        }
        Ok(move_elements!(self, a => a.view().permuted_axes(IxDyn(perm)).as_standard_layout().into_owned()))
    }

    /// Broadcasts the elements to `shape`, by ONNX's rules of unidirectional broadcasting.
    pub fn broadcast(&self, shape: &[usize]) -> Result<Array> {
        let error = || Error::invalid(format!("{:?} does not broadcast to {shape:?}", self.shape()));
        Ok(move_elements!(self, a => a.broadcast(IxDyn(shape)).ok_or_else(error)?.to_owned()))
    }

    /// Concatenates arrays along an axis.
    pub fn concat<A: Borrow<Array>>(arrays: &[A], axis: usize) -> Result<Array> {
        let arrays = Array::of_one_kind(arrays)?;
        let first = arrays.first().ok_or_else(|| Error::invalid("nothing to concatenate"))?;
        first.shape().at(axis)?;
        macro_rules! concat {
            ($kind:ident) => {{
                let parts: Vec<_> = arrays
                    .iter()
                    .filter_map(
                        |array| if let Elements::$kind(a) = array.elements() { Some(a.view()) } else { None },
                    )
                    .collect();
                Elements::$kind(ndarray::concatenate(Axis(axis), &parts)?)
            }};
        }
        let elements = match first.elements() {
            Elements::F32(_) => concat!(F32),
            Elements::F64(_) => concat!(F64),
            Elements::I64(_) => concat!(I64),
            Elements::Dim(_) => concat!(Dim),
        };
        Ok(Array::moved(first.dtype(), elements))
    }

    /// Converts arrays to elements of one kind: integers become sizes if one of them contains sizes.
    pub fn of_one_kind<'a, A: Borrow<Array>>(arrays: &'a [A]) -> Result<Vec<Cow<'a, Array>>> {
        let arrays = || arrays.iter().map(A::borrow);
        let Some(first) = arrays().next() else { return Ok(Vec::new()) };
        if let Some(other) = arrays().find(|array| array.dtype() != first.dtype()) {
            invalid!("elements of {} and {}", first.dtype(), other.dtype());
        }
        let some_sizes = arrays().any(|array| matches!(array.elements(), Elements::Dim(_)));
        let lift = |array: &'a Array| match array {
            Array { dtype, elements: Elements::I64(a) } if some_sizes => {
                Cow::Owned(Array { dtype: *dtype, elements: Elements::Dim(a.mapv(Dim::Known)) })
            }
            _ => Cow::Borrowed(array),
        };
        Ok(arrays().map(lift).collect())
    }

    /// Replaces the elements at `targets`, row-major offsets, by those of `updates`, in order.
    pub fn replace(&self, targets: &[usize], updates: &Array) -> Result<Array> {
        let pair = [self, updates];
        let pair = Array::of_one_kind(&pair)?;
        let (base, updates) = (pair.at(0)?, pair.at(1)?);
        macro_rules! replace {
            ($kind:ident, $base:expr, $updates:expr) => {{
                let mut base: ArrayD<_> = $base.as_standard_layout().into_owned();
                let cells =
                    base.as_slice_mut().ok_or_else(|| Error::invalid("an array is not contiguous"))?;
                for (target, update) in targets.iter().zip($updates.iter()) {
                    let len = cells.len();
                    let cell = cells.get_mut(*target);
                    *cell.ok_or_else(|| {
                        Error::invalid(format!("index {target} is out of range for {len} elements"))
                    })? = update.clone();
                }
                Elements::$kind(base)
            }};
        }
        let elements = match (base.elements(), updates.elements()) {
            (Elements::F32(a), Elements::F32(b)) => replace!(F32, a, b),
            (Elements::F64(a), Elements::F64(b)) => replace!(F64, a, b),
            (Elements::I64(a), Elements::I64(b)) => replace!(I64, a, b),
            (Elements::Dim(a), Elements::Dim(b)) => replace!(Dim, a, b),
            _ => invalid!("elements of {} and {}", base.dtype(), updates.dtype()),
        };
        Ok(Array::moved(base.dtype(), elements))
    }

    /// Returns the elements at `offsets`, row-major offsets, in a new shape.
    pub fn pick(&self, offsets: &[usize], shape: &[usize]) -> Result<Array> {
        self.reshape(&[self.len()])?.gather(0, offsets)?.reshape(shape)
    }
}

/// Returns the coordinates of all elements of `shape`, in row-major order.
pub(crate) fn coordinates(shape: &[usize]) -> impl Iterator<Item = Vec<usize>> + use<> {
    let shape = shape.to_vec();
    let count = shape.iter().product::<usize>();
    (0..count).map(move |mut offset| {
        let mut at = vec![0; shape.len()];
        for (slot, size) in at.iter_mut().zip(&shape).rev() {
            *slot = offset % size;
            offset /= size;
        }
        at
    })
}

/// Returns the row-major offset of a coordinate.
pub(crate) fn row_major(shape: &[usize], at: &[usize]) -> usize {
    shape.iter().zip(at).fold(0, |offset, (size, i)| offset * size + i)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(shape: &[usize], elements: &[i64]) -> Array {
        Array::i64(ArrayD::from_shape_vec(shape, elements.to_vec()).unwrap())
    }

    #[test]
    fn elements_of_every_kind_move() {
        let a = ints(&[2, 3], &[0, 1, 2, 3, 4, 5]);
        assert_eq!(a.gather(1, &[2, 0]).unwrap(), ints(&[2, 2], &[2, 0, 5, 3]));
        assert_eq!(a.transpose(&[1, 0]).unwrap(), ints(&[3, 2], &[0, 3, 1, 4, 2, 5]));
        assert_eq!(ints(&[2, 1], &[7, 8]).broadcast(&[2, 2]).unwrap(), ints(&[2, 2], &[7, 7, 8, 8]));
        assert_eq!(a.replace(&[5, 0], &ints(&[2], &[9, 8])).unwrap(), ints(&[2, 3], &[8, 1, 2, 3, 4, 9]));
        assert_eq!(a.pick(&[5, 5], &[1, 2]).unwrap(), ints(&[1, 2], &[5, 5]));
        let sizes = Array::from_dims(&[Dim::symbol("H")]);
        let both = Array::concat(&[ints(&[1], &[3]), sizes], 0).unwrap();
        assert_eq!(
            both.to_dims().unwrap().iter().cloned().collect::<Vec<_>>(),
            [Dim::from(3), Dim::symbol("H")]
        );
    }

    #[test]
    fn indices_out_of_range_are_refused() {
        let a = ints(&[2, 3], &[0; 6]);
        assert!(a.gather(1, &[3]).is_err());
        assert!(a.gather(2, &[0]).is_err());
        assert!(a.transpose(&[0, 0]).is_err());
        assert!(a.broadcast(&[3, 3]).is_err());
        assert!(a.replace(&[6], &ints(&[1], &[1])).is_err());
        assert!(Array::concat(&[a, Array::f32(ArrayD::zeros(vec![2, 3]))], 0).is_err());
    }

    #[test]
    fn coordinates_count_in_row_major_order() {
        let all: Vec<Vec<usize>> = coordinates(&[2, 2]).collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1]]);
        assert!(all.iter().enumerate().all(|(i, at)| row_major(&[2, 2], at) == i));
        assert_eq!(coordinates(&[]).count(), 1);
        assert_eq!(coordinates(&[0, 4]).count(), 0);
    }
}
