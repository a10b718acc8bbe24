//! Lowers Scatter with constant indices: the result is gathered from data and updates.

use super::{Reduction, read_reduction, replaced_rows, rounds};
use crate::ncnn::layer::binary_op;
use crate::ops::indexing::gather::{Rows, element_rows, tuple_rows};
use crate::ops::prelude::*;
use crate::ops::shape::size::data_sizes;

pub(super) fn lower_scatter_elements(lower: &Lower) -> Result<()> {
    let sizes = data_sizes(lower)?;
    let axis = resolve_axis(lower.int("axis")?, sizes.len())?;
    let rows = element_rows(&sizes, lower.array(1)?, axis)?;
    scatter_rows(lower, &sizes, &rows)
}

pub(super) fn lower_scatter_nd(lower: &Lower) -> Result<()> {
    let sizes = data_sizes(lower)?;
    let rows = tuple_rows(&sizes, lower.array(1)?, 0)?;
    scatter_rows(lower, &sizes, &rows)
}

/// Applies the updates to rows of the data.
fn scatter_rows(lower: &Lower, sizes: &[usize], targets: &Rows) -> Result<()> {
    let count = targets.count_in(sizes)?;
    let Rows { indices: targets, width } = targets;
    let rows = |index: usize, count: usize| lower.input(index).reshape(shape![count, *width]).isolated();
    let data = rows(0, count);
    if targets.is_empty() {
        return lower.give(0, data);
    }
    let updates = rows(2, targets.len());
    let dtype = lower.dtype(0)?;
    let (op_type, neutral) = match read_reduction(lower)? {
        Reduction::Replace => {
            return lower.give(0, data.join(updates, 0).pick(0, &replaced_rows(count, targets)?));
        }
        // The sum of booleans is their disjunction.
        Reduction::Add if dtype == DType::Bool => (binary_op::MAX, 0.0),
        Reduction::Add => (binary_op::ADD, 0.0),
        Reduction::Mul => (binary_op::MUL, 1.0),
        // Gathers of floats keep infinities; gathers of integers need finite numbers.
        Reduction::Max if dtype.is_float() => (binary_op::MAX, f32::NEG_INFINITY),
        Reduction::Min if dtype.is_float() => (binary_op::MIN, f32::INFINITY),
        Reduction::Max => (binary_op::MAX, f32::MIN),
        Reduction::Min => (binary_op::MIN, f32::MAX),
    };
    let updates = lower.tensor(Tensor::all(neutral, vec![1, *width])).join(updates, 0);
    let mut top = data;
    for members in rounds(targets)? {
        let mut sources = vec![0; count];
        for update in members {
            sources.put(*targets.at(update)?, (update + 1).int());
        }
        let moved = updates.pick(0, &sources);
        top = top.compute_with(moved, |top, moved| top.with(op_type, moved)).wrap(dtype);
    }
    lower.give(0, top)
}
