//! The search for attentions over a cache.

use std::collections::BTreeSet;

use super::super::layout::{Factor, LaidOut, is_reshape, trace_layout};
use super::super::matcher::{Matcher, first, output, two};
use super::super::scores::{Hidden, hidden, plain, softmax_of};
use super::super::view::scaling;
use super::{Appended, Cache, Mask, Parts};
use crate::graph::{Node, ValueId};
use crate::pass::pattern::{axis, float, input};
use crate::tensor::Dim;

/// The most nodes between a product and its Softmax.
const MAX_CHAIN: usize = 16;

/// Why an attention over a cache is not that of the layer.
pub(super) type Reason = &'static str;

const BOUNDED: Reason = "its scores are bounded before the Softmax, which SDPA does not compute";
const SCORES: Reason = "its weights are not the Softmax of products of queries with cached keys, plus a mask";
const CHANGED: Reason = "its cached keys or values are changed before they are used";
const SHAPES: Reason = "its heads are not in the order that SDPA has";
const SHARED: Reason = "other nodes read its cache, or its intermediate values";
const MASK: Reason = "its mask has not an element for each new position and each key";
const LENGTH: Reason = "the length of its cache is fixed, or the new keys or values are an input";

/// The scores before the Softmax.
struct Scores {
    q: ValueId,
    k: ValueId,
    /// The axes before the last two in the products with keys and with values.
    outer: [Vec<Dim>; 2],
    /// Whether the last axis of the keys is that of their positions.
    transposed: bool,
    /// The masks, with the shape of the scores to which they are added.
    masks: Vec<(Mask, Vec<Dim>)>,
    scale: f64,
}

/// Reads a node as the last product of an attention over a cache; `None` if it is none.
pub(super) fn find(matcher: &Matcher, node: &Node) -> Option<std::result::Result<Parts, Reason>> {
    let plain = output(node).and_then(|y| plain(matcher, y));
    let (weights, values) = match plain {
        Some(plain) => (None, input(plain, 2)?),
        None => {
            let [weights, values] = two(node).filter(|_| node.is("MatMul"))?;
            (Some(weights), values)
        }
    };
    let values = trace_layout(matcher, values, |value| appended(matcher, value).is_some())?;
    // The product with the keys sums over their elements, not over their positions.
    let positions = appended(matcher, values.source)?.axis;
    let of_keys = |factors: &Vec<Factor>| factors.iter().any(|factor| factor.axis == Some(positions));
    if values.layout.axes.last().is_none_or(of_keys) {
        return None;
    }
    Some(read(matcher, node, weights, &values))
}

/// Reads a value as the concatenation of an input with others, if it is an output.
fn appended(matcher: &Matcher, whole: ValueId) -> Option<Appended> {
    let concat = matcher.made_by(whole, "Concat")?;
    let [past, new] = two(concat).filter(|[past, _]| matcher.is_input(*past))?;
    let axis = axis(concat, 0, matcher.rank(whole)?)?;
    let readers = matcher.readers.all(whole).iter().filter_map(|id| matcher.graph.node(*id));
    let mut copies = readers.filter(|reader| reader.is("Identity")).filter_map(output);
    let is_output = |value: &ValueId| matcher.readers.is_output(*value);
    let present = Some(whole).filter(is_output).or_else(|| copies.find(is_output))?;
    Some(Appended { past, new, whole, present, axis })
}

