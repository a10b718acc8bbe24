//! Transposes in a row, and between views.

use smallvec::smallvec;

use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, ValueId};
use crate::pass::pattern::{Readers, perm_of, producer};

use super::only_output;
use super::view::{dropped_axes, is_view};

/// Merges two Transposes in a row, unless both would remain.
pub(crate) fn fuse_consecutive_transposes(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |graph: &Graph, node: &Node| {
        let between = node.input(0).filter(|_| node.is("Transpose"))?;
        let inner = producer(graph, between, "Transpose")?;
        let (first, second) = (perm_of(graph, inner)?, perm_of(graph, node)?);
        let both = second.iter().map(|axis| first.get(*axis).copied()).collect::<Option<Vec<usize>>>()?;
        let perm = both.iter().map(|axis| i64::try_from(*axis).ok()).collect::<Option<Vec<i64>>>()?;
        let fewer = readers.only(between).is_some() || both.is_sorted();
        fewer.then(|| (inner.inputs.clone(), perm))
    };
    graph.replace_nodes(find, |_, node, (inputs, perm)| {
        let mut made = Node { inputs, ..node.clone() };
        made.attributes.insert("perm".into(), Attribute::Ints(perm));
        Ok(Some(vec![made]))
    })
}

/// Replaces a Transpose between views that drop and restore axes of size 1 by one of all axes.
pub(crate) fn fuse_transpose_of_unit_axes(graph: &mut Graph) -> Result<bool> {
    graph.replace_nodes(with_unit_axes, |_, node, (data, perm)| {
        Ok(Some(vec![Node {
            op_type: "Transpose".into(),
            inputs: smallvec![Some(data)],
            attributes: AttributeMap::from_iter([("perm".into(), Attribute::Ints(perm))]),
            ..node.clone()
        }]))
    })
}

/// The input of the first view, and the permutation of all its axes that the three nodes make.
fn with_unit_axes(graph: &Graph, last: &Node) -> Option<(ValueId, Vec<i64>)> {
    let shape = |value: ValueId| graph.value(value).shape.as_deref();
    let last = Some(last).filter(|node| is_view(node))?;
    let transposed = last.input(0)?;
    let transpose = producer(graph, transposed, "Transpose")?;
    let small = transpose.input(0)?;
    let first = graph.producer(small).filter(|node| is_view(node))?;
    let data = first.input(0)?;
    let from = shape(data)?;
    let mut units = dropped_axes(from, shape(small)?)?;
    let added = dropped_axes(shape(only_output(last)?)?, shape(transposed)?)?;
    if units.is_empty() || units.len() != added.len() {
        return None;
    }
    let rank = from.len().int();
    let kept: Vec<i64> = (0..rank).filter(|axis| !units.contains(axis)).collect();
    let mut moved = perm_of(graph, transpose)?.into_iter();
    let perm: Option<Vec<i64>> = (0..rank)
        .map(|axis| if added.contains(&axis) { units.pop() } else { kept.get(moved.next()?).copied() })
        .collect();
    Some((data, perm?))
}
