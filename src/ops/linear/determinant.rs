//! Det: the determinant of each matrix.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Det.html>.

use std::collections::BTreeMap;

use ndarray::{Array2, ArrayD, IxDyn};

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Det", Access::Any, infer_det)
    .fold(fold_det)
    .work(work_of)
    .formula(expand_det)
    .lowers_to("sums of products")
    .limits("matrices larger than 4 by 4")];

/// The largest matrix whose determinant is expanded: the number of products doubles with each row.
const MAX_ROWS: usize = 4;

fn infer_det(call: &Call) -> Result<Vec<Fact>> {
    let [batch @ .., rows, columns] = call.shape(0)? else {
        invalid!("the determinant of {}", display_shape(call.shape(0)?));
    };
    if rows.known().is_some() && columns.known().is_some() && rows != columns {
        invalid!("the determinant of a {rows} x {columns} matrix");
    }
    Ok(vec![Fact::new(call.dtype(0)?, batch.to_vec())])
}

/// Each step of the elimination iterates over the matrix.
fn work_of(shapes: &[&[usize]]) -> u64 {
    let sizes = shapes.first().copied().unwrap_or_default();
    let steps = sizes.iter().chain(sizes.last()).fold(1_usize, |n, size| n.saturating_mul(*size));
    u64::try_from(steps).unwrap_or(u64::MAX)
}

fn fold_det(_: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let x = required_input(inputs, 0)?;
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
    Ok(vec![Array::new(crate::tensor::DType::F64, Elements::F64(made)).cast(x.dtype())?])
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

fn expand_det<'x>(expand: &'x Expand) -> Result<Expr<'x>> {
    let [batch @ .., n, _] = expand.shape(0)? else {
        invalid!("the determinant of {}", display_shape(expand.shape(0)?));
    };
    let (batch, n) = (batch.to_vec(), n.clone());
    let n = match n.known().map(usize::try_from) {
        Some(Ok(n)) if (1..=MAX_ROWS).contains(&n) => n,
        _ => unsupported!("the determinant of a {n} x {n} matrix (at most {MAX_ROWS} rows)"),
    };
    let count = i64::try_from(n * n)?;
    let parts = expand.operand(0).reshape(&[-1, count]).split_list(1, &vec![1; n * n]);
    // Determinants of the last rows with some of the columns, from the last row upwards.
    let mut minors: BTreeMap<Vec<usize>, Expr> = BTreeMap::new();
    for row in (0..n).rev() {
        let mut next = BTreeMap::new();
        for columns in choices(n, n - row) {
            next.insert(columns.clone(), minor(&parts, n, row, &columns, &minors)?);
        }
        minors = next;
    }
    let whole = minors.into_values().next().ok_or_else(|| Error::invalid("no columns"))?;
    let shape: Vec<i64> = batch.iter().map(|size| Dim::known(size).unwrap_or(-1)).collect();
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        unsupported!("free sizes");
    }
    Ok(whole.reshape(&shape))
}

/// Returns every choice of `count` of `n` columns, each in order.
fn choices(n: usize, count: usize) -> Vec<Vec<usize>> {
    (0..1_usize << n)
        .map(|bits| (0..n).filter(|column| bits & (1 << column) != 0).collect::<Vec<_>>())
        .filter(|columns| columns.len() == count)
        .collect()
}

/// Returns the determinant of the rows from `row` on with `columns`, expanded along its first row.
fn minor<'x>(
    parts: &[Expr<'x>],
    n: usize,
    row: usize,
    columns: &[usize],
    below: &BTreeMap<Vec<usize>, Expr<'x>>,
) -> Result<Expr<'x>> {
    let mut sum: Option<Expr> = None;
    for (i, column) in columns.iter().enumerate() {
        let mut term = *parts.at(row * n + column)?;
        let rest: Vec<usize> = columns.iter().copied().filter(|other| other != column).collect();
        if let Some(minor) = below.get(&rest) {
            term = term * *minor;
        }
        sum = Some(sum.map_or(term, |sum| if i % 2 == 0 { sum + term } else { sum - term }));
    }
    sum.ok_or_else(|| Error::invalid("no columns"))
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
