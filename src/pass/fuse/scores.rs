//! Attentions: `softmax(scale * q * transpose(k) + masks) * v`, spelled out or as PlainAttention, and the
//! keys that their masks hide.

use std::collections::{BTreeMap, BTreeSet};

use super::layout::reshaped;
use super::matcher::{Matcher, two};
use super::terms::WITHOUT_NAN;
use super::view::scaling;
use crate::graph::{Node, ValueId};
use crate::op::{NCNN_DOMAIN, range};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axis, float, is_set};
use crate::tensor::{DType, Dim};

/// Added to the scores of masked keys instead of minus infinity, which ncnn does not handle.
pub(super) const HIDDEN: f32 = -1e30;
/// A score below all others: a key with it is masked if another key is not.
pub(super) const FAR: f64 = -1e9;

/// The most nodes between a product and its Softmax.
const MAX_CHAIN: usize = 16;

/// Why a node is not an attention, or not that of a layer.
pub(super) type Reason = &'static str;

const BOUNDED: Reason = "its scores are bounded before the Softmax, which SDPA does not compute";
pub(super) const SCORES: Reason =
    "its weights are not the Softmax of products of queries with cached keys, plus a mask";
pub(super) const SHAPES: Reason = "its heads are not in the order that SDPA has";

/// An attention.
pub(super) struct Attention {
    pub scores: Scores,
    pub v: ValueId,
    /// The axes before the last two in the products with keys and with values.
    pub outer: [Vec<Dim>; 2],
    /// Whether the last axis of the keys is that of their positions.
    pub transposed: bool,
    /// Whether NaN after the Softmax is replaced by 0.
    pub zeroes_nan: bool,
    /// The intermediate values.
    pub inner: BTreeSet<ValueId>,
}

/// The scores before the Softmax.
pub(super) struct Scores {
    pub q: ValueId,
    pub k: ValueId,
    /// The masks, with the shape of the scores to which they are added.
    pub masks: Vec<(Mask, Vec<Dim>)>,
    pub scale: f64,
}

/// A term that hides keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Mask {
    /// Added to the scores.
    Added(ValueId),
    /// A condition that hides a key if it is equal to the boolean, and whether it is hidden by minus
    /// infinity.
    Hidden(ValueId, bool, bool),
}

/// Reads a node as an attention.
pub(super) fn attention(matcher: &Matcher, node: &Node) -> Result<Attention, Reason> {
    if is_plain(node) {
        return plain(matcher, node).ok_or(SHAPES);
    }
    let (weights, v) = node.input(0).zip(values_of(node)).ok_or(SCORES)?;
    let mut inner = BTreeSet::new();
    let softmax = skip_reshapes(matcher, weights, &mut inner).ok_or(SCORES)?;
    inner.insert(softmax);
    let (softmax, zeroes_nan) = softmax_of(matcher, softmax, &mut inner).ok_or(SCORES)?;
    let scores = scores(matcher, softmax.input(0).ok_or(SCORES)?, &mut inner, 0)?;
    let outer = [outer(matcher, scores.q).ok_or(SHAPES)?, outer(matcher, weights).ok_or(SHAPES)?];
    Ok(Attention { scores, v, outer, transposed: true, zeroes_nan, inner })
}

fn is_plain(node: &Node) -> bool {
    node.domain == NCNN_DOMAIN && node.op_type == "PlainAttention"
}

/// The values of a node that may be an attention.
pub(super) fn values_of(node: &Node) -> Option<ValueId> {
    if is_plain(node) { node.input(2) } else { Some(two(node).filter(|_| node.is("MatMul"))?[1]) }
}

