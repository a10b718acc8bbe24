//! Layers and arithmetic of values.

use std::ops::{Add, Div, Mul, Neg, Sub};

use super::{Nd, Source};
use crate::error::{At, Error, Result, unsupported};
use crate::lower::Lower;
use crate::lower::common_form::{express_all, merged_form};
use crate::lower::form::{extended, interface_form};
use crate::lower::formula::{Formula, Operand};
use crate::ncnn::layer::MatMul;
use crate::ncnn::{BlobId, BlobIds, Layer};
use crate::tensor::{Dim, Shape, Tensor, broadcast_shapes, display_shape};

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

    /// Returns a number, which may be infinite, as each element of a shape of at most four axes.
    pub fn all(&'l self, number: f32, shape: impl Into<Shape>) -> Nd<'l> {
        self.made(shape, |shape| self.scaled(self.ones(shape)?, number))
    }

    pub(super) fn made(
        &'l self,
        shape: impl Into<Shape>,
        emit: impl FnOnce(&Shape) -> Result<BlobId>,
    ) -> Nd<'l> {
        let shape = shape.into();
        self.run(|| emit(&shape)).map_or_else(|| self.nothing(), |blob| self.nd(blob, shape))
    }

    /// Returns the top of a layer that reads values of at most four axes, each in the form of its shape.
    pub fn layer(&'l self, layer: impl Into<Layer>, bottoms: &[Nd<'l>], shape: impl Into<Shape>) -> Nd<'l> {
        let bottoms = || bottoms.iter().map(|x| x.in_form(&x.shape()));
        self.made(shape, |shape| self.emit(layer, &bottoms().collect::<Result<BlobIds>>()?, shape))
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

    /// Returns a formula of each element, whose layers are the same for a blob in any form.
    pub fn compute(self, formula: impl FnOnce(BlobId) -> Formula) -> Nd<'l> {
        self.map_blob(self.shape(), |lower| lower.compute(formula(self.blob()?)))
    }

    /// Returns a formula of the elements of two values, which are broadcast to each other.
    pub fn compute_with(self, other: Nd<'l>, formula: impl FnOnce(BlobId, BlobId) -> Formula) -> Nd<'l> {
        let shapes = [self.shape(), other.shape()];
        let Some(out) = self.lower.run(|| broadcast_shapes(&shapes[0], &shapes[1])) else { return self };
        self.map_blob(out.clone(), |lower| {
            let [x, y] = Nd::in_common_form([self, other], &out)?;
            lower.compute(formula(x, y))
        })
    }

    /// Returns two operands as blobs of equal rank, or of one element, in the form that takes the fewest
    /// Reshapes.
    fn in_common_form(operands: [Nd<'l>; 2], out: &[Dim]) -> Result<[BlobId; 2]> {
        let [x, y] = operands;
        let is_single = |x: Nd| x.shape().len() < 2 && x.shape().iter().all(|size| size.is(1));
        if is_single(x) || is_single(y) {
            let blob = |x: Nd| if is_single(x) { x.in_form(&[Dim::ONE]) } else { x.blob() };
            return Ok([blob(x)?, blob(y)?]);
        }
        let inputs = operands.map(|x| (0, extended(&x.shape(), out.len())));
        let forms_of_operands = [x.forms()?, y.forms()?];
        let whole = forms_of_operands.iter().zip(&inputs).filter(|(_, (_, shape))| shape == out);
        let mut candidates: Vec<Vec<Dim>> = whole.flat_map(|(forms, _)| forms.clone()).collect();
        candidates.extend([out.to_vec(), interface_form(out)]);
        candidates.extend(merged_form(&inputs, out));
        let forms = candidates.iter().filter_map(|form| express_all(form, &inputs, out));
        let reshapes = |forms: &Vec<Vec<Dim>>| {
            let operands = operands.iter().zip(&forms_of_operands).zip(forms);
            operands
                .filter(|((x, forms_of_operands), form)| {
                    !x.is_constant() && !forms_of_operands.contains(form)
                })
                .count()
        };
        let Some(forms) = forms.min_by_key(reshapes) else {
            let [x, y] = operands.map(|x| x.shape());
            unsupported!(
                "{} and {} broadcast to each other: ncnn has at most four axes",
                display_shape(&x),
                display_shape(&y)
            );
        };
        Ok([x.in_form(forms.at(0)?)?, y.in_form(forms.at(1)?)?])
    }

    /// Returns the larger of each element and that of another value, as in [`Nd::compute_with`].
    pub fn maximum(self, other: Nd<'l>) -> Nd<'l> {
        self.compute_with(other, |x, y| x.maximum(y))
    }

    /// Returns the smaller of each element and that of another value, as in [`Nd::compute_with`].
    pub fn minimum(self, other: Nd<'l>) -> Nd<'l> {
        self.compute_with(other, |x, y| x.minimum(y))
    }

    /// Returns a linear map of an axis: each element is the sum of the elements of the axis, weighted by a
    /// row of the matrix.
    pub fn linear(self, axis: usize, matrix: &Tensor) -> Nd<'l> {
        let rows = matrix.shape().first().copied().unwrap_or(0);
        self.along(axis, rows, |lower, x, blob_axis, _| lower.linear(x, blob_axis, matrix))
    }

    /// Returns a linear map of an axis as [`Nd::linear`], by a matrix computed at run time, whose shape is
    /// `[rows, size of the axis]`.
    pub fn product(self, axis: usize, matrix: Nd<'l>) -> Nd<'l> {
        let (shape, size, rows) = (self.shape(), self.size(axis), matrix.size(0));
        let [outer, inner] = Dim::around(&shape, axis);
        let mut top = shape.to_vec();
        top.put(axis, rows.clone());
        let product = if inner.is(1) {
            let x = self.reshape([outer.clone(), size]);
            self.lower.layer(MatMul { transB: 1 }, &[x, matrix], [outer, rows])
        } else if outer.is(1) {
            self.lower.layer(MatMul::default(), &[matrix, self.reshape([size, inner.clone()])], [rows, inner])
        } else {
            let x = self.reshape([outer.clone(), size, inner.clone()]);
            self.lower.layer(MatMul::default(), &[matrix, x], [outer, rows, inner])
        };
        product.reshape(top)
    }
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
