//! TopK: the largest or smallest elements along an axis, with their indices.
//!
//! Along a short axis every element is compared with every other; along a longer one first the `k` largest
//! are taken (`largest.rs`), and only they are compared with each other, in at most 256 MiB. Equal elements
//! keep their order, as in onnxruntime. Where no index is read, a few elements are merged from ordered lists
//! (`ordered_lists.rs`).
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TopK.html>.

use std::cmp::Ordering;

use ndarray::ArrayD;
use num_traits::AsPrimitive;

use super::largest::{self, MAX_ELEMENTS, usual};
use super::one_hot::pick;
use super::ordered_lists::{self, Direction};
use crate::ncnn::Cost;
use crate::op::range;
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;
use crate::pass::pattern::inverse;
use crate::tensor::{coordinates, row_major};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("TopK", Access::Any, infer_top_k)
    .fold(fold_top_k)
    .scratch(SORTED)
    .range(range::first)
    .further_range(range::positions)
    .expand(expand_top_k)
    .lowers_to(
        "MatMul with a matrix of zeros and ones from the rank of each element; before it, along long axes, Threshold and \
         Reduction for the largest elements, one by one, or the k-th largest, digit by digit; BinaryOp MAX and MIN \
         for a few elements without their indices",
    )
    .limits(
        "a large K: comparing every pair of the results takes more than 256 MiB; a K \
         known only at run time",
    )];

/// The most elements of which the pairs that are in order are listed in a constant.
const MAX_LISTED: i64 = 64;

/// The most elements whose numbers, the number of larger elements and then the index, are exact in float32.
const MAX_NUMBERED: i64 = 1 << 12;

/// The layers that compare each pair of elements, layers over a column for each result, and over fewer
/// elements.
const LAYERS_OF_ORDER: [u64; 3] = [8, 5, 25];

/// The bytes of an element that is sorted: as float64, twice, and with its index and its offset, twice.
const SORTED: u64 = 48;

struct Order {
    axis: usize,
    largest: bool,
}

/// Reads axis and order; `largest` exists since version 11. Unsorted results may have any order, so they are
/// sorted.
fn read_order(call: &Call, rank: usize) -> Result<Order> {
    let axis = resolve_axis(call.int("axis")?, rank)?;
    let largest = call.since() < 11 || call.flag("largest")?;
    Ok(Order { axis, largest })
}

/// Returns K: an attribute in version 1, then an input, or the declared size of the result if that is
/// computed at run time.
fn count_of(call: &Call, axis: usize) -> Result<Dim> {
    if call.since() == 1 {
        return Ok(Dim::Known(call.int("k")?));
    }
    call.check_integer(1)?;
    call.dims(1)
        .and_then(|k| match k.as_slice() {
            [k] => Ok(k.clone()),
            _ => Err(Error::invalid(format!("K has {} elements, expected 1", k.len()))),
        })
        .or_else(|error| call.declared_instead_of(1).and_then(|shape| shape.get(axis)).cloned().ok_or(error))
}

fn infer_top_k(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    let order = read_order(call, shape.len())?;
    let count = count_of(call, order.axis)?;
    if let (Some(k), Some(size)) = (count.known(), shape.at(order.axis)?.known())
        && !(0..=size).contains(&k)
    {
        invalid!("K is {k}, the axis has {size} elements");
    }
    shape = resized(&shape, order.axis, count);
    Ok(vec![Fact::new(call.dtype(0)?, shape.clone()), Fact::new(DType::I64, shape)])
}

