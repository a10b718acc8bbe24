//! Expands Scatter with indices computed at run time, or many unordered constant ones.

use std::collections::BTreeSet;
use std::iter;

use num_traits::{AsPrimitive, ToPrimitive};

use super::{Reduction, read_reduction, replaced_rows};
use crate::common::limits;
use crate::error::{At, Result, invalid, unsupported};
use crate::graph::{Attribute, Node, ValueId};
use crate::lower::few_parts;
use crate::op::resolve_axis;
use crate::ops::indexing::gather::{
    element_hits, element_places, resolve_index, row_indices, rows_at, tuple_places,
};
use crate::ops::indexing::one_hot::one_hot;
use crate::ops::shape::{data_sizes, resized};
use crate::pass::expand::{Expand, Operand};
use crate::pass::pattern::{self, input, producer};
use crate::tensor::{Array, DType, Dim, display_shape};

/// The maximum number of elements that are compared with the first.
const MAX_UNIFORM: usize = 1 << 16;

/// The updates of a node whose indices are constant.
struct ConstantTargets {
    /// Few parts make up data with these elements replaced.
    are_few: bool,
    /// No element has two updates.
    are_distinct: bool,
}

/// Returns what is known of constant indices; `None` if they are computed at run time.
fn constant_targets(
    expand: &Expand,
    places: impl Fn(&[usize], &Array) -> Result<(Vec<usize>, usize)>,
) -> Result<Option<ConstantTargets>> {
    if expand.constant(1).is_none() {
        return Ok(None);
    }
    let sizes = data_sizes(expand)?;
    let (offsets, width) = places(&sizes, &expand.array(1)?)?;
    let count = sizes.iter().product::<usize>() / width.max(1);
    limits::check_listed(count)?;
    let are_few = few_parts(&replaced_rows(count, &rows_at(&offsets, width))?);
    let are_distinct = offsets.iter().collect::<BTreeSet<_>>().len() == offsets.len();
    Ok(Some(ConstantTargets { are_few, are_distinct }))
}

/// Updates compared with all positions: `hits` is true if an update along `axis` addresses a position.
struct Matches {
    hits: Operand,
    updates: Operand,
    axis: i64,
    /// The numbers of the updates along the axis, from 1; `None` if at most one addresses a position.
    numbers: Option<Operand>,
}

/// Emits the data reduced with the updates, in float32.
fn apply(expand: &mut Expand, data: Operand, matches: &Matches, reduction: Reduction) -> Result<Operand> {
    let (neutral, reduce, combine) = match reduction {
        Reduction::Replace => return replace(expand, data, matches),
        Reduction::Add => (0.0, "ReduceSum", "Add"),
        Reduction::Mul => (1.0, "ReduceProd", "Mul"),
        Reduction::Max => (f32::NEG_INFINITY, "ReduceMax", "Max"),
        Reduction::Min => (f32::INFINITY, "ReduceMin", "Min"),
    };
    let neutral = expand.literal(&scalar(neutral))?;
    let spread = expand.op("Where", &[matches.hits, matches.updates, neutral], &[])?;
    let reduced = reduce_updates(expand, reduce, spread, matches)?;
    expand.op(combine, &[data, reduced], &[])
}

fn reduce_updates(
    expand: &mut Expand,
    reduce: &'static str,
    of: Operand,
    matches: &Matches,
) -> Result<Operand> {
    let axes = expand.ints(&[matches.axis])?;
    expand.op(reduce, &[of, axes], &[("keepdims", Attribute::Int(0))])
}

fn scalar(element: f32) -> Array {
    Array::f32(ndarray::ArrayD::from_elem(Vec::new(), element))
}

/// Emits the data with the last update of each position in its place.
fn replace(expand: &mut Expand, data: Operand, matches: &Matches) -> Result<Operand> {
    let uniform = uniform_update(expand)?;
    let (hits, hit) = match matches.numbers.filter(|_| uniform.is_none()) {
        None => {
            let hits = expand.cast(matches.hits, DType::F32)?;
            (matches.hits, reduce_updates(expand, "ReduceMax", hits, matches)?)
        }
        Some(numbers) => {
            let hits = expand.cast(matches.hits, DType::I64)?;
            let numbered = expand.op("Mul", &[hits, numbers], &[])?;
            let last = reduce_updates(expand, "ReduceMax", numbered, matches)?;
            let axes = expand.ints(&[matches.axis])?;
            let each = expand.op("Unsqueeze", &[last, axes], &[])?;
            (expand.op("Equal", &[each, numbers], &[])?, last)
        }
    };
    let hit = expand.cast(hit, DType::Bool)?;
    let update = match uniform {
        Some(update) => update,
        None => {
            let zero = expand.literal(&scalar(0.0))?;
            let spread = expand.op("Where", &[hits, matches.updates, zero], &[])?;
            reduce_updates(expand, "ReduceSum", spread, matches)?
        }
    };
    expand.op("Where", &[hit, update, data], &[])
}

