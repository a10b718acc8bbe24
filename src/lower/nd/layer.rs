//! Layers and arithmetic of values.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{Nd, Source};
use crate::error::{At, Error, Result, unsupported};
use crate::lower::Lower;
use crate::lower::form::{MAX_AXES, interface_form};
use crate::lower::formula::{Formula, Operand};
use crate::ncnn::{BlobId, Layer};
use crate::tensor::{Dim, Shape, Tensor, display_shape, pair_axes};

impl<'l> Lower<'l> {
    /// Returns a constant.
    pub fn tensor(&'l self, tensor: Result<Tensor>) -> Nd<'l> {
        let Some(tensor) = self.run(|| tensor) else { return self.nothing() };
        let shape = Shape::from(tensor.shape());
        let mut tensors = self.tensors.borrow_mut();
        tensors.push((tensor, Vec::new()));
        self.elements(Source::Tensor(tensors.len() - 1), shape)
    }

    /// Returns a blob of a constant in a form.
    pub(super) fn tensor_as(&self, index: usize, form: &[Dim]) -> Result<BlobId> {
        let mut tensors = self.tensors.borrow_mut();
        let made = tensors.get_mut(index).ok_or_else(|| Error::internal("an unknown constant"));
        let (tensor, blobs) = made?;
        if let Some(blob) = blobs.iter().find(|blob| *self.state().net.blob(**blob).shape == *form) {
            return Ok(*blob);
        }
        let blob = self.memory_data(tensor, form)?;
        blobs.push(blob);
        Ok(blob)
    }

    /// Returns ones in a shape of at most four axes.
    pub fn all_ones(&'l self, shape: impl Into<Shape>) -> Nd<'l> {
        self.made(shape, |shape| self.ones(shape))
    }

    /// Returns the indices along an axis of this size: 0, 1, 2 and so on.
    pub fn indices_of(&'l self, size: &Dim) -> Nd<'l> {
        self.made(std::slice::from_ref(size), |shape| self.places_along(size, shape))
    }

    /// Returns a size as the only element of an axis.
    pub fn number_of(&'l self, size: &Dim) -> Nd<'l> {
        self.made([Dim::ONE], |_| self.materialize(std::slice::from_ref(size)))
    }

    fn made(&'l self, shape: impl Into<Shape>, emit: impl FnOnce(&Shape) -> Result<BlobId>) -> Nd<'l> {
        let shape = shape.into();
        self.run(|| emit(&shape)).map_or_else(|| self.nothing(), |blob| self.nd(blob, shape))
    }

    /// Returns the top of a layer that reads values of at most four axes, each in the form of its shape.
    pub fn layer(&'l self, layer: impl Into<Layer>, bottoms: &[Nd<'l>], shape: impl Into<Shape>) -> Nd<'l> {
        self.layer_n(layer, bottoms, &[shape.into()]).first().copied().unwrap_or_else(|| self.nothing())
    }

    /// Returns the tops of a layer that reads values of at most four axes, each in the form of its shape.
    pub fn layer_n(&'l self, layer: impl Into<Layer>, bottoms: &[Nd<'l>], shapes: &[Shape]) -> Vec<Nd<'l>> {
        let tops = self.run(|| {
            let blobs: Result<Vec<BlobId>> = bottoms.iter().map(|x| x.in_form(&x.shape())).collect();
            let forms: Vec<&[Dim]> = shapes.iter().map(|shape| &**shape).collect();
            self.emit_n(layer, &blobs?, &forms)
        });
        match tops {
            Some(tops) => tops.iter().zip(shapes).map(|(top, shape)| self.nd(*top, shape.clone())).collect(),
            None => vec![self.nothing(); shapes.len()],
        }
    }
}

impl<'l> Nd<'l> {
    /// Returns the top of a layer that reads the value, of at most four axes, in the form of its shape.
    pub fn layer(self, layer: impl Into<Layer>, shape: impl Into<Shape>) -> Nd<'l> {
        self.lower.layer(layer, &[self], shape)
    }

