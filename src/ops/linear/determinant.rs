//! Det and Inverse: the determinant and the inverse of each matrix.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Det.html>.

use std::collections::BTreeSet;

use ndarray::{Array2, ArrayD, IxDyn};

use crate::op::CONTRIB_DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined("", "Det", expand_det)
        .fold(fold_det)
        .work(work_of)
        .lowers_to("sums of products")
        .limits("matrices larger than 4 by 4"),
    // The elimination of larger matrices chooses pivots at run time.
    Row::defined(CONTRIB_DOMAIN, "Inverse", expand_inverse)
        .lowers_to("sums of products, Div")
        .limits("matrices larger than 4 by 4"),
];

/// The largest matrix whose determinant is expanded: the number of products doubles with each row.
const MAX_ROWS: usize = 4;

/// Each step of the elimination iterates over the matrix.
fn work_of(call: &Call) -> Option<u64> {
    let sizes = call.shape(0).unwrap_or_default();
    let steps: Vec<Dim> = sizes.iter().chain(sizes.last()).cloned().collect();
    Some(element_count(&steps).unwrap_or(0))
}

fn fold_det(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?;
    let Some((batch, [n, _])) = x.shape().split_last_chunk::<2>() else {
        invalid!("the determinant of a value of {} axes", x.shape().len());
    };
    let stack = x.to_f64()?;
    let elements: Vec<f64> = stack.iter().copied().collect();
    let mut made = Vec::new();
    for matrix in elements.chunks((n * n).max(1)) {
        made.push(determinant(Array2::from_shape_vec((*n, *n), matrix.to_vec())?)?);
    }
    let made = ArrayD::from_shape_vec(IxDyn(batch), made)?;
    Ok(vec![Array::new(DType::F64, Elements::F64(made)).cast(x.dtype())?])
}

/// Returns the determinant by elimination, with the largest element of each column as pivot.
fn determinant(mut a: Array2<f64>) -> Result<f64> {
    let n = a.nrows();
    let at = |a: &Array2<f64>, i: usize, j: usize| a.get((i, j)).copied().unwrap_or(0.0);
    let mut product = 1.0;
    for k in 0..n {
        let largest = (k..n).max_by(|i, j| at(&a, *i, k).abs().total_cmp(&at(&a, *j, k).abs()));
        let pivot = largest.ok_or_else(|| Error::invalid("no pivot"))?;
        if at(&a, pivot, k) == 0.0 {
            return Ok(0.0);
        }
        if pivot != k {
            for j in 0..n {
                a.swap((k, j), (pivot, j));
            }
            product = -product;
        }
        product *= at(&a, k, k);
        for i in k + 1..n {
            let factor = at(&a, i, k) / at(&a, k, k);
            for j in k..n {
                let above = at(&a, k, j);
                if let Some(x) = a.get_mut((i, j)) {
                    *x -= factor * above;
                }
            }
        }
    }
    Ok(product)
}

/// Returns the sizes of the batch, the number of rows, and the matrices as rows of their elements. Matrices
/// that are too large are refused.
fn elements<'x>(x: &'x Expand) -> Result<Option<(&'x [Dim], usize, Expr<'x>)>> {
    let shape = x.shape(0)?;
    let [batch @ .., rows, columns] = shape else {
        invalid!("a matrix of shape {}", display_shape(shape));
    };
    if rows.known().is_some() && columns.known().is_some() && rows != columns {
        invalid!("the determinant of a {rows} x {columns} matrix");
    }
    match rows.known().map(usize::try_from) {
        Some(Ok(n)) if (1..=MAX_ROWS).contains(&n) => {
            Ok(Some((batch, n, x.operand(0).reshape(&[-1, (n * n).int()]))))
        }
        _ => {
            x.refuse(Error::unsupported(format!("a {rows} x {columns} matrix (at most {MAX_ROWS} rows)")));
            Ok(None)
        }
    }
}

fn expand_det<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Some((batch, n, elements)) = elements(x)? else {
        return Ok(x.operand(0).reduce("ReduceSum", &[-2, -1], false));
    };
    let all: Vec<usize> = (0..n).collect();
    let shape: Vec<i64> = batch.iter().map(|size| Dim::known(size).unwrap_or(-1)).collect();
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        unsupported!("free sizes");
    }
    Ok(minors(elements, n, &[(all.clone(), all)])?.reshape(&shape))
}

