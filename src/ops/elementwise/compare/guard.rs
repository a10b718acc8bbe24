//! What is not chosen, and may be no number. In ncnn NaN goes through minima and maxima either way, so an operator that makes NaN of some
//! numbers is given others where its result is not chosen.

use crate::common::limits;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, Tensor};

/// How many operators are looked through.
const MAX_DEPTH: usize = 6;

/// Operators on elements, which hand NaN on.
const FORWARDED: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Add",
    "Asin",
    "Atanh",
    "Cast",
    "Clip",
    "Div",
    "Exp",
    "Identity",
    "Log",
    "Max",
    "Min",
    "Mod",
    "Mul",
    "Neg",
    "Pow",
    "Reciprocal",
    "Relu",
    "Sigmoid",
    "Sqrt",
    "Sub",
    "Tanh",
];

/// The input of an operator of which some numbers make NaN, and one that does not.
pub(in crate::ops) fn risk(graph: &Graph, node: &Node) -> Option<(usize, f32)> {
    let input = |index: usize| node.inputs.get(index).copied().flatten().map(|id| graph.value(id));
    let all = |index: usize, holds: fn(f64) -> bool| {
        let constant = input(index).and_then(|value| value.constant.as_ref());
        let elements = constant.filter(|tensor| tensor.len() <= limits::LOOKED_AT).map(Tensor::load_listed);
        elements.is_some_and(|array| {
            array.and_then(|array| array.to_f64()).is_ok_and(|a| a.iter().all(|x| holds(*x)))
        })
    };
    let (index, number) = match node.op_type.as_str() {
        _ if !node.domain.is_empty() => return None,
        "Acosh" | "Log" | "Reciprocal" | "Sqrt" => (0, 1.0),
        "Acos" | "Asin" | "Atanh" => (0, 0.0),
        "Div" | "Mod" if !all(1, |x| x != 0.0) => (1, 1.0),
        "Pow" if !all(1, |x| x.fract() == 0.0 && x >= 0.0) && !all(0, |x| x > 0.0) => (0, 1.0),
        _ => return None,
    };
    input(index)?.dtype.filter(|dtype| dtype.is_float()).map(|_| (index, number))
}

/// Where on what is a number where it is not chosen.
pub(super) fn expand_where(x: &mut Expand) -> Result<bool> {
    let (condition, chosen, other) = (x.operand(0)?, x.operand(1)?, x.operand(2)?);
    let (a, b) = (guarded(x, 1, chosen, MAX_DEPTH)?, guarded(x, 2, other, MAX_DEPTH)?);
    if a.is_none() && b.is_none() {
        return Ok(false);
    }
    let result = x.op("Where", &[condition, a.unwrap_or(chosen), b.unwrap_or(other)], &[])?;
    x.output(0, result)?;
    Ok(true)
}

/// What input `side` of a Where comes from, computed again of harmless numbers where it is not chosen; nothing where that is needless.
fn guarded(x: &mut Expand, side: usize, operand: Operand, depth: usize) -> Result<Option<Operand>> {
    let graph = x.graph();
    let Operand::Value(value) = operand else { return Ok(None) };
    let producer = graph.value(value).producer.and_then(|id| graph.node(id));
    let Some(node) = producer.filter(|node| depth > 0 && FORWARDED.iter().any(|op_type| node.is(op_type)))
    else {
        return Ok(None);
    };
    // A quotient that is chosen itself is lowered to one by numbers other than 0.
    let risk = risk(graph, node).filter(|_| depth < MAX_DEPTH || !node.is("Div"));
    let (mut inputs, mut changed) = (Vec::new(), false);
    for (index, input) in node.inputs.iter().enumerate() {
        let Some(input) = *input else {
            inputs.push(None);
            continue;
        };
        let given = Operand::Value(input);
        let other = match risk {
            Some((at, number)) if at == index && !is_chosen_by(graph, input, x.node()) => {
                Some(harmless(x, side, input, number)?)
            }
            _ => guarded(x, side, given, depth - 1)?,
        };
        changed |= other.is_some();
        inputs.push(Some(other.unwrap_or(given)));
    }
    if changed { x.clone_with_inputs(node, inputs).map(Some) } else { Ok(None) }
}

/// Whether a value is what a Where on the same condition chooses.
fn is_chosen_by(graph: &Graph, value: ValueId, choice: &Node) -> bool {
    let producer = graph.value(value).producer.and_then(|id| graph.node(id));
    producer.is_some_and(|node| node.is("Where") && node.inputs.first() == choice.inputs.first())
}

/// A value where input `side` is chosen, and a number elsewhere.
fn harmless(x: &mut Expand, side: usize, value: ValueId, number: f32) -> Result<Operand> {
    let condition = x.operand(0)?;
    let number = x.literal(&number_like(x.graph(), value, number)?)?;
    let value = Operand::Value(value);
    let sides = if side == 1 { [condition, value, number] } else { [condition, number, value] };
    x.op("Where", &sides, &[])
}

/// A number in the type of a value.
pub(in crate::ops) fn number_like(graph: &Graph, value: ValueId, number: f32) -> Result<Array> {
    let single = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), number));
    match graph.value(value).dtype {
        Some(dtype) => single.cast(dtype),
        None => Ok(single),
    }
}
