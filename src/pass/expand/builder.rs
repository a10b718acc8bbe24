//! The builder of replacements.

use std::cell::RefCell;
use std::ops::Deref;

use super::Stage;
use crate::error::Error;
use crate::op::{Call, NEWEST_OPSET};
use crate::pass::blocks::Weights;
use crate::pass::builder::{Builder, Expr};
use crate::tensor::DType;

/// Builds the replacement of one node, which it reads as [`Call`] does.
pub(crate) struct Expand<'a> {
    pub(super) call: Call<'a>,
    stage: Stage,
    /// The new nodes.
    pub make: Builder<'a>,
    pub(super) warnings: RefCell<Vec<String>>,
    pub(super) refused: RefCell<Option<Error>>,
    pub(super) texts: RefCell<Vec<usize>>,
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
        let (warnings, refused, texts) = Default::default();
        Expand { call, stage, make, warnings, refused, texts }
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

    /// Whether the fusions have taken the attentions of which they make a layer.
    pub fn expands_attention(&self) -> bool {
        matches!(self.stage, Stage::Expand { attention: true, .. })
    }

    /// Adds a warning about the node.
    pub fn warn(&self, warning: &str) {
        let node = self.call.node();
        self.warnings.borrow_mut().push(Error::unsupported(warning).at_node(|| node.at()).to_string());
    }

    /// Refuses the node. What is made all the same gives its outputs their types and shapes.
    pub fn refuse(&self, why: Error) {
        self.refused.borrow_mut().get_or_insert(why);
    }

    /// Returns input `index` of the node, which must be present.
    pub fn operand(&self, index: usize) -> Expr<'_> {
        self.optional(index)
            .unwrap_or_else(|| self.make.fail(Error::invalid(format!("input {index} is missing"))))
    }

    /// Returns input `index` of the node, unless it is omitted.
    pub fn optional(&self, index: usize) -> Option<Expr<'_>> {
        self.call.node().input(index).map(|id| self.make.value(id))
    }

    /// Returns input `index` in the type `to`, cast if it has another one.
    pub fn operand_as(&self, index: usize, to: DType) -> Expr<'_> {
        match self.call.dtype(index) {
            Ok(_) => self.operand(index).to_type(to),
            Err(error) => self.make.fail(error),
        }
    }

    /// Leaves out output `index` of the node, which is text.
    pub fn leave_text(&self, index: usize) {
        self.texts.borrow_mut().push(index);
    }

    /// Makes `from` output `index` of the node, if the node has that output.
    pub fn output(&self, index: usize, from: Expr) {
        let replaced = self.call.node();
        let Some(id) = replaced.output(index) else { return };
        // The version of the node does not raise the operator set of a written model.
        let version = if replaced.domain.is_empty() { replaced.version } else { NEWEST_OPSET };
        self.make.identity(from.id, id, version);
    }
}
