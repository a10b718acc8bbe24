//! Operands that an operator broadcasts itself: `x + Expand(y)` to `x + y`.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::pass::pattern::{broadcasts, producer};
use crate::tensor::{Dim, Tensor, broadcast_shapes};

use super::only_output;

/// What an operand repeats.
pub(in crate::pass) enum Source {
    Value(ValueId),
    /// A constant with a name.
    Constant(String, Tensor),
}

/// Removes Expand and ConstantOfShape from operands if the others have all axes of the result.
pub(super) fn eliminate_expanded_operand(graph: &mut Graph) -> Result<bool> {
    replace_operands(graph, |graph, node, index| Ok(source(graph, node, index)))
}

/// Replaces operands that a node broadcasts by what they repeat, and returns whether there were any.
pub(in crate::pass) fn replace_operands(
    graph: &mut Graph,
    source: impl Fn(&Graph, &Node, usize) -> Result<Option<Source>>,
) -> Result<bool> {
    let mut changed = false;
    for id in graph.node_ids() {
        let count = graph.node(id).filter(|node| broadcasts(node)).map_or(0, |node| node.inputs.len());
        for index in 0..count {
            let Some(found) = graph.node(id).map(|node| source(graph, node, index)) else { continue };
            let value = match found? {
                Some(Source::Value(value)) => value,
                Some(Source::Constant(name, tensor)) => graph.add_constant(&name, tensor),
                None => continue,
            };
            let input = graph.node_mut(id).and_then(|node| node.inputs.get_mut(index));
            changed |= input.is_some_and(|input| input.replace(value) != Some(value));
        }
    }
    Ok(changed)
}

/// Returns what an operand repeats, if the result has the same shape with that.
fn source(graph: &Graph, node: &Node, index: usize) -> Option<Source> {
    let operand = node.input(index)?;
    let (source, shape) = repeated(graph, operand)?;
    let mut result = shape;
    for (other, value) in node.inputs.iter().enumerate() {
        let Some(value) = value.filter(|_| other != index) else { continue };
        result = broadcast_shapes(&result, graph.value(value).shape.as_deref()?).ok()?;
    }
    (graph.value(only_output(node)?).shape.as_deref()? == result).then_some(source)
}

/// Returns what a value repeats, with its shape.
fn repeated(graph: &Graph, value: ValueId) -> Option<(Source, Vec<Dim>)> {
    if let Some(expand) = producer(graph, value, "Expand") {
        let source = expand.input(0)?;
        return Some((Source::Value(source), graph.value(source).shape.as_deref()?.to_vec()));
    }
    let fill = match producer(graph, value, "ConstantOfShape")?.attributes.get("value") {
        Some(Attribute::Tensor(tensor)) => tensor.reshaped(&[]).ok()?,
        Some(_) => return None,
        None => Tensor::from_f32(&[], vec![0.0]).ok()?,
    };
    Some((Source::Constant(String::new(), fill), Vec::new()))
}
