//! Scales and shifts of channels after or before a convolution or a matrix product, moved into its weight and
//! bias.
//!
//! `s * (w * x + b) + t` is `(s * w) * x + (s * b + t)` for each channel. Constants that are not finite are
//! not moved.

mod before;
mod step;

use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Tensor};

use super::{Edits, InsertionPoint, input, int, only_output};
pub(crate) use before::fuse_before;
use step::{Channels, Step, read_step};

/// Moves batch normalizations into the node before them.
pub(crate) fn fuse_batch_norms(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["BatchNormalization"])
}

/// Moves products and quotients with constants into the node before them.
pub(crate) fn fuse_scales(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Mul", "Div"])
}

/// Moves sums and differences with constants into the node before them.
pub(crate) fn fuse_shifts(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Add", "Sub"])
}

/// A node with a constant weight in which each channel of the output has its own part.
#[derive(Clone, Copy, Debug)]
struct Product {
    weight: ValueId,
    bias: Option<ValueId>,
    /// The output.
    channels: Channels,
    /// The position of the output channels in the weight.
    layout: Layout,
}

/// The position of the output channels in a weight.
#[derive(Clone, Copy, Debug)]
enum Layout {
    First,
    Second,
    /// Spread over both axes: the first axis holds this many groups.
    Grouped(usize),
}

fn fuse(graph: &mut Graph, kinds: &[&str]) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut found = Vec::new();
    for (id, node) in graph.nodes() {
        let Some(product) = read_product(graph, node) else { continue };
        let mut pattern = vec![id];
        let mut steps = Vec::new();
        let mut value = only_output(node);
        while let Some((reader, step, output)) = value
            .and_then(|value| Some((value, readers.only(value)?)))
            .and_then(|(value, reader)| read_step(graph, reader, value, product.channels, kinds))
        {
            pattern.push(reader);
            steps.push(step);
            value = Some(output);
        }
        if product.admits(&steps) {
            found.push((pattern, product, steps));
        }
    }
    let mut edits = Edits::default();
    for (pattern, product, steps) in found {
        let (Some(first), Some(last)) = (pattern.first(), pattern.last()) else { continue };
        let (Some(node), Some(end)) = (graph.node(*first).cloned(), graph.node(*last)) else { continue };
        let outputs = end.outputs.clone();
        let nodes = product.with_steps(graph, Node { outputs, ..node }, &steps)?;
        edits.replace(&pattern, nodes);
    }
    edits.apply(graph)
}

fn read_product(graph: &Graph, node: &Node) -> Option<Product> {
    let weight = input(node, 1)?;
    let bias = input(node, 2);
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
        ("Gemm", [a, b]) if node.version >= 7 && is_plain_gemm(node) => {
            match int(node, "transB").unwrap_or(0) {
                0 => (*b, Layout::Second),
                _ => (*a, Layout::First),
            }
        }
        _ => return None,
    };
    let one_a_channel = |bias: ValueId| match graph.value(bias).constant.as_ref().map(Tensor::shape) {
        Some([size]) => *size == count,
        _ => false,
    };
    let dtype = graph.value(only_output(node)?).dtype?;
    (node.domain.is_empty() && rank >= 2 && bias.is_none_or(one_a_channel) && dtype.is_float())
        .then_some(Product { weight, bias, channels: Channels { count, rank, dtype }, layout })
}

fn is_plain_gemm(node: &Node) -> bool {
    use crate::graph::Attribute::Float;
    ["alpha", "beta"].iter().all(|name| match node.attributes.get(*name) {
        None => true,
        Some(Float(factor)) => *factor == 1.0,
        Some(_) => false,
    })
}

impl Product {
    /// Returns whether the steps can be moved into the weight. Float16 weights are not scaled: the products
    /// may be out of the range of their type. A new bias can take any shift.
    fn admits(&self, steps: &[Step]) -> bool {
        let wide = matches!(self.channels.dtype, DType::F32 | DType::F64);
        let one_shift = matches!(steps, [Step::Shift { .. }]) && self.bias.is_none();
        !steps.is_empty() && (wide || one_shift)
    }

    /// Returns the nodes that compute weight and bias, and the node that reads them.
    fn with_steps(&self, graph: &mut Graph, mut node: Node, steps: &[Step]) -> Result<Vec<Node>> {
        let mut site = InsertionPoint::new(graph);
        let (mut scale, mut shift) = (None, self.bias);
        for step in steps {
            (scale, shift) = step.after(&mut site, self.channels.dtype, scale, shift)?;
        }
        let weight = match scale {
            Some(scale) => self.scaled_weight(&mut site, scale)?,
            None => self.weight,
        };
        if weight != self.weight {
            site.take_name(weight, self.weight)?;
        }
        let mut inputs = vec![node.inputs.first().copied().flatten(), Some(weight)];
        if let Some(shift) = shift {
            let channels = site.ints(&[i64::try_from(self.channels.count)?])?;
            inputs.push(Some(site.op("Expand", &[shift, channels], &[])));
        }
        node.inputs = inputs.into();
        Ok(site.end_with(node))
    }

    /// Returns the weight times a scalar, or times one factor for each channel.
    fn scaled_weight(&self, site: &mut InsertionPoint, scale: ValueId) -> Result<ValueId> {
        let sizes: std::result::Result<Vec<i64>, _> =
            site.sizes(self.weight).iter().map(|size| i64::try_from(*size)).collect();
        let sizes = sizes?;
        let spatial = sizes.get(2..).unwrap_or_default();
        let ones = vec![1; spatial.len()];
        let channels = site.ints(&[i64::try_from(self.channels.count)?])?;
        let scale = site.op("Expand", &[scale, channels], &[]);
        match (self.layout, sizes.as_slice()) {
            (Layout::Grouped(group), [all, part, ..]) => {
                let group = i64::try_from(group)?;
                let grouped = [&[group, all / group.max(1), *part], spatial].concat();
                let scale = site.reshape(scale, &[&[group, 1, *part], ones.as_slice()].concat())?;
                let weight = site.reshape(self.weight, &grouped)?;
                let scaled = site.op("Mul", &[weight, scale], &[]);
                site.reshape(scaled, &sizes)
            }
            (layout, _) => {
                let head = if matches!(layout, Layout::First) { [-1, 1] } else { [1, -1] };
                let scale = site.reshape(scale, &[&head, ones.as_slice()].concat())?;
                Ok(site.op("Mul", &[self.weight, scale], &[]))
            }
        }
    }
}
