//! The inputs and outputs of a net.

use std::collections::BTreeSet;

use smallvec::smallvec;

use super::elements::{check_elements, check_size};
use super::form::{MAX_AXES, by_name, interface_form};
use super::state::{Label, State, reshape_layer};
use crate::error::{Error, ErrorCode, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::layer::Input;
use crate::ncnn::{Blob, BlobId, BlobIds, Element, NetLayer, Output, Provenance};
use crate::op::NCNN_DOMAIN;
use crate::tensor::DType;

/// The name of the layer whose tops are the caches of the runtime.
const CACHE: &str = "kv_cache";

fn unknown(message: &str) -> Error {
    Error::unsupported(message).code_is(ErrorCode::UNKNOWN_SHAPE)
}

/// Adds the blobs of all inputs, and the layers that make them. Inputs that fail are returned as errors.
pub(super) fn lower_inputs(graph: &Graph, double_as_float: bool, state: &mut State) -> Vec<Error> {
    let caches = caches(graph);
    let mut errors = Vec::new();
    let mut tops = BlobIds::new();
    for input in graph.variable_inputs() {
        let added = match caches.contains(&input) {
            true => add_cache(graph, input, state).map(|blob| tops.push(blob)),
            false => lower_input(graph, input, double_as_float, state),
        };
        if let Err(error) = added {
            errors.push(error.at_part(format!("input \"{}\"", graph.value(input).name)));
        }
    }
    if !tops.is_empty() {
        push_input(state, CACHE, Input::default(), tops);
    }
    errors
}

/// Returns the inputs of a node that are caches of the runtime: the fourth and fifth of a CachedAttention.
pub(crate) fn cached_inputs(node: &Node) -> impl Iterator<Item = ValueId> + '_ {
    let has_caches = node.domain == NCNN_DOMAIN && node.op_type == "CachedAttention";
    let range = if has_caches { 3..5 } else { 0..0 };
    node.inputs.get(range).unwrap_or_default().iter().copied().flatten()
}

/// Returns the inputs that nodes read as caches of the runtime, which it made itself, in a separate layout.
fn caches(graph: &Graph) -> BTreeSet<ValueId> {
    graph.nodes().flat_map(|(_, node)| cached_inputs(node)).collect()
}

/// Adds the blob of a cache, from which no layer reads a size.
fn add_cache(graph: &Graph, id: ValueId, state: &mut State) -> Result<BlobId> {
    let value = graph.value(id);
    let Some(shape) = &value.shape else { return Err(unknown("its rank is unknown")) };
    let shape = interface_form(shape);
    let blob = state.net.add_blob(Blob {
        name: value.name.clone(),
        is_value: true,
        shape: shape.into(),
        element: Element::Cache,
        batch: 1,
        float32: false,
    });
    state.net.inputs.push(blob);
    state.forms.insert(id, smallvec![blob]);
    Ok(blob)
}

fn push_input(state: &mut State, name: &str, layer: Input, tops: BlobIds) {
    state.net.layers.push(NetLayer {
        name: name.to_owned(),
        layer: layer.into(),
        bottoms: BlobIds::new(),
        tops,
        float32: false,
        provenance: Provenance::default(),
    });
}

fn lower_input(graph: &Graph, id: ValueId, double_as_float: bool, state: &mut State) -> Result<()> {
    let value = graph.value(id);
    let Some(shape) = &value.shape else {
        return Err(unknown("its rank is unknown"));
    };
    let Some(dtype) = value.dtype else {
        return Err(unknown("ncnn has no blobs of an unknown type"));
    };
    check_elements(dtype)?;
    if dtype == DType::F64 && !double_as_float {
        return Err(Error::unsupported(
            "ncnn computes in float32, and float64 values may be out of its range",
        )
        .code_is(ErrorCode::DOUBLE));
    }
    check_size(graph, id)?;
    let form = interface_form(shape);
    let blob = state.net.add_blob(Blob {
        name: value.name.clone(),
        is_value: true,
        shape: form.as_slice().into(),
        element: Element::F32,
        batch: 1,
        float32: state.precise_values.contains(id),
    });
    let sizes: Option<Vec<i32>> =
        form.iter().map(|d| d.known().and_then(|n| i32::try_from(n).ok())).collect();
    // Sizes that are not all known are left out.
    let named = sizes.and_then(|sizes| by_name(&sizes, 0));
    let input = named.map_or_else(Input::default, |[w, h, d, c]| Input { w, h, d, c });
    push_input(state, &value.name, input, smallvec![blob]);
    state.axes.add(blob, &form);
    state.net.inputs.push(blob);
    let mut form_blob = blob;
    if value.dtype.is_some_and(DType::is_int) {
        state.integers.add_input(id, blob);
    } else if shape.len() > MAX_AXES && form.iter().any(|size| size.is(1)) {
        // Some unit axes were dropped to save axes: users may drop all of them.
        let reshape = reshape_layer(&form, &form)?;
        form_blob = state.emit_one(Label::of(&value.name), reshape, &[blob], &form)?;
    }
    state.forms.insert(id, smallvec![form_blob]);
    Ok(())
}

pub(super) fn lower_output(graph: &Graph, id: ValueId, state: &mut State) -> Result<()> {
    let value = graph.value(id);
    let Some(shape) = &value.shape else {
        return Err(unknown("its rank is unknown"));
    };
    state.node = value.producer;
    let blob = state.form(graph, id, &interface_form(shape))?;
    state.net.outputs.push(Output { blob, name: value.name.clone() });
    state.assume_exact_output(graph, id);
    Ok(())
}
