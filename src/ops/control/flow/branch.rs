//! If: inlines the branch of a constant condition; else computes both branches and selects with Where.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__If.html>

use smallvec::smallvec;

use super::unroll::{MAX_VIEWS, is_true};
use crate::error::ErrorKind;
use crate::graph::{Capture, DeferredErrors, Value};
use crate::op::{self, NEWEST_OPSET};
use crate::ops::elementwise::compare::nan_input;
use crate::ops::prelude::*;
use crate::pass::infer;
use crate::pass::pattern::number;

/// Returns the branch of a condition that is constant, or that the reading of the model decides.
fn taken<'a>(call: &Call<'a>) -> Result<Option<&'a Graph>> {
    let condition = match call.constant(0) {
        Some(constant) => Some(is_true(constant)?),
        None => squeezes(call)?,
    };
    let name = |condition| if condition { "then_branch" } else { "else_branch" };
    condition.map(|condition| call.body(name(condition))).transpose()
}

/// Returns whether an axis has one element, if the condition asks for that: torch removes an axis by
/// `squeeze` if it has one element, and keeps it otherwise. Requires the returned answer.
fn squeezes(call: &Call) -> Result<Option<bool>> {
    let (Some(squeezes), Some(size)) = (call.graph().squeezes, compared_with_one(call)) else {
        return Ok(None);
    };
    call.require(match squeezes {
        true => SizeCondition::equal(&size, &Dim::ONE),
        false => SizeCondition::at_least(&size, 2),
    })?;
    Ok(Some(squeezes))
}

/// Returns the size that the condition compares with 1.
fn compared_with_one(call: &Call) -> Option<Dim> {
    let graph = call.graph();
    let mut condition = call.node().input(0)?;
    for _ in 0..MAX_VIEWS {
        let node = graph.producer(condition)?;
        if node.is("Equal") {
            let (a, b) = (number(graph, node.input(0)?)?, number(graph, node.input(1)?)?);
            return if b.is(1) { Some(a) } else { Some(b).filter(|_| a.is(1)) };
        }
        let is_cast = node.is("Cast") || node.is("Identity");
        condition = node.input(0).filter(|_| is_cast).or_else(|| op::viewed(node))?;
    }
    None
}

fn branches<'a>(call: &Call<'a>) -> Result<[&'a Graph; 2]> {
    let branch = |name| call.body(name);
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
    let condition = compared_with_one(call).map_or_else(
        || "the condition is computed at run time".to_owned(),
        |size| format!("the condition is whether the free size {size} is 1"),
    );
    Err(Error::unsupported(format!(
        "ncnn has no control flow: {condition}, the branches give {then} and {otherwise}"
    )))
}

/// Returns a branch, or the body of a loop, with inferred values, and the errors of nodes that could not be
/// inferred.
pub(super) fn inferred(call: &Call, branch: &Graph) -> Result<(Graph, DeferredErrors)> {
    let mut body = branch.clone();
    body.budget = call.graph().budget.clone();
    body.budget.only_sizes = true;
    body.squeezes = call.graph().squeezes;
    call.graph().describe_captures(&mut body)?;
    // An error in a branch that is not taken is not an error of the model.
    let deferred = infer::infer_and_fold(&mut body).map_err(failed)?;
    Ok((body, deferred))
}

fn failed(error: Error) -> Error {
    match error.kind() {
        ErrorKind::Internal => error,
        _ => Error::unsupported("one of its branches cannot be computed").caused_by(error),
    }
}

/// Infers the outputs of a branch.
fn outputs_of(call: &Call, branch: &Graph) -> Result<Vec<Fact>> {
    let (body, mut deferred) = inferred(call, branch)?;
    let mut facts = Vec::with_capacity(body.outputs.len());
    for output in &body.outputs {
        let value = body.value(*output);
        match (value.dtype, &value.shape) {
            (Some(dtype), Some(shape)) if deferred.is_empty() => facts.push(Fact::new(dtype, shape.clone())),
            _ => {
                let unknown =
                    || Error::unsupported(format!("the type or shape of \"{}\" is not known", value.name));
                return Err(failed(deferred.pop_first().map_or_else(unknown, |(_, error)| error)));
            }
        }
    }
    Ok(facts)
}

