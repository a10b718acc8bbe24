//! Operators that ncnn cannot express: each is refused with its reason and the advice to cut the graph before
//! it.
//!
//! Spec: <https://onnx.ai/onnx/operators/>.

use crate::error::{Error, ErrorCode, Result};
use crate::op::{Access, CUT, Call, Fact, find};
use crate::ops::Row;

/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

const CLASSES: &str = "its classes are labels, and ncnn has no layer that looks up labels";
const COMPRESSED_IMAGE: &str = "ncnn has no layer that decodes images; decode them before running the net";
const GRADIENT: &str = "it differentiates the graph, which is for training; export the model for inference";
const SUPPORT_VECTORS: &str = "ncnn has no layer for support vectors";
const TEXT: &str = "it processes text or maps; ncnn has only numeric tensors";
const TREES: &str = "ncnn has no layer for decision trees";
const UNKNOWN_SIZE: &str =
    "the size of its output depends on the elements of its input; ncnn has no layer for that";

pub(in crate::ops) const OPS: &[Row] = &[
    refused("ImageDecoder", &[20], COMPRESSED_IMAGE),
    refused("NonMaxSuppression", &[10, 11], UNKNOWN_SIZE),
    refused("RegexFullMatch", &[20], TEXT),
    refused("StringConcat", &[20], TEXT),
    refused("StringNormalizer", &[10], TEXT),
    refused("StringSplit", &[20], TEXT),
    refused("Unique", &[11, 28], UNKNOWN_SIZE),
    refused("CastMap", &[1], TEXT).domain(ML),
    refused("CategoryMapper", &[1], TEXT).domain(ML),
    refused("DictVectorizer", &[1], TEXT).domain(ML),
    refused("LabelEncoder", &[1, 2, 4], TEXT).domain(ML),
    refused("LinearClassifier", &[1], CLASSES).domain(ML),
    refused("OneHotEncoder", &[1], CLASSES).domain(ML),
    refused("SVMClassifier", &[1], SUPPORT_VECTORS).domain(ML),
    refused("SVMRegressor", &[1], SUPPORT_VECTORS).domain(ML),
    refused("TreeEnsembleClassifier", &[1, 3, 5], TREES).domain(ML),
    refused("TreeEnsembleRegressor", &[1, 3, 5], TREES).domain(ML),
    refused("ZipMap", &[1], TEXT).domain(ML),
    refused("Gradient", &[1], GRADIENT).domain("ai.onnx.preview.training"),
];

const fn refused(name: &'static str, since: &'static [i64], reason: &'static str) -> Row {
    Row::new(name, since, Access::Any, refuse).limits(reason)
}

fn refuse(call: &Call) -> Result<Vec<Fact>> {
    let reason = find(call.node()).map_or("", |op| op.limits);
    let error = Error::unsupported(reason).help(CUT);
    Err(match reason {
        UNKNOWN_SIZE => error.code_is(ErrorCode::UNKNOWN_SHAPE),
        TEXT => error.code_is(ErrorCode::NO_NUMBERS),
        _ => error,
    })
}
