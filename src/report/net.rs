//! The net in a report.

use std::collections::BTreeMap;

use serde::Serialize;

use super::model::{ModelPart, Size, sizes};
use super::{Diagnostic, PassPart, Report, Status, Unit, source};
use crate::graph::Graph;
use crate::ncnn::layer::{LayerInfo, Param};
use crate::ncnn::{BlobId, Layer, Net, NetLayer, Written};
use crate::pipeline::{Conversion, Inspection, Pass, Port};
use crate::tensor::Dim;

/// A net as written.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct NetPart {
    /// The oldest release of ncnn that loads it, by its date.
    pub oldest_ncnn: u32,
    /// The inputs.
    pub inputs: Vec<PortPart>,
    /// The outputs.
    pub outputs: Vec<PortPart>,
    /// The free sizes that may be 0.
    pub may_be_zero: Vec<String>,
    /// The number of blobs.
    pub blobs: usize,
    /// Bytes of the `.param` file.
    pub param_bytes: u64,
    /// Bytes of the `.bin` file.
    pub bin_bytes: u64,
    /// The weights by storage type.
    pub storage: BTreeMap<&'static str, StoragePart>,
    /// The number of multiply-adds of the layers with known sizes.
    pub multiply_adds: u64,
    /// The number of layers with unknown sizes.
    pub uncounted: usize,
    /// The layers, in the order of execution.
    pub layers: Vec<LayerPart>,
}

/// A graph input or output and its blob in the net.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct PortPart {
    /// The name in the model.
    pub name: String,
    /// The element type in the model, by its ONNX name.
    pub dtype: String,
    /// The shape in the model.
    pub shape: Vec<Size>,
    /// The name of the blob.
    pub blob: String,
    /// The shape of the blob.
    pub axes: Axes,
    /// Whether the runtime reads the blob as 32-bit integers.
    pub int32: bool,
    /// For a cache that the runtime keeps, the blob of the output that continues an input, and reverse.
    pub cache: Option<String>,
}

/// The sizes of a blob by ncnn's names.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[allow(missing_docs)] // The names are those of ncnn's Mat.
#[non_exhaustive]
pub struct Axes {
    pub w: Size,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub h: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub d: Option<Size>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub c: Option<Size>,
}

/// Weights of one storage type.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[non_exhaustive]
pub struct StoragePart {
    /// The number of weights.
    pub weights: usize,
    /// The number of their elements.
    pub elements: u64,
    /// Their bytes, with tags and padding.
    pub bytes: u64,
}

/// A layer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct LayerPart {
    /// Its name.
    pub name: String,
    /// Its type.
    #[serde(rename = "type")]
    pub type_name: &'static str,
    /// The names of the bottoms.
    pub bottoms: Vec<String>,
    /// The names of the tops.
    pub tops: Vec<String>,
    /// The shapes of the tops, outermost axis first.
    pub shapes: Vec<Vec<Size>>,
    /// The written params.
    pub params: Vec<ParamPart>,
    /// The weights.
    pub weights: Vec<WeightPart>,
    /// The number of multiply-adds; `None` if a size is unknown.
    pub multiply_adds: Option<u64>,
    /// Whether it computes in float32 on runtimes of half precision too, which would not represent its
    /// numbers, or because the user keeps them in float32.
    pub needs_float32: bool,
    /// Whether it runs on the GPU if the runtime uses one.
    pub runs_on_gpu: bool,
    /// Whether it is a convolution that may lose several percent of its largest result in float16 on ARM64,
    /// by the transform of Winograd that [`Converter::careful`](crate::Converter::careful) avoids.
    pub is_roughly_transformed: bool,
    /// What would be wrong without its feature mask, because of known faults of the runtime.
    pub avoids: Vec<&'static str>,
    /// The indices in [`Report::nodes`] of the nodes whose work it does.
    pub nodes: Vec<usize>,
}

/// A param of a layer.
#[derive(Clone, Debug, Serialize)]
#[non_exhaustive]
pub struct ParamPart {
    /// Its id.
    pub id: i32,
    /// Its name in ncnn's operator table.
    pub name: &'static str,
    /// Its value.
    pub value: ParamValue,
}

/// The value of a param.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(untagged)]
#[allow(missing_docs)] // As `Param`.
#[non_exhaustive]
pub enum ParamValue {
    Int(i32),
    Float(f32),
    Ints(Vec<i32>),
    Floats(Vec<f32>),
    Text(String),
}

/// A weight of a layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct WeightPart {
    /// Its name in ncnn's operator table.
    pub name: &'static str,
    /// Its storage type.
    pub dtype: &'static str,
    /// The number of its elements.
    pub elements: u64,
    /// Its bytes, with tag and padding.
    pub bytes: u64,
    /// The error of a weight that was rounded to blocks: the root mean square of the differences, relative to
    /// that of the elements.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<f32>,
}

