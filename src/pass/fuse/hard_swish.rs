//! HardSigmoid: `clip(alpha * x + beta, 0, 1)`, and HardSwish: `x * clip(x / 6 + 1/2, 0, 1)`.

use std::collections::BTreeSet;

use super::swish::single;
use super::terms::{bounded, polynomial, product};
use super::{Build, Found, Look, first, fuse, near};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

/// The slopes of lines that are fused: the layer divides by the slope.
const SLOPES: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// The line `alpha * x + beta`, clipped to `[0, 1]`.
struct Ramp {
    alpha: f64,
    beta: f64,
}

impl Ramp {
    fn is_usual(&self, look: &Look, x: ValueId) -> bool {
        let dtype = look.graph.value(x).dtype;
        near(self.alpha, 1.0 / 6.0, dtype) && near(self.beta, 0.5, dtype)
    }
}

pub(crate) fn fuse_hard_sigmoid(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_sigmoid, |made: &mut Build, (x, ramp): (ValueId, Ramp)| {
        let float = |x| Attribute::Float(single(x));
        made.last("HardSigmoid", &[x], &[("alpha", float(ramp.alpha)), ("beta", float(ramp.beta))]);
        Ok(())
    })
}

/// The last node is the clip, or a product with its result.
fn find_sigmoid(look: &Look, node: &Node) -> Option<Found<(ValueId, Ramp)>> {
    let result = node.outputs.first().copied().flatten()?;
    let (gate, number, mut inner) = match product(look, node) {
        Some(product) => match *product.values.as_slice() {
            [gate] => (gate, product.number, product.inner),
            _ => return None,
        },
        None if node.is("Clip") => (result, 1.0, BTreeSet::new()),
        None => return None,
    };
    let x = line_of(look, bounded(look, gate)?.value)?;
    let ramp = read_ramp(look, gate, x, number, &mut inner)?;
    inner.remove(&result);
    look.alike(x, result).then_some(Found { inner, parts: (x, ramp) })
}

/// Returns the value under at most two arithmetic operations with a constant.
fn line_of(look: &Look, value: ValueId) -> Option<ValueId> {
    let mut of = value;
    for _ in 0..2 {
        let Some(node) = look.graph.value(of).producer.and_then(|id| look.graph.node(id)) else { break };
        let with_number = super::orders(node).find(|(_, number)| look.number(*number).is_some());
        let Some((next, _)) = with_number else { break };
        if polynomial(look, of, next, &mut BTreeSet::new()).is_none() {
            break;
        }
        of = next;
    }
    // A clip without a line stays a clip.
    (of != value).then_some(of)
}

/// Returns `number * gate` as a clipped line of `x`.
fn read_ramp(
    look: &Look,
    gate: ValueId,
    x: ValueId,
    number: f64,
    inner: &mut BTreeSet<ValueId>,
) -> Option<Ramp> {
    let held = bounded(look, gate)?;
    let [c0, c1, c2, c3] = polynomial(look, held.value, x, inner)?;
    inner.extend(held.inner);
    let dtype = look.graph.value(x).dtype;
    let is_ramp = held.low == 0.0
        && near(held.high * number, 1.0, dtype)
        && SLOPES.contains(&(c1 * number))
        && [c2, c3] == [0.0; 2];
    is_ramp.then_some(Ramp { alpha: c1 * number, beta: c0 * number })
}

pub(crate) fn fuse_hard_swish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_swish, |made: &mut Build, x: ValueId| {
        made.last("HardSwish", &[x], &[]);
        Ok(())
    })
}

fn find_swish(look: &Look, node: &Node) -> Option<Found<ValueId>> {
    let result = node.outputs.first().copied().flatten()?;
    let product = product(look, node)?;
    let [a, b] = *product.values.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        let mut inner = product.inner.clone();
        inner.insert(gate);
        let ramp = match look.made_by(gate, "HardSigmoid") {
            Some(node) if product.number == 1.0 && first(node) == Some(x) => {
                let float = |name, missing| match node.attributes.get(name) {
                    Some(Attribute::Float(x)) => f64::from(*x),
                    _ => missing,
                };
                Ramp { alpha: float("alpha", 0.2), beta: float("beta", 0.5) }
            }
            Some(_) => return None,
            None => read_ramp(look, gate, x, product.number, &mut inner)?,
        };
        (ramp.is_usual(look, x) && look.alike(x, result)).then_some(Found { inner, parts: x })
    })
}
