//! MatMulInteger as a float32 product: exact if sums stay below 2^24, otherwise rounded.

use super::multiply_integers;
use crate::ops::prelude::*;

/// The indices of the inputs.
mod input {
    pub const A: usize = 0;
    pub const B: usize = 1;
    pub const A_ZERO_POINT: usize = 2;
    pub const B_ZERO_POINT: usize = 3;
}

pub(super) fn expand_matmul_integer<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    for index in [input::A, input::B] {
        if !matches!(x.dtype(index)?, DType::I8 | DType::U8) {
            invalid!("operand {index} is {}", x.dtype(index)?);
        }
    }
    let product = match multiply_integers(x)? {
        Some(product) => product,
        None => {
            let a = shifted(x, input::A, input::A_ZERO_POINT, true)?;
            a.matmul(shifted(x, input::B, input::B_ZERO_POINT, false)?)
        }
    };
    Ok(product.cast(DType::I32))
}

/// Returns an operand in float32, minus its zero point: one for all, or one for each row of A or column of B.
fn shifted<'x>(x: &'x Expand, index: usize, zero_point: usize, rows: bool) -> Result<Expr<'x>> {
    let value = x.operand(index).cast(DType::F32);
    let Some(zero) = x.optional(zero_point) else { return Ok(value) };
    let zero = zero.cast(DType::F32);
    let is_column = rows && matches!(x.shape(zero_point)?, [count] if !count.is(1));
    Ok(value.minus(if is_column { zero.unsqueeze(&[1]) } else { zero }))
}
