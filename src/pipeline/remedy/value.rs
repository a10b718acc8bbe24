//! Inputs that decide sizes or conditions, and values for them.

use std::collections::BTreeSet;

use ndarray::{ArrayD, IxDyn};

use super::super::Metadata;
use super::part::Parts;
use crate::common::index::IndexSet;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::{Array, DType, Dim, Elements};

/// The most elements of an input that decides: a flag, a rate, the size of a picture.
const MAX_ELEMENTS: i64 = 4;

/// Returns the inputs on whose elements nodes depend that cannot be converted, and values to try, the
/// likeliest first.
pub(super) fn deciding(parts: &Parts, metadata: &Metadata) -> Vec<(String, Vec<Array>)> {
    let graph = &parts.graph;
    let mut seen: IndexSet<ValueId> = IndexSet::default();
    let nodes = parts.failed.iter().filter_map(|id| graph.node(*id));
    let mut stack: Vec<ValueId> = nodes.flat_map(Node::reads).collect();
    while let Some(id) = stack.pop() {
        let producer = graph.value(id).producer.filter(|_| seen.insert(id)).and_then(|node| graph.node(node));
        if let Some(node) = producer.filter(|node| !node.is("Shape") && !node.is("Size")) {
            stack.extend(node.reads());
        } else {
            seen.insert(id);
        }
    }
    let inputs =
        graph.inputs.iter().copied().filter(|id| seen.contains(*id) && graph.value(*id).constant.is_none());
    inputs.filter_map(|id| Some((graph.value(id).name.clone(), values(parts, id, metadata)?))).collect()
}

/// Returns values for an input, if it has few elements.
fn values(parts: &Parts, id: ValueId, metadata: &Metadata) -> Option<Vec<Array>> {
    let value = parts.graph.value(id);
    let (dtype, shape) = (value.dtype?, value.shape.as_deref()?);
    // The free size of a list is that of a batch; other free sizes are those of data.
    let is_list = shape.len() == 1;
    let sizes = shape.iter().map(|size| size.known().unwrap_or(if is_list { 1 } else { i64::MAX }));
    let count = sizes.fold(1_i64, i64::saturating_mul);
    if !(1..=MAX_ELEMENTS).contains(&count) {
        return None;
    }
    let name = value.name.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| name.contains(word));
    let numbers = |list: &[i64]| list.iter().map(|n| vec![Dim::from(*n); 1]).collect::<Vec<_>>();
    let tried: Vec<Vec<Dim>> = if dtype == DType::Bool {
        numbers(&[1, 0])
    } else if name == "sr" || says(&["rate", "freq"]) {
        let rates: Vec<i64> = metadata.sample_rate.into_iter().chain([16_000, 8_000]).collect();
        numbers(&rates)
    } else if dtype.is_float() && says(&["scale", "factor", "zoom"]) {
        numbers(&[2, 1])
    } else if count == 2 || says(&["size", "shape", "height", "width", "hw"]) {
        let sizes = metadata.image_size.map(|size| size.map(Dim::Known).to_vec());
        sizes.into_iter().chain(numbers(&[1024, 640, 224, 64])).collect()
    } else if dtype.is_int() && says(&["len"]) {
        lengths(parts, id).into_iter().map(|size| vec![size]).chain(numbers(&[64])).collect()
    } else {
        numbers(&[1, 2, 0, 64])
    };
    let count = usize::try_from(count).ok()?;
    let tried = declared(&parts.graph, id, count, dtype).into_iter().chain(tried);
    Some(tried.filter_map(|sizes| array(&sizes, count, dtype)).collect())
}

/// Returns the values that give results their declared sizes: the sizes, or, for floats, their quotients by
/// the sizes of the data where these are whole. Several values may be the sizes of the last axes.
fn declared(graph: &Graph, id: ValueId, count: usize, dtype: DType) -> Vec<Vec<Dim>> {
    let known = |id: ValueId| {
        let shape = graph.value(id).shape.as_deref()?;
        let first = shape.len().checked_sub(count).filter(|first| *first == 0 || count > 1)?;
        shape.get(first..).filter(|sizes| sizes.iter().all(|size| size.known().is_some()))
    };
    let readers = graph.readers();
    let nodes = || readers.get(id).iter().filter_map(|id| graph.node(*id));
    if dtype.is_int() {
        let results = nodes().filter_map(|node| node.output(0)).chain(graph.outputs.iter().copied());
        return results.filter_map(|id| Some(known(id)?.to_vec())).collect();
    }
    let factors = |node: &Node| {
        let pairs = known(node.output(0)?)?.iter().zip(known(node.input(0)?)?);
        pairs.map(|(size, of_data)| size.exact_div(of_data)).collect()
    };
    nodes().filter_map(factors).collect()
}

/// Returns the sizes of the axes of other inputs after the first, free ones first: a length is one of them.
fn lengths(parts: &Parts, id: ValueId) -> Vec<Dim> {
    let graph = &parts.graph;
    let others = graph.inputs.iter().filter(|other| **other != id);
    let shapes = others.filter_map(|other| graph.value(*other).shape.as_deref());
    let sizes: BTreeSet<&Dim> =
        shapes.flat_map(|shape| shape.iter().skip(1)).filter(|size| !size.is(1)).collect();
    let (free, known): (Vec<&Dim>, Vec<&Dim>) = sizes.into_iter().partition(|size| size.known().is_none());
    free.into_iter().filter(|size| size.symbol_name().is_some()).chain(known).cloned().collect()
}

/// Returns elements of a type, each the same unless there is one size for each.
fn array(sizes: &[Dim], count: usize, dtype: DType) -> Option<Array> {
    let one = sizes.first()?;
    let list: Vec<Dim> = if sizes.len() == count { sizes.to_vec() } else { vec![one.clone(); count] };
    let known: Option<Vec<i64>> = list.iter().map(Dim::known).collect();
    match known {
        Some(known) => {
            let elements = ArrayD::from_shape_vec(IxDyn(&[count]), known).ok()?;
            Some(Array::new(DType::I64, Elements::I64(elements)))
        }
        None => dtype.is_int().then(|| Array::from_dims(&list)),
    }
}
