//! Views: operators that change the shape and keep the order of the elements. Of several in a row only the
//! last shape counts.

use smallvec::smallvec;

use crate::common::index::IndexMap;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, ValueId};
use crate::op::{self, Access};
use crate::tensor::Dim;

use super::only_output;

/// Whether a node is a view.
pub(super) fn is_view(node: &Node) -> bool {
    op::access(node) == Access::View
}

/// Replaces computed target shapes of Reshape by constants, with 0 and -1 for free sizes.
pub(crate) fn fuse_concat_into_reshape(graph: &mut Graph) -> Result<bool> {
    let find = |graph: &Graph, node: &Node| {
        let (data, target) = (node.input(0)?, node.input(1).filter(|_| node.is("Reshape"))?);
        let from = graph.value(data).shape.as_deref().unwrap_or_default();
        let to = graph.value(only_output(node)?).shape.as_deref()?;
        let target = graph.value(target).constant.is_none().then(|| target_of(from, to))??;
        Some((data, target))
    };
    graph.replace_nodes(find, |graph, node, (data, target)| {
        Ok(Some(vec![reshape_like(graph, node, data, &target)?]))
    })
}

/// Merges several views in a row into one Reshape.
pub(crate) fn fuse_consecutive_reshapes(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |node| op::viewed(node).is_some(), |from, to| target_of(from, to).map(View::Reshape))
}

/// Merges several Squeeze in a row.
pub(crate) fn fuse_consecutive_squeezes(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |node| node.is("Squeeze"), |from, to| dropped_axes(from, to).map(View::Squeeze))
}

/// Merges several Unsqueeze in a row.
pub(crate) fn fuse_consecutive_unsqueezes(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |node| node.is("Unsqueeze"), |from, to| dropped_axes(to, from).map(View::Unsqueeze))
}

/// The node to be made.
enum View {
    Reshape(Vec<i64>),
    Squeeze(Vec<i64>),
    Unsqueeze(Vec<i64>),
}

fn fuse(
    graph: &mut Graph,
    is_view: impl Fn(&Node) -> bool,
    between: impl Fn(&[Dim], &[Dim]) -> Option<View>,
) -> Result<bool> {
    // The input of the first view of each row; nodes are in topological order.
    let mut roots: IndexMap<ValueId, ValueId> = IndexMap::default();
    let find = |graph: &Graph, node: &Node| {
        let (data, output) = (node.input(0).filter(|_| is_view(node))?, only_output(node)?);
        let Some(root) = roots.get(data).copied() else {
            roots.insert(output, data);
            return None;
        };
        let (from, to) = (graph.value(root).shape.as_deref()?, graph.value(output).shape.as_deref()?);
        let view = between(from, to).filter(|_| node.version >= 5)?;
        roots.insert(output, root);
        Some((root, view))
    };
    graph.replace_nodes(find, |graph, node, (root, view)| {
        let made = match &view {
            View::Reshape(target) => reshape_like(graph, node, root, target)?,
            View::Squeeze(axes) | View::Unsqueeze(axes) => along_axes(graph, node, root, axes)?,
        };
        Ok(Some(vec![made]))
    })
}

/// Makes the Reshape that replaces a node.
pub(super) fn reshape_like(graph: &mut Graph, node: &Node, data: ValueId, target: &[i64]) -> Result<Node> {
    let target = graph.add_ints(target)?;
    Ok(Node {
        op_type: "Reshape".into(),
        inputs: smallvec![Some(data), Some(target)],
        attributes: AttributeMap::new(),
        ..node.clone()
    })
}

/// The same operator with other axes, which are an attribute before operator set 13.
fn along_axes(graph: &mut Graph, node: &Node, data: ValueId, axes: &[i64]) -> Result<Node> {
    let mut made = Node { inputs: smallvec![Some(data)], ..node.clone() };
    if node.version < 13 {
        made.attributes.insert("axes".into(), Attribute::Ints(axes.to_vec()));
    } else {
        made.inputs.push(Some(graph.add_ints(axes)?));
    }
    Ok(made)
}

/// A target of Reshape that gives `to` for all free sizes: 0 copies the size of the input, and one size may
/// be inferred by -1.
pub(super) fn target_of(from: &[Dim], to: &[Dim]) -> Option<Vec<i64>> {
    let free = to.iter().filter(|size| size.known().is_none()).count();
    let mut left = 1;
    to.iter()
        .enumerate()
        .map(|(axis, size)| match size.known() {
            // Reshape reads 0 as the size of the input.
            Some(0) => None,
            Some(n) => Some(n),
            None if free > 1 && from.get(axis) == Some(size) => Some(0),
            None if left > 0 => {
                left -= 1;
                Some(-1)
            }
            None => None,
        })
        .collect()
}

/// The axes of size 1 whose removal turns `long` into `short`.
pub(super) fn dropped_axes(long: &[Dim], short: &[Dim]) -> Option<Vec<i64>> {
    let mut left = short.iter().peekable();
    let mut dropped = Vec::new();
    let surplus = long.len().checked_sub(short.len())?;
    for (axis, size) in long.iter().enumerate() {
        if left.peek() == Some(&size) && !(size.is(1) && dropped.len() < surplus) {
            left.next();
        } else if size.is(1) && dropped.len() < surplus {
            dropped.push(axis.int());
        } else {
            return None;
        }
    }
    left.peek().is_none().then_some(dropped)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shape(list: &[&str]) -> Vec<Dim> {
        list.iter().map(|text| text.parse().map_or_else(|_| Dim::symbol(text), Dim::Known)).collect()
    }

    #[test]
    fn targets_preserve_free_sizes() {
        for (from, to, target) in [
            (&["2", "3"][..], &["3", "2"][..], Some(vec![3, 2])),
            (&["N", "3"], &["N", "1", "3"], Some(vec![-1, 1, 3])),
            (&["N", "C", "H"], &["N", "H", "C"], None),
            (&["N", "3", "H"], &["N", "H", "3"], Some(vec![0, -1, 3])),
            (&["N", "3", "H"], &["N", "3", "H", "1"], Some(vec![0, 3, 0, 1])),
            (&["2", "0"], &["0", "2"], None),
        ] {
            assert_eq!(target_of(&shape(from), &shape(to)), target, "{from:?} to {to:?}");
        }
    }

    #[test]
    fn dropped_axes_are_the_only_difference() {
        for (long, short, axes) in [
            (&["1", "N", "1", "H"][..], &["N", "H"][..], Some(vec![0, 2])),
            (&["1", "1", "N"], &["1", "N"], Some(vec![0])),
            (&["N", "H"], &["N", "H"], Some(vec![])),
            (&["N", "H"], &["H"], None),
            (&["N", "1", "H"], &["H", "N"], None),
        ] {
            assert_eq!(dropped_axes(&shape(long), &shape(short)), axes, "{long:?} to {short:?}");
        }
    }
}
