//! Arithmetic however it is written: products, polynomials, quotients, roots, bounds and reductions.

use std::collections::BTreeSet;

use super::matcher::{Matcher, orders, two};
use crate::graph::{Node, ValueId};
use crate::lower::is_square;
use crate::op;
use crate::pass::pattern::{float, int, ints};

/// The most nodes on a path of an expression; the longest pattern has seven.
const MAX_DEPTH: usize = 8;
/// The most factors of a product.
const MAX_FACTORS: usize = 8;
/// The number of coefficients of a polynomial: the highest power is 3.
const POWERS: usize = 4;

/// A product of a constant factor and values.
pub(super) struct Product {
    pub factor: f64,
    pub values: Vec<ValueId>,
    pub inner: BTreeSet<ValueId>,
}

impl Product {
    /// Both orders of the values, if there are two.
    pub fn orders(&self) -> impl Iterator<Item = (ValueId, ValueId)> + use<> {
        let pair = <[ValueId; 2]>::try_from(self.values.as_slice());
        pair.into_iter().flat_map(|[a, b]| [(a, b), (b, a)])
    }
}

/// Reads a node as a product. Factors that are products themselves are flattened if nothing else reads them.
pub(super) fn product(matcher: &Matcher, node: &Node) -> Option<Product> {
    let mut found = Product { factor: 1.0, values: Vec::new(), inner: BTreeSet::new() };
    multiply(matcher, node, &mut found, MAX_DEPTH)?;
    Some(found)
}

fn multiply(matcher: &Matcher, node: &Node, found: &mut Product, depth: usize) -> Option<()> {
    let [a, b] = two(node).filter(|_| depth > 0)?;
    if node.is("Div") {
        found.factor /= matcher.scalar(b)?;
        return multiply_by(matcher, a, found, depth - 1);
    }
    if !node.is("Mul") {
        return None;
    }
    multiply_by(matcher, a, found, depth - 1)?;
    multiply_by(matcher, b, found, depth - 1)
}

fn multiply_by(matcher: &Matcher, value: ValueId, found: &mut Product, depth: usize) -> Option<()> {
    if let Some(scalar) = matcher.scalar(value) {
        found.factor *= scalar;
        return Some(());
    }
    if found.values.len() >= MAX_FACTORS {
        return None;
    }
    if let Some(node) = matcher.only_reader(value).and(matcher.producer(value)) {
        let (factor, count, inner) = (found.factor, found.values.len(), found.inner.clone());
        if multiply(matcher, node, found, depth).is_some() {
            found.inner.insert(value);
            return Some(());
        }
        found.factor = factor;
        found.values.truncate(count);
        found.inner = inner;
    }
    found.values.push(value);
    Some(())
}

