//! Control flow that is known when the model is converted.
//!
//! <https://onnx.ai/onnx/operators/onnx__Loop.html>

use super::{Call, Fact, Op, required, resolve_axis};
use crate::error::{At, Error, Result, unsupported};
use crate::graph::{Attribute, Graph, ValueId};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

pub(super) const OPS: &[Op] = &[
    Op::new("If", &[1, 11, 13, 16, 19, 21, 23, 24, 25], infer_if)
        .variadic()
        .inline(inline_if)
        .becomes("the branch that a constant condition takes")
        .limits("a condition computed at run time"),
    Op::new("Loop", &[1, 11, 13, 16, 19, 21, 23, 24, 25], infer_loop)
        .variadic()
        .inline(inline_loop)
        .becomes("its body, once for each round")
        .limits("a number of rounds, or a condition, known only at run time"),
    Op::new("Scan", &[9, 11, 16, 19, 21, 23, 24, 25], infer_scan)
        .variadic()
        .inline(inline_scan)
        .becomes("its body, once for each element")
        .limits("lengths known only at run time; Scan-8, whose sequences have a batch axis"),
];

fn infer_if(call: &Call) -> Result<Vec<Fact>> {
    required(call.body("then_branch")?, "then_branch")?;
    required(call.body("else_branch")?, "else_branch")?;
    unsupported!("the condition is computed at run time; ncnn has no control flow")
}

fn inline_if(x: &mut Expand) -> Result<bool> {
    let Some(condition) = x.constant(0) else { return Ok(false) };
    let taken = condition.load()?.scalar_i64()? != 0;
    let name = if taken { "then_branch" } else { "else_branch" };
    let body = required(x.body(name)?, name)?;
    for (index, output) in x.inline(body, &[])?.into_iter().enumerate() {
        x.output(index, output)?;
    }
    Ok(true)
}

fn infer_loop(call: &Call) -> Result<Vec<Fact>> {
    required(call.body("body")?, "body")?;
    unsupported!("the number of rounds is known only at run time; ncnn has no control flow")
}

/// Whether output 0 of a loop's body, the condition to go on, is true whenever input 1 is.
fn goes_on(body: &Graph) -> Result<bool> {
    let (Some(mut id), Some(condition)) = (body.outputs.first().copied(), body.inputs.get(1).copied()) else {
        return Ok(false);
    };
    // The chain of Identity nodes is as long as the body at most.
    for _ in 0..=body.nodes().count() {
        if id == condition {
            return Ok(true);
        }
        if let Some(tensor) = &body.value(id).constant {
            return Ok(tensor.load()?.scalar_i64()? != 0);
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
            Ok(Source::Constant(tensor.load()?.scalar_i64()? != 0))
        }
        _ => Ok(Source::Other),
    }
}

fn inline_loop(x: &mut Expand) -> Result<bool> {
    let body = required(x.body("body")?, "body")?;
    let rounds = if x.has_input(0) {
        let Some(count) = x.constant(0) else { return Ok(false) };
        count.load()?.scalar_i64()?
    } else {
        i64::MAX
    };
    let starts = match (x.has_input(1), x.constant(1)) {
        (false, _) => true,
        (true, Some(condition)) => condition.load()?.scalar_i64()? != 0,
        (true, None) => return Ok(false),
    };
    let rounds = if starts { rounds } else { 0 };
    if rounds > 0 && (rounds == i64::MAX || !goes_on(body)?) {
        unsupported!("the loop ends on a condition that is computed at run time");
    }
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
        stack(x, carried_count + index, &list, 0, false)?;
    }
    Ok(true)
}

/// Makes output `index` of the elements of a sequence, along a new axis.
fn stack(x: &mut Expand, index: usize, list: &[Operand], axis: i64, reversed: bool) -> Result<()> {
    if !x.has_output(index) {
        return Ok(());
    }
    if list.is_empty() {
        unsupported!("a sequence without elements");
    }
    let axes = x.ints(&[axis])?;
    let mut parts =
        list.iter().map(|part| x.op("Unsqueeze", &[*part, axes], &[])).collect::<Result<Vec<Operand>>>()?;
    if reversed {
        parts.reverse();
    }
    let whole = x.op("Concat", &parts, &[("axis", Attribute::Int(axis))])?;
    x.output(index, whole)
}

struct ScanAttributes {
    scan_inputs: usize,
    input_axes: Vec<i64>,
    input_directions: Vec<i64>,
    output_axes: Vec<i64>,
    output_directions: Vec<i64>,
}

fn read_scan(call: &Call) -> Result<ScanAttributes> {
    required(call.body("body")?, "body")?;
    Ok(ScanAttributes {
        scan_inputs: usize::try_from(required(call.int("num_scan_inputs")?, "num_scan_inputs")?)?,
        input_axes: call.ints("scan_input_axes")?.unwrap_or_default(),
        input_directions: call.ints("scan_input_directions")?.unwrap_or_default(),
        output_axes: call.ints("scan_output_axes")?.unwrap_or_default(),
        output_directions: call.ints("scan_output_directions")?.unwrap_or_default(),
    })
}

fn infer_scan(call: &Call) -> Result<Vec<Fact>> {
    read_scan(call)?;
    unsupported!("the length of the sequence is known only at run time; ncnn has no control flow")
}

fn inline_scan(x: &mut Expand) -> Result<bool> {
    let scan = read_scan(x)?;
    let body = required(x.body("body")?, "body")?;
    let states = x.input_count().checked_sub(scan.scan_inputs);
    let states = states.ok_or_else(|| Error::invalid("more scan inputs than inputs"))?;
    let mut axes = Vec::new();
    let mut length = None;
    for index in 0..scan.scan_inputs {
        let sizes = x.shape(states + index)?;
        let axis = resolve_axis(scan.input_axes.get(index).copied().unwrap_or(0), sizes.len())?;
        let Some(size) = sizes.at(axis)?.known() else { return Ok(false) };
        if *length.get_or_insert(size) != size {
            return Err(Error::invalid("scan inputs of different lengths"));
        }
        axes.push(axis);
    }
    let length = length.unwrap_or(0);
    let mut carried = (0..states).map(|index| x.operand(index)).collect::<Result<Vec<_>>>()?;
    let mut scanned: Vec<Vec<Operand>> = vec![Vec::new(); body.outputs.len().saturating_sub(states)];
    for round in 0..length {
        let mut inputs = carried;
        for (index, axis) in axes.iter().enumerate() {
            let backwards = scan.input_directions.get(index) == Some(&1);
            let at = if backwards { length - 1 - round } else { round };
            let at = x.literal(&Array::i64(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), at)))?;
            let sequence = x.operand(states + index)?;
            let axis = Attribute::Int(i64::try_from(*axis)?);
            inputs.push(x.op("Gather", &[sequence, at], &[("axis", axis)])?);
        }
        let mut outputs = x.inline(body, &inputs)?.into_iter();
        carried = outputs.by_ref().take(states).collect();
        for (list, output) in scanned.iter_mut().zip(outputs) {
            list.push(output);
        }
    }
    for (index, value) in carried.into_iter().enumerate() {
        x.output(index, value)?;
    }
    for (index, list) in scanned.into_iter().enumerate() {
        let reversed = scan.output_directions.get(index) == Some(&1);
        let axis = scan.output_axes.get(index).copied().unwrap_or(0);
        stack(x, states + index, &list, axis, reversed)?;
    }
    Ok(true)
}
