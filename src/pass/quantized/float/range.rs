//! Removal of dynamic quantization: products of levels become products of the quantized values.

use std::collections::{BTreeMap, BTreeSet};

use super::{Plain, to_plain_by};
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId, pairs};
use crate::pass::builder::Expr;
use crate::pass::pattern::{Readers, only_output};
use crate::tensor::{DType, Tensor};

/// Replaces products of outputs of DynamicQuantizeLinear by products of its input, with a scale of 1. Returns
/// these inputs.
pub(super) fn drop_ranges(graph: &mut Graph) -> Result<Vec<ValueId>> {
    let readers = Readers::of(graph);
    let nodes = graph.nodes().filter(|(_, node)| node.is("DynamicQuantizeLinear"));
    let found: Vec<Quantized> = nodes.filter_map(|(_, node)| Quantized::of(graph, &readers, node)).collect();
    if found.is_empty() {
        return Ok(Vec::new());
    }
    let floats: BTreeMap<ValueId, ValueId> = found.iter().map(|found| (found.levels, found.x)).collect();
    let zeros: BTreeSet<ValueId> = found.iter().filter_map(|found| found.zero).collect();
    let roundings: BTreeSet<NodeId> =
        found.iter().flat_map(|found| found.roundings.iter().copied()).collect();
    let one = graph.add_constant("", Tensor::all(1.0, Vec::new())?);
    graph.rewrite_nodes(|graph, id| {
        let Some(node) = graph.node(id).cloned() else { return Ok(None) };
        let float = node.input(0).and_then(|value| floats.get(&value).copied());
        let unrounded = node.input(0).filter(|_| roundings.contains(&id));
        let plain_x = float.filter(|_| node.is("DequantizeLinear")).or(unrounded);
        let reads_levels =
            is_product(&node) && node.inputs.iter().flatten().any(|value| floats.contains_key(value));
        to_plain_by(graph, &node, |plain| match plain_x {
            Some(x) => Ok(Some(plain.made.value(x))),
            None if reads_levels => plain.product(&floats, &zeros).map(Some),
            None => Ok(None),
        })
    })?;
    for found in &found {
        for value in &found.integers {
            graph.value_mut(*value)?.dtype = Some(DType::F32);
        }
        for value in found.integers.iter().chain(&found.scaled) {
            let value = graph.value_mut(*value)?;
            value.name = value.name_of_changed();
        }
    }
    graph.redirect(&found.iter().map(|found| (found.scale, one)).collect());
    Ok(floats.into_values().collect())
}

/// The outputs of a DynamicQuantizeLinear of which all readers compute a product and scale it back:
/// `Cast(P) * (scale * w)` of a product `P`, or of `P + Cast(Floor(b / (scale * w)))`.
struct Quantized {
    x: ValueId,
    levels: ValueId,
    scale: ValueId,
    zero: Option<ValueId>,
    /// Sums that become float32, and biases on the way to them.
    integers: Vec<ValueId>,
    /// The sums as floats, and products of the scale, which is 1 from now on.
    scaled: Vec<ValueId>,
    /// Roundings of biases to levels.
    roundings: Vec<NodeId>,
}

impl Quantized {
    fn of(graph: &Graph, readers: &Readers, node: &Node) -> Option<Quantized> {
        let (levels, scale, zero) = (node.output(0)?, node.output(1)?, node.output(2));
        let mut found = Quantized {
            x: node.input(0)?,
            levels,
            scale,
            zero,
            integers: Vec::new(),
            scaled: Vec::new(),
            roundings: Vec::new(),
        };
        if readers.is_output(levels) || zero.is_some_and(|zero| readers.is_output(zero)) {
            return None;
        }
        let is_known =
            |id: &NodeId| graph.node(*id).is_some_and(|node| is_product(node) || node.is("DequantizeLinear"));
        if !zero.iter().all(|zero| readers.all(*zero).iter().all(is_known)) {
            return None;
        }
        // Sums in float32 that still have to be multiplied by the scale.
        let mut unscaled = BTreeSet::new();
        for reader in readers.all(levels) {
            let reader = graph.node(*reader)?;
            if is_product(reader) {
                let reads = reader.inputs.iter().flatten().filter(|value| **value == levels);
                if reads.count() > 1 {
                    return None;
                }
                unscaled.extend(found.sums(graph, readers, only_output(reader)?)?);
            } else if !reader.is("DequantizeLinear")
                || (reader.input(1), reader.input(2)) != (Some(scale), zero)
            {
                return None;
            }
        }
        let (scaled, scales) = found.scaled(graph, readers, &unscaled)?;
        found.scaled.extend(unscaled.iter().copied().chain(scales));
        let is_scaled = |id: &NodeId| scaled.contains(id);
        let all =
            unscaled.iter().all(|sum| !readers.is_output(*sum) && readers.all(*sum).iter().all(is_scaled));
        all.then_some(found)
    }