/// Returns a branch in which operators that may make NaN read a harmless number if the branch is not taken:
/// NaN would pass through the selection.
fn guarded(x: &Expand, branch: &Graph, is_then: bool) -> Result<Graph> {
    let (mut body, _) = inferred(x, branch)?;
    let outer = x.node().input(0).ok_or_else(|| Error::invalid("input 0 is missing"))?;
    let condition = body.add_value(Value::default());
    body.captures.push(Capture { outer, inner: condition });
    let no_axes = body.add_constant("", Tensor::from_array(&Array::i64(ndarray::ArrayD::zeros(vec![0])))?);
    body.rewrite_nodes(|body, id| {
        let Some(mut node) = body.node(id).cloned() else { return Ok(None) };
        if node.bodies().any(may_make_nan) {
            unsupported!("ncnn has no control flow, and a nested branch may produce NaN");
        }
        let Some((index, number)) = nan_input(body, &node) else { return Ok(None) };
        let Some(input) = node.inputs.get_mut(index) else { return Ok(None) };
        let data = input.ok_or_else(|| Error::internal("a guarded input is missing"))?;
        let number = Tensor::from_array(&scalar_like(body, data, number)?)?;
        let number = body.add_constant("", number);
        let (scalar, chosen) = (body.add_value(Value::default()), body.add_value(Value::default()));
        *input = Some(chosen);
        let sides = if is_then { [scalar, data, number] } else { [scalar, number, data] };
        let made = |op_type: &str, inputs: &[ValueId], output| Node {
            op_type: op_type.into(),
            version: NEWEST_OPSET,
            inputs: inputs.iter().copied().map(Some).collect(),
            outputs: smallvec![Some(output)],
            ..Node::default()
        };
        Ok(Some(vec![made("Reshape", &[condition, no_axes], scalar), made("Where", &sides, chosen), node]))
    })?;
    Ok(body)
}

/// Returns whether a body has an operator that may make NaN.
fn may_make_nan(body: &Graph) -> bool {
    body.nodes().any(|(_, node)| nan_input(body, node).is_some() || node.bodies().any(may_make_nan))
}

fn display_facts(facts: &[Fact]) -> String {
    let display =
        |fact: &Fact| format!("{} {}", fact.dtype, display_shape(fact.shape.as_deref().unwrap_or_default()));
    facts.iter().map(display).collect::<Vec<_>>().join(", ")
}

pub(super) fn inline_if(x: &Expand) -> Result<bool> {
    let Some(taken) = taken(x)? else { return Ok(false) };
    for (index, output) in x.make.inline(taken, &[])?.into_iter().enumerate() {
        x.output(index, output);
    }
    Ok(true)
}

pub(super) fn expand_if(x: &Expand) -> Result<bool> {
    if inline_if(x)? {
        return Ok(true);
    }
    let [then, otherwise] = branches(x)?;
    let (then, otherwise) = (guarded(x, then, true)?, guarded(x, otherwise, false)?);
    let (then, otherwise) = (x.make.inline(&then, &[])?, x.make.inline(&otherwise, &[])?);
    let condition = x.operand(0).scalar();
    for (index, (then, otherwise)) in then.into_iter().zip(otherwise).enumerate() {
        x.output(index, condition.select(then, otherwise));
    }
    Ok(true)
}

/// Returns a scalar of the type of `value`.
fn scalar_like(graph: &Graph, value: ValueId, number: f32) -> Result<Array> {
    let scalar = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number));
    match graph.value(value).dtype {
        Some(dtype) => scalar.cast(dtype),
        None => Ok(scalar),
    }
}
