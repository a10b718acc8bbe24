//! What the readers of a node do with its results.

use std::collections::BTreeSet;

use super::{Call, Op, find};
use crate::graph::{Graph, Node, ValueId};

/// The maximum number of consecutive nodes that only forward their input.
const MAX_FORWARDED: usize = 4;

impl Call<'_> {
    /// Returns whether a rounding error of an output can change the result of a reader by a whole step.
    pub fn feeds_discontinuity(&self) -> bool {
        self.has_reader(|graph, reader, op| op.discontinuous.is_some_and(|rule| rule(graph, reader)))
    }

    /// Returns whether a reader of an output may drop elements of it: a NaN among them must not change the
    /// others.
    pub fn feeds_selection(&self) -> bool {
        self.feeds("Where") || self.feeds("IsNaN")
    }

    /// Returns whether a reader of an output is `op_type` of the domain of ONNX.
    pub fn feeds(&self, op_type: &str) -> bool {
        self.has_reader(|_, node, _| node.is(op_type))
    }

    /// Returns whether a reader, or a reader of its forwarded result, satisfies `is`.
    fn has_reader(&self, is: impl Fn(&Graph, &Node, &Op) -> bool) -> bool {
        let mut values: BTreeSet<ValueId> = self.node().outputs.iter().flatten().copied().collect();
        for _ in 0..MAX_FORWARDED {
            let mut handed_on = BTreeSet::new();
            for (_, reader) in self.graph().nodes() {
                if !reader.inputs.iter().flatten().any(|input| values.contains(input)) {
                    continue;
                }
                let Some(op) = find(reader) else { continue };
                if is(self.graph(), reader, op) {
                    return true;
                }
                if op.transparent.is_some_and(|condition| condition(self.graph(), reader)) {
                    handed_on.extend(reader.outputs.iter().flatten());
                }
            }
            if handed_on.is_empty() {
                return false;
            }
            values = handed_on;
        }
        false
    }
}
