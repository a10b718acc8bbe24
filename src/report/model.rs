//! The model in a report.

use std::collections::BTreeMap;

use serde::{Serialize, Serializer};

use crate::pipeline::{Described, Inspection, Metadata};
use crate::tensor::Dim;

/// The contents of a model with inlined functions.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ModelPart {
    /// The file of the model, or `standard input`.
    pub file: String,
    /// Files of external data.
    pub data_files: Vec<String>,
    /// The program that wrote the model; may be empty.
    pub producer: String,
    /// What the model says about its use.
    pub metadata: Metadata,
    /// The version of the intermediate representation.
    pub ir_version: i64,
    /// The versions of the operator sets, by domain; ONNX's is `ai.onnx`.
    pub opsets: BTreeMap<String, i64>,
    /// The inputs.
    pub inputs: Vec<ValuePart>,
    /// The outputs.
    pub outputs: Vec<ValuePart>,
    /// The number of nodes, including those of bodies of control flow.
    pub nodes: usize,
    /// The number of nodes of each operator.
    pub operators: BTreeMap<String, usize>,
    /// The number of elements of all constants that are read.
    pub parameters: u64,
    /// The bytes of these constants.
    pub parameter_bytes: u64,
    /// The number of multiply-adds of convolutions and products of known sizes.
    pub multiply_adds: u64,
    /// The number of convolutions and products of unknown sizes.
    pub uncounted: usize,
}

/// An input or output of a model.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ValuePart {
    /// Its name.
    pub name: String,
    /// The element type by its ONNX name; `?` if it is unknown.
    pub dtype: String,
    /// The shape, if the rank is known.
    pub shape: Option<Vec<Size>>,
}

/// A size: an integer, or an expression as a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Size(pub Dim);

impl Serialize for Size {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0.known() {
            Some(n) => serializer.serialize_i64(n),
            None => serializer.collect_str(&self.0),
        }
    }
}

pub(super) fn sizes(shape: &[Dim]) -> Vec<Size> {
    shape.iter().cloned().map(Size).collect()
}

impl ModelPart {
    pub(super) fn of(inspection: &Inspection) -> ModelPart {
        let domain = |domain: &String| if domain.is_empty() { "ai.onnx".to_owned() } else { domain.clone() };
        let values = |values: &[Described]| values.iter().map(ValuePart::of).collect();
        // The file of the model itself is the last.
        let mut files: Vec<String> = inspection.files.iter().map(|file| file.display().to_string()).collect();
        ModelPart {
            file: files.pop().unwrap_or_default(),
            data_files: files,
            producer: inspection.producer.clone(),
            metadata: inspection.metadata.clone(),
            ir_version: inspection.ir_version,
            opsets: inspection.opsets.iter().map(|(name, version)| (domain(name), *version)).collect(),
            inputs: values(&inspection.inputs),
            outputs: values(&inspection.outputs),
            nodes: inspection.operators.values().sum(),
            operators: inspection.operators.clone(),
            parameters: inspection.parameters,
            parameter_bytes: inspection.parameter_bytes,
            multiply_adds: inspection.multiply_adds,
            uncounted: inspection.uncounted,
        }
    }
}

impl ValuePart {
    fn of(value: &Described) -> ValuePart {
        let shape = value.shape.as_deref().map(sizes);
        ValuePart { name: value.name.clone(), dtype: value.dtype.clone(), shape }
    }
}
