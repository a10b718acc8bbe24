//! Mutations of models, most of them invalid.

use bytes::Bytes;
use fastrand::Rng;

use super::{FIXTURES, pick};
use crate::proto::tensor_shape_proto::{Dimension, dimension::Value as Size};
use crate::proto::type_proto::Value as Kind;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

/// The maximum number of mutations at a time; results with new coverage are kept and mutated again.
const MAX_EDITS: usize = 4;

#[rustfmt::skip]
const INTS: &[i64] = &[
    0, 1, -1, 2, 3, 4, 5, 7, -2, -3, 8, 16, 100, 255, 65_536, 1 << 24, (1 << 31) - 1, 1 << 31, -(1 << 31),
    1 << 40, 1 << 62, i64::MAX, i64::MIN,
];
#[rustfmt::skip]
const FLOATS: &[f32] = &[
    0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-20, 1e20, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY,
    f32::NEG_INFINITY, f32::NAN,
];
/// Codes of element types, and one without a type.
const TYPES: i32 = 29;

/// Returns a model after some mutations.
pub fn edited(mut model: ModelProto, rng: &mut Rng) -> ModelProto {
    for _ in 0..rng.usize(1..=MAX_EDITS) {
        if rng.u8(0..20) == 0 {
            for opset in &mut model.opset_import {
                opset.version = Some(rng.i64(0..=30));
            }
        }
        if let Some(graph) = &mut model.graph {
            edit_graph(graph, rng);
        }
    }
    model
}

fn edit_graph(graph: &mut GraphProto, rng: &mut Rng) {
    match rng.u8(0..10) {
        0 => pick_mut(&mut graph.input, rng).into_iter().for_each(|input| edit_info(input, rng)),
        1 => pick_mut(&mut graph.output, rng).into_iter().for_each(|output| edit_info(output, rng)),
        2..=4 => {
            pick_mut(&mut graph.initializer, rng).into_iter().for_each(|tensor| edit_tensor(tensor, rng))
        }
        5 => {
            // A constant becomes an input.
            if !graph.initializer.is_empty() {
                let tensor = graph.initializer.swap_remove(rng.usize(0..graph.initializer.len()));
                graph.input.push(info(&tensor));
            }
        }
        6 => rewire(graph, rng),
        _ => pick_mut(&mut graph.node, rng).into_iter().for_each(|node| edit_node(node, rng)),
    }
}

fn pick_mut<'a, T>(list: &'a mut [T], rng: &mut Rng) -> Option<&'a mut T> {
    list.get_mut(rng.usize(0..list.len().max(1)))
}

fn number<T: Copy>(list: &[T], rng: &mut Rng) -> T {
    list[rng.usize(0..list.len())]
}

fn size(rng: &mut Rng) -> Option<Size> {
    match rng.u8(0..5) {
        0 => None,
        1 => Some(Size::DimParam(number(&["N", "H", "W"], rng).to_owned())),
        _ => Some(Size::DimValue(number(INTS, rng))),
    }
}

fn edit_info(info: &mut ValueInfoProto, rng: &mut Rng) {
    let Some(Kind::TensorType(tensor)) = info.r#type.as_mut().and_then(|kind| kind.value.as_mut()) else {
        return;
    };
    let Some(shape) = &mut tensor.shape else { return };
    match rng.u8(0..6) {
        0 => tensor.elem_type = Some(rng.i32(0..=TYPES)),
        1 => tensor.shape = None,
        2 => drop(shape.dim.pop()),
        3 => shape.dim.push(Dimension { denotation: None, value: size(rng) }),
        _ => {
            if let Some(dim) = pick_mut(&mut shape.dim, rng) {
                dim.value = size(rng);
            }
        }
    }
}

fn info(tensor: &TensorProto) -> ValueInfoProto {
    let dim = |size: &i64| Dimension { denotation: None, value: Some(Size::DimValue(*size)) };
    let shape = crate::proto::TensorShapeProto { dim: tensor.dims.iter().map(dim).collect() };
    let kind = crate::proto::type_proto::Tensor { elem_type: tensor.data_type, shape: Some(shape) };
    let kind = crate::proto::TypeProto { denotation: None, value: Some(Kind::TensorType(kind)) };
    ValueInfoProto { name: tensor.name.clone(), r#type: Some(kind), ..ValueInfoProto::default() }
}

fn edit_tensor(tensor: &mut TensorProto, rng: &mut Rng) {
    match rng.u8(0..7) {
        0 => tensor.data_type = Some(rng.i32(0..=TYPES)),
        1 => {
            if let Some(size) = pick_mut(&mut tensor.dims, rng) {
                *size = number(INTS, rng);
            }
        }
        2 => drop(tensor.dims.pop()),
        3 => tensor.dims.push(1),
        _ => {
            let mut raw = tensor.raw_data.clone().unwrap_or_default().to_vec();
            let element = match tensor.data_type {
                Some(7) => number(INTS, rng).to_le_bytes().to_vec(),
                _ => number(FLOATS, rng).to_le_bytes().to_vec(),
            };
            let count = raw.len() / element.len();
            if count > 0 {
                let at = rng.usize(0..count) * element.len();
                raw[at..at + element.len()].copy_from_slice(&element);
            }
            tensor.raw_data = Some(Bytes::from(raw));
        }
    }
}

/// Replaces an input of a node, or an output of the graph, by another value.
fn rewire(graph: &mut GraphProto, rng: &mut Rng) {
    let mut names: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    names.extend(graph.input.iter().filter_map(|input| input.name.clone()));
    names.extend(graph.initializer.iter().filter_map(|tensor| tensor.name.clone()));
    names.push(String::new());
    let name = names.swap_remove(rng.usize(0..names.len()));
    if rng.u8(0..4) == 0 {
        graph.output.push(ValueInfoProto { name: Some(name), ..ValueInfoProto::default() });
    } else if let Some(node) = pick_mut(&mut graph.node, rng) {
        match pick_mut(&mut node.input, rng) {
            Some(input) if rng.u8(0..4) > 0 => *input = name,
            _ => node.input.push(name),
        }
    }
}

fn edit_node(node: &mut NodeProto, rng: &mut Rng) {
    match rng.u8(0..8) {
        0 => {
            let other = pick(&FIXTURES, rng).and_then(|model| model.graph.as_ref()?.node.first());
            if let Some(other) = other {
                (node.op_type, node.domain) = (other.op_type.clone(), other.domain.clone());
                if rng.bool() {
                    node.attribute.clone_from(&other.attribute);
                }
            }
        }
        1 => drop(node.input.pop()),
        2 => drop(node.output.pop()),
        3 => node.output.push("another".to_owned()),
        4 => {
            if !node.attribute.is_empty() {
                node.attribute.remove(rng.usize(0..node.attribute.len()));
            }
        }
        _ => {
            let Some(attribute) = pick_mut(&mut node.attribute, rng) else { return };
            if let Some(i) = &mut attribute.i {
                *i = number(INTS, rng);
            }
            if let Some(f) = &mut attribute.f {
                *f = number(FLOATS, rng);
            }
            if let Some(i) = pick_mut(&mut attribute.ints, rng) {
                *i = number(INTS, rng);
            }
            if rng.u8(0..4) == 0 {
                attribute.ints.pop();
            }
            if let Some(f) = pick_mut(&mut attribute.floats, rng) {
                *f = number(FLOATS, rng);
            }
            if let Some(tensor) = &mut attribute.t {
                edit_tensor(tensor, rng);
            }
            if let Some(body) = &mut attribute.g {
                edit_graph(body, rng);
            }
        }
    }
}
