//! Floor divisions of sizes as exporters write them: a quotient that is rounded towards zero, less one where
//! the signs differ and a remainder is left, `Div(a, b) - Cast(And(Not(Equal(Sign(a), 1)), Cast(Mod(a,
//! b))))`.

use super::super::broadcast::infer_first;
use crate::ops::prelude::*;
use crate::pass::pattern::{constant_ints, producer, scalar};

pub(super) fn infer_sub(call: &Call) -> Result<Vec<Fact>> {
    let Some((dividends, quotients)) = floor_quotient(call.graph(), call.node()) else {
        return infer_first(call);
    };
    for dividend in &dividends.to_dims()? {
        call.require(SizeCondition::at_least(dividend, 0))?;
    }
    Ok(vec![Fact::elements(quotients)])
}

/// Returns the dividends of a floor division by positive numbers, and their quotients if none of them is
/// negative.
fn floor_quotient(graph: &Graph, node: &Node) -> Option<(Array, Array)> {
    let (quotient, less) = (node.input(0)?, node.input(1)?);
    let quotients = graph.value(quotient).elements.as_deref()?;
    let division = producer(graph, quotient, "Div")?;
    let (dividend, divisor) = (division.input(0)?, division.input(1)?);
    let dividends = graph.value(dividend).elements.as_deref()?;
    let divisors = constant_ints(graph, divisor)?;
    let both = producer(graph, input_of(graph, less, "Cast")?, "And")?;
    let (first, second) = (both.input(0)?, both.input(1)?);
    let is_floor = divisors.iter().all(|divisor| *divisor > 0)
        && [(first, second), (second, first)].into_iter().any(|(differ, rest)| {
            differs_in_sign(graph, differ, dividend) == Some(true)
                && is_remainder(graph, rest, dividend, &divisors) == Some(true)
        });
    is_floor.then(|| (dividends.clone(), quotients.clone()))
}

/// Returns the input of the node of a value.
fn input_of(graph: &Graph, value: ValueId, op_type: &str) -> Option<ValueId> {
    producer(graph, value, op_type)?.input(0)
}

/// Returns whether a value tests that a dividend has another sign than positive divisors.
fn differs_in_sign(graph: &Graph, value: ValueId, dividend: ValueId) -> Option<bool> {
    let same = producer(graph, input_of(graph, value, "Not")?, "Equal")?;
    let (sign, one) = (same.input(0)?, same.input(1)?);
    Some(input_of(graph, sign, "Sign")? == dividend && scalar(graph, one)? == 1.0)
}

/// Returns whether a value is true where a division leaves a remainder.
fn is_remainder(graph: &Graph, value: ValueId, dividend: ValueId, divisors: &[i64]) -> Option<bool> {
    let remainder = producer(graph, input_of(graph, value, "Cast")?, "Mod")?;
    let divisor = remainder.input(1)?;
    Some(remainder.input(0)? == dividend && constant_ints(graph, divisor)? == divisors)
}
