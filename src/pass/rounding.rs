//! Refusal of models that round to quantized steps repeatedly.
//!
//! Two runtimes that sum in different orders differ in the last bits; if the sum lies between two steps, the
//! results differ by a whole step. A single rounding keeps the difference within a step, but through further
//! roundings it grows with the depth of the network. Integer arithmetic is exact, so operators computed in
//! integers (`QLinearConv` and the like) may follow one another. The mean of quantized values often lies
//! halfway between two steps, so that already a single rounding of it depends on the last bit.

use crate::common::index::IndexSet;
use crate::error::{Error, ErrorCode, Errors};
use crate::graph::{Graph, ValueId};
use crate::op;
use crate::tensor::DType;

/// The advice for models that round to quantized steps repeatedly.
pub(crate) const UNQUANTIZED: &str = "convert the model as it was before quantization";

/// The operators that compute means.
const MEANS: [&str; 3] = ["AveragePool", "GlobalAveragePool", "ReduceMean"];

/// Checks that no rounding follows another one, unless its input is exact.
///
/// # Errors
///
/// One for each such rounding.
pub fn check_rounding(graph: &Graph) -> Result<(), Errors> {
    let mut exact: IndexSet<ValueId> = graph.inputs.iter().copied().collect();
    // Values of quantized steps: those that are exact, and those that depend on a rounding of inexact values.
    // Integers are levels of quantized inputs.
    let is_integer = |input: &ValueId| graph.value(*input).dtype.is_some_and(DType::is_int);
    let mut exact_steps: IndexSet<ValueId> = graph.inputs.iter().copied().filter(is_integer).collect();
    let mut inexact_steps: IndexSet<ValueId> = IndexSet::default();
    let mut errors = Vec::new();
    for (_, node) in graph.nodes() {
        let op = op::find(node);
        let is_exact = |value: ValueId| exact.contains(value) || graph.value(value).constant.is_some();
        let keeps_exact = |op: &op::Op| {
            op.exact || op.transparent.is_some_and(|is_transparent| is_transparent(graph, node))
        };
        let rounds = op.is_some_and(|op| op.rounds);
        let of_steps = node.reads().any(|value| exact_steps.contains(value));
        if op.is_some_and(keeps_exact) && node.reads().all(is_exact) {
            exact.extend(node.outputs.iter().flatten().copied());
            if rounds || of_steps {
                exact_steps.extend(node.outputs.iter().flatten().copied());
            }
            continue;
        }
        // Means often lie halfway between two quantized steps.
        let halfway = of_steps && node.is_one_of(&MEANS);
        let follows = halfway || node.reads().any(|value| inexact_steps.contains(value));
        if rounds && follows {
            errors.push(
                Error::unsupported(
                    "the model rounds again what it computes from rounded values: small differences would become steps",
                )
                .code_is(ErrorCode::ROUNDED_TWICE)
                .help(UNQUANTIZED)
                .at_node(|| node.at()),
            );
        }
        if rounds || follows {
            inexact_steps.extend(node.outputs.iter().flatten().copied());
        }
    }
    Errors::check(errors)
}
