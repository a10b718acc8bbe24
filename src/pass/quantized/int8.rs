//! Products of quantized values become operators with weights of int8, for which ncnn has layers.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::AsPrimitive;

use super::step::{Steps, of_source};
use super::weight::{Levels, bias};
use crate::common::count::count;
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId, pairs};
use crate::ncnn::layer::{Gemm, LARGEST_INT8};
use crate::op::NEWEST_OPSET;
use crate::op::range::range;
use crate::pass::builder::replacement_of;
use crate::pass::pattern::{Readers, int, is_plain_gemm, is_set, only_output, producer};
use crate::tensor::{Dim, Tensor};

/// Values that are rounded to quantized steps.
pub(super) struct Rounded<'a> {
    /// Values with a fixed scale.
    pub steps: &'a BTreeMap<ValueId, Steps>,
    /// Values that are quantized by their range.
    pub ranged: &'a BTreeSet<ValueId>,
}

/// Replaces products of rounded values and quantized constants, and returns a warning about the steps that
/// ncnn rounds to. `release` is the oldest release of ncnn that must load the net, if the user asked for one.
pub(super) fn to_int8(graph: &mut Graph, rounded: &Rounded, release: Option<u32>) -> Result<Option<String>> {
    let by_row = Gemm { quantize_term: Gemm::INT8_ROWS, ..Gemm::default() }.since();
    let has_gemm = release.is_none_or(|release| release >= by_row);
    let readers = Readers::of(graph);
    let (mut layers, mut coarser) = (0, 0);
    graph.replace_nodes(
        |graph, node| with_bias(graph, &readers, node),
        |graph, node, (product, sum)| match Product::read(graph, product, sum, rounded, has_gemm)? {
            Some(product) => {
                layers += 1;
                coarser += usize::from(product.is_coarser);
                product.emit(graph, node)
            }
            None => Ok(None),
        },
    )?;
    Ok((coarser > 0).then(|| {
        format!(
            "{coarser} of {} round their inputs to larger steps than the model: ncnn has {LARGEST_INT8} steps \
             on each side of zero; verify --runtime measures the loss, --dequantize avoids it",
            count(layers, "int8 layer")
        )
    }))
}

/// Returns the product that a node computes, and the constant that it adds: a MatMul is replaced where its
/// bias is added, if it has one.
fn with_bias(graph: &Graph, readers: &Readers, node: &Node) -> Option<(Node, Option<ValueId>)> {
    if node.is("Conv") || (node.is("Gemm") && is_plain_gemm(node)) {
        return Some((node.clone(), node.input(2)));
    }
    let sum_of = |product: ValueId, sum: &Node| {
        let term = [sum.input(0)?, sum.input(1)?].into_iter().find(|term| *term != product)?;
        let columns = graph.value(product).shape.as_deref()?.last()?.known()?;
        let is_row = matches!(graph.value(term).shape.as_deref(), Some([size]) if size.is(columns));
        (sum.is("Add") && is_row && is_constant(graph, term)).then_some(term)
    };
    if node.is("MatMul") {
        let reader = readers.only(only_output(node)?).and_then(|id| graph.node(id));
        let is_added =
            reader.is_some_and(|sum| only_output(node).and_then(|product| sum_of(product, sum)).is_some());
        return (!is_added).then(|| (node.clone(), None));
    }
    let (product, term) = [node.input(0)?, node.input(1)?].into_iter().find_map(|value| {
        readers.only(value)?;
        let product = graph.producer(value).filter(|node| node.is("MatMul"))?;
        Some((product, sum_of(value, node)?))
    })?;
    Some((product.clone(), Some(term)))
}

/// Whether a value is a constant, or a quantized constant.
fn is_constant(graph: &Graph, value: ValueId) -> bool {
    let quantized = producer(graph, value, "DequantizeLinear").and_then(|node| node.input(0));
    graph.value(quantized.unwrap_or(value)).constant.is_some()
}

/// A product of rounded values and a constant.
struct Product {
    node: Node,
    x: ValueId,
    levels: Levels,
    bias: Vec<f32>,
    /// The factor of the values; `None` if the layer rounds them by their range.
    scale: Option<f32>,
    /// Whether the layer rounds to larger steps than the model.
    is_coarser: bool,
}

