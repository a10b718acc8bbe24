//! `y = x / sqrt(sum(x ^ 2) + epsilon)` `y = x / sqrt(max(sum(x ^ 2), epsilon))` `y = x / max(sqrt(sum(x ^
//! 2)), epsilon)`
//!
//! becomes `Normalize(x)` of this program's own domain, if the sum is along one axis and `epsilon` is
//! positive. The sum may be ReduceSumSquare, the root of the sum ReduceL2, and the divisor may be expanded to
//! the shape of `x`.

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse, to_f32};
use super::terms::{Bounded, bounded, over_root, quotients, reduced_axis, squared};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

/// How epsilon keeps the norm from 0.
#[derive(Clone, Copy)]
enum Mode {
    /// Added to the sum of squares.
    Added,
    /// The minimum of the norm.
    MinNorm,
    /// The minimum of the sum of squares.
    MinSquares,
}

struct Parts {
    x: ValueId,
    axis: usize,
    epsilon: f64,
    mode: Mode,
}

pub(crate) fn fuse_l2_normalize(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, parts| {
        // The values of the param `eps_mode` of ncnn's Normalize.
        let mode = match parts.mode {
            Mode::Added => 0_i64,
            Mode::MinNorm => 1,
            Mode::MinSquares => 2,
        };
        let attributes = [
            ("axis", i64::try_from(parts.axis)?.into()),
            ("epsilon", to_f32(parts.epsilon).into()),
            ("eps_mode", mode.into()),
        ];
        Ok(made.op("ncnn.Normalize", [made.value(parts.x)], attributes))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let y = node.output(0)?;
    let mut inner = BTreeSet::new();
    let found = match over_root(matcher, node, &mut inner) {
        Some((x, squares)) => over_root_of_squares(matcher, x, squares, &mut inner),
        None => over_norm(matcher, node, &mut inner),
    };
    let parts = found.filter(|parts| matcher.alike(parts.x, y) && parts.epsilon > 0.0)?;
    inner.remove(&y);
    Some(Found { inner, parts })
}

/// Reads `x / sqrt(squares)`.
fn over_root_of_squares(
    matcher: &Matcher,
    x: ValueId,
    squares: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<Parts> {
    inner.insert(squares);
    let (sum, epsilon, mode) = if let Some(node) = matcher.made_by(squares, "Add") {
        let (sum, epsilon) = matcher.with_scalar(node)?;
        (sum, epsilon, Mode::Added)
    } else {
        let (sum, epsilon) = at_least(matcher, squares, inner)?;
        (sum, epsilon, Mode::MinSquares)
    };
    Some(Parts { x, axis: sum_of_squares(matcher, sum, x, inner)?, epsilon, mode })
}

/// Reads `x / max(norm, epsilon)`.
fn over_norm(matcher: &Matcher, node: &Node, inner: &mut BTreeSet<ValueId>) -> Option<Parts> {
    let quotient = quotients(matcher, node).next()?;
    inner.extend(quotient.inverse);
    let (x, mut divisor) = (quotient.dividend, quotient.divisor);
    if let Some(expand) = matcher.made_by(divisor, "Expand") {
        inner.insert(divisor);
        divisor = expand.input(0)?;
    }
    let (norm, epsilon) = at_least(matcher, divisor, inner)?;
    inner.insert(norm);
    let axis = match matcher.made_by(norm, "Sqrt") {
        Some(root) => sum_of_squares(matcher, root.input(0)?, x, inner)?,
        None => reduced_axis(matcher, norm, "ReduceL2").filter(|(of, _)| *of == x)?.1,
    };
    Some(Parts { x, axis, epsilon, mode: Mode::MinNorm })
}

/// `a` and `epsilon`, if a value is `max(a, epsilon)`.
fn at_least(matcher: &Matcher, value: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<(ValueId, f64)> {
    let Bounded { value, low, high, inner: bounds } = bounded(matcher, value)?;
    inner.extend(bounds);
    (high == f64::INFINITY).then_some((value, low))
}

/// The axis along which a value is `sum(x ^ 2)`.
fn sum_of_squares(
    matcher: &Matcher,
    sum: ValueId,
    x: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<usize> {
    inner.insert(sum);
    let (of, axis) = match reduced_axis(matcher, sum, "ReduceSumSquare") {
        Some(found) => found,
        None => {
            let (square, axis) = reduced_axis(matcher, sum, "ReduceSum")?;
            inner.insert(square);
            (squared(matcher, square)?, axis)
        }
    };
    (of == x).then_some(axis)
}
