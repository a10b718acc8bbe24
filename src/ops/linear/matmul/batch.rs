//! MatMul: batch axes are merged to at most two axes.

use super::gemm::{Factors, gemm};
use super::stacks;
use crate::ncnn::layer::MatMul;
use crate::ops::prelude::*;
use crate::tensor::merged_axes;

/// The number of batch axes of ncnn's MatMul (`matmul.cpp`).
const MAX_GROUPS: usize = 2;

/// Adjacent batch axes with the same broadcast, merged: the size in each operand, equal or one of them 1.
#[derive(Clone, Debug, PartialEq)]
struct Group {
    a: Dim,
    b: Dim,
}

impl Group {
    /// Returns which operands have the axes.
    fn sides(&self) -> (bool, bool) {
        (!self.a.is(1), !self.b.is(1))
    }

    fn size(&self) -> Dim {
        if self.a.is(1) { self.b.clone() } else { self.a.clone() }
    }
}

fn groups(batch_a: &[Dim], batch_b: &[Dim]) -> Result<Vec<Group>> {
    let mut pairs = batch_a.iter().rev().zip(batch_b.iter().rev());
    if pairs.any(|(a, b)| a != b && !a.is(1) && !b.is(1)) {
        unsupported!(
            "batches of {} and {}: sizes that may be 1",
            display_shape(batch_a),
            display_shape(batch_b)
        );
    }
    let axes = merged_axes(batch_a, batch_b, &Dim::ONE, |x, y| x * y);
    Ok(axes.into_iter().map(|[a, b]| Group { a, b }).collect())
}

/// Broadcasts both operands first if batch axes alternate too often.
pub(super) fn expand_matmul(expand: &Expand) -> Result<bool> {
    let stacks = stacks(expand.shape(0)?, expand.shape(1)?)?;
    let Ok(groups) = groups(&stacks.batch_a, &stacks.batch_b) else { return Ok(false) };
    let merged_into_rows = usize::from(groups.last().is_some_and(|group| group.sides() == (true, false)));
    if groups.len() - merged_into_rows <= MAX_GROUPS {
        return Ok(false);
    }
    let batch: Vec<Dim> = crate::tensor::broadcast_shapes(&stacks.batch_a, &stacks.batch_b)?;
    let full = |index: usize, matrix: [&Dim; 2]| {
        let sizes: Option<Vec<i64>> = Dim::known_sizes(batch.iter().chain(matrix));
        Some(expand.operand(index).broadcast(&sizes?))
    };
    let [k_a, k_b] = &stacks.k;
    let (Some(a), Some(b)) = (full(0, [&stacks.m, k_a]), full(1, [k_b, &stacks.n])) else {
        return Ok(false);
    };
    expand.output(0, a.matmul(b));
    Ok(true)
}

pub(super) fn lower_matmul(lower: &Lower) -> Result<()> {
    let stacks = stacks(lower.shape(0)?, lower.shape(1)?)?;
    let mut groups = groups(&stacks.batch_a, &stacks.batch_b)?;
    // Rows of A over all of a batch that B lacks are one matrix.
    let mut m = stacks.m.clone();
    if let Some(last) = groups.pop_if(|group| group.sides() == (true, false)) {
        m = &last.a * &m;
    }
    // MatMul packs no blob, Gemm does: one that many layers read is packed for all of them.
    if groups.is_empty() {
        let factors = Factors { m, k: stacks.k, n: stacks.n, trans_a: false, trans_b: false };
        return lower.give(0, gemm(lower, &factors, 1.0, None)?);
    }
    if groups.len() > MAX_GROUPS {
        unsupported!(
            "a product over batches of {} and {}",
            display_shape(&stacks.batch_a),
            display_shape(&stacks.batch_b)
        );
    }
    let shape = |sizes: Vec<Dim>, matrix: [&Dim; 2]| -> Vec<Dim> {
        sizes.into_iter().chain(matrix.into_iter().cloned()).collect()
    };
    let [k_a, k_b] = &stacks.k;
    let a = shape(groups.iter().map(|g| g.a.clone()).collect(), [&m, k_a]);
    let b = shape(groups.iter().map(|g| g.b.clone()).collect(), [k_b, &stacks.n]);
    let top = shape(groups.iter().map(Group::size).collect(), [&m, &stacks.n]);
    let operands = [lower.input(0).reshape(a), lower.input(1).reshape(b)];
    lower.give(0, lower.layer(MatMul::default(), &operands, top))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn equally_broadcast_axes_are_merged() {
        for (a, b, expected) in [
            (&[][..], &[][..], &[][..]),
            (&[2, 3], &[2, 3], &[(6, 6)]),
            (&[2, 3], &[], &[(6, 1)]),
            (&[2, 1, 3], &[1, 4, 3], &[(2, 1), (1, 4), (3, 3)]),
            (&[2, 1, 3], &[2, 1, 3], &[(6, 6)]),
        ] {
            let found = groups(&dims(a), &dims(b)).unwrap();
            let expected: Vec<Group> =
                expected.iter().map(|(a, b)| Group { a: Dim::from(*a), b: Dim::from(*b) }).collect();
            assert_eq!(found, expected, "{a:?} {b:?}");
        }
    }
}