fn read(
    matcher: &Matcher,
    node: &Node,
    weights: Option<ValueId>,
    values: &LaidOut,
) -> std::result::Result<Parts, Reason> {
    let mut inner = BTreeSet::new();
    let result = output(node).ok_or(SCORES)?;
    let scores = match weights {
        None => plain_scores(matcher, node).ok_or(SHAPES)?,
        Some(weights) => {
            let softmax = skip_reshapes(matcher, weights, &mut inner).ok_or(SCORES)?;
            inner.insert(softmax);
            let (softmax, _) = softmax_of(matcher, softmax, &mut inner).ok_or(SCORES)?;
            let mut found = scores(matcher, first(softmax).ok_or(SCORES)?, &mut inner, 0)?;
            found.outer[1] = outer(matcher, weights).ok_or(SHAPES)?;
            found
        }
    };
    let keys = trace_layout(matcher, scores.k, |value| appended(matcher, value).is_some()).ok_or(CHANGED)?;
    if values.scale != 1.0 {
        return Err(CHANGED);
    }
    inner.extend(keys.inner.iter().chain(&values.inner));
    let (key_cache, value_cache) =
        (cache(matcher, &keys, scores.transposed)?, cache(matcher, values, false)?);
    let [groups, new, width] = &key_cache.sizes;
    let [value_groups, value_new, value_width] = &value_cache.sizes;
    let q_shape = matcher.shape(scores.q).ok_or(SHAPES)?;
    let alike = groups == value_groups && new == value_new && q_shape.last() == Some(width);
    let paired = |laid_out: &LaidOut, cache: &Cache, rows: &[Dim]| {
        pairs_heads(&laid_out.layout.axes, rows, groups, cache.axes[0])
    };
    let [of_keys, of_values] = &scores.outer;
    if !alike || !paired(&keys, &key_cache, of_keys) || !paired(values, &value_cache, of_values) {
        return Err(SHAPES);
    }
    if [groups, width, value_width].iter().any(|size| size.known().is_none()) {
        return Err(SHAPES);
    }
    let rows = Dim::product(q_shape.iter().rev().skip(1)).map_err(|_| SHAPES)?;
    let heads = rows.exact_div(new).and_then(|heads| heads.known()).ok_or(SHAPES)?;
    let masks: Option<Vec<Mask>> = scores
        .masks
        .iter()
        .map(|(mask, masked)| fits(matcher, *mask, masked, heads, new).then_some(*mask))
        .collect();
    let masks = masks.ok_or(MASK)?;
    // The cache has no other readers, but for its sizes.
    let closed = matcher.is_closed(&inner, node);
    let in_pattern = |reader: &Node| {
        reader.is("Shape") || output(reader).is_some_and(|of| inner.contains(&of) || of == result)
    };
    let read_so = |value: ValueId, holds: &dyn Fn(&Node) -> bool| {
        matcher.readers.all(value).iter().filter_map(|id| matcher.graph.node(*id)).all(holds)
    };
    let is_free = |Cache { appended, .. }: &Cache| {
        let Appended { past, whole, present, .. } = *appended;
        let gives = |reader: &Node, value: ValueId| output(reader) == Some(value);
        (present == whole || matcher.readers.all(present).is_empty())
            && read_so(whole, &|reader| in_pattern(reader) || gives(reader, present))
            && read_so(past, &|reader| reader.is("Shape") || gives(reader, whole))
    };
    if !closed || !is_free(&key_cache) || !is_free(&value_cache) {
        return Err(SHARED);
    }
    let (mut q, mut scale) = (scores.q, scores.scale * keys.scale);
    for _ in 0..MAX_CHAIN {
        let Some(node) = matcher.producer(q) else { break };
        if let Some((x, factor)) = scaling(matcher, node) {
            (q, scale) = (x, scale * factor);
        } else if let Some(x) = first(node).filter(|_| is_reshape(matcher, node)) {
            q = x;
        } else {
            break;
        }
    }
    // A scale of 0 stands for the layer's default. The runtime divides masks by the scale.
    if !(1e-6..1e6).contains(&scale.abs()) {
        return Err(SCORES);
    }
    Ok(Parts { q, heads, keys: key_cache, values: value_cache, masks, scale })
}

/// The axes of a value before the last two.
fn outer(matcher: &Matcher, value: ValueId) -> Option<Vec<Dim>> {
    let [outer @ .., _, _] = matcher.shape(value)? else { return None };
    Some(outer.to_vec())
}

