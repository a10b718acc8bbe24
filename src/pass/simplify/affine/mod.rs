//! Scales and shifts of channels after, or before, a convolution or a matrix product become part of its
//! weight and bias.
//!
//! `s * (w * x + b) + t` is `(s * w) * x + (s * b + t)` for each channel. Constants that are not finite stay,
//! and scales that would make the weight too small for half precision.

mod before;
mod order;
mod parallel;
mod step;

use super::{int, only_output};
use crate::common::index::IndexMap;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::{Builder, Expr, replacement_of};
use crate::pass::pattern::{Readers, has_no_factors};
use crate::tensor::{DType, Tensor};
use step::{Channels, Step, keeps_weight, read_step};

pub(crate) use before::fuse_affine_before_conv;
pub(crate) use order::fuse_channel_order_into_conv;
pub(crate) use parallel::fuse_sum_of_convs;

/// Merges BatchNormalization into the node before it.
pub(crate) fn fuse_bn_into_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["BatchNormalization"])
}

/// Merges products and quotients with constants into the node before them.
pub(crate) fn fuse_scale_into_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Mul", "Div"])
}

/// Merges sums and differences with constants into the node before them.
pub(crate) fn fuse_add_bias_into_conv(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Add", "Sub"])
}

/// A convolution or a Gemm with a constant weight.
#[derive(Clone, Copy, Debug)]
struct Product {
    weight: ValueId,
    bias: Option<ValueId>,
    /// The channels of the output.
    channels: Channels,
    layout: Layout,
}

/// The axis of a weight that the output channels are on.
#[derive(Clone, Copy, Debug)]
enum Layout {
    First,
    Second,
    /// The first axis has the groups, the second the channels of a group: ConvTranspose with this many
    /// groups.
    Grouped(usize),
}

/// Merges the longest chain of nodes of these operators into the product before it.
fn fuse(graph: &mut Graph, kinds: &[&str]) -> Result<bool> {
    let readers = Readers::of(graph);
    let find = |id: NodeId, node: &Node| {
        let product = read_product(graph, node)?;
        let (mut last, mut steps, mut outputs) = (id, Vec::new(), &node.outputs);
        let mut value = only_output(node);
        while let Some((reader, step, output)) = value
            .and_then(|value| Some((value, readers.only(value)?)))
            .and_then(|(value, reader)| read_step(graph, reader, value, product.channels, kinds))
        {
            last = reader;
            steps.push(step);
            outputs = &graph.node(reader)?.outputs;
            value = Some(output);
        }
        let node = Node { outputs: outputs.clone(), ..node.clone() };
        (product.admits(&steps) && keeps_weight(graph, product.weight, &steps))
            .then_some((last, node, product, steps))
    };
    let found: Vec<_> = graph.nodes().filter_map(|(id, node)| find(id, node)).collect();
    let mut replaced = IndexMap::default();
    for (last, node, product, steps) in found {
        if let Some(made) = product.with_steps(graph, &node, &steps)? {
            replaced.insert(last, made);
        }
    }
    graph.replace_found(replaced)
}

/// Reads a node as a product to whose weight and bias scales and shifts can be applied.
fn read_product(graph: &Graph, node: &Node) -> Option<Product> {
    let weight = node.input(1)?;
    let bias = node.input(2);
    let sizes = graph.value(weight).constant.as_ref()?.shape();
    let rank = sizes.len();
    let (count, layout) = match (node.op_type.as_str(), sizes) {
        ("Conv", [channels, ..]) => (*channels, Layout::First),
        ("ConvTranspose", [_, channels, ..]) => {
            match usize::try_from(int(node, "group").unwrap_or(1)).ok()? {
                1 => (*channels, Layout::Second),
                group => (channels.checked_mul(group)?, Layout::Grouped(group)),
            }
        }
        ("Gemm", [a, b]) if node.version >= 7 && has_no_factors(node) => {
            match int(node, "transB").unwrap_or(0) {
                0 => (*b, Layout::Second),
                _ => (*a, Layout::First),
            }
        }
        _ => return None,
    };
    let one_per_channel = |bias: ValueId| match graph.value(bias).constant.as_ref().map(Tensor::shape) {
        Some([size]) => *size == count,
        _ => false,
    };
    let dtype = graph.value(only_output(node)?).dtype?;
    (node.domain.is_empty() && rank >= 2 && bias.is_none_or(one_per_channel) && dtype.is_float())
        .then_some(Product { weight, bias, channels: Channels { count, rank, dtype }, layout })
}

impl Product {
    /// Whether the steps can be merged. Float16 weights are not scaled, since they could overflow or
    /// underflow; a single shift becomes the bias if there is none.
    fn admits(&self, steps: &[Step]) -> bool {
        let wide = matches!(self.channels.dtype, DType::F32 | DType::F64);
        let one_shift = matches!(steps, [Step::Shift { .. }]) && self.bias.is_none();
        !steps.is_empty() && (wide || one_shift)
    }

    /// The nodes that compute the new weight and bias, and the node with these.
    fn with_steps(&self, graph: &mut Graph, node: &Node, steps: &[Step]) -> Result<Option<Vec<Node>>> {
        replacement_of(graph, node, NEWEST_OPSET, |made| {
            let (mut scale, mut shift) = (None, self.bias.map(|bias| made.value(bias)));
            for step in steps {
                (scale, shift) = step.after(made, self.channels.dtype, scale, shift);
            }
            let mut weight = made.value(self.weight);
            if let Some(scale) = scale {
                weight = self.scaled_weight(made, scale)?.named_after(self.weight);
            }
            let mut inputs = vec![node.input(0).map(|id| made.value(id)), Some(weight)];
            if let Some(shift) = shift {
                let channels = made.ints(&[self.channels.count]);
                inputs.push(Some(shift.broadcast_to(channels)));
            }
            made.only_copy_of(node, &inputs).map(Some)
        })
    }

    /// The weight times a scale, which has one element or one for each channel.
    fn scaled_weight<'b>(&self, made: &'b Builder<'b>, scale: Expr<'b>) -> Result<Expr<'b>> {
        let weight = made.value(self.weight);
        let sizes: std::result::Result<Vec<i64>, _> =
            weight.constant_shape().iter().map(|size| i64::try_from(*size)).collect();
        let sizes = sizes?;
        let spatial = sizes.get(2..).unwrap_or_default();
        let ones = vec![1; spatial.len()];
        let scale = scale.broadcast_to(made.ints(&[self.channels.count]));
        Ok(match (self.layout, sizes.as_slice()) {
            (Layout::Grouped(group), [all, part, ..]) => {
                let group = group.int();
                let grouped = [&[group, all / group.max(1), *part], spatial].concat();
                let scale = scale.reshape(&[&[group, 1, *part], ones.as_slice()].concat());
                (weight.reshape(&grouped) * scale).reshape(&sizes)
            }
            (layout, _) => {
                let head = if matches!(layout, Layout::First) { [-1, 1] } else { [1, -1] };
                weight * scale.reshape(&[&head, ones.as_slice()].concat())
            }
        })
    }
}
