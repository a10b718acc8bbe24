//! Concat and Split. Parts without elements are dropped.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Concat.html>, `onnx__Split.html`.

use super::size::known_dims;
use crate::op::{Move, Moved, range};
use crate::ops::prelude::*;
use crate::tensor::Span;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::moving("", "Concat", Access::Lanes { since: 4, default: None }, |call| {
        let parts = (0..call.input_count()).map(Moved::input).collect();
        Ok(vec![Moved::Join(parts, concat_axis(call, call.shape(0)?.len())?)])
    })
    .range(range::all)
    .transparent(|_, _| false)
    .tolerates_rounding(|_, _| true)
    .appends(appends_to_all)
    .lowers_to("Concat"),
    Row::moving("", "Split", Access::Any, split).lowers_to("Slice"),
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

/// Each part may be the one that grows, if another one is computed.
fn appends_to_all(graph: &Graph, node: &Node) -> Vec<(usize, usize)> {
    if node.inputs.iter().flatten().all(|part| graph.inputs.contains(part)) {
        return Vec::new();
    }
    let axis = |value: ValueId| crate::pass::pattern::axis(node, 1, graph.value(value).shape.as_ref()?.len());
    let parts = node.inputs.iter().enumerate();
    parts.filter_map(|(index, part)| Some((index, axis((*part)?)?))).collect()
}

// Split

/// Returns the sizes of the parts of an axis: an attribute before version 13 (in version 1
/// also an input), then an input. By default the parts are equal; from version 18 on the last one may be
/// smaller.
fn split_sizes(call: &Call, axis: usize) -> Result<Vec<Dim>> {
    let (since, whole) = (call.since(), call.shape(0)?.at(axis)?);
    let count = call.output_count();
    let by_attribute = if since < 13 { call.optional_ints("split")? } else { None };
    let by_input = if since == 1 || since >= 13 { split_input(call, axis)? } else { None };
    let number = if since >= 18 { call.optional_int("num_outputs")? } else { None };
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
    call.optional_dims(1).or_else(|error| {
        let declared = |index| call.declared_shape(index).and_then(|shape| shape.get(axis)).cloned();
        let sizes = (0..call.output_count()).map(declared).collect::<Option<_>>().ok_or(error)?;
        call.replace_by_sizes(1);
        Ok(Some(sizes))
    })
}

fn split(call: &Call) -> Result<Vec<Moved>> {
    let shape = call.shape(0)?;
    let axis = resolve_axis(call.int("axis")?, shape.len())?;
    let (mut start, sizes) = (Dim::ZERO, split_sizes(call, axis)?);
    call.require_equal(shape.at(axis)?, &sizes.iter().sum())?;
    let part = |size: Dim| {
        let span = Span::of(&start, &size);
        start += size;
        Moved::by([Move::Take { axis, span }])
    };
    Ok(sizes.into_iter().map(part).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::dims;

    #[test]
    fn equal_parts_may_have_a_smaller_last_one() {
        assert_eq!(equal_parts(&Dim::from(6), 3, false).unwrap(), dims(&[2, 2, 2]));
        assert_eq!(equal_parts(&Dim::from(7), 4, true).unwrap(), dims(&[2, 2, 2, 1]));
        assert!(equal_parts(&Dim::from(7), 4, false).is_err());
        let h = Dim::symbol("H");
        assert_eq!(equal_parts(&(&h * 2), 2, false).unwrap(), [h.clone(), h]);
    }
}
