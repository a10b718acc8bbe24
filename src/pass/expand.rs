//! Expansion: replaces nodes by simpler ones.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Deref;

use crate::common::limits;
use crate::error::{Error, ErrorKind, NodeAt, Result};
use crate::graph::{Attribute, DeferredErrors, Graph, Node, NodeId, Symbol, Value, ValueId};
use crate::lower::check_size;
use crate::op;
use crate::op::{Call, NEWEST_OPSET};
use crate::pass::infer;
use crate::tensor::{Array, DType, Dim, Shape, Tensor, display_shape};

/// The maximum number of iterations: real models need two or three.
const MAX_ITERATIONS: usize = 8;

/// Expresses a node in other operators of ONNX. Returns `false` if the node stays.
pub(crate) type ExpandNode = fn(&mut Expand) -> Result<bool>;

/// Returns the expansion of a node's operator at a stage.
pub(crate) type FindExpansion = fn(&Node, Stage) -> Option<ExpandNode>;

/// Builds the replacement of a node. It reads the node as [`Call`] does.
pub(crate) struct Expand<'a> {
    call: Call<'a>,
    stage: Stage,
    /// Values that are added to the graph; their ids follow those of the graph.
    values: &'a mut Vec<PendingValue>,
    nodes: Vec<PendingNode>,
    /// Bytes of the new constants.
    made: u64,
}

/// A value of the graph or of the replacement.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value of the graph.
    Value(ValueId),
    /// A new value.
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
    /// The replacements of the values that the bodies of the node capture.
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
    pub fn operand(&self, index: usize) -> Result<Operand> {
        let id = self.call.node().inputs.get(index).copied().flatten();
        id.map(Operand::Value).ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    /// Adds a constant.
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

    /// Adds a constant list of integers, for axes and shapes.
    pub fn ints(&mut self, list: &[i64]) -> Result<Operand> {
        self.literal(&Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?))
    }

    /// Adds a scalar constant of the type of input `index`.
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
        let made: Vec<Operand> = (0..outputs)
            .map(|_| {
                self.values.push(PendingValue::Computed);
                Operand::New(self.values.len() - 1)
            })
            .collect();
        let node = Node {
            op_type: op_type.into(),
            version: NEWEST_OPSET,
            attributes: attributes.iter().map(|(name, a)| (Symbol::from(*name), a.clone())).collect(),
            ..Node::default()
        };
        self.nodes.push(PendingNode {
            node,
            inputs: inputs.to_vec(),
            outputs: made.iter().copied().map(Some).collect(),
            captures: BTreeMap::new(),
        });
        Ok(made)
    }

    /// Adds a copy of a node of one output, with other inputs.
    pub fn clone_with_inputs(&mut self, node: &Node, inputs: Vec<Option<Operand>>) -> Result<Operand> {
        self.values.push(PendingValue::Computed);
        let output = Operand::New(self.values.len() - 1);
        let outputs = vec![Some(output)];
        self.nodes.push(PendingNode { node: node.clone(), inputs, outputs, captures: BTreeMap::new() });
        Ok(output)
    }

    /// Adds a node of ncnn's domain with one output.
    pub fn own_op(
        &mut self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let made = self.op(op_type, inputs, attributes)?;
        if let Some(pending) = self.nodes.last_mut() {
            pending.node.domain = op::OWN_DOMAIN.into();
            pending.node.version = 1;
        }
        Ok(made)
    }

    /// Adds a node of onnxruntime's domain with one output and optional inputs.
    pub fn contrib_op(
        &mut self,
        op_type: &'static str,
        inputs: &[Option<Operand>],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let made = self.op_n(op_type, inputs, attributes, 1)?;
        if let Some(pending) = self.nodes.last_mut() {
            pending.node.domain = op::CONTRIB_DOMAIN.into();
            pending.node.version = 1;
        }
        made.first().copied().ok_or_else(|| Error::internal("a node without an output"))
    }

    /// Adds a Reshape: 0 keeps a size, -1 is computed from the others.
    pub fn reshape(&mut self, operand: Operand, shape: &[i64]) -> Result<Operand> {
        let shape = self.ints(shape)?;
        self.op("Reshape", &[operand, shape], &[])
    }

    /// Adds a Cast.
    pub fn cast(&mut self, operand: Operand, to: DType) -> Result<Operand> {
        self.op("Cast", &[operand], &[("to", Attribute::Int(i64::from(to.to_onnx())))])
    }

    /// Returns input `index` in type `to`, by a Cast if it has another.
    pub fn operand_as(&mut self, index: usize, to: DType) -> Result<Operand> {
        let operand = self.operand(index)?;
        if self.call.dtype(index)? == to { Ok(operand) } else { self.cast(operand, to) }
    }

    /// Adds a Transpose.
    pub fn transpose(&mut self, operand: Operand, perm: &[i64]) -> Result<Operand> {
        self.op("Transpose", &[operand], &[("perm", Attribute::Ints(perm.to_vec()))])
    }

    /// Adds the nodes of a body with these inputs, and returns its outputs.
    pub fn inline(&mut self, body: &Graph, inputs: &[Operand]) -> Result<Vec<Operand>> {
        if inputs.len() != body.inputs.len() {
            return Err(Error::invalid(format!(
                "{} inputs for a body with {}",
                inputs.len(),
                body.inputs.len()
            )));
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
                self.values.push(PendingValue::Computed);
                operands.insert(*output, Operand::New(self.values.len() - 1));
            }
            if self.nodes.len() >= limits::UNROLLED_NODES {
                return Err(Error::limit(format!(
                    "unrolling gives more than {} nodes",
                    limits::UNROLLED_NODES
                )));
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
        // Identity is equal in every version; that of the node requires no other operator set.
        let replaced = self.call.node();
        let version = if replaced.domain.is_empty() { replaced.version } else { NEWEST_OPSET };
        let node = Node { op_type: "Identity".into(), version, ..Node::default() };
        self.nodes.push(PendingNode {
            node,
            inputs: vec![Some(operand)],
            outputs: vec![Some(Operand::Value(id))],
            captures: BTreeMap::new(),
        });
        Ok(())
    }
}

