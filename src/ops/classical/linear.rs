//! Linear models: a matrix product, and the classes of the largest scores.
//!
//! Where the specification leaves the scores of two classes open, they are the scores of onnxruntime
//! (`linearclassifier.cc`, `ml_common.h`).
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_LinearClassifier.html>,
//! `onnx_aionnxml_LinearRegressor.html`.

use ndarray::ArrayD;

use super::DOMAIN;
use super::classes::{Labels, exceeds, first_largest, transformed, transformed_pair};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(DOMAIN, "LinearClassifier", expand_classifier).lowers_to("MatMul, Add, ArgMax").limits(
        "labels that are text, unless nothing reads the label; other numbers of scores than of classes; the \
            transforms SOFTMAX_ZERO and PROBIT, and SOFTMAX of one score for two classes",
    ),
    Row::defined(DOMAIN, "LinearRegressor", expand_regressor)
        .lowers_to("MatMul, Add")
        .limits("a post_transform"),
];

/// A matrix of coefficients, and numbers that are added to the products.
struct Model {
    targets: i64,
    coefficients: Vec<f32>,
    intercepts: Option<Vec<f32>>,
}

impl Model {
    fn read(call: &Call, targets: i64) -> Result<Model> {
        let coefficients = call.optional_floats("coefficients")?.unwrap_or_default();
        let intercepts = call.optional_floats("intercepts")?.filter(|list| !list.is_empty());
        let columns = call.shape(0)?.last().and_then(Dim::known);
        let count = coefficients.len().int();
        if targets < 1
            || call.shape(0)?.len() != 2
            || columns != count.checked_div(targets)
            || count % targets != 0
        {
            unsupported!("{count} coefficients of {targets} targets do not fit the number of columns");
        }
        if intercepts.as_ref().is_some_and(|list| i64::try_from(list.len()) != Ok(targets)) {
            invalid!("the numbers of intercepts and targets differ");
        }
        Ok(Model { targets, coefficients, intercepts })
    }

    fn apply<'x>(self, x: &'x Expand) -> Result<Expr<'x>> {
        let targets = usize::try_from(self.targets)?;
        let shape = vec![targets, self.coefficients.len() / targets.max(1)];
        let weight = Array::f32(ArrayD::from_shape_vec(shape, self.coefficients)?).transpose(&[1, 0])?;
        let product = x.operand_as(0, DType::F32).matmul(x.make.literal(&weight));
        Ok(product.add_optional(self.intercepts.map(|list| x.make.floats(&list))))
    }
}

fn read_regressor(call: &Call) -> Result<Model> {
    match call.string("post_transform")? {
        "NONE" => {}
        other => unsupported!("post_transform {other}"),
    }
    Model::read(call, call.int("targets")?)
}

fn expand_regressor<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    read_regressor(x)?.apply(x)
}

fn read_classifier(call: &Call) -> Result<(Labels, Model)> {
    let labels = Labels::read(call, "classlabels_ints")?;
    let intercepts = call.optional_floats("intercepts")?.unwrap_or_default();
    // One score may decide between two classes; without intercepts each class has a score.
    let targets = if labels.count == 2 && intercepts.len() == 1 { 1 } else { labels.count };
    Ok((labels, Model::read(call, targets)?))
}

fn expand_classifier(x: &Expand) -> Result<bool> {
    let (labels, model) = read_classifier(x)?;
    let is_single = model.targets < labels.count;
    let scores = model.apply(x)?;
    let (class, scores) = if is_single {
        let pair = transformed_pair(x, || 1.0 - scores, scores)?;
        (exceeds(x, scores, 0.0), pair)
    } else {
        (first_largest(scores), transformed(x, scores)?)
    };
    labels.give(x, class);
    x.output(1, scores);
    Ok(true)
}
