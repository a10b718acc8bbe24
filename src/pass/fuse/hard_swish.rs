//! `y = clip(alpha * x + beta, 0, 1)`
//! `y = factor * clip(a * x + b, 0, 1 / factor)`
//!
//! becomes `HardSigmoid(x)`, if the slope is one by which ncnn's layer can divide.
//!
//! `y = x * clip(x / 6 + 1 / 2, 0, 1)`
//! `y = x * HardSigmoid(x)` of this slope and offset
//!
//! becomes `HardSwish(x)`. If a convolution after it has taken the quotient,
//!
//! `y = x * clip(x + 3, 0, 6)`
//!
//! becomes `6 * HardSwish(x)`.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, first, fuse, near, output, to_f32};
use super::terms::{bounded, polynomial, product};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::pattern::float;

/// The slopes that are fused; ncnn's HardSigmoid divides by the slope.
const SLOPES: std::ops::RangeInclusive<f64> = 1e-3..=1e3;

/// `clip(alpha * x + beta, 0, 1)`.
struct Ramp {
    alpha: f64,
    beta: f64,
}

pub(crate) fn fuse_hard_sigmoid(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_sigmoid, |made, (x, ramp)| {
        let [alpha, beta] = [ramp.alpha, ramp.beta].map(to_f32);
        Ok(made.value(x).apply("HardSigmoid", [("alpha", alpha.into()), ("beta", beta.into())]))
    })
}

fn find_sigmoid(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Ramp)>> {
    let y = output(node)?;
    let (clip, factor, mut inner) = match product(matcher, node) {
        Some(product) => match *product.values.as_slice() {
            [clip] => (clip, product.factor, product.inner),
            _ => return None,
        },
        None if node.is("Clip") => (y, 1.0, BTreeSet::new()),
        None => return None,
    };
    let x = linear_operand(matcher, bounded(matcher, clip)?.value)?;
    let ramp = read_ramp(matcher, clip, x, factor, &mut inner)?;
    inner.remove(&y);
    matcher.alike(x, y).then_some(Found { inner, parts: (x, ramp) })
}

/// `x` of `alpha * x + beta`: the operand of one or two operations with a constant.
fn linear_operand(matcher: &Matcher, value: ValueId) -> Option<ValueId> {
    let mut x = value;
    for _ in 0..2 {
        let operand = matcher.producer(x).and_then(|node| matcher.with_scalar(node));
        let Some((next, _)) = operand else { break };
        if polynomial(matcher, x, next, &mut BTreeSet::new()).is_none() {
            break;
        }
        x = next;
    }
    // `clip(x, 0, 1)` stays a Clip.
    (x != value).then_some(x)
}

/// Reads `factor * clip` as a ramp of `x`.
fn read_ramp(
    matcher: &Matcher,
    clip: ValueId,
    x: ValueId,
    factor: f64,
    inner: &mut BTreeSet<ValueId>,
) -> Option<Ramp> {
    let clip = bounded(matcher, clip)?;
    let [c0, c1, c2, c3] = polynomial(matcher, clip.value, x, inner)?;
    inner.extend(clip.inner);
    let dtype = matcher.graph.value(x).dtype;
    let is_ramp = clip.low == 0.0
        && near(clip.high * factor, 1.0, dtype)
        && SLOPES.contains(&(c1 * factor))
        && [c2, c3] == [0.0; 2];
    is_ramp.then_some(Ramp { alpha: c1 * factor, beta: c0 * factor })
}

pub(crate) fn fuse_hard_swish(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_swish, |made, (x, factor)| {
        let swish = made.value(x).apply("HardSwish", []);
        Ok(if factor == 1.0 { swish } else { swish * to_f32(factor) })
    })
}

/// The factors of HardSwish that are fused: half precision has to represent the results.
const FACTORS: std::ops::RangeInclusive<f64> = 0.1..=10.0;

fn find_swish(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, f64)>> {
    let y = output(node)?;
    let product = product(matcher, node)?;
    // A quotient after it belongs to the pattern.
    if matcher
        .only_reader(y)
        .is_some_and(|node| (node.is("Mul") || node.is("Div")) && matcher.with_scalar(node).is_some())
    {
        return None;
    }
    product.orders().find_map(|(x, gate)| {
        let mut inner = product.inner.clone();
        inner.insert(gate);
        let (ramp, factor) = match matcher.made_by(gate, "HardSigmoid") {
            Some(node) if product.factor == 1.0 && first(node) == Some(x) => {
                let attribute = |name, default| float(node, name).map_or(default, f64::from);
                (Ramp { alpha: attribute("alpha", 0.2), beta: attribute("beta", 0.5) }, 1.0)
            }
            Some(_) => return None,
            None => {
                let high = bounded(matcher, gate)?.high;
                let exact = near(product.factor * high, 1.0, matcher.graph.value(x).dtype);
                let factor = if exact { 1.0 } else { product.factor * high };
                (read_ramp(matcher, gate, x, product.factor / factor, &mut inner)?, factor)
            }
        };
        let dtype = matcher.graph.value(x).dtype;
        let fits = near(ramp.alpha, 1.0 / 6.0, dtype) && near(ramp.beta, 0.5, dtype) && matcher.alike(x, y);
        (fits && FACTORS.contains(&factor)).then_some(Found { inner, parts: (x, factor) })
    })
}
