//! Trilu: the triangle on one side of a diagonal of a matrix.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Trilu.html>.

use crate::op::CONTRIB_DOMAIN;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[TRILU, TRILU.domain(CONTRIB_DOMAIN)];

const TRILU: Row = Row::new("Trilu", Access::Any, infer_trilu)
    .fold(fold_trilu)
    .expand(expand_trilu)
    .tolerates_rounding(|_, _| true)
    .lower(lower_trilu)
    .lowers_to(
        "BinaryOp MIN and MAX with constants; Where for free sizes, or a diagonal computed at run time",
    );

fn read_upper(call: &Call) -> Result<bool> {
    call.flag("upper")
}

fn infer_trilu(call: &Call) -> Result<Vec<Fact>> {
    call.check_integer(1)?;
    let shape = call.shape(0)?;
    if shape.len() < 2 {
        invalid!("the input has fewer than 2 axes");
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape.to_vec())])
}

/// Returns column minus row of each element of a matrix.
fn offsets(rows: i64, columns: i64) -> Result<Vec<i64>> {
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    limits::check_listed(shape.iter().fold(1, |count, size| count.saturating_mul(*size)))?;
    Ok((0..rows).flat_map(|row| (0..columns).map(move |column| column - row)).collect())
}

fn keeps(upper: bool, offset: i64, k: i64) -> bool {
    if upper { offset >= k } else { offset <= k }
}

fn fold_trilu(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let k = call.optional_array(1)?.map_or(Ok(0), Array::scalar_i64)?;
    let upper = read_upper(call)?;
    let [.., rows, columns] = *data.shape() else { invalid!("the input has fewer than 2 axes") };
    let offsets = offsets(rows.int(), columns.int())?;
    let is_zero = |index: &usize| {
        let offset = index.checked_rem(offsets.len()).and_then(|index| offsets.get(index));
        offset.is_some_and(|offset| !keeps(upper, *offset, k))
    };
    let targets: Vec<usize> = (0..data.len()).filter(is_zero).collect();
    let zeros = Array::i64(ndarray::ArrayD::zeros(vec![targets.len()])).cast(data.dtype())?;
    Ok(vec![data.replace(&targets, &zeros)?])
}

/// Compares the offset of each element with the diagonal, if that or a size is known only at run time.
fn expand_trilu(expand: &Expand) -> Result<bool> {
    let has_fixed_diagonal = !expand.has_input(1) || expand.constant(1).is_some();
    let is_matrix_fixed = expand.shape(0)?.iter().rev().take(2).all(|size| size.known().is_some());
    if has_fixed_diagonal && is_matrix_fixed {
        return Ok(false);
    }
    let data = expand.operand(0);
    let k = expand.optional(1).unwrap_or_else(|| expand.make.int(0));
    let (rows, columns) = (data.positions(-2), data.positions(-1));
    let offsets = columns - rows.reshape(&[-1, 1]);
    let kept = if read_upper(expand)? { offsets.greater_or_equal(k) } else { offsets.less_or_equal(k) };
    expand.output(0, kept.select(data, 0.0));
    Ok(true)
}

fn lower_trilu(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let sizes = lower.sizes(0)?;
    let [.., rows, columns] = *sizes.as_slice() else { invalid!("the input has fewer than 2 axes") };
    let k = if lower.has_input(1) { lower.int_list(1)?.first().copied().unwrap_or(0) } else { 0 };
    let upper = read_upper(lower)?;
    let outer = Dim::product(shape.iter().take(shape.len() - 2));
    let (rows_size, columns_size) = (Dim::from(rows), Dim::from(columns));
    let matrices = lower.input(0).reshape([outer, rows_size, columns_size]).isolated();
    // MIN and MAX with 0 make 0 of an infinite element too; a product with 0 would be NaN.
    let offsets = offsets(rows, columns)?;
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    let limit = |open: f32| {
        let limits = offsets.iter().map(|offset| if keeps(upper, *offset, k) { open } else { 0.0 });
        lower.tensor(Tensor::from_f32(&shape, limits.collect()))
    };
    lower.give(0, matrices.minimum(limit(f32::INFINITY)).maximum(limit(f32::NEG_INFINITY)))
}
