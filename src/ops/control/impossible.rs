//! Operators that ncnn cannot express: each is refused with its reason and the advice to cut the graph before
//! it.
//!
//! Spec: <https://onnx.ai/onnx/operators/>.

use crate::error::{Error, ErrorCode, Result};
use crate::op::{Access, Call, Fact, find};
use crate::ops::Row;

/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

const COMPRESSED_IMAGE: &str = "ncnn has no layer that decodes images; decode them before running the net";
const GRADIENT: &str = "it differentiates the graph, which is for training; export the model for inference";
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
