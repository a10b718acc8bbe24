//! Expansion: nodes are replaced by simpler ones, as the row of the operator defines.

mod builder;

use crate::common::limits;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::{DeferredErrors, Graph, Node, NodeId, ValueId};
use crate::lower::check_size;
use crate::op::{self, Call, Op};
use crate::pass::blocks::Weights;
use crate::pass::builder::{Expr, Made};
use crate::pass::infer;
use crate::tensor::{Dim, SizeCondition};

pub(crate) use builder::Expand;

/// The maximum number of iterations. Each one inlines one level of nested bodies, and replacements may be
/// replaced in turn.
const MAX_ITERATIONS: usize = limits::NESTING + 8;

/// Builds a node of other operators; `false` keeps the node.
pub(crate) type ExpandNode = fn(&Expand) -> Result<bool>;

/// Returns the first output of a node as an expression of its inputs.
pub(crate) type Formula = for<'x> fn(&'x Expand) -> Result<Expr<'x>>;

/// The expansion of an operator.
#[derive(Clone, Copy)]
pub(crate) enum Expansion {
    Nodes(ExpandNode),
    Formula(Formula),
}

/// What an expansion makes of a node.
pub(super) struct Expanded {
    pub made: Made,
    warnings: Vec<String>,
    /// The conditions on free sizes that it requires.
    pub conditions: Vec<SizeCondition>,
    /// The inputs whose elements were replaced by sizes.
    pub replaced: Vec<usize>,
    /// The outputs that are text, which nothing computes.
    pub texts: Vec<usize>,
    /// Why the values are not computed.
    pub refused: Option<Error>,
}

impl Expansion {
    /// Applies the expansion to a node of `op`; returns `None` if the node stays.
    pub(super) fn apply(self, graph: &Graph, node: &Node, op: &Op, stage: Stage) -> Result<Option<Expanded>> {
        let expand = Expand::new(Call::new(graph, node, op), stage);
        let expanded = match self {
            Expansion::Nodes(build) => build(&expand),
            Expansion::Formula(formula) => formula(&expand).map(|value| {
                expand.output(0, value);
                true
            }),
        };
        let Expand { call, make, warnings, refused, texts, .. } = expand;
        // An error of an expression comes first: what follows from it is not known.
        let made = make.finish().map_err(|error| match error.kind() {
            // Numbers take the types of operands.
            ErrorKind::Internal => untyped(&call).unwrap_or(error),
            _ => error,
        })?;
        Ok(expanded?.then(|| Expanded {
            made,
            warnings: warnings.into_inner(),
            replaced: call.replaced(),
            conditions: call.into_conditions(),
            texts: texts.into_inner(),
            refused: refused.into_inner(),
        }))
    }
}

/// Returns the error of the first input of unknown type.
fn untyped(call: &Call) -> Option<Error> {
    let mut present = (0..call.input_count()).filter(|index| call.has_input(*index));
    present.find_map(|index| call.dtype(index).err())
}

/// Returns the expansion of a node's operator at a stage.
pub(crate) type FindExpansion = fn(&Node, Stage) -> Option<Expansion>;

/// The stage of expansion, which selects the expansion of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Inlines and unrolls control flow; onnxruntime still runs the graph.
    Inline,
    /// Inlines branches only, which leaves fewer nodes.
    Branch,
    /// Expands operators for which some release of ncnn from this one on has no layer, and weights that do
    /// not stay in blocks. `kv_cache` asks for the forms in which attention to a cache is one layer.
    /// `attention` includes PlainAttention, which is left for the fusions before.
    Expand { release: u32, weights: Weights, kv_cache: bool, attention: bool },
}

impl Stage {
    /// The last stage for every release, without options.
    pub(super) const PLAIN: Stage =
        Stage::Expand { release: 0, weights: Weights::Float, kv_cache: false, attention: true };

    /// Whether lowering follows.
    fn is_last(self) -> bool {
        matches!(self, Stage::Expand { .. })
    }
}

