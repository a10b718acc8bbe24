//! Concat and Split. Parts without elements are dropped.
//!
//! Empty parts are omitted. Spec: <https://onnx.ai/onnx/operators/onnx__Concat.html>, `onnx__Split.html`.

use super::size::{known_dims, resized};
use crate::ncnn::layer::{Concat, Slice};
use crate::op::identity::{is_as_output, same_shape};
use crate::op::range;
use crate::ops::prelude::*;
use crate::tensor::held_axes;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Concat", Access::Lanes { since: 4, default: None }, infer_concat)
        .fold(fold_concat)
        .lower(lower_concat)
        .range(range::all)
        .bears_rounding(|_, _| true)
        .identity(only_part)
        .appends(appends_to_all)
        .lowers_to("Concat"),
    Row::new("Split", Access::Any, infer_split)
        .batched(|call, index| {
            let axis = || resolve_axis(call.int("axis").ok()?, call.shape(0).ok()?.len()).ok();
            index == 0 && axis().is_some_and(|axis| axis != 0)
        })
        .fold(fold_split)
        .identity(same_shape)
        .lower(lower_split)
        .transparent(|_, _| true)
        .lowers_to("Slice"),
];

// Concat

/// Returns the axis; version 1 has a default of 1.
fn concat_axis(call: &Call, rank: usize) -> Result<usize> {
    let axis = match call.since() {
        1 => call.int_or("axis", 1)?,
        _ => call.int("axis")?,
    };
    resolve_axis(axis, rank)
}

/// Returns the only part that is not empty.
fn only_part(graph: &Graph, node: &Node) -> Option<ValueId> {
    let is_empty = |part: &ValueId| graph.value(*part).shape.iter().flatten().any(|size| size.is(0));
    let mut parts = node.inputs.iter().copied().flatten().filter(|part| !is_empty(part));
    let part = parts.next()?;
    Some(part).filter(|part| parts.next().is_none() && is_as_output(graph, node, *part))
}

/// Each part may be the one that grows, if another one is computed.
fn appends_to_all(graph: &Graph, node: &Node) -> Vec<(usize, usize)> {
    if node.inputs.iter().flatten().all(|part| graph.inputs.contains(part)) {
        return Vec::new();
    }
    let axis = |value: ValueId| crate::pass::pattern::axis(node, 1, graph.value(value).shape.as_ref()?.len());
    let parts = node.inputs.iter().enumerate();
    parts.filter_map(|(index, part)| Some((index, axis((*part)?)?))).collect()
}

