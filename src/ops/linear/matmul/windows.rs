//! Products with a constant stack of matrices that are windows of one matrix: keys or values of relative
//! positions, of which each query has the part around its position.
//!
//! With fixed lengths, exporters gather a table of `d` columns to a stack `[queries, d, keys]`, which may be
//! larger than all other weights. The product with the table has its elements at other indices:
//!
//! | product, for each row of a query | element of query `l` and key `r` |
//! | --- | --- |
//! | with the stack: `[queries, keys]` | `(l, r)` |
//! | with the table: `[queries, queries + keys - 1]` | `(l, r - l + queries - 1)` |
//! | its elements from `queries - 1` on, as `[queries, queries + keys - 2]` | `(l, r)` |

use std::ops::RangeInclusive;

use ndarray::{Array2, ArrayView3, Axis, Ix3, Slice, concatenate};

use crate::ops::prelude::*;

/// The numbers of elements of a stack that is replaced: moves take longer than reading a small one, and no
/// table is gathered to a larger one.
const REPLACED: RangeInclusive<usize> = 1 << 18..=1 << 24;

/// The sizes of a product of rows with a stack.
struct Sizes {
    rank: usize,
    queries: usize,
    keys: usize,
}

/// Expands a product with windows along the columns or the rows of a matrix.
pub(super) fn expand_windows(expand: &Expand) -> Result<bool> {
    let Some(stack) = stack(expand)? else { return Ok(false) };
    let rank = expand.shape(0)?.len();
    // The rows of a query side by side.
    let mut order: Vec<usize> = (0..rank).collect();
    order.swap(rank - 3, rank - 2);
    let rows = expand.operand(0).transpose(&order);
    let (queries, first, second) = stack.dim();
    let result = if let Some(table) = table_of(stack.view()) {
        Sizes { rank, queries, keys: second }.gathered(product(expand, rows, &table, rank)?)
    } else if let Some(table) = table_of(stack.view().permuted_axes([0, 2, 1])) {
        let table = expand.make.literal(&Array::f32(table.t().to_owned().into_dyn()));
        Sizes { rank, queries, keys: first }.spread(rows).matmul(table)
    } else {
        return Ok(false);
    };
    expand.output(0, result.transpose(&order));
    Ok(true)
}

/// Returns the constant operand on the right, if it is a large stack with a matrix for each of the innermost
/// batch of the left one.
fn stack(expand: &Expand) -> Result<Option<ndarray::Array3<f32>>> {
    let (rows, shape) = (expand.shape(0)?, expand.shape(1)?);
    let constant = expand.constant(1).filter(|tensor| REPLACED.contains(&tensor.len()));
    let Some(tensor) = constant else { return Ok(None) };
    let ([.., queries, _, _], [outer @ .., count, _, _]) = (rows, shape) else { return Ok(None) };
    let is_stack = outer.iter().all(|size| size.is(1)) && shape.len() <= rows.len();
    if expand.dtype(0)? != DType::F32 || !is_stack || queries != count {
        return Ok(None);
    }
    let sizes = tensor.shape().get(outer.len()..).unwrap_or_default().to_vec();
    if !tensor.is_deferred() && !begins_with_windows(tensor, &sizes)? {
        return Ok(None);
    }
    let elements = tensor.load()?.to_f32()?;
    Ok(Some(elements.into_shape_with_order(sizes)?.into_dimensionality::<Ix3>()?))
}

/// Returns whether the second matrix of a stack has the first row of the first one, or its elements further
/// on: a stack of other matrices is not read as a whole.
fn begins_with_windows(stack: &Tensor, sizes: &[usize]) -> Result<bool> {
    let (rows, width) = (*sizes.at(1)?, *sizes.at(2)?);
    let ranges = stack.ranges()?;
    let row = |index: usize, start: usize, count: usize| -> Result<Vec<f32>> {
        let (mut bytes, mut row) = (Vec::new(), Vec::new());
        ranges.read_f32(index * width + start, count, &mut bytes, &mut row)?;
        Ok(row)
    };
    let is_of_columns = row(0, 0, width - 1)? == row(rows, 1, width - 1)?;
    Ok(is_of_columns || rows > 1 && row(0, 0, width)? == row(rows + 1, 0, width)?)
}

/// Returns the matrix of whose columns each matrix of the stack has adjacent ones, the first matrix the last
/// ones.
fn table_of(stack: ArrayView3<f32>) -> Option<Array2<f32>> {
    let (count, _, width) = stack.dim();
    let last = count.checked_sub(1).filter(|last| *last > 0)?;
    let column = Slice::from(width.checked_sub(1)?..);
    let before = (0..last).rev().map(|index| stack.index_axis_move(Axis(0), index));
    let mut parts = vec![stack.index_axis_move(Axis(0), last)];
    parts.extend(before.map(|matrix| matrix.slice_axis_move(Axis(1), column)));
    let table = concatenate(Axis(1), &parts).ok()?;
    let window = |index: usize| table.slice_axis(Axis(1), Slice::from(last - index..last - index + width));
    stack.outer_iter().enumerate().all(|(index, matrix)| matrix == window(index)).then_some(table)
}

