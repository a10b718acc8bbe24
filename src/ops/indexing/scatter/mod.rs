//! Scatter, ScatterElements, ScatterND: data with replaced elements.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | constant indices | Concat and Crop of data and updates; BinaryOp for reductions |
//! | indices computed at run time | a product with a matrix of zeros and ones, their comparison with all positions |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__ScatterElements.html>, `onnx__ScatterND.html`.

mod expand;
mod lower;

use super::gather::{element_places, tuple_places};
use crate::ops::elementwise::broadcast::{Kernel, fold_arithmetic};
use std::collections::BTreeMap;

use crate::error::{Result, invalid, unsupported};
use crate::op::{Access, Attributes, Call, Fact, required_input, resolve_axis};
use crate::ops::Row;
use crate::tensor::{Array, Dim};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Scatter", &[9, 11], Access::Any, infer_scatter)
        .fold(fold_scatter_elements)
        .expand(expand::expand_scatter_elements)
        .lower(lower::lower_scatter_elements).lowers_to("the layers of ScatterElements").limits("as for ScatterElements"),
    Row::new("ScatterElements", &[11, 13, 16, 18], Access::Any, infer_scatter)
        .fold(fold_scatter_elements)
        .expand(expand::expand_scatter_elements)
        .lower(lower::lower_scatter_elements).lowers_to("Concat, Crop of data and updates for constant indices; otherwise a product with a matrix of zeros and ones").limits("many updates of one element; large data with indices computed at run time"),
    Row::new("ScatterND", &[11, 13, 16, 18], Access::Any, infer_scatter)
        .fold(fold_scatter_nd)
        .expand(expand::expand_scatter_nd)
        .lower(lower::lower_scatter_nd).lowers_to("Concat, Crop of data and updates for constant indices; otherwise a product with a matrix of zeros and ones").limits("many updates of one element; large data with indices computed at run time"),
];

/// The maximum number of evaluated updates of one element: each iterates over all data.
const MAX_ITERATIONS: usize = 1 << 10;

/// The maximum number of elements over which all iterations run.
const MAX_VISITED: usize = 1 << 28;

/// The combination of an update with the element at its position.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reduction {
    Replace,
    Add,
    Mul,
    Max,
    Min,
}

/// Version 16 has sums and products, version 18 also maxima and minima.
fn read_reduction(attributes: &Attributes) -> Result<Reduction> {
    if attributes.op_type() == "Scatter" || attributes.since() < 16 {
        return Ok(Reduction::Replace);
    }
    Ok(match (attributes.string_or("reduction", "none")?, attributes.since()) {
        ("none", _) => Reduction::Replace,
        ("add", _) => Reduction::Add,
        ("mul", _) => Reduction::Mul,
        ("max", 18..) => Reduction::Max,
        ("min", 18..) => Reduction::Min,
        (other, since) => unsupported!("unknown reduction \"{other}\" in version {since}"),
    })
}

fn infer_scatter(call: &Call) -> Result<Vec<Fact>> {
    read_reduction(call)?;
    call.int("axis")?;
    let (data, indices) = (call.shape(0)?, call.shape(1)?);
    if call.node().is("ScatterND") {
        if let Some((width, tuples)) = indices.split_last()
            && let Some(width) = width.known().and_then(|width| usize::try_from(width).ok())
        {
            let updates: Vec<Dim> = tuples.iter().chain(data.iter().skip(width)).cloned().collect();
            call.check_shape(2, &updates)?;
        }
    } else {
        call.check_shape(2, indices)?;
    }
    Ok(vec![Fact::new(call.dtype(0)?, call.shape(0)?.to_vec())])
}

fn fold_scatter_elements(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let (data, indices, updates) =
        (required_input(inputs, 0)?, required_input(inputs, 1)?, required_input(inputs, 2)?);
    let axis = resolve_axis(attributes.int_or("axis", 0)?, data.shape().len())?;
    if indices.shape() != updates.shape() {
        invalid!("indices of shape {:?} for updates of shape {:?}", indices.shape(), updates.shape());
    }
    let places = element_places(data.shape(), indices, axis)?;
    Ok(vec![scatter(read_reduction(attributes)?, data, &places, updates)?])
}

fn fold_scatter_nd(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let (data, indices, updates) =
        (required_input(inputs, 0)?, required_input(inputs, 1)?, required_input(inputs, 2)?);
    let (starts, len) = tuple_places(data.shape(), indices, 0)?;
    let places: Vec<usize> = starts.iter().flat_map(|start| *start..start + len).collect();
    if places.len() != updates.len() {
        invalid!("{} updates for {} elements", updates.len(), places.len());
    }
    Ok(vec![scatter(read_reduction(attributes)?, data, &places, updates)?])
}

fn scatter(reduction: Reduction, data: &Array, places: &[usize], updates: &Array) -> Result<Array> {
    let Some(kernel) = kernel(reduction) else { return data.replace(places, updates) };
    let mut result = data.reshape(&[data.len()])?;
    let updates = updates.reshape(&[updates.len()])?;
    let rounds = rounds(places)?;
    if rounds.len().saturating_mul(data.len()) > MAX_VISITED {
        unsupported!("{} updates of one element of {}", rounds.len(), data.len());
    }
    for members in rounds {
        let targets: Vec<usize> = members.iter().filter_map(|number| places.get(*number)).copied().collect();
        let new = fold_arithmetic(&result.take(0, &targets)?, &updates.take(0, &members)?, &kernel)?;
        result = result.replace(&targets, &new)?;
    }
    result.reshape(data.shape())
}

/// Returns the indices of the first update of every position, then those of the second, and so on: each
/// depends on the result of the previous ones.
fn rounds(places: &[usize]) -> Result<Vec<Vec<usize>>> {
    let mut rounds: Vec<Vec<usize>> = Vec::new();
    let mut met: BTreeMap<usize, usize> = BTreeMap::new();
    for (number, place) in places.iter().enumerate() {
        let round = met.entry(*place).or_insert(0);
        match rounds.get_mut(*round) {
            Some(members) => members.push(number),
            None => rounds.push(vec![number]),
        }
        *round += 1;
    }
    if rounds.len() > MAX_ITERATIONS {
        unsupported!("{} updates of one element", rounds.len());
    }
    Ok(rounds)
}

/// Returns the combination of an update with an element; `None` if it replaces the element.
fn kernel(reduction: Reduction) -> Option<Kernel<f64, i64, Dim>> {
    Some(match reduction {
        Reduction::Replace => return None,
        Reduction::Add => {
            Kernel { float: |x, y| x + y, int: |x, y| Ok(x.wrapping_add(y)), dim: |x, y| x.add(y) }
        }
        Reduction::Mul => {
            Kernel { float: |x, y| x * y, int: |x, y| Ok(x.wrapping_mul(y)), dim: |x, y| x.mul(y) }
        }
        Reduction::Max => Kernel { float: f64::max, int: |x, y| Ok(x.max(y)), dim: |x, y| x.larger(y) },
        Reduction::Min => Kernel { float: f64::min, int: |x, y| Ok(x.min(y)), dim: |x, y| x.smaller(y) },
    })
}
