//! Losses of class scores and labels.
//!
//! A score is selected where the class equals the label, then summed over the classes, negated and weighted.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html>,
//! `onnx__SoftmaxCrossEntropyLoss.html`.

use ndarray::ArrayD;

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Access, Call, Fact};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, Dim};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("NegativeLogLikelihoodLoss", &[12, 13, 22], Access::Any, infer_loss)
        .expand(expand_likelihood)
        .lowers_to("Equal with a ramp of classes, Where, ReduceSum, Mul")
        .limits("a free number of classes"),
    Row::new("SoftmaxCrossEntropyLoss", &[12, 13], Access::Any, infer_cross_entropy)
        .expand(expand_cross_entropy)
        .lowers_to("LogSoftmax, then as for NegativeLogLikelihoodLoss")
        .limits("a free number of classes"),
];

/// The reduction over all samples.
#[derive(Clone, Copy, PartialEq)]
enum Reduction {
    None,
    Sum,
    Mean,
}

struct Loss {
    reduction: Reduction,
    ignore_index: Option<i64>,
}

fn read_loss(call: &Call) -> Result<Loss> {
    let reduction = match call.string_or("reduction", "mean")? {
        "none" => Reduction::None,
        "sum" => Reduction::Sum,
        "mean" => Reduction::Mean,
        other => return Err(Error::invalid(format!("\"{other}\"")).at_part("attribute reduction")),
    };
    Ok(Loss { reduction, ignore_index: call.int("ignore_index")? })
}

/// Returns the sizes of the samples: those of the scores without the classes.
fn sample_shape(call: &Call) -> Result<Vec<Dim>> {
    let mut shape = call.shape(0)?.to_vec();
    if shape.len() < 2 {
        invalid!("scores of {} axes, where they have a batch and classes", shape.len());
    }
    shape.remove(1);
    Ok(shape)
}

fn infer_loss(call: &Call) -> Result<Vec<Fact>> {
    let samples = sample_shape(call)?;
    call.check_shape(1, &samples)?;
    call.check_shape(2, std::slice::from_ref(call.shape(0)?.at(1)?))?;
    let shape = match read_loss(call)?.reduction {
        Reduction::None => samples,
        Reduction::Sum | Reduction::Mean => Vec::new(),
    };
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn infer_cross_entropy(call: &Call) -> Result<Vec<Fact>> {
    let mut facts = infer_loss(call)?;
    facts.push(call.like(0, call.dtype(0)?)?);
    Ok(facts)
}

fn expand_likelihood(x: &Expand) -> Result<bool> {
    let scores = x.raw_operand(0)?;
    let loss = loss(x, scores)?;
    x.raw_output(0, loss)?;
    Ok(true)
}

fn expand_cross_entropy(x: &Expand) -> Result<bool> {
    let scores = x.raw_operand(0)?;
    let scores = x.raw_op("LogSoftmax", &[scores], &[("axis", Attribute::Int(1))])?;
    if x.has_output(0) {
        let loss = loss(x, scores)?;
        x.raw_output(0, loss)?;
    }
    x.raw_output(1, scores)?;
    Ok(true)
}

/// Returns the shape of a list along the classes, broadcast to the scores.
fn class_shape(rank: usize, classes: i64) -> Vec<i64> {
    let mut shape = vec![1; rank];
    if let Some(size) = shape.get_mut(1) {
        *size = classes;
    }
    shape
}

/// Emits whether the label of a sample is the class. An ignored label need not be a class.
fn one_hot(x: &Expand, loss: &Loss) -> Result<Operand> {
    let rank = x.shape(0)?.len();
    let Some(classes) = x.shape(0)?.at(1)?.known() else {
        unsupported!("a free number of classes");
    };
    // The ignored label is replaced by a number that is not a class.
    let ramp = (0..classes).map(|class| if Some(class) == loss.ignore_index { classes } else { class });
    let shape = class_shape(rank, classes)
        .into_iter()
        .map(usize::try_from)
        .collect::<std::result::Result<Vec<_>, _>>()?;
    let ramp = Array::i64(ArrayD::from_shape_vec(shape, ramp.collect())?).cast(x.dtype(1)?)?;
    let (labels, axes, ramp) = (x.raw_operand(1)?, x.raw_ints(&[1])?, x.raw_literal(&ramp)?);
    let labels = x.raw_op("Unsqueeze", &[labels, axes], &[])?;
    x.raw_op("Equal", &[labels, ramp], &[])
}

/// Emits `values` at the class of each sample, 0 if it is ignored. By Where, not by a product: scores may be
/// infinite.
fn chosen(x: &Expand, one_hot: Operand, values: Operand) -> Result<Operand> {
    let (zero, axes) = (x.raw_scalar_like(0, 0.0)?, x.raw_ints(&[1])?);
    let chosen = x.raw_op("Where", &[one_hot, values, zero], &[])?;
    x.raw_op("ReduceSum", &[chosen, axes], &[("keepdims", Attribute::Int(0))])
}

fn sum(x: &Expand, operand: Operand) -> Result<Operand> {
    x.raw_op("ReduceSum", &[operand], &[("keepdims", Attribute::Int(0))])
}

fn loss(x: &Expand, scores: Operand) -> Result<Operand> {
    let loss = read_loss(x)?;
    let one_hot = one_hot(x, &loss)?;
    let chosen_score = chosen(x, one_hot, scores)?;
    let mut result = x.raw_op("Neg", &[chosen_score], &[])?;
    let weights = if x.has_input(2) {
        let (rank, weights) = (x.shape(0)?.len(), x.raw_operand(2)?);
        let weights = x.raw_reshape(weights, &class_shape(rank, -1))?;
        Some(chosen(x, one_hot, weights)?)
    } else if loss.ignore_index.is_some() && loss.reduction == Reduction::Mean {
        let one = x.raw_scalar_like(0, 1.0)?;
        Some(chosen(x, one_hot, one)?)
    } else {
        None
    };
    if let (Some(weights), true) = (weights, x.has_input(2)) {
        result = x.raw_op("Mul", &[result, weights], &[])?;
    }
    match (loss.reduction, weights) {
        (Reduction::None, _) => Ok(result),
        (Reduction::Sum, _) => sum(x, result),
        (Reduction::Mean, None) => x.raw_op("ReduceMean", &[result], &[("keepdims", Attribute::Int(0))]),
        (Reduction::Mean, Some(weights)) => {
            let (total, weight) = (sum(x, result)?, sum(x, weights)?);
            x.raw_op("Div", &[total, weight], &[])
        }
    }
}
