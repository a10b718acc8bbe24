//! Support vector machines: the kernel of each row with each vector, and a matrix product.
//!
//! A classifier compares its classes in pairs: the sum of a pair is a vote for its first class, if it is
//! positive, or else for its second. Where the specification leaves the scores open, they are the scores of
//! onnxruntime (`svmclassifier.cc`).
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_SVMClassifier.html>,
//! `onnx_aionnxml_SVMRegressor.html`.

use ndarray::ArrayD;
use num_traits::AsPrimitive;

use super::DOMAIN;
use super::classes::{Labels, first_largest, refuse_transform, transformed};
use super::matrix::matrix;
use crate::ops::prelude::*;

const LOWERS_TO: &str = "MatMul or ReduceSum, the function of the kernel, MatMul, Add";

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(DOMAIN, "SVMClassifier", expand_classifier)
        .lowers_to(LOWERS_TO)
        .limits(
            "labels that are text, unless nothing reads the label; probabilities (`prob_a`), which runtimes \
            approach by iteration; a machine without vectors; the transforms SOFTMAX_ZERO and PROBIT, and SOFTMAX \
            of two classes",
        ),
    Row::defined(DOMAIN, "SVMRegressor", expand_regressor)
        .lowers_to(LOWERS_TO)
        .limits("a post_transform; a machine without vectors"),
];

/// The number of columns of the input: of free ones, no machine has vectors.
fn columns(call: &Call) -> Result<usize> {
    match call.shape(0)? {
        [_, columns] => match columns.known() {
            Some(columns) => Ok(usize::try_from(columns)?),
            None => unsupported!("{columns} columns"),
        },
        _ => invalid!("the input is not a matrix"),
    }
}

fn numbers(call: &Call, name: &str) -> Result<Vec<f32>> {
    Ok(call.optional_floats(name)?.unwrap_or_default())
}

/// Returns the kernel of each row of the input with each of the support vectors.
fn kernels<'x>(x: &'x Expand, count: usize) -> Result<Expr<'x>> {
    let width = columns(x)?;
    let vectors = numbers(x, "support_vectors")?;
    if count == 0 {
        unsupported!("a machine without vectors");
    }
    if count.checked_mul(width) != Some(vectors.len()) {
        invalid!("{} numbers for {count} vectors of {width}", vectors.len());
    }
    if vectors.len() > limits::MATRIX_ELEMENTS {
        unsupported!("{count} vectors of {width} numbers");
    }
    let vectors = Array::f32(ArrayD::from_shape_vec(vec![count, width], vectors)?);
    let params = numbers(x, "kernel_params")?;
    let [gamma, offset, degree] = [0, 1, 2].map(|index| params.get(index).copied().unwrap_or_default());
    let data = x.operand_as(0, DType::F32);
    if x.string("kernel_type")? == "RBF" {
        // The sum of squared differences: as a difference of products it would lose the digits of large
        // features.
        let differences = data.unsqueeze(&[1]) - x.make.literal(&vectors);
        return Ok((differences.reduce("ReduceSumSquare", &[2], false) * -gamma).exp());
    }
    let products = data.matmul(x.make.literal(&vectors.transpose(&[1, 0])?));
    Ok(match x.string("kernel_type")? {
        "LINEAR" => products,
        "POLY" => (products * gamma + offset).pow(x.make.number(degree, DType::F32)),
        "SIGMOID" => (products * gamma + offset).tanh(),
        other => unsupported!("kernel_type \"{other}\""),
    })
}

fn expand_regressor<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    refuse_transform(x)?;
    let count = usize::try_from(x.int("n_supports")?)?;
    let (coefficients, rho) = (numbers(x, "coefficients")?, numbers(x, "rho")?);
    if coefficients.len() != count {
        invalid!("{} coefficients of {count} vectors", coefficients.len());
    }
    let weight = Array::f32(ArrayD::from_shape_vec(vec![count, 1], coefficients)?);
    let sums = kernels(x, count)?.matmul(x.make.literal(&weight)) + *rho.at(0)?;
    Ok(if x.flag("one_class")? {
        sums.greater(0.0).select(1.0, x.make.number(-1.0, DType::F32))
    } else {
        sums
    })
}

/// The pairs of classes, the first before the second.
fn pairs(classes: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..classes).flat_map(move |first| (first + 1..classes).map(move |second| (first, second)))
}

/// Returns a column for each pair of classes: the term of each vector in its sum.
fn shares<'x>(x: &'x Expand, ends: &[usize], count: usize) -> Result<Expr<'x>> {
    let coefficients = numbers(x, "coefficients")?;
    let (mut cells, mut columns) = (Vec::new(), 0);
    for (first, second) in pairs(ends.len()) {
        // The rows of a vector's coefficients are the other classes.
        for (class, row) in [(first, second - 1), (second, first)] {
            let start = class.checked_sub(1).map_or(Ok(0), |before| ends.at(before).copied())?;
            for vector in start..*ends.at(class)? {
                cells.push((vector, columns, *coefficients.at(row * count + vector)?));
            }
        }
        columns += 1;
    }
    matrix(&x.make, count, columns, &cells)
}

fn expand_classifier(x: &Expand) -> Result<bool> {
    let labels = Labels::read(x, "classlabels_ints")?;
    if !numbers(x, "prob_a")?.is_empty() {
        unsupported!("probabilities of the classes, which runtimes approach by iteration");
    }
    let (mut count, mut ends) = (0_usize, Vec::new());
    for size in x.optional_ints("vectors_per_class")?.unwrap_or_default() {
        count = count.saturating_add(usize::try_from(size)?);
        ends.push(count);
    }
    let classes = usize::try_from(labels.count)?;
    if classes < 2 || ends.len() != classes {
        unsupported!("vectors of {} classes for {classes} labels", ends.len());
    }
    let rho = numbers(x, "rho")?;
    if rho.len() != classes.saturating_mul(classes - 1) / 2 {
        invalid!("{} numbers rho for the pairs of {classes} classes", rho.len());
    }
    let sums = kernels(x, count)?.matmul(shares(x, &ends, count)?) + x.make.floats(&rho);
    let mut votes = Vec::new();
    for (pair, (first, second)) in pairs(classes).enumerate() {
        votes.extend([(pair, first, 1.0), (pair, second, -1.0)]);
    }
    // A class is the second of as many pairs as classes precede it.
    let otherwise: Vec<f32> = (0..classes).map(|class| class.as_()).collect();
    let won = sums.greater(0.0).cast(DType::F32);
    let votes = won.matmul(matrix(&x.make, rho.len(), classes, &votes)?) + x.make.floats(&otherwise);
    labels.give(x, first_largest(votes));
    if classes > 2 {
        x.output(1, transformed(x, sums)?);
        return Ok(true);
    }
    if x.string("post_transform")? == "SOFTMAX" {
        unsupported!("post_transform \"SOFTMAX\" of two classes");
    }
    x.output(1, transformed(x, x.make.concat(&[-sums, sums], 1))?);
    Ok(true)
}
