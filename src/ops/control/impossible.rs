//! Operators that ncnn cannot express: each is refused with its reason and the advice to cut the graph before
//! it.
//!
//! Spec: <https://onnx.ai/onnx/operators/>.

use crate::error::ErrorCode;
use crate::op::{CONTRIB_DOMAIN as MICROSOFT, find};
use crate::ops::prelude::*;

/// The domain of convolutions over blocks of channels.
const BLOCKS: &str = "com.microsoft.nchwc";
/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

const BLOCKED_CHANNELS: &str = "its weights are in blocks of channels, whose size depends on the processor; \
                                save the model with the optimization level extended (ORT_ENABLE_EXTENDED)";
const BUFFERS: &str =
    "its state is a buffer, which it overwrites; export a decoder whose states are inputs and outputs";
const CLASSES: &str = "its classes are labels, and ncnn has no layer that looks up labels";
const COMPILED: &str = "it is compiled for one device; convert the model from which it was compiled";
const COMPRESSED_IMAGE: &str = "ncnn has no layer that decodes images; decode them before running the net";
const GENERATION: &str =
    "it repeats a decoder until a token ends the text; convert the decoder, and call it in a loop";
const GRADIENT: &str = "it differentiates the graph, which is for training; export the model for inference";
const RAGGED: &str =
    "sequences of different lengths follow each other in one tensor; export the model without packing";
const SPARSE_KEYS: &str = "attention to blocks of keys that a sparse layout selects for each head: ncnn's \
                           attention has no such layout, and a dense mask of it is not implemented";
const SUPPORT_VECTORS: &str = "ncnn has no layer for support vectors";
const TEXT: &str = "it processes text or maps; ncnn has only numeric tensors";
const UNKNOWN_SIZE: &str =
    "the size of its output depends on the elements of its input; ncnn has no layer for that";

pub(in crate::ops) const OPS: &[Row] = &[
    refused("", "ImageDecoder", COMPRESSED_IMAGE),
    refused("", "NonMaxSuppression", UNKNOWN_SIZE),
    refused("", "RegexFullMatch", TEXT),
    refused("", "StringConcat", TEXT),
    refused("", "StringNormalizer", TEXT),
    refused("", "StringSplit", TEXT),
    refused("", "Unique", UNKNOWN_SIZE),
    refused(MICROSOFT, "BeamSearch", GENERATION),
    refused(MICROSOFT, "BifurcationDetector", UNKNOWN_SIZE),
    refused(MICROSOFT, "DecoderMaskedSelfAttention", BUFFERS),
    refused(MICROSOFT, "EPContext", COMPILED),
    refused(MICROSOFT, "GreedySearch", GENERATION),
    refused(MICROSOFT, "PackedAttention", RAGGED),
    refused(MICROSOFT, "PackedMultiHeadAttention", RAGGED),
    refused(MICROSOFT, "PagedAttention", RAGGED),
    refused(MICROSOFT, "RemovePadding", RAGGED),
    refused(MICROSOFT, "RestorePadding", RAGGED),
    refused(MICROSOFT, "Sampling", GENERATION),
    refused(MICROSOFT, "SparseAttention", SPARSE_KEYS),
    refused(MICROSOFT, "Tokenizer", TEXT),
    refused(MICROSOFT, "Unique", UNKNOWN_SIZE),
    refused(MICROSOFT, "WhisperBeamSearch", GENERATION),
    refused(BLOCKS, "AveragePool", BLOCKED_CHANNELS),
    refused(BLOCKS, "Conv", BLOCKED_CHANNELS),
    refused(BLOCKS, "GlobalAveragePool", BLOCKED_CHANNELS),
    refused(BLOCKS, "GlobalMaxPool", BLOCKED_CHANNELS),
    refused(BLOCKS, "MaxPool", BLOCKED_CHANNELS),
    refused(BLOCKS, "ReorderInput", BLOCKED_CHANNELS),
    refused(BLOCKS, "ReorderOutput", BLOCKED_CHANNELS),
    refused(BLOCKS, "Upsample", BLOCKED_CHANNELS),
    refused(ML, "CastMap", TEXT),
    refused(ML, "CategoryMapper", TEXT),
    refused(ML, "DictVectorizer", TEXT),
    // The values after it are known where the graph is cut.
    Row::of(ML, "LabelEncoder", Access::Any, infer_labels).expand(refuse_node).limits(TEXT),
    refused(ML, "LinearClassifier", CLASSES),
    refused(ML, "OneHotEncoder", CLASSES),
    refused(ML, "SVMClassifier", SUPPORT_VECTORS),
    refused(ML, "SVMRegressor", SUPPORT_VECTORS),
    refused(ML, "ZipMap", TEXT),
    refused("ai.onnx.preview.training", "Gradient", GRADIENT),
];

const fn refused(domain: &'static str, name: &'static str, reason: &'static str) -> Row {
    Row::of(domain, name, Access::Any, refuse).limits(reason)
}

fn infer_labels(call: &Call) -> Result<Vec<Fact>> {
    let given = |name| call.node().attributes.get(name).is_some();
    let dtype = match call.since() {
        1 if call.dtype(0)? == DType::String => DType::I64,
        4.. if given("values_tensor") => call.tensor("values_tensor")?.dtype(),
        2.. if given("values_int64s") => DType::I64,
        2.. if given("values_floats") => DType::F32,
        _ => DType::String,
    };
    Ok(vec![Fact::new(dtype, call.shape(0)?.to_vec())])
}

fn refuse_node(x: &Expand) -> Result<bool> {
    refuse(x).map(|_| false)
}

fn refuse(call: &Call) -> Result<Vec<Fact>> {
    let reason = find(call.node()).map_or("", |op| op.limits);
    let error = Error::unsupported(reason);
    Err(match reason {
        UNKNOWN_SIZE => error.code_is(ErrorCode::UNKNOWN_SHAPE),
        TEXT => error.code_is(ErrorCode::NO_NUMBERS),
        _ => error,
    })
}
