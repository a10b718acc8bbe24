//! Mutations of models, most of them invalid.

use arbitrary::{Result, Unstructured};
use bytes::Bytes;
use prost::Message;

use crate::FIXTURES;
use crate::proto::tensor_shape_proto::dimension::Value as Size;
use crate::proto::tensor_shape_proto::Dimension;
use crate::proto::type_proto::Value as Kind;
use crate::proto::{GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto};

/// The maximum number of mutations at a time; results with new coverage are kept and mutated again.
const MAX_EDITS: usize = 4;
/// The name of a free size.
const FREE_SIZE: i64 = 3;
/// The maximum number of elements of an input that becomes a constant.
const MAX_GIVEN: usize = 1 << 16;

const INTS: &[i64] = &[
    0, 1, -1, 2, 3, 4, 5, 7, -2, -3, 8, 16, 100, 255, 65_536, 1 << 24, (1 << 31) - 1, 1 << 31, -(1 << 31), 1 << 40, 1 << 62,
    i64::MAX, i64::MIN,
];
const FLOATS: &[f32] =
    &[0.0, -0.0, 1.0, -1.0, 0.5, 2.0, 1e-20, 1e20, f32::MAX, f32::MIN_POSITIVE, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
/// Codes of element types, and one without a type.
const TYPES: i32 = 29;

/// The maximum number of random bytes for mutations.
const MAX_CHOICES: usize = 512;

/// libFuzzer's mutation of an input: of the parts of a model, if it is one, and sometimes of any bytes.
pub fn mutate(data: &mut [u8], size: usize, max_size: usize, seed: u32) -> usize {
    let mut state = u64::from(seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        for shift in [13, -7, 17_i32] {
            state ^= if shift > 0 { state << shift } else { state >> -shift };
        }
        state
    };
    let choices: Vec<u8> = (0..MAX_CHOICES / 8).flat_map(|_| next().to_le_bytes()).collect();
    let mut source = Unstructured::new(&choices);
    let bytes = data.get(..size).unwrap_or_default();
    let model = match source.int_in_range(0..=15) {
        Ok(0) => None,
        Ok(1) => source.choose(&FIXTURES).ok().cloned(),
        _ => ModelProto::decode(bytes).ok(),
    };
    let changed = model.and_then(|model| edited(model, &mut source).ok()).map(|model| model.encode_to_vec());
    match changed {
        Some(changed) if changed.len() <= max_size => {
            data[..changed.len()].copy_from_slice(&changed);
            changed.len()
        }
        _ => libfuzzer_sys::fuzzer_mutate(data, size, max_size),
    }
}

/// Returns a model after some mutations.
fn edited(mut model: ModelProto, source: &mut Unstructured) -> Result<ModelProto> {
    for _ in 0..source.int_in_range(1..=MAX_EDITS)? {
        if source.ratio(1, 20)? {
            for opset in &mut model.opset_import {
                opset.version = Some(source.int_in_range(0..=30)?);
            }
        }
        if let Some(graph) = &mut model.graph {
            edit_graph(graph, source)?;
        }
    }
    Ok(model)
}

/// Makes every input a constant: small numbers, or ones and zeros.
pub fn give_inputs(model: &mut ModelProto) {
    let Some(graph) = &mut model.graph else { return };
    for input in std::mem::take(&mut graph.input) {
        let kind = input.r#type.as_ref().and_then(|kind| kind.value.as_ref());
        let Some(Kind::TensorType(kind)) = kind else { continue };
        let sizes = kind.shape.iter().flat_map(|shape| &shape.dim).map(|dim| match &dim.value {
            Some(Size::DimValue(size)) => *size,
            _ => FREE_SIZE,
        });
        let dims: Vec<i64> = sizes.collect();
        let count = dims.iter().try_fold(1_i64, |n, size| n.checked_mul(*size));
        let Some(count) = count.and_then(|n| usize::try_from(n).ok()).filter(|n| *n <= MAX_GIVEN) else { continue };
        let element = |i: usize| match kind.elem_type {
            Some(1) => (i as f32 * 0.37).sin().to_le_bytes().to_vec(),
            Some(7) => (i as i64 % 5).to_le_bytes().to_vec(),
            Some(6) => (i as i32 % 5).to_le_bytes().to_vec(),
            Some(10) => vec![i as u8, 0x3c],
            Some(11) => (i as f64 * 0.37).sin().to_le_bytes().to_vec(),
            _ => vec![u8::from(i % 3 == 0)],
        };
        graph.initializer.push(TensorProto {
            name: input.name.clone(),
            dims,
            data_type: kind.elem_type,
            raw_data: Some((0..count).flat_map(element).collect()),
            ..TensorProto::default()
        });
    }
}

fn edit_graph(graph: &mut GraphProto, source: &mut Unstructured) -> Result<()> {
    match source.int_in_range(0..=9)? {
        0 => match pick(&mut graph.input, source)? {
            Some(input) => edit_info(input, source),
            None => Ok(()),
        },
        1 => match pick(&mut graph.output, source)? {
            Some(output) => edit_info(output, source),
            None => Ok(()),
        },
        2..=4 => match pick(&mut graph.initializer, source)? {
            Some(tensor) => edit_tensor(tensor, source),
            None => Ok(()),
        },
        5 => {
            // A constant becomes an input.
            if !graph.initializer.is_empty() {
                let place = source.choose_index(graph.initializer.len())?;
                let tensor = graph.initializer.swap_remove(place);
                graph.input.push(info(&tensor));
            }
            Ok(())
        }
        6 => rewire(graph, source),
        _ => match pick(&mut graph.node, source)? {
            Some(node) => edit_node(node, source),
            None => Ok(()),
        },
    }
}

fn pick<'a, T>(list: &'a mut [T], source: &mut Unstructured) -> Result<Option<&'a mut T>> {
    if list.is_empty() {
        return Ok(None);
    }
    let place = source.choose_index(list.len())?;
    Ok(list.get_mut(place))
}