impl Report {
    /// Creates the report of a converted model; `model` is its graph after reading.
    pub(crate) fn converted(
        from: &Conversion,
        model: &Graph,
        inspection: &Inspection,
        written: &Written,
    ) -> Report {
        let (nodes, nodes_of) = source::trace(model, &from.graph, &from.net);
        let mut weights = written.weights.iter();
        let tables: BTreeMap<&str, LayerInfo> =
            Layer::tables().into_iter().map(|table| (table.type_name, table)).collect();
        let mut layers = Vec::with_capacity(from.net.layers.len());
        let mut storage: BTreeMap<&'static str, StoragePart> = BTreeMap::new();
        for (layer, nodes) in from.net.layers.iter().zip(nodes_of) {
            let mut part = LayerPart::of(&from.net, layer, &tables, nodes);
            for (weight, stored) in layer.layer.weights().iter().zip(&mut weights) {
                let elements = u64::try_from(stored.elements).unwrap_or(u64::MAX);
                let dtype = storage_name(stored.bits);
                let (name, bytes, error) = (weight.name, stored.bytes, stored.error);
                part.weights.push(WeightPart { name, dtype, elements, bytes, error });
                let sum = storage.entry(dtype).or_default();
                sum.weights += 1;
                sum.elements = sum.elements.saturating_add(elements);
                sum.bytes = sum.bytes.saturating_add(stored.bytes);
            }
            layers.push(part);
        }
        let counts = layers.iter().map(|layer| layer.multiply_adds);
        let net = NetPart {
            oldest_ncnn: from.net.since(),
            inputs: from.inputs.iter().map(PortPart::of).collect(),
            outputs: from.outputs.iter().map(PortPart::of).collect(),
            may_be_zero: from.may_be_zero(),
            blobs: written.blobs,
            param_bytes: written.param_bytes,
            bin_bytes: written.bin_bytes,
            storage,
            multiply_adds: counts.clone().flatten().fold(0, u64::saturating_add),
            uncounted: counts.filter(Option::is_none).count(),
            layers,
        };
        let warnings = from.warnings.iter().chain(&written.warnings).map(|text| Diagnostic::warning(text));
        let assumptions = from.assumptions.iter().map(Diagnostic::assumption);
        let conditions = from.conditions.iter().map(Diagnostic::condition);
        Report {
            options: from.options.to_json(),
            model: Some(ModelPart::of(inspection)),
            net: Some(net),
            nodes,
            passes: steps(&from.passes, &from.net_passes),
            diagnostics: warnings.chain(assumptions).chain(conditions).collect(),
            ..Report::new(Status::Converted)
        }
    }
}

fn steps(passes: &[Pass], net_passes: &[(&'static str, usize)]) -> Vec<PassPart> {
    let nodes = passes.iter().map(|pass| (pass.name, pass.nodes, Unit::Nodes));
    let layers = net_passes.iter().map(|(name, layers)| (*name, *layers, Unit::Layers));
    let mut steps: Vec<PassPart> = Vec::new();
    for (name, after, of) in nodes.chain(layers) {
        let before = steps.last().map(|step| step.after);
        steps.push(PassPart { name: name.to_owned(), of, before, after });
    }
    steps
}

/// Returns the name of a storage type.
fn storage_name(bits: usize) -> &'static str {
    match bits {
        4 => "int4",
        6 => "int6",
        8 => "int8",
        16 => "float16",
        _ => "float32",
    }
}

impl PortPart {
    pub(crate) fn of(port: &Port) -> PortPart {
        PortPart {
            name: port.name.clone(),
            dtype: port.dtype.clone(),
            shape: sizes(&port.shape),
            blob: port.blob.clone(),
            axes: Axes::of(&port.form),
            int32: port.int32,
            cache: port.cache.clone(),
        }
    }
}

impl Axes {
    /// Names the sizes of a form, outermost first.
    fn of(form: &[Dim]) -> Axes {
        let mut inner = form.iter().rev().cloned().map(Size);
        let w = inner.next().unwrap_or(Size(Dim::ONE));
        let (h, third, fourth) = (inner.next(), inner.next(), inner.next());
        match fourth {
            Some(c) => Axes { w, h, d: third, c: Some(c) },
            None => Axes { w, h, d: None, c: third },
        }
    }
}

impl LayerPart {
    fn of(net: &Net, layer: &NetLayer, tables: &BTreeMap<&str, LayerInfo>, nodes: Vec<usize>) -> LayerPart {
        let type_name = layer.layer.type_name();
        let names = |blobs: &[BlobId]| blobs.iter().map(|blob| net.blob(*blob).name.clone()).collect();
        let table = tables.get(type_name).map_or(&[][..], |table| &table.params);
        let param = |(id, value): (i32, Param)| {
            let name = table.iter().find(|param| param.id == id).map_or("", |param| param.name);
            ParamPart { id, name, value: value.into() }
        };
        LayerPart {
            name: layer.name.clone(),
            type_name,
            bottoms: names(&layer.bottoms),
            tops: names(&layer.tops),
            shapes: layer.tops.iter().map(|top| sizes(&net.blob(*top).shape)).collect(),
            params: layer.layer.params().into_iter().map(param).collect(),
            weights: Vec::new(),
            multiply_adds: net.multiply_adds(layer),
            needs_float32: net.is_float32(layer),
            runs_on_gpu: net.runs_on_gpu(layer),
            is_roughly_transformed: net.is_roughly_transformed(layer),
            avoids: net.avoided_faults(layer).collect(),
            nodes,
        }
    }
}

impl From<Param> for ParamValue {
    fn from(param: Param) -> ParamValue {
        match param {
            Param::Int(n) => ParamValue::Int(n),
            Param::Float(x) => ParamValue::Float(x),
            Param::Ints(list) => ParamValue::Ints(list),
            Param::Floats(list) => ParamValue::Floats(list),
            Param::Text(text) => ParamValue::Text(text),
        }
    }
}