/// Reads PlainAttention, in which adjacent heads of queries share those of keys.
fn plain(matcher: &Matcher, node: &Node) -> Option<Attention> {
    let [Some(q), Some(k), Some(v), ref mask @ ..] = *node.inputs.as_slice() else { return None };
    let ([batch, heads, queries, _], [.., keys, _]) = (matcher.shape(q)?, matcher.shape(k)?) else {
        return None;
    };
    let masked = [batch, heads, queries, keys].map(Dim::clone).to_vec();
    let masks = mask.first().copied().flatten().map(|mask| (Mask::Added(mask), masked));
    Some(Attention {
        scores: Scores { q, k, masks: masks.into_iter().collect(), scale: f64::from(float(node, "scale")?) },
        v,
        outer: [outer(matcher, k)?, outer(matcher, v)?],
        transposed: false,
        zeroes_nan: is_set(node, "zeroes_nan"),
        inner: BTreeSet::new(),
    })
}

/// The axes of a value before the last two.
pub(super) fn outer(matcher: &Matcher, value: ValueId) -> Option<Vec<Dim>> {
    let [outer @ .., _, _] = matcher.shape(value)? else { return None };
    Some(outer.to_vec())
}

/// The value of which another is a Reshape, with the same last axis.
fn skip_reshapes(matcher: &Matcher, value: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<ValueId> {
    let mut source = value;
    for _ in 0..MAX_CHAIN {
        let view = matcher.producer(source).and_then(|node| reshaped(matcher, node));
        let Some(x) = view else { break };
        if matcher.shape(x)?.last() != matcher.shape(source)?.last() {
            break;
        }
        inner.insert(source);
        source = x;
    }
    Some(source)
}

/// The Softmax along the last axis that computes a value, and whether NaN is replaced by 0 after it.
fn softmax_of<'a>(
    matcher: &Matcher<'a>,
    value: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<(&'a Node, bool)> {
    let of_rows = |softmax: &&Node| {
        // Before version 13, Softmax runs over all axes from `axis` on.
        let default = if softmax.version < 13 { 1 } else { -1 };
        let rank = softmax.input(0).and_then(|x| matcher.rank(x));
        rank.is_some_and(|rank| axis(softmax, default, rank).is_some_and(|axis| axis + 1 == rank))
    };
    if let Some(softmax) = matcher.made_by(value, "Softmax") {
        return Some((softmax, false)).filter(|(softmax, _)| of_rows(softmax));
    }
    let found = WITHOUT_NAN.matches(matcher, value).pop()?;
    let softmax = found.value("kept")?;
    inner.extend(found.inner.into_iter().chain([softmax]));
    Some((matcher.made_by(softmax, "Softmax").filter(of_rows)?, true))
}

/// Reads a value as products of queries and keys, with masks.
fn scores(
    matcher: &Matcher,
    value: ValueId,
    inner: &mut BTreeSet<ValueId>,
    depth: usize,
) -> Result<Scores, Reason> {
    let value = skip_reshapes(matcher, value, inner).ok_or(SCORES)?;
    let node = matcher.producer(value).filter(|_| depth < MAX_CHAIN).ok_or(SCORES)?;
    inner.insert(value);
    if let Some([q, k]) = two(node).filter(|_| node.is("MatMul")) {
        return Ok(Scores { q, k, masks: Vec::new(), scale: 1.0 });
    }
    if let Some((x, factor)) = scaling(matcher, node) {
        let mut found = scores(matcher, x, inner, depth + 1)?;
        if !found.masks.is_empty() {
            return Err(SCORES);
        }
        found.scale *= factor;
        return Ok(found);
    }
    let choices: Vec<(ValueId, Mask)> = match *node.inputs.as_slice() {
        _ if node.is("Tanh") => return Err(BOUNDED),
        [Some(a), Some(b)] if node.is("Add") => vec![(a, Mask::Added(b)), (b, Mask::Added(a))],
        _ if node.is("Where") => hidden(matcher, node).collect(),
        _ => return Err(SCORES),
    };
    let mut reason = SCORES;
    // A mask does not broadcast the scores.
    for (x, mask) in choices.into_iter().filter(|(x, _)| matcher.alike(*x, value)) {
        let mut tried = inner.clone();
        match scores(matcher, x, &mut tried, depth + 1) {
            Ok(mut found) => {
                *inner = tried;
                found.masks.push((mask, matcher.shape(value).ok_or(SHAPES)?.to_vec()));
                return Ok(found);
            }
            Err(BOUNDED) => reason = BOUNDED,
            Err(_) => {}
        }
    }
    Err(reason)
}

/// Reads a Where as values of which a condition hides some, in both ways: the others, and the mask.
pub(super) fn hidden(matcher: &Matcher, node: &Node) -> impl Iterator<Item = (ValueId, Mask)> + use<> {
    let mut found = [None, None];
    if let [Some(condition), Some(yes), Some(no)] = *node.inputs.as_slice() {
        found = [(yes, no, true), (no, yes, false)].map(|(hidden, others, hides)| {
            let low = matcher.scalar(hidden).filter(|low| *low <= FAR)?;
            Some((others, Mask::Hidden(condition, hides, low == f64::NEG_INFINITY)))
        });
    }
    found.into_iter().flatten()
}

impl Mask {
    /// The mask that is added, or the condition.
    pub fn value(self) -> ValueId {
        let (Mask::Added(value) | Mask::Hidden(value, ..)) = self;
        value
    }

    /// Whether the mask has an element for each query and each key of scores of a shape, and at most an axis
    /// for the heads before.
    pub fn fits(self, matcher: &Matcher, masked: &[Dim], heads: i64, queries: &Dim) -> bool {
        let Some(shape) = matcher.shape(self.value()) else { return false };
        let ([outer @ .., rows, keys], [.., masked_rows, masked_keys]) = (shape, masked) else {
            return false;
        };
        let of_heads = match outer.split_last() {
            None => true,
            Some((last, rest)) => {
                let by_heads = last.is(heads) && masked.iter().rev().nth(2) == Some(last);
                (last.is(1) || by_heads) && rest.iter().all(|size| size.is(1))
            }
        };
        of_heads && rows == queries && masked_rows == queries && keys == masked_keys
    }

    /// Whether the mask is a constant that leaves each query a key, with a score above `least`.
    pub fn shows_each(self, matcher: &Matcher, least: f64) -> bool {
        let shows = |x: f32| match self {
            Mask::Added(_) => f64::from(x) > least,
            Mask::Hidden(_, hides, _) => (x != 0.0) != hides,
        };
        let row_length =
            matcher.shape(self.value()).and_then(|shape| usize::try_from(shape.last()?.known()?).ok());
        let Some((mask, keys)) = floats(matcher, self.value()).zip(row_length.filter(|keys| *keys > 0))
        else {
            return false;
        };
        mask.chunks(keys).all(|row| row.iter().copied().any(shows))
    }

    /// The term that the mask adds to scores, at least `lowest`.
    pub fn term<'b>(self, made: &'b Builder<'b>, lowest: f32, like: Expr<'b>) -> Expr<'b> {
        let value = made.value(self.value());
        match self {
            Mask::Added(of) if range::range(made.graph, of).least < f64::from(lowest) => {
                value.maximum(lowest)
            }
            Mask::Added(_) => value,
            Mask::Hidden(_, hides, _) => {
                let (hidden, seen) = (like.filled(lowest, &[0_i64; 0]), like.filled(0.0, &[0_i64; 0]));
                let (yes, no) = if hides { (hidden, seen) } else { (seen, hidden) };
                value.select(yes, no)
            }
        }
    }

    /// [`Mask::term`], which layers with the same mask share.
    pub fn shared_term<'b>(
        self,
        made: &'b Builder<'b>,
        lowest: f32,
        like: Expr<'b>,
        known: &mut BTreeMap<Mask, ValueId>,
    ) -> Expr<'b> {
        let term = known.get(&self).map_or_else(|| self.term(made, lowest, like), |term| made.value(*term));
        known.insert(self, term.id);
        term
    }
}

/// The elements of a constant.
fn floats(matcher: &Matcher, value: ValueId) -> Option<Vec<f32>> {
    matcher.constant(value)?.load_listed().ok()?.cast(DType::F32).ok()?.float_list().ok()
}
