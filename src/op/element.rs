//! An element of a list of integers as a sum: one that is computed at run time, and sizes.

use std::borrow::Cow;

use num_traits::AsPrimitive;

use super::range::range;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::{DType, Dim, Range};

/// The maximum number of nodes that are followed.
const MAX_NODES: usize = 32;

/// A sum of an element that is computed at run time, if there is one, and of sizes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ElementSum {
    /// The value that has the computed element, and its index.
    pub computed: Option<(ValueId, usize)>,
    /// The sum of all sizes and constants.
    pub size: Dim,
    /// The values of one element that were added to the computed one; `None` if others are part of the sum.
    pub added: Option<Vec<ValueId>>,
}

impl ElementSum {
    /// Reads element `index` of a value.
    pub fn of(graph: &Graph, mut id: ValueId, mut index: usize) -> ElementSum {
        let mut sum = ElementSum { computed: None, size: Dim::ZERO, added: Some(Vec::new()) };
        for _ in 0..MAX_NODES {
            if let Some(size) = known(graph, id, index) {
                sum.size = &sum.size + &size;
                return sum;
            }
            let Some(node) = graph.producer(id) else { break };
            match step(graph, node, index, &mut sum) {
                Some(next) => (id, index) = next,
                None => break,
            }
        }
        sum.computed = Some((id, index));
        sum
    }

    /// Returns the difference of two sums of the same computed element.
    pub fn distance(&self, to: &ElementSum) -> Option<Dim> {
        (self.computed == to.computed).then(|| &to.size - &self.size)
    }

    /// Returns the value of one element that is the difference to a sum, if it is one.
    pub fn distance_value(&self, to: &ElementSum) -> Option<ValueId> {
        match (self.added.as_deref(), to.added.as_deref()) {
            (Some([]), Some([added])) if self.computed == to.computed => Some(*added),
            _ => None,
        }
    }
}

fn count(graph: &Graph, id: ValueId) -> Option<usize> {
    let sizes = graph.value(id).shape.as_ref()?;
    usize::try_from(Dim::known_product(sizes)?).ok()
}

/// Returns an element that is known: an integer or a size.
fn known(graph: &Graph, id: ValueId, index: usize) -> Option<Dim> {
    let value = graph.value(id);
    if let Some(constant) = value.constant.as_ref().filter(|constant| constant.dtype().is_float()) {
        let element = constant.load_listed().ok()?.number_at(index)?;
        return (element.fract() == 0.0).then(|| Dim::Known(element.as_()));
    }
    if !value.dtype.is_some_and(DType::is_int) {
        return None;
    }
    let list = match &value.constant {
        Some(constant) => constant.load_listed().ok()?,
        None => Cow::Borrowed(value.elements.as_deref()?),
    };
    list.to_dims().ok()?.iter().nth(index).cloned()
}

/// Returns the element from which a node computes element `index` of its output, after adding a size to the
/// sum.
fn step(graph: &Graph, node: &Node, index: usize, sum: &mut ElementSum) -> Option<(ValueId, usize)> {
    let first = node.input(0)?;
    let is_int = |id: ValueId| graph.value(id).dtype.is_some_and(DType::is_int);
    if node.is("Cast") && !is_int(first) && node.output(0).is_some_and(is_int) {
        return extreme(graph, graph.producer(first)?, index);
    }
    if !is_int(first) {
        return None;
    }
    if node.is_one_of(&["Identity", "Unsqueeze", "Squeeze", "Reshape", "Cast"]) {
        let output = node.output(0)?;
        return is_int(output).then_some((first, index));
    }
    if node.is("Concat") {
        let mut before = 0;
        for id in node.inputs.iter().flatten() {
            let is_list = graph.value(*id).shape.as_ref().is_some_and(|shape| shape.len() == 1);
            let len = count(graph, *id).filter(|_| is_list)?;
            if index < before + len {
                return Some((*id, index - before));
            }
            before += len;
        }
        return None;
    }
    let source_index = |id: ValueId| source_index(graph, id, index);
    let (second, is_sum) = (node.input(1)?, node.is("Add"));
    if !is_sum && !node.is("Sub") {
        return None;
    }
    let mut orders = [(first, second), (second, first)].into_iter().take(if is_sum { 2 } else { 1 });
    let (next, added, size) =
        orders.find_map(|(next, added)| Some((next, added, known(graph, added, source_index(added)?)?)))?;
    sum.size += if is_sum { size } else { -size };
    let is_one = is_sum && count(graph, added) == Some(1);
    sum.added = sum.added.take().filter(|_| is_one).map(|mut list| {
        list.push(added);
        list
    });
    Some((next, source_index(next)?))
}

/// Returns the index in an operand from which an element of the output is computed.
fn source_index(graph: &Graph, id: ValueId, index: usize) -> Option<usize> {
    Some(if count(graph, id)? == 1 { 0 } else { index })
}

/// Returns the element that is always the larger or the smaller one of two floats, by their ranges: an
/// integer of which float32 is a copy, or a constant. Exporters limit bounds by numbers that are beyond every
/// axis.
fn extreme(graph: &Graph, node: &Node, index: usize) -> Option<(ValueId, usize)> {
    let [Some(a), Some(b)] = *node.inputs.as_slice() else { return None };
    let bounds = |id: ValueId| {
        let element = known(graph, id, source_index(graph, id, index)?).and_then(|element| element.known());
        Some(element.map_or_else(|| range(graph, id), |n| Range { least: n.as_(), most: n.as_() }))
    };
    let (of_a, of_b) = (bounds(a)?, bounds(b)?);
    let order =
        if of_a.most <= of_b.least { Some((a, b)) } else { (of_b.most <= of_a.least).then_some((b, a)) };
    let (smaller, larger) = order?;
    let chosen = [("Min", smaller), ("Max", larger)].into_iter().find(|(op, _)| node.is(op))?.1;
    let at = source_index(graph, chosen, index)?;
    if graph.value(chosen).constant.is_some() {
        return Some((chosen, at));
    }
    let cast = graph.producer(chosen).filter(|node| node.is("Cast"))?;
    let integer = cast.input(0)?;
    let is_exact =
        graph.value(integer).dtype?.is_int() && Range::EXACT_INTEGERS.contains(range(graph, integer));
    is_exact.then_some((integer, at))
}
