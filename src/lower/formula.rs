//! Arithmetic of blobs, written as formulas.
//!
//! Operators of Rust make a [`Formula`] of blobs and numbers. [`Lower::compute`] emits its layers, the
//! operands from left to right, as do the functions that take a formula instead of a blob. A formula is used
//! once: what is used twice is computed first.

use std::ops::{Add, Div, Mul, Neg, Not, Sub};

use super::Lower;
use super::elements::check_elements;
use super::form::same_elements;
use super::state::mismatch;
use crate::error::{Result, unsupported};
use crate::ncnn::layer::{BinaryOp, Clip, ReLU, Threshold, Trait, UnaryOp, binary_op, unary_op};
use crate::ncnn::{BlobId, Layer};
use crate::tensor::{Dim, Tensor, shape};

/// An operand of an arithmetic layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum ScalarOrBlob {
    /// A blob.
    Blob(BlobId),
    /// A finite constant of one element.
    Number(f32),
}

impl From<BlobId> for ScalarOrBlob {
    fn from(blob: BlobId) -> ScalarOrBlob {
        ScalarOrBlob::Blob(blob)
    }
}

/// Arithmetic whose layers are not emitted yet.
#[derive(Debug)]
pub enum Formula {
    Blob(BlobId),
    Number(f32),
    /// A layer that keeps the shape of its bottom.
    Map(Box<(Layer, Formula)>),
    /// Arithmetic of two operands; the number is that of [`binary_op`].
    Binary(i32, Box<[Formula; 2]>),
}

impl From<BlobId> for Formula {
    fn from(blob: BlobId) -> Formula {
        Formula::Blob(blob)
    }
}

impl From<f32> for Formula {
    fn from(number: f32) -> Formula {
        Formula::Number(number)
    }
}

impl From<ScalarOrBlob> for Formula {
    fn from(side: ScalarOrBlob) -> Formula {
        match side {
            ScalarOrBlob::Blob(blob) => Formula::Blob(blob),
            ScalarOrBlob::Number(number) => Formula::Number(number),
        }
    }
}

macro_rules! unary {
    ( $( $method:ident $op:ident, )* ) => { $(
        fn $method(self) -> Formula {
            self.map(UnaryOp { op_type: unary_op::$op })
        }
    )* };
}

/// A blob, a number or a formula.
pub(crate) trait Operand: Into<Formula> {
    unary! {
        abs ABS,
        atan ATAN,
        cos COS,
        exp EXP,
        floor FLOOR,
        reciprocal RECIPROCAL,
        round ROUND,
        sqrt SQRT,
        square SQUARE,
        trunc TRUNC,
    }

    /// Returns the result of a layer that keeps the shape of its bottom.
    fn map(self, layer: impl Into<Layer>) -> Formula {
        Formula::Map(Box::new((layer.into(), self.into())))
    }

    /// Returns arithmetic of two operands; `op_type` as in [`binary_op`].
    fn with(self, op_type: i32, other: impl Into<Formula>) -> Formula {
        Formula::Binary(op_type, Box::new([self.into(), other.into()]))
    }

    /// Returns the larger of two operands.
    fn maximum(self, other: impl Into<Formula>) -> Formula {
        self.with(binary_op::MAX, other)
    }

    /// Returns the smaller of two operands.
    fn minimum(self, other: impl Into<Formula>) -> Formula {
        self.with(binary_op::MIN, other)
    }

    /// Returns the elements, bounded by two numbers.
    fn clip(self, min: f32, max: f32) -> Formula {
        self.map(Clip { min, max })
    }

    /// Returns 1 where the elements are above a threshold, otherwise 0; 0 for NaN.
    fn greater(self, threshold: f32) -> Formula {
        self.map(Threshold { threshold })
    }

    /// Returns 1 where the elements are below a threshold, otherwise 0; 0 for NaN.
    fn less(self, threshold: f32) -> Formula {
        self.into().neg().greater(0.0 - threshold)
    }

    /// Returns 1 where the elements are not zero, otherwise 0.
    fn nonzero(self) -> Formula {
        self.abs().greater(0.0)
    }

    /// Returns 1 where integers are 0, otherwise 0.
    fn equals_zero(self) -> Formula {
        (Formula::Number(1.0) - self.abs()).map(ReLU::default())
    }

    /// Returns `yes` where the elements are 1, `no` where they are 0; both are finite.
    fn select(self, yes: impl Operand, no: impl Operand) -> Formula
    where
        Self: Copy,
    {
        yes.with(binary_op::MUL, self) + no.with(binary_op::MUL, Formula::Number(1.0) - self)
    }
}

macro_rules! operands {
    ( $( $operand:ident )* ) => { $(
        impl Operand for $operand {}
        operators! { $operand: Add add ADD, Sub sub SUB, Mul mul MUL, Div div DIV, }

        #[doc(hidden)]
        impl Neg for $operand {
            type Output = Formula;

            fn neg(self) -> Formula {
                self.map(UnaryOp { op_type: unary_op::NEG })
            }
        }

        /// Of 1 and 0, which stand for true and false.
        #[doc(hidden)]
        impl Not for $operand {
            type Output = Formula;

            fn not(self) -> Formula {
                Formula::Number(1.0) - self
            }
        }
    )* };
}

