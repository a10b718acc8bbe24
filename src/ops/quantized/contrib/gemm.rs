//! QGemm.

use super::super::level::{Target, requantize};
use super::super::product::{InputIndices, multiply};
use super::super::{difference, matrix_parameter, rescale};
use crate::ops::prelude::*;

// Indices of the inputs.
const C: usize = 6;
const Y_SCALE: usize = 7;
const Y_ZERO: usize = 8;

/// Integer sums, including `c`, times a ratio (`quant_gemm.cc`).
pub(super) fn expand_gemm<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let alpha = x.float("alpha")?;
    let (transposed_a, transposed_b) = (x.flag("transA")?, x.flag("transB")?);
    let (rows, columns) =
        (x.shape(0)?.at(usize::from(transposed_a))?, x.shape(3)?.at(usize::from(!transposed_b))?);
    x.check_broadcasts(C, &[rows.clone(), columns.clone()])?;
    let indices = InputIndices { x: 0, x_zero: 2, weight: 3, weight_zero: 5, bias: Some(C) };
    let int8 = if transposed_a { None } else { multiply(x, indices, transposed_b)? };
    let sums = match int8 {
        Some(sums) => sums,
        None => {
            let (a_zero, b_zero) = (matrix_parameter(x, 2, false)?, matrix_parameter(x, 5, transposed_b)?);
            let mut a = difference(x, 0, Some(a_zero));
            let mut b = difference(x, 3, Some(b_zero));
            if transposed_a {
                a = a.transpose(&[1, 0]);
            }
            if transposed_b {
                b = b.transpose(&[1, 0]);
            }
            let product = a.matmul(b);
            if x.has_input(C) { product + x.operand_as(C, DType::F32) } else { product }
        }
    };
    let (a_scale, b_scale) = (matrix_parameter(x, 1, false)?, matrix_parameter(x, 4, false)?);
    let scale = alpha * a_scale * b_scale;
    let result = if x.has_input(Y_SCALE) {
        let y_scale = matrix_parameter(x, Y_SCALE, false)?;
        let dtype = if x.has_input(Y_ZERO) { x.dtype(Y_ZERO)? } else { DType::F32 };
        let Some(target) = Target::of_zero(x, Y_ZERO, dtype)? else {
            unsupported!("a zero point of the result that is computed at run time");
        };
        requantize(rescale(x, sums, scale, y_scale, [1, 4, Y_SCALE]), target)
    } else {
        sums * scale
    };
    Ok(result)
}
