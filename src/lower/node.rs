//! The lowering of one node: its inputs as blobs, and its layers.

use std::cell::{Ref, RefCell, RefMut};
use std::ops::Deref;

use super::form::interface_form;
use super::state::{Label, State};
use crate::error::{Error, Result};
use crate::graph::ValueId;
use crate::ncnn::{BlobId, BlobIds, Element, Layer};
use crate::op::Call;
use crate::tensor::{Dim, Shape, Tensor};

/// The ending of the name of a blob for an intermediate result of a node without a name.
const PART: &str = "_part";

/// The names of the layers of a node.
pub(super) struct Names<'n> {
    layer: &'n str,
    /// The name of their tops, if it is another one.
    part: Option<String>,
}

impl Names<'_> {
    pub(super) fn label(&self) -> Label<'_> {
        Label { top: self.part.as_deref().unwrap_or(self.layer), ..Label::of(self.layer) }
    }
}

/// The lowering of one node. It reads the node as [`Call`] does.
pub(crate) struct Lower<'a> {
    pub(super) call: Call<'a>,
    pub(super) state: &'a RefCell<State>,
    /// The shapes of the values of expressions.
    pub(super) shapes: RefCell<Vec<Shape>>,
    /// The constants of expressions, each with its blobs.
    pub(super) tensors: RefCell<Vec<(Tensor, Vec<BlobId>)>>,
    /// The first error of an expression.
    pub(super) failed: RefCell<Option<Error>>,
}

impl<'a> Deref for Lower<'a> {
    type Target = Call<'a>;

    fn deref(&self) -> &Call<'a> {
        &self.call
    }
}

impl<'a> Lower<'a> {
    /// Returns the names of new layers and their tops: the name of the node, or of its first output. A top
    /// has the name of an output only if it contains that value, see [`Lower::set`].
    pub(super) fn names(&self) -> Names<'a> {
        let node = self.call.node();
        let mut outputs = node.outputs.iter().flatten().map(|id| self.call.graph().value(*id).name.as_str());
        let layer =
            if node.name.is_empty() { outputs.clone().next().unwrap_or("") } else { node.name.as_str() };
        let is_output = outputs.any(|output| output == layer);
        Names { layer, part: is_output.then(|| format!("{layer}{PART}")) }
    }
}

impl<'a> Lower<'a> {
    pub(super) fn new(call: Call<'a>, state: &'a RefCell<State>) -> Lower<'a> {
        let (shapes, tensors, failed) = (RefCell::default(), RefCell::default(), RefCell::default());
        Lower { call, state, shapes, tensors, failed }
    }
}

impl Lower<'_> {
    pub(super) fn state(&self) -> Ref<'_, State> {
        self.state.borrow()
    }

    pub(super) fn state_mut(&self) -> RefMut<'_, State> {
        self.state.borrow_mut()
    }

    pub(super) fn input_id(&self, index: usize) -> Result<ValueId> {
        let id = self.call.node().input(index);
        id.ok_or_else(|| Error::invalid(format!("input {index} is missing")))
    }

    /// Returns input `index` in any form. A constant is in its interface form.
    pub fn blob(&self, index: usize) -> Result<BlobId> {
        let id = self.input_id(index)?;
        if let Some(blob) = self.state().forms.get(id).and_then(|blobs| blobs.first()) {
            return Ok(*blob);
        }
        if let Some(blob) = self.sizes_as_numbers(id)? {
            return Ok(blob);
        }
        let form = interface_form(self.call.shape(index)?);
        self.blob_as(index, &form)
    }

    /// Returns symbolic elements as float32.
    fn sizes_as_numbers(&self, id: ValueId) -> Result<Option<BlobId>> {
        let value = self.call.graph().value(id);
        let exists = self.state().forms.contains(id) || value.constant.is_some();
        let Some(elements) = value.elements.as_ref().filter(|_| !exists) else { return Ok(None) };
        let sizes = elements.dim_list()?;
        let blob = self.materialize(&sizes)?;
        self.state_mut().forms.push(id, blob);
        Ok(Some(blob))
    }

    /// Returns input `index` in a form: a shape with the same elements in the same order.
    pub(super) fn blob_as(&self, index: usize, form: &[Dim]) -> Result<BlobId> {
        let id = self.input_id(index)?;
        self.sizes_as_numbers(id)?;
        self.state_mut().form(self.call.graph(), id, form)
    }

    /// Returns the sizes of a blob, outermost first.
    pub(super) fn form(&self, blob: BlobId) -> Vec<Dim> {
        self.state().net.blob(blob).shape.to_vec()
    }

    /// Returns a blob of three axes with this height and width, if there is one: layers read sizes from it.
    pub(super) fn plane(&self, height: &Dim, width: &Dim) -> Option<BlobId> {
        let net = &self.state().net;
        let has_it =
            |blob: &BlobId| matches!(&*net.blob(*blob).shape, [_, h, w] if h == height && w == width);
        net.blob_ids().find(|blob| has_it(blob) && net.blob(*blob).element != Element::Cache)
    }

    /// The oldest release of ncnn that must load the net: newer layers may be used only if it has them.
    pub fn release(&self) -> u32 {
        self.state().net.release
    }

    /// Adds a layer with one top of this form.
    pub(super) fn emit(&self, layer: impl Into<Layer>, bottoms: &[BlobId], form: &[Dim]) -> Result<BlobId> {
        let names = self.names();
        self.state_mut().emit_one(names.label(), layer, bottoms, form)
    }

    /// Adds a layer with a top of each of these forms.
    pub(super) fn emit_n(
        &self,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        forms: &[impl AsRef<[Dim]>],
    ) -> Result<BlobIds> {
        let names = self.names();
        self.state_mut().emit(names.label(), layer.into(), bottoms, forms)
    }

    /// Adds a constant blob in a form of its elements.
    pub(super) fn memory_data(&self, tensor: &Tensor, form: &[Dim]) -> Result<BlobId> {
        let names = self.names();
        self.state_mut().memory_data(names.label(), tensor, form)
    }

    /// Makes output `index` an alias of a value, which may have another shape.
    pub(super) fn alias(&self, index: usize, of: ValueId) -> Result<()> {
        let blobs = self.state().forms.get(of).cloned().unwrap_or_default();
        if let Some(output) = self.call.node().output(index) {
            self.state_mut().integers.add_alias(output, of);
        }
        blobs.into_iter().try_for_each(|blob| self.set(index, blob))
    }
}
