//! Types and shapes of operators that other operators define, inferred through their expansions.

use super::expand::{Expanded, FindExpansion, Stage, check_sizes};
use super::infer::infer_and_fold;
use crate::error::{Error, Result};
use crate::graph::{Fact, Graph, Node, Value, ValueId};
use crate::op::{Access, Call, check_broadcasts};
use crate::tensor::DType;

/// Adds the nodes that define a node to the graph of its inputs and outputs. Returns `false` if none do.
///
/// # Errors
///
/// If the expansion fails, or refuses the node.
#[cfg(feature = "verify")]
pub(crate) fn add_definition(graph: &mut Graph, node: &Node, find: FindExpansion) -> Result<bool> {
    let op = crate::op::find_handled(node)?;
    let Some(expansion) = find(node, Stage::PLAIN) else { return Ok(false) };
    let Some(expanded) = expansion.apply(graph, node, op, Stage::PLAIN)? else { return Ok(false) };
    // What is made all the same has other elements.
    if let Some(why) = expanded.refused {
        return Err(why);
    }
    for node in expanded.made.add_to(graph, node)? {
        graph.add_node(node);
    }
    Ok(true)
}

/// A graph of a single node, with copies of its inputs.
struct Isolated {
    graph: Graph,
    node: Node,
    /// The copy of each input.
    copies: Vec<(usize, ValueId)>,
}

/// Returns the facts that the expansion of a node has for the same inputs.
///
/// # Errors
///
/// If the expansion fails, or the type of an output is unknown.
pub(crate) fn infer_by_expansion(call: &Call, find: FindExpansion) -> Result<Vec<Fact>> {
    let Isolated { mut graph, node, copies } = Isolated::copy(call);
    if call.op().access != Access::Elementwise {
        check_sizes(&graph, &node)?;
    }
    let left_out = || Error::internal("an operator whose definition leaves it out");
    let expansion = find(&node, Stage::PLAIN).ok_or_else(left_out)?;
    let expanded = expansion.apply(&graph, &node, call.op(), Stage::PLAIN)?.ok_or_else(left_out)?;
    let Expanded { mut made, conditions, replaced, texts, mut refused, .. } = expanded;
    let is_missing = |(index, output): (usize, &Option<ValueId>)| {
        output.is_some_and(|id| !made.computes(id)) && !texts.contains(&index)
    };
    let missing = node.outputs.iter().enumerate().position(is_missing);
    let count = missing.unwrap_or_else(|| call.op().schema.most_outputs(node.version));
    let broadcasts = std::mem::take(&mut made.broadcasts);
    for node in made.add_to(&mut graph, &node)? {
        graph.add_node(node);
    }
    // What the model declares is not inferred.
    for output in node.outputs.iter().flatten() {
        let value = graph.value_mut(*output)?;
        (value.dtype, value.shape) = (None, None);
    }
    let mut cause = |error: Error| refused.take().unwrap_or_else(|| error.at_no_node());
    let mut deferred = infer_and_fold(&mut graph).map_err(&mut cause)?;
    for condition in conditions.into_iter().chain(std::mem::take(&mut graph.conditions)) {
        call.require(Ok(Some(condition)))?;
    }
    let sized = copies.iter().filter(|(_, copy)| graph.replaced_by_sizes.contains_key(copy));
    replaced.into_iter().chain(sized.map(|(index, _)| *index)).for_each(|index| call.replace_by_sizes(index));
    for [value, to] in broadcasts {
        if let (Some(shape), Some(to)) = (&graph.value(value).shape, &graph.value(to).shape) {
            let input = copies.iter().find(|(_, copy)| *copy == value).map(|(index, _)| call.label(*index));
            check_broadcasts(shape, to)
                .map_err(|error| input.into_iter().fold(error, |error, label| error.at_part(label)))?;
        }
    }
    let mut fact = |(index, output): (usize, &Option<ValueId>)| {
        let Some(id) = output else { return Ok(Fact::unranked(DType::F32)) };
        if texts.contains(&index) {
            return Ok(Fact::unranked(DType::String));
        }
        let Value { dtype, shape, .. } = graph.value(*id);
        if (dtype.is_none() || shape.is_none())
            && let Some((_, error)) = deferred.pop_first()
        {
            return Err(cause(error));
        }
        let unknown = || Error::unsupported("its type is unknown").at_part(format!("output {index}"));
        Ok(Fact { shape: shape.clone(), ..Fact::unranked(dtype.ok_or_else(unknown)?) })
    };
    node.outputs.iter().take(count).enumerate().map(&mut fact).collect()
}

impl Isolated {
    fn copy(call: &Call) -> Isolated {
        let around = call.graph();
        let mut graph = Graph::default();
        graph.opsets.clone_from(&around.opsets);
        graph.budget = around.budget.clone();
        graph.budget.only_sizes = true;
        let mut copy = |id: &mut ValueId| {
            *id = graph.add_value(Value { producer: None, ..around.value(*id).clone() });
            *id
        };
        let mut node = call.node().clone();
        let inputs = node.inputs.iter_mut().enumerate();
        let copies = inputs.filter_map(|(index, id)| Some((index, copy(id.as_mut()?)))).collect();
        for body in node.bodies_mut() {
            for capture in &mut body.captures {
                copy(&mut capture.outer);
            }
        }
        for output in node.outputs.iter_mut().flatten() {
            // Type and shape that the model declares may stand for elements that are computed at run time.
            let Value { dtype, shape, .. } = around.value(*output).clone();
            *output = graph.add_value(Value { dtype, shape, ..Value::default() });
        }
        Isolated { graph, node, copies }
    }
}