fn infer_concat(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    let axis = concat_axis(call, shape.len())?;
    for index in 1..call.input_count() {
        let other = call.shape(index)?;
        if other.len() != shape.len() {
            invalid!("cannot concatenate {} and {}", display_shape(&shape), display_shape(other));
        }
        for (i, (size, next)) in shape.iter_mut().zip(other).enumerate() {
            if i == axis {
                *size += next;
                continue;
            }
            let misfit = || Error::invalid(format!("the parts differ along axis {i}: {size} and {next}"));
            call.require_equal(size, next).map_err(|_| misfit())?;
            // A known size stands for both.
            if next.known().is_some() {
                size.clone_from(next);
            }
        }
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_concat(call: &Call) -> Result<Vec<Array>> {
    let arrays: Vec<Array> = call.arrays()?.into_iter().cloned().collect();
    let rank = call.array(0)?.shape().len();
    Ok(vec![Array::concat(&arrays, concat_axis(call, rank)?)?])
}

fn lower_concat(lower: &Lower) -> Result<()> {
    let shape = lower.output_shape(0)?.to_vec();
    let axis = concat_axis(lower, shape.len())?;
    let mut parts = Vec::new();
    for index in 0..lower.input_count() {
        if !lower.shape(index)?.at(axis)?.is(0) {
            parts.push(index);
        }
    }
    let leading = largest_part(lower, &parts, axis)?;
    let (blob, place) = lower.isolated(leading, &[axis])?;
    let place = *place.at(0)?;
    let pattern = lower.form(blob);
    let merged = held_axes(&pattern, lower.shape(leading)?);
    // All parts take the form of one, with their own sizes: equal sizes may be different expressions.
    let like_leading = |shape: &[Dim]| -> Result<Vec<Dim>> {
        // An axis of size 1 in the leading part may be merged with a neighbour there.
        let sizes = |axes: &Vec<usize>| {
            Dim::product(axes.iter().filter(|other| **other != axis).filter_map(|other| shape.get(*other)))
        };
        let form: Vec<Dim> = match &merged {
            Some(groups) => groups.iter().map(sizes).collect(),
            None => pattern.clone(),
        };
        Ok(resized(&form, place, shape.at(axis)?.clone()))
    };
    let mut blobs = Vec::with_capacity(parts.len());
    for index in parts {
        let form = like_leading(lower.shape(index)?)?;
        blobs.push(lower.blob_as(index, &form)?);
    }
    let form = like_leading(&shape)?;
    let top = match blobs.as_slice() {
        [only] => *only,
        [first, ..] if lower.bears_empty() && lower.form(*first).at(place)?.has_length() => {
            append(lower, &blobs, place, &form)?
        }
        _ => lower.emit(Concat { axis: i32::try_from(place)? }, &blobs, &form)?,
    };
    lower.set(0, top)
}

/// Returns the first of the parts that are longest along `axis`, since the others may have to be copied to another
/// form. A free size is not compared.
fn largest_part(lower: &Lower, parts: &[usize], axis: usize) -> Result<usize> {
    let mut largest = *parts.first().ok_or_else(|| Error::unsupported("all parts are empty"))?;
    let length = |part| -> Result<_> { Ok(lower.shape(part)?.at(axis)?.known()) };
    for part in parts.iter().copied() {
        if length(largest)?.zip(length(part)?).is_some_and(|(most, length)| length > most) {
            largest = part;
        }
    }
    Ok(largest)
}

/// Concatenates blobs of which the first may be empty. Concat takes the element type and the packing of all blobs
/// from the first, and an empty one has none; so an element precedes it, and is removed again.
fn append(lower: &Lower, blobs: &[BlobId], place: usize, form: &[Dim]) -> Result<BlobId> {
    let concat = Concat { axis: i32::try_from(place)? };
    let single = resized(form, place, Dim::ONE);
    let Some(sizes) = Dim::known_sizes(&single) else { return lower.emit(concat, blobs, form) };
    let one = lower.memory_data(&Tensor::all(0.0, sizes)?, &single)?;
    let all: Vec<BlobId> = std::iter::once(one).chain(blobs.iter().copied()).collect();
    let size = form.at(place)?;
    let longer = lower.emit(concat, &all, &resized(form, place, size + 1))?;
    lower.crop(longer, place, 1, None, size)
}

// Split

/// Returns the sizes of the parts of an axis: an attribute before version 13 (in version 1
/// also an input), then an input. By default the parts are equal; from version 18 on the last one may be
/// smaller.
fn split_sizes(call: &Call, axis: usize) -> Result<Vec<Dim>> {
    let (since, whole) = (call.since(), call.shape(0)?.at(axis)?);
    let count = call.output_count();
    let by_attribute = if since < 13 { call.given_ints("split")? } else { None };
    let by_input = if since == 1 || since >= 13 { split_input(call, axis)? } else { None };
    let number = if since >= 18 { call.given_int("num_outputs")? } else { None };
    let sizes = match (by_attribute, by_input) {
        (Some(list), _) => known_dims(list),
        (None, Some(list)) => list,
        (None, None) => {
            if let Some(number) = number.filter(|number| usize::try_from(*number) != Ok(count)) {
                invalid!("num_outputs is {number} for {count} outputs");
            }
            equal_parts(whole, count, since >= 18)?
        }
    };
    if sizes.len() != count {
        invalid!("split has {} sizes for {count} outputs", sizes.len());
    }
    let mut sum = Dim::ZERO;
    for size in &sizes {
        if size.known().is_some_and(|n| n < 0) {
            invalid!("a part has the negative size {size}");
        }
        sum += size;
    }
    if sum.known().is_some() && whole.known().is_some() && sum != *whole {
        invalid!("the parts have {sum} elements in total, the axis has {whole}");
    }
    Ok(sizes)
}

fn equal_parts(whole: &Dim, count: usize, last_smaller: bool) -> Result<Vec<Dim>> {
    let parts = Dim::from(count);
    if parts.is(0) {
        invalid!("the node has no outputs");
    }
    if !last_smaller && whole.known().is_some() && !whole.modulo(&parts).is(0) {
        invalid!("an axis of size {whole} does not split into {count} equal parts");
    }
    let part = whole.ceil_div(&parts);
    let mut sizes = vec![part.clone(); count];
    if let Some(last) = sizes.last_mut() {
        *last = whole - part * Dim::from(count - 1);
    }
    Ok(sizes)
}

/// Returns the sizes of the parts; the declared ones of the outputs if the input is computed at run time.
fn split_input(call: &Call, axis: usize) -> Result<Option<Vec<Dim>>> {
    call.given_dims(1).or_else(|error| {
        let declared = |index| call.declared_shape(index).and_then(|shape| shape.get(axis)).cloned();
        let sizes = (0..call.output_count()).map(declared).collect::<Option<_>>().ok_or(error)?;
        call.replace_by_sizes(1);
        Ok(Some(sizes))
    })
}

fn infer_split(call: &Call) -> Result<Vec<Fact>> {
    let shape = call.shape(0)?;
    let axis = resolve_axis(call.int("axis")?, shape.len())?;
    let sizes = split_sizes(call, axis)?;
    let total: Dim = sizes.iter().sum();
    call.require_equal(shape.at(axis)?, &total)?;
    let dtype = call.dtype(0)?;
    Ok(sizes.into_iter().map(|size| Fact::new(dtype, resized(shape, axis, size))).collect())
}

fn fold_split(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let axis = resolve_axis(call.int("axis")?, data.shape().len())?;
    let mut start = 0;
    let mut parts = Vec::new();
    for size in split_sizes(call, axis)? {
        let size = usize::try_from(size.known().unwrap_or(0))?;
        let places: Vec<usize> = (start..start + size).collect();
        parts.push(data.gather(axis, &places)?);
        start += size;
    }
    Ok(parts)
}

fn lower_split(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let axis = resolve_axis(lower.int("axis")?, shape.len())?;
    let sizes = split_sizes(lower, axis)?;
    let (blob, place) = lower.isolated(0, &[axis])?;
    let place = *place.at(0)?;
    // An empty part is not a blob: no layer can read it, and Slice does not make it.
    let parts: Vec<(usize, Dim)> = sizes.into_iter().enumerate().filter(|(_, size)| !size.is(0)).collect();
    if let [(index, _)] = parts.as_slice() {
        return lower.set(*index, blob);
    }
    let mut slices = Vec::with_capacity(parts.len());
    let form = lower.form(blob);
    let forms: Vec<Vec<Dim>> = parts.iter().map(|(_, size)| resized(&form, place, size.clone())).collect();
    for (at, (_, size)) in parts.iter().enumerate() {
        slices.push(match size.known() {
            Some(n) => i32::try_from(n)?,
            None if parts.iter().skip(at).all(|(_, other)| other == size) => EQUAL_PART,
            None => return crop_parts(lower, blob, place, &parts),
        });
    }
    let layer = Slice { slices, axis: i32::try_from(place)?, ..Slice::default() };
    let tops = lower.emit_n(layer, &[blob], &forms)?;
    for ((index, _), top) in parts.iter().zip(tops) {
        lower.set(*index, top)?;
    }
    Ok(())
}

/// The size by which ncnn's Slice takes an equal part of the rest (`slice.cpp`).
const EQUAL_PART: i32 = -233;

/// Emits a Crop for each part of free size.
fn crop_parts(lower: &Lower, blob: BlobId, place: usize, parts: &[(usize, Dim)]) -> Result<()> {
    let mut start = Dim::ZERO;
    for (index, size) in parts {
        let part = lower.crop_by_expression(blob, place, &start, size)?;
        lower.set(*index, part)?;
        start += size;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn equal_parts_may_have_a_smaller_last_one() {
        assert_eq!(equal_parts(&Dim::Known(6), 3, false).unwrap(), dims(&[2, 2, 2]));
        assert_eq!(equal_parts(&Dim::Known(7), 4, true).unwrap(), dims(&[2, 2, 2, 1]));
        assert!(equal_parts(&Dim::Known(7), 4, false).is_err());
        let h = Dim::symbol("H");
        assert_eq!(equal_parts(&(&h * 2), 2, false).unwrap(), [h.clone(), h]);
    }
}
