//! Expansion: nodes are replaced by simpler ones, as the row of the operator defines.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use crate::common::limits;
use crate::error::{Error, ErrorKind, NodeAt, Result};
use crate::graph::{Attribute, DeferredErrors, Graph, Node, NodeId, Symbol, Value, ValueId};
use crate::lower::check_size;
use crate::op;
use crate::op::{Call, NEWEST_OPSET};
use crate::pass::infer;
use crate::pass::pattern::input;
use crate::tensor::{Array, DType, Dim, Shape, Tensor, display_shape};

/// The most rounds of expansion; real models need two or three.
const MAX_ITERATIONS: usize = 8;

/// Builds a node of other operators; `false` keeps the node.
pub(crate) type ExpandNode = fn(&mut Expand) -> Result<bool>;

/// Returns the expansion of a node's operator at a stage.
pub(crate) type FindExpansion = fn(&Node, Stage) -> Option<ExpandNode>;

/// Builds the replacement of one node, which it reads as [`Call`] does.
pub(crate) struct Expand<'a> {
    call: Call<'a>,
    stage: Stage,
    /// The new values, added to the graph in the end.
    values: Vec<PendingValue>,
    nodes: Vec<PendingNode>,
    /// The bytes of new constants.
    made: u64,
}

/// A value that a new node reads or computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value of the graph.
    Value(ValueId),
    /// A new value, by its index.
    New(usize),
}

pub(crate) enum PendingValue {
    Constant(Tensor),
    Computed,
}

struct PendingNode {
    node: Node,
    inputs: Vec<Option<Operand>>,
    outputs: Vec<Option<Operand>>,
    /// The operands for the values that the bodies of the node capture.
    captures: BTreeMap<ValueId, Operand>,
}

impl<'a> Deref for Expand<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        &self.call
    }
}