/// Expands nodes up to a fixpoint, and infers shapes and constants after each round. `refused` takes the
/// errors of nodes that stay.
pub(crate) fn expand_nodes(
    graph: &mut Graph,
    find: FindExpansion,
    stage: Stage,
    deferred: &mut DeferredErrors,
    refused: &mut DeferredErrors,
) -> Result<()> {
    let mut errors = Vec::new();
    if stage.is_last() {
        super::dead::remove_unread_outputs(graph);
    }
    for _ in 0..MAX_ITERATIONS {
        errors.clear();
        let mut changed = false;
        graph.rewrite_nodes(|graph, id| {
            // A node that its shape rule refuses is not expanded. Control flow has no shape before it is
            // inlined.
            if stage.is_last() && deferred.contains_key(&id) {
                return Ok(None);
            }
            match expand_node(graph, find, id, stage) {
                Ok(made) => {
                    changed |= made.is_some();
                    Ok(made)
                }
                // Further nodes would exceed the budget, too.
                Err(error) if graph.budget.is_spent() => Err(error),
                Err(error) if deferred.contains_key(&id) || error.kind() == ErrorKind::Unsupported => {
                    errors.push((id, error));
                    Ok(None)
                }
                Err(error) => Err(error),
            }
        })?;
        if !changed {
            break;
        }
        // Expanded operators may lack a rule for ranges that their nodes have.
        graph.forget_ranges_of_types();
        super::dead::remove_dead_nodes(graph);
        *deferred = infer::infer_and_fold(graph)?;
        super::dead::remove_dead_nodes(graph);
    }
    refused.extend(errors.into_iter().filter(|(id, _)| {
        if stage.is_last() {
            // The deferred error of a node is the cause of its error in expansion.
            return !deferred.contains_key(id);
        }
        // A node that is not inlined may have another expansion; if not, its shape rule only states that it
        // was not inlined.
        graph.node(*id).is_some_and(|node| find(node, Stage::PLAIN).is_none())
    }));
    Ok(())
}

/// The number of nodes and values of a node with its bodies.
fn size_of_node(node: &Node) -> usize {
    let bodies = node.bodies();
    let size = |body: &Graph| -> usize {
        body.value_ids().count() + body.nodes().map(|(_, node)| size_of_node(node)).sum::<usize>()
    };
    1 + bodies.map(size).sum::<usize>()
}

/// Checks the values of a node before it is expanded: expansions make nodes for each element of an axis.
pub(super) fn check_sizes(graph: &Graph, node: &Node) -> Result<()> {
    let mut values = node.inputs.iter().chain(&node.outputs).flatten();
    values.try_for_each(|value| check_size(graph, *value).and_then(|()| check_axes(graph, *value)))
}

/// Checks that float32 represents every index of each axis of a value.
fn check_axes(graph: &Graph, id: ValueId) -> Result<()> {
    let mut sizes = graph.value(id).shape.iter().flatten().filter_map(Dim::known);
    match sizes.find(|size| *size > limits::EXPANDED_AXIS) {
        Some(size) => Err(Error::limit(format!(
            "an axis of size {size}; float32 represents indices up to {} exactly",
            limits::EXPANDED_AXIS
        ))),
        None => Ok(()),
    }
}

fn expand_node(
    graph: &mut Graph,
    find: FindExpansion,
    id: NodeId,
    stage: Stage,
) -> Result<Option<Vec<Node>>> {
    let Some(node) = graph.node(id) else { return Ok(None) };
    let Ok(op) = op::find_handled(node) else { return Ok(None) };
    let Some(expand) = find(node, stage) else { return Ok(None) };
    if stage.is_last() {
        check_sizes(graph, node).map_err(|error| error.at_node(|| node.at()))?;
        // The range that is computed from the new nodes would be wider.
        for output in node.outputs.iter().flatten() {
            op::range::range(graph, *output);
        }
    }
    let node = node.clone();
    let expanded = expand.apply(graph, &node, op, stage).map_err(|error| error.at_node(|| node.at()))?;
    let Some(Expanded { made, warnings, conditions, replaced, refused, .. }) = expanded else {
        return Ok(None);
    };
    if let Some(error) = refused {
        return Err(error.at_node(|| node.at()));
    }
    // The body of control flow may have fewer outputs than the node.
    let missing = node.outputs.iter().position(|id| id.is_some_and(|id| !made.computes(id)));
    if let (false, Some(index)) = (stage.is_last(), missing) {
        return Err(Error::invalid(format!("output {index} is not computed")).at_node(|| node.at()));
    }
    let nodes = made.nodes.iter().map(size_of_node).sum();
    graph.warnings.extend(warnings);
    graph.require(&node, conditions, replaced);
    graph.budget.take_expansion(nodes, made.bytes).map_err(|error| error.at_node(|| node.at()))?;
    made.add_to(graph, &node).map(Some)
}
