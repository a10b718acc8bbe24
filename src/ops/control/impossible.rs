//! Operators that ncnn cannot express: each is refused with its reason and the advice to cut the graph before
//! it.
//!
//! Spec: <https://onnx.ai/onnx/operators/>.

use crate::error::ErrorCode;
use crate::op::{CONTRIB_DOMAIN as MICROSOFT, find};
use crate::ops::indexing::unique::UNKNOWN_SIZE;
use crate::ops::prelude::*;

/// The domain of convolutions over blocks of channels.
const BLOCKS: &str = "com.microsoft.nchwc";
/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

const BLOCKED_CHANNELS: &str = "its weights are in blocks of channels, whose size depends on the processor; \
                                save the model with the optimization level extended (ORT_ENABLE_EXTENDED)";
const BUFFERS: &str =
    "its state is a buffer, which it overwrites; export a decoder whose states are inputs and outputs";
const COMPILED: &str = "it is compiled for one device; convert the model from which it was compiled";
const COMPRESSED_IMAGE: &str = "ncnn has no layer that decodes images; decode them before running the net";
const GENERATION: &str =
    "it repeats a decoder until a token ends the text; convert the decoder, and call it in a loop";
const GRADIENT: &str = "it differentiates the graph, which is for training; export the model for inference";
const RAGGED: &str =
    "sequences of different lengths follow each other in one tensor; export the model without packing";
const SPARSE_KEYS: &str = "attention to blocks of keys that a sparse layout selects for each head: ncnn's \
                           attention has no such layout, and a dense mask of it is not implemented";
const TEXT: &str = "it processes text or maps; ncnn has only numeric tensors";

pub(in crate::ops) const OPS: &[Row] = &[
    refused("", "ImageDecoder", COMPRESSED_IMAGE),
    refused("", "NonMaxSuppression", UNKNOWN_SIZE),
    refused("", "RegexFullMatch", TEXT),
    refused("", "StringConcat", TEXT),
    refused("", "StringNormalizer", TEXT),
    refused("", "StringSplit", TEXT),
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
    refused(ML, "ZipMap", TEXT),
    refused("ai.onnx.preview.training", "Gradient", GRADIENT),
];

const fn refused(domain: &'static str, name: &'static str, reason: &'static str) -> Row {
    Row::of(domain, name, Access::Any, refuse).limits(reason)
}

/// Returns the error of an operator that reads or gives text.
pub(in crate::ops) fn text() -> Error {
    Error::unsupported(TEXT).code_is(ErrorCode::NO_NUMBERS)
}

fn refuse(call: &Call) -> Result<Vec<Fact>> {
    let reason = find(call.node()).map_or("", |op| op.limits);
    Err(match reason {
        UNKNOWN_SIZE => Error::unsupported(reason).code_is(ErrorCode::UNKNOWN_SHAPE),
        TEXT => text(),
        _ => Error::unsupported(reason),
    })
}
