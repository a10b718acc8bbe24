//! Refuses networks that round to quantized steps again and again.
//!
//! A sum that two runtimes add up in different orders differs in its last bits; where it falls on the border between two steps, the
//! results are a whole step apart. One rounding keeps that within a step. Where steps feed further steps the differences grow with
//! the depth of the network, and float arithmetic no longer computes what the model computes. What is computed in integers has
//! no such borders: the operators that say so (`QLinearConv` and the like) may follow one another.

use crate::common::index::IndexSet;
use crate::error::{Error, Errors};
use crate::graph::{Graph, ValueId};
use crate::op;

/// Every rounding of a value that follows another rounding is an error, unless what it rounds is right to the last bit.
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
                    "its input is rounded to quantized steps already, and differences of a step would grow",
                )
                .help(
                    "convert the model from before its quantization, or this one with --int8 or --dequantize",
                )
                .at_node(|| node.at()),
            );
        }
        if rounds || follows {
            stepped.extend(node.outputs.iter().flatten().copied());
        }
    }
    Errors::check(errors)
}
