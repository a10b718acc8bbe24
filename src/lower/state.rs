//! The net during lowering, and the forms of values.

use std::collections::{BTreeMap, BTreeSet};

use super::assumption::Assumptions;
use super::axes::Axes;
use super::elements::{check_elements, check_numbers, is_empty};
use super::form::{by_name, same_elements};
use super::precision;
use crate::common::index::{Index, IndexMap, IndexSet, SmallList};
use crate::error::{Error, Result, unsupported};
use crate::graph::{Graph, NodeId, ValueId};
use crate::ncnn::layer::{MemoryData, Reshape, Trait};
use crate::ncnn::{Blob, BlobId, BlobIds, Element, Layer, Net, NetLayer};
use crate::tensor::{Dim, SizeCondition, Tensor, display_shape};

/// The net during lowering.
#[derive(Default)]
pub(crate) struct State {
    pub(super) net: Net,
    /// The forms of each value; the first is that of its node.
    pub(super) forms: IndexMap<ValueId, SmallList<BlobId>>,
    /// Reshapes: the blob and the target form, and the resulting blob.
    pub(super) reshapes: BTreeMap<(BlobId, Vec<Dim>), BlobId>,
    /// The blob of which a blob is a Reshape.
    pub(super) reshaped_from: IndexMap<BlobId, BlobId>,
    /// Infinities of either sign for each condition, and their negations.
    pub(super) infinities: BTreeMap<BlobId, [BlobId; 2]>,
    /// Graph inputs that may be indices.
    pub(super) integers: Integers,
    /// The node that is being lowered.
    pub(super) node: Option<NodeId>,
    /// Values that half precision does not represent.
    pub(super) precise_values: IndexSet<ValueId>,
    /// Whether the layers of the node that is being lowered compute in float32.
    pub(super) float32: bool,
    /// Nodes without layers: their output is another form of an existing value.
    pub(super) nodes_of_forms: BTreeSet<NodeId>,
    /// Facts on which the layers rely without proof.
    pub(super) assumptions: Assumptions,
    /// The conditions on free sizes that lowerings required.
    pub(super) conditions: BTreeSet<SizeCondition>,
    /// The sources of free sizes.
    pub(super) axes: Axes,
    /// Whether free sizes may require a newer release than the net otherwise needs: if none was asked for.
    pub(super) may_be_newer: bool,
}

/// Integer graph inputs, and reshaped views of them.
#[derive(Default)]
pub(super) struct Integers {
    /// The blobs of graph inputs.
    pub(super) inputs: BTreeMap<ValueId, BlobId>,
    /// Values with the elements of another value.
    aliases: BTreeMap<ValueId, ValueId>,
    /// Inputs as blobs of one axis of 32-bit integers.
    pub(super) indices: BTreeMap<BlobId, BlobId>,
}

impl Integers {
    pub(super) fn add_input(&mut self, id: ValueId, blob: BlobId) {
        self.inputs.insert(id, blob);
    }

    pub(super) fn add_alias(&mut self, id: ValueId, of: ValueId) {
        self.aliases.insert(id, of);
    }

    pub(super) fn input(&self, mut id: ValueId) -> Option<BlobId> {
        while let Some(of) = self.aliases.get(&id) {
            id = *of;
        }
        self.inputs.get(&id).copied()
    }
}

/// The names of a new layer and of its tops.
#[derive(Clone, Copy)]
pub(super) struct Label<'n> {
    pub layer: &'n str,
    pub top: &'n str,
    /// See [`Blob::is_value`].
    pub is_value: bool,
}

impl<'n> Label<'n> {
    /// Returns the names of a layer and its top after a value.
    pub fn of(name: &'n str) -> Label<'n> {
        Label { layer: name, top: name, is_value: false }
    }
}

impl State {
    /// Returns whether a value has a blob or a constant.
    pub(super) fn has_blob(&self, graph: &Graph, id: ValueId) -> bool {
        self.forms.contains(id) || graph.value(id).constant.is_some()
    }

    /// Assigns each node without layers to the layer that computes its value.
    pub(super) fn assign_layers_of_forms(&mut self, graph: &Graph) {
        if self.nodes_of_forms.is_empty() {
            return;
        }
        let layers = &mut self.net.layers;
        let assigned: BTreeSet<usize> = layers.iter().flat_map(|layer| layer.provenance.iter()).collect();
        let producers = layers.iter().enumerate();
        let producers: IndexMap<BlobId, usize> =
            producers.flat_map(|(index, layer)| layer.tops.iter().map(move |top| (*top, index))).collect();
        for id in self.nodes_of_forms.iter().filter(|id| !assigned.contains(&id.index())) {
            let outputs = graph.node(*id).into_iter().flat_map(|node| node.outputs.iter().flatten());
            let blobs = outputs.filter_map(|output| self.forms.get(*output)).flatten();
            let index = blobs.filter_map(|blob| producers.get(*blob)).next();
            if let Some(layer) = index.and_then(|index| layers.get_mut(*index)) {
                layer.provenance.insert(id.index());
            }
        }
    }

