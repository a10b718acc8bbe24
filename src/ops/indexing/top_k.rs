//! TopK: the largest or smallest elements along an axis, and their indices.
//!
//! Every element is compared with every other; more than 256 MiB of comparisons are refused. Equal elements
//! keep their order, as in onnxruntime.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__TopK.html>.

use std::cmp::Ordering;

use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, Attributes, Call, Fact, required, required_input, resolve_axis};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, Elements, coordinates, row_major};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("TopK", &[1, 10, 11, 24], Access::Any, infer_top_k)
    .variadic()
    .fold(fold_top_k)
    .expand(expand_top_k)
    .lowers_to("MatMul with a matrix of zeros and ones, from the rank of each element among all")
    .limits("axes whose comparisons take more than 256 MiB; a K computed at run time")];

struct Order {
    axis: usize,
    largest: bool,
}

/// Since version 11 also the smallest ones. The order of unsorted results is unspecified, so sorted ones are
/// valid.
fn read_order(attributes: &Attributes, rank: usize) -> Result<Order> {
    let axis = resolve_axis(attributes.int_or("axis", -1)?, rank)?;
    let largest = attributes.since() < 11 || attributes.flag("largest", true)?;
    if attributes.since() >= 11 {
        attributes.int("sorted")?;
    }
    Ok(Order { axis, largest })
}

/// Returns the number of elements: an attribute in version 1, then an input; if that is computed at run time,
/// the declared size.
fn count_of(call: &Call, axis: usize) -> Result<Dim> {
    if call.since() == 1 {
        return Ok(Dim::Known(required(call.int("k")?, "k")?));
    }
    call.check_integer(1)?;
    call.dims(1)
        .and_then(|k| match k.as_slice() {
            [k] => Ok(k.clone()),
            _ => Err(Error::invalid(format!("{} counts", k.len()))),
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
    if let Some(slot) = shape.get_mut(order.axis) {
        *slot = count;
    }
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
        Elements::Dim(_) => unsupported!("the order of free sizes"),
        _ => {
            let list: Vec<f64> = data.to_f64()?.iter().copied().collect();
            check_order(list.iter())?;
            Box::new(move |x, y| list.get(x).partial_cmp(&list.get(y)).unwrap_or(Ordering::Equal))
        }
    };
    let size = *data.shape().at(order.axis)?;
    let mut shape = data.shape().to_vec();
    if let Some(slot) = shape.get_mut(order.axis) {
        *slot = k;
    }
    let mut picked = vec![0; shape.iter().product()];
    let mut numbers = vec![0_i64; picked.len()];
    let mut lanes = shape.clone();
    if let Some(slot) = lanes.get_mut(order.axis) {
        *slot = 1;
    }
    for mut lane in coordinates(&lanes) {
        let mut at = |place: usize, sizes: &[usize]| {
            if let Some(slot) = lane.get_mut(order.axis) {
                *slot = place;
            }
            row_major(sizes, &lane)
        };
        let mut places: Vec<(usize, usize)> =
            (0..size).map(|place| (place, at(place, data.shape()))).collect();
        // A stable sort keeps equal elements in their order.
        places.sort_by(|x, y| if order.largest { compare(y.1, x.1) } else { compare(x.1, y.1) });
        for (rank, (place, source)) in places.into_iter().take(k).enumerate() {
            let target = at(rank, &shape);
            if let (Some(pick), Some(number)) = (picked.get_mut(target), numbers.get_mut(target)) {
                (*pick, *number) = (source, i64::try_from(place)?);
            }
        }
    }
    let numbers = Array::i64(ndarray::ArrayD::from_shape_vec(shape.as_slice(), numbers)?);
    Ok(vec![data.pick(&picked, &shape)?, numbers])
}

/// Refuses NaN, whose position the specification leaves open. A sort without an order of all elements panics.
fn check_order<'a>(mut elements: impl Iterator<Item = &'a f64>) -> Result<()> {
    if elements.any(|element| element.is_nan()) {
        unsupported!("the order of constants with NaN");
    }
    Ok(())
}