fn fold_top_k(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let order = read_order(call, data.shape().len())?;
    let k = match call.since() {
        1 => call.int("k")?,
        _ => call.array(1)?.scalar_i64()?,
    };
    let k = usize::try_from(k)?;
    let compare: Box<dyn Fn(usize, usize) -> Ordering> = match data.elements() {
        Elements::I64(a) => {
            let list: Vec<i64> = a.iter().copied().collect();
            Box::new(move |x, y| list.get(x).cmp(&list.get(y)))
        }
        Elements::Dim(_) => unsupported!("free sizes cannot be sorted"),
        _ => {
            let data = data.to_f64()?;
            check_order(&data)?;
            let list: Vec<f64> = data.iter().copied().collect();
            Box::new(move |x, y| list.get(x).partial_cmp(&list.get(y)).unwrap_or(Ordering::Equal))
        }
    };
    let size = *data.shape().at(order.axis)?;
    let shape = resized(data.shape(), order.axis, k);
    let mut picked = vec![0; shape.iter().product()];
    let mut indices = vec![0_i64; picked.len()];
    let inner: usize = shape.iter().skip(order.axis + 1).product();
    for lane in coordinates(&resized(&shape, order.axis, 1)) {
        let (from, to) = (row_major(data.shape(), &lane), row_major(&shape, &lane));
        let mut elements: Vec<(usize, usize)> =
            (0..size).map(|index| (index, from + index * inner)).collect();
        // A stable sort keeps equal elements in their order.
        elements.sort_by(|x, y| if order.largest { compare(y.1, x.1) } else { compare(x.1, y.1) });
        for (rank, (index, source)) in elements.into_iter().take(k).enumerate() {
            let target = to + rank * inner;
            if let (Some(pick), Some(slot)) = (picked.get_mut(target), indices.get_mut(target)) {
                (*pick, *slot) = (source, index.int());
            }
        }
    }
    let indices = Array::i64(ArrayD::from_shape_vec(shape.as_slice(), indices)?);
    Ok(vec![data.pick(&picked, &shape)?, indices])
}

/// Refuses NaN: the specification leaves its position open, and a sort without a total order may panic.
fn check_order(data: &ArrayD<f64>) -> Result<()> {
    if data.iter().any(|element| element.is_nan()) {
        unsupported!("constants with NaN cannot be sorted");
    }
    Ok(())
}

fn expand_top_k(expand: &Expand) -> Result<bool> {
    if let Some(data) = expand.constant(0).filter(|data| data.dtype().is_float()) {
        check_order(&data.load_listed()?.to_f64()?)?;
    }
    let shape = expand.shape(0)?.to_vec();
    let order = read_order(expand, shape.len())?;
    let Some(k) = count_of(expand, order.axis)?.known() else { unsupported!("K is known only at run time") };
    let n = shape.at(order.axis)?;
    if n.known().is_none() && k == 1 {
        return expand_extreme(expand, &order);
    }
    let others = || shape.iter().enumerate().filter(|(axis, _)| *axis != order.axis).map(|(_, size)| size);
    let lanes = others().filter_map(Dim::known).fold(1, i64::saturating_mul);
    // The axis comes last.
    let mut perm: Vec<usize> = (0..shape.len()).filter(|axis| *axis != order.axis).collect();
    perm.push(order.axis);
    if let (Some(n), false) = (n.known(), expand.has_output(1))
        && orders_lists(&Dim::product(others()), n, k)
    {
        // The axis comes first.
        perm.rotate_right(1);
        let data = expand.operand(0).transpose(&perm);
        let lanes = expand.make.op("Shape", [data], [("start", 1.into())]);
        let direction = if order.largest { Direction::Descending } else { Direction::Ascending };
        let found = ordered_lists::first_in_order(expand, data.reshape(&[n, -1]), [n, k], direction)?;
        let shape = expand.make.concat(&[expand.make.ints(&[k]), lanes], 0);
        expand.output(0, found.reshape_to(shape).transpose(&inverse(&perm)));
        return Ok(true);
    }
    let rows = expand.operand(0).transpose(&perm);
    let found = match n.known() {
        Some(n) if !takes_largest_first(&Dim::product(others()), n, k) => {
            check_sorted(lanes, n, n)?;
            Candidates::all(expand, rows, n)?.sort(expand, k, order.largest)?
        }
        known => {
            check_sorted(lanes, known.unwrap_or(k), k)?;
            let rows = match known {
                Some(n) => rows.reshape(&[-1, n]),
                None => expand.make.op("Flatten", [rows], [("axis", (-1).into())]),
            };
            Candidates::largest(expand, rows, k, order.largest)?.sort(expand, k, order.largest)?
        }
    };
    let lanes = expand.make.op("Shape", [rows], [("end", (-1).into())]);
    let shape = expand.make.concat(&[lanes, expand.make.ints(&[k])], 0);
    for (index, found) in found.into_iter().enumerate() {
        let Some(found) = found else { continue };
        expand.output(index, found.reshape_to(shape).transpose(&inverse(&perm)));
    }
    Ok(true)
}