/// The transposed matrix of cofactors over the determinant, its expansion along the first row.
fn expand_inverse<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let Some((_, n, elements)) = elements(x)? else { return Ok(x.operand(0)) };
    let without = |left_out: usize| (0..n).filter(move |index| *index != left_out).collect::<Vec<_>>();
    let positions = (0..n).flat_map(|row| (0..n).map(move |column| (row, column)));
    let wanted: Vec<Minor> = positions.clone().map(|(row, column)| (without(column), without(row))).collect();
    let result = if n == 1 {
        1.0 / elements
    } else {
        let sign = |(row, column): (usize, usize)| if (row + column) % 2 == 0 { 1.0 } else { -1.0 };
        let signs: Vec<f32> = positions.map(sign).collect();
        let adjugate = minors(elements, n, &wanted)? * x.make.floats(&signs).to_type(x.dtype(0)?);
        let first_row = elements.slice(1, 0, n);
        let column: Vec<(usize, f32)> = (0..n).map(|row| (row * n, 1.0)).collect();
        let products = first_row * pick(adjugate, n * n, &column)?;
        adjugate / products.reduce("ReduceSum", &[1], true)
    };
    Ok(result.reshape_to(x.operand(0).shape()))
}

/// The rows and the columns of a square part of a matrix.
type Minor = (Vec<usize>, Vec<usize>);

/// Returns the determinants of square parts of one size, `[batch, parts]`. Each is expanded along its first
/// row: a sum of products of an element and the determinant of a smaller part. Matrices of zeros and ones
/// choose the factors of all parts at once.
fn minors<'x>(elements: Expr<'x>, n: usize, parts: &[Minor]) -> Result<Expr<'x>> {
    let size = parts.first().map_or(0, |(rows, _)| rows.len());
    let (mut factors, mut rests) = (Vec::new(), Vec::new());
    for index in 0..size {
        for (rows, columns) in parts {
            let (first, rest) = rows.split_first().ok_or_else(|| Error::invalid("no rows"))?;
            let mut others = columns.clone();
            factors.push((first * n + others.remove(index), 1.0));
            rests.push((rest.to_vec(), others));
        }
    }
    let factors = pick(elements, n * n, &factors)?;
    if size == 1 {
        return Ok(factors);
    }
    let smaller: Vec<Minor> = BTreeSet::from_iter(rests.iter().cloned()).into_iter().collect();
    let signs = [1.0, -1.0].into_iter().cycle().flat_map(|sign| std::iter::repeat_n(sign, parts.len()));
    let columns =
        rests.iter().zip(signs).filter_map(|(rest, sign)| Some((smaller.binary_search(rest).ok()?, sign)));
    let below = pick(minors(elements, n, &smaller)?, smaller.len(), &columns.collect::<Vec<_>>())?;
    let terms = [-1, size.int(), parts.len().int()];
    Ok((factors * below).reshape(&terms).reduce("ReduceSum", &[1], false))
}

/// Returns columns of a value of `count` columns, each with a factor.
fn pick<'x>(value: Expr<'x>, count: usize, columns: &[(usize, f32)]) -> Result<Expr<'x>> {
    if columns.iter().map(|(column, _)| *column).eq(0..count)
        && columns.iter().all(|(_, factor)| *factor == 1.0)
    {
        return Ok(value);
    }
    let mut matrix = Array2::<f32>::zeros((count, columns.len()));
    for (index, (column, factor)) in columns.iter().enumerate() {
        if let Some(chosen) = matrix.get_mut((*column, index)) {
            *chosen = *factor;
        }
    }
    let dtype = value.dtype.unwrap_or(DType::F32);
    Ok(value.matmul(value.builder.cast_literal(&Array::f32(matrix.into_dyn()), dtype)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn determinants_match_known_values() {
        for (n, elements, expected) in [
            (1, vec![3.0], 3.0),
            (2, vec![1.0, 2.0, 3.0, 4.0], -2.0),
            (3, vec![0.0, 2.0, 1.0, 1.0, 0.0, 3.0, 2.0, 1.0, 0.0], 13.0),
            (2, vec![1.0, 2.0, 2.0, 4.0], 0.0),
        ] {
            let found = determinant(Array2::from_shape_vec((n, n), elements).unwrap()).unwrap();
            assert!((found - expected).abs() < 1e-12, "{found} {expected}");
        }
    }
}
