//! Lowering: values become blobs, nodes become layers.
//!
//! Several blobs may hold a value, each in another *form*: a shape of at most four axes whose elements, in
//! row-major order, are those of the value. Merging adjacent axes or dropping unit axes moves no data, so
//! every form is a Reshape of every other, and reshaping a value costs nothing until a layer needs another
//! form.

mod along;
mod assumption;
mod broadcast;
mod common_form;
mod compose;
mod energy;
mod exact;
mod expression;
mod form;
mod formula;
mod frontier;
mod gather;
mod index;
mod port;
mod precision;
mod quotient;
mod sample;
mod sizes;
mod state;

use std::collections::BTreeSet;
use std::ops::Deref;

use crate::common::limits;
use crate::error::{Error, Errors, Result, unsupported};
use crate::graph::{DeferredErrors, Graph, Node, NodeId, Value, ValueId};
use crate::ncnn::{BlobId, BlobIds, Element, Layer, Net};
use crate::op;
use crate::op::Call;
use crate::tensor::{Dim, SizeCondition, Tensor};
pub use frontier::Cut;
use frontier::propose_cuts;

pub(crate) use along::OPEN_END;
pub use assumption::{AssumedFact, Assumption};
pub(crate) use broadcast::ScalarOrBlob;
pub(crate) use energy::is_square;
pub(crate) use exact::{HALF_OF_INFINITY, check_integers, inexact_integer, is_power_of_two, nudged_quotient};
pub(crate) use form::{apart_form, interface_axes, interface_form, isolate, line_form, same_elements};
pub(crate) use formula::{Formula, Operand};
pub(crate) use gather::{MAX_PARTS, part_count};
pub(crate) use index::ramp;
pub(crate) use port::cached_inputs;
use port::{check_elements, lower_inputs, lower_output};
pub(crate) use quotient::OverZero;
pub(crate) use sample::Gathered;
use state::{Label, State, mismatch};

/// Expresses a node in ncnn layers.
pub(crate) type LowerNode = fn(&mut Lower) -> Result<()>;

/// Returns the lowering of a node's operator.
pub(crate) type FindLowering = fn(&Node) -> Option<LowerNode>;

/// The ending of the name of a blob that holds an intermediate result of a node without a name.
const PART: &str = "_part";

/// The names of the layers of a node.
struct Names<'n> {
    layer: &'n str,
    /// The name of their tops, if it is another one.
    part: Option<String>,
}

impl Names<'_> {
    fn label(&self) -> Label<'_> {
        Label { layer: self.layer, top: self.part.as_deref().unwrap_or(self.layer) }
    }
}

/// The lowering of one node. It reads the node as [`Call`] does.
pub(crate) struct Lower<'a> {
    call: Call<'a>,
    state: &'a mut State,
}

impl<'a> Deref for Lower<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        &self.call
    }
}

/// The errors of a graph without a net, and the parts of it that may be convertible.
pub(crate) struct LowerError {
    pub errors: Errors,
    pub cuts: Vec<Cut>,
}

impl<E: Into<Errors>> From<E> for LowerError {
    fn from(errors: E) -> Self {
        LowerError { errors: errors.into(), cuts: Vec::new() }
    }
}

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
) -> std::result::Result<Lowered, LowerError> {
    let mut state = State { may_be_newer: asked.is_none(), ..State::default() };
    state.net.release = crate::ncnn::release(asked)?;
    state.precise_values = precision::precise_values(graph);
    state.net.expect(graph.inputs.len() + graph.node_count() + graph.constant_count());
    let mut errors = lower_inputs(graph, double_as_float, &mut state);
    // Readers of a failed node have no bottoms: errors of their lowerings are not reported.
    let mut missing: BTreeSet<ValueId> = BTreeSet::new();
    if !errors.is_empty() {
        missing.extend(&graph.inputs);
    }
    let mut failed = BTreeSet::new();
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
            _ => lower_node(graph, find, id, node, &mut state),
        };
        let skipped = reads_missing || lowered.is_err();
        if let Err(error) = lowered {
            errors.push(error.at_node(|| node.at()));
            failed.insert(id);
        }
        // An empty value needs no blob, unless it is only declared as empty.
        let absent =
            |value: &&ValueId| !state.holds(graph, **value) && (skipped || !is_empty(graph, **value));
        missing.extend(node.outputs.iter().flatten().filter(absent));
    }
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
    state.place_forms_alone(graph);
    if let Err(error) = state.finalize_integers() {
        errors.push(error);
    }
    let Err(errors) = Errors::check(errors) else {
        let State { net, assumptions, conditions, .. } = state;
        return Ok(Lowered { net, assumptions: assumptions.into_list(), conditions });
    };
    let cuts = propose_cuts(graph, &failed, |id| {
        state.forms.contains(id) && lower_output(graph, id, &mut state).is_ok()
    });
    Err(LowerError { errors, cuts })
}