impl Product {
    fn read(
        graph: &Graph,
        node: Node,
        sum: Option<ValueId>,
        rounded: &Rounded,
        has_gemm: bool,
    ) -> Result<Option<Product>> {
        let Some(x) = node.input(0) else { return Ok(None) };
        let steps = of_source(graph, x, |value| rounded.steps.get(&value)).filter(|steps| steps.are_bytes());
        let Some(weight) = node.input(1).and_then(|weight| graph.value(weight).shape.as_deref()) else {
            return Ok(None);
        };
        let shape = graph.value(x).shape.as_deref().unwrap_or_default();
        let scale = steps.and_then(|steps| steps.factor(graph));
        let (fits, axis, scale) = if node.is("Conv") {
            (is_int8_conv(&node, shape, weight) && scale.is_some(), 0, scale)
        } else {
            let rows = shape.split_last().map(|(_, rows)| rows).unwrap_or_default();
            let one_row = Dim::product(rows).is(1);
            // ncnn's InnerProduct takes several times as long for many rows as Gemm, which knows no scale.
            let scale = scale.filter(|_| one_row || !has_gemm);
            let is_ranged = || of_source(graph, x, |value| rounded.ranged.get(&value)).is_some();
            let is_rounded = steps.is_some() || is_ranged();
            let axis = if is_set(&node, "transB") { 0 } else { 1 };
            (is_rounded && (scale.is_some() || has_gemm) && is_linear(shape, weight), axis, scale)
        };
        if !fits {
            return Ok(None);
        }
        let Some(levels) = Levels::read(graph, &node, axis)? else { return Ok(None) };
        let Some(bias) = bias(graph, sum, levels.scales.len())? else { return Ok(None) };
        // Without a factor the range of a row decides, which is within the model's range of all rows.
        let is_coarser =
            scale.zip(steps).is_some_and(|(factor, steps)| factor * steps.scale < 1.0 - f32::EPSILON);
        // Bounds on both sides of zero are those of a scale, which is that of the range at run time instead.
        let unbounded = steps.filter(|steps| scale.is_none() && steps.low < 0 && steps.high > 0);
        let x = unbounded.filter(|_| rounded.steps.contains_key(&x)).map_or(x, |steps| steps.x);
        Ok(Some(Product { node, x, levels, bias, scale, is_coarser }))
    }

    /// Returns the nodes that compute the product instead of `node`.
    fn emit(self, graph: &mut Graph, node: &Node) -> Result<Option<Vec<Node>>> {
        let shape = graph.value(self.x).shape.as_deref().unwrap_or_default().to_vec();
        let outputs = self.levels.scales.len();
        let factors = self.levels.scales.iter().map(|scale| 1.0 / scale).collect();
        replacement_of(graph, node, NEWEST_OPSET, |made| {
            let weight = match self.levels.value {
                Some(value) => made.value(value),
                None => made.tensor(self.levels.tensor()?),
            };
            let parameters = [factors, self.bias].map(|list| Tensor::from_f32(&[outputs], list));
            let [factors, bias] = parameters.map(|tensor| made.constant(tensor));
            let x = made.value(self.x);
            let scale = self.scale.iter().map(|scale| ("scale", (*scale).into()));
            if self.node.is("Conv") {
                let attributes = scale.chain(pairs(&self.node.attributes));
                return Ok(Some(made.op("ncnn.Int8Conv", [x, weight, factors, bias], attributes)));
            }
            let mut sizes: Vec<i64> = shape.iter().map(|size| size.known().unwrap_or(-1)).collect();
            let size = sizes.pop().unwrap_or(-1);
            let is_matrix = shape.len() == 2;
            let rows = if is_matrix { x } else { x.reshape(&[-1, size]) };
            let product = made.op("ncnn.Int8Linear", [rows, weight, factors, bias], scale);
            sizes.push(outputs.int());
            Ok(Some(if is_matrix { product } else { product.reshape(&sizes) }))
        })
    }
}

/// Whether ncnn has an int8 layer for a convolution: over two axes, of one image, with one group or
/// depth-wise.
pub(super) fn is_int8_conv(node: &Node, x: &[Dim], weight: &[Dim]) -> bool {
    let ([batch, _, _, _], [outputs, channels, _, _]) = (x, weight) else { return false };
    let group = int(node, "group").unwrap_or(1);
    batch.is(1) && (group == 1 || (outputs.is(group) && channels.is(1)))
}

/// Whether `x` is a list of rows that a matrix of known sizes maps, with at most one free size.
fn is_linear(x: &[Dim], weight: &[Dim]) -> bool {
    let Some((size, rows)) = x.split_last().filter(|(_, rows)| !rows.is_empty()) else { return false };
    let free = rows.iter().filter(|size| size.known().is_none()).count();
    weight.len() == 2 && weight.iter().chain([size]).all(|size| size.known().is_some()) && free <= 1
}

impl Steps {
    /// Whether the steps are not more than those of 8 bits.
    pub(super) fn are_bytes(&self) -> bool {
        self.high.saturating_sub(self.low) < 1 << 8
    }

    /// Returns the factor that maps the values to ncnn's integers from -127 to 127. It is exact, the
    /// reciprocal of the scale, if the levels are integers of that range; -128 counts as -127.
    pub(super) fn factor(&self, graph: &Graph) -> Option<f32> {
        let range = range(graph, self.x);
        let scale = f64::from(self.scale);
        let low = f64::from(self.low).max((range.least / scale).round());
        let high = f64::from(self.high).min((range.most / scale).round());
        let largest = (-low).max(high).max(1.0);
        let largest = if low >= -LARGEST_INT8 - 1.0 && high <= LARGEST_INT8 { LARGEST_INT8 } else { largest };
        let factor: f32 = (LARGEST_INT8 / (largest * scale)).as_();
        (factor.is_normal() && factor > 0.0).then_some(factor)
    }
}
