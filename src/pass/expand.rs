//! Replaces nodes by simpler ones, where the operator's row says how.

use std::collections::BTreeMap;
use std::ops::Deref;

use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node, NodeId, Value, ValueId};
use crate::ops::{self, Call, NEWEST_OPSET};
use crate::pass::infer;
use crate::tensor::{Array, Tensor};

/// Most rounds of expansion: each replaces operators by simpler ones, so real models need two or three.
const MAX_ROUNDS: usize = 8;

/// Builds what stands in the place of one node. It reads the node as [`Call`] does.
pub(crate) struct Expand<'a> {
    call: Call<'a>,
    /// Values that are added to the graph; their ids follow those that the graph has.
    values: &'a mut Vec<PendingValue>,
    nodes: Vec<PendingNode>,
}

/// A value while the nodes in place of another are being built.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value of the graph.
    Value(ValueId),
    /// A value that is made here.
    New(usize),
}

pub(crate) enum PendingValue {
    Constant(Tensor),
    Computed,
}

struct PendingNode {
    domain: &'static str,
    op_type: &'static str,
    inputs: Vec<Option<Operand>>,
    outputs: Vec<Option<Operand>>,
    attributes: BTreeMap<String, Attribute>,
}

impl<'a> Deref for Expand<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        &self.call
    }
}

impl Expand<'_> {
    /// Input `index` of the node, which must be given.
    pub fn operand(&self, index: usize) -> Result<Operand> {
        let id = self.call.node().inputs.get(index).copied().flatten();
        id.map(Operand::Value).ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    /// A constant.
    pub fn constant(&mut self, array: &Array) -> Result<Operand> {
        self.tensor(Tensor::from_array(array)?)
    }

    /// A constant that is a tensor already.
    pub fn tensor(&mut self, tensor: Tensor) -> Result<Operand> {
        self.values.push(PendingValue::Constant(tensor));
        Ok(Operand::New(self.values.len() - 1))
    }

    /// A constant list of integers, as axes and shapes are given.
    pub fn ints(&mut self, list: &[i64]) -> Result<Operand> {
        self.constant(&Array::i64(ndarray::ArrayD::from_shape_vec(vec![list.len()], list.to_vec())?))
    }

    /// A constant of no axes, in the type of input `index`.
    pub fn scalar_like(&mut self, index: usize, value: f32) -> Result<Operand> {
        let dtype = self.call.dtype(index)?;
        self.constant(&Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), value)).cast(dtype)?)
    }

    /// A node of the newest operator set with one output.
    pub fn op(
        &mut self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let inputs: Vec<Option<Operand>> = inputs.iter().copied().map(Some).collect();
        let outputs = self.op_n(op_type, &inputs, attributes, 1)?;
        outputs.first().copied().ok_or_else(|| Error::invalid("a node without an output"))
    }

    /// A node of the newest operator set with inputs that may be left out and `outputs` outputs.
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
        self.nodes.push(PendingNode {
            domain: "",
            op_type,
            inputs: inputs.to_vec(),
            outputs: made.iter().copied().map(Some).collect(),
            attributes: attributes.iter().map(|(name, a)| ((*name).to_owned(), a.clone())).collect(),
        });
        Ok(made)
    }

    /// Makes `operand` output `index` of the node. Nothing is asked for where that output is left out.
    pub fn output(&mut self, index: usize, operand: Operand) -> Result<()> {
        let Some(id) = self.call.node().outputs.get(index).copied().flatten() else { return Ok(()) };
        self.nodes.push(PendingNode {
            domain: "",
            op_type: "Identity",
            inputs: vec![Some(operand)],
            outputs: vec![Some(Operand::Value(id))],
            attributes: BTreeMap::new(),
        });
        Ok(())
    }
}

/// Expands every node whose row says how, until none is left, with shapes and constants of what is made.
pub(crate) fn expand_nodes(graph: &mut Graph, errors: &mut Vec<Error>) -> Result<()> {
    for _ in 0..MAX_ROUNDS {
        let mut changed = false;
        graph.rewrite_nodes(|graph, id| {
            let made = expand_node(graph, id);
            changed |= matches!(made, Ok(Some(_)));
            Ok(made.unwrap_or_else(|error| {
                errors.push(error);
                None
            }))
        })?;
        if !changed || !errors.is_empty() {
            return Ok(());
        }
        infer::infer_and_fold(graph)?;
        super::dead::remove_dead_nodes(graph);
    }
    Ok(())
}

fn expand_node(graph: &mut Graph, id: NodeId) -> Result<Option<Vec<Node>>> {
    let Some(node) = graph.node(id).cloned() else { return Ok(None) };
    let Some(op) = ops::find(&node) else { return Ok(None) };
    let Some(expand) = op.expand else { return Ok(None) };
    let mut values = Vec::new();
    let (done, pending) = {
        let call = Call::new(graph, &node, op);
        let mut context = Expand { call, values: &mut values, nodes: Vec::new() };
        let done = expand(&mut context).map_err(|e| e.at_node(|| node.at()))?;
        (done, context.nodes)
    };
    if !done {
        return Ok(None);
    }
    let mut ids = Vec::with_capacity(values.len());
    for value in values {
        ids.push(match value {
            PendingValue::Constant(tensor) => graph.add_constant("", tensor)?,
            PendingValue::Computed => graph.add_value(Value::default()),
        });
    }
    let resolve = |operand: &Option<Operand>| match operand {
        Some(Operand::Value(id)) => Some(*id),
        Some(Operand::New(index)) => ids.get(*index).copied(),
        None => None,
    };
    let nodes = pending.iter().map(|made| Node {
        name: node.name.clone(),
        index: node.index,
        domain: made.domain.to_owned(),
        op_type: made.op_type.to_owned(),
        version: NEWEST_OPSET,
        inputs: made.inputs.iter().map(resolve).collect(),
        outputs: made.outputs.iter().map(resolve).collect(),
        attributes: made.attributes.clone(),
    });
    Ok(Some(nodes.collect()))
}