/// Emits the update as a float32 if all updates are the same: a constant with equal elements, or an Expand of one
/// element.
fn uniform_update(expand: &mut Expand) -> Result<Option<Operand>> {
    if let Some(constant) = expand.constant(2) {
        if constant.len() > MAX_UNIFORM {
            return Ok(None);
        }
        let elements = expand.array(2)?.cast(DType::F32)?.to_f64()?;
        let Some(first) = elements.first().copied() else { return Ok(None) };
        if elements.iter().any(|element| element.to_bits() != first.to_bits()) {
            return Ok(None);
        }
        return expand.literal(&scalar(first.as_())).map(Some);
    }
    let graph = expand.graph();
    let source = input(expand.node(), 2).and_then(|id| input(producer(graph, id, "Expand")?, 0));
    let is_one = |id: &ValueId| graph.value(*id).shape.iter().flatten().all(|size| size.is(1));
    let Some(source) = source.filter(|id| graph.value(*id).shape.is_some() && is_one(id)) else {
        return Ok(None);
    };
    let one = expand.reshape(Operand::Value(source), &[])?;
    if expand.dtype(2)? == DType::F32 { Ok(Some(one)) } else { expand.cast(one, DType::F32).map(Some) }
}

/// Returns inputs 0 and 2 as float32 in these shapes.
fn operands(expand: &mut Expand, data: &[i64], updates: &[i64]) -> Result<(Operand, Operand)> {
    let dtype = expand.dtype(0)?;
    let mut reshaped = |index, shape| {
        let operand = expand.operand(index)?;
        let operand = expand.reshape(operand, shape)?;
        if dtype == DType::F32 { Ok(operand) } else { expand.cast(operand, DType::F32) }
    };
    Ok((reshaped(0, data)?, reshaped(2, updates)?))
}

fn finish(expand: &mut Expand, result: Operand) -> Result<bool> {
    let (dtype, sizes) = (expand.dtype(0)?, expand.sizes(0)?);
    let mut result = expand.reshape(result, &sizes)?;
    if dtype != DType::F32 {
        result = expand.cast(result, dtype)?;
    }
    expand.output(0, result)?;
    Ok(true)
}

