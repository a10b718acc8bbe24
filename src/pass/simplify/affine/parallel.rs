//! Sums of convolutions over the same value, as networks have them that were trained with several branches: a
//! smaller kernel is part of a larger one, and a BatchNormalization of the value is a kernel of one element.
//!
//! `w1 * x + b1 + w2 * x + b2` is `(w1 + w2) * x + (b1 + b2)`.

use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::pass::pattern::{Readers, ints};
use crate::tensor::{DType, Tensor};

use super::super::padding::explicit_padding;
use super::super::{int, only_output};
use super::step::{Channels, Step, read_step};
use crate::op::NEWEST_OPSET;
use crate::pass::builder::{Builder, Expr, replacement_of};

/// A branch of a sum.
struct Branch {
    node: NodeId,
    kind: Kind,
    /// The sizes of the kernel.
    kernel: Vec<i64>,
    /// The padding before the first element of each axis.
    before: Vec<i64>,
}

#[derive(Clone, Copy)]
enum Kind {
    Conv { weight: ValueId, bias: Option<ValueId> },
    Affine(Step),
}

/// What branches have in common.
#[derive(PartialEq)]
struct Common {
    data: ValueId,
    strides: Vec<i64>,
    dilations: Vec<i64>,
    group: i64,
}

struct Found {
    /// The larger convolution, with the sum as its output.
    conv: Node,
    large: Branch,
    small: Branch,
    /// The zeros before and after the smaller kernel, as the input of Pad.
    pads: Vec<i64>,
    channels: i64,
    group: i64,
    dtype: DType,
}

/// Merges sums of two branches.
pub(crate) fn fuse_sum_of_convs(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    graph.replace_nodes(|graph, node| find(graph, &readers, node), |graph, _, found| found.nodes(graph))
}

fn find(graph: &Graph, readers: &Readers, node: &Node) -> Option<Found> {
    let [Some(first), Some(second)] = *node.inputs.as_slice() else { return None };
    let value = graph.value(first);
    let same_shape = value.shape.is_some() && value.shape == graph.value(second).shape;
    let is_sum = node.is("Add") && node.version >= 7 && first != second && same_shape;
    if !is_sum || readers.only(first).is_none() || readers.only(second).is_none() {
        return None;
    }
    let dtype = value.dtype.filter(|dtype| matches!(dtype, DType::F32 | DType::F64))?;
    let (a, b) = (graph.value(first).producer?, graph.value(second).producer?);
    let ((large, common), small) = match (read_conv(graph, a), read_conv(graph, b)) {
        (Some((first, common)), Some((second, other))) if common == other => {
            let (large, small) =
                if first.kernel >= second.kernel { (first, second) } else { (second, first) };
            ((large, common), small)
        }
        (Some((conv, common)), None) | (None, Some((conv, common))) => {
            let other = if conv.node == a { b } else { a };
            let affine = read_affine(graph, other, &common, dtype)?;
            ((conv, common), affine)
        }
        _ => return None,
    };
    let channels = value.shape.as_ref()?.get(1)?.known()?;
    let pads = small.pads_within(&large, &common.dilations)?;
    let conv = Node { outputs: node.outputs.clone(), ..graph.node(large.node)?.clone() };
    Some(Found { conv, large, small, pads, channels, group: common.group, dtype })
}

fn read_conv(graph: &Graph, id: NodeId) -> Option<(Branch, Common)> {
    let node = graph.node(id).filter(|node| node.is("Conv"))?;
    only_output(node)?;
    let (data, weight, bias) = (node.input(0)?, node.input(1)?, node.input(2));
    let sizes = graph.value(weight).constant.as_ref().map(Tensor::shape)?;
    let kernel: Vec<i64> =
        sizes.get(2..)?.iter().map(|size| i64::try_from(*size).ok()).collect::<Option<_>>()?;
    let rank = kernel.len();
    let constant_bias = bias.is_none_or(|bias| graph.value(bias).constant.is_some());
    let mut before = explicit_padding(node, rank).filter(|_| constant_bias)?;
    before.truncate(rank);
    let list = |name: &str, otherwise: i64| ints(node, name).map_or(vec![otherwise; rank], <[i64]>::to_vec);
    let common = Common {
        data,
        strides: list("strides", 1),
        dilations: list("dilations", 1),
        group: int(node, "group").unwrap_or(1),
    };
    Some((Branch { node: id, kind: Kind::Conv { weight, bias }, kernel, before }, common))
}