/// The coefficients of a value as a polynomial of `x`, of the lowest power first.
pub(super) fn polynomial(
    matcher: &Matcher,
    value: ValueId,
    x: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<[f64; POWERS]> {
    coefficients(matcher, value, x, inner, MAX_DEPTH)
}

fn coefficients(
    matcher: &Matcher,
    value: ValueId,
    x: ValueId,
    inner: &mut BTreeSet<ValueId>,
    depth: usize,
) -> Option<[f64; POWERS]> {
    if value == x {
        return Some([0.0, 1.0, 0.0, 0.0]);
    }
    if let Some(scalar) = matcher.scalar(value) {
        return Some([scalar, 0.0, 0.0, 0.0]);
    }
    let node = matcher.producer(value)?;
    let depth = depth.checked_sub(1)?;
    let mut of = |value| coefficients(matcher, value, x, inner, depth);
    let found = if node.is("Neg") {
        of(node.input(0)?)?.map(|c| -c)
    } else {
        let [a, b] = two(node)?;
        match node.op_type.as_str() {
            _ if !node.domain.is_empty() => return None,
            "Add" => zip(of(a)?, of(b)?, |a, b| a + b),
            "Sub" => zip(of(a)?, of(b)?, |a, b| a - b),
            "Mul" => times(of(a)?, of(b)?)?,
            "Div" => {
                let by = matcher.scalar(b)?;
                of(a)?.map(|c| c / by)
            }
            "Pow" => {
                let base = of(a)?;
                match matcher.scalar(b)? {
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

fn zip(mut a: [f64; POWERS], b: [f64; POWERS], of: impl Fn(f64, f64) -> f64) -> [f64; POWERS] {
    a.iter_mut().zip(b).for_each(|(a, b)| *a = of(*a, b));
    a
}

fn times(a: [f64; POWERS], b: [f64; POWERS]) -> Option<[f64; POWERS]> {
    let mut product = [0.0; POWERS];
    for (i, a) in a.iter().enumerate().filter(|(_, a)| **a != 0.0) {
        for (j, b) in b.iter().enumerate().filter(|(_, b)| **b != 0.0) {
            *product.get_mut(i + j)? += a * b;
        }
    }
    Some(product)
}

/// A quotient `a / b`.
pub(super) struct Quotient {
    pub dividend: ValueId,
    pub divisor: ValueId,
    /// The value `1 / b` of `a * (1 / b)`.
    pub inverse: Option<ValueId>,
}

/// The readings of a node as a quotient: `a / b`, `a * (1 / b)` and `a * reciprocal(b)`.
pub(super) fn quotients(matcher: &Matcher, node: &Node) -> impl Iterator<Item = Quotient> {
    let divided = two(node).filter(|_| node.is("Div"));
    let divided = divided.map(|[dividend, divisor]| Quotient { dividend, divisor, inverse: None });
    let multiplied = orders(node).filter(|_| node.is("Mul")).filter_map(move |(dividend, inverse)| {
        let divisor = reciprocal(matcher, matcher.producer(inverse)?)?;
        Some(Quotient { dividend, divisor, inverse: Some(inverse) })
    });
    divided.into_iter().chain(multiplied)
}

/// `b`, if a node computes `1 / b` or `reciprocal(b)`.
pub(super) fn reciprocal(matcher: &Matcher, node: &Node) -> Option<ValueId> {
    if node.is("Reciprocal") {
        return node.input(0);
    }
    let [one, b] = two(node).filter(|_| node.is("Div"))?;
    matcher.is_scalar(one, 1.0).then_some(b)
}

/// `a` and `b`, if a node computes a quotient `a / sqrt(b)`, or `a * b ^ -0.5`.
pub(super) fn over_root(
    matcher: &Matcher,
    node: &Node,
    inner: &mut BTreeSet<ValueId>,
) -> Option<(ValueId, ValueId)> {
    for Quotient { dividend, divisor, inverse } in quotients(matcher, node) {
        if let Some(b) = under_root(matcher, divisor) {
            inner.insert(divisor);
            inner.extend(inverse);
            return Some((dividend, b));
        }
    }
    orders(node).filter(|_| node.is("Mul")).find_map(|(a, power)| {
        let b = base(matcher, power, -0.5)?;
        inner.insert(power);
        Some((a, b))
    })
}

/// `b`, if a value is `sqrt(b)` or `b ^ 0.5`.
fn under_root(matcher: &Matcher, root: ValueId) -> Option<ValueId> {
    matcher.made_by(root, "Sqrt").map_or_else(|| base(matcher, root, 0.5), |root| root.input(0))
}

/// `x`, if a value is `x ^ 2` or `x * x`.
pub(super) fn squared(matcher: &Matcher, square: ValueId) -> Option<ValueId> {
    let node = matcher.producer(square)?;
    node.input(0).filter(|_| is_square(matcher.graph, node))
}

/// `b`, if a value is `b ^ exponent`.
fn base(matcher: &Matcher, power: ValueId, exponent: f64) -> Option<ValueId> {
    let [base, by] = two(matcher.made_by(power, "Pow")?)?;
    (matcher.scalar(by) == Some(exponent)).then_some(base)
}

/// `z`, if a value is `1 + exp(z)`.
pub(super) fn one_plus_exp(
    matcher: &Matcher,
    sum: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<ValueId> {
    let exp = matcher.beside_scalar(matcher.made_by(sum, "Add")?, 1.0)?;
    inner.extend([sum, exp]);
    matcher.made_by(exp, "Exp")?.input(0)
}

/// The input and the sorted axes of a reduction that keeps its axes.
pub(super) fn reduced(matcher: &Matcher, value: ValueId, op_type: &str) -> Option<(ValueId, Vec<usize>)> {
    let node = matcher.made_by(value, op_type).filter(|node| int(node, "keepdims") != Some(0))?;
    let x = node.input(0)?;
    let rank = matcher.rank(x)?;
    let axes = match node.input(1) {
        Some(axes) => matcher.ints(axes)?,
        None => ints(node, "axes")?.to_vec(),
    };
    let axes: Option<BTreeSet<usize>> = axes.iter().map(|axis| op::resolve_axis(*axis, rank).ok()).collect();
    let axes: Vec<usize> = axes?.into_iter().collect();
    (!axes.is_empty()).then_some((x, axes))
}

/// The same of a reduction along one axis.
pub(super) fn reduced_axis(matcher: &Matcher, value: ValueId, op_type: &str) -> Option<(ValueId, usize)> {
    match reduced(matcher, value, op_type)? {
        (x, axes) if axes.len() == 1 => Some((x, *axes.first()?)),
        _ => None,
    }
}

/// A value between two bounds.
pub(super) struct Bounded {
    pub value: ValueId,
    pub low: f64,
    pub high: f64,
    pub inner: BTreeSet<ValueId>,
}

/// Reads a value as bounded by Clip, Relu, Min and Max.
pub(super) fn bounded(matcher: &Matcher, value: ValueId) -> Option<Bounded> {
    let mut found = Bounded { value, low: f64::NEG_INFINITY, high: f64::INFINITY, inner: BTreeSet::new() };
    for _ in 0..3 {
        let bounds = matcher.producer(found.value).and_then(|node| bounds(matcher, node));
        let Some((value, low, high)) = bounds else { break };
        // The intervals of nested bounds must intersect.
        if low > found.high || high < found.low {
            return None;
        }
        found.inner.insert(found.value);
        (found.low, found.high) = (found.low.max(low), found.high.min(high));
        found.value = value;
    }
    (!found.inner.is_empty()).then_some(found)
}

fn bounds(matcher: &Matcher, node: &Node) -> Option<(ValueId, f64, f64)> {
    const LOWEST: f64 = f64::NEG_INFINITY;
    const HIGHEST: f64 = f64::INFINITY;
    if !node.domain.is_empty() {
        return None;
    }
    let bound = |index: usize, name: &str, default: f64| match node.input(index) {
        Some(bound) => matcher.scalar(bound),
        None => Some(float(node, name).map_or(default, f64::from)),
    };
    match node.op_type.as_str() {
        "Clip" => {
            // Version 1 has legacy attributes.
            op::find(node)?.since_version(node.version).filter(|since| *since >= 6)?;
            Some((node.input(0)?, bound(1, "min", LOWEST)?, bound(2, "max", HIGHEST)?))
        }
        "Relu" => Some((node.input(0)?, 0.0, HIGHEST)),
        "Max" => matcher.with_scalar(node).map(|(value, low)| (value, low, HIGHEST)),
        "Min" => matcher.with_scalar(node).map(|(value, high)| (value, LOWEST, high)),
        _ => None,
    }
}
