//! Refuses networks that round to quantised steps again and again.
//!
//! A sum that two runtimes add up in different orders differs in its last bits; where it falls on the border between two steps, the
//! results are a whole step apart. One rounding keeps that within a step. Where steps feed further steps the differences grow with
//! the depth of the network, and float arithmetic no longer computes what the model computes.

use std::collections::BTreeSet;

use crate::error::{Error, Errors};
use crate::graph::{Graph, ValueId};
use crate::ops;

/// Every rounding of a value that follows another rounding is an error.
pub fn check_rounding(graph: &Graph) -> Result<(), Errors> {
    let mut stepped: BTreeSet<ValueId> = BTreeSet::new();
    let mut errors = Vec::new();
    for (_, node) in graph.nodes() {
        let rounds = ops::find(node).is_some_and(|op| op.rounds);
        let follows = graph.reads(node).iter().any(|value| stepped.contains(value));
        if rounds && follows {
            errors.push(
                Error::unsupported(
                    "its input is rounded to quantised steps already, and differences of a step would grow",
                )
                .help(
                    "convert the model from before its quantisation, or this one with --int8 or --dequantize",
                )
                .at_node(|| node.at()),
            );
        }
        if rounds || follows {
            stepped.extend(node.outputs.iter().flatten());
        }
    }
    Errors::check(errors)
}
