//! Nodes that do not mind: their operands, and the attributes that name axes.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::op;
use crate::tensor::Tensor;

use super::super::{InsertionPoint, input, int, only_output};
use super::Kind;

/// Operators of one operand; further inputs are parameters of one element.
const UNARY: &[&str] = &[
    "Abs",
    "Acos",
    "Acosh",
    "Asin",
    "Asinh",
    "Atan",
    "Atanh",
    "Cast",
    "Ceil",
    "Celu",
    "Clip",
    "Cos",
    "Cosh",
    "Elu",
    "Erf",
    "Exp",
    "Floor",
    "Gelu",
    "HardSigmoid",
    "HardSwish",
    "IsInf",
    "IsNaN",
    "LeakyRelu",
    "Log",
    "Mish",
    "Neg",
    "Not",
    "Reciprocal",
    "Relu",
    "Round",
    "Selu",
    "Shrink",
    "Sigmoid",
    "Sign",
    "Sin",
    "Sinh",
    "Softplus",
    "Softsign",
    "Sqrt",
    "Swish",
    "Tan",
    "Tanh",
    "ThresholdedRelu",
];

/// Operators of several operands, that are broadcast.
const BROADCAST: &[&str] = &[
    "Add",
    "And",
    "Div",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "Max",
    "Mean",
    "Min",
    "Mod",
    "Mul",
    "Or",
    "PRelu",
    "Pow",
    "Sub",
    "Sum",
    "Where",
    "Xor",
];

/// Operators of one operand along axes, which stay in number.
const REDUCTIONS: &[&str] = &[
    "ReduceL1",
    "ReduceL2",
    "ReduceLogSum",
    "ReduceLogSumExp",
    "ReduceMax",
    "ReduceMean",
    "ReduceMin",
    "ReduceProd",
    "ReduceSum",
    "ReduceSumSquare",
];

fn is_any(node: &Node, op_types: &[&str]) -> bool {
    op_types.iter().any(|op_type| node.is(op_type))
}

/// The inputs that are moved with the island.
pub(super) fn operands(node: &Node) -> Vec<usize> {
    if is_any(node, BROADCAST) || node.is("Concat") { (0..node.inputs.len()).collect() } else { vec![0] }
}

/// Whether a node may be part of an island.
pub(super) fn does_not_mind(graph: &Graph, node: &Node, kind: Kind) -> bool {
    // From version 7 on operands are broadcast as numpy does.
    node.version >= 7 && shapes_fit(graph, node, kind).unwrap_or(false)
}

fn shapes_fit(graph: &Graph, node: &Node, kind: Kind) -> Option<bool> {
    let shape = graph.value(only_output(node)?).shape.as_ref()?;
    let (one, several) = (is_any(node, UNARY), is_any(node, BROADCAST));
    if !one && !several && (kind == Kind::View || axes_of(graph, node).is_none()) {
        return Some(false);
    }
    let data = operands(node);
    let mut computed = 0;
    for (index, value) in node.inputs.iter().enumerate() {
        let Some(value) = value.map(|id| graph.value(id)) else { continue };
        let sizes = value.constant.as_ref().map(Tensor::shape);
        let fits = match (data.contains(&index), sizes) {
            (false, None) => false,
            (false, Some(sizes)) => !one || sizes.iter().all(|size| *size == 1),
            (true, Some(sizes)) if kind == Kind::View => sizes.iter().all(|n| *n == 1) && sizes.len() <= 1,
            (true, Some(sizes)) => sizes.len() == shape.len() || (several && sizes.len() <= shape.len()),
            (true, None) if kind == Kind::View => value.shape.as_ref() == Some(shape),
            (true, None) => value.shape.as_ref().is_some_and(|own| own.len() == shape.len()),
        };
        if !fits {
            return Some(false);
        }
        computed += usize::from(data.contains(&index) && sizes.is_none());
    }
    Some(computed > 0 && shape.len() >= 2)
}

/// The axes that an operator works along, counted from the front, where those can be named anew.
pub(super) fn axes_of(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let rank = graph.value(input(node, 0)?).shape.as_ref()?.len();
    let resolve = |axis: i64| op::resolve_axis(axis, rank).ok();
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => None,
        "Concat" => Some(vec![resolve(int(node, "axis")?)?]),
        "Softmax" | "LogSoftmax" if node.version >= 13 => {
            Some(vec![resolve(int(node, "axis").unwrap_or(-1))?])
        }
        _ if is_any(node, REDUCTIONS) && int(node, "keepdims").unwrap_or(1) != 0 => {
            let axes = match (node.attributes.get("axes"), input(node, 1)) {
                (Some(Attribute::Ints(axes)), None) => axes.clone(),
                (None, Some(axes)) => {
                    graph.value(axes).constant.as_ref()?.load_listed().ok()?.int_list().ok()?
                }
                _ => return None,
            };
            axes.into_iter().map(resolve).collect::<Option<Vec<usize>>>().filter(|axes| !axes.is_empty())
        }
        _ => None,
    }
}

/// Names the axes that a node works along as they are in an island that is turned.
pub(super) fn name_axes(
    site: &mut InsertionPoint,
    node: &mut Node,
    axes: &[usize],
    perm: &[usize],
) -> Result<()> {
    let mut turned = Vec::new();
    for axis in axes {
        turned.push(i64::try_from(perm.get(*axis).copied().unwrap_or(*axis))?);
    }
    match turned.as_slice() {
        _ if is_any(node, REDUCTIONS) => {
            if let Some(axes) = node.inputs.get_mut(1) {
                *axes = Some(site.ints(&turned)?);
            } else {
                node.attributes.insert("axes".into(), Attribute::Ints(turned));
            }
        }
        [axis] => {
            node.attributes.insert("axis".into(), Attribute::Int(*axis));
        }
        _ => {}
    }
    Ok(())
}
