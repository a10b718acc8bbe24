//! Lowering: values become blobs, nodes become layers.
//!
//! A value may be in several blobs, each of another *form*: a shape of at most four axes whose elements, in
//! row-major order, are those of the value. Merging adjacent axes or dropping unit axes moves no data, so
//! every form is a Reshape of every other, and reshaping a value costs nothing until a layer needs another
//! form.

mod along;
mod assume;
mod assumption;
mod axes;
mod broadcast;
mod common_form;
mod compose;
mod custom;
mod elements;
mod energy;
mod exact;
mod expression;
mod form;
mod formula;
mod gather;
mod index;
mod moves;
mod nd;
mod node;
mod port;
mod precision;
mod quotient;
mod sample;
mod sizes;
mod state;

use std::cell::RefCell;
use std::collections::BTreeSet;

use crate::error::{Error, ErrorCode, Errors, Result, unsupported};
use crate::graph::{CustomLayer, DeferredErrors, Graph, Node, NodeId, Value, ValueId};
use crate::ncnn::Net;
use crate::op;
use crate::op::Call;
use crate::tensor::SizeCondition;

pub use assumption::{AssumedFact, Assumption};
pub(crate) use elements::{check_count, check_numbers, check_size, inexact_integer};
use elements::{check_elements, is_empty};
pub(crate) use exact::{HALF_OF_INFINITY, is_power_of_two, nudged_quotient};
pub(crate) use form::{extended, interface_axes, interface_form, line_form, same_elements};
pub(crate) use formula::{Formula, Operand, ScalarOrBlob};
pub(crate) use gather::MAX_PARTS;
pub(crate) use moves::lower_moves;
pub(crate) use nd::{Nd, ends};
pub(crate) use node::Lower;
pub(crate) use port::cached_inputs;
use port::{lower_inputs, lower_output};
pub(crate) use quotient::OverZero;
pub(crate) use sample::Gathered;
use state::State;

/// Expresses a node in ncnn layers.
pub(crate) type LowerNode = fn(&Lower) -> Result<()>;

/// Returns the lowering of a node's operator.
pub(crate) type FindLowering = fn(&Node) -> Option<LowerNode>;

/// A net, and the facts on which it relies without proof.
pub(crate) struct Lowered {
    pub net: Net,
    pub assumptions: Vec<Assumption>,
    /// The conditions on free sizes that lowerings required.
    pub conditions: BTreeSet<SizeCondition>,
}

/// Builds the net of a graph. Every node that cannot be lowered is reported.
pub(crate) fn lower_graph(
    graph: &Graph,
    find: FindLowering,
    deferred: &mut DeferredErrors,
    double_as_float: bool,
    asked: Option<u32>,
) -> std::result::Result<Lowered, Errors> {
    let mut state = State { may_be_newer: asked.is_none(), ..State::default() };
    state.net.release = crate::ncnn::release(asked)?;
    state.precise_values = precision::precise_values(graph);
    state.net.expect(graph.inputs.len() + graph.node_count() + graph.constant_count());
    state.forms.reserve(graph.value_count());
    let mut errors = lower_inputs(graph, double_as_float, &mut state);
    let state = RefCell::new(state);
    // Readers of a failed node have no bottoms: errors of their lowerings are not reported.
    let mut missing: BTreeSet<ValueId> = BTreeSet::new();
    if !errors.is_empty() {
        missing.extend(&graph.inputs);
    }
    for (id, node) in graph.nodes() {
        // Symbolic elements are read from the graph: every lowering knows the shapes that depend on them.
        if !node.outputs.is_empty()
            && node.outputs.iter().flatten().all(|id| graph.value(*id).elements.is_some())
        {
            continue;
        }
        let reads_missing = node.reads().any(|value| missing.contains(&value));
        // The error of a node does not follow from another one if type and shape of what it reads are known.
        let is_known = |id: ValueId| {
            let Value { dtype, shape, .. } = graph.value(id);
            shape.is_some() && dtype.is_some_and(|dtype| check_elements(dtype).is_ok())
        };
        let lowered = match deferred.remove(&id) {
            Some(error) if !reads_missing || node.reads().all(is_known) => Err(error),
            // Also without its inputs: the operator is unknown.
            _ if reads_missing => op::find_handled(node).map(drop),
            _ => lower_node(graph, find, id, node, &state),
        };
        let skipped = reads_missing || lowered.is_err();
        if let Err(mut error) = lowered {
            if error.code() == ErrorCode::UNKNOWN_OPERATOR && error.help_text().is_none() {
                let line = CustomLayer::of_node(graph, node).to_line();
                error = error.help(format!(
                    "if a layer of your own computes it, declare it in a file for --custom-layers: {line}"
                ));
            }
            errors.push(error.at_node(|| node.at()));
        }
        let state = state.borrow();
        // An empty value needs no blob, unless it is only declared as empty.
        let absent =
            |value: &&ValueId| !state.has_blob(graph, **value) && (skipped || !is_empty(graph, **value));
        missing.extend(node.outputs.iter().flatten().filter(absent));
    }
    let mut state = state.into_inner();
    for output in &graph.outputs {
        if !missing.contains(output)
            && let Err(error) = lower_output(graph, *output, &mut state)
        {
            errors.push(error.at_part(format!("output \"{}\"", graph.value(*output).name)));
        }
    }
    state.assume_fixed_sizes(graph);
    state.assume_finite_inputs(graph);
    // Forms that were used on the way.
    state.net.remove_unread();
    state.assign_layers_of_forms(graph);
    if let Err(error) = state.finalize_integers() {
        errors.push(error);
    }
    Errors::check(errors)?;
    let State { net, assumptions, conditions, .. } = state;
    Ok(Lowered { net, assumptions: assumptions.into_list(), conditions })
}

/// Refuses outputs of excessive size: loops over the elements of an axis must be limited.
fn check_sizes(graph: &Graph, node: &Node) -> Result<()> {
    node.outputs.iter().flatten().try_for_each(|output| check_size(graph, *output))
}

fn lower_node(
    graph: &Graph,
    find: FindLowering,
    id: NodeId,
    node: &Node,
    state: &RefCell<State>,
) -> Result<()> {
    let op = op::find_handled(node)?;
    let Some(lower) = find(node) else {
        let message = format!("{} cannot be expressed in ncnn", node.qualified_op_type());
        return Err(Error::unsupported(message));
    };
    check_sizes(graph, node)?;
    let layers = state.borrow().net.layers.len();
    let call = Call::new(graph, node, op);
    let float32 = precision::is_float32(&call, &state.borrow().precise_values);
    (state.borrow_mut().node, state.borrow_mut().float32) = (Some(id), float32);
    let context = Lower::new(call, state);
    let lowered = lower(&context).and_then(|()| context.check());
    if lowered.is_ok() {
        context.state_mut().float32 = false;
        context.assume_exact_integers(op);
        context.assume_finite(op);
    }
    lowered?;
    let state = &mut *state.borrow_mut();
    state.conditions.extend(context.call.into_conditions());
    for (index, output) in node.outputs.iter().enumerate() {
        if output.is_some_and(|output| !state.has_blob(graph, output) && !is_empty(graph, output)) {
            unsupported!("output {index} of {} cannot be expressed in ncnn", node.qualified_op_type());
        }
    }
    if state.net.layers.len() == layers {
        state.nodes_of_forms.insert(id);
    }
    Ok(())
}
