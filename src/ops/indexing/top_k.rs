//! TopK: the largest or smallest elements along an axis, with their indices.
//!
//! Every element is compared with every other, in at most 256 MiB. Equal elements keep their order, as in
//! onnxruntime.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TopK.html>.

use std::cmp::Ordering;

use ndarray::ArrayD;

use super::one_hot::pick;
use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::op::{Access, Attributes, Call, Fact, range, required, required_input, resolve_axis};
use crate::ops::Row;
use crate::ops::shape::resized;
use crate::pass::builder::Expr;
use crate::pass::expand::Expand;
use crate::pass::pattern::inverse;
use crate::tensor::{Array, DType, Dim, Elements, coordinates, row_major};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("TopK", &[1, 10, 11, 24], Access::Any, infer_top_k)
    .required_outputs(usize::MAX)
    .fold(fold_top_k)
    .range(range::first)
    .further_range(range::positions)
    .expand(expand_top_k)
    .lowers_to("MatMul with a matrix of zeros and ones from the rank of each element")
    .limits(
        "long axes: comparing every pair of elements takes more than 256 MiB; a free size of the axis; a K known only at run \
         time",
    )];

struct Order {
    axis: usize,
    largest: bool,
}

/// Reads axis and order; `largest` exists since version 11. Unsorted results may have any order, so they are
/// sorted.
fn read_order(attributes: &Attributes, rank: usize) -> Result<Order> {
    let axis = resolve_axis(attributes.int_or("axis", -1)?, rank)?;
    let largest = attributes.since() < 11 || attributes.flag("largest", true)?;
    if attributes.since() >= 11 {
        attributes.int("sorted")?;
    }
    Ok(Order { axis, largest })
}

/// Returns K: an attribute in version 1, then an input, or the declared size of the result if that is
/// computed at run time.
fn count_of(call: &Call, axis: usize) -> Result<Dim> {
    if call.since() == 1 {
        return Ok(Dim::Known(required(call.int("k")?, "k")?));
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

fn fold_top_k(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let data = required_input(inputs, 0)?;
    let order = read_order(attributes, data.shape().len())?;
    let k = match attributes.since() {
        1 => required(attributes.int("k")?, "k")?,
        _ => required_input(inputs, 1)?.scalar_i64()?,
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
        let mut places: Vec<(usize, usize)> = (0..size).map(|index| (index, from + index * inner)).collect();
        // A stable sort keeps equal elements in their order.
        places.sort_by(|x, y| if order.largest { compare(y.1, x.1) } else { compare(x.1, y.1) });
        for (rank, (index, source)) in places.into_iter().take(k).enumerate() {
            let target = to + rank * inner;
            if let (Some(pick), Some(slot)) = (picked.get_mut(target), indices.get_mut(target)) {
                (*pick, *slot) = (source, i64::try_from(index)?);
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
    let Some(n) = shape.at(order.axis)?.known() else { unsupported!("the axis has a free size") };
    let total = shape.iter().filter_map(Dim::known).fold(1, i64::saturating_mul);
    if total.saturating_mul(n) > limits::COMPARED {
        unsupported!("{total} elements, each compared with {n} others");
    }
    // The axis comes last.
    let mut perm: Vec<usize> = (0..shape.len()).filter(|axis| *axis != order.axis).collect();
    perm.push(order.axis);
    let is_last = perm.is_sorted();
    let data = expand.operand(0);
    let rows = if is_last { data } else { data.permute(&perm) };
    let (row, column) = (rows.reshape(&[-1, 1, n]), rows.reshape(&[-1, n, 1]));
    // [lanes, k, n]: row r has its 1 at the element of rank r.
    let matrix = ranks(expand, column, row, n, order.largest)?.one_hot(k, 1, DType::F32);
    let lanes = rows.apply("Shape", [("end", (-1).into())]);
    let shape = expand.make.concat(&[lanes, expand.make.ints(&[k])], 0);
    let indices = ArrayD::from_shape_vec(vec![usize::try_from(n)?, 1], (0..n).collect())?;
    let indices = expand.make.literal(&Array::i64(indices));
    let columns = [(column, expand.dtype(0)?), (indices, DType::I64)];
    for (index, (column, dtype)) in columns.into_iter().enumerate() {
        if !expand.has_output(index) {
            continue;
        }
        let mut found = pick(column, dtype, |column| matrix.matmul(column)).reshape_to(shape);
        if !is_last {
            found = found.permute(&inverse(&perm));
        }
        expand.output(index, found);
    }
    Ok(true)
}

/// Returns the rank of each element: the number of larger elements and of equal ones before it, as integers of
/// shape `[lanes, n]`.
fn ranks<'x>(expand: &'x Expand, column: Expr<'x>, row: Expr<'x>, n: i64, largest: bool) -> Result<Expr<'x>> {
    let before = if largest { row.greater(column) } else { row.less(column) };
    let side = usize::try_from(n)?;
    let earlier = ndarray::Array2::from_shape_fn((side, side), |(row, column)| column < row);
    let tied = row.equal(column) & expand.make.literal(&Array::bool(earlier.into_dyn()));
    Ok((before | tied).cast(DType::F32).reduce("ReduceSum", &[2], false).cast(DType::I64))
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
            fold_top_k(&Attributes::new(&node, &OPS[0].op), &[Some(data), Some(k)])
        };
        assert!(fold(f32::NAN).is_err());
        assert_eq!(fold(100.0).unwrap()[1].int_list().unwrap(), [0, 3]);
    }
}
