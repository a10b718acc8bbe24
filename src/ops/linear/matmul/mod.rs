//! Matrix products.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__MatMul.html>,
//! <https://onnx.ai/onnx/operators/onnx__Gemm.html>.

mod batch;
pub(in crate::ops) mod gemm;
mod product;
mod windows;

use crate::ops::prelude::*;
use crate::tensor::broadcast_shapes;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Gemm", Access::Any, gemm::infer_gemm)
        .fold(gemm::fold_gemm)
        .work(product::work_of)
        .scratch(product::COPY)
        .multiply_adds(gemm::multiply_adds)
        .expects(|call, index, _| {
            let is_transposed = call.flag("transB").ok()?;
            match (index, call.value(1)?.shape.as_deref()?) {
                (0, [first, second]) => {
                    let k = if is_transposed { second } else { first };
                    Some(Fact::new(DType::F32, shape![1, k]))
                }
                _ => None,
            }
        })
        .lower(gemm::lower_gemm)
        .lowers_to("InnerProduct for one row and a constant matrix; otherwise Gemm"),
    Row::new("MatMul", Access::Any, infer_matmul)
        .fold(|call| Ok(vec![product::matmul(call.array(0)?, call.array(1)?)?]))
        .work(product::work_of)
        .scratch(product::COPY)
        .multiply_adds(multiply_adds)
        .expects(|call, index, _| match (index, call.value(1)?.shape.as_deref()?) {
            (0, [k, _]) => Some(Fact::new(DType::F32, shape![1, Dim::symbol("S"), k])),
            _ => None,
        })
        .expand(|expand| Ok(windows::expand_windows(expand)? || batch::expand_matmul(expand)?))
        .lower(batch::lower_matmul)
        .lowers_to("InnerProduct for one row and a constant matrix; Gemm for two matrices; otherwise MatMul"),
];

/// The operands of a product as stacks of matrices: batch sizes, then rows and columns.
struct Stacks {
    batch_a: Vec<Dim>,
    batch_b: Vec<Dim>,
    m: Dim,
    /// The summed size in each operand: one may be known and the other free.
    k: [Dim; 2],
    n: Dim,
}

/// Reads the shapes of the operands like numpy's `matmul`: a single axis is a row on the left and a column on
/// the right.
fn stacks(a: &[Dim], b: &[Dim]) -> Result<Stacks> {
    let (batch_a, m, k) = match a {
        [] => invalid!("a product with a scalar"),
        [k] => (Vec::new(), Dim::ONE, k.clone()),
        [batch @ .., m, k] => (batch.to_vec(), m.clone(), k.clone()),
    };
    let (batch_b, n, k_b) = match b {
        [] => invalid!("a product with a scalar"),
        [k] => (Vec::new(), Dim::ONE, k),
        [batch @ .., k, n] => (batch.to_vec(), n.clone(), k),
    };
    if k.known().is_some() && k_b.known().is_some() && k != *k_b {
        invalid!("the product of {} and {}", display_shape(a), display_shape(b));
    }
    Ok(Stacks { batch_a, batch_b, m, k: [k, k_b.clone()], n })
}

/// Each element of the output is a sum over the last axis of the left operand.
pub(in crate::ops) fn multiply_adds(call: &Call) -> Option<u64> {
    let summed = element_count(call.shape(0).ok()?.last_chunk::<1>()?)?;
    Some(element_count(call.output_shape(0).ok()?)?.saturating_mul(summed))
}

/// Returns the shape of numpy's `matmul`. Requires the summed sizes to be equal.
pub(in crate::ops) fn matmul_shape(call: &Call, a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let Stacks { batch_a, batch_b, k: [k, k_b], .. } = stacks(a, b)?;
    call.require_equal(&k, &k_b)?;
    call.require_broadcast(&batch_a, &batch_b)?;
    product_shape(a, b)
}

/// Returns the shape of the product if the summed sizes are equal.
fn product_shape(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let stacks = stacks(a, b)?;
    let mut shape = broadcast_shapes(&stacks.batch_a, &stacks.batch_b)?;
    if a.len() > 1 {
        shape.push(stacks.m);
    }
    if b.len() > 1 {
        shape.push(stacks.n);
    }
    Ok(shape)
}

fn infer_matmul(call: &Call) -> Result<Vec<Fact>> {
    let (a, b) = (call.dtype(0)?, call.dtype(1)?);
    if a != b {
        invalid!("shapes {a} and {b} cannot be multiplied");
    }
    Ok(vec![Fact::new(a, matmul_shape(call, call.shape(0)?, call.shape(1)?)?)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn shapes_follow_numpy() {
        let (s, h) = (Dim::symbol("S"), Dim::symbol("H"));
        for (a, b, shape) in [
            (&[3][..], &[3][..], Some(&[][..])),
            (&[3], &[2, 3, 4], Some(&[2, 4])),
            (&[5, 2, 3], &[3], Some(&[5, 2])),
            (&[2, 3], &[3, 4], Some(&[2, 4])),
            (&[3, 1, 3, 4], &[1, 2, 4, 2], Some(&[3, 2, 3, 2])),
            (&[2, 3], &[2, 3], None),
            (&[], &[1], None),
        ] {
            assert_eq!(product_shape(&dims(a), &dims(b)).ok(), shape.map(dims), "{a:?} {b:?}");
        }
        let a = [Dim::ONE, s.clone(), h.clone()];
        let b = [h, Dim::from(7)];
        assert_eq!(product_shape(&a, &b).unwrap(), [Dim::ONE, s, Dim::from(7)]);
    }
}
