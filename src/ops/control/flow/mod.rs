//! Constant control flow, and conditions whose branches can both be computed.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Loop.html>.

mod branch;
mod counter;
mod scan;

use crate::common::limits;
use crate::error::{Error, Result, unsupported};
use crate::graph::{Attribute, Graph, ValueId};
use crate::op::{Access, Call, Fact, required};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};
use branch::{expand_if, infer_if, inline_if};
use counter::Counter;
use scan::{infer_scan, inline_scan};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("If", &[1, 11, 13, 16, 19, 21, 23, 24, 25], Access::Any, infer_if)
        .variadic()
        .inline(inline_if)
        .expand(expand_if)
        .lowers_to("the branch of a constant condition; otherwise both branches, and Where")
        .limits("a condition computed at run time if the branches give different shapes"),
    Row::new("Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], Access::Any, infer_loop)
        .variadic()
        .unroll(inline_loop)
        .lowers_to("its body, once for each iteration")
        .limits("a number of iterations, or a condition, known only at run time"),
    Row::new("Scan", &[8, 9, 11, 16, 19, 21, 23, 24, 25], Access::Any, infer_scan)
        .variadic()
        .unroll(inline_scan)
        .lowers_to("its body, once for each element")
        .limits("lengths known only at run time"),
];

fn infer_loop(call: &Call) -> Result<Vec<Fact>> {
    required(call.body("body")?, "body")?;
    unsupported!("the number of iterations is known only at run time; ncnn has no control flow")
}

/// Returns whether output 0 of a loop's body, the condition to continue, is true whenever input 1 is.
fn goes_on(body: &Graph) -> Result<bool> {
    let (Some(mut id), Some(condition)) = (body.outputs.first().copied(), body.inputs.get(1).copied()) else {
        return Ok(false);
    };
    // The chain of Identity nodes is at most as long as the body.
    for _ in 0..=body.node_count() {
        if id == condition {
            return Ok(true);
        }
        if let Some(tensor) = &body.value(id).constant {
            return Ok(tensor.load_listed()?.scalar_i64()? != 0);
        }
        match source(body, id)? {
            Source::Value(next) => id = next,
            Source::Constant(value) => return Ok(value),
            Source::Other => return Ok(false),
        }
    }
    Ok(false)
}

enum Source {
    Value(ValueId),
    Constant(bool),
    Other,
}

fn source(body: &Graph, id: ValueId) -> Result<Source> {
    let Some(node) = body.value(id).producer.and_then(|producer| body.node(producer)) else {
        return Ok(Source::Other);
    };
    match (node.op_type.as_str(), node.inputs.first().copied().flatten(), node.attributes.get("value")) {
        ("Identity" | "Cast", Some(input), _) => Ok(Source::Value(input)),
        ("Constant", _, Some(Attribute::Tensor(tensor))) => {
            Ok(Source::Constant(tensor.load_listed()?.scalar_i64()? != 0))
        }
        _ => Ok(Source::Other),
    }
}

fn inline_loop(x: &mut Expand) -> Result<bool> {
    let body = required(x.body("body")?, "body")?;
    let rounds = if x.has_input(0) {
        let Some(count) = x.constant(0) else { return Ok(false) };
        count.load_listed()?.scalar_i64()?
    } else {
        i64::MAX
    };
    let starts = match (x.has_input(1), x.constant(1)) {
        (false, _) => true,
        (true, Some(condition)) => condition.load_listed()?.scalar_i64()? != 0,
        (true, None) => return Ok(false),
    };
    let rounds = match (starts, goes_on(body)?) {
        (false, _) => 0,
        (true, true) if rounds == i64::MAX => unsupported!("the loop does not end"),
        (true, true) => rounds,
        (true, false) => Counter::new(x, body)?.ok_or_else(undecided)?.rounds(rounds)?,
    };
    check_rounds(rounds, body)?;
    let carried_count = x.input_count().saturating_sub(2);
    let mut carried = (2..x.input_count()).map(|index| x.operand(index)).collect::<Result<Vec<_>>>()?;
    let mut scanned: Vec<Vec<Operand>> =
        vec![Vec::new(); body.outputs.len().saturating_sub(1 + carried_count)];
    for round in 0..rounds {
        let number = x.literal(&Array::i64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), round)))?;
        let yes = Array::i64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), 1)).cast(DType::Bool)?;
        let condition = x.literal(&yes)?;
        let inputs: Vec<Operand> = [number, condition].into_iter().chain(carried).collect();
        let mut outputs = x.inline(body, &inputs)?.into_iter().skip(1);
        carried = outputs.by_ref().take(carried_count).collect();
        for (list, output) in scanned.iter_mut().zip(outputs) {
            list.push(output);
        }
    }
    for (index, value) in carried.into_iter().enumerate() {
        x.output(index, value)?;
    }
    for (index, list) in scanned.into_iter().enumerate() {
        if x.has_output(carried_count + index) {
            let whole = stack(x, &list, 0)?;
            x.output(carried_count + index, whole)?;
        }
    }
    Ok(true)
}

/// Refuses to unroll a loop into too many nodes.
fn check_rounds(rounds: i64, body: &Graph) -> Result<()> {
    let most = limits::UNROLLED_NODES / body.node_count().max(1);
    if usize::try_from(rounds).is_ok_and(|rounds| rounds <= most) || rounds < 0 {
        return Ok(());
    }
    Err(Error::limit(format!("{rounds} iterations unroll to more than {} nodes", limits::UNROLLED_NODES)))
}

fn undecided() -> Error {
    Error::unsupported("the condition of the loop is computed at run time")
}

/// Stacks the elements of a sequence along a new axis.
fn stack(x: &mut Expand, list: &[Operand], axis: i64) -> Result<Operand> {
    if list.is_empty() {
        unsupported!("an empty sequence");
    }
    let axes = x.ints(&[axis])?;
    let parts =
        list.iter().map(|part| x.op("Unsqueeze", &[*part, axes], &[])).collect::<Result<Vec<Operand>>>()?;
    x.op("Concat", &parts, &[("axis", Attribute::Int(axis))])
}
