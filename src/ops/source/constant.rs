//! Values that do not depend on the elements of any input: constants, ranges, and sizes of other values.
//!
//! Free sizes are expressions in shape arithmetic, and refused in other computations.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Constant.html>, `onnx__ConstantOfShape.html`,
//! `onnx__Range.html`.

use ndarray::{Array1, ArrayD, IxDyn};
use num_traits::AsPrimitive;

use crate::lower::interface_form;
use crate::ncnn::layer::CumulativeSum;
use crate::op::ElementSum;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Constant", Access::Any, |call| Ok(vec![Fact::constant(read_constant(call)?)]))
        .lowers_to("a constant")
        .limits("text"),
    Row::new("ConstantOfShape", Access::Any, infer_constant_of_shape)
        .fold(fold_constant_of_shape)
        .range(|call, _| {
            read_fill(call)
                .and_then(|fill| Tensor::from_array(&fill))
                .map_or(Range::ANY, |fill| Range::of_tensor(&fill))
        })
        .lower(lower_constant_of_shape)
        .lowers_to("a constant; for free sizes a part of a blob with those sizes, filled by Clip")
        .limits("a shape computed at run time"),
    Row::of(NCNN_DOMAIN, "Stored", Access::Any, infer_same).lower(lower_stored).lowers_to("MemoryData"),
    Row::defined("", "EyeLike", expand_eye_like)
        .lowers_to("a constant; a comparison of the positions on two axes of free size"),
    Row::new("Range", Access::Any, infer_range)
        .fold(fold_range)
        .range(range_range)
        .expand(expand_range)
        .lower(lower_range)
        .lowers_to("a constant; CumulativeSum of ones if the length is a free size")
        .limits("a length known only at run time"),
    Row::new("Shape", Access::Any, infer_shape)
        .lowers_to("a constant, or expressions of free sizes")
        .limits("expressions of free sizes as elements of a blob"),
    Row::new("Size", Access::Any, infer_size)
        .lowers_to("a constant, or an expression of free sizes")
        .limits("an expression of free sizes as an element of a blob"),
];

/// A constant that several layers read as one blob.
fn lower_stored(lower: &Lower) -> Result<()> {
    lower.give(0, lower.input(0))
}

/// The maximum number of elements of a constant that is made from sizes: two large sizes must not give
/// terabytes.
const MAX_ELEMENTS: i64 = 1 << 28;

/// Returns the tensor of a Constant node, from any of its attributes.
fn read_constant(call: &Call) -> Result<Tensor> {
    let scalar = |array: Array| Tensor::from_array(&array);
    if let Some(tensor) = call.optional_tensor("value")? {
        return Ok(tensor.clone());
    }
    if let Some(x) = call.optional_float("value_float")? {
        return scalar(Array::f32(ArrayD::from_elem(IxDyn(&[]), x)));
    }
    if let Some(x) = call.optional_int("value_int")? {
        return scalar(Array::i64(ArrayD::from_elem(IxDyn(&[]), x)));
    }
    if let Some(list) = call.optional_floats("value_floats")? {
        return scalar(Array::f32(Array1::from_vec(list).into_dyn()));
    }
    if let Some(list) = call.optional_ints("value_ints")? {
        return scalar(Array::i64(Array1::from_vec(list).into_dyn()));
    }
    if call.optional_string("value_string")?.is_some() || call.optional_strings("value_strings")?.is_some() {
        unsupported!("a constant of strings");
    }
    call.tensor("sparse_value").cloned()
}

/// Returns the element that ConstantOfShape repeats.
fn read_fill(call: &Call) -> Result<Array> {
    let Some(tensor) = call.optional_tensor("value")? else {
        return Ok(Array::f32(ArrayD::zeros(IxDyn(&[]))));
    };
    if tensor.len() != 1 {
        invalid!("the value has {} elements, expected one", tensor.len());
    }
    tensor.load_listed()?.reshape(&[])
}

fn infer_constant_of_shape(call: &Call) -> Result<Vec<Fact>> {
    let fill = read_fill(call)?;
    let shape = match (call.dims(0), call.declared_instead_of(0)) {
        (Ok(shape), _) => shape,
        (Err(_), Some(declared)) => return Ok(vec![Fact::constant(filled(&fill, declared)?)]),
        (Err(error), None) => return Err(error),
    };
    if let Some(negative) = shape.iter().find(|d| d.known().is_some_and(|n| n < 0)) {
        invalid!("an axis of size {negative}");
    }
    if shape.iter().all(|size| size.known().is_some()) {
        return Ok(vec![Fact::constant(filled(&fill, &shape)?)]);
    }
    Ok(vec![Fact::new(fill.dtype(), shape)])
}