/// The stage of an expansion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Constant control flow: the graph stays one that onnxruntime runs with the same result.
    Inline,
    /// Constant control flow without loops, which leaves fewer nodes.
    Branch,
    /// Operators for which the releases of ncnn from this one on have no layer.
    Expand { release: u32 },
}

impl Stage {
    /// Whether the remaining nodes are lowered.
    fn is_last(self) -> bool {
        matches!(self, Stage::Expand { .. })
    }
}

/// Replaces every node whose row has an expansion, to a fixpoint, and infers the new values. The errors of
/// nodes that stay are kept in `refused`.
pub(crate) fn expand_nodes(
    graph: &mut Graph,
    find: FindExpansion,
    stage: Stage,
    deferred: &mut DeferredErrors,
    refused: &mut DeferredErrors,
) -> Result<()> {
    let mut errors = Vec::new();
    // The replaced nodes of all iterations: the shape of a replacement may be inferred only in a later one.
    let mut promises = Vec::new();
    for _ in 0..MAX_ITERATIONS {
        errors.clear();
        let mut changed = false;
        graph.rewrite_nodes(|graph, id| {
            // A node whose attributes or inputs the shape rule refuses must not be computed by other means.
            // Control flow has no shape before it is inlined.
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
                // Every further node would exceed the limit too.
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
            // The deferred error of a node explains more than that of its expansion.
            return !deferred.contains_key(id);
        }
        // A node that is not inlined may have an expansion; otherwise its shape rule reports only that it was
        // not inlined.
        graph.node(*id).is_some_and(|node| find(node, Stage::Expand { release: 0 }).is_none())
    }));
    Ok(())
}

/// A shape that the rule of a replaced node has inferred. Other nodes already depend on it.
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
    /// Refuses a replacement of another shape: the shape rule reads fewer inputs than the replacement.
    fn check(&self, graph: &Graph) -> Result<()> {
        let Some(shape) = &graph.value(self.value).shape else { return Ok(()) };
        let differ = |(a, b): (&Dim, &Dim)| a.known().is_some() && b.known().is_some() && a != b;
        if shape.len() == self.shape.len() && !shape.iter().zip(&self.shape).any(differ) {
            return Ok(());
        }
        let (computed, promised) = (display_shape(shape), display_shape(&self.shape));
        let message = format!("the computed shape is {computed}, but {promised} follows from the inputs");
        Err(Error::unsupported(message).at_node(|| self.at.clone()))
    }
}

/// Returns 1 plus the number of nodes in the bodies.
fn size_of_node(node: &Node) -> usize {
    let bodies = node.bodies();
    let size = |body: &Graph| -> usize {
        body.value_ids().count() + body.nodes().map(|(_, node)| size_of_node(node)).sum::<usize>()
    };
    1 + bodies.map(size).sum::<usize>()
}

/// Refuses a value with an axis whose indices float32 cannot represent.
fn check_axes(graph: &Graph, id: ValueId) -> Result<()> {
    let mut sizes = graph.value(id).shape.iter().flatten().filter_map(Dim::known);
    match sizes.find(|size| *size > limits::EXPANDED_AXIS) {
        Some(size) => Err(Error::limit(format!(
            "an axis of {size} elements; float32 counts up to {}",
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
        // Expansions emit nodes for each element of an axis; the number must be limited.
        let mut values = node.inputs.iter().chain(&node.outputs).flatten();
        values
            .try_for_each(|value| check_size(graph, *value).and_then(|()| check_axes(graph, *value)))
            .map_err(|error| error.at_node(|| node.at()))?;
    }
    let node = node.clone();
    let mut values = Vec::new();
    let (done, pending, made) = {
        let call = Call::new(graph, &node, op);
        let mut context = Expand { call, stage, values: &mut values, nodes: Vec::new(), made: 0 };
        let done = expand(&mut context).map_err(|e| e.at_node(|| node.at()))?;
        (done, context.nodes, context.made)
    };
    if !done {
        return Ok(None);
    }
    // Only the body determines the outputs of control flow, and may have fewer than the node.
    let made_here: BTreeSet<ValueId> = (pending.iter().flat_map(|made| made.outputs.iter().flatten()))
        .filter_map(|output| if let Operand::Value(id) = output { Some(*id) } else { None })
        .collect();
    let missing = |id: &Option<ValueId>| id.is_some_and(|id| !made_here.contains(&id));
    if let (false, Some(index)) = (stage.is_last(), node.outputs.iter().position(missing)) {
        return Err(Error::invalid(format!("output {index} is not computed")).at_node(|| node.at()));
    }
    let nodes = pending.iter().map(|made| size_of_node(&made.node)).sum();
    graph.budget.take_expansion(nodes, made).map_err(|error| error.at_node(|| node.at()))?;
    let mut ids = Vec::with_capacity(values.len());
    for value in values {
        ids.push(match value {
            PendingValue::Constant(tensor) => graph.add_constant("", tensor)?,
            PendingValue::Computed => graph.add_value(Value::default()),
        });
    }
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
        // Errors refer to the node of the model.
        made.name.clone_from(&node.name);
        made.index = node.index;
        made.inputs = pending.inputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
        made.outputs = pending.outputs.iter().map(|operand| operand.as_ref().and_then(resolve)).collect();
        made
    });
    Ok(Some(nodes.collect()))
}