/// Returns the product with a table. Its equal columns at each end, for positions beyond the farthest one,
/// are computed once.
fn product<'x>(expand: &'x Expand, rows: Expr<'x>, table: &Array2<f32>, rank: usize) -> Result<Expr<'x>> {
    let columns: Vec<_> = table.columns().into_iter().collect();
    let equal = |pair: &[ndarray::ArrayView1<f32>]| pair.first() == pair.last();
    let front = columns.windows(2).take_while(|pair| equal(pair)).count();
    let back = columns.windows(2).skip(front).rev().take_while(|pair| equal(pair)).count();
    let kept = table.slice_axis(Axis(1), Slice::from(front..columns.len() - back));
    let product = rows.matmul(expand.make.literal(&Array::f32(kept.to_owned().into_dyn())));
    if front + back == 0 {
        return Ok(product);
    }
    let mut pads = vec![0; 2 * rank];
    pads.put(rank - 1, front);
    pads.put(2 * rank - 1, back);
    Ok(expand.make.op("Pad", [product, expand.make.ints(&pads)], [("mode", "edge".into())]))
}

impl Sizes {
    /// The number of columns of the table.
    fn columns(&self) -> usize {
        self.queries + self.keys - 1
    }

    /// Returns the rows with other sizes of the last axes.
    fn reshaped<'x>(&self, rows: Expr<'x>, last: &[usize]) -> Expr<'x> {
        let shape: Vec<usize> = std::iter::repeat_n(0, self.rank - 2).chain(last.iter().copied()).collect();
        rows.reshape(&shape)
    }

    /// Returns `[.., rows, queries, keys]` of `[.., rows, queries, columns]`.
    fn gathered<'x>(&self, rows: Expr<'x>) -> Expr<'x> {
        let (queries, columns) = (self.queries, self.columns());
        let flat = self.reshaped(rows, &[queries * columns]);
        let (first, count) = (queries - 1, queries * (columns - 1));
        let rows = self.reshaped(flat.slice(self.rank - 2, first, first + count), &[queries, columns - 1]);
        rows.slice(self.rank - 1, 0, self.keys)
    }

    /// Returns `[.., rows, queries, columns]` of `[.., rows, queries, keys]`, with zeros at other indices.
    fn spread<'x>(&self, rows: Expr<'x>) -> Expr<'x> {
        let (queries, columns) = (self.queries, self.columns());
        let rows = rows.pad_along(self.rank, self.rank - 1, [0, queries - 2]);
        let flat = self.reshaped(rows, &[queries * (columns - 1)]);
        let flat = flat.pad_along(self.rank - 1, self.rank - 2, [queries - 1, 1]);
        self.reshaped(flat, &[queries, columns])
    }
}

#[cfg(test)]
mod tests {
    use ndarray::{Array3, s};

    use super::*;

    #[test]
    fn tables_are_found() {
        let table = Array2::from_shape_vec((2, 6), (0..12_u8).map(f32::from).collect()).unwrap();
        let stack =
            Array3::from_shape_fn((3, 2, 4), |(matrix, row, column)| table[[row, column + 2 - matrix]]);
        assert_eq!(table_of(stack.view()), Some(table));
        let mut other = stack.clone();
        other[[1, 0, 0]] += 1.0;
        assert_eq!(table_of(other.view()), None);
        assert_eq!(table_of(stack.slice(s![..1, .., ..])), None);
    }

    #[test]
    fn other_stacks_are_recognized_by_two_rows() {
        let begins = |order: [usize; 3], changed: usize| {
            let table: Vec<f32> = (0..12_u8).map(f32::from).collect();
            let stack = Array3::from_shape_fn((2, 2, 5), |(matrix, row, column)| {
                table[6 * row + column + 1 - matrix]
            });
            let stack = stack.permuted_axes(order).as_standard_layout().into_owned();
            let sizes = stack.shape().to_vec();
            let mut elements = stack.into_raw_vec_and_offset().0;
            elements[changed] = 100.0;
            begins_with_windows(&Tensor::from_f32(&sizes, elements).unwrap(), &sizes).unwrap()
        };
        assert!(begins([0, 1, 2], 9) && begins([0, 2, 1], 9));
        assert!(!begins([0, 1, 2], 1) && !begins([0, 2, 1], 1));
    }
}
