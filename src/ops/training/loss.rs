//! Losses of class scores and labels.
//!
//! A score is selected where the class equals the label, then summed over the classes, negated and weighted.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__NegativeLogLikelihoodLoss.html>,
//! `onnx__SoftmaxCrossEntropyLoss.html`.

use ndarray::Array1;

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("NegativeLogLikelihoodLoss", Access::Any, infer_loss)
        .formula(expand_likelihood)
        .lowers_to("Equal with a ramp of classes, Where, ReduceSum, Mul")
        .limits("a free number of classes"),
    Row::new("SoftmaxCrossEntropyLoss", Access::Any, infer_cross_entropy)
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
    let reductions = [("none", Reduction::None), ("sum", Reduction::Sum), ("mean", Reduction::Mean)];
    let reduction = call.word("reduction", &reductions)?;
    Ok(Loss { reduction, ignore_index: call.given_int("ignore_index")? })
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

fn expand_likelihood<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    loss(x, x.operand(0))
}

fn expand_cross_entropy(x: &Expand) -> Result<bool> {
    let scores = x.operand(0).apply("LogSoftmax", [("axis", 1.into())]);
    if x.has_output(0) {
        x.output(0, loss(x, scores)?);
    }
    x.output(1, scores);
    Ok(true)
}

/// Returns whether the label of a sample is the class. An ignored label need not be a class.
fn one_hot<'x>(x: &'x Expand, loss: &Loss) -> Result<Expr<'x>> {
    let Some(classes) = x.shape(0)?.at(1)?.known() else {
        unsupported!("a free number of classes");
    };
    // The ignored label is replaced by a number that is not a class.
    let ramp = (0..classes).map(|class| if Some(class) == loss.ignore_index { classes } else { class });
    let ramp = Array::i64(ramp.collect::<Array1<i64>>().into_dyn());
    let ramp = x.make.cast_literal(&ramp, x.dtype(1)?).along(1, x.shape(0)?.len());
    Ok(x.operand(1).unsqueeze(&[1]).equal(ramp))
}

/// Returns `values` at the class of each sample, 0 if it is ignored. By Where, not by a product: scores may
/// be infinite.
fn chosen<'x>(one_hot: Expr<'x>, values: Expr<'x>) -> Expr<'x> {
    one_hot.select(values, 0.0).reduce("ReduceSum", &[1], false)
}

fn loss<'x>(x: &'x Expand, scores: Expr<'x>) -> Result<Expr<'x>> {
    let loss = read_loss(x)?;
    let one_hot = one_hot(x, &loss)?;
    let mut result = -chosen(one_hot, scores);
    let mut weights = None;
    if let Some(given) = x.optional(2) {
        let given = chosen(one_hot, given.along(1, x.shape(0)?.len()));
        result = result * given;
        weights = Some(given);
    } else if loss.ignore_index.is_some() && loss.reduction == Reduction::Mean {
        weights = Some(chosen(one_hot, x.make.number(1.0, x.dtype(0)?)));
    }
    Ok(match (loss.reduction, weights) {
        (Reduction::None, _) => result,
        (Reduction::Sum, _) => result.reduce_all("ReduceSum"),
        (Reduction::Mean, None) => result.reduce_all("ReduceMean"),
        (Reduction::Mean, Some(weights)) => result.reduce_all("ReduceSum") / weights.reduce_all("ReduceSum"),
    })
}
