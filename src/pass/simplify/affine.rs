//! Scales and shifts of channels that follow a convolution, or a product with a matrix, become part of its weight and bias.
//!
//! `s * (w * x + b) + t` is `(s * w) * x + (s * b + t)` for each channel. What is not finite is left alone.

use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::ops;
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Tensor};

use super::{Edits, Site, input, int, only_output};

/// Batch normalisations become part of the node before them.
pub(crate) fn fuse_batch_norms(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["BatchNormalization"])
}

/// Products and quotients with constants become part of the node before them.
pub(crate) fn fuse_scales(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Mul", "Div"])
}

/// Sums and differences with constants become part of the node before them.
pub(crate) fn fuse_shifts(graph: &mut Graph) -> Result<bool> {
    fuse(graph, &["Add", "Sub"])
}

/// A change of each channel.
#[derive(Clone, Copy, Debug)]
enum Step {
    Scale { by: ValueId, divides: bool },
    Shift { by: ValueId, negated: bool },
    Normalize { scale: ValueId, bias: ValueId, mean: ValueId, variance: ValueId, epsilon: f32 },
}

/// A node with a constant weight that channels of the output have parts of.
#[derive(Clone, Copy, Debug)]
struct Product {
    weight: ValueId,
    bias: Option<ValueId>,
    dtype: DType,
    /// Axes of the output.
    rank: usize,
    /// The axis of the output that the channels are.
    axis: usize,
    channels: usize,
    /// Groups of a transposed convolution, and the sizes of its weight.
    layout: Layout,
}

/// Where the channels of the output are in a weight.
#[derive(Clone, Copy, Debug)]
enum Layout {
    First,
    Second,
    /// Both axes of the weight hold a part of them: that many groups along the first.
    Grouped(usize),
}