/// Reads the scores of PlainAttention, in which adjacent heads of queries share those of keys.
fn plain_scores(matcher: &Matcher, node: &Node) -> Option<Scores> {
    let [Some(q), Some(k), Some(v), ref mask @ ..] = *node.inputs.as_slice() else { return None };
    let ([batch, heads, queries, _], [.., keys, _]) = (matcher.shape(q)?, matcher.shape(k)?) else {
        return None;
    };
    let scores = vec![batch.clone(), heads.clone(), queries.clone(), keys.clone()];
    let terms = mask.first().copied().flatten().map(|mask| terms(matcher, mask, queries, keys));
    Some(Scores {
        q,
        k,
        outer: [outer(matcher, k)?, outer(matcher, v)?],
        transposed: false,
        masks: terms.into_iter().flatten().map(|term| (added(matcher, term), scores.clone())).collect(),
        scale: f64::from(float(node, "scale")?),
    })
}

/// The terms of a sum of masks, each with an element for each query and key.
fn terms(matcher: &Matcher, mask: ValueId, queries: &Dim, keys: &Dim) -> Vec<ValueId> {
    let is_whole = |term: ValueId| matches!(matcher.shape(term), Some([.., rows, columns]) if rows == queries && columns == keys);
    match matcher.made_by(mask, "Add").and_then(two) {
        Some([a, b]) if is_whole(a) && is_whole(b) => {
            [a, b].into_iter().flat_map(|term| terms(matcher, term, queries, keys)).collect()
        }
        _ => vec![mask],
    }
}

