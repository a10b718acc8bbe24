//! The nodes of islands: their operands, and the attributes that name axes.

use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node};
use crate::op::{self, Access};
use crate::pass::pattern::{axes, is_numpy};
use crate::tensor::Tensor;

use super::super::{int, only_output};
use super::Kind;
use crate::pass::builder::{Builder, Expr};

/// The inputs that are moved with the island.
pub(super) fn operands(node: &Node) -> std::ops::Range<usize> {
    match op::access(node) {
        Access::Broadcast | Access::Lanes { .. } => 0..node.inputs.len(),
        _ => 0..1,
    }
}

/// Whether a node may be part of an island.
pub(super) fn may_join(graph: &Graph, node: &Node, kind: Kind) -> bool {
    is_numpy(node) && shapes_fit(graph, node, kind).unwrap_or(false)
}

fn shapes_fit(graph: &Graph, node: &Node, kind: Kind) -> Option<bool> {
    let shape = graph.value(only_output(node)?).shape.as_ref()?;
    let access = op::access(node);
    match access {
        Access::Elementwise | Access::Broadcast => {}
        _ if kind == Kind::View || axes_of(graph, node).is_none() => return Some(false),
        _ => {}
    }
    let data = operands(node);
    let mut computed = 0;
    for (index, value) in node.inputs.iter().enumerate() {
        let Some(value) = value.map(|id| graph.value(id)) else { continue };
        let sizes = value.constant.as_ref().map(Tensor::shape);
        let fits = match (data.contains(&index), sizes) {
            (false, None) => false,
            (false, Some(sizes)) => access != Access::Elementwise || sizes.iter().all(|size| *size == 1),
            (true, Some(sizes)) if kind == Kind::View => sizes.iter().all(|n| *n == 1) && sizes.len() <= 1,
            (true, Some(sizes)) => {
                sizes.len() == shape.len() || (access == Access::Broadcast && sizes.len() <= shape.len())
            }
            (true, None) if kind == Kind::View => value.shape.as_ref() == Some(shape),
            (true, None) => value.shape.as_ref().is_some_and(|sizes| sizes.len() == shape.len()),
        };
        if !fits {
            return Some(false);
        }
        computed += usize::from(data.contains(&index) && sizes.is_none());
    }
    Some(computed > 0 && shape.len() >= 2)
}

/// The axes of a node's attribute or input, counted from the front, if an island can rename them.
pub(in crate::pass) fn axes_of(graph: &Graph, node: &Node) -> Option<Vec<usize>> {
    let axes = match op::access(node) {
        Access::Lanes { since, default } if node.version >= since => {
            let rank = graph.value(node.input(0)?).shape.as_ref()?.len();
            vec![op::resolve_axis(int(node, "axis").or(default)?, rank).ok()?]
        }
        Access::Reduction if int(node, "keepdims") != Some(0) => axes(graph, node)?,
        _ => return None,
    };
    (!axes.is_empty()).then_some(axes)
}

/// Renames the axes of a node for an island that is transposed by `perm`.
pub(super) fn name_axes<'b>(
    made: &'b Builder<'b>,
    node: &mut Node,
    inputs: &mut [Option<Expr<'b>>],
    axes: &[usize],
    perm: &[usize],
) -> Result<()> {
    let mut renamed = Vec::new();
    for axis in axes {
        renamed.push((perm.get(*axis).copied().unwrap_or(*axis)).int());
    }
    match renamed.as_slice() {
        _ if op::access(node) == Access::Reduction => {
            if let Some(axes) = inputs.get_mut(1) {
                *axes = Some(made.ints(&renamed));
            } else {
                node.attributes.insert("axes".into(), Attribute::Ints(renamed));
            }
        }
        [axis] => {
            node.attributes.insert("axis".into(), Attribute::Int(*axis));
        }
        _ => {}
    }
    Ok(())
}
