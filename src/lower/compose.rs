//! Operations of one or few layers.

use super::form::{MAX_AXES, order_of_form};
use super::state::mismatch;
use super::{Formula, Lower};
use crate::error::{At, Result};
use crate::ncnn::BlobId;
use crate::ncnn::layer::{BinaryOp, Permute, Reduction};
use crate::tensor::{Dim, shape};

impl Lower<'_> {
    /// Emits arithmetic of two blobs of equal rank; each pair of sizes is equal or contains 1. One element
    /// broadcasts to any number of axes.
    pub(super) fn binary(&self, op_type: i32, a: BlobId, b: BlobId) -> Result<BlobId> {
        let (fa, fb) = (self.form(a), self.form(b));
        for (form, other) in [(&fa, &fb), (&fb, &fa)] {
            if matches!(other.as_slice(), [one] if one.is(1)) {
                return self.emit(BinaryOp { op_type, ..BinaryOp::default() }, &[a, b], form);
            }
        }
        if fa.len() != fb.len() {
            return Err(mismatch("a blob", &fa, "with", &fb));
        }
        let mut form = Vec::with_capacity(fa.len());
        for (x, y) in fa.iter().zip(&fb) {
            let free = x.known().is_none() || y.known().is_none();
            if x != y && !x.is(1) && !y.is(1) && !free {
                return Err(mismatch("a blob", &fa, "with", &fb));
            }
            // Free sizes are 1 or equal: the layer checks at run time.
            form.push(x.broadcast(y)?);
        }
        self.emit(BinaryOp { op_type, ..BinaryOp::default() }, &[a, b], &form)
    }

    /// Emits a reduction along axes of a blob, which keep a size of 1; `operation` as in
    /// [`crate::ncnn::layer::reduction_op`].
    pub(super) fn reduce(&self, operation: i32, x: impl Into<Formula>, axes: &[usize]) -> Result<BlobId> {
        let x = self.compute(x)?;
        self.reduction(operation, x, axes, true)
    }

    /// Emits a reduction along axes of a blob, which keep a size of 1 or are removed.
    pub(super) fn reduction(
        &self,
        operation: i32,
        x: BlobId,
        axes: &[usize],
        keeps_axes: bool,
    ) -> Result<BlobId> {
        let mut form = self.form(x);
        axes.iter().for_each(|axis| form.put(*axis, Dim::ONE));
        if !keeps_axes {
            let kept = form.into_iter().enumerate().filter(|(axis, _)| !axes.contains(axis));
            form = kept.map(|(_, size)| size).collect();
            if form.is_empty() {
                form.push(Dim::ONE);
            }
        }
        let layer = Reduction {
            operation,
            reduce_all: 0,
            axes: axes.iter().map(|axis| i32::try_from(*axis)).collect::<std::result::Result<_, _>>()?,
            keepdims: i32::from(keeps_axes),
            fixbug0: 1,
            ..Reduction::default()
        };
        self.emit(layer, &[x], &form)
    }

    /// Transposes a blob of sizes `shape` (any rank, same elements) by `perm`. Adjacent axes move together;
    /// more than four groups take several Permutes.
    pub(super) fn transpose(&self, blob: BlobId, shape: &[Dim], perm: &[usize]) -> Result<BlobId> {
        let (mut sizes, mut order) = merge_axes(shape, perm)?;
        let mut blob = blob;
        if !order.is_sorted()
            && let Some(order) = order_of_form(&self.form(blob), shape, perm)
        {
            return self.permute(blob, &order);
        }
        // Free sizes are merged only if necessary: only other blobs could provide them again.
        let free = shape.iter().filter(|size| size.known().is_none()).count();
        let long: Vec<Dim> = shape.iter().filter(|size| !size.is(1)).cloned().collect();
        if !order.is_sorted()
            && free > 1
            && long.len() <= MAX_AXES
            && self.state().is_plain(blob, &long)
            && let Some(order) = order_of_form(&long, shape, perm)
        {
            let blob = self.reshape(blob, &long)?;
            return self.permute(blob, &order);
        }
        while sizes.len() > MAX_AXES {
            // Moves one group at a time: it is swapped with the block before it, over at most four merged
            // axes.
            let Some(target) = order.iter().enumerate().position(|(i, axis)| i != *axis) else { break };
            let source = *order.at(target)?;
            let before = Dim::product(sizes.iter().take(target));
            let jumped = Dim::product(sizes.iter().skip(target).take(source - target));
            let moved = sizes.at(source)?.clone();
            let after = Dim::product(sizes.iter().skip(source + 1));
            blob = self.reshape(blob, &[before, jumped, moved, after])?;
            blob = self.permute(blob, &[0, 2, 1, 3])?;
            let size = sizes.remove(source);
            sizes.insert(target, size);
            for axis in &mut order {
                if *axis == source {
                    *axis = target;
                } else if (target..source).contains(axis) {
                    *axis += 1;
                }
            }
            (sizes, order) = merge_axes(&sizes, &order)?;
        }
        if order.is_sorted() {
            return Ok(blob);
        }
        let blob = self.reshape(blob, &sizes)?;
        self.permute(blob, &order)
    }

    /// Permutes the axes of a blob.
    pub(super) fn permute(&self, blob: BlobId, perm: &[usize]) -> Result<BlobId> {
        if perm.is_sorted() {
            return Ok(blob);
        }
        let form = self.form(blob);
        let mut top = Vec::with_capacity(form.len());
        for axis in perm {
            top.push(form.at(*axis)?.clone());
        }
        self.emit(Permute::of(perm)?, &[blob], &top)
    }
}

/// Drops unit axes and merges axes that stay adjacent; returns the remaining sizes and their permutation.
fn merge_axes(shape: &[Dim], perm: &[usize]) -> Result<(Vec<Dim>, Vec<usize>)> {
    let mut kept = Vec::new();
    for axis in perm {
        if !shape.at(*axis)?.is(1) {
            kept.push(*axis);
        }
    }
    // Groups of axes that are consecutive both before and after, in the order after.
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for axis in kept {
        match groups.last_mut() {
            Some(group) if follows(shape, group.last().copied(), axis) => group.push(axis),
            _ => groups.push(vec![axis]),
        }
    }
    let mut sorted: Vec<&Vec<usize>> = groups.iter().collect();
    sorted.sort();
    let mut sizes = Vec::with_capacity(groups.len());
    for group in &sorted {
        let mut size = Dim::ONE;
        for axis in group.iter() {
            size *= shape.at(*axis)?;
        }
        sizes.push(size);
    }
    let order = groups.iter().filter_map(|group| sorted.iter().position(|g| *g == group)).collect();
    if sizes.is_empty() {
        return Ok((shape![1].to_vec(), vec![0]));
    }
    Ok((sizes, order))
}

/// Returns whether `axis` is the next one after `last` whose size is not 1.
fn follows(shape: &[Dim], last: Option<usize>, axis: usize) -> bool {
    last.is_some_and(|last| {
        last < axis && shape.iter().take(axis).skip(last + 1).all(|between| between.is(1))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn adjacent_axes_are_merged() {
        let (sizes, order) = merge_axes(&dims(&[2, 4, 7, 4, 7, 96]), &[0, 1, 3, 2, 4, 5]).unwrap();
        assert_eq!((sizes, order), (dims(&[8, 7, 4, 672]), vec![0, 2, 1, 3]));
        let (sizes, order) = merge_axes(&dims(&[1, 3, 8, 8]), &[0, 2, 3, 1]).unwrap();
        assert_eq!((sizes, order), (dims(&[3, 64]), vec![1, 0]));
    }
}
