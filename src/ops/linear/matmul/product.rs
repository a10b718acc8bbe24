//! Evaluation of products of constants.

use std::num::Wrapping;

use ndarray::{Array2, ArrayD, ArrayViewD, Axis, CowArray, IxDyn, LinalgScalar};

use crate::ops::prelude::*;
use crate::tensor::broadcast_lens;

/// The bytes of an element of a matrix that is copied into a stack.
pub(super) const COPY: u64 = 8;

/// The number of products in the time of one addition of tensors.
const PRODUCTS_A_STEP: u64 = 16;

/// At most each element of one matrix with each row or column of the other.
pub(super) fn work_of(call: &Call) -> Option<u64> {
    let products = |elements: usize, lines: usize| -> Option<u64> {
        let lines = call.shape(lines).ok()?.iter().rev().take(2).filter_map(Dim::known).max().unwrap_or(1);
        Some(element_count(call.shape(elements).ok()?)?.saturating_mul(u64::try_from(lines).ok()?))
    };
    Some(products(0, 1).max(products(1, 0)).unwrap_or(0) / PRODUCTS_A_STEP)
}

/// Returns the product of two stacks of matrices, like numpy's `matmul`.
pub(super) fn matmul(a: &Array, b: &Array) -> Result<Array> {
    let elements = match (a.elements(), b.elements()) {
        (Elements::F32(a), Elements::F32(b)) => Elements::F32(multiply(a, b)?),
        (Elements::F64(a), Elements::F64(b)) => Elements::F64(multiply(a, b)?),
        (Elements::I64(a), Elements::I64(b)) => {
            Elements::I64(multiply(&a.mapv(Wrapping), &b.mapv(Wrapping))?.mapv(|x| x.0))
        }
        (Elements::Dim(_), _) | (_, Elements::Dim(_)) => {
            unsupported!("a product of sizes known only at run time")
        }
        _ => invalid!("the product of {} and {}", a.dtype(), b.dtype()),
    };
    Ok(Array::new(a.dtype(), elements))
}

fn multiply<T: LinalgScalar>(a: &ArrayD<T>, b: &ArrayD<T>) -> Result<ArrayD<T>> {
    let (mut shape_a, mut shape_b) = (a.shape().to_vec(), b.shape().to_vec());
    let (row, column) = (shape_a.len() == 1, shape_b.len() == 1);
    if row {
        shape_a.insert(0, 1);
    }
    if column {
        shape_b.push(1);
    }
    let (Some((&[m, k], batch_a)), Some((&[k_b, n], batch_b))) = (
        shape_a.split_last_chunk::<2>().map(|(l, r)| (r, l)),
        shape_b.split_last_chunk::<2>().map(|(l, r)| (r, l)),
    ) else {
        invalid!("a product with a scalar");
    };
    if k != k_b {
        invalid!("shapes {shape_a:?} and {shape_b:?} cannot be multiplied");
    }
    let batch = broadcast_lens(&[batch_a, batch_b])?;
    let (a, b) = (a.to_shape(IxDyn(&shape_a))?, b.to_shape(IxDyn(&shape_b))?);
    let (a, b) = (broadcast(&a, &batch, [m, k])?, broadcast(&b, &batch, [k, n])?);
    let count: usize = batch.iter().product();
    // A stack that is in memory in this order is not copied.
    let (a, b) = (a.to_shape((count, m, k))?, b.to_shape((count, k, n))?);
    let mut made: Vec<T> = Vec::with_capacity(a.len_of(Axis(0)) * m * n);
    for (a, b) in a.outer_iter().zip(b.outer_iter()) {
        let product: Array2<T> = a.dot(&b);
        made.extend(product.iter().copied());
    }
    let mut shape = batch;
    if !row {
        shape.push(m);
    }
    if !column {
        shape.push(n);
    }
    Ok(ArrayD::from_shape_vec(IxDyn(&shape), made)?)
}

/// Returns `array` broadcast to the batch sizes.
fn broadcast<'a, T: LinalgScalar>(
    array: &'a CowArray<'_, T, IxDyn>,
    batch: &[usize],
    matrix: [usize; 2],
) -> Result<ArrayViewD<'a, T>> {
    let full: Vec<usize> = batch.iter().copied().chain(matrix).collect();
    match array.broadcast(IxDyn(&full)) {
        Some(view) => Ok(view),
        None => invalid!("{:?} does not broadcast to {full:?}", array.shape()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn array(shape: &[usize], elements: &[f32]) -> Array {
        Array::f32(ArrayD::from_shape_vec(IxDyn(shape), elements.to_vec()).unwrap())
    }

    #[test]
    fn stacks_are_multiplied() {
        let a = array(&[2, 2], &[1., 2., 3., 4.]);
        let b = array(&[2, 1], &[5., 6.]);
        assert_eq!(matmul(&a, &b).unwrap(), array(&[2, 1], &[17., 39.]));
        let stack = array(&[2, 2, 1], &[5., 6., 7., 8.]);
        assert_eq!(matmul(&a, &stack).unwrap(), array(&[2, 2, 1], &[17., 39., 23., 53.]));
        let row = array(&[2], &[1., -1.]);
        assert_eq!(matmul(&row, &row).unwrap(), array(&[], &[2.]));
        assert_eq!(matmul(&row, &a).unwrap(), array(&[2], &[-2., -2.]));
        assert!(matmul(&b, &a).is_err());
    }

    #[test]
    fn integers_wrap() {
        let big = Array::i64(ArrayD::from_elem(IxDyn(&[2]), i64::MAX));
        assert_eq!(matmul(&big, &big).unwrap().int_list().unwrap(), [2]);
    }
}
