//! The search for attentions over a cache.

use super::super::layout::{Factor, Layout, reshaped, trace_layout};
use super::super::matcher::{Matcher, two};
use super::super::scores::{Attention, Mask, Reason, SCORES, SHAPES, attention, hidden, values_of};
use super::super::view::{Traced, scaling};
use super::{Appended, Cache, Parts};
use crate::graph::{Node, ValueId};
use crate::pass::pattern::axis;
use crate::tensor::Dim;

/// The most nodes before the queries that scale or reshape them.
const MAX_CHAIN: usize = 16;

const CHANGED: Reason = "its cached keys or values are changed before they are used";
const SHARED: Reason = "other nodes read its cache, or its intermediate values";
const MASK: Reason = "its mask has not an element for each new position and each key";
const LENGTH: Reason = "the length of its cache is fixed, or the new keys or values are an input";

/// Reads a node as the last product of an attention over a cache; `None` if it is none.
pub(super) fn find(matcher: &Matcher, node: &Node) -> Option<std::result::Result<Parts, Reason>> {
    let values = trace_layout(matcher, values_of(node)?, |value| appended(matcher, value).is_some())?;
    // The product with the keys sums over their elements, not over their positions.
    let positions = appended(matcher, values.source)?.axis;
    let of_keys = |factors: &Vec<Factor>| factors.iter().any(|factor| factor.axis == Some(positions));
    if values.view.axes.last().is_none_or(of_keys) {
        return None;
    }
    Some(read(matcher, node, &values))
}

/// Reads a value as the concatenation of an input with others, if it is an output.
fn appended(matcher: &Matcher, whole: ValueId) -> Option<Appended> {
    let concat = matcher.made_by(whole, "Concat")?;
    let [past, new] = two(concat).filter(|[past, _]| matcher.is_input(*past))?;
    let axis = axis(concat, 0, matcher.rank(whole)?)?;
    let readers = matcher.readers.all(whole).iter().filter_map(|id| matcher.graph.node(*id));
    let mut copies = readers.filter(|reader| reader.is("Identity")).filter_map(|node| node.output(0));
    let is_output = |value: &ValueId| matcher.readers.is_output(*value);
    let present = Some(whole).filter(is_output).or_else(|| copies.find(is_output))?;
    Some(Appended { past, new, whole, present, axis })
}

fn read(matcher: &Matcher, node: &Node, values: &Traced<Layout>) -> std::result::Result<Parts, Reason> {
    let result = node.output(0).ok_or(SCORES)?;
    let Attention { scores, outer: [of_keys, of_values], transposed, mut inner, .. } =
        attention(matcher, node)?;
    let keys = trace_layout(matcher, scores.k, |value| appended(matcher, value).is_some()).ok_or(CHANGED)?;
    if values.scale != 1.0 {
        return Err(CHANGED);
    }
    inner.extend(keys.inner.iter().chain(&values.inner));
    let (key_cache, value_cache) = (cache(matcher, &keys, transposed)?, cache(matcher, values, false)?);
    let [groups, new, width] = &key_cache.sizes;
    let [value_groups, value_new, value_width] = &value_cache.sizes;
    let q_shape = matcher.shape(scores.q).ok_or(SHAPES)?;
    let alike = groups == value_groups && new == value_new && q_shape.last() == Some(width);
    let paired = |laid_out: &Traced<Layout>, cache: &Cache, rows: &[Dim]| {
        pairs_heads(&laid_out.view.axes, rows, groups, cache.axes[0])
    };
    if !alike || !paired(&keys, &key_cache, &of_keys) || !paired(values, &value_cache, &of_values) {
        return Err(SHAPES);
    }
    if [groups, width, value_width].iter().any(|size| size.known().is_none()) {
        return Err(SHAPES);
    }
    let rows = Dim::product(q_shape.iter().rev().skip(1));
    let heads = rows.exact_div(new).and_then(|heads| heads.known()).ok_or(SHAPES)?;
    let mut masks = Vec::new();
    for (mask, masked) in &scores.masks {
        for term in terms(matcher, *mask, masked) {
            if !term.fits(matcher, masked, heads, new) {
                return Err(MASK);
            }
            masks.push(term);
        }
    }
    // The cache has no other readers, but for its sizes.
    let closed = matcher.open_value(&inner, node).is_none();
    let in_pattern = |reader: &Node| {
        reader.is("Shape") || reader.output(0).is_some_and(|of| inner.contains(&of) || of == result)
    };
    let read_so = |value: ValueId, condition: &dyn Fn(&Node) -> bool| {
        matcher.readers.all(value).iter().filter_map(|id| matcher.graph.node(*id)).all(condition)
    };
    let is_free = |Cache { appended, .. }: &Cache| {
        let Appended { past, whole, present, .. } = *appended;
        let gives = |reader: &Node, value: ValueId| reader.output(0) == Some(value);
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
        } else if let Some(x) = reshaped(matcher, node) {
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

/// The terms of a mask of scores of a shape: the parts of a sum, each with an element for each query and key,
/// and conditions that choose between 0 and a large negative number.
fn terms(matcher: &Matcher, mask: Mask, masked: &[Dim]) -> Vec<Mask> {
    let Mask::Added(value) = mask else { return vec![mask] };
    let is_whole =
        |term: &ValueId| matcher.shape(*term).is_some_and(|shape| shape.ends_with(rows_of(masked)));
    if let Some(parts) =
        matcher.made_by(value, "Add").and_then(two).filter(|parts| parts.iter().all(is_whole))
    {
        return parts.into_iter().flat_map(|part| terms(matcher, Mask::Added(part), masked)).collect();
    }
    let mut choices = matcher.made_by(value, "Where").into_iter().flat_map(|node| hidden(matcher, node));
    let of_zero = choices.next().filter(|(others, _)| matcher.scalar(*others) == Some(0.0));
    vec![of_zero.map_or(mask, |(_, condition)| condition)]
}

/// The last two axes of a shape.
fn rows_of(shape: &[Dim]) -> &[Dim] {
    shape.split_at(shape.len().saturating_sub(2)).1
}

/// Reads the cache of an operand of a product: `[heads, elements, positions]` for keys, which are transposed,
/// and `[heads, positions, elements]` for values.
fn cache(
    matcher: &Matcher,
    laid_out: &Traced<Layout>,
    transposed: bool,
) -> std::result::Result<Cache, Reason> {
    let appended = appended(matcher, laid_out.source).ok_or(CHANGED)?;
    let Appended { past, new, axis: positions, .. } = appended;
    let [.., outer, inner] = laid_out.view.axes.as_slice() else { return Err(SHAPES) };
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

/// Whether in a product of rows by heads with keys or values, `layout`, each head of these, in order, has an
/// equal number of adjacent rows.
fn pairs_heads(layout: &[Vec<Factor>], rows: &[Dim], groups: &Dim, heads: usize) -> bool {
    let (layout, rows) =
        (layout.iter().rev().skip(2).collect::<Vec<_>>(), rows.iter().rev().collect::<Vec<_>>());
    let one = Dim::ONE;
    let mut found = groups.is(1);
    // From the outermost axis on.
    for from_end in (0..layout.len().max(rows.len())).rev() {
        let size = rows.get(from_end).copied().unwrap_or(&one);
        let factors = layout.get(from_end).map_or(&[][..], |factors| factors.as_slice());
        if factors.is_empty() {
            if !found && !size.is(1) {
                return false;
            }
            continue;
        }
        if Dim::product(factors.iter().map(|factor| &factor.size)) != *size {
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
