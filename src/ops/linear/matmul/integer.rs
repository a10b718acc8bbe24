//! MatMulInteger as a float32 product: exact if sums stay below 2^24, otherwise rounded.

use crate::error::{Result, invalid};
use crate::graph::Attribute;
use crate::op::{Call, Fact};
use crate::ops::quantized::multiply_integers;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::DType;

/// The indices of the inputs.
mod input {
    pub const A: usize = 0;
    pub const B: usize = 1;
    pub const A_ZERO_POINT: usize = 2;
    pub const B_ZERO_POINT: usize = 3;
}

pub(super) fn infer_matmul_integer(call: &Call) -> Result<Vec<Fact>> {
    for index in [input::A, input::B] {
        if !matches!(call.dtype(index)?, DType::I8 | DType::U8) {
            invalid!("operand {index} is {}", call.dtype(index)?);
        }
    }
    Ok(vec![Fact::new(DType::I32, super::matmul_shape(call, call.shape(input::A)?, call.shape(input::B)?)?)])
}

pub(super) fn expand_matmul_integer(expand: &Expand) -> Result<bool> {
    if let Some(product) = multiply_integers(expand)? {
        let product = cast(expand, product, DType::I32)?;
        expand.raw_output(0, product)?;
        return Ok(true);
    }
    let a = shifted(expand, input::A, input::A_ZERO_POINT, true)?;
    let b = shifted(expand, input::B, input::B_ZERO_POINT, false)?;
    let product = expand.raw_op("MatMul", &[a, b], &[])?;
    let product = cast(expand, product, DType::I32)?;
    expand.raw_output(0, product)?;
    Ok(true)
}

fn cast(expand: &Expand, x: Operand, to: DType) -> Result<Operand> {
    expand.raw_op("Cast", &[x], &[("to", Attribute::Int(i64::from(to.to_onnx())))])
}

/// Emits an operand in float32, minus its zero point: one for all, or one for each row of A or column of B.
fn shifted(expand: &Expand, index: usize, zero_point: usize, rows: bool) -> Result<Operand> {
    let x = expand.raw_operand(index)?;
    let x = cast(expand, x, DType::F32)?;
    if !expand.has_input(zero_point) {
        return Ok(x);
    }
    let zero = expand.raw_operand(zero_point)?;
    let mut zero = cast(expand, zero, DType::F32)?;
    if rows && matches!(expand.shape(zero_point)?, [count] if !count.is(1)) {
        let axes = expand.raw_ints(&[1])?;
        zero = expand.raw_op("Unsqueeze", &[zero, axes], &[])?;
    }
    expand.raw_op("Sub", &[x, zero], &[])
}
