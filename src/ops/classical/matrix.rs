//! Matrices of a few numbers.

use crate::ops::prelude::*;
use crate::pass::builder::Builder;

/// Returns a constant matrix of zeros but for some cells: row, column and number.
pub(super) fn matrix<'x>(
    make: &'x Builder,
    rows: usize,
    columns: usize,
    cells: &[(usize, usize, f32)],
) -> Result<Expr<'x>> {
    if rows.saturating_mul(columns) > limits::MATRIX_ELEMENTS {
        unsupported!("a matrix of {rows} x {columns} elements");
    }
    let mut matrix = ndarray::Array2::<f32>::zeros((rows, columns));
    for (row, column, number) in cells {
        if let Some(cell) = matrix.get_mut((*row, *column)) {
            *cell = *number;
        }
    }
    Ok(make.literal(&Array::f32(matrix.into_dyn())))
}
