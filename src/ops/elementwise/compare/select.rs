//! Lowering of Where: in a minimum, a limit of +inf passes everything, and -inf nothing. Unlike a product
//! with the condition, this selects infinities exactly.

use super::super::broadcast::{lower_operands, refuse_nan};
use crate::lower::ScalarOrBlob;
use crate::ncnn::layer::binary_op;
use crate::ops::prelude::*;

pub(super) fn lower_where(lower: &Lower) -> Result<()> {
    let is_nan = [number(lower, 1)?, number(lower, 2)?].map(|x| x.is_some_and(f32::is_nan));
    if !is_nan.contains(&true) {
        refuse_nan(lower)?;
    }
    let sides = lower_operands(lower)?;
    let (condition, x, y) = (*sides.at(0)?, *sides.at(1)?, *sides.at(2)?);
    let chosen = match condition {
        ScalarOrBlob::Blob(condition) if is_nan.contains(&true) => {
            let (lost, kept) =
                if is_nan == [true, false] { (condition, y) } else { (lower.compute(!condition)?, x) };
            let nothing = lower.nan_where(lost)?;
            lower.compute(kept + nothing)?
        }
        ScalarOrBlob::Number(truth) => {
            // A uniform condition.
            let chosen = lower.input(if truth == 0.0 { 2 } else { 1 });
            return lower.give(0, chosen.stretch(lower.output_shape(0)?));
        }
        ScalarOrBlob::Blob(condition) => match (x, y) {
            (ScalarOrBlob::Number(x), ScalarOrBlob::Number(y)) if y + (x - y) == x => {
                lower.compute(condition * (x - y) + y)?
            }
            _ => choose(lower, condition, x, y)?,
        },
    };
    lower.set(0, chosen)
}

fn choose(lower: &Lower, condition: BlobId, x: ScalarOrBlob, y: ScalarOrBlob) -> Result<BlobId> {
    let [pass, block] = lower.infinities(0, condition)?;
    // An infinite constant needs no limit.
    match [number(lower, 1)?, number(lower, 2)?] {
        [_, Some(f32::NEG_INFINITY)] => return limit(lower, binary_op::MIN, (x, true), pass),
        [_, Some(f32::INFINITY)] => return limit(lower, binary_op::MAX, (x, true), block),
        [Some(f32::NEG_INFINITY), _] => return limit(lower, binary_op::MIN, (y, false), block),
        [Some(f32::INFINITY), _] => return limit(lower, binary_op::MAX, (y, false), pass),
        _ => {}
    }
    let x = limit(lower, binary_op::MIN, (x, true), pass)?;
    let y = limit(lower, binary_op::MIN, (y, false), block)?;
    lower.compute(x.maximum(y))
}

/// Emits an operand, chosen where the condition has a truth, as far as a bound passes it. A condition that
/// has the other truth for NaN exists to drop NaN: one order of the operands of a minimum drops it in
/// vectorized code, the other one in the remaining elements (`binaryop.cpp`).
fn limit(lower: &Lower, op_type: i32, (side, truth): (ScalarOrBlob, bool), bound: BlobId) -> Result<BlobId> {
    let limited = lower.compute(side.with(op_type, bound))?;
    let condition = lower.node().input(0);
    if condition.is_some_and(|condition| may_be_for_nan(!truth, lower.graph(), condition, MAX_DEPTH)) {
        return lower.compute(bound.with(op_type, limited));
    }
    Ok(limited)
}

/// The maximum number of operators between IsNaN and Where.
const MAX_DEPTH: usize = 4;

/// Returns whether IsNaN may decide that a condition has a truth.
fn may_be_for_nan(truth: bool, graph: &Graph, condition: ValueId, depth: usize) -> bool {
    let Some(node) = graph.producer(condition) else { return false };
    let any = |truth: bool| {
        let mut inputs = node.inputs.iter().flatten();
        depth > 0 && inputs.any(|input| may_be_for_nan(truth, graph, *input, depth - 1))
    };
    match node.op_type.as_str() {
        "IsNaN" => truth,
        "Not" => any(!truth),
        "Xor" => any(true) || any(false),
        "And" | "Cast" | "Identity" | "Or" | "Unsqueeze" => any(truth),
        _ => false,
    }
}

/// Returns the element of an input that is a constant float of one element.
fn number(lower: &Lower, index: usize) -> Result<Option<f32>> {
    let tensor = lower.constant(index).filter(|tensor| tensor.len() == 1 && tensor.dtype().is_float());
    tensor.map(|tensor| tensor.load_listed()?.scalar_f32()).transpose()
}