    /// Adds a layer with one top of this form.
    pub(super) fn emit_one(
        &mut self,
        label: Label,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        form: &[Dim],
    ) -> Result<BlobId> {
        let tops = self.emit(label, layer.into(), bottoms, &[form])?;
        tops.first().copied().ok_or_else(|| Error::internal("a layer without a top"))
    }

    /// Adds a layer with a top of each of these forms.
    pub(super) fn emit(
        &mut self,
        label: Label,
        layer: Layer,
        bottoms: &[BlobId],
        shapes: &[impl AsRef<[Dim]>],
    ) -> Result<BlobIds> {
        layer.check_since(self.net.release)?;
        let mut tops = BlobIds::new();
        let float32 = self.float32
            || layer.has(Trait::Move) && bottoms.iter().any(|bottom| self.net.blob(*bottom).float32);
        let batch = bottoms.iter().map(|bottom| self.net.blob(*bottom).batch).max().unwrap_or(1);
        let batch = if let Layer::Reshape(reshape) = &layer { reshape.top_batch(batch) } else { batch };
        for (index, shape) in shapes.iter().map(AsRef::as_ref).enumerate() {
            if shape.is_empty() || shape.len() > 4 {
                unsupported!("a blob of shape {}: blobs have one to four axes", display_shape(shape));
            }
            if shape.iter().any(|d| d.is(0)) {
                return Err(no_elements(shape));
            }
            shape.iter().try_for_each(Dim::check)?;
            let mut read = bottoms.iter().map(|bottom| &self.net.blob(*bottom).shape);
            let shared = read.find(|read| ***read == *shape).cloned();
            let sizes = shared.unwrap_or_else(|| shape.into());
            let name = label.top.to_owned();
            let is_cache = layer.computes_cache(index);
            let element = if is_cache { Element::Cache } else { Element::F32 };
            let top = self.net.add_blob(Blob {
                name,
                is_value: label.is_value,
                shape: sizes,
                element,
                batch,
                float32,
            });
            if !is_cache {
                self.axes.add(top, shape);
            }
            tops.push(top);
        }
        if let Some(weight) = layer.weights().iter().find(|weight| weight.tensor.is_empty()) {
            unsupported!("{} of {} has no elements", weight.name, layer.type_name());
        }
        self.net.layers.push(NetLayer {
            name: label.layer.to_owned(),
            layer,
            bottoms: bottoms.into(),
            tops: tops.clone(),
            float32: self.float32,
            provenance: self.node.iter().map(|node| node.index()).collect(),
        });
        Ok(tops)
    }

    /// Returns a value in a form, through a Reshape or a MemoryData if necessary.
    pub(super) fn form(&mut self, graph: &Graph, id: ValueId, form: &[Dim]) -> Result<BlobId> {
        let blobs = self.forms.get(id).cloned().unwrap_or_default();
        if let Some(blob) = blobs.iter().find(|blob| *self.net.blob(**blob).shape == *form) {
            return Ok(*blob);
        }
        let value = graph.value(id);
        let near = blobs.iter().find(|blob| self.is_plain(**blob, form)).or(blobs.first());
        let blob = match (&value.constant, near) {
            (Some(tensor), _) => {
                self.memory_data(Label { is_value: true, ..Label::of(&value.name) }, tensor, form)?
            }
            (None, Some(near)) => self.reshape(Label::of(&value.name), *near, form)?,
            (None, None) if value.elements.is_some() => {
                return Err(Error::unsupported("a computation with free sizes"));
            }
            // The producer omitted it.
            (None, None) if is_empty(graph, id) => return Err(no_elements(form)),
            (None, None) => {
                // A classifier whose labels are text gives only the scores.
                value.dtype.map_or(Ok(()), check_elements)?;
                return Err(Error::internal(format!("\"{}\" has no blob", value.name)));
            }
        };
        // A node that computes only this form contributes to the layer.
        let part = value.producer.filter(|node| self.nodes_of_forms.contains(node));
        if let (Some(node), Some(layer)) = (part, self.net.layers.last_mut())
            && layer.tops.contains(&blob)
        {
            layer.provenance.insert(node.index());
        }
        self.forms.push(id, blob);
        Ok(blob)
    }

