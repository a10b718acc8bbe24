//! The builder of replacements.

use std::collections::BTreeMap;
use std::ops::Deref;

use super::Stage;
use crate::common::limits;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node, Symbol, ValueId};
use crate::op::{self, Call, NEWEST_OPSET};
use crate::pass::blocks::Weights;
use crate::pass::pattern::input;
use crate::tensor::{Array, DType, Tensor};

/// Builds the replacement of one node, which it reads as [`Call`] does.
pub(crate) struct Expand<'a> {
    pub(super) call: Call<'a>,
    pub(super) stage: Stage,
    /// The new values, added to the graph in the end.
    pub(super) values: Vec<PendingValue>,
    pub(super) nodes: Vec<PendingNode>,
    /// The bytes of new constants.
    pub(super) made: u64,
    pub(super) warnings: Vec<String>,
}

/// A value that a new node reads or computes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Operand {
    /// A value of the graph.
    Value(ValueId),
    /// A new value, by its index.
    New(usize),
}

/// A new value.
pub(super) enum PendingValue {
    Constant(Tensor),
    Computed,
}

/// A new node.
pub(super) struct PendingNode {
    pub(super) node: Node,
    pub(super) inputs: Vec<Option<Operand>>,
    pub(super) outputs: Vec<Option<Operand>>,
    /// The operands for the values that the bodies of the node capture.
    pub(super) captures: BTreeMap<ValueId, Operand>,
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
            Stage::Expand { release, .. } => release,
            Stage::Inline | Stage::Branch => 0,
        }
    }

    /// The storage of constant matrices.
    pub fn weights(&self) -> Weights {
        match self.stage {
            Stage::Expand { weights, .. } => weights,
            Stage::Inline | Stage::Branch => Weights::Float,
        }
    }

    /// Whether attention to a cache is to be one layer.
    pub fn keeps_cache(&self) -> bool {
        matches!(self.stage, Stage::Expand { kv_cache: true, .. })
    }

    /// Adds a warning about the node.
    pub fn warn(&mut self, warning: &str) {
        let node = self.call.node();
        self.warnings.push(Error::unsupported(warning).at_node(|| node.at()).to_string());
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

    /// Emits a size of an operand, a scalar integer. Negative axes count from the end.
    pub fn size(&mut self, operand: Operand, axis: i64) -> Result<Operand> {
        let mut part = vec![("start", Attribute::Int(axis))];
        if axis != -1 {
            part.push(("end", Attribute::Int(axis + 1)));
        }
        let size = self.op("Shape", &[operand], &part)?;
        let scalar = self.ints(&[])?;
        self.op("Reshape", &[size, scalar], &[])
    }

    /// Emits the positions along an axis of an operand: a list of integers.
    pub fn positions(&mut self, operand: Operand, axis: i64) -> Result<Operand> {
        let size = self.size(operand, axis)?;
        let (zero, one) = (self.scalar(0)?, self.scalar(1)?);
        self.op("Range", &[zero, size, one], &[])
    }

    /// Emits a scalar integer.
    pub fn scalar(&mut self, n: i64) -> Result<Operand> {
        self.literal(&Array::i64(ndarray::ArrayD::from_elem(Vec::new(), n)))
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
