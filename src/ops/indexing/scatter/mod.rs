//! Scatter, ScatterElements, ScatterND: data with some elements replaced or updated.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | indices that are a box | Crop and Concat of data and updates; BinaryOp for reductions |
//! | other constant indices | Concat of data and updates, and a gather; BinaryOp for reductions |
//! | indices computed at run time | a product with a matrix of zeros and ones from comparing them with all positions |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__ScatterElements.html>, `onnx__ScatterND.html`.

mod expand;
mod lower;
mod region;

use std::collections::BTreeMap;

use super::gather::{element_rows, require_within, tuple_rows};
use crate::ops::elementwise::activation::{AT_LEAST, AT_MOST};
use crate::ops::elementwise::arithmetic::{ADD, MUL};
use crate::ops::elementwise::broadcast::{Kernel, fold_arithmetic};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    scatter_elements("Scatter").lowers_to("like ScatterElements").limits("like ScatterElements"),
    scatter_elements("ScatterElements").lowers_to(MOVED_OR_MULTIPLIED).limits(MANY_UPDATES),
    Row::new("ScatterND", Access::Any, infer_scatter)
        .fold(fold_scatter_nd)
        .expand(expand::expand_scatter_nd)
        .tolerates_rounding(moves)
        .lower(lower::lower_scatter_nd)
        .lowers_to(MOVED_OR_MULTIPLIED)
        .limits(MANY_UPDATES),
];

const fn scatter_elements(name: &'static str) -> Row {
    Row::new(name, Access::Any, infer_scatter)
        .fold(fold_scatter_elements)
        .expand(expand::expand_scatter_elements)
        .tolerates_rounding(moves)
        .lower(lower::lower_scatter_elements)
}

const MOVED_OR_MULTIPLIED: &str = "Concat, Crop, GridSample of data and updates for constant indices and ranges; \
    else a product with a matrix of zeros and ones";
const MANY_UPDATES: &str = "many updates of one element; large data with indices computed at run time";

/// The maximum number of updates of one element that are evaluated: each copies all data.
const MAX_ROUNDS: usize = 1 << 10;

/// The maximum number of elements that all rounds copy.
const MAX_VISITED: usize = 1 << 28;

/// The combination of an element with an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// Returns whether the result consists of elements of the inputs.
fn moves(call: &Call, _: usize) -> bool {
    let moved = [Reduction::Replace, Reduction::Max, Reduction::Min];
    read_reduction(call).is_ok_and(|reduction| moved.contains(&reduction))
}

/// Reads the reduction, which exists since version 16. Maxima and minima are in the specification since
/// version 18; onnxruntime computes them in version 16, too.
fn read_reduction(call: &Call) -> Result<Reduction> {
    if call.op_type() == "Scatter" || call.since() < 16 {
        return Ok(Reduction::Replace);
    }
    let words = [
        ("none", Reduction::Replace),
        ("add", Reduction::Add),
        ("mul", Reduction::Mul),
        ("max", Reduction::Max),
        ("min", Reduction::Min),
    ];
    call.word("reduction", &words)
}

fn infer_scatter(call: &Call) -> Result<Vec<Fact>> {
    let data = call.shape(0)?;
    let result = Fact::new(call.dtype(0)?, data.to_vec());
    // The indices may have a shape that is known only at run time.
    let Ok(indices) = call.shape(1) else { return Ok(vec![result]) };
    if call.node().is("ScatterND") {
        if let Some((width, tuples)) = indices.split_last()
            && let Some(width) = width.known().and_then(|width| usize::try_from(width).ok())
        {
            let updates: Vec<Dim> = tuples.iter().chain(data.iter().skip(width)).cloned().collect();
            call.check_shape(2, &updates)?;
            require_within(call, 1, data.get(..width).unwrap_or_default())?;
        }
    } else {
        call.check_shape(2, indices)?;
        if indices.len() != data.len() {
            invalid!("indices of {} axes into data of {}", indices.len(), data.len());
        }
        let axis = resolve_axis(call.int("axis")?, data.len())?;
        require_within(call, 1, std::slice::from_ref(data.at(axis)?))?;
    }
    Ok(vec![result])
}

fn fold_scatter_elements(call: &Call) -> Result<Vec<Array>> {
    let (data, indices, updates) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let axis = resolve_axis(call.int("axis")?, data.shape().len())?;
    if indices.shape() != updates.shape() {
        invalid!("the indices have shape {:?}, the updates {:?}", indices.shape(), updates.shape());
    }
    let offsets = element_rows(data.shape(), indices, axis)?.indices;
    Ok(vec![scatter(read_reduction(call)?, data, &offsets, updates)?])
}

fn fold_scatter_nd(call: &Call) -> Result<Vec<Array>> {
    let (data, indices, updates) = (call.array(0)?, call.array(1)?, call.array(2)?);
    let offsets = tuple_rows(data.shape(), indices, 0)?.offsets();
    if offsets.len() != updates.len() {
        invalid!("the updates have {} elements, the indices address {}", updates.len(), offsets.len());
    }
    Ok(vec![scatter(read_reduction(call)?, data, &offsets, updates)?])
}

fn scatter(reduction: Reduction, data: &Array, offsets: &[usize], updates: &Array) -> Result<Array> {
    let Some(kernel) = kernel(reduction) else { return data.replace(offsets, updates) };
    let mut result = data.reshape(&[data.len()])?;
    let updates = updates.reshape(&[updates.len()])?;
    let rounds = rounds(offsets)?;
    if rounds.len().saturating_mul(data.len()) > MAX_VISITED {
        unsupported!("{} updates of one of {} elements", rounds.len(), data.len());
    }
    for members in rounds {
        let targets: Vec<usize> = members.iter().filter_map(|update| offsets.get(*update)).copied().collect();
        let new = fold_arithmetic(&result.gather(0, &targets)?, &updates.gather(0, &members)?, &kernel)?;
        result = result.replace(&targets, &new)?;
    }
    result.reshape(data.shape())
}

/// Groups the updates by round: the first of each target, then the second of each target, and so on, because
/// each update applies to the result of the one before.
fn rounds(targets: &[usize]) -> Result<Vec<Vec<usize>>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut counts: BTreeMap<usize, usize> = BTreeMap::new();
    for (update, target) in targets.iter().enumerate() {
        let round = counts.entry(*target).or_insert(0);
        match rounds.get_mut(*round) {
            Some(members) => members.push(update),
            None => rounds.push(vec![update]),
        }
        *round += 1;
    }
    if rounds.len() > MAX_ROUNDS {
        unsupported!("{} updates of one element (at most {MAX_ROUNDS})", rounds.len());
    }
    Ok(rounds)
}

/// Returns the source of each of `count` rows: the row itself, or `count + i` for the last update `i` that
/// replaces it.
fn replaced_rows(count: usize, targets: &[usize]) -> Result<Vec<i64>> {
    let mut sources: Vec<i64> = (0..count.int()).collect();
    for (update, target) in targets.iter().enumerate() {
        sources.put(*target, (count + update).int());
    }
    Ok(sources)
}

/// Returns the kernel that combines an element with an update; `None` for a replacement.
fn kernel(reduction: Reduction) -> Option<Kernel<f64, i64, Dim>> {
    Some(match reduction {
        Reduction::Replace => return None,
        Reduction::Add => ADD,
        Reduction::Mul => MUL,
        Reduction::Max => AT_LEAST,
        Reduction::Min => AT_MOST,
    })
}
