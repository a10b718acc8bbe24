//! Scales and shifts of channels before a convolution.
//!
//! `w * (s * x + t) + b` is `(w * s) * x + (sum(w * t) + b)` for each channel. Padding is not shifted: before
//! a convolution with padding, only scales are merged, and `s * x + t` becomes `s * (x + t / s)`.

use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Tensor};

use super::super::padding::explicit_padding;
use super::super::{int, only_output};
use super::step::{Channels, Step, all_elements, keeps_weight, largest, read_step};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::{Builder, Expr, replacement_of};

/// The operators that are merged.
const KINDS: &[&str] = &["Add", "BatchNormalization", "Div", "Mul", "Sub"];

/// A Conv and the step before it.
struct Found {
    data: ValueId,
    step: Step,
    /// The shift after the step, which stays before the convolution, and the version of its node.
    kept: Option<(Step, i64)>,
    dtype: DType,
    weight: ValueId,
    bias: Option<ValueId>,
    /// The shape of the weight with the groups as an axis: groups, output and input channels of a group,
    /// kernel.
    grouped: Vec<i64>,
}

/// Merges BatchNormalization, products, quotients, sums and differences with constants into the Conv after
/// them.
pub(crate) fn fuse_affine_before_conv(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    graph.replace_nodes(
        |graph, node| find(graph, &readers, node),
        |graph, node, found| found.nodes(graph, node),
    )
}

fn find(graph: &Graph, readers: &Readers, node: &Node) -> Option<Found> {
    if !node.is("Conv") {
        return None;
    }
    let (value, weight) = (node.input(0)?, node.input(1)?);
    let (bias, dtype) = (node.input(2), graph.value(value).dtype?);
    let before = graph.value(value).producer?;
    if readers.only(value).is_none() || !matches!(dtype, DType::F32 | DType::F64) {
        return None;
    }
    let sizes = graph.value(weight).constant.as_ref().map(Tensor::shape)?;
    let [outputs, inputs, spatial @ ..] = sizes else { return None };
    let group = usize::try_from(int(node, "group").unwrap_or(1)).ok().filter(|group| *group > 0)?;
    let channels = Channels { count: inputs.checked_mul(group)?, rank: sizes.len(), dtype };
    let data = computed_input(graph, before)?;
    let (_, step, output) = read_step(graph, before, data, channels, KINDS)?;
    let (step, data, kept) = match step {
        Step::Scale { .. } => (step, data, None),
        _ if !is_padded(node, spatial.len()) => (step, data, None),
        Step::Shift { by, .. } => {
            let (scale, from) = scale_before(graph, readers, data, before, by, channels)?;
            (scale, from, Some((step, graph.node(before)?.version)))
        }
        Step::Normalize { .. } => return None,
    };
    let same_shape =
        graph.value(data).shape.is_some() && graph.value(data).shape == graph.value(output).shape;
    let constant_bias = bias.is_none_or(|bias| graph.value(bias).constant.is_some());
    if !same_shape || only_output(node).is_none() || !constant_bias {
        return None;
    }
    if !keeps_weight(graph, weight, &[step]) {
        return None;
    }
    let grouped = [&[group, outputs / group, *inputs], spatial].concat();
    let grouped = grouped.into_iter().map(|size| i64::try_from(size).ok()).collect::<Option<_>>()?;
    Some(Found { data, step, kept, dtype, weight, bias, grouped })
}

/// Returns the first input that is not a constant.
fn computed_input(graph: &Graph, node: NodeId) -> Option<ValueId> {
    graph.node(node)?.inputs.iter().copied().flatten().find(|id| graph.value(*id).constant.is_none())
}

/// The largest shift of values before they are scaled: half precision has to represent the sums.
const MAX_SHIFTED: f64 = 4096.0;

/// Returns the scale without zeros of which a shift is the only reader, and what it scales.
fn scale_before(
    graph: &Graph,
    readers: &Readers,
    scaled: ValueId,
    shift: NodeId,
    shift_by: ValueId,
    channels: Channels,
) -> Option<(Step, ValueId)> {
    let id = graph.value(scaled).producer.filter(|_| readers.only(scaled) == Some(shift))?;
    let data = computed_input(graph, id)?;
    let (_, step, _) = read_step(graph, id, data, channels, &["Div", "Mul"])?;
    let Step::Scale { by, divides } = step else { return None };
    let smallest = largest(graph, by, |x| if divides { x } else { x.recip() })?.recip();
    let most = largest(graph, shift_by, |x| x)?;
    (all_elements(graph, by, f64::is_normal) && most <= smallest * MAX_SHIFTED).then_some((step, data))
}

/// Whether the convolution may be padded.
fn is_padded(node: &Node, axes: usize) -> bool {
    explicit_padding(node, axes).is_none_or(|pads| pads.iter().any(|pad| *pad != 0))
}

impl Found {
    fn nodes(&self, graph: &mut Graph, node: &Node) -> Result<Option<Vec<Node>>> {
        replacement_of(graph, node, NEWEST_OPSET, |made| {
            let (scale, shift) = self.step.after(made, self.dtype, None, None);
            let mut data = made.value(self.data);
            if let (Some((kept, version)), Some(scale)) = (self.kept, scale) {
                let (_, shift) = kept.after(made, self.dtype, None, None);
                let upright = [vec![-1], vec![1; self.grouped.len() - 3]].concat();
                // Other nodes of an old model may not support the newest operator set.
                data = shift
                    .map_or(data, |shift| (data + (shift / scale).reshape(&upright)).of_version(version));
            }
            let weight = made.value(self.weight);
            let mut sizes = Vec::new();
            for size in weight.constant_shape() {
                sizes.push(size.int());
            }
            let whole = weight.reshape(&self.grouped);
            let mut inputs = vec![Some(data), Some(weight)];
            let bias = self.bias.map(|bias| made.value(bias));
            inputs.extend(match shift {
                Some(shift) => {
                    let seen = whole * self.along_inputs(made, shift);
                    let axes: Vec<i64> = (2..self.grouped.len().int()).collect();
                    let sum = seen.reduce("ReduceSum", &axes, false).reshape(&[-1]);
                    Some(Some(bias.map_or(sum, |bias| sum + bias)))
                }
                None => bias.map(Some),
            });
            if let (Some(scale), Some(slot)) = (scale, inputs.get_mut(1)) {
                let scaled = whole * self.along_inputs(made, scale);
                *slot = Some(scaled.reshape(&sizes).named_after(self.weight));
            }
            made.only_copy_of(node, &inputs).map(Some)
        })
    }

    /// Reshapes one element per input channel for broadcasting with the grouped weight.
    fn along_inputs<'b>(&self, made: &'b Builder<'b>, list: Expr<'b>) -> Expr<'b> {
        let [group, _, inputs, spatial @ ..] = self.grouped.as_slice() else { return list };
        let aligned = [&[*group, 1, *inputs], vec![1; spatial.len()].as_slice()].concat();
        list.broadcast_to(made.ints(&[group.saturating_mul(*inputs)])).reshape(&aligned)
    }
}