fn size(source: &mut Unstructured) -> Result<Option<Size>> {
    Ok(match source.int_in_range(0..=4)? {
        0 => None,
        1 => Some(Size::DimParam(["N", "H", "W"][source.choose_index(3)?].to_owned())),
        _ => Some(Size::DimValue(*source.choose(INTS)?)),
    })
}

fn edit_info(info: &mut ValueInfoProto, source: &mut Unstructured) -> Result<()> {
    let Some(Kind::TensorType(tensor)) = info.r#type.as_mut().and_then(|kind| kind.value.as_mut()) else { return Ok(()) };
    let Some(shape) = &mut tensor.shape else { return Ok(()) };
    match source.int_in_range(0..=5)? {
        0 => tensor.elem_type = Some(source.int_in_range(0..=TYPES)?),
        1 => tensor.shape = None,
        2 => {
            shape.dim.pop();
        }
        3 => shape.dim.push(Dimension { denotation: None, value: size(source)? }),
        _ => {
            if let Some(dim) = pick(&mut shape.dim, source)? {
                dim.value = size(source)?;
            }
        }
    }
    Ok(())
}

fn info(tensor: &TensorProto) -> ValueInfoProto {
    let dim = |size: &i64| Dimension { denotation: None, value: Some(Size::DimValue(*size)) };
    let shape = crate::proto::TensorShapeProto { dim: tensor.dims.iter().map(dim).collect() };
    let kind = crate::proto::type_proto::Tensor { elem_type: tensor.data_type, shape: Some(shape) };
    ValueInfoProto {
        name: tensor.name.clone(),
        r#type: Some(crate::proto::TypeProto { denotation: None, value: Some(Kind::TensorType(kind)) }),
        ..ValueInfoProto::default()
    }
}

fn edit_tensor(tensor: &mut TensorProto, source: &mut Unstructured) -> Result<()> {
    match source.int_in_range(0..=6)? {
        0 => tensor.data_type = Some(source.int_in_range(0..=TYPES)?),
        1 => {
            if let Some(size) = pick(&mut tensor.dims, source)? {
                *size = *source.choose(INTS)?;
            }
        }
        2 => {
            tensor.dims.pop();
        }
        3 => tensor.dims.push(1),
        _ => {
            let mut raw = tensor.raw_data.clone().unwrap_or_default().to_vec();
            let element = match tensor.data_type {
                Some(7) => source.choose(INTS)?.to_le_bytes().to_vec(),
                _ => source.choose(FLOATS)?.to_le_bytes().to_vec(),
            };
            let count = raw.len() / element.len();
            if count > 0 {
                let at = source.choose_index(count)? * element.len();
                raw[at..at + element.len()].copy_from_slice(&element);
            }
            tensor.raw_data = Some(Bytes::from(raw));
        }
    }
    Ok(())
}

/// Replaces an input of a node, or an output of the graph, by another value.
fn rewire(graph: &mut GraphProto, source: &mut Unstructured) -> Result<()> {
    let mut names: Vec<String> = graph.node.iter().flat_map(|node| node.output.clone()).collect();
    names.extend(graph.input.iter().filter_map(|input| input.name.clone()));
    names.extend(graph.initializer.iter().filter_map(|tensor| tensor.name.clone()));
    names.push(String::new());
    let name = source.choose(&names)?.clone();
    if source.ratio(1, 4)? {
        graph.output.push(ValueInfoProto { name: Some(name), ..ValueInfoProto::default() });
    } else if let Some(node) = pick(&mut graph.node, source)? {
        match pick(&mut node.input, source)? {
            Some(input) if source.ratio(3, 4)? => *input = name,
            _ => node.input.push(name),
        }
    }
    Ok(())
}

fn edit_node(node: &mut NodeProto, source: &mut Unstructured) -> Result<()> {
    match source.int_in_range(0..=7)? {
        0 => {
            let other = source.choose(&FIXTURES)?.graph.as_ref().and_then(|graph| graph.node.first());
            if let Some(other) = other {
                (node.op_type, node.domain) = (other.op_type.clone(), other.domain.clone());
                if source.arbitrary()? {
                    node.attribute = other.attribute.clone();
                }
            }
        }
        1 => {
            node.input.pop();
        }
        2 => {
            node.output.pop();
        }
        3 => node.output.push("another".to_owned()),
        4 => {
            if !node.attribute.is_empty() {
                let place = source.choose_index(node.attribute.len())?;
                node.attribute.remove(place);
            }
        }
        _ => {
            if let Some(attribute) = pick(&mut node.attribute, source)? {
                if let Some(i) = &mut attribute.i {
                    *i = *source.choose(INTS)?;
                }
                if let Some(f) = &mut attribute.f {
                    *f = *source.choose(FLOATS)?;
                }
                if let Some(i) = pick(&mut attribute.ints, source)? {
                    *i = *source.choose(INTS)?;
                }
                if source.ratio(1, 4)? {
                    attribute.ints.pop();
                }
                if let Some(f) = pick(&mut attribute.floats, source)? {
                    *f = *source.choose(FLOATS)?;
                }
                if let Some(tensor) = &mut attribute.t {
                    edit_tensor(tensor, source)?;
                }
                if let Some(body) = &mut attribute.g {
                    edit_graph(body, source)?;
                }
            }
        }
    }
    Ok(())
}
