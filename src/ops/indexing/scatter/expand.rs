//! Expands Scatter with indices computed at run time, or many unordered constant ones.

use std::collections::BTreeSet;
use std::iter;

use num_traits::{AsPrimitive, ToPrimitive};

use super::region::Region;
use super::{Reduction, read_reduction, replaced_rows, rounds};
use crate::graph::pairs;
use crate::lower::{Gathered, MAX_PARTS};
use crate::ncnn::Cost;
use crate::op::resolve_index;
use crate::ops::indexing::gather::{
    Rows, element_hits, element_rows, hits_along, repeated, row_indices, tuple_rows, uniform,
};
use crate::ops::prelude::*;
use crate::ops::shape::size::{data_sizes, resized};
use crate::pass::pattern::{self, producer};
use crate::tensor::segment_count;

/// The number of layers that compute an element for each update and each position.
const COMPARING: u64 = 6;

/// The updates of a node whose indices are constant.
struct ConstantTargets {
    /// The number of parts that make up data with these elements replaced.
    parts: usize,
    /// Gathers from data and updates take less time than comparing updates with positions.
    are_gathered: bool,
    /// No element has two updates.
    are_distinct: bool,
}

impl ConstantTargets {
    fn are_moved(&self) -> bool {
        self.parts <= MAX_PARTS || self.are_gathered
    }
}

/// Returns the known facts of constant indices; `None` if they are computed at run time.
fn constant_targets(
    expand: &Expand,
    rows: impl Fn(&[usize], &Array) -> Result<Rows>,
) -> Result<Option<ConstantTargets>> {
    if expand.constant(1).is_none() {
        return Ok(None);
    }
    let sizes = data_sizes(expand)?;
    let targets = rows(&sizes, expand.array(1)?)?;
    let count = targets.count_in(&sizes)?;
    let Rows { indices: targets, width } = targets;
    let parts = segment_count(&replaced_rows(count, &targets)?);
    let are_distinct = targets.iter().collect::<BTreeSet<_>>().len() == targets.len();
    let copies = match read_reduction(expand)? {
        Reduction::Replace => Ok(1),
        _ => rounds(&targets).map(|rounds| rounds.len()),
    };
    let [rows, updates, wide] = [count, targets.len(), width].map(Dim::from);
    let gathered = Gathered::rows(Dim::ONE, &rows + &updates, rows, wide);
    let compared = [count, targets.len(), width].into_iter().fold(1_usize, usize::saturating_mul);
    let compared = Cost::passes(COMPARING, u64::try_from(compared)?).nanoseconds();
    let is_cheaper = |copies| gathered.time_at_constants().saturating_mul(copies) < compared;
    let copies = copies.ok().and_then(|copies| u64::try_from(copies).ok());
    let are_gathered = gathered.is_exact() && copies.is_some_and(is_cheaper);
    Ok(Some(ConstantTargets { parts, are_gathered, are_distinct }))
}

/// Replaces a node whose indices are a box by slices and updates side by side, unless fewer parts of flat
/// data do.
fn expand_region(
    expand: &Expand,
    region: Option<Region>,
    constant: Option<&ConstantTargets>,
) -> Result<bool> {
    let Some(region) = region else { return Ok(false) };
    let parts = region.open_axes(expand.shape(0)?).saturating_mul(3);
    let is_flat = read_reduction(expand)? == Reduction::Replace
        && constant.is_some_and(|targets| targets.parts.saturating_add(1) < parts);
    Ok(!is_flat && region.give(expand)?)
}

/// Updates compared with all positions: `hits` is true if an update along `axis` addresses a position.
struct Matches<'x> {
    hits: Expr<'x>,
    updates: Expr<'x>,
    axis: i64,
    /// The numbers of the updates along the axis, from 1; `None` if at most one addresses a position.
    numbers: Option<Expr<'x>>,
}

