//! If: the branch that is taken, where that is known; else both are computed, and one is chosen.
//!
//! <https://onnx.ai/onnx/operators/onnx__If.html>

use crate::error::{Error, ErrorKind, Result, unsupported};
use crate::graph::Graph;
use crate::ops::{Call, Fact, required};
use crate::pass::expand::Expand;
use crate::pass::infer;
use crate::tensor::display_shape;

/// The body that a constant condition takes.
fn taken<'a>(call: &Call<'a>) -> Result<Option<&'a Graph>> {
    let Some(condition) = call.constant(0) else { return Ok(None) };
    let name = if condition.load_listed()?.scalar_i64()? != 0 { "then_branch" } else { "else_branch" };
    required(call.body(name)?, name).map(Some)
}

fn branches<'a>(call: &Call<'a>) -> Result<[&'a Graph; 2]> {
    let branch = |name| required(call.body(name)?, name);
    Ok([branch("then_branch")?, branch("else_branch")?])
}

pub(super) fn infer_if(call: &Call) -> Result<Vec<Fact>> {
    let [then, otherwise] = branches(call)?;
    if let Some(taken) = taken(call)? {
        return outputs_of(call, taken);
    }
    let (then, otherwise) = (outputs_of(call, then)?, outputs_of(call, otherwise)?);
    let same = |(a, b): (&Fact, &Fact)| a.dtype == b.dtype && a.shape.is_some() && a.shape == b.shape;
    if then.len() == otherwise.len() && then.iter().zip(&otherwise).all(same) {
        return Ok(then);
    }
    let (then, otherwise) = (display_facts(&then), display_facts(&otherwise));
    unsupported!(
        "the condition is computed at run time, and gives {then} or {otherwise}; ncnn has no control flow"
    )
}

/// What is known of the outputs of a branch.
fn outputs_of(call: &Call, branch: &Graph) -> Result<Vec<Fact>> {
    let mut body = branch.clone();
    body.budget.sizes_alone = true;
    for capture in &branch.captures {
        let outer = call.graph().value(capture.outer);
        let inner = body.value_mut(capture.inner)?;
        (inner.dtype, inner.shape) = (outer.dtype, outer.shape.clone());
        (inner.constant, inner.elements) = (outer.constant.clone(), outer.elements.clone());
    }
    // A branch that is not taken may be one that cannot be computed: that is no error of the model.
    let failed = |error: Error| match error.kind() {
        ErrorKind::Internal => error,
        _ => Error::unsupported("one of its branches cannot be computed").caused_by(error),
    };
    let mut doubts = infer::infer_and_fold(&mut body).map_err(failed)?;
    let mut facts = Vec::with_capacity(body.outputs.len());
    for output in &body.outputs {
        let value = body.value(*output);
        match (value.dtype, &value.shape) {
            (Some(dtype), Some(shape)) if doubts.is_empty() => facts.push(Fact::new(dtype, shape.clone())),
            _ => {
                let unknown = || Error::unsupported(format!("nothing is known of \"{}\"", value.name));
                return Err(failed(doubts.pop_first().map_or_else(unknown, |(_, error)| error)));
            }
        }
    }
    Ok(facts)
}

fn display_facts(facts: &[Fact]) -> String {
    let shapes = facts
        .iter()
        .map(|fact| format!("{} {}", fact.dtype, display_shape(fact.shape.as_deref().unwrap_or_default())));
    shapes.collect::<Vec<_>>().join(", ")
}

pub(super) fn inline_if(x: &mut Expand) -> Result<bool> {
    let Some(taken) = taken(x)? else { return Ok(false) };
    for (index, output) in x.inline(taken, &[])?.into_iter().enumerate() {
        x.output(index, output)?;
    }
    Ok(true)
}

pub(super) fn expand_if(x: &mut Expand) -> Result<bool> {
    if inline_if(x)? {
        return Ok(true);
    }
    let [then, otherwise] = branches(x)?;
    let (then, otherwise) = (x.inline(then, &[])?, x.inline(otherwise, &[])?);
    let condition = x.operand(0)?;
    let condition = x.reshape(condition, &[])?;
    for (index, (then, otherwise)) in then.into_iter().zip(otherwise).enumerate() {
        let chosen = x.op("Where", &[condition, then, otherwise], &[])?;
        x.output(index, chosen)?;
    }
    Ok(true)
}
