//! Models made of messages, written to files and read back.

mod bodies;
mod damage;
mod encodings;
mod external;
mod functions;
mod graphs;
mod writing;

use std::io::Write;

use prost::Message;
use smallvec::smallvec;
use tempfile::NamedTempFile;

use super::external::{ExternalFiles, Folder};
use super::proto::attribute_proto::AttributeType;
use super::proto::*;
use super::{Input, Model, ModelBytes, ReadOptions, Sources, decode};
use crate::error::{ErrorKind, Result};
use crate::graph::Graph;
use crate::tensor::DType;

fn read_from(input: &Input, options: &ReadOptions) -> Result<Model> {
    Sources::open(input, options)?.read()
}

fn text(s: &str) -> Option<String> {
    Some(s.to_owned())
}

fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|s| (*s).to_owned()).collect()
}

fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
    NodeProto { op_type: text(op_type), input: texts(input), output: texts(output), ..Default::default() }
}

fn dimension(size: i64) -> tensor_shape_proto::Dimension {
    let value = Some(tensor_shape_proto::dimension::Value::DimValue(size));
    tensor_shape_proto::Dimension { value, ..Default::default() }
}

fn named_dimension(name: &str) -> tensor_shape_proto::Dimension {
    let value = Some(tensor_shape_proto::dimension::Value::DimParam(name.to_owned()));
    tensor_shape_proto::Dimension { value, ..Default::default() }
}

/// A value of float32 values.
fn info(name: &str, dim: Vec<tensor_shape_proto::Dimension>) -> ValueInfoProto {
    let shape = Some(TensorShapeProto { dim });
    let tensor = type_proto::Tensor { elem_type: Some(DType::F32.to_onnx()), shape };
    let value = Some(type_proto::Value::TensorType(tensor));
    ValueInfoProto { name: text(name), r#type: Some(TypeProto { value, ..Default::default() }) }
}

/// A constant without data.
fn tensor(name: &str, dtype: DType, dims: &[i64]) -> TensorProto {
    TensorProto {
        name: text(name),
        data_type: Some(dtype.to_onnx()),
        dims: dims.to_vec(),
        ..Default::default()
    }
}

fn raw(name: &str, dtype: DType, dims: &[i64], bytes: &[u8]) -> TensorProto {
    TensorProto { raw_data: Some(bytes.to_vec().into()), ..tensor(name, dtype, dims) }
}

fn int_attribute(name: &str, i: i64) -> AttributeProto {
    AttributeProto {
        name: text(name),
        r#type: Some(AttributeType::Int.into()),
        i: Some(i),
        ..Default::default()
    }
}

fn body_attribute(name: &str, graph: GraphProto) -> AttributeProto {
    AttributeProto {
        name: text(name),
        r#type: Some(AttributeType::Graph.into()),
        g: Some(Box::new(graph)),
        ..Default::default()
    }
}

/// A graph from x to y.
fn graph(node: Vec<NodeProto>) -> GraphProto {
    let (input, output) = (vec![info("x", vec![dimension(2)])], vec![info("y", vec![dimension(2)])]);
    GraphProto { name: text("main"), node, input, output, ..Default::default() }
}

fn opset(domain: &str, version: i64) -> OperatorSetIdProto {
    OperatorSetIdProto { domain: text(domain), version: Some(version) }
}

fn model(graph: GraphProto) -> ModelProto {
    ModelProto {
        ir_version: Some(10),
        opset_import: vec![opset("", 21), opset("local", 1)],
        graph: Some(graph),
        ..Default::default()
    }
}

fn read_bytes(bytes: &[u8]) -> Result<Model> {
    let mut file = NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    read_from(&Input::Path(file.path().to_owned()), &ReadOptions::default())
}

fn read_model(model: &ModelProto) -> Result<Model> {
    let read = read_bytes(&model.encode_to_vec())?;
    read.graph.check()?;
    Ok(read)
}

/// Reads a model that must be refused with these words.
#[track_caller]
fn refused(model: &ModelProto, kind: ErrorKind, words: &str) {
    let error = match read_model(model) {
        Ok(_) => panic!("read, not refused with {words:?}"),
        Err(error) => error,
    };
    assert_eq!(error.kind(), kind, "{error}");
    assert!(format!("{error:#}").contains(words), "{error:#}");
}

/// The nodes of a graph, a line each: `name: op-version(inputs) -> outputs`.
fn lines(graph: &Graph) -> Vec<String> {
    let list = |ids: &[Option<crate::graph::ValueId>]| {
        let names: Vec<&str> = ids.iter().map(|id| id.map_or("-", |id| &graph.value(id).name)).collect();
        names.join(", ")
    };
    let line = |node: &crate::graph::Node| {
        let op = format!("{}-{}", node.qualified_op_type(), node.version);
        format!("{}: {op}({}) -> {}", node.name, list(&node.inputs), list(&node.outputs))
    };
    graph.nodes().map(|(_, node)| line(node)).collect()
}