/// Returns the data reduced with the updates, all in float32.
fn apply<'x>(
    expand: &'x Expand,
    data: Expr<'x>,
    matches: &Matches<'x>,
    reduction: Reduction,
) -> Result<Expr<'x>> {
    let Matches { hits, updates, axis, .. } = *matches;
    let reduced = |neutral: f32, reduce| hits.select(updates, neutral).reduce(reduce, &[axis], false);
    Ok(match reduction {
        Reduction::Add => data + reduced(0.0, "ReduceSum"),
        Reduction::Mul => data * reduced(1.0, "ReduceProd"),
        Reduction::Max => data.maximum(reduced(f32::NEG_INFINITY, "ReduceMax")),
        Reduction::Min => data.minimum(reduced(f32::INFINITY, "ReduceMin")),
        Reduction::Replace => replace(data, matches, uniform_update(expand)?),
    })
}

/// Returns the data with each position replaced by its last update; `uniform` is the update if all are
/// the same.
fn replace<'x>(data: Expr<'x>, matches: &Matches<'x>, uniform: Option<Expr<'x>>) -> Expr<'x> {
    let Matches { hits, updates, axis, numbers } = *matches;
    let (chosen, hit) = match numbers.filter(|_| uniform.is_none()) {
        None => (hits, hits.cast(DType::F32).reduce("ReduceMax", &[axis], false)),
        Some(numbers) => {
            let last = (hits.cast(DType::I64) * numbers).reduce("ReduceMax", &[axis], false);
            (last.unsqueeze(&[axis]).equal(numbers), last)
        }
    };
    let update =
        uniform.unwrap_or_else(|| chosen.select(updates, 0.0_f32).reduce("ReduceSum", &[axis], false));
    hit.cast(DType::Bool).select(update, data)
}

/// Returns the update as a float32 if all updates are the same: a constant with equal elements, or an Expand
/// of one element.
fn uniform_update<'x>(expand: &'x Expand) -> Result<Option<Expr<'x>>> {
    if expand.constant(2).is_some() {
        return Ok(uniform(expand, 2)?.map(|update| expand.make.number(update.as_(), DType::F32)));
    }
    let graph = expand.graph();
    let source = expand.node().input(2).and_then(|id| producer(graph, id, "Expand")?.input(0));
    let is_one = |id: &ValueId| {
        graph.value(*id).shape.as_ref().is_some_and(|shape| shape.iter().all(|size| size.is(1)))
    };
    let source = source.filter(is_one).map(|id| expand.make.value(id));
    Ok(source.map(|source| source.scalar().to_type(DType::F32)))
}

/// Returns whether the sizes of the data are known.
fn is_fixed(expand: &Expand) -> Result<bool> {
    Ok(expand.shape(0)?.iter().all(|size| size.known().is_some()))
}