/// The value of which another is a Reshape, with the same last axis.
fn skip_reshapes(matcher: &Matcher, value: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<ValueId> {
    let mut source = value;
    for _ in 0..MAX_CHAIN {
        let Some(node) = matcher.producer(source).filter(|node| is_reshape(matcher, node)) else { break };
        let x = first(node)?;
        if matcher.shape(x)?.last() != matcher.shape(source)?.last() {
            break;
        }
        inner.insert(source);
        source = x;
    }
    Some(source)
}

/// Reads a value as products of queries and keys, with masks.
fn scores(
    matcher: &Matcher,
    value: ValueId,
    inner: &mut BTreeSet<ValueId>,
    depth: usize,
) -> std::result::Result<Scores, Reason> {
    let value = skip_reshapes(matcher, value, inner).ok_or(SCORES)?;
    let node = matcher.producer(value).filter(|_| depth < MAX_CHAIN).ok_or(SCORES)?;
    inner.insert(value);
    if let Some([q, k]) = two(node).filter(|_| node.is("MatMul")) {
        let outer = [outer(matcher, q).ok_or(SHAPES)?, Vec::new()];
        return Ok(Scores { q, k, outer, transposed: true, masks: Vec::new(), scale: 1.0 });
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
        [Some(a), Some(b)] if node.is("Add") => vec![(a, added(matcher, b)), (b, added(matcher, a))],
        _ if node.is("Where") => {
            hidden(matcher, node).map(|found| (found.others, masked_by(&found))).collect()
        }
        _ => return Err(SCORES),
    };
    let mut reason = SCORES;
    // A mask does not broadcast the scores.
    for (x, mask) in choices.into_iter().filter(|(x, _)| matcher.alike(*x, value)) {
        let mut own = inner.clone();
        match scores(matcher, x, &mut own, depth + 1) {
            Ok(mut found) => {
                *inner = own;
                found.masks.push((mask, matcher.shape(value).ok_or(SHAPES)?.to_vec()));
                return Ok(found);
            }
            Err(BOUNDED) => reason = BOUNDED,
            Err(_) => {}
        }
    }
    Err(reason)
}

fn masked_by(found: &Hidden) -> Mask {
    Mask::Hidden(found.condition, found.hides, found.low == f64::NEG_INFINITY)
}

/// Reads a value that is added to scores: as a condition if that chooses between 0 and a large negative number.
fn added(matcher: &Matcher, value: ValueId) -> Mask {
    let choice = matcher.made_by(value, "Where").and_then(|node| hidden(matcher, node).next());
    let choice = choice.filter(|found| matcher.scalar(found.others) == Some(0.0));
    choice.map_or(Mask::Added(value), |found| masked_by(&found))
}

/// Reads the cache of an operand of a product: `[heads, elements, positions]` for keys, which are transposed, and
/// `[heads, positions, elements]` for values.
fn cache(matcher: &Matcher, laid_out: &LaidOut, transposed: bool) -> std::result::Result<Cache, Reason> {
    let appended = appended(matcher, laid_out.source).ok_or(CHANGED)?;
    let Appended { past, new, axis: positions, .. } = appended;
    let [.., outer, inner] = laid_out.layout.axes.as_slice() else { return Err(SHAPES) };
    let (at, elements) = if transposed { (inner, outer) } else { (outer, inner) };
    let ([Factor { axis: Some(at), .. }], [Factor { axis: Some(elements), .. }]) = (&**at, &**elements)
    else {
        return Err(SHAPES);
    };
    let past_shape = matcher.shape(past).ok_or(SHAPES)?;
    let shape = matcher.shape(new).ok_or(SHAPES)?;
    let others = (0..shape.len()).filter(|axis| axis != at && axis != elements);
    let (ones, wide): (Vec<usize>, Vec<usize>) =
        others.partition(|axis| shape.get(*axis).is_some_and(|size| size.is(1)));
    let heads = match (wide.as_slice(), ones.last()) {
        ([heads], _) => *heads,
        ([], Some(heads)) => *heads,
        _ => return Err(SHAPES),
    };
    if *at != positions {
        return Err(SHAPES);
    }
    if past_shape.get(positions).is_none_or(|length| length.symbol_name().is_none() || !length.has_length()) {
        return Err(LENGTH);
    }
    let axes = [heads, positions, *elements];
    let size = |axis: usize| shape.get(axis).cloned().ok_or(SHAPES);
    let sizes = [size(heads)?, size(positions)?, size(*elements)?];
    Ok(Cache { appended, axes, sizes })
}

/// Whether in a product of rows by heads with keys or values, `layout`, each head of these, in order, has an equal
/// number of adjacent rows.
fn pairs_heads(layout: &[Vec<Factor>], rows: &[Dim], groups: &Dim, heads: usize) -> bool {
    let (layout, rows) =
        (layout.iter().rev().skip(2).collect::<Vec<_>>(), rows.iter().rev().collect::<Vec<_>>());
    let one = Dim::Known(1);
    let mut found = groups.is(1);
    // From the outermost axis on.
    for place in (0..layout.len().max(rows.len())).rev() {
        let size = rows.get(place).copied().unwrap_or(&one);
        let factors = layout.get(place).map_or(&[][..], |factors| factors.as_slice());
        if factors.is_empty() {
            if !found && !size.is(1) {
                return false;
            }
            continue;
        }
        if Dim::product(factors.iter().map(|factor| &factor.size)).ok().as_ref() != Some(size) {
            return false;
        }
        for factor in factors {
            match factor.axis {
                Some(axis) if axis == heads && !found => found = true,
                None if found => {}
                _ => return false,
            }
        }
    }
    found
}

/// Whether a mask has an element for each new position and each key, and at most an axis for the heads before.
fn fits(matcher: &Matcher, mask: Mask, whole: &[Dim], heads: i64, new: &Dim) -> bool {
    let (Mask::Added(value) | Mask::Hidden(value, ..)) = mask;
    let Some(shape) = matcher.shape(value) else { return false };
    let ([outer @ .., rows, keys], [.., whole_rows, whole_keys]) = (shape, whole) else { return false };
    let of_heads = match outer.split_last() {
        None => true,
        Some((last, rest)) => {
            let by_heads = last.is(heads) && whole.iter().rev().nth(2) == Some(last);
            (last.is(1) || by_heads) && rest.iter().all(|size| size.is(1))
        }
    };
    of_heads && rows == new && whole_rows == new && keys == whole_keys
}
