//! `y = x * cos + concat(-x2, x1) * sin` with `x = concat(x1, x2)`, `cos = f(concat(a, a))`, `sin =
//! g(concat(a, a))`
//!
//! and
//!
//! `y = concat(x1 * cos - x2 * sin, x1 * sin + x2 * cos)` with adjacent slices `x1`, `x2` of `x`, also with
//! further parts
//!
//! become `RotaryEmbed(x, cos, sin)` of this program's domain, with an angle for each pair of elements.
//! `f` and `g` are functions of one element, such as the cosine times a constant.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::layout::reshaped;
use super::matcher::{Found, Matcher, fuse, two};
use super::text::Pattern;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op;
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::axis;
use crate::tensor::{Dim, Span};

static HALVES: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::of("Add(Mul(x, cos), Mul(turned = Concat(Neg(x2), x1), sin))"));
static REAL: LazyLock<Pattern> = LazyLock::new(|| Pattern::of("Sub(Mul(x1, cos), Mul(x2, sin))"));
static IMAGINARY: LazyLock<Pattern> = LazyLock::new(|| Pattern::of("Add(Mul(x1, sin), Mul(x2, cos))"));

/// The most functions of one element between angles and their use.
const MAX_CHAIN: usize = 8;

/// Angles of pairs, or their cosines or sines.
#[derive(Clone)]
enum Angles {
    /// With an element for each pair.
    Of(ValueId),
    /// Functions of one element, the last one first, each with the index of its operand, and the value with
    /// an element for each pair of which they are.
    By(Vec<(Node, usize)>, ValueId),
}

struct Parts {
    x: ValueId,
    /// The first element of the first pair, and the number of pairs.
    start: i64,
    pairs: i64,
    /// The parts of the result before and after the pairs.
    others: [Vec<ValueId>; 2],
    /// Cosines and sines, with the values that the pattern reads.
    cos: (ValueId, Angles),
    sin: (ValueId, Angles),
}

pub(crate) fn fuse_rotary_embed(graph: &mut Graph) -> Result<bool> {
    // Layers share cosines and sines.
    let mut made_angles = BTreeMap::new();
    fuse(graph, find, |made, parts| build(made, parts, &mut made_angles))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    if node.is("Add") { halves_turned(matcher, node) } else { parts_turned(matcher, node) }
}

/// The first form.
fn halves_turned(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let y = node.output(0)?;
    HALVES.matches(matcher, y).into_iter().find_map(|found| {
        let [x, cos, sin, turned, x1, x2] = found.values(["x", "cos", "sin", "turned", "x1", "x2"])?;
        let rank = matcher.rank(turned)?;
        (axis(matcher.producer(turned)?, 0, rank)? + 1 == rank).then_some(())?;
        let (of, 0, pairs) = part(matcher, x1)? else { return None };
        (of == x && part(matcher, x2)? == (x, pairs, pairs)).then_some(())?;
        let all = matcher.shape(x)?.last()?.is(pairs.checked_mul(2)?);
        let halved = |value| Some((value, halved(matcher, value, x, pairs)?));
        let others = [Vec::new(), Vec::new()];
        let parts = Parts { x, start: 0, pairs, others, cos: halved(cos)?, sin: halved(sin)? };
        let mut inner = found.inner;
        inner.extend([x1, x2]);
        (all && matcher.alike(x, y)).then_some(Found { inner, parts })
    })
}

/// The second form.
fn parts_turned(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let rank = matcher.rank(node.output(0)?)?;
    (node.is("Concat") && axis(node, 0, rank)? + 1 == rank).then_some(())?;
    let parts: Vec<ValueId> = node.inputs.iter().copied().collect::<Option<_>>()?;
    parts.windows(2).enumerate().find_map(|(index, pair)| {
        let [real, imaginary] = *pair else { return None };
        let mut found = pair_turned(matcher, real, imaginary)?;
        let (before, after) = (parts.get(..index)?, parts.get(index + 2..)?);
        found.parts.others = [before.to_vec(), after.to_vec()];
        Some(found)
    })
}

fn pair_turned(matcher: &Matcher, real: ValueId, imaginary: ValueId) -> Option<Found<Parts>> {
    let found = REAL.matches(matcher, real).into_iter();
    let mut found = found.flat_map(|found| IMAGINARY.continued(matcher, imaginary, &found));
    found.find_map(|found| {
        let [x1, x2, cos, sin] = found.values(["x1", "x2", "cos", "sin"])?;
        let (x, start, pairs) = part(matcher, x1)?;
        (part(matcher, x2)? == (x, start.saturating_add(pairs), pairs)).then_some(())?;
        let whole = |value: ValueId| {
            fits(matcher.shape(value)?, matcher.shape(x)?, pairs).then_some((value, Angles::Of(value)))
        };
        let others = [Vec::new(), Vec::new()];
        let parts = Parts { x, start, pairs, others, cos: whole(cos)?, sin: whole(sin)? };
        // Slices may be shared with other readers.
        let mut inner = found.inner;
        inner.insert(real);
        matcher.is_float(x).then_some(Found { inner, parts })
    })
}

