//! Values that are quantized by their own range are not rounded.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plain, axis_attribute};
use crate::error::Result;
use crate::graph::{AttributeMap, Graph, Ids, Node, NodeId, ValueId};
use crate::pass::insertion::InsertionPoint;
use crate::pass::pattern::Readers;
use crate::pass::pattern::input;
use crate::tensor::{DType, Tensor};

/// Replaces products of outputs of DynamicQuantizeLinear by products of its input, with a scale of 1.
pub(super) fn drop_ranges(graph: &mut Graph) -> Result<()> {
    let readers = Readers::of(graph);
    let mut floats: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut zeros: BTreeSet<ValueId> = BTreeSet::new();
    let mut scales: Vec<ValueId> = Vec::new();
    for (_, node) in graph.nodes().filter(|(_, node)| node.is("DynamicQuantizeLinear")) {
        let output = |index: usize| node.outputs.get(index).copied().flatten();
        let (Some(x), Some(quantized)) = (input(node, 0), output(0)) else { continue };
        let is_known =
            |id: &NodeId| graph.node(*id).is_some_and(|node| is_product(node) || node.is("DequantizeLinear"));
        let has_known_readers =
            |value: ValueId| !readers.is_output(value) && readers.all(value).iter().all(is_known);
        if [Some(quantized), output(2)].into_iter().flatten().all(has_known_readers) {
            floats.insert(quantized, x);
            zeros.extend(output(2));
            scales.extend(output(1).filter(|scale| !readers.is_output(*scale)));
        }
    }
    if floats.is_empty() {
        return Ok(());
    }
    let one = InsertionPoint::new(graph).scalar(DType::F32, 1.0)?;
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let float = input(&node, 0).and_then(|value| floats.get(&value).copied());
        let plain = Plain::new(graph, &node);
        Ok(match float {
            Some(x) if node.is("DequantizeLinear") => {
                Some(plain.point.finish("Identity", [Some(x)], AttributeMap::new()))
            }
            _ if is_product(&node)
                && node.inputs.iter().flatten().any(|value| floats.contains_key(value)) =>
            {
                Some(plain.product(&floats, &zeros)?)
            }
            _ => None,
        })
    })?;
    graph.redirect(&scales.into_iter().map(|scale| (scale, one)).collect());
    Ok(())
}

fn is_product(node: &Node) -> bool {
    node.is("MatMulInteger") || node.is("ConvInteger")
}

impl Plain<'_> {
    /// Replaces MatMulInteger or ConvInteger by the float operator. Its outputs become float32, to which
    /// models cast them anyway.
    fn product(
        mut self,
        floats: &BTreeMap<ValueId, ValueId>,
        zeros: &BTreeSet<ValueId>,
    ) -> Result<Vec<Node>> {
        let mut operands = Ids::new();
        for index in [0, 1] {
            let Some(value) = self.input(index) else { continue };
            let zero = self.input(index + 2).filter(|zero| !zeros.contains(zero));
            operands.push(Some(match floats.get(&value) {
                Some(float) => *float,
                None => self.difference(value, zero)?,
            }));
        }
        for output in self.node.outputs.iter().flatten() {
            self.point.graph.value_mut(*output)?.dtype = Some(DType::F32);
        }
        let plain = if self.node.is("ConvInteger") { "Conv" } else { "MatMul" };
        Ok(self.point.finish(plain, operands, self.node.attributes.clone()))
    }

    /// Emits integers minus their zero point as float32. The weight of a convolution has a zero point for
    /// each output.
    fn difference(&mut self, value: ValueId, zero: Option<ValueId>) -> Result<ValueId> {
        let axis = if self.node.is("ConvInteger") { 0 } else { -1 };
        let constant = zero.and_then(|zero| self.point.graph.value(zero).constant.as_ref());
        let shape = constant.map_or(Vec::new(), |constant| constant.shape().to_vec());
        let scale = self.point.graph.add_constant("", Tensor::all(1.0, shape)?)?;
        Ok(self.dequantize([Some(value), Some(scale), zero], axis_attribute(axis)))
    }
}