fn fuse(graph: &mut Graph, kinds: &[&str]) -> Result<bool> {
    if !graph.nodes().any(|(_, node)| kinds.iter().any(|kind| node.is(kind))) {
        return Ok(false);
    }
    let readers = Readers::of(graph);
    let mut found = Vec::new();
    for (id, node) in graph.nodes() {
        let Some(product) = read_product(graph, node) else { continue };
        let mut pattern = vec![id];
        let mut steps = Vec::new();
        let mut value = only_output(node);
        while let Some((reader, step, output)) = value
            .and_then(|value| Some((value, readers.only(value)?)))
            .and_then(|(value, reader)| read_step(graph, reader, value, &product, kinds))
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
    let (rank, axis) = (sizes.len(), 1);
    let (channels, layout) = match (node.op_type.as_str(), sizes) {
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
        Some([size]) => *size == channels,
        _ => false,
    };
    let dtype = graph.value(only_output(node)?).dtype?;
    (node.domain.is_empty() && rank >= 2 && bias.is_none_or(one_a_channel) && dtype.is_float())
        .then_some(Product { weight, bias, dtype, rank, axis, channels, layout })
}

fn is_plain_gemm(node: &Node) -> bool {
    use crate::graph::Attribute::Float;
    ["alpha", "beta"].iter().all(|name| match node.attributes.get(*name) {
        None => true,
        Some(Float(factor)) => *factor == 1.0,
        Some(_) => false,
    })
}

/// The step that `reader` makes of `value`, and what comes of it.
fn read_step(
    graph: &Graph,
    reader: NodeId,
    value: ValueId,
    product: &Product,
    kinds: &[&str],
) -> Option<(NodeId, Step, ValueId)> {
    let node = graph.node(reader).filter(|node| kinds.iter().any(|kind| node.is(kind)))?;
    let output = only_output(node)?;
    let (first, second) = (input(node, 0)?, input(node, 1)?);
    let finite = |by: ValueId| is_finite(graph, by);
    let step = if node.is("BatchNormalization") {
        let epsilon = ops::inference_epsilon(graph, node)?;
        let list: Option<Vec<ValueId>> = (1..5).map(|index| input(node, index)).collect();
        let [scale, bias, mean, variance] = *list?.as_slice() else { return None };
        let fits = |by: ValueId| {
            let value = graph.value(by);
            let sizes = value.constant.as_ref().map(Tensor::shape);
            sizes == Some(&[product.channels]) && value.dtype == Some(product.dtype) && finite(by)
        };
        let positive = |by: ValueId| {
            let tensor = graph.value(by).constant.as_ref()?;
            let variances = tensor.load().ok()?.to_f64().ok()?;
            Some(variances.iter().all(|variance| variance + f64::from(epsilon) > 0.0))
        };
        if first != value || ![scale, bias, mean, variance].into_iter().all(fits) || !positive(variance)? {
            return None;
        }
        Step::Normalize { scale, bias, mean, variance, epsilon }
    } else {
        let (by, commuted) = if first == value { (second, false) } else { (first, true) };
        let one_a_channel = node.version >= 7 && is_one_a_channel(graph, by, product);
        let nonzero = !node.is("Div") || graph.value(by).constant.as_ref().is_some_and(has_no_zero);
        if !one_a_channel || !finite(by) || !nonzero {
            return None;
        }
        match (node.op_type.as_str(), commuted) {
            ("Mul", _) => Step::Scale { by, divides: false },
            ("Div", false) => Step::Scale { by, divides: true },
            ("Add", _) => Step::Shift { by, negated: false },
            ("Sub", false) => Step::Shift { by, negated: true },
            _ => return None,
        }
    };
    Some((reader, step, output))
}

/// Whether a constant has one number, or one for each channel, and stretches nothing.
fn is_one_a_channel(graph: &Graph, by: ValueId, product: &Product) -> bool {
    let Some(tensor) = &graph.value(by).constant else { return false };
    let sizes = tensor.shape();
    let Some(missing) = product.rank.checked_sub(sizes.len()) else { return false };
    let fits = |(at, size): (usize, &usize)| {
        *size == 1 || (at + missing == product.axis && *size == product.channels)
    };
    sizes.iter().enumerate().all(fits)
}

fn is_finite(graph: &Graph, by: ValueId) -> bool {
    let Some(tensor) = &graph.value(by).constant else { return false };
    tensor.load().and_then(|array| array.to_f64()).is_ok_and(|a| a.iter().all(|x| x.is_finite()))
}

fn has_no_zero(tensor: &Tensor) -> bool {
    tensor.load().and_then(|array| array.to_f64()).is_ok_and(|a| a.iter().all(|x| *x != 0.0))
}

impl Product {
    /// Whether the steps can be taken into the weight: halves are not scaled, since what is left of them may be too small or too
    /// large for their type. A bias that there was none of takes any shift.
    fn admits(&self, steps: &[Step]) -> bool {
        let wide = matches!(self.dtype, DType::F32 | DType::F64);
        let one_shift = matches!(steps, [Step::Shift { .. }]) && self.bias.is_none();
        !steps.is_empty() && (wide || one_shift)
    }

    /// The nodes that compute the weight and the bias, and the node with them.
    fn with_steps(&self, graph: &mut Graph, mut node: Node, steps: &[Step]) -> Result<Vec<Node>> {
        let mut site = Site::new(graph);
        let (mut scale, mut shift) = (None, self.bias);
        for step in steps {
            match *step {
                Step::Scale { by, divides } => {
                    let by = site.reshape(by, &[-1])?;
                    let op = if divides { "Div" } else { "Mul" };
                    let one = site.number(self.dtype, 1.0)?;
                    scale = Some(site.op(op, &[scale.unwrap_or(one), by], &[]));
                    shift = shift.map(|shift| site.op(op, &[shift, by], &[]));
                }
                Step::Shift { by, negated } => {
                    let by = site.reshape(by, &[-1])?;
                    shift = Some(match (shift, negated) {
                        (Some(shift), false) => site.op("Add", &[shift, by], &[]),
                        (Some(shift), true) => site.op("Sub", &[shift, by], &[]),
                        (None, false) => by,
                        (None, true) => site.op("Neg", &[by], &[]),
                    });
                }
                Step::Normalize { scale: gamma, bias, mean, variance, epsilon } => {
                    let epsilon = site.number(self.dtype, epsilon)?;
                    let variance = site.op("Add", &[variance, epsilon], &[]);
                    let deviation = site.op("Sqrt", &[variance], &[]);
                    let by = site.op("Div", &[gamma, deviation], &[]);
                    let centered = match shift {
                        Some(shift) => site.op("Sub", &[shift, mean], &[]),
                        None => site.op("Neg", &[mean], &[]),
                    };
                    let scaled = site.op("Mul", &[centered, by], &[]);
                    shift = Some(site.op("Add", &[scaled, bias], &[]));
                    scale = Some(scale.map_or(by, |scale| site.op("Mul", &[scale, by], &[])));
                }
            }
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
            let channels = site.ints(&[i64::try_from(self.channels)?])?;
            inputs.push(Some(site.op("Expand", &[shift, channels], &[])));
        }
        node.inputs = inputs;
        Ok(site.end_with(node))
    }

    /// The weight times a number, or one for each channel.
    fn scaled_weight(&self, site: &mut Site, scale: ValueId) -> Result<ValueId> {
        let sizes: std::result::Result<Vec<i64>, _> =
            site.sizes(self.weight).iter().map(|size| i64::try_from(*size)).collect();
        let sizes = sizes?;
        let spatial = sizes.get(2..).unwrap_or_default();
        let ones = vec![1; spatial.len()];
        let channels = site.ints(&[i64::try_from(self.channels)?])?;
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
