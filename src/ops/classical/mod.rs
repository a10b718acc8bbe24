//! Classical machine learning: the domain `ai.onnx.ml`, and n-grams.

pub(in crate::ops) mod classes;
pub(in crate::ops) mod encoders;
pub(in crate::ops) mod ensemble;
pub(in crate::ops) mod feature;
pub(in crate::ops) mod linear;
pub(in crate::ops) mod n_gram;
pub(in crate::ops) mod support_vectors;
pub(in crate::ops) mod trees;

use crate::ops::prelude::*;
use crate::pass::builder::Builder;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] =
    &[encoders::OPS, ensemble::OPS, feature::OPS, linear::OPS, n_gram::OPS, support_vectors::OPS, trees::OPS];

/// Returns a constant matrix of zeros but for some cells: row, column and number.
fn matrix<'x>(
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