fn expand_top_k(expand: &mut Expand) -> Result<bool> {
    if let Some(data) = expand.constant(0).filter(|data| data.dtype().is_float()) {
        check_order(data.load_listed()?.to_f64()?.iter())?;
    }
    let sizes = expand.sizes(0)?;
    let order = read_order(expand, sizes.len())?;
    let Some(k) = count_of(expand, order.axis)?.known() else { unsupported!("K is computed at run time") };
    let n = *sizes.at(order.axis)?;
    let total: i64 = sizes.iter().product();
    if total.saturating_mul(n) > limits::COMPARED {
        unsupported!("{n} sorted elements are compared in {total} rows and columns");
    }
    let outer: i64 = sizes.iter().take(order.axis).product();
    let inner: i64 = sizes.iter().skip(order.axis + 1).product();
    let data = expand.operand(0)?;
    // `[lanes, n]`: the axis is the last one.
    let apart = expand.ints(&[outer, n, inner])?;
    let rows = expand.op("Reshape", &[data, apart], &[])?;
    let swap = || [("perm", Attribute::Ints(vec![0, 2, 1]))];
    let rows = expand.op("Transpose", &[rows], &swap())?;
    let lanes = outer * inner;
    let (as_rows, as_columns) = (expand.ints(&[lanes, 1, n])?, expand.ints(&[lanes, n, 1])?);
    let rivals = expand.op("Reshape", &[rows, as_rows], &[])?;
    let own = expand.op("Reshape", &[rows, as_columns], &[])?;
    let rank = ranks(expand, own, rivals, n, order.largest)?;

    let (depth, dtype) = (expand.ints(&[k])?, expand.dtype(0)?);
    let bits = Array::i64(ndarray::Array1::from_vec(vec![0, 1]).into_dyn());
    let values = expand.literal(&bits.cast(dtype)?)?;
    // `[lanes, k, n]`: row `r` has its 1 at the element of rank `r`.
    let taken = expand.op("OneHot", &[rank, depth, values], &[("axis", Attribute::Int(1))])?;
    let mut shape = sizes.clone();
    if let Some(slot) = shape.get_mut(order.axis) {
        *slot = k;
    }
    let numbers: Vec<i64> = (0..n).collect();
    let numbers = Array::i64(ndarray::ArrayD::from_shape_vec(vec![usize::try_from(n)?, 1], numbers)?);
    let numbers = expand.literal(&numbers.cast(DType::F32)?)?;
    for (index, column) in [own, numbers].into_iter().enumerate() {
        if !expand.has_output(index) {
            continue;
        }
        let weights = match index {
            0 => taken,
            _ => expand.op("Cast", &[taken], &[("to", Attribute::Int(DType::F32.to_onnx().into()))])?,
        };
        let found = expand.op("MatMul", &[weights, column], &[])?;
        let apart = expand.ints(&[outer, inner, k])?;
        let found = expand.op("Reshape", &[found, apart], &[])?;
        let found = expand.op("Transpose", &[found], &swap())?;
        let whole = expand.ints(&shape)?;
        let mut found = expand.op("Reshape", &[found, whole], &[])?;
        if index == 1 {
            found = expand.op("Cast", &[found], &[("to", Attribute::Int(DType::I64.to_onnx().into()))])?;
        }
        expand.output(index, found)?;
    }
    Ok(true)
}

/// Emits the number of elements that precede each: larger ones, and equal ones before it. `[lanes, n]`,
/// integers.
fn ranks(expand: &mut Expand, own: Operand, rivals: Operand, n: i64, largest: bool) -> Result<Operand> {
    let before = expand.op(if largest { "Greater" } else { "Less" }, &[rivals, own], &[])?;
    let equal = expand.op("Equal", &[rivals, own], &[])?;
    let side = usize::try_from(n)?;
    let earlier = ndarray::Array2::from_shape_fn((side, side), |(row, column)| column < row);
    let earlier = expand.literal(&Array::bool(earlier.into_dyn()))?;
    let tied = expand.op("And", &[equal, earlier], &[])?;
    let ahead = expand.op("Or", &[before, tied], &[])?;
    let ahead = expand.op("Cast", &[ahead], &[("to", Attribute::Int(DType::F32.to_onnx().into()))])?;
    let axes = expand.ints(&[2])?;
    let count = expand.op("ReduceSum", &[ahead, axes], &[("keepdims", Attribute::Int(0))])?;
    expand.op("Cast", &[count], &[("to", Attribute::Int(DType::I64.to_onnx().into()))])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::Node;

    #[test]
    fn constants_with_nan_have_no_order() {
        let elements =
            |nan| (0_u16..64).map(|i| if i % 3 == 0 { nan } else { f32::from(i * 37 % 64) }).collect();
        let fold = |nan| {
            let data = Array::f32(ndarray::ArrayD::from_shape_vec(vec![64], elements(nan)).unwrap());
            let k = Array::i64(ndarray::ArrayD::from_shape_vec(vec![1], vec![2]).unwrap());
            let node = Node { op_type: "TopK".into(), version: 11, ..Node::default() };
            fold_top_k(&Attributes::new(&node, &OPS[0].op), &[Some(data), Some(k)])
        };
        assert!(fold(f32::NAN).is_err());
        assert_eq!(fold(100.0).unwrap()[1].int_list().unwrap(), [0, 3]);
    }
}
