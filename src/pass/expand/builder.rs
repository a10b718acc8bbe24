//! The builder of replacements.

use std::cell::RefCell;
use std::ops::Deref;

use smallvec::smallvec;

use super::Operand;
use super::Stage;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node};
use crate::op::{Call, NEWEST_OPSET};
use crate::pass::blocks::Weights;
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::input;
use crate::tensor::{Array, DType, Tensor};

/// Builds the replacement of one node, which it reads as [`Call`] does.
pub(crate) struct Expand<'a> {
    call: Call<'a>,
    stage: Stage,
    /// The new nodes.
    pub make: Builder<'a>,
    pub(super) warnings: RefCell<Vec<String>>,
}

impl<'a> Deref for Expand<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        &self.call
    }
}

impl<'a> Expand<'a> {
    pub(super) fn new(call: Call<'a>, stage: Stage) -> Expand<'a> {
        let make = Builder::new(call.graph());
        Expand { call, stage, make, warnings: RefCell::default() }
    }

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
    pub fn warn(&self, warning: &str) {
        let node = self.call.node();
        self.warnings.borrow_mut().push(Error::unsupported(warning).at_node(|| node.at()).to_string());
    }

    /// Returns input `index` of the node, which must be given.
    pub fn operand(&self, index: usize) -> Expr<'_> {
        self.optional(index)
            .unwrap_or_else(|| self.make.fail(Error::invalid(format!("input {index} is missing"))))
    }

    /// Returns input `index` of the node, unless it is omitted.
    pub fn optional(&self, index: usize) -> Option<Expr<'_>> {
        input(self.call.node(), index).map(|id| self.make.value(id))
    }

    /// Returns input `index` in the type `to`, cast if it has another one.
    pub fn operand_as(&self, index: usize, to: DType) -> Expr<'_> {
        match self.call.dtype(index) {
            Ok(_) => self.operand(index).to_type(to),
            Err(error) => self.make.fail(error),
        }
    }

    /// Makes `from` output `index` of the node, if the node has that output.
    pub fn output(&self, index: usize, from: Expr) {
        let replaced = self.call.node();
        let Some(id) = replaced.outputs.get(index).copied().flatten() else { return };
        // Identity is the same in every version; that of the node does not raise the operator set of a
        // written model.
        let version = if replaced.domain.is_empty() { replaced.version } else { NEWEST_OPSET };
        self.make.node(Node {
            op_type: "Identity".into(),
            version,
            inputs: smallvec![Some(from.id)],
            outputs: smallvec![Some(id)],
            ..Node::default()
        });
    }
}

// The verbs without expressions.
impl Expand<'_> {
    fn wrap(&self, operand: Operand) -> Expr<'_> {
        self.make.wrap(operand)
    }

    pub fn raw_operand(&self, index: usize) -> Result<Operand> {
        let id = input(self.call.node(), index);
        id.ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    pub fn raw_literal(&self, array: &Array) -> Result<Operand> {
        Ok(self.make.literal(array).id)
    }

    pub fn raw_tensor(&self, tensor: Tensor) -> Result<Operand> {
        Ok(self.make.tensor(tensor).id)
    }

    pub fn raw_ints(&self, list: &[i64]) -> Result<Operand> {
        Ok(self.make.ints(list).id)
    }

    pub fn raw_scalar_like(&self, index: usize, value: f32) -> Result<Operand> {
        let dtype = self.call.dtype(index)?;
        Ok(self.make.number(value, dtype).id)
    }

    pub fn raw_op(
        &self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let inputs: Vec<Option<Operand>> = inputs.iter().copied().map(Some).collect();
        let outputs = self.raw_op_n(op_type, &inputs, attributes, 1)?;
        outputs.first().copied().ok_or_else(|| Error::internal("a node without an output"))
    }

    pub fn raw_op_n(
        &self,
        op_type: &'static str,
        inputs: &[Option<Operand>],
        attributes: &[(&str, Attribute)],
        outputs: usize,
    ) -> Result<Vec<Operand>> {
        let inputs: Vec<Option<Expr>> =
            inputs.iter().map(|input| input.map(|input| self.wrap(input))).collect();
        let made = self.make.op_list(op_type, inputs, attributes.iter().cloned(), outputs);
        Ok(made.into_iter().map(|made| made.id).collect())
    }

    pub fn raw_copy_of(&self, node: &Node, inputs: &[Option<Operand>]) -> Result<Operand> {
        let inputs: Vec<Option<Expr>> =
            inputs.iter().map(|input| input.map(|input| self.wrap(input))).collect();
        Ok(self.make.only_copy_of(node, &inputs)?.id)
    }

    pub fn raw_own_op(
        &self,
        op_type: &'static str,
        inputs: &[Operand],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let inputs = inputs.iter().map(|input| self.wrap(*input));
        Ok(self.make.own_op(op_type, inputs, attributes.iter().cloned()).id)
    }

    pub fn raw_contrib_op(
        &self,
        op_type: &'static str,
        inputs: &[Option<Operand>],
        attributes: &[(&str, Attribute)],
    ) -> Result<Operand> {
        let inputs = inputs.iter().map(|input| input.map(|input| self.wrap(input)));
        Ok(self.make.contrib_op(op_type, inputs, attributes.iter().cloned()).id)
    }

    pub fn raw_reshape(&self, operand: Operand, shape: &[i64]) -> Result<Operand> {
        Ok(self.wrap(operand).reshape(shape).id)
    }

    pub fn raw_size(&self, operand: Operand, axis: i64) -> Result<Operand> {
        Ok(self.wrap(operand).size(axis).id)
    }

    pub fn raw_positions(&self, operand: Operand, axis: i64) -> Result<Operand> {
        Ok(self.wrap(operand).positions(axis).id)
    }

    pub fn raw_scalar(&self, n: i64) -> Result<Operand> {
        Ok(self.make.int(n).id)
    }

    pub fn raw_cast(&self, operand: Operand, to: DType) -> Result<Operand> {
        Ok(self.wrap(operand).cast(to).id)
    }

    pub fn raw_operand_as(&self, index: usize, to: DType) -> Result<Operand> {
        Ok(self.operand_as(index, to).id)
    }

    pub fn raw_transpose(&self, operand: Operand, perm: &[i64]) -> Result<Operand> {
        Ok(self.wrap(operand).transpose(perm).id)
    }

    pub fn raw_inline(&self, body: &Graph, inputs: &[Operand]) -> Result<Vec<Operand>> {
        let inputs: Vec<Expr> = inputs.iter().map(|input| self.wrap(*input)).collect();
        Ok(self.make.inline(body, &inputs)?.into_iter().map(|made| made.id).collect())
    }

    pub fn raw_output(&self, index: usize, operand: Operand) -> Result<()> {
        self.output(index, self.wrap(operand));
        Ok(())
    }
}