/// Expands the only result along an axis of free size.
fn expand_extreme(expand: &Expand, order: &Order) -> Result<bool> {
    let (data, axis) = (expand.operand(0), order.axis.int());
    let (reduction, arg) = if order.largest { ("ReduceMax", "ArgMax") } else { ("ReduceMin", "ArgMin") };
    expand.output(0, data.reduce(reduction, &[axis], true));
    expand.output(1, expand.make.op(arg, [data], [("axis", axis.into())]));
    Ok(true)
}

/// Returns whether the elements alone are found in less time from ordered lists.
fn orders_lists(rows: &Dim, n: i64, k: i64) -> bool {
    let whole = cost_of_order(rows, n, k).nanoseconds();
    let with_indices = time_of_largest(rows, n, k).map_or(whole, |time| time.min(whole));
    let alone = ordered_lists::cost(usual(rows), n, k);
    alone.is_some_and(|alone| alone.nanoseconds() < with_indices)
}

/// Returns whether the result is found in less time from the `k` largest elements, which the node `Largest`
/// takes without an order, than by comparing all elements.
fn takes_largest_first(rows: &Dim, n: i64, k: i64) -> bool {
    time_of_largest(rows, n, k).is_some_and(|time| time < cost_of_order(rows, n, k).nanoseconds())
}

/// Returns the time of taking the `k` largest of more elements, and of putting them in order.
fn time_of_largest(rows: &Dim, n: i64, k: i64) -> Option<u64> {
    let cost = || largest::cost(rows, &Dim::Known(n), k) + cost_of_order(rows, k, k);
    (1..n).contains(&k).then(|| cost().nanoseconds())
}

/// Returns the cost of putting the first `k` of `count` elements of each row in order.
fn cost_of_order(rows: &Dim, count: i64, k: i64) -> Cost {
    let [pairs, columns, few] = LAYERS_OF_ORDER;
    let size = |height: i64| height.unsigned_abs().saturating_mul(count.unsigned_abs());
    let few = Cost { layers: few, ..Cost::default() };
    largest::passes(pairs, rows, size(count)) + largest::passes(columns, rows, size(k)) + few
}

/// Refuses more elements than can be compared with each other.
fn check_sorted(lanes: i64, n: i64, sorted: i64) -> Result<()> {
    let compared = lanes.saturating_mul(sorted).saturating_mul(sorted);
    let rows = if lanes > 1 { format!(" in each of {lanes} rows") } else { String::new() };
    if sorted < n && lanes.saturating_mul(n) > MAX_ELEMENTS {
        unsupported!("{n} elements{rows}: at most {MAX_ELEMENTS} in all are searched for the largest");
    }
    if compared > limits::COMPARED {
        let most = (limits::COMPARED / lanes.max(1)).isqrt();
        unsupported!("{sorted} of {n} elements in order: at most {most} are sorted{rows}");
    }
    Ok(())
}

/// Elements that are sorted.
struct Candidates<'x> {
    /// The elements of each lane as a column and as a row.
    column: Expr<'x>,
    row: Expr<'x>,
    /// Their indices, a column; equal elements are in the order of their indices.
    indices: Expr<'x>,
    count: i64,
}