/// Returns whether a value is known to have no elements.
fn is_empty(graph: &Graph, id: ValueId) -> bool {
    graph.value(id).shape.iter().flatten().any(|size| size.is(0))
}

/// Refuses outputs of excessive size: loops over the elements of an axis must be limited.
fn check_sizes(graph: &Graph, node: &Node) -> Result<()> {
    node.outputs.iter().flatten().try_for_each(|output| check_size(graph, *output))
}

/// Refuses a value with more elements than a blob can have.
pub(crate) fn check_size(graph: &Graph, id: ValueId) -> Result<()> {
    let known = graph.value(id).shape.iter().flatten().filter_map(Dim::known);
    let elements = known.fold(1_i64, |n, size| n.saturating_mul(size.max(1)));
    if elements > limits::BLOB_ELEMENTS {
        return Err(Error::limit(format!(
            "{elements} elements; a blob has at most {}",
            limits::BLOB_ELEMENTS
        )));
    }
    Ok(())
}

fn lower_node(graph: &Graph, find: FindLowering, id: NodeId, node: &Node, state: &mut State) -> Result<()> {
    let op = op::find_handled(node)?;
    let Some(lower) = find(node) else {
        let message = format!("{} cannot be expressed in ncnn", node.qualified_op_type());
        return Err(Error::unsupported(message).help(op::CUT));
    };
    check_sizes(graph, node)?;
    let layers = state.net.layers.len();
    state.node = Some(id);
    let call = Call::new(graph, node, op);
    state.float32 = precision::is_float32(&call, &state.precise_values);
    let mut context = Lower { call, state };
    lower(&mut context)?;
    context.state.float32 = false;
    context.assume_exact_integers(op);
    context.assume_finite(op);
    let conditions = context.call.into_conditions();
    state.conditions.extend(conditions);
    for (index, output) in node.outputs.iter().enumerate() {
        if output.is_some_and(|output| !state.holds(graph, output) && !is_empty(graph, output)) {
            unsupported!("output {index} of {} cannot be expressed in ncnn", node.qualified_op_type());
        }
    }
    if state.net.layers.len() == layers {
        state.forms_alone.insert(id);
    }
    Ok(())
}

impl<'a> Lower<'a> {
    /// Returns the names of new layers and their tops: that of the node, or of its first output. A top has the
    /// name of an output only if it holds that value, see [`Lower::set`].
    fn names(&self) -> Names<'a> {
        let node = self.call.node();
        let mut outputs = node.outputs.iter().flatten().map(|id| self.call.graph().value(*id).name.as_str());
        let layer =
            if node.name.is_empty() { outputs.clone().next().unwrap_or("") } else { node.name.as_str() };
        let is_output = outputs.any(|output| output == layer);
        Names { layer, part: is_output.then(|| format!("{layer}{PART}")) }
    }
}