macro_rules! operators {
    ( $operand:ident: $( $trait:ident $method:ident $op:ident, )* ) => { $(
        #[doc(hidden)]
        impl<R: Into<Formula>> $trait<R> for $operand {
            type Output = Formula;

            fn $method(self, other: R) -> Formula {
                self.with(binary_op::$op, other)
            }
        }

        #[doc(hidden)]
        impl $trait<$operand> for f32 {
            type Output = Formula;

            fn $method(self, other: $operand) -> Formula {
                Formula::Number(self).with(binary_op::$op, other)
            }
        }
    )* };
}

operands! { BlobId ScalarOrBlob Formula }

impl ScalarOrBlob {
    /// Returns the magnitude.
    pub fn abs(self) -> Formula {
        match self {
            ScalarOrBlob::Blob(blob) => blob.abs(),
            ScalarOrBlob::Number(number) => number.abs().into(),
        }
    }
}

impl Lower<'_> {
    /// Emits the layers of a formula.
    pub fn compute(&self, formula: impl Into<Formula>) -> Result<BlobId> {
        match formula.into() {
            Formula::Blob(blob) => Ok(blob),
            Formula::Number(number) => self.memory_data(&Tensor::from_f32(&[1], vec![number])?, &shape![1]),
            Formula::Map(map) => {
                let (layer, x) = *map;
                let x = self.compute(x)?;
                self.map(layer, x)
            }
            Formula::Binary(op_type, sides) => {
                let [a, b] = *sides;
                match (self.side(a)?, self.side(b)?) {
                    (ScalarOrBlob::Blob(a), ScalarOrBlob::Blob(b)) => self.binary(op_type, a, b),
                    (ScalarOrBlob::Number(a), ScalarOrBlob::Blob(b)) => {
                        self.with_number(reversed(op_type), b, a)
                    }
                    (a, ScalarOrBlob::Number(b)) => {
                        let a = self.compute(a)?;
                        self.with_number(op_type, a, b)
                    }
                }
            }
        }
    }

    /// Emits the layers of an operand, unless it is a number.
    pub fn side(&self, formula: impl Into<Formula>) -> Result<ScalarOrBlob> {
        Ok(match formula.into() {
            Formula::Number(number) => ScalarOrBlob::Number(number),
            formula => ScalarOrBlob::Blob(self.compute(formula)?),
        })
    }

    /// Emits a layer of one blob that keeps its shape; in three axes if it ignores the axis d in old
    /// releases.
    pub fn map(&self, layer: impl Into<Layer>, x: impl Into<Formula>) -> Result<BlobId> {
        let (layer, x) = (layer.into(), self.compute(x)?);
        let form = self.form(x);
        if !layer.has(Trait::NoDepth) {
            return self.emit(layer, &[x], &form);
        }
        let x = self.as_3d(x)?;
        let form_3d = self.form(x);
        let y = self.emit(layer, &[x], &form_3d)?;
        self.reshape(y, &form)
    }

    /// Returns a blob in another form; without a Reshape if it has that form.
    pub(super) fn reshape(&self, x: impl Into<Formula>, form: &[Dim]) -> Result<BlobId> {
        let blob = self.compute(x)?;
        let names = self.names();
        self.state_mut().reshape(names.label(), blob, form)
    }

    /// Makes `x`, in any form of the value, output `index`, if the node has that output.
    pub fn set(&self, index: usize, x: impl Into<Formula>) -> Result<()> {
        let blob = self.compute(x)?;
        let Some(id) = self.call.node().output(index) else { return Ok(()) };
        self.call.graph().value(id).dtype.map_or(Ok(()), check_elements)?;
        let shape = self.call.output_shape(index)?;
        let form = self.form(blob);
        if !same_elements(&form, shape)? {
            return Err(mismatch(&format!("output {index}"), shape, "lowered to", &form));
        }
        let name = &self.call.graph().value(id).name;
        // The first value in a blob gives the blob its name, for readers of the .param file.
        let state = &mut *self.state_mut();
        if let Some(made) = state.net.blob_mut(blob) {
            if !made.is_value {
                made.name.clone_from(name);
                made.is_value = true;
            }
            made.float32 = state.precise_values.contains(id);
        }
        state.forms.push(id, blob);
        Ok(())
    }

    fn with_number(&self, op_type: i32, x: BlobId, b: f32) -> Result<BlobId> {
        if !b.is_finite() {
            unsupported!("arithmetic with the constant {b}");
        }
        self.map(BinaryOp { op_type, with_scalar: 1, b }, x)
    }
}

/// Returns the operation with exchanged operands.
fn reversed(op_type: i32) -> i32 {
    use binary_op::*;
    match op_type {
        SUB => RSUB,
        RSUB => SUB,
        DIV => RDIV,
        RDIV => DIV,
        POW => RPOW,
        RPOW => POW,
        ATAN2 => RATAN2,
        RATAN2 => ATAN2,
        other => other,
    }
}
