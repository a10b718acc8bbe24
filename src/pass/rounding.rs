//! Refuses networks that round to quantized steps repeatedly.
//!
//! A float32 sum depends on the order of its terms in the last bits; near a border between two steps the
//! rounded results of two runtimes differ by a whole step. One rounding limits the difference to a step. If
//! rounded values are rounded again, the differences grow with the depth of the network, and float arithmetic
//! no longer computes the result of the model. Integer arithmetic has no such borders: operators that are
//! exact in that sense (`QLinearConv` and the like) may follow one another.

use crate::common::index::IndexSet;
use crate::error::{Error, Errors};
use crate::graph::{Graph, ValueId};
use crate::op;

/// Reports every rounding of a value that was rounded before, unless ncnn computes its input exactly.
pub fn check_rounding(graph: &Graph) -> Result<(), Errors> {
    let mut exact: IndexSet<ValueId> = graph.inputs.iter().copied().collect();
    let mut stepped: IndexSet<ValueId> = IndexSet::default();
    let mut errors = Vec::new();
    for (_, node) in graph.nodes() {
        let op = op::find(node);
        let is_exact = |value: ValueId| exact.contains(value) || graph.value(value).constant.is_some();
        let hands_on = |op: &op::Op| op.exact || op.transparent.is_some_and(|holds| holds(graph, node));
        if op.is_some_and(hands_on) && node.reads().all(is_exact) {
            exact.extend(node.outputs.iter().flatten().copied());
            continue;
        }
        let rounds = op.is_some_and(|op| op.rounds);
        let follows = node.reads().any(|value| stepped.contains(value));
        if rounds && follows {
            errors.push(
                Error::unsupported(
                    "its input is already rounded to quantized steps: differences of a step would grow",
                )
                .help("convert the float model, or this one with --int8 or --dequantize")
                .at_node(|| node.at()),
            );
        }
        if rounds || follows {
            stepped.extend(node.outputs.iter().flatten().copied());
        }
    }
    Errors::check(errors)
}