/// Reads a BatchNormalization of the value of which there is a convolution.
fn read_affine(graph: &Graph, id: NodeId, conv: &Common, dtype: DType) -> Option<Branch> {
    let shape = graph.value(conv.data).shape.as_ref()?;
    let count = usize::try_from(shape.get(1)?.known()?).ok()?;
    let channels = Channels { count, rank: shape.len(), dtype };
    let (_, step, _) = read_step(graph, id, conv.data, channels, &["BatchNormalization"])?;
    let rank = conv.strides.len();
    let moves = conv.strides.iter().any(|stride| *stride != 1);
    (!moves).then(|| Branch {
        node: id,
        kind: Kind::Affine(step),
        kernel: vec![1; rank],
        before: vec![0; rank],
    })
}

impl Branch {
    /// Returns the zeros around a kernel that make it as large as another one over the same elements.
    fn pads_within(&self, large: &Branch, dilations: &[i64]) -> Option<Vec<i64>> {
        let (mut begin, mut end) = (vec![0; 2], vec![0; 2]);
        let sizes = large.kernel.iter().zip(&self.kernel);
        let starts = large.before.iter().zip(&self.before).zip(dilations);
        for ((size, small), ((before, small_before), dilation)) in sizes.zip(starts) {
            let (distance, missing) = (before - small_before, size - small);
            if *dilation < 1 || distance % dilation != 0 {
                return None;
            }
            let first = distance / dilation;
            if !(0..=missing).contains(&first) {
                return None;
            }
            begin.push(first);
            end.push(missing - first);
        }
        Some([begin, end].concat())
    }

    /// Returns the weight and the bias.
    fn parts<'b>(&self, made: &'b Builder<'b>, found: &Found) -> (Expr<'b>, Option<Expr<'b>>) {
        let step = match self.kind {
            Kind::Conv { weight, bias } => return (made.value(weight), bias.map(|bias| made.value(bias))),
            Kind::Affine(step) => step,
        };
        let (scale, shift) = step.after(made, found.dtype, None, None);
        let inputs = found.channels / found.group.max(1);
        let inputs_of_channels: Vec<i64> =
            (0..found.channels).map(|channel| channel % inputs.max(1)).collect();
        let ones = vec![1; self.kernel.len()];
        let shape = [&[found.channels, inputs], ones.as_slice()].concat();
        let weight = made.ints(&inputs_of_channels).one_hot(inputs, 1, found.dtype).reshape(&shape);
        let aligned = [&[-1, 1], ones.as_slice()].concat();
        (scale.map_or(weight, |scale| weight * scale.reshape(&aligned)), shift)
    }
}

impl Found {
    fn nodes(&self, graph: &mut Graph) -> Result<Option<Vec<Node>>> {
        let Kind::Conv { weight: replaced, .. } = self.large.kind else { return Ok(None) };
        replacement_of(graph, &self.conv, NEWEST_OPSET, |made| {
            let ((large, bias), (small, shift)) =
                (self.large.parts(made, self), self.small.parts(made, self));
            let small = if self.pads.iter().all(|pad| *pad == 0) {
                small
            } else {
                made.op("Pad", [small, made.ints(&self.pads)], [])
            };
            let bias = match (bias, shift) {
                (Some(bias), shift) => Some(bias.add_optional(shift)),
                (None, shift) => shift,
            };
            let mut inputs = vec![
                self.conv.input(0).map(|id| made.value(id)),
                Some((large + small).named_after(replaced)),
            ];
            inputs.extend(bias.map(Some));
            made.only_copy_of(&self.conv, &inputs).map(Some)
        })
    }
}