    /// Returns the value as a blob in the form of its shape, which the layers that follow are to read.
    pub fn isolated(self) -> Nd<'l> {
        let shape = self.shape();
        self.map_blob(shape.clone(), |_| self.in_form(&shape))
    }

    /// Returns a formula of each element.
    pub fn compute(self, formula: impl FnOnce(BlobId) -> Formula) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.compute(formula(self.blob()?)))
    }

    /// Returns a formula of each element and that of a value of as many axes, which have the same sizes, or a size of 1
    /// in the other value.
    pub fn compute_with(self, other: Nd<'l>, formula: impl FnOnce(BlobId, BlobId) -> Formula) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| {
            let (shape, narrow) = (self.shape(), other.shape());
            let is_spread = |axis: &usize| narrow.get(*axis) != shape.get(*axis);
            let spread: Vec<usize> = (0..shape.len().max(narrow.len())).filter(is_spread).collect();
            if shape.len() != narrow.len() || spread.iter().any(|axis| !other.size(*axis).is(1)) {
                let [wide, narrow] = [&shape, &narrow].map(|shape| display_shape(shape));
                return Err(Error::internal(format!("{narrow} beside {wide}")));
            }
            let (x, form) = self.without(&spread)?;
            lower.compute(formula(x, other.in_form(&form)?))
        })
    }

    /// Returns a blob of the value, and its form with a size of 1 of these axes.
    fn without(self, spread: &[usize]) -> Result<(BlobId, Vec<Dim>)> {
        let (held, shape) = (self.held()?, self.shape());
        for blob in &held {
            if let Some(form) = form_without(&self.lower.form(*blob), &shape, spread) {
                return Ok((*blob, form));
            }
        }
        let natural = interface_form(&shape);
        if natural.len() < MAX_AXES
            && held.iter().any(|blob| self.lower.state().is_plain(*blob, &natural))
            && let Some(form) = form_without(&natural, &shape, spread)
        {
            return Ok((self.in_form(&natural)?, form));
        }
        let (mut whole, mut form, mut last) = (Vec::new(), Vec::new(), None);
        for (axis, size) in shape.iter().enumerate().filter(|(_, size)| !size.is(1)) {
            let is_spread = spread.contains(&axis);
            let size = if last.replace(is_spread) == Some(is_spread) {
                form.pop();
                whole.pop().unwrap_or(Dim::ONE) * size
            } else {
                size.clone()
            };
            form.push(if is_spread { Dim::ONE } else { size.clone() });
            whole.push(size);
        }
        if whole.len() > MAX_AXES {
            let shape = display_shape(&shape);
            unsupported!("axes {spread:?} of {shape} apart from the others: ncnn has at most four axes");
        }
        Ok((self.in_form(&whole)?, form))
    }

    /// Returns the larger of each element and that of another value, as in [`Nd::compute_with`].
    pub fn larger(self, other: Nd<'l>) -> Nd<'l> {
        self.compute_with(other, |x, y| x.larger(y))
    }

    /// Returns a linear map of an axis: each element is the sum of the elements of the axis, weighted by a row of the
    /// matrix.
    pub fn linear(self, axis: usize, matrix: &Tensor) -> Nd<'l> {
        let rows = matrix.shape().first().copied().unwrap_or(0);
        self.along(axis, rows, |lower, x, place, _| lower.linear(x, place, matrix))
    }

    /// Returns a reduction along axes, which keep a size of 1; `operation` as in [`crate::ncnn::layer::reduction_op`].
    pub fn reduce(self, operation: i32, axes: &[usize]) -> Nd<'l> {
        let mut shape = self.shape().to_vec();
        axes.iter().for_each(|axis| shape.put(*axis, Dim::ONE));
        self.map_blob(shape, |lower| {
            let Some((x, places)) = self.apart(axes)? else {
                let shape = self.shape();
                unsupported!(
                    "axes {axes:?} of {} as separate axes: ncnn has at most four",
                    display_shape(&shape)
                );
            };
            lower.reduce(operation, x, &places)
        })
    }
}

/// Returns a form of a shape with a size of 1 of these axes, unless it merges one of them with others.
fn form_without(form: &[Dim], shape: &[Dim], spread: &[usize]) -> Option<Vec<Dim>> {
    let mut narrow = form.to_vec();
    for [in_form, axes] in pair_axes(form, shape)? {
        if axes.iter().all(|axis| spread.contains(axis)) {
            in_form.into_iter().for_each(|axis| narrow.put(axis, Dim::ONE));
        } else if axes.iter().any(|axis| spread.contains(axis)) {
            return None;
        }
    }
    Some(narrow)
}

macro_rules! operators {
    ( $( $trait:ident $method:ident, )* ) => { $(
        #[doc(hidden)]
        impl<'l> $trait<Nd<'l>> for Nd<'l> {
            type Output = Nd<'l>;

            fn $method(self, other: Nd<'l>) -> Nd<'l> {
                self.compute_with(other, |x, y| x.$method(y))
            }
        }

        #[doc(hidden)]
        impl<'l> $trait<f32> for Nd<'l> {
            type Output = Nd<'l>;

            fn $method(self, number: f32) -> Nd<'l> {
                self.compute(|x| x.$method(number))
            }
        }
    )* };
}

operators! { Add add, Sub sub, Mul mul, Div div, }

#[doc(hidden)]
impl<'l> Neg for Nd<'l> {
    type Output = Nd<'l>;

    fn neg(self) -> Nd<'l> {
        self.compute(|x| -x)
    }
}
