//! Declared types and shapes.

use std::collections::BTreeMap;

use prost::Message;

use super::proto::{
    TensorShapeProto, TypeProto, ValueInfoProto,
    tensor_shape_proto::{self, dimension},
    type_proto,
};
use crate::error::{Error, Result};
use crate::graph::{OtherType, Value};
use crate::tensor::{DType, Dim, Shape};

/// The declared type of a value.
#[derive(Clone, Debug, Default)]
pub(super) struct Declared {
    pub dtype: Option<DType>,
    pub shape: Option<Shape>,
    pub other: Option<OtherType>,
}

pub(super) fn name_of(info: &ValueInfoProto) -> &str {
    info.name.as_deref().unwrap_or_default()
}

/// Reads types. Axes with neither size nor name get unique names.
#[derive(Debug, Default)]
pub(super) struct Types {
    /// The number of uses of each new name.
    made: BTreeMap<String, usize>,
}

impl Types {
    /// Reads the type of a value; types other than tensors stay encoded.
    pub fn read(&mut self, info: &ValueInfoProto) -> Result<Declared> {
        let tensor = match info.r#type.as_ref().and_then(|t: &TypeProto| t.value.as_ref()) {
            Some(type_proto::Value::TensorType(tensor)) => tensor,
            Some(other) => {
                let encoded = info.r#type.as_ref().map(|t| t.encode_to_vec().into()).unwrap_or_default();
                let other = Some(OtherType { kind: kind_of(other), encoded });
                return Ok(Declared { other, ..Declared::default() });
            }
            None => return Ok(Declared::default()),
        };
        let code = tensor.elem_type.unwrap_or(0);
        let dtype = DType::from_onnx(code);
        if dtype.is_none() && code != 0 {
            return Err(Error::invalid(format!("unknown element type {code}")));
        }
        let Some(shape) = &tensor.shape else { return Ok(Declared { dtype, ..Declared::default() }) };
        let name = name_of(info);
        let dims = shape.dim.iter().enumerate().map(|(axis, dim)| match &dim.value {
            Some(dimension::Value::DimValue(size)) if *size >= 0 => Dim::from(*size),
            Some(dimension::Value::DimParam(symbol)) if is_name(symbol) => Dim::symbol(symbol),
            // Exporters write sizes that they have specialised as digits.
            Some(dimension::Value::DimParam(digits)) => match digits.parse() {
                Ok(size @ 0_i64..) => Dim::from(size),
                _ => self.fresh(name, axis),
            },
            _ => self.fresh(name, axis),
        });
        Ok(Declared { dtype, shape: Some(dims.collect()), other: None })
    }

    fn fresh(&mut self, value: &str, axis: usize) -> Dim {
        let name = format!("{value}[{axis}]");
        let before = self.made.entry(name.clone()).or_insert(0);
        *before += 1;
        match *before {
            1 => Dim::symbol(&name),
            // Bodies have values with the same names.
            n => Dim::symbol(&format!("{name}#{n}")),
        }
    }
}

/// Returns name and type of a value for writing.
pub(super) fn write_info(name: &str, value: &Value) -> ValueInfoProto {
    let dimension = |dim: &Dim| tensor_shape_proto::Dimension {
        value: Some(match dim.known() {
            Some(size) => dimension::Value::DimValue(size),
            None => dimension::Value::DimParam(dim.to_string()),
        }),
        ..tensor_shape_proto::Dimension::default()
    };
    let tensor = value.dtype.map(|dtype| type_proto::Tensor {
        elem_type: Some(dtype.to_onnx()),
        shape: value
            .shape
            .as_ref()
            .map(|shape| TensorShapeProto { dim: shape.iter().map(dimension).collect() }),
    });
    let of_tensor = |value| TypeProto { value: Some(value), ..TypeProto::default() };
    // Decodes a message that was encoded by the same program.
    let other = value.other_type.as_ref().and_then(|other| TypeProto::decode(other.encoded.clone()).ok());
    ValueInfoProto {
        name: Some(name.to_owned()),
        r#type: tensor.map(type_proto::Value::TensorType).map(of_tensor).or(other),
    }
}

/// Returns whether a `dim_param` names a size: exporters also write `?`, `-1` and `None`, for different
/// sizes. Names with a bracket are made by [`Types`].
fn is_name(symbol: &str) -> bool {
    symbol.chars().any(char::is_alphabetic) && symbol != "None" && !symbol.contains('[')
}

fn kind_of(value: &type_proto::Value) -> &'static str {
    match value {
        type_proto::Value::TensorType(_) => "tensor",
        type_proto::Value::SequenceType(_) => "sequence",
        type_proto::Value::MapType(_) => "map",
        type_proto::Value::OptionalType(_) => "optional",
        type_proto::Value::SparseTensorType(_) => "sparse tensor",
        type_proto::Value::OpaqueType(_) => "opaque",
    }
}
