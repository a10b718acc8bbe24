//! Types and shapes of values that nothing infers, by their readers.

use super::part::Parts;
use crate::graph::{Fact, ValueId};
use crate::op::{self, Access, Call};
use crate::tensor::Dim;

/// The most nodes between a value and the weights from which its shape follows.
const MAX_DEPTH: usize = 8;

impl Parts {
    /// Returns whether the type and the shape of a value are known, or follow from its readers.
    pub(super) fn is_known(&self, id: ValueId) -> bool {
        self.is_inferred(id) || self.expected(id).is_some()
    }

    fn is_inferred(&self, id: ValueId) -> bool {
        let value = self.inferred.value(id);
        value.dtype.is_some() && value.shape.is_some()
    }

    /// Returns the type and the shape that a value is expected to have: by its readers, or as another result
    /// of an operator that is not known, which gives ids and their mask alike.
    fn expected(&self, id: ValueId) -> Option<Fact> {
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
        let name = |id: &ValueId| {
            let name = &self.graph.value(*id).name;
            let expected = if self.is_inferred(*id) { None } else { self.expected(*id) };
            let stated = expected.and_then(|fact| {
                let sizes: Vec<String> = fact.shape?.iter().map(Dim::to_string).collect();
                Some(format!("{name}:{}[{}]", fact.dtype, sizes.join(",")))
            });
            stated.unwrap_or_else(|| name.clone())
        };
        ids.iter().map(name).collect()
    }
}
