//! Operators that ncnn has no way to express: each is refused with its reason and the advice to cut the graph before it.
//!
//! | reason | operators |
//! | --- | --- |
//! | text | StringConcat, StringNormalizer, StringSplit, RegexFullMatch, and ai.onnx.ml's CastMap, CategoryMapper, DictVectorizer, LabelEncoder, ZipMap |
//! | the size of the output depends on elements | NonMaxSuppression, Unique |
//! | counts of n-grams | TfIdfVectorizer |
//! | compressed images | ImageDecoder |
//! | decision trees | TreeEnsemble, TreeEnsembleClassifier, TreeEnsembleRegressor |
//! | support vectors, labels of classes | SVMClassifier, SVMRegressor, LinearClassifier, OneHotEncoder |
//! | training | Gradient |
//!
//! Spec: <https://onnx.ai/onnx/operators/>.

use super::{CUT, Call, Fact, Op};
use crate::error::{Error, Result};

/// The domain of classical machine learning.
const ML: &str = "ai.onnx.ml";

pub(super) const OPS: &[Op] = &[
    Op::new("ImageDecoder", &[20], refuse_compressed_image),
    Op::new("NonMaxSuppression", &[10, 11], refuse_unknown_size),
    Op::new("RegexFullMatch", &[20], refuse_text),
    Op::new("StringConcat", &[20], refuse_text),
    Op::new("StringNormalizer", &[10], refuse_text),
    Op::new("StringSplit", &[20], refuse_text),
    Op::new("TfIdfVectorizer", &[9], refuse_n_grams),
    Op::new("Unique", &[11, 28], refuse_unknown_size),
    Op::new("CastMap", &[1], refuse_text).domain(ML),
    Op::new("CategoryMapper", &[1], refuse_text).domain(ML),
    Op::new("DictVectorizer", &[1], refuse_text).domain(ML),
    Op::new("LabelEncoder", &[1, 2, 4], refuse_text).domain(ML),
    Op::new("LinearClassifier", &[1], refuse_classes).domain(ML),
    Op::new("OneHotEncoder", &[1], refuse_classes).domain(ML),
    Op::new("SVMClassifier", &[1], refuse_support_vectors).domain(ML),
    Op::new("SVMRegressor", &[1], refuse_support_vectors).domain(ML),
    Op::new("TreeEnsemble", &[5], refuse_trees).domain(ML),
    Op::new("TreeEnsembleClassifier", &[1, 3, 5], refuse_trees).domain(ML),
    Op::new("TreeEnsembleRegressor", &[1, 3, 5], refuse_trees).domain(ML),
    Op::new("ZipMap", &[1], refuse_text).domain(ML),
    Op::new("Gradient", &[1], refuse_gradient).domain("ai.onnx.preview.training"),
];

fn refused<T>(reason: &str) -> Result<T> {
    Err(Error::unsupported(reason).help(CUT))
}

fn refuse_text(_: &Call) -> Result<Vec<Fact>> {
    refused("it works on text or on maps; ncnn has numbers alone")
}

fn refuse_unknown_size(_: &Call) -> Result<Vec<Fact>> {
    refused("the size of its output depends on the elements of its input; ncnn has no layer for that")
}

fn refuse_n_grams(_: &Call) -> Result<Vec<Fact>> {
    refused("ncnn has no layer that counts n-grams")
}

fn refuse_compressed_image(_: &Call) -> Result<Vec<Fact>> {
    refused("ncnn has no layer that decodes images; decode before the net runs")
}

fn refuse_trees(_: &Call) -> Result<Vec<Fact>> {
    refused("ncnn has no layer for decision trees")
}

fn refuse_support_vectors(_: &Call) -> Result<Vec<Fact>> {
    refused("ncnn has no layer for support vectors")
}

fn refuse_classes(_: &Call) -> Result<Vec<Fact>> {
    refused("its classes are labels, and ncnn has no layer that looks them up")
}

fn refuse_gradient(_: &Call) -> Result<Vec<Fact>> {
    refused("it differentiates the graph, which is for training; export the model for inference")
}
