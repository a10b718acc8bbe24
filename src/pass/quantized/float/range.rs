//! Values that are quantized by their own range stay as they are.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::Plain;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Ids, Node, NodeId, ValueId};
use crate::pass::pattern::Readers;
use crate::pass::quantized::input;
use crate::tensor::{Array, DType, Tensor};

/// Products of what DynamicQuantizeLinear gives become products of what it reads, with a step of 1.
pub(super) fn keep_ranges(graph: &mut Graph) -> Result<()> {
    let readers = Readers::of(graph);
    let mut numbers: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    let mut zeros: BTreeSet<ValueId> = BTreeSet::new();
    let mut steps: Vec<ValueId> = Vec::new();
    for (_, node) in graph.nodes().filter(|(_, node)| node.is("DynamicQuantizeLinear")) {
        let output = |index: usize| node.outputs.get(index).copied().flatten();
        let (Some(x), Some(quantised)) = (input(node, 0), output(0)) else { continue };
        let known =
            |id: &NodeId| graph.node(*id).is_some_and(|node| is_product(node) || node.is("DequantizeLinear"));
        let is_used_so = |value: ValueId| !readers.is_output(value) && readers.all(value).iter().all(known);
        if [Some(quantised), output(2)].into_iter().flatten().all(is_used_so) {
            numbers.insert(quantised, x);
            zeros.extend(output(2));
            steps.extend(output(1).filter(|step| !readers.is_output(*step)));
        }
    }
    if numbers.is_empty() {
        return Ok(());
    }
    let one = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), 1.0));
    let one = graph.add_constant("", Tensor::from_array(&one)?)?;
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let number = input(&node, 0).and_then(|value| numbers.get(&value).copied());
        let mut plain = Plain { graph, node: &node, nodes: Vec::new() };
        match number {
            Some(x) if node.is("DequantizeLinear") => {
                plain.push("Identity", smallvec![Some(x)], AttributeMap::new(), node.outputs.clone());
            }
            _ if is_product(&node)
                && node.inputs.iter().flatten().any(|value| numbers.contains_key(value)) =>
            {
                plain.product(&numbers, &zeros)?;
            }
            _ => return Ok(None),
        }
        Ok(Some(plain.nodes))
    })?;
    graph.redirect(&steps.into_iter().map(|step| (step, one)).collect());
    Ok(())
}

fn is_product(node: &Node) -> bool {
    node.is("MatMulInteger") || node.is("ConvInteger")
}

impl Plain<'_> {
    /// MatMulInteger or ConvInteger on numbers. What it gives is a number, too: it is cast to one anyway.
    fn product(&mut self, numbers: &BTreeMap<ValueId, ValueId>, zeros: &BTreeSet<ValueId>) -> Result<()> {
        let mut operands = Ids::new();
        for index in [0, 1] {
            let Some(value) = self.input(index) else { continue };
            operands.push(match numbers.get(&value) {
                Some(number) => Some(*number),
                None => {
                    Some(self.difference(value, self.input(index + 2).filter(|zero| !zeros.contains(zero)))?)
                }
            });
        }
        let plain = if self.node.is("ConvInteger") { "Conv" } else { "MatMul" };
        self.push(plain, operands, self.node.attributes.clone(), self.node.outputs.clone());
        for output in self.node.outputs.iter().flatten() {
            self.graph.value_mut(*output)?.dtype = Some(DType::F32);
        }
        Ok(())
    }

    /// Whole numbers less their zero point, as floats. The zero points of a weight of a convolution are one for each output.
    fn difference(&mut self, value: ValueId, zero: Option<ValueId>) -> Result<ValueId> {
        let axis = if self.node.is("ConvInteger") { 0 } else { -1 };
        let constant = zero.and_then(|zero| self.graph.value(zero).constant.as_ref());
        let shape = constant.map_or(Vec::new(), |constant| constant.shape().to_vec());
        let one = Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), 1.0));
        let scale = self.graph.add_constant("", Tensor::filled(&one, shape)?)?;
        let number = self.number();
        let attributes = AttributeMap::from_iter([("axis".into(), Attribute::Int(axis))]);
        self.push(
            "DequantizeLinear",
            smallvec![Some(value), Some(scale), zero],
            attributes,
            smallvec![Some(number)],
        );
        Ok(number)
    }
}