    pub(super) fn memory_data(&mut self, label: Label, tensor: &Tensor, form: &[Dim]) -> Result<BlobId> {
        check_elements(tensor.dtype())?;
        check_numbers(tensor)?;
        let sizes: Option<Vec<i64>> = Dim::known_sizes(form);
        let sizes = sizes
            .ok_or_else(|| Error::unsupported(format!("a constant in the form {}", display_shape(form))))?;
        let usizes: std::result::Result<Vec<usize>, _> = sizes.iter().map(|n| usize::try_from(*n)).collect();
        let ints: std::result::Result<Vec<i32>, _> = sizes.iter().map(|n| i32::try_from(*n)).collect();
        let Some([w, h, d, c]) = by_name(&ints?, 0) else {
            unsupported!("a constant of {} axes", form.len());
        };
        let data = Some(tensor.reshaped(&usizes?)?);
        let layer = MemoryData { w, h, d, c, data, ..MemoryData::default() };
        let top = self.emit_one(label, layer, &[], form)?;
        if let Some(blob) = self.net.blob_mut(top) {
            blob.float32 |= precision::exceeds_half(tensor);
        }
        Ok(top)
    }

    pub(super) fn reshape(&mut self, label: Label, blob: BlobId, form: &[Dim]) -> Result<BlobId> {
        let from = self.net.blob(blob).shape.clone();
        if *from == *form {
            return Ok(blob);
        }
        if !same_elements(&from, form)? {
            return Err(mismatch("a blob", &from, "taken as", form));
        }
        // A Reshape of a Reshape reads the first blob, unless free sizes are involved.
        let root = self.reshaped_from.get(blob).copied().filter(|root| {
            let shape = &self.net.blob(*root).shape;
            **shape == *form || reshape_layer(shape, form).is_ok()
        });
        let root = root.unwrap_or(blob);
        if *self.net.blob(root).shape == *form {
            return Ok(root);
        }
        if let Some(made) = self.reshapes.get(&(root, form.to_vec())) {
            return Ok(*made);
        }
        let (layer, bottoms) = self.reshape_layer_of(root, form)?;
        let layer = Layer::from(layer);
        self.allow(&layer);
        let made = self.emit_one(label, layer, &bottoms, form)?;
        self.reshapes.insert((root, form.to_vec()), made);
        self.reshaped_from.insert(made, root);
        Ok(made)
    }

    /// Returns the Reshape of a blob to a form, by expressions if it needs them, and its bottoms.
    pub(super) fn reshape_layer_of(&self, blob: BlobId, form: &[Dim]) -> Result<(Reshape, Vec<BlobId>)> {
        match reshape_layer(&self.net.blob(blob).shape, form) {
            Ok(layer) => Ok((layer, vec![blob])),
            Err(error) => self.reshape_by_expression(blob, form).ok_or(error),
        }
    }
}

/// Returns the error for two incompatible shapes: free sizes cannot be compared, and known ones should have
/// been.
pub(super) fn mismatch(what: &str, shape: &[Dim], relation: &str, other: &[Dim]) -> Error {
    let message = format!("{what} of shape {} {relation} {}", display_shape(shape), display_shape(other));
    if shape.iter().chain(other).any(|size| size.known().is_none()) {
        Error::unsupported(message)
    } else {
        Error::internal(message)
    }
}

/// Returns the Reshape from one form to another: at most one free size may be computed from the others.
pub(super) fn reshape_layer(from: &[Dim], to: &[Dim]) -> Result<Reshape> {
    let mut left_over = 0;
    let mut sizes = Vec::with_capacity(to.len());
    for (i, size) in to.iter().enumerate() {
        let from_end = to.len() - 1 - i;
        let same_axis = from.len() == to.len() && from.get(i) == Some(size);
        // The outermost axes of two blobs have the same name (w, h or c) only if the ranks are equal; the
        // innermost axis is always w.
        let innermost = from_end == 0 && from.last() == Some(size);
        sizes.push(match size.known() {
            Some(n) => i32::try_from(n)?,
            None if same_axis || innermost => 0,
            None => {
                left_over += 1;
                -1
            }
        });
    }
    if left_over > 1 {
        return Err(Error::unsupported(format!(
            "a reshape of free sizes, from {} to {}",
            display_shape(from),
            display_shape(to)
        )));
    }
    let plain = Reshape::default();
    let Some([w, h, d, c]) = by_name(&sizes, plain.w) else { unsupported!("a blob of {} axes", to.len()) };
    Ok(Reshape { w, h, d, c, ..plain })
}

/// ncnn has no blobs without elements.
fn no_elements(shape: &[Dim]) -> Error {
    Error::unsupported(format!("a blob of shape {} has no elements", display_shape(shape)))
}
