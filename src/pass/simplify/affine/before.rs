//! Scales and shifts of channels before a convolution.
//!
//! `w * (s * x + t) + b` is `(w * s) * x + (sum(w * t) + b)` for each channel. Padding is not shifted: before
//! a convolution with padding, only scales are merged.

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, ValueId};
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Tensor};

use super::super::{Edits, InsertionPoint, input, int, only_output};
use super::step::{Channels, Step, keeps_weight, read_step};

/// The operators that are merged.
const KINDS: &[&str] = &["Add", "BatchNormalization", "Div", "Mul", "Sub"];

/// A Conv and the step before it.
struct Found {
    conv: NodeId,
    data: ValueId,
    step: Step,
    dtype: DType,
    weight: ValueId,
    bias: Option<ValueId>,
    /// The shape of the weight with the groups as an axis: groups, output and input channels of a group,
    /// kernel.
    grouped: Vec<i64>,
}

/// Merges BatchNormalization, products, quotients, sums and differences with constants into the Conv after
/// them.
pub(crate) fn fuse_before(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let found: Vec<Found> = graph.nodes().filter_map(|(id, node)| find(graph, &readers, id, node)).collect();
    let mut edits = Edits::default();
    for found in found {
        let Some(node) = graph.node(found.conv).cloned() else { continue };
        edits.replace(&[found.conv], found.nodes(graph, node)?);
    }
    edits.apply(graph)
}

fn find(graph: &Graph, readers: &Readers, conv: NodeId, node: &Node) -> Option<Found> {
    if !node.is("Conv") {
        return None;
    }
    let (value, weight) = (input(node, 0)?, input(node, 1)?);
    let (bias, dtype) = (input(node, 2), graph.value(value).dtype?);
    let before = graph.value(value).producer?;
    if readers.only(value) != Some(conv) || !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    let sizes = graph.value(weight).constant.as_ref().map(Tensor::shape)?;
    let [outputs, inputs, spatial @ ..] = sizes else { return None };
    let group = usize::try_from(int(node, "group").unwrap_or(1)).ok().filter(|group| *group > 0)?;
    let channels = Channels { count: inputs.checked_mul(group)?, rank: sizes.len(), dtype };
    let first = graph.node(before)?.inputs.iter().copied().flatten();
    let data = first.into_iter().find(|id| graph.value(*id).constant.is_none())?;
    let (_, step, output) = read_step(graph, before, data, channels, KINDS)?;
    let same_shape =
        graph.value(data).shape.is_some() && graph.value(data).shape == graph.value(output).shape;
    let constant_bias = bias.is_none_or(|bias| graph.value(bias).constant.is_some());
    let shifts = !matches!(step, Step::Scale { .. });
    if !same_shape || only_output(node).is_none() || !constant_bias || (shifts && is_padded(node)) {
        return None;
    }
    if !keeps_weight(graph, weight, &[step]) {
        return None;
    }
    let grouped = [&[group, outputs / group, *inputs], spatial].concat();
    let grouped = grouped.into_iter().map(|size| i64::try_from(size).ok()).collect::<Option<_>>()?;
    Some(Found { conv, data, step, dtype, weight, bias, grouped })
}

/// Whether the convolution may be padded.
fn is_padded(node: &Node) -> bool {
    let same = match node.attributes.get("auto_pad") {
        Some(Attribute::String(text)) => text.starts_with(b"SAME"),
        Some(_) => true,
        None => false,
    };
    let pads = match node.attributes.get("pads") {
        Some(Attribute::Ints(pads)) => pads.iter().any(|pad| *pad != 0),
        Some(_) => true,
        None => false,
    };
    same || pads
}

impl Found {
    fn nodes(&self, graph: &mut Graph, mut node: Node) -> Result<Vec<Node>> {
        let mut site = InsertionPoint::new(graph);
        let (scale, shift) = self.step.after(&mut site, self.dtype, None, None)?;
        let mut sizes = Vec::new();
        for size in site.constant_shape(self.weight) {
            sizes.push(i64::try_from(*size)?);
        }
        let whole = site.reshape(self.weight, &self.grouped)?;
        let mut inputs = vec![Some(self.data), Some(self.weight), self.bias];
        if let Some(shift) = shift {
            let shift = self.along_inputs(&mut site, shift)?;
            let seen = site.op("Mul", &[whole, shift], &[]);
            let axes: Vec<i64> = (2..i64::try_from(self.grouped.len())?).collect();
            let axes = site.ints(&axes)?;
            let sum = site.op("ReduceSum", &[seen, axes], &[("keepdims", Attribute::Int(0))]);
            let mut sum = site.reshape(sum, &[-1])?;
            if let Some(bias) = self.bias {
                sum = site.op("Add", &[sum, bias], &[]);
            }
            inputs = vec![Some(self.data), Some(self.weight), Some(sum)];
        }
        if let Some(scale) = scale {
            let scale = self.along_inputs(&mut site, scale)?;
            let scaled = site.op("Mul", &[whole, scale], &[]);
            let weight = site.reshape(scaled, &sizes)?;
            site.take_name(weight, self.weight)?;
            if let Some(slot) = inputs.get_mut(1) {
                *slot = Some(weight);
            }
        }
        while inputs.last() == Some(&None) {
            inputs.pop();
        }
        node.inputs = inputs.into();
        Ok(site.end_with(node))
    }

    /// Reshapes one element per input channel for broadcasting with the grouped weight.
    fn along_inputs(&self, site: &mut InsertionPoint, list: ValueId) -> Result<ValueId> {
        let [group, _, inputs, spatial @ ..] = self.grouped.as_slice() else { return Ok(list) };
        let channels = site.ints(&[group.saturating_mul(*inputs)])?;
        let list = site.op("Expand", &[list, channels], &[]);
        let aligned = [&[*group, 1, *inputs], vec![1; spatial.len()].as_slice()].concat();
        site.reshape(list, &aligned)
    }
}