/// Returns a tensor of one repeated element.
fn filled(fill: &Array, shape: &[Dim]) -> Result<Tensor> {
    let count = Dim::product(shape);
    if count.known().is_none_or(|count| count > MAX_ELEMENTS) {
        return Err(Error::limit(format!("{count} repeated elements")));
    }
    let mut sizes = Vec::with_capacity(shape.len());
    for size in shape {
        sizes.push(usize::try_from(size.known().unwrap_or(0))?);
    }
    Tensor::filled(fill, sizes)
}

fn expand_eye_like<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let dtype = x.optional_element_type("dtype")?.map_or_else(|| x.dtype(0), Ok)?;
    let like = x.operand(0);
    let rank = x.shape(0)?.len();
    if rank != 2 {
        invalid!("an identity matrix of {rank} axes");
    }
    let (rows, columns) = (like.positions(0).unsqueeze(&[1_i64]), like.positions(1));
    Ok(x.make.op("Equal", [rows + x.int("k")?, columns], []).cast(dtype))
}

fn infer_shape(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let rank = shape.len().int();
    let (mut start, mut end) = (0, rank);
    if call.since() >= 15 {
        let counted = |axis: i64| if axis < 0 { axis.saturating_add(rank) } else { axis }.clamp(0, rank);
        start = counted(call.int("start")?);
        end = counted(call.int_or("end", rank)?);
    }
    let part = shape.get(usize::try_from(start)?..usize::try_from(end.max(start))?).unwrap_or_default();
    Ok(vec![Fact::elements(Array::from_dims(part))])
}

fn infer_size(call: &Call) -> Result<Vec<Fact>> {
    let count = Dim::product(call.shape(0)?);
    Ok(vec![Fact::elements(Array::dims(ArrayD::from_elem(IxDyn(&[]), count)))])
}

/// Returns the number of elements of a range.
fn range_len(start: &Array, limit: &Array, delta: &Array) -> Result<Dim> {
    for array in [start, limit, delta] {
        if array.len() != 1 {
            invalid!("found {} elements, expected one", array.len());
        }
    }
    let is_free = |array: &Array| matches!(array.elements(), Elements::Dim(_));
    if start.dtype().is_float() && ![start, limit, delta].into_iter().any(is_free) {
        let number = |array: &Array| Ok::<f64, Error>(array.to_f64()?.iter().copied().next().unwrap_or(0.0));
        let (start, limit, delta) = (number(start)?, number(limit)?, number(delta)?);
        let count = ((limit - start) / delta).ceil().max(0.0);
        if delta == 0.0 || !count.is_finite() {
            invalid!("a range from {start} to {limit} in steps of {delta}");
        }
        return Ok(Dim::Known(count.as_()));
    }
    let delta = size_element(delta, |number| number)?;
    // Between integers and in whole steps, a fraction of a bound adds or removes no element.
    let is_downwards = delta.known().is_some_and(|step| step < 0);
    let (of_start, of_limit): (Rounding, Rounding) =
        if is_downwards { (f64::ceil, f64::floor) } else { (f64::floor, f64::ceil) };
    let distance = size_element(limit, of_limit)? - size_element(start, of_start)?;
    let count = match delta.known() {
        Some(0) => invalid!("a range in steps of 0"),
        // `ceil_div` rounds up only for positive divisors.
        Some(n) if n < 0 => (0 - &distance).ceil_div(0 - &delta),
        Some(_) => distance.ceil_div(&delta),
        None => unsupported!("a range in steps of {delta}"),
    };
    Ok(count.known().map_or(count, |n| Dim::from(n.max(0))))
}

/// A function that makes an integer of a fraction.
type Rounding = fn(f64) -> f64;

/// Returns the only element of an array, which is an integer after the rounding.
fn size_element(array: &Array, rounding: Rounding) -> Result<Dim> {
    if let Elements::F32(_) | Elements::F64(_) = array.elements() {
        let number = rounding(array.to_f64()?.iter().copied().next().unwrap_or(0.0));
        if number.fract() != 0.0 {
            unsupported!("a range of free length with the fraction {number}");
        }
        return Ok(Dim::Known(number.as_()));
    }
    Ok(array.to_dims()?.iter().next().cloned().unwrap_or(Dim::ZERO))
}

/// Returns an operand of Range: its elements, or the sizes of which a Cast makes floats.
fn range_operand(call: &Call, index: usize) -> Result<Array> {
    call.array(index).cloned().or_else(|error| {
        let producer = call.value(index).and_then(|value| call.graph().node(value.producer?));
        let cast = producer.filter(|node| node.is("Cast"));
        let source = cast.and_then(|node| Some(call.graph().value((*node.inputs.first()?)?)));
        source.and_then(|value| Some(value.elements.as_deref()?.clone())).ok_or(error)
    })
}

fn infer_range(call: &Call) -> Result<Vec<Fact>> {
    let len = || range_len(&range_operand(call, 0)?, &range_operand(call, 1)?, &range_operand(call, 2)?);
    let declared = || (0..3).filter_map(|index| call.declared_instead_of(index)).reduce(|_, shape| shape);
    let len =
        len().or_else(|error| match computed_bounds(call).and_then(|(from, to)| from.distance(&to)) {
            Some(len) => Ok(len.known().map_or(len, |n| Dim::from(n.max(0)))),
            None => match declared() {
                Some([len]) => Ok(len.clone()),
                _ => Err(error),
            },
        })?;
    Ok(vec![Fact::new(call.dtype(0)?, vec![len])])
}