/// Expands ScatterND over `[rows, updates, elements of a row]`.
pub(super) fn expand_scatter_nd(expand: &mut Expand) -> Result<bool> {
    let constant = constant_targets(expand, |sizes, indices| tuple_places(sizes, indices, 0))?;
    if constant.as_ref().is_some_and(|targets| targets.are_few) {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let (sizes, index_sizes) = (expand.sizes(0)?, expand.sizes(1)?);
    let Some((width, tuples)) = index_sizes.split_last() else { invalid!("the indices have no axes") };
    let Some((indexed, slice)) = sizes.split_at_checked(usize::try_from(*width)?) else {
        invalid!("tuples of {width} indices do not fit data of shape {sizes:?}");
    };
    let (rows, count, wide): (i64, i64, i64) =
        (indexed.iter().product(), tuples.iter().product(), slice.iter().product());
    if rows.saturating_mul(count).saturating_mul(wide) > limits::COMPARED {
        unsupported!("{count} updates, each compared with {rows} rows of {wide} elements");
    }
    let indices = expand.operand(1)?;
    let targets = row_indices(expand, indices, tuples, indexed, 0)?;
    let hits = one_hot(expand, targets, rows, 0, DType::Bool)?;
    let hits = expand.reshape(hits, &[rows, count, 1])?;
    let (data, updates) = operands(expand, &[rows, wide], &[1, count, wide])?;
    let are_distinct = count == 1 || constant.is_some_and(|targets| targets.are_distinct);
    let numbers = if are_distinct { None } else { Some(numbers_from_one(expand, count, &[count, 1])?) };
    let result = apply(expand, data, &Matches { hits, updates, axis: 1, numbers }, reduction)?;
    finish(expand, result)
}

/// Expands ScatterElements: an axis of the updates after that of the data.
pub(super) fn expand_scatter_elements(expand: &mut Expand) -> Result<bool> {
    let (shape, index_shape) = (expand.shape(0)?.to_vec(), expand.shape(1)?.to_vec());
    let axis = resolve_axis(expand.int_or("axis", 0)?, shape.len())?;
    let constant = constant_targets(expand, |sizes, indices| Ok((element_places(sizes, indices, axis)?, 1)))?;
    if constant.as_ref().is_some_and(|targets| targets.are_few) {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    let others = |list: &[Dim]| resized(list, axis, Dim::Known(1));
    if others(&shape) != others(&index_shape) {
        unsupported!(
            "indices of shape {} for data of shape {} are computed at run time",
            display_shape(&index_shape),
            display_shape(&shape)
        );
    }
    if reduction == Reduction::Replace && replace_one(expand, axis)? {
        return Ok(true);
    }
    let sizes = shape.iter().chain(index_shape.get(axis));
    let compared = sizes.filter_map(Dim::known).fold(1_i64, i64::saturating_mul);
    if compared > limits::COMPARED {
        let (count, depth) = (index_shape.at(axis)?, shape.at(axis)?);
        unsupported!(
            "{count} updates, each compared with {depth} positions, for data of shape {}",
            display_shape(&shape)
        );
    }
    let place = i64::try_from(axis)?;
    let hits = element_hits(expand, place, false, DType::Bool)?;
    let dtype = expand.dtype(0)?;
    let (data, updates) = (expand.operand_as(0, DType::F32)?, expand.operand_as(2, DType::F32)?);
    let before = expand.ints(&[place])?;
    let updates = expand.op("Unsqueeze", &[updates, before], &[])?;
    let are_distinct = constant.is_some_and(|targets| targets.are_distinct) || are_places(expand, axis)?;
    let numbers = if are_distinct { None } else { Some(element_numbers(expand, axis)?) };
    let mut result = apply(expand, data, &Matches { hits, updates, axis: place + 1, numbers }, reduction)?;
    if dtype != DType::F32 {
        result = expand.cast(result, dtype)?;
    }
    expand.output(0, result)?;
    Ok(true)
}

/// Returns whether the indices along an axis are the places that TopK found along it, or a single one.
fn are_places(expand: &Expand, axis: usize) -> Result<bool> {
    let (graph, rank) = (expand.graph(), expand.shape(1)?.len());
    let found = input(expand.node(), 1).and_then(|id| Some((id, producer(graph, id, "TopK")?)));
    let is_along = |(id, node): (ValueId, &Node)| {
        node.outputs.get(1) == Some(&Some(id)) && pattern::axis(node, -1, rank) == Some(axis)
    };
    Ok(expand.shape(1)?.at(axis)?.is(1) || found.is_some_and(is_along))
}

/// Emits the numbers of `count` updates, from 1, in this shape.
fn numbers_from_one(expand: &mut Expand, count: i64, shape: &[i64]) -> Result<Operand> {
    limits::check_listed(usize::try_from(count)?)?;
    let numbers: Vec<i64> = (1..=count).collect();
    let numbers = expand.ints(&numbers)?;
    expand.reshape(numbers, shape)
}

/// Emits the numbers of the indices along an axis, from 1, as a column before the axes that follow it.
fn element_numbers(expand: &mut Expand, axis: usize) -> Result<Operand> {
    let shape = expand.shape(1)?;
    let inner = shape.len().saturating_sub(axis + 1);
    let column: Vec<i64> = iter::once(-1).chain((0..inner).map(|_| 1)).collect();
    if let Some(count) = shape.at(axis)?.known() {
        return numbers_from_one(expand, count, &column);
    }
    let indices = expand.operand(1)?;
    let (places, one) = (expand.positions(indices, i64::try_from(axis)?)?, expand.scalar(1)?);
    let numbers = expand.op("Add", &[places, one], &[])?;
    expand.reshape(numbers, &column)
}

/// Expands updates of one index along the axis, which is the same for all elements, to a Concat of the updates with
/// the data before and after them.
fn replace_one(expand: &mut Expand, axis: usize) -> Result<bool> {
    let range = expand.range(1);
    let only = Some(range.least).filter(|least| range.most <= *least && least.fract() == 0.0);
    let count = expand.shape(1)?.at(axis)?;
    let Some(index) = only.and_then(|index| index.to_i64()).filter(|_| count.is(1)) else { return Ok(false) };
    let size = expand.shape(0)?.at(axis)?.clone();
    let index = match size.known() {
        Some(size) => resolve_index(index, size)?,
        None if index < 0 => return Ok(false),
        None => index,
    };
    let place = i64::try_from(axis)?;
    let (data, updates) = (expand.operand(0)?, expand.operand(2)?);
    let (front, from, end, axes) =
        (expand.ints(&[0])?, expand.ints(&[index])?, expand.ints(&[i64::MAX])?, expand.ints(&[place])?);
    let mut parts = Vec::new();
    if index > 0 {
        parts.push(expand.op("Slice", &[data, front, from, axes], &[])?);
    }
    parts.push(updates);
    if !size.is(index + 1) {
        let after = expand.ints(&[index + 1])?;
        parts.push(expand.op("Slice", &[data, after, end, axes], &[])?);
    }
    let joined = expand.op("Concat", &parts, &[("axis", Attribute::Int(place))])?;
    expand.output(0, joined)?;
    Ok(true)
}
