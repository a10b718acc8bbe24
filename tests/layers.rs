//! The tables of ncnn's layers, compared with its source.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use onnx2ncnn::ncnn::Net;
use onnx2ncnn::ncnn::layer::{Layer, Missing, Param, Storage};

/// Params that the converter leaves at their defaults: reduced precision, sizes derived from paddings,
/// layouts of the result, and caches.
const LEFT_OUT: [&str; 14] = [
    "int8_scale_term",
    "quantize_term",
    "output_w",
    "output_h",
    "output_d",
    "output_N1M",
    "output_elempack",
    "output_elemtype",
    "output_transpose",
    "constant_TILE_M",
    "constant_TILE_N",
    "constant_TILE_K",
    "load_type",
    "kv_cache",
];

/// The layer types by index: the order in ncnn's `src/CMakeLists.txt`, which releases only append to.
#[rustfmt::skip]
const LAYER_TYPES: [&str; 110] = [
    "AbsVal", "ArgMax", "BatchNorm", "Bias", "BNLL", "Concat", "Convolution", "Crop", "Deconvolution", "Dropout",
    "Eltwise", "ELU", "Embed", "Exp", "Flatten", "InnerProduct", "Input", "Log", "LRN", "MemoryData", "MVN",
    "Pooling", "Power", "PReLU", "Proposal", "Reduction", "ReLU", "Reshape", "ROIPooling", "Scale", "Sigmoid",
    "Slice", "Softmax", "Split", "SPP", "TanH", "Threshold", "Tile", "RNN", "LSTM", "BinaryOp", "UnaryOp",
    "ConvolutionDepthWise", "Padding", "Squeeze", "ExpandDims", "Normalize", "Permute", "PriorBox", "DetectionOutput",
    "Interp", "DeconvolutionDepthWise", "ShuffleChannel", "InstanceNorm", "Clip", "Reorg", "YoloDetectionOutput",
    "Quantize", "Dequantize", "Yolov3DetectionOutput", "PSROIPooling", "ROIAlign", "Packing", "Requantize", "Cast",
    "HardSigmoid", "SELU", "HardSwish", "Noop", "PixelShuffle", "DeepCopy", "Mish", "StatisticsPooling", "Swish",
    "Gemm", "GroupNorm", "LayerNorm", "Softplus", "GRU", "MultiHeadAttention", "GELU", "Convolution1D", "Pooling1D",
    "ConvolutionDepthWise1D", "Convolution3D", "ConvolutionDepthWise3D", "Pooling3D", "MatMul", "Deconvolution1D",
    "DeconvolutionDepthWise1D", "Deconvolution3D", "DeconvolutionDepthWise3D", "Einsum", "DeformableConv2D", "GLU",
    "Fold", "Unfold", "GridSample", "CumulativeSum", "CopyTo", "Erf", "Diag", "CELU", "Shrink", "RMSNorm",
    "Spectrogram", "InverseSpectrogram", "Flip", "SDPA", "RotaryEmbed",
];

/// For each `layer`: `number name default` of its params and `number name storage` of its weights.
type Facts = BTreeMap<String, BTreeMap<(String, String), (String, String)>>;

fn facts() -> Facts {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ncnn_layers.tsv");
    let mut facts = Facts::new();
    for line in std::fs::read_to_string(path).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let [layer, kind, number, name, value] = line.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{line}")
        };
        let entry = facts.entry(layer.to_owned()).or_default();
        if kind != "none" {
            entry.insert((kind.to_owned(), number.to_owned()), (name.to_owned(), value.to_owned()));
        }
    }
    facts
}

fn agrees(missing: &Missing, fact: &str) -> bool {
    match missing {
        Missing::Value(Param::Int(value)) => fact.parse() == Ok(*value),
        Missing::Value(Param::Float(value)) => fact.parse() == Ok(*value),
        Missing::Value(Param::Ints(values)) => fact == "[]" && values.is_empty(),
        Missing::Value(Param::Floats(values)) => fact == "[]" && values.is_empty(),
        Missing::Value(Param::Text(text)) => fact == "\"\"" && text.is_empty(),
        Missing::SameAs(name) => fact == *name,
        Missing::Other => fact.contains('/'),
    }
}

#[test]
fn all_layers_of_ncnn_have_a_table() {
    let tables: BTreeSet<&str> = Layer::tables().into_iter().map(|table| table.type_name).collect();
    assert_eq!(tables, BTreeSet::from(LAYER_TYPES));
    let error = Net::read(b"7767517\n1 1\nNoSuchLayer l 0 1 x\n", Vec::new().into()).unwrap_err();
    assert!(error.to_string().contains("is not known"), "{error}");
}