/// Expands ScatterND over `[rows, updates, elements of a row]`.
pub(super) fn expand_scatter_nd(expand: &Expand) -> Result<bool> {
    let region = Region::of_tuples(expand)?;
    if !is_fixed(expand)? {
        if expand_region(expand, region, None)? || replace_rows(expand)? || scatter_rows(expand)? {
            return Ok(true);
        }
        expand.sizes(0)?;
        return Ok(false);
    }
    let constant = constant_targets(expand, |sizes, indices| tuple_rows(sizes, indices, 0))?;
    if expand_region(expand, region, constant.as_ref())? {
        return Ok(true);
    }
    if constant.as_ref().is_some_and(ConstantTargets::are_moved) {
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
    let targets = row_indices(expand, tuples, indexed, 0)?;
    let data = expand.operand(0).reshape(&[rows, wide]).to_type(DType::F32);
    let updates = expand.operand(2).reshape(&[count, wide]).to_type(DType::F32);
    if reduction == Reduction::Add {
        let sums = data + targets.one_hot(rows, 0, DType::F32).matmul(updates);
        expand.output(0, sums.reshape(&sizes).to_type(expand.dtype(0)?));
        return Ok(true);
    }
    let hits = targets.one_hot(rows, 0, DType::Bool).reshape(&[rows, count, 1]);
    let updates = updates.reshape(&[1, count, wide]);
    let are_distinct = count == 1 || constant.is_some_and(|targets| targets.are_distinct);
    let numbers = if are_distinct { None } else { Some(numbers_from_one(expand, count, &[count, 1])?) };
    let result = apply(expand, data, &Matches { hits, updates, axis: 1, numbers }, reduction)?;
    expand.output(0, result.reshape(&sizes).to_type(expand.dtype(0)?));
    Ok(true)
}

/// Expands updates that constant tuples of axes of known sizes address to a Gather from data and updates.
fn replace_rows(expand: &Expand) -> Result<bool> {
    if expand.constant(1).is_none() || read_reduction(expand)? != Reduction::Replace {
        return Ok(false);
    }
    let indices = expand.array(1)?;
    let indexed = indices.shape().last().and_then(|width| expand.shape(0).ok()?.get(..*width));
    let Some(sizes) = indexed.and_then(Dim::known_sizes::<usize>) else { return Ok(false) };
    let targets = tuple_rows(&sizes, indices, 0)?;
    let (count, targets) = (targets.count_in(&sizes)?, targets.indices);
    if targets.is_empty() {
        return Ok(false);
    }
    let rows =
        |index: usize, count: usize| -> Result<_> { Ok(expand.operand(index).reshape(&[count.int(), -1])) };
    let both = expand.make.concat(&[rows(0, count)?, rows(2, targets.len())?], 0);
    let replaced = both.gather(expand.make.ints(&replaced_rows(count, &targets)?), 0);
    expand.output(0, replaced.reshape_to(expand.operand(0).shape()));
    Ok(true)
}

/// Expands updates of rows along the first axis to ScatterElements along it, with the index of a row for each
/// of its elements.
fn scatter_rows(expand: &Expand) -> Result<bool> {
    if expand.shape(1)?.last().is_none_or(|width| !width.is(1)) {
        return Ok(false);
    }
    let data = expand.operand(0);
    let rows = expand
        .operand(2)
        .reshape_to(expand.make.concat(&[expand.make.ints(&[-1]), data.shape().slice(0, 1, i64::MAX)], 0));
    let column: Vec<i64> = std::iter::once(-1).chain((1..expand.shape(0)?.len()).map(|_| 1)).collect();
    let indices = expand.operand(1).reshape(&column).broadcast_to(rows.shape());
    let attributes = pairs(&expand.node().attributes).chain([("axis", 0.into())]);
    expand.output(0, expand.make.op("ScatterElements", [data, indices, rows], attributes));
    Ok(true)
}

/// Expands ScatterElements: an axis of the updates after the axis of the data.
pub(super) fn expand_scatter_elements(expand: &Expand) -> Result<bool> {
    let (shape, index_shape) = (expand.shape(0)?.to_vec(), expand.shape(1)?.to_vec());
    let axis = resolve_axis(expand.int("axis")?, shape.len())?;
    let region = Region::of_elements(expand, axis)?;
    let constant = if is_fixed(expand)? {
        constant_targets(expand, |sizes, indices| element_rows(sizes, indices, axis))?
    } else {
        None
    };
    if expand_region(expand, region, constant.as_ref())? {
        return Ok(true);
    }
    if constant.as_ref().is_some_and(ConstantTargets::are_moved) {
        return Ok(false);
    }
    let reduction = read_reduction(expand)?;
    if reduction == Reduction::Add && add_rows(expand, axis)? {
        return Ok(true);
    }
    let others = |list: &[Dim]| resized(list, axis, Dim::ONE);
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
    let along = axis.int();
    let hits = element_hits(expand, along, false, DType::Bool)?;
    let (data, updates) = (expand.operand_as(0, DType::F32), expand.operand_as(2, DType::F32));
    let updates = updates.unsqueeze(&[along]);
    let are_distinct =
        constant.is_some_and(|targets| targets.are_distinct) || are_top_k_indices(expand, axis)?;
    let numbers = if are_distinct { None } else { Some(element_numbers(expand, axis)?) };
    let result = apply(expand, data, &Matches { hits, updates, axis: along + 1, numbers }, reduction)?;
    expand.output(0, result.to_type(expand.dtype(0)?));
    Ok(true)
}

/// Expands sums of rows, whose indices are repeated along all other axes, to a matrix product with zeros and
/// ones.
fn add_rows(expand: &Expand, axis: usize) -> Result<bool> {
    let Some(indices) = expand.node().input(1) else { return Ok(false) };
    let (shape, index_shape) = (expand.shape(0)?, expand.shape(1)?);
    let (source, Some(source_shape)) = repeated(expand.graph(), indices, axis) else {
        return Ok(false);
    };
    let others = |list: &[Dim]| resized(list, axis, Dim::ONE);
    let is_row = others(&source_shape).iter().all(|size| size.is(1));
    let sizes = [shape.at(axis)?, index_shape.at(axis)?];
    let compared = sizes.into_iter().filter_map(Dim::known).fold(1_i64, i64::saturating_mul);
    if !is_row || others(shape) != others(index_shape) || compared > limits::COMPARED {
        return Ok(false);
    }
    let order: Vec<usize> = iter::once(axis).chain((0..shape.len()).filter(|other| *other != axis)).collect();
    let rows = (expand.make.value(source).reshape(&[-1]), 1);
    let hits = hits_along(expand, axis.int(), rows, 0, DType::F32)?;
    let data = expand.operand_as(0, DType::F32).transpose(&order);
    let updates = expand.operand_as(2, DType::F32).transpose(&order).reshape(&[0, -1]);
    let sums = data + hits.matmul(updates).reshape_to(data.shape());
    expand.output(0, sums.transpose(&pattern::inverse(&order)).to_type(expand.dtype(0)?));
    Ok(true)
}

/// Returns whether the indices along an axis are the indices of a TopK along it, or a single one.
fn are_top_k_indices(expand: &Expand, axis: usize) -> Result<bool> {
    let (graph, rank) = (expand.graph(), expand.shape(1)?.len());
    let found = expand.node().input(1).and_then(|id| Some((id, producer(graph, id, "TopK")?)));
    let is_along = |(id, node): (ValueId, &Node)| {
        node.outputs.get(1) == Some(&Some(id)) && pattern::axis(node, -1, rank) == Some(axis)
    };
    Ok(expand.shape(1)?.at(axis)?.is(1) || found.is_some_and(is_along))
}

/// Returns the numbers of `count` updates, from 1, in this shape.
fn numbers_from_one<'x>(expand: &'x Expand, count: i64, shape: &[i64]) -> Result<Expr<'x>> {
    limits::check_listed(usize::try_from(count)?)?;
    let numbers: Vec<i64> = (1..=count).collect();
    Ok(expand.make.ints(&numbers).reshape(shape))
}

/// Returns the numbers of the indices along an axis, from 1, as a column before the axes that follow it.
fn element_numbers<'x>(expand: &'x Expand, axis: usize) -> Result<Expr<'x>> {
    let shape = expand.shape(1)?;
    let inner = shape.len().saturating_sub(axis + 1);
    let column: Vec<i64> = iter::once(-1).chain((0..inner).map(|_| 1)).collect();
    if let Some(count) = shape.at(axis)?.known() {
        return numbers_from_one(expand, count, &column);
    }
    Ok((expand.operand(1).positions(axis) + 1_i64).reshape(&column))
}

/// Expands updates of one index along the axis, which is the same for all elements, to a Concat of the
/// updates with the data before and after them.
fn replace_one(expand: &Expand, axis: usize) -> Result<bool> {
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
    let along = axis.int();
    let data = expand.operand(0);
    let mut parts = Vec::new();
    if index > 0 {
        parts.push(data.slice(along, 0, index));
    }
    parts.push(expand.operand(2));
    if !size.is(index + 1) {
        parts.push(data.slice(along, index + 1, i64::MAX));
    }
    expand.output(0, expand.make.concat(&parts, along));
    Ok(true)
}
