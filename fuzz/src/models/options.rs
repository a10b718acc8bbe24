//! Random options of conversions.

use fastrand::Rng;
use serde_json::{Map, Value, json};

use super::pick;
use crate::proto::ModelProto;
use crate::proto::tensor_shape_proto::dimension::Value as Size;
use crate::proto::type_proto::Value as Kind;

/// Releases of ncnn.
const RELEASES: [u32; 5] = [20240410, 20250428, 20250916, 20260113, 20261020];
const FLAGS: [&str; 6] = ["precise", "careful", "numbered", "strict", "double_as_float", "random_as_input"];

/// Returns one to three options as JSON.
pub fn options(model: &ModelProto, rng: &mut Rng) -> String {
    let mut options = Map::new();
    for _ in 0..rng.u8(1..=3) {
        let (name, value) = option(model, rng);
        options.insert(name.to_owned(), value);
    }
    Value::Object(options).to_string()
}

fn option(model: &ModelProto, rng: &mut Rng) -> (&'static str, Value) {
    let graph = model.graph.as_ref();
    let nodes = graph.map(|graph| &*graph.node).unwrap_or_default();
    let values: Vec<&String> =
        nodes.iter().flat_map(|node| &node.output).filter(|name| !name.is_empty()).collect();
    let value = pick(&values, rng).map_or("", |name| name);
    match rng.u8(0..11) {
        0..=1 => ("fp16", true.into()),
        2..=3 => ("weights", (*pick(&["keep", "int8", "int6", "int4"], rng).unwrap()).into()),
        4 => ("float32", json!([value])),
        5 => ("ncnn_version", (*pick(&RELEASES, rng).unwrap()).into()),
        6 => ("outputs", json!([value])),
        7 => {
            let passes: Vec<&str> = onnx2ncnn::passes().map(|pass| pass.name).collect();
            let skipped: Vec<&&str> = (0..rng.u8(1..=3)).filter_map(|_| pick(&passes, rng)).collect();
            ("skip", json!(skipped))
        }
        8 => {
            let Some(input) = graph.and_then(|graph| pick(&graph.input, rng)) else {
                return ("strict", true.into());
            };
            let Some(Kind::TensorType(tensor)) = input.r#type.as_ref().and_then(|kind| kind.value.as_ref())
            else {
                return ("strict", true.into());
            };
            let dims = tensor.shape.iter().flat_map(|shape| &shape.dim);
            let size = |dim: Option<&Size>, rng: &mut Rng| match (dim, rng.u8(0..3)) {
                (Some(Size::DimValue(size)), 0..=1) => json!(size),
                (Some(Size::DimParam(name)), 0) => json!(name),
                (_, 1) => json!(rng.u8(1..=8)),
                _ => json!(*pick(&["N", "H", "W"], rng).unwrap()),
            };
            let shape: Vec<Value> = dims.map(|dim| size(dim.value.as_ref(), rng)).collect();
            ("input_shapes", json!({ input.name.clone().unwrap_or_default(): shape }))
        }
        9 => ("int8", true.into()),
        _ => (pick(&FLAGS, rng).unwrap(), true.into()),
    }
}
