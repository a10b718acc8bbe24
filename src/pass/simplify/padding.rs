//! Constant padding before a convolution or a pooling becomes part of it.
//!
//! Conv, and AveragePool with `count_include_pad`, pad with zeros. MaxPool ignores its padding: the padded
//! constant must not exceed any element, and the padding must be smaller than the window, so that each window
//! has an element of the data.

use crate::common::index::IndexMap;
use crate::error::{At, Result};
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op::range::range;
use crate::op::{self, Move, Moved};
use crate::pass::pattern::Readers;
use crate::tensor::{Border, DType};

use super::{int, ints, only_output};

/// Merges Pad into Conv.
pub(crate) fn fuse_pad_into_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Conv"])
}

/// Merges Pad into AveragePool and MaxPool.
pub(crate) fn fuse_pad_into_pool(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["AveragePool", "MaxPool"])
}

fn fuse(graph: &mut Graph, op_types: &[&str]) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut found = IndexMap::default();
    for (_, pad) in graph.nodes().filter(|(_, node)| node.is("Pad")) {
        let Some(padded) = only_output(pad).filter(|padded| !readers.is_output(*padded)) else { continue };
        // Unless all readers take the padding, the Pad stays.
        let fused =
            readers.all(padded).iter().map(|id| Some((*id, fused(graph, pad, padded, graph.node(*id)?)?)));
        let Some(fused) = fused.collect::<Option<Vec<_>>>() else { continue };
        for (id, node) in fused {
            if node.is_one_of(op_types) {
                found.insert(id, vec![node]);
            }
        }
    }
    graph.replace_found(found)
}

/// The node with the padding of the Pad before it.
fn fused(graph: &Graph, pad: &Node, padded: ValueId, node: &Node) -> Option<Node> {
    only_output(node)?;
    if !node.domain.is_empty() || node.input(0) != Some(padded) {
        return None;
    }
    let data = pad.input(0)?;
    let (value, amounts) = added(graph, pad)?;
    let [(0, 0), (0, 0), spatial @ ..] = amounts.as_slice() else { return None };
    let explicit = explicit_padding(node, spatial.len())?;
    let mut fused = node.clone();
    match node.op_type.as_str() {
        "Conv" if value == 0.0 => {}
        "AveragePool" if value == 0.0 && node.version >= 7 && is_plain_window(node, spatial, &explicit) => {
            let counted = int(node, "count_include_pad").unwrap_or(0) != 0;
            if !counted && explicit.iter().any(|n| *n != 0) {
                return None;
            }
            fused.attributes.insert("count_include_pad".into(), Attribute::Int(1));
        }
        "MaxPool" if is_plain_window(node, spatial, &explicit) && is_at_most(graph, data, value) => {}
        _ => return None,
    }
    let (before, after): (Vec<i64>, Vec<i64>) = spatial.iter().copied().unzip();
    let pads: Option<Vec<i64>> = [before, after]
        .concat()
        .into_iter()
        .zip(explicit)
        .map(|(added, explicit)| added.checked_add(explicit).filter(|_| added >= 0))
        .collect();
    fused.attributes.remove("auto_pad");
    fused.attributes.insert("pads".into(), Attribute::Ints(pads?));
    fused.inputs.put(0, Some(data));
    Some(fused)
}

/// The constant that a Pad adds, and the number of elements before and after each axis.
fn added(graph: &Graph, pad: &Node) -> Option<(f64, Vec<(i64, i64)>)> {
    let moves = op::moves(graph, pad)?;
    let Moved::Steps(data, steps) = moves.first()? else { return None };
    let rank = graph.value(pad.input(*data)?).shape.as_ref()?.len();
    let (mut value, mut amounts) = (0.0, vec![(0, 0); rank]);
    for step in steps {
        let Move::Pad { axis, added: [before, after], border: Border::Constant(element) } = step else {
            return None;
        };
        value = element.number_at(0)?;
        amounts.put(*axis, (before.known()?, after.known()?));
    }
    Some((value, amounts))
}

/// The explicit padding of a node, before all axes and then after them; `None` for `auto_pad` SAME, which
/// depends on sizes.
pub(super) fn explicit_padding(node: &Node, axes: usize) -> Option<Vec<i64>> {
    let valid = match node.attributes.get("auto_pad") {
        None => false,
        Some(Attribute::String(text)) if text.is_empty() || text.as_ref() == b"NOTSET" => false,
        Some(Attribute::String(text)) if text.as_ref() == b"VALID" => true,
        Some(_) => return None,
    };
    match node.attributes.get("pads") {
        Some(Attribute::Ints(pads)) if !valid => Some(pads.clone()).filter(|pads| pads.len() == 2 * axes),
        _ => Some(vec![0; 2 * axes]),
    }
}

/// Whether the window has neither dilation nor `ceil_mode`, and is larger than the padding on either side.
fn is_plain_window(node: &Node, added: &[(i64, i64)], explicit: &[i64]) -> bool {
    let Some(kernel) = ints(node, "kernel_shape") else { return false };
    let undilated = match node.attributes.get("dilations") {
        None => true,
        Some(Attribute::Ints(dilations)) => dilations.iter().all(|n| *n == 1),
        Some(_) => false,
    };
    let (before, after) = explicit.split_at_checked(added.len()).unwrap_or_default();
    let pads = added.iter().zip(before.iter().zip(after));
    let mut totals = pads.map(|((a, b), (c, d))| a.saturating_add(*c).max(b.saturating_add(*d)));
    undilated
        && int(node, "ceil_mode").unwrap_or(0) == 0
        && kernel.len() == added.len()
        && kernel.iter().all(|size| totals.next().is_some_and(|total| total < *size))
}

/// Whether a constant is at most every element of the data.
fn is_at_most(graph: &Graph, data: ValueId, value: f64) -> bool {
    graph.value(data).dtype == Some(DType::F32) && value <= range(graph, data).least
}