impl<'x> Candidates<'x> {
    /// Returns all elements of the last axis.
    fn all(expand: &'x Expand, rows: Expr<'x>, n: i64) -> Result<Candidates<'x>> {
        let (row, column) = (rows.reshape(&[-1, 1, n]), rows.reshape(&[-1, n, 1]));
        let indices = ArrayD::from_shape_vec(vec![usize::try_from(n)?, 1], (0..n).collect())?;
        Ok(Candidates { column, row, indices: expand.make.literal(&Array::i64(indices)), count: n })
    }

    /// Returns the `k` largest or smallest elements of each row.
    fn largest(expand: &'x Expand, rows: Expr<'x>, k: i64, largest: bool) -> Result<Candidates<'x>> {
        let keys = rows.to_type(DType::F32);
        let keys = if largest { keys } else { -keys };
        let keys = expand.make.op("ncnn.Largest", [keys], [("k", k.into())]);
        let (keys, indices) = (keys.typed(DType::F32), keys.output(1));
        let elements = if largest { keys } else { -keys }.to_type(expand.dtype(0)?);
        let (row, column) = (elements.reshape(&[-1, 1, k]), elements.reshape(&[-1, k, 1]));
        Ok(Candidates { column, row, indices: indices.reshape(&[-1, k, 1]), count: k })
    }

    /// Returns the first `k` elements of the order and their indices, as columns, if they are outputs.
    fn sort(self, expand: &'x Expand, k: i64, largest: bool) -> Result<[Option<Expr<'x>>; 2]> {
        // [lanes, k, count]: row r has its 1 at the element of rank r.
        let matrix = self.ranks(expand, largest)?.one_hot(k, 1, DType::F32);
        let columns = [(0, self.column, expand.dtype(0)?), (1, self.indices, DType::I64)];
        Ok(columns.map(|(index, column, dtype)| {
            expand.has_output(index).then(|| pick(column, dtype, |column| matrix.matmul(column)))
        }))
    }

    /// Returns the rank of each element: the number of larger elements and of equal ones before it, as
    /// integers of shape `[lanes, count]`.
    fn ranks(&self, expand: &'x Expand, largest: bool) -> Result<Expr<'x>> {
        let Candidates { column, row, count, .. } = *self;
        let before = if largest { row.greater(column) } else { row.less(column) };
        let sum = |truth: Expr<'x>| truth.cast(DType::F32).reduce("ReduceSum", &[2], false).cast(DType::I64);
        let side = usize::try_from(count)?;
        if count <= MAX_LISTED {
            let earlier = ndarray::Array2::from_shape_fn((side, side), |(row, column)| column < row);
            let tied = row.equal(column) & expand.make.literal(&Array::bool(earlier.into_dyn()));
            return Ok(sum(before | tied));
        }
        // Equal elements have equal numbers of larger ones.
        let larger = sum(before).clip(0, count - 1);
        if count <= MAX_NUMBERED {
            let indices = ndarray::Array2::from_shape_fn((1, side), |(_, index)| index.as_());
            let numbers = larger * count + expand.make.literal(&Array::i64(indices.into_dyn()));
            return Ok(sum(numbers.reshape(&[-1, 1, count]).less(numbers.reshape(&[-1, count, 1]))));
        }
        let difference = (larger.reshape(&[-1, 1, count]) - larger.reshape(&[-1, count, 1])).clip(-1, 1);
        let indices = expand.make.literal(&Array::i64(ndarray::Array1::from_iter(0..count).into_dyn()));
        let (first, second) = (indices.reshape(&[1, 1, count]), indices.reshape(&[1, count, 1]));
        Ok(sum((difference * count + first).less(second)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;

    #[test]
    fn constants_with_nan_are_refused() {
        let elements =
            |nan| (0_u16..64).map(|i| if i % 3 == 0 { nan } else { f32::from(i * 37 % 64) }).collect();
        let fold = |nan| {
            let data = Array::f32(ArrayD::from_shape_vec(vec![64], elements(nan)).unwrap());
            let k = Array::i64(ArrayD::from_shape_vec(vec![1], vec![2]).unwrap());
            let node = Node { op_type: "TopK".into(), version: 11, ..Node::default() };
            OPS[0].op.evaluate(&node, vec![Some(data), Some(k)])
        };
        assert!(fold(f32::NAN).is_err());
        assert_eq!(fold(100.0).unwrap()[1].int_list().unwrap(), [0, 3]);
    }
}
