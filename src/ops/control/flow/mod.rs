//! If, Loop and Scan: inlines the branch of a constant condition, replaces loops of recurrent cells, and
//! unrolls others of known length; else computes both branches of If and selects.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Loop.html>

mod branch;
mod counter;
mod recurrence;
mod scan;
mod unroll;

use crate::graph::Attribute;
use crate::ops::prelude::*;
use branch::{expand_if, infer_if, inline_if};
use counter::Counter;
use scan::{infer_scan, inline_scan};
use unroll::{check_unrolled, is_true, stack, undecided};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("If", Access::Any, infer_if)
        .inline(inline_if)
        .expand(expand_if)
        .lowers_to("the branch of a constant condition; else both branches, and Where")
        .limits("a condition computed at run time if the branches have outputs of different shapes"),
    Row::new("Loop", Access::Any, infer_loop)
        .unroll(inline_loop)
        .lowers_to(
            "its body, once for each iteration; LSTM, GRU or RNN instead of its cell over a sequence of any \
             length",
        )
        .limits("otherwise a number of iterations or a condition known only at run time"),
    Row::new("Scan", Access::Any, infer_scan)
        .unroll(inline_scan)
        .lowers_to(
            "its body, once for each element; LSTM, GRU or RNN instead of its cell over a sequence of any \
             length",
        )
        .limits("otherwise lengths known only at run time"),
];

fn infer_loop(call: &Call) -> Result<Vec<Fact>> {
    call.body("body")?;
    unsupported!("the number of iterations is known only at run time; ncnn has no control flow")
}

/// Returns whether output 0 of a loop's body, the condition, is true whenever input 1 is.
fn keeps_condition(body: &Graph) -> Result<bool> {
    let (Some(mut id), Some(condition)) = (body.outputs.first().copied(), body.inputs.get(1).copied()) else {
        return Ok(false);
    };
    // The chain of Identity nodes is at most as long as the body.
    for _ in 0..=body.node_count() {
        if id == condition {
            return Ok(true);
        }
        let value = body.value(id);
        if let Some(tensor) = &value.constant {
            return is_true(tensor);
        }
        let Some(node) = value.producer.and_then(|producer| body.node(producer)) else { return Ok(false) };
        match (node.op_type.as_str(), node.input(0), node.attributes.get("value")) {
            ("Identity" | "Cast", Some(input), _) => id = input,
            ("Constant", _, Some(Attribute::Tensor(tensor))) => return is_true(tensor),
            _ => return Ok(false),
        }
    }
    Ok(false)
}

fn inline_loop(x: &Expand) -> Result<bool> {
    if recurrence::replace_loop(x)? {
        return Ok(true);
    }
    let body = x.body("body")?;
    let count = if x.has_input(0) {
        let Some(most) = x.constant(0) else { return Ok(false) };
        most.load_listed()?.scalar_i64()?
    } else {
        i64::MAX
    };
    let starts = match (x.has_input(1), x.constant(1)) {
        (false, _) => true,
        (true, Some(condition)) => is_true(condition)?,
        (true, None) => return Ok(false),
    };
    let count = match (starts, keeps_condition(body)?) {
        (false, _) => 0,
        (true, true) if count == i64::MAX => unsupported!("the loop does not end"),
        (true, true) => count,
        (true, false) => Counter::new(x, body)?.ok_or_else(undecided)?.count(count)?,
    };
    check_unrolled(count, body)?;
    let carried_count = x.input_count().saturating_sub(2);
    let mut carried: Vec<Expr> = (2..x.input_count()).map(|index| x.operand(index)).collect();
    let mut scanned: Vec<Vec<Expr>> = vec![Vec::new(); body.outputs.len().saturating_sub(1 + carried_count)];
    for iteration in 0..count {
        let leading = [x.make.int(iteration), x.make.number(1.0, DType::Bool)];
        let inputs: Vec<Expr> = leading.into_iter().chain(carried).collect();
        let mut outputs = x.make.inline(body, &inputs)?.into_iter().skip(1);
        carried = outputs.by_ref().take(carried_count).collect();
        for (list, output) in scanned.iter_mut().zip(outputs) {
            list.push(output);
        }
    }
    for (index, value) in carried.into_iter().enumerate() {
        x.output(index, value);
    }
    for (index, list) in scanned.into_iter().enumerate() {
        if x.has_output(carried_count + index) {
            x.output(carried_count + index, stack(x, &list, 0)?);
        }
    }
    Ok(true)
}