    /// Returns a product as float32, with and without a bias.
    fn sums(&mut self, graph: &Graph, readers: &Readers, product: ValueId) -> Option<Vec<ValueId>> {
        let mut sums = Vec::new();
        let mut pending = vec![(product, false)];
        while let Some((value, has_bias)) = pending.pop() {
            if readers.is_output(value) {
                return None;
            }
            self.integers.push(value);
            for id in readers.all(value) {
                let reader = graph.node(*id)?;
                if reader.is("Cast") {
                    let sum = only_output(reader)?;
                    graph.value(sum).dtype.filter(|dtype| dtype.is_float())?;
                    sums.push(sum);
                } else if reader.is("Add") && !has_bias {
                    let bias =
                        [reader.input(0)?, reader.input(1)?].into_iter().find(|other| *other != value)?;
                    self.bias(graph, readers, bias)?;
                    pending.push((only_output(reader)?, true));
                } else {
                    return None;
                }
            }
        }
        Some(sums)
    }

    /// Adds the roundings of a bias: `Cast(Floor(b))`, or another shape of it.
    fn bias(&mut self, graph: &Graph, readers: &Readers, mut value: ValueId) -> Option<()> {
        loop {
            readers.only(value)?;
            self.integers.push(value);
            let id = graph.value(value).producer?;
            let node = graph.node(id)?;
            if node.is_one_of(&["Reshape", "Unsqueeze", "Squeeze"]) {
                value = node.input(0)?;
                continue;
            }
            let rounded = node.input(0).filter(|_| node.is("Cast"))?;
            readers.only(rounded)?;
            let floor = graph.value(rounded).producer?;
            let quotient = graph.node(floor).filter(|node| node.is("Floor"))?.input(0)?;
            let divides = |id: NodeId| graph.node(id).is_some_and(|node| node.is("Div"));
            graph.value(quotient).producer.filter(|id| divides(*id))?;
            readers.only(quotient)?;
            self.roundings.extend([id, floor]);
            return Some(());
        }
    }

    /// Returns the nodes that multiply sums by the scale, and the products of the scale and other factors.
    /// `None` if other nodes than these and biases read the scale.
    fn scaled(
        &self,
        graph: &Graph,
        readers: &Readers,
        unscaled: &BTreeSet<ValueId>,
    ) -> Option<(BTreeSet<NodeId>, BTreeSet<ValueId>)> {
        let mut scaled = BTreeSet::new();
        let mut pending = vec![self.scale];
        let mut visited = BTreeSet::from([self.scale]);
        let floors =
            |quotient: ValueId| readers.only(quotient).is_some_and(|reader| self.roundings.contains(&reader));
        while let Some(scale) = pending.pop() {
            if readers.is_output(scale) {
                return None;
            }
            for id in readers.all(scale) {
                let reader = graph.node(*id)?;
                let other = [reader.input(0), reader.input(1)].into_iter().flatten().find(|id| *id != scale);
                if reader.is("Mul") {
                    let other = other?;
                    if unscaled.contains(&other) {
                        scaled.insert(*id);
                    } else if visited.insert(only_output(reader)?) {
                        pending.push(only_output(reader)?);
                    } else {
                        // Twice the scale.
                        return None;
                    }
                } else if reader.is("Div") {
                    if reader.input(1) != Some(scale) || !floors(only_output(reader)?) {
                        return None;
                    }
                } else if !reader.is("DequantizeLinear") || reader.input(0) != Some(self.levels) {
                    return None;
                }
            }
        }
        visited.remove(&self.scale);
        Some((scaled, visited))
    }
}

fn is_product(node: &Node) -> bool {
    node.is("MatMulInteger") || node.is("ConvInteger")
}

impl<'b> Plain<'b, '_> {
    /// Returns the float operator instead of MatMulInteger or ConvInteger.
    fn product(&self, floats: &BTreeMap<ValueId, ValueId>, zeros: &BTreeSet<ValueId>) -> Result<Expr<'b>> {
        let mut operands = Vec::new();
        for index in [0, 1] {
            let Some(value) = self.input(index) else { continue };
            let zero = self.input(index + 2).filter(|zero| !zeros.contains(&zero.id));
            operands.push(match floats.get(&value.id) {
                Some(float) => self.made.value(*float),
                None => self.difference(value, zero),
            });
        }
        let plain = if self.node.is("ConvInteger") { "Conv" } else { "MatMul" };
        Ok(self.made.op(plain, operands, pairs(&self.node.attributes)))
    }

    /// Returns integers minus their zero point as float32. The weight of a convolution has a zero point for
    /// each output.
    fn difference(&self, value: Expr<'b>, zero: Option<Expr<'b>>) -> Expr<'b> {
        let axis = if self.node.is("ConvInteger") { 0 } else { -1 };
        let shape = zero.map_or(Vec::new(), |zero| zero.constant_shape().to_vec());
        let scale = self.made.constant(Tensor::all(1.0, shape));
        self.dequantize([Some(value), Some(scale), zero], [("axis", axis.into())])
    }
}
