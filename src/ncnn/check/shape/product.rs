//! Products of matrices, and layers that are made of them.

use super::Sizes;
use crate::error::{At, Result, unsupported};
use crate::ncnn::layer::{Gemm, InnerProduct, MatMul};

pub(super) fn of_inner_product(layer: &InnerProduct, bottom: &Sizes) -> Sizes {
    let num_output = i64::from(layer.num_output);
    let weights = layer.weight_data.as_ref().and_then(|weight| i64::try_from(weight.len()).ok());
    match *bottom.as_slice() {
        [h, w] if weights == Some(w.saturating_mul(num_output)) => vec![h, num_output],
        _ => vec![num_output],
    }
}

pub(super) fn of_matmul(layer: &MatMul, a: &Sizes, b: &Sizes) -> Result<Option<Sizes>> {
    let ([a_batch @ .., m, k], [b_batch @ .., k2, n]) = (a.as_slice(), b.as_slice()) else { return Ok(None) };
    let (k2, n) = if layer.transB == 0 { (k2, n) } else { (n, k2) };
    let batch = a_batch.len().max(b_batch.len());
    let axis = |batch_axes: &[i64], i: usize| {
        let missing = batch - batch_axes.len();
        i.checked_sub(missing).and_then(|i| batch_axes.get(i)).copied().unwrap_or(1)
    };
    let mut sizes = Vec::with_capacity(batch + 2);
    for i in 0..batch {
        let (x, y) = (axis(a_batch, i), axis(b_batch, i));
        if x != y && x != 1 && y != 1 {
            unsupported!("a product of {a:?} and {b:?}");
        }
        sizes.push(x.max(y));
    }
    if k != k2 {
        unsupported!("a product of {a:?} and {b:?}");
    }
    sizes.extend([m, n]);
    Ok(Some(sizes))
}

pub(super) fn of_gemm(layer: &Gemm, bottoms: &[Sizes]) -> Result<Sizes> {
    let rows_and_columns = |bottom: &Sizes| match *bottom.as_slice() {
        [w] => Ok([1, w]),
        [h, w] => Ok([h, w]),
        // The rows of a Mat of three axes are its channels.
        [c, 1, w] => Ok([c, w]),
        _ => unsupported!("a matrix of {bottom:?}"),
    };
    let mut left = bottoms.iter();
    let mut matrix = |constant: Option<[i32; 2]>, transposed: i32| match (constant, left.len()) {
        (Some(sizes), _) => Ok(sizes.map(i64::from)),
        (None, 0) => unsupported!("{} bottoms", bottoms.len()),
        (None, _) => {
            let [rows, columns] = rows_and_columns(left.next().unwrap_or(&Vec::new()))?;
            Ok(if transposed != 0 { [columns, rows] } else { [rows, columns] })
        }
    };
    let a = layer.A_data.as_ref().map(|_| [layer.constantM, layer.constantK]);
    let b = layer.B_data.as_ref().map(|_| [layer.constantK, layer.constantN]);
    let [m, k] = matrix(a, layer.transA)?;
    let [k_of_b, n] = matrix(b, layer.transB)?;
    if k != k_of_b {
        unsupported!("a product of [{m}, {k}] and [{k_of_b}, {n}]");
    }
    Ok(vec![m, n])
}

pub(super) fn of_recurrent(
    bottoms: &[Sizes],
    direction: i32,
    num_output: i32,
    hidden_size: i32,
    tops: usize,
) -> Result<Option<Vec<Sizes>>> {
    let [steps, _] = *bottoms.at(0)?.as_slice() else { unsupported!("a sequence of {:?}", bottoms.first()) };
    let directions = if direction == 2 { 2 } else { 1 };
    let (output, hidden) = (i64::from(num_output), i64::from(hidden_size));
    let mut all = vec![vec![steps, output * directions], vec![directions, output], vec![directions, hidden]];
    // A state that is computed has the form of the one that is given; each direction takes a row of it.
    for (computed, given) in all.iter_mut().zip(bottoms).skip(1) {
        match given.as_slice() {
            [1, 1, size] if directions == 1 && computed.last() == Some(size) => computed.clone_from(given),
            _ if given == computed => {}
            _ => unsupported!("a state of {given:?}"),
        }
    }
    Ok(Some(all.into_iter().take(tops).collect()))
}