#[test]
fn layers_match_the_runtime() {
    let facts = facts();
    let mut wrong = Vec::new();
    for layer in Layer::tables() {
        let name = layer.type_name;
        let Some(known) = facts.get(name) else {
            wrong.push(format!("{name} is no layer of ncnn"));
            continue;
        };
        let mut left = known.clone();
        // `net.cpp` reads params of every layer, which are in no layer's source.
        for param in layer.params.iter().filter(|param| (param.id, param.name) != (31, "featmask")) {
            match left.remove(&("param".into(), param.id.to_string())) {
                // `type` and an element of an array cannot be names of fields in Rust.
                Some((fact, default))
                    if fact.replace('[', "_").replace(']', "") == param.name.trim_end_matches('_')
                        && agrees(&param.missing, &default) => {}
                fact => wrong.push(format!("{name} {param:?}: {fact:?}")),
            }
        }
        for (number, (weight, storage)) in layer.weights.iter().enumerate() {
            let storage = if *storage == Storage::Tagged { "tagged" } else { "raw" };
            match left.remove(&("weight".into(), number.to_string())) {
                Some(fact) if fact == (weight.to_string(), storage.to_owned()) => {}
                fact => wrong.push(format!("{name} {number} {weight} {storage}: {fact:?}")),
            }
        }
        wrong.extend(
            left.iter()
                .filter(|(_, (fact, _))| !LEFT_OUT.contains(&fact.as_str()))
                .map(|fact| format!("{name} lacks {fact:?}")),
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Returns a layer with a new feature of a release: the layer itself, a param or an operation; `None` if the
/// converter does not use it.
fn newer(layer: &str, what: &str) -> Option<Layer> {
    use onnx2ncnn::ncnn::layer::*;
    let text = || "0w".to_owned();
    Some(match (layer, what.split_once('=')) {
        ("BinaryOp", Some((_, op))) => {
            BinaryOp { op_type: op.parse().unwrap(), ..BinaryOp::default() }.into()
        }
        ("UnaryOp", Some((_, op))) => UnaryOp { op_type: op.parse().unwrap() }.into(),
        _ => match (layer, what) {
            ("Crop", "19") => Crop { starts_expr: text(), ..Crop::default() }.into(),
            ("Crop", "20") => Crop { ends_expr: text(), ..Crop::default() }.into(),
            ("Crop", "21") => Crop { axes_expr: text(), ..Crop::default() }.into(),
            ("Interp", "9") => Interp { size_expr: text(), ..Interp::default() }.into(),
            ("Reshape", "12") => Reshape { input_batch_axis: 0, ..Reshape::default() }.into(),
            ("Reshape", "13") => Reshape { output_batch_axis: 0, ..Reshape::default() }.into(),
            ("Reshape", "6") => Reshape { shape_expr: text(), ..Reshape::default() }.into(),
            ("MultiHeadAttention", "6") => MultiHeadAttention {
                embed_dim: 8,
                num_heads: 2,
                scale: 0.25,
                ..MultiHeadAttention::default()
            }
            .into(),
            ("Gemm", "18") => Gemm { quantize_term: 2, ..Gemm::default() }.into(),
            ("Gemm", "18=400") => Gemm { quantize_term: 400, ..Gemm::default() }.into(),
            ("Embed", "18") => {
                let scale = onnx2ncnn::tensor::Tensor::from_f32(&[1], vec![1.0]).unwrap();
                Embed { weight_data_int8_scale: Some(scale), ..Embed::default() }.into()
            }
            ("Flip", "-") => Flip::default().into(),
            ("Spectrogram", "-") => Spectrogram::default().into(),
            ("InverseSpectrogram", "-") => InverseSpectrogram::default().into(),
            ("RMSNorm", "-") => RMSNorm::default().into(),
            ("RotaryEmbed", "-") => RotaryEmbed::default().into(),
            ("SDPA", "-") => SDPA::default().into(),
            _ => return None,
        },
    })
}

#[test]
fn features_of_releases_are_known() {
    let known = facts();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/ncnn_since.tsv");
    let mut wrong = Vec::new();
    for line in std::fs::read_to_string(path).unwrap().lines().filter(|line| !line.starts_with('#')) {
        let [layer, what, release] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let Some(newer) = newer(layer, what) else {
            let param = known[layer].get(&("param".to_owned(), what.to_owned()));
            if !param.is_some_and(|(name, _)| LEFT_OUT.contains(&name.as_str())) {
                wrong.push(format!("{line}: not looked at"));
            }
            continue;
        };
        if newer.since() != release.parse::<u32>().unwrap() {
            wrong.push(format!("{line}: taken for {}", newer.since()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn types_are_numbered_in_the_order_of_the_source() {
    for table in Layer::tables() {
        let index = LAYER_TYPES.iter().position(|name| *name == table.type_name);
        assert_eq!(index, usize::try_from(table.index).ok(), "{}", table.type_name);
    }
}