impl Expand<'_> {
    /// The oldest release of ncnn that must load the result: a node may stay if that release has a layer for
    /// it.
    pub fn release(&self) -> u32 {
        match self.stage {
            Stage::Expand { release } => release,
            Stage::Inline | Stage::Branch => 0,
        }
    }

    /// Returns input `index` of the node.
    ///
    /// # Errors
    ///
    /// If the input is not given.
    pub fn operand(&self, index: usize) -> Result<Operand> {
        let id = input(self.call.node(), index);
        id.map(Operand::Value).ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    /// Adds a constant array.
    pub fn literal(&mut self, array: &Array) -> Result<Operand> {
        let tensor = Tensor::from_array(array)?;
        self.made = self.made.saturating_add(tensor.byte_len()?);
        self.tensor(tensor)
    }

    /// Adds a constant tensor.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<Operand> {
        self.values.push(PendingValue::Constant(tensor));
        Ok(Operand::New(self.values.len() - 1))
    }

    /// Adds a constant list of integers.
    pub fn ints(&mut self, list: &[i64]) -> Result<Operand> {
        self.literal(&Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?))
    }

    /// Adds a constant scalar in the type of input `index`.
    pub fn scalar_like(&mut self, index: usize, value: f32) -> Result<Operand> {
        let dtype = self.call.dtype(index)?;
        self.literal(&Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), value)).cast(dtype)?)
    }

    /// Adds a node of the newest operator set with one output.
    pub fn op(
        &mut self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let inputs: Vec<Option<Operand>> = inputs.iter().copied().map(Some).collect();
        let outputs = self.op_n(op_type, &inputs, attributes, 1)?;
        outputs.first().copied().ok_or_else(|| Error::internal("a node without an output"))
    }

    /// Adds a node of the newest operator set with optional inputs and `outputs` outputs.
    pub fn op_n(
        &mut self,
        op_type: &'static str,
        inputs: &[Option<Operand>],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Result<Vec<Operand>> {
        let made: Vec<Operand> = (0..outputs).map(|_| self.new_value()).collect();
        let node = Node {
            op_type: op_type.into(),
            version: NEWEST_OPSET,
            attributes: attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect(),
            ..Node::default()
        };
        self.push(node, inputs.to_vec(), made.iter().copied().map(Some).collect());
        Ok(made)
    }

    /// Adds a copy of a node of one output with other inputs.
    pub fn clone_with_inputs(&mut self, node: &Node, inputs: Vec<Option<Operand>>) -> Result<Operand> {
        let output = self.new_value();
        self.push(node.clone(), inputs, vec![Some(output)]);
        Ok(output)
    }

    fn new_value(&mut self) -> Operand {
        self.values.push(PendingValue::Computed);
        Operand::New(self.values.len() - 1)
    }

    fn push(&mut self, node: Node, inputs: Vec<Option<Operand>>, outputs: Vec<Option<Operand>>) {
        self.nodes.push(PendingNode { node, inputs, outputs, captures: BTreeMap::new() });
    }

    /// Adds a node of this program's own domain with one output.
    pub fn own_op(
        &mut self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let output = self.op(op_type, inputs, attributes)?;
        self.set_domain(op::OWN_DOMAIN);
        Ok(output)
    }

    /// Adds a node of onnxruntime's domain with one output and optional inputs.
    pub fn contrib_op(
        &mut self,
        op_type: &'static str,
        inputs: &[Option<Operand>],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let outputs = self.op_n(op_type, inputs, attributes, 1)?;
        self.set_domain(op::CONTRIB_DOMAIN);
        outputs.first().copied().ok_or_else(|| Error::internal("a node without an output"))
    }

    /// Moves the last node to a domain, in version 1 of its operator set.
    fn set_domain(&mut self, domain: &str) {
        if let Some(PendingNode { node, .. }) = self.nodes.last_mut() {
            (node.domain, node.version) = (domain.into(), 1);
        }
    }

    /// Adds a Reshape: 0 copies a size, one -1 is inferred.
    pub fn reshape(&mut self, operand: Operand, shape: &[i64]) -> Result<Operand> {
        let shape = self.ints(shape)?;
        self.op("Reshape", &[operand, shape], &[])
    }

    /// Adds a Cast.
    pub fn cast(&mut self, operand: Operand, to: DType) -> Result<Operand> {
        self.op("Cast", &[operand], &[("to", Attribute::Int(i64::from(to.to_onnx())))])
    }

    /// Returns input `index` in the type `to`, cast if it has another one.
    pub fn operand_as(&mut self, index: usize, to: DType) -> Result<Operand> {
        let operand = self.operand(index)?;
        if self.call.dtype(index)? == to { Ok(operand) } else { self.cast(operand, to) }
    }

    /// Adds a Transpose.
    pub fn transpose(&mut self, operand: Operand, perm: &[i64]) -> Result<Operand> {
        self.op("Transpose", &[operand], &[("perm", Attribute::Ints(perm.to_vec()))])
    }

    /// Adds the nodes of a body that reads `inputs`, and returns its outputs.
    pub fn inline(&mut self, body: &Graph, inputs: &[Operand]) -> Result<Vec<Operand>> {
        if inputs.len() != body.inputs.len() {
            let (given, expected) = (inputs.len(), body.inputs.len());
            return Err(Error::invalid(format!("{given} inputs for a body of {expected}")));
        }
        let mut operands: BTreeMap<ValueId, Operand> =
            body.inputs.iter().copied().zip(inputs.iter().copied()).collect();
        operands.extend(body.captures.iter().map(|capture| (capture.inner, Operand::Value(capture.outer))));
        for id in body.value_ids() {
            if let Some(tensor) = &body.value(id).constant
                && !operands.contains_key(&id)
            {
                let operand = self.tensor(Tensor::clone(tensor))?;
                operands.insert(id, operand);
            }
        }
        for (_, node) in body.nodes() {
            for output in node.outputs.iter().flatten() {
                operands.insert(*output, self.new_value());
            }
            if self.nodes.len() >= limits::UNROLLED_NODES {
                let most = limits::UNROLLED_NODES;
                return Err(Error::limit(format!("the node unrolls to more than {most} nodes")));
            }
            let find = |id: &Option<ValueId>| id.and_then(|id| operands.get(&id).copied());
            self.nodes.push(PendingNode {
                node: node.clone(),
                inputs: node.inputs.iter().map(find).collect(),
                outputs: node.outputs.iter().map(find).collect(),
                captures: node.reads().filter_map(|id| Some((id, *operands.get(&id)?))).collect(),
            });
        }
        let find = |id: &ValueId| {
            let missing =
                || Error::invalid(format!("the body does not compute \"{}\"", body.value(*id).name));
            operands.get(id).copied().ok_or_else(missing)
        };
        body.outputs.iter().map(find).collect()
    }

    /// Makes `operand` output `index` of the node, if the node has that output.
    pub fn output(&mut self, index: usize, operand: Operand) -> Result<()> {
        let Some(id) = self.call.node().outputs.get(index).copied().flatten() else { return Ok(()) };
        // Identity is the same in every version; that of the node does not raise the operator set of a
        // written model.
        let replaced = self.call.node();
        let version = if replaced.domain.is_empty() { replaced.version } else { NEWEST_OPSET };
        let node = Node { op_type: "Identity".into(), version, ..Node::default() };
        self.push(node, vec![Some(operand)], vec![Some(Operand::Value(id))]);
        Ok(())
    }
}

/// The stage of expansion, which selects the expansion of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Inlines and unrolls control flow; onnxruntime still runs the graph.
    Inline,
    /// Inlines branches only, which leaves fewer nodes.
    Branch,
    /// Expands operators for which some release of ncnn from this one on has no layer.
    Expand { release: u32 },
}