/// A value as elements of the last axis of another: that value, the first element, and their number.
fn part(matcher: &Matcher, value: ValueId) -> Option<(ValueId, i64, i64)> {
    let (x, spans) = op::taken(matcher.graph, value)?;
    let [(axis, Span { start, step: 1, count })] = spans.as_slice() else { return None };
    (axis + 1 == matcher.rank(x)?).then_some((x, start.known()?, count.known()?))
}

/// Whether a value has an element for each pair at each position of `x`, the last axis but one.
fn fits(shape: &[Dim], x: &[Dim], pairs: i64) -> bool {
    let ([outer @ .., rows, columns], [.., positions, _]) = (shape, x) else { return false };
    rows == positions && columns.is(pairs) && outer.iter().all(|size| size.is(1))
}

/// Reads a value whose last axis has every element twice as functions of its half.
fn halved(matcher: &Matcher, value: ValueId, x: ValueId, pairs: i64) -> Option<Angles> {
    let whole = matcher.shape(value)?;
    if !fits(whole, matcher.shape(x)?, pairs.checked_mul(2)?) {
        return None;
    }
    let (mut functions, mut source) = (Vec::new(), value);
    for _ in 0..MAX_CHAIN {
        let node = matcher.producer(source)?;
        let is_function = node.is_one_of(&["Cos", "Sin", "Cast"]);
        if let Some([half, other]) = two(node).filter(|_| node.is("Concat")) {
            let rank = matcher.rank(source)?;
            let last = axis(node, 0, rank)? + 1 == rank;
            let shape = matcher.shape(half)?;
            let rows = whole.iter().rev().nth(1)?;
            let fits = matches!(shape, [outer @ .., of, columns]
                if of == rows && columns.is(pairs) && outer.iter().all(|size| size.is(1)));
            return (last && half == other && fits).then_some(Angles::By(functions, half));
        }
        if let Some(x) = reshaped(matcher, node) {
            source = x;
        } else if is_function {
            functions.push((node.clone(), 0));
            source = node.input(0)?;
        } else if node.is("Mul") {
            let operand = matcher.with_scalar(node)?.0;
            functions.push((node.clone(), node.inputs.iter().position(|input| *input == Some(operand))?));
            source = operand;
        } else {
            return None;
        }
    }
    None
}

fn build<'b>(
    made: &'b Builder<'b>,
    parts: Parts,
    made_angles: &mut BTreeMap<ValueId, ValueId>,
) -> Result<Expr<'b>> {
    let Parts { x, start, pairs, others: [before, after], cos, sin } = parts;
    let count = pairs.saturating_mul(2);
    let mut x = made.value(x);
    if x.sizes().last() != Some(&Some(count)) {
        x = x.slice(-1, start, start.saturating_add(count));
    }
    let mut inputs = vec![x];
    for (value, angles) in [cos, sin] {
        let known = made_angles.get(&value).copied();
        let angles = match (known, angles) {
            (Some(known), _) => made.value(known),
            (None, Angles::Of(value)) => made.value(value),
            (None, Angles::By(functions, half)) => computed(made, functions, made.value(half))?,
        };
        made_angles.insert(value, angles.id);
        inputs.push(angles);
    }
    let turned = made.op("ncnn.RotaryEmbed", inputs, []);
    if before.is_empty() && after.is_empty() {
        return Ok(turned);
    }
    let [before, after] = [before, after].map(|parts| parts.into_iter().map(|id| made.value(id)));
    let parts: Vec<Expr> = before.chain([turned]).chain(after).collect();
    Ok(made.concat(&parts, -1))
}

/// Computes functions of another value, the last one first.
fn computed<'b>(
    made: &'b Builder<'b>,
    functions: Vec<(Node, usize)>,
    mut value: Expr<'b>,
) -> Result<Expr<'b>> {
    for (node, index) in functions.into_iter().rev() {
        let dtype = node.output(0).and_then(|result| made.graph.value(result).dtype);
        value = made.copy_with(&node, index, value)?;
        value = dtype.map_or(value, |dtype| value.typed(dtype));
    }
    Ok(value)
}
