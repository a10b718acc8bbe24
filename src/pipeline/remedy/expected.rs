//! Types and shapes of values that nothing infers, by their readers.

use std::collections::BTreeMap;

use super::part::{Parts, is_text};
use crate::common::index::IndexSet;
use crate::graph::{Fact, Graph, ValueId};
use crate::op::{self, Access, Call};
use crate::tensor::Dim;

/// The most nodes between a value and the weights from which its shape follows.
const MAX_DEPTH: usize = 8;

fn is_inferred(inferred: &Graph, id: ValueId) -> bool {
    let value = inferred.value(id);
    value.dtype.is_some() && value.shape.is_some()
}

/// Returns the values whose shape is unknown although all operators are known, and none computes it from
/// text: such operators may give other shapes than their readers tell.
pub(super) fn misleading(graph: &Graph, inferred: &Graph) -> IndexSet<ValueId> {
    let mut found = IndexSet::default();
    for (_, node) in graph.nodes() {
        let is_misleading = match node.reads().all(|value| is_inferred(inferred, value)) {
            true => op::find(node).is_some() && !node.reads().any(|value| is_text(inferred, value)),
            false => node.reads().any(|value| found.contains(value)),
        };
        if is_misleading {
            found.extend(node.outputs.iter().flatten().copied().filter(|id| !is_inferred(inferred, *id)));
        }
    }
    found
}

impl Parts {
    /// Returns whether the type and the shape of a value are known, or follow from its readers.
    pub(super) fn is_known(&self, id: ValueId) -> bool {
        self.is_inferred(id) || self.expected(id).is_some()
    }

    fn is_inferred(&self, id: ValueId) -> bool {
        is_inferred(&self.inferred, id)
    }

    /// Returns the type and the shape that a value is expected to have: by its readers, or as another result
    /// of an operator that is not known, which gives ids and their mask alike.
    fn expected(&self, id: ValueId) -> Option<Fact> {
        if self.misleading.contains(id) {
            return None;
        }
        let siblings = || {
            let node = self.graph.producer(id)?;
            let others = node.outputs.iter().flatten().filter(|other| **other != id);
            op::find(node).is_none().then_some(others)?.find_map(|other| self.by_readers(*other, 0))
        };
        self.by_readers(id, 0).or_else(siblings)
    }

    /// Returns the type and the shape that the readers of a value expect.
    fn by_readers(&self, id: ValueId, depth: usize) -> Option<Fact> {
        let readers = self.graph.readers();
        let nodes = readers.get(id).iter().filter_map(|reader| self.inferred.node(*reader));
        let mut expected = nodes.filter_map(|node| {
            let (op, call) = Call::of(&self.inferred, node)?;
            let index = node.inputs.iter().position(|input| *input == Some(id))?;
            let result = || {
                let output = node.output(0).filter(|_| depth < MAX_DEPTH)?;
                self.by_readers(output, depth + 1)
            };
            match op.expects {
                Some(expects) => expects(&call, index, &result),
                // Such a node does not change the shape, if the value is not the smaller operand.
                None if op.access == Access::Elementwise && index == 0 => result(),
                None => None,
            }
        });
        expected.next()
    }

    /// Returns the names of inputs, with types and shapes where they cannot be inferred.
    pub fn input_names(&self, ids: &[ValueId]) -> Vec<String> {
        let mut names = self.computed_sizes.clone();
        // Sizes that are computed of such sizes; an input has plain names.
        let mut computed: BTreeMap<&Dim, Dim> = BTreeMap::new();
        let mut name = |id: &ValueId| {
            let (name, value) = (&self.graph.value(*id).name, self.inferred.value(*id));
            let (dtype, shape) = match (value.dtype, value.shape.as_deref()) {
                (Some(dtype), Some(shape)) if shape.iter().any(|size| names.has(size)) => {
                    let mut plain = |size| match Dim::symbol_name(size) {
                        None if names.has(size) => {
                            computed.entry(size).or_insert_with(|| names.next()).clone()
                        }
                        _ => size.clone(),
                    };
                    (dtype, shape.iter().map(&mut plain).collect())
                }
                (Some(_), Some(_)) => return name.clone(),
                _ => match self.expected(*id) {
                    Some(Fact { dtype, shape: Some(shape), .. }) => (dtype, shape.to_vec()),
                    _ => return name.clone(),
                },
            };
            let sizes: Vec<String> = shape.iter().map(Dim::to_string).collect();
            format!("{name}:{dtype}[{}]", sizes.join(","))
        };
        ids.iter().map(&mut name).collect()
    }
}