impl Stage {
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
    // Of all rounds: a replacement may get its shape only in a later one.
    let mut promises = Vec::new();
    for _ in 0..MAX_ITERATIONS {
        errors.clear();
        let mut changed = false;
        graph.rewrite_nodes(|graph, id| {
            // A node that its shape rule refuses is not expanded. Control flow has no shape before it is
            // inlined.
            if stage.is_last() && deferred.contains_key(&id) {
                return Ok(None);
            }
            let promised = if stage.is_last() { promises_of(graph, find, stage, id) } else { Vec::new() };
            match expand_node(graph, find, id, stage) {
                Ok(made) => {
                    changed |= made.is_some();
                    if made.is_some() {
                        promises.extend(promised);
                    }
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
        super::dead::remove_dead_nodes(graph);
        *deferred = infer::infer_and_fold(graph)?;
        promises.iter().try_for_each(|promise| promise.check(graph))?;
        super::dead::remove_dead_nodes(graph);
    }
    refused.extend(errors.into_iter().filter(|(id, _)| {
        if stage.is_last() {
            // The deferred error of a node is the cause of its error in expansion.
            return !deferred.contains_key(id);
        }
        // A node that is not inlined may have another expansion; if not, its shape rule only states that it
        // was not inlined.
        graph.node(*id).is_some_and(|node| find(node, Stage::Expand { release: 0 }).is_none())
    }));
    Ok(())
}

/// The inferred shape of an output of a replaced node, on which other nodes rely already.
struct Promise {
    value: ValueId,
    shape: Shape,
    at: NodeAt,
}

fn promises_of(graph: &Graph, find: FindExpansion, stage: Stage, id: NodeId) -> Vec<Promise> {
    let expands = |node: &&Node| find(node, stage).is_some();
    let Some(node) = graph.node(id).filter(expands) else { return Vec::new() };
    let promise = |value: &ValueId| {
        Some(Promise { value: *value, shape: graph.value(*value).shape.clone()?, at: node.at() })
    };
    node.outputs.iter().flatten().filter_map(promise).collect()
}

impl Promise {
    /// Checks the shape that the replacement computes: shape rules read fewer inputs than the replacement.
    fn check(&self, graph: &Graph) -> Result<()> {
        let Some(shape) = &graph.value(self.value).shape else { return Ok(()) };
        let differ = |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
        if shape.len() == self.shape.len() && !shape.iter().zip(&self.shape).any(differ) {
            return Ok(());
        }
        let (computed, promised) = (display_shape(shape), display_shape(&self.shape));
        let message = format!("its expansion computes {computed}, but its shape rule infers {promised}");
        Err(Error::unsupported(message).at_node(|| self.at.clone()))
    }
}

/// The number of nodes and values of a node with its bodies.
fn size_of_node(node: &Node) -> usize {
    let bodies = node.bodies();
    let size = |body: &Graph| -> usize {
        body.value_ids().count() + body.nodes().map(|(_, node)| size_of_node(node)).sum::<usize>()
    };
    1 + bodies.map(size).sum::<usize>()
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
        // Expansions make nodes for each element of an axis.
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        values
            .try_for_each(|value| check_size(graph, *value).and_then(|()| check_axes(graph, *value)))
            .map_err(|error| error.at_node(|| node.at()))?;
    }
    let node = node.clone();
    let (values, pending, made) = {
        let call = Call::new(graph, &node, op);
        let mut context = Expand { call, stage, values: Vec::new(), nodes: Vec::new(), made: 0 };
        if !expand(&mut context).map_err(|error| error.at_node(|| node.at()))? {
            return Ok(None);
        }
        (context.values, context.nodes, context.made)
    };
    // The body of control flow may have fewer outputs than the node.
    let made_here: BTreeSet<ValueId> = (pending.iter().flat_map(|made| made.outputs.iter().flatten()))
        .filter_map(|output| if let Operand::Value(id) = output { Some(*id) } else { None })
        .collect();
    let missing = |id: &Option<ValueId>| id.is_some_and(|id| !made_here.contains(&id));
    if let (false, Some(index)) = (stage.is_last(), node.outputs.iter().position(missing)) {
        return Err(Error::invalid(format!("output {index} is not computed")).at_node(|| node.at()));
    }
    let nodes = pending.iter().map(|made| size_of_node(&made.node)).sum();
    graph.budget.take_expansion(nodes, made).map_err(|error| error.at_node(|| node.at()))?;
    let add = |value| match value {
        PendingValue::Constant(tensor) => graph.add_constant("", tensor),
        PendingValue::Computed => Ok(graph.add_value(Value::default())),
    };
    let ids = values.into_iter().map(add).collect::<Result<Vec<ValueId>>>()?;
    let resolve = |operand: &Operand| match operand {
        Operand::Value(id) => Some(*id),
        Operand::New(index) => ids.get(*index).copied(),
    };
    let nodes = pending.into_iter().map(|pending| {
        let mut made = pending.node;
        for body in made.bodies_mut() {
            for capture in &mut body.captures {
                if let Some(id) = pending.captures.get(&capture.outer).and_then(resolve) {
                    capture.outer = id;
                }
            }
        }
        // Messages name the node of the model.
        made.name.clone_from(&node.name);
        made.index = node.index;
        made.inputs = pending.inputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
        made.outputs = pending.outputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
        made
    });
    Ok(Some(nodes.collect()))
}
