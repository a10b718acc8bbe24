//! Arithmetic however it is written: products, polynomials, bounds and axes of reductions.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use super::matcher::{Matcher, two};
use super::text::Pattern;
use crate::graph::{Node, ValueId};
use crate::op;
use crate::pass::pattern::{axes, float};

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

/// A value with 0 instead of NaN.
pub(super) static WITHOUT_NAN: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::of("Where(IsNaN(kept), 0, kept)"));

/// A quotient by a square root.
pub(super) static OVER_ROOT: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of("Div(dividend, Sqrt(squares) | Pow(squares, 0.5)) | Mul(dividend, Pow(squares, -0.5))")
});

/// The sorted axes of the reduction that computes a value.
pub(super) fn reduced_axes(matcher: &Matcher, value: ValueId) -> Option<Vec<usize>> {
    let axes = BTreeSet::from_iter(axes(matcher.graph, matcher.producer(value)?)?);
    (!axes.is_empty()).then(|| Vec::from_iter(axes))
}

/// The only axis of the reduction that computes a value.
pub(super) fn reduced_axis(matcher: &Matcher, value: ValueId) -> Option<usize> {
    <[usize; 1]>::try_from(reduced_axes(matcher, value)?).ok().map(|[axis]| axis)
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