/// Returns the bounds of a range in steps of 1 between sums with the same computed element.
fn computed_bounds(call: &Call) -> Option<(ElementSum, ElementSum)> {
    let is_one = call.array(2).is_ok_and(|delta| delta.scalar_i64().is_ok_and(|delta| delta == 1));
    let bound = |index| call.node().input(index).map(|id| ElementSum::of(call.graph(), id, 0));
    Some((bound(0)?, bound(1)?)).filter(|(from, _)| is_one && from.computed.is_some())
}

/// The elements lie between start and limit.
fn range_range(call: &Call, inputs: &[Range]) -> Range {
    let of = |index| match call.value(index) {
        Some(value) if value.elements.is_some() => Range::POSITIONS,
        _ => inputs.get(index).copied().unwrap_or(Range::ANY),
    };
    of(0).union(of(1))
}

/// Emits `start + index * delta` for a delta, or a start other than a size, computed at run time.
fn expand_range(expand: &Expand) -> Result<bool> {
    if range_operand(expand, 0).is_ok() && expand.array(2).is_ok() {
        return Ok(false);
    }
    let [len] = expand.output_shape(0)? else { invalid!("a range of other than one axis") };
    let dtype = expand.dtype(0)?;
    let distance = computed_bounds(expand).and_then(|(from, to)| from.distance_value(&to));
    let indices = match (len.known(), distance) {
        (Some(len), _) if len <= MAX_ELEMENTS => {
            expand.make.cast_literal(&Array::i64(Array1::from_iter(0..len).into_dyn()), dtype)
        }
        (None, Some(distance)) => {
            let distance = expand.make.value(distance).scalar();
            let [zero, one] = [0.0, 1.0].map(|number| expand.make.number(number, dtype));
            expand.make.op("Range", [zero, distance, one], [])
        }
        _ => unsupported!("a range of {len} elements"),
    };
    let range = expand.operand(0) + indices * expand.operand(2);
    // Start and delta may have one axis of size 1 or none.
    expand.output(0, range.reshape(&[-1]));
    Ok(true)
}

/// Lowers a range with a constant step whose length is the size of an axis to a cumulative sum. Its start is
/// a constant or a size.
fn lower_range(lower: &Lower) -> Result<()> {
    let [len] = lower.output_shape(0)? else { invalid!("a range of other than one axis") };
    let (start, delta) = (range_operand(lower, 0)?, lower.array(2)?.scalar_f32()?);
    let counted = lower.all(1.0, [len.clone()]).compute(|ones| ones.map(CumulativeSum::default()));
    let scaled = if delta == 1.0 { counted } else { counted * delta };
    match start.scalar_f32() {
        Ok(start) => lower.give(0, scaled + (start - delta)),
        Err(_) => {
            let start = lower.scalar(&size_element(&start, |number| number)?);
            lower.give(0, scaled + start - delta)
        }
    }
}

fn lower_constant_of_shape(lower: &Lower) -> Result<()> {
    lower.give(0, lower.all(read_fill(lower)?.scalar_f32()?, interface_form(lower.output_shape(0)?)))
}

fn fold_constant_of_shape(call: &Call) -> Result<Vec<Array>> {
    let shape: std::result::Result<Vec<usize>, _> =
        call.array(0)?.int_list()?.into_iter().map(usize::try_from).collect();
    Ok(vec![read_fill(call)?.broadcast(&shape?)?])
}

fn fold_range(call: &Call) -> Result<Vec<Array>> {
    let (start, limit, delta) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let Some(len) = range_len(start, limit, delta)?.known() else {
        unsupported!("the length of the range is known only at run time");
    };
    if start.dtype().is_float() {
        let (start64, delta64) = (start.to_f64()?, delta.to_f64()?);
        let (first, step) =
            (start64.iter().next().copied().unwrap_or(0.0), delta64.iter().next().copied().unwrap_or(0.0));
        let values: Vec<f64> = (0..len)
            .map(|i| {
                let i: f64 = i.as_();
                first + i * step
            })
            .collect();
        let values = Array::new(DType::F64, Elements::F64(Array1::from_vec(values).into_dyn()));
        return Ok(vec![values.cast(start.dtype())?]);
    }
    let (starts, deltas) = (start.to_dims()?, delta.to_dims()?);
    let (Some(first), Some(step)) = (starts.iter().next(), deltas.iter().next()) else {
        invalid!("start and step of the range are computed at run time");
    };
    let values = (0..len).map(|i| first + step * i);
    Ok(vec![Array::new(start.dtype(), Elements::Dim(Array1::from_iter(values).into_dyn()))])
}