impl Lower<'_> {
    fn input_id(&self, index: usize) -> Result<ValueId> {
        let id = self.call.node().inputs.get(index).copied().flatten();
        id.ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    /// Returns input `index` in any form. A constant is held in its interface form.
    pub fn blob(&mut self, index: usize) -> Result<BlobId> {
        let id = self.input_id(index)?;
        if let Some(blob) = self.state.forms.get(id).and_then(|held| held.first()) {
            return Ok(*blob);
        }
        if let Some(blob) = self.sizes_as_numbers(id)? {
            return Ok(blob);
        }
        let form = interface_form(self.call.shape(index)?)?;
        self.blob_as(index, &form)
    }

    /// Returns symbolic elements as float32.
    fn sizes_as_numbers(&mut self, id: ValueId) -> Result<Option<BlobId>> {
        let value = self.call.graph().value(id);
        let held = self.state.forms.contains(id) || value.constant.is_some();
        let Some(elements) = value.elements.as_ref().filter(|_| !held) else { return Ok(None) };
        let sizes: Vec<Dim> = elements.to_dims()?.iter().cloned().collect();
        let blob = self.materialize(&sizes)?;
        self.state.forms.push(id, blob);
        Ok(Some(blob))
    }

    /// Returns input `index` in a form: a shape with the same elements in the same order.
    pub fn blob_as(&mut self, index: usize, form: &[Dim]) -> Result<BlobId> {
        let id = self.input_id(index)?;
        self.sizes_as_numbers(id)?;
        self.state.form(self.call.graph(), id, form)
    }

    /// Returns the sizes of a blob, outermost first.
    pub fn form(&self, blob: BlobId) -> Vec<Dim> {
        self.state.net.blob(blob).shape.to_vec()
    }

    /// Returns a blob of three axes with this height and width, if there is one: layers read sizes from it.
    pub fn plane(&self, height: &Dim, width: &Dim) -> Option<BlobId> {
        let net = &self.state.net;
        let has_it =
            |blob: &BlobId| matches!(&*net.blob(*blob).shape, [_, h, w] if h == height && w == width);
        net.blob_ids().find(|blob| has_it(blob) && net.blob(*blob).element != Element::Cache)
    }

    /// Returns an expression of the height and width of the top of a layer with the first bottom `blob`, and all bottoms,
    /// if there are blobs with these sizes.
    pub fn plane_by_expression(&self, blob: BlobId, plane: [&Dim; 2]) -> Option<(String, Vec<BlobId>)> {
        self.state.sizes_by_expression(blob, &plane.map(Dim::clone))
    }

    /// The oldest release of ncnn that must load the net: newer layers may be used only if it has them.
    pub fn release(&self) -> u32 {
        self.state.net.release
    }

    /// Adds a layer with one top of this form.
    pub fn emit(&mut self, layer: impl Into<Layer>, bottoms: &[BlobId], form: &[Dim]) -> Result<BlobId> {
        let tops = self.emit_n(layer, bottoms, &[form])?;
        tops.first().copied().ok_or_else(|| Error::internal("a layer without a top"))
    }

    /// Adds a layer with a top of each of these forms.
    pub fn emit_n(
        &mut self,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        forms: &[impl AsRef<[Dim]>],
    ) -> Result<BlobIds> {
        let names = self.names();
        self.state.emit(names.label(), layer.into(), bottoms, forms)
    }

    /// Returns a blob in another form; without a Reshape if it has that form.
    pub fn reshape(&mut self, x: impl Into<Formula>, form: &[Dim]) -> Result<BlobId> {
        let blob = self.compute(x)?;
        let names = self.names();
        self.state.reshape(names.label(), blob, form)
    }

    /// Adds a constant blob in a form of its elements.
    pub fn memory_data(&mut self, tensor: &Tensor, form: &[Dim]) -> Result<BlobId> {
        let names = self.names();
        self.state.memory_data(names.label(), tensor, form)
    }

    /// Makes `x`, in any form of the value, output `index`, if the node has that output.
    pub fn set(&mut self, index: usize, x: impl Into<Formula>) -> Result<()> {
        let blob = self.compute(x)?;
        let Some(id) = self.call.node().outputs.get(index).copied().flatten() else { return Ok(()) };
        self.call.graph().value(id).dtype.map_or(Ok(()), check_elements)?;
        let shape = self.call.output_shape(index)?;
        let form = self.form(blob);
        if !same_elements(&form, shape)? {
            return Err(mismatch(&format!("output {index}"), shape, "lowered to", &form));
        }
        let name = &self.call.graph().value(id).name;
        // The first value that a blob holds gives the blob its name, for readers of the .param file.
        if let Some(made) = self.state.net.blob_mut(blob)
            && self.state.named.insert(blob)
        {
            made.name.clone_from(name);
        }
        if let Some(made) = self.state.net.blob_mut(blob) {
            made.float32 = self.state.precise_values.contains(id);
        }
        self.state.forms.push(id, blob);
        Ok(())
    }

    /// Emits output 0 as input 0 in another shape, with as many elements only under a condition on free sizes.
    pub fn reinterpret(&mut self) -> Result<()> {
        let form = interface_form(self.output_shape(0)?)?;
        let blob = self.blob(0)?;
        let (layer, bottoms) = self.state.reshape_layer_of(blob, &form)?;
        let top = self.emit_newer(layer, &bottoms, &form)?;
        self.set(0, top)
    }

    /// Makes output 0 an alias of input 0 in another shape.
    pub fn alias(&mut self) -> Result<()> {
        let first = self.blob(0)?;
        let input = self.input_id(0)?;
        let held = self.state.forms.get(input).cloned().unwrap_or_default();
        if let Some(output) = self.call.node().outputs.first().copied().flatten() {
            self.state.integers.add_alias(output, input);
        }
        self.set(0, first)?;
        for blob in held {
            if blob != first {
                self.set(0, blob)?;
            }
        }
        Ok(())
    }
}
