//! Products and polynomials with constant coefficients, in any notation.

use std::collections::BTreeSet;

use super::{Look, first, orders, two};
use crate::graph::{Attribute, Node, ValueId};
use crate::op;

/// The maximum depth of an expression: the deepest pattern has seven nodes in a row.
const MAX_DEPTH: usize = 8;
/// The maximum number of factors of a product.
const MAX_FACTORS: usize = 8;
/// The number of coefficients of a polynomial: up to the third power.
const POWERS: usize = 4;

/// A product of a constant and of values.
pub(super) struct Product {
    pub number: f64,
    pub values: Vec<ValueId>,
    pub inner: BTreeSet<ValueId>,
}

/// Returns the factors of a node's result. Products within it are expanded if they have no other reader.
pub(super) fn product(look: &Look, node: &Node) -> Option<Product> {
    let mut found = Product { number: 1.0, values: Vec::new(), inner: BTreeSet::new() };
    multiply(look, node, &mut found, MAX_DEPTH)?;
    Some(found)
}

fn multiply(look: &Look, node: &Node, found: &mut Product, depth: usize) -> Option<()> {
    let [a, b] = two(node).filter(|_| depth > 0)?;
    if node.is("Div") {
        found.number /= look.number(b)?;
        return factor(look, a, found, depth - 1);
    }
    if !node.is("Mul") {
        return None;
    }
    factor(look, a, found, depth - 1)?;
    factor(look, b, found, depth - 1)
}

fn factor(look: &Look, value: ValueId, found: &mut Product, depth: usize) -> Option<()> {
    if let Some(number) = look.number(value) {
        found.number *= number;
        return Some(());
    }
    if found.values.len() >= MAX_FACTORS {
        return None;
    }
    let within = look.only_reader(value).and(look.graph.value(value).producer);
    if let Some(node) = within.and_then(|id| look.graph.node(id)) {
        let (number, count, inner) = (found.number, found.values.len(), found.inner.clone());
        if multiply(look, node, found, depth).is_some() {
            found.inner.insert(value);
            return Some(());
        }
        found.number = number;
        found.values.truncate(count);
        found.inner = inner;
    }
    found.values.push(value);
    Some(())
}

/// Returns the coefficients of a value as a polynomial of `x`, the lowest power first.
pub(super) fn polynomial(
    look: &Look,
    value: ValueId,
    x: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<[f64; POWERS]> {
    terms(look, value, x, inner, MAX_DEPTH)
}

fn terms(
    look: &Look,
    value: ValueId,
    x: ValueId,
    inner: &mut BTreeSet<ValueId>,
    depth: usize,
) -> Option<[f64; POWERS]> {
    if value == x {
        return Some([0.0, 1.0, 0.0, 0.0]);
    }
    if let Some(number) = look.number(value) {
        return Some([number, 0.0, 0.0, 0.0]);
    }
    let node = look.graph.node(look.graph.value(value).producer?)?;
    let depth = depth.checked_sub(1)?;
    let mut of = |value| terms(look, value, x, inner, depth);
    let found = if node.is("Neg") {
        of(first(node)?)?.map(|c| -c)
    } else {
        let [a, b] = two(node)?;
        match node.op_type.as_str() {
            _ if !node.domain.is_empty() => return None,
            "Add" => zip(of(a)?, of(b)?, |a, b| a + b),
            "Sub" => zip(of(a)?, of(b)?, |a, b| a - b),
            "Mul" => times(of(a)?, of(b)?)?,
            "Div" => {
                let by = look.number(b)?;
                of(a)?.map(|c| c / by)
            }
            "Pow" => {
                let base = of(a)?;
                match look.number(b)? {
                    2.0 => times(base, base)?,
                    3.0 => times(times(base, base)?, base)?,
                    _ => return None,
                }
            }
            _ => return None,
        }
    };
    inner.insert(value);
    Some(found)
}

fn zip(a: [f64; POWERS], b: [f64; POWERS], of: impl Fn(f64, f64) -> f64) -> [f64; POWERS] {
    let mut made = a;
    made.iter_mut().zip(b).for_each(|(a, b)| *a = of(*a, b));
    made
}

fn times(a: [f64; POWERS], b: [f64; POWERS]) -> Option<[f64; POWERS]> {
    let mut made = [0.0; POWERS];
    for (i, a) in a.iter().enumerate().filter(|(_, a)| **a != 0.0) {
        for (j, b) in b.iter().enumerate().filter(|(_, b)| **b != 0.0) {
            *made.get_mut(i + j)? += a * b;
        }
    }
    Some(made)
}

/// A value between two bounds, as Clip, Relu, Min and Max express it.
pub(super) struct Bounded {
    pub value: ValueId,
    pub low: f64,
    pub high: f64,
    pub inner: BTreeSet<ValueId>,
}

/// Returns the bounds of a value, and the value without them.
pub(super) fn bounded(look: &Look, value: ValueId) -> Option<Bounded> {
    let mut found = Bounded { value, low: f64::NEG_INFINITY, high: f64::INFINITY, inner: BTreeSet::new() };
    // From the outermost clip inwards; an inner bound beyond an outer one has no effect.
    for _ in 0..3 {
        let Some(node) = look.graph.value(found.value).producer.and_then(|id| look.graph.node(id)) else {
            break;
        };
        let Some((value, low, high)) = bounds(look, node) else { break };
        if low > found.high || high < found.low {
            return None;
        }
        found.inner.insert(found.value);
        (found.low, found.high) = (found.low.max(low), found.high.min(high));
        found.value = value;
    }
    (!found.inner.is_empty()).then_some(found)
}

fn bounds(look: &Look, node: &Node) -> Option<(ValueId, f64, f64)> {
    if !node.domain.is_empty() {
        return None;
    }
    let limit = |index: usize, name: &str, missing: f64| match node.inputs.get(index).copied().flatten() {
        Some(bound) => look.number(bound),
        None => match node.attributes.get(name) {
            Some(Attribute::Float(bound)) => Some(f64::from(*bound)),
            _ => Some(missing),
        },
    };
    match node.op_type.as_str() {
        "Clip" => {
            // Nodes of versions before 6 have an attribute for inputs that may be overwritten, and do not
            // occur.
            op::find(node)?.since_version(node.version).filter(|since| *since >= 6)?;
            Some((first(node)?, limit(1, "min", f64::NEG_INFINITY)?, limit(2, "max", f64::INFINITY)?))
        }
        "Relu" => Some((first(node)?, 0.0, f64::INFINITY)),
        "Max" => orders(node).find_map(|(a, b)| Some((a, look.number(b)?, f64::INFINITY))),
        "Min" => orders(node).find_map(|(a, b)| Some((a, f64::NEG_INFINITY, look.number(b)?))),
        _ => None,
    }
}
