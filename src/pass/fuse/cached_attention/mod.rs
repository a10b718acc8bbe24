//! `y = softmax(scale * q * transpose(heads(keys)) + mask) * heads(values)`
//!
//! with `keys = concat(past_keys, k)` and `values = concat(past_values, v)`, of which the pasts are inputs of
//! the graph and the concatenations outputs, becomes `CachedAttention` of this program's domain, which
//! also computes both concatenations.
//!
//! `heads` repeats keys and values for the heads of queries that share them, in any form: also if these heads
//! are rows of one product. Masks are added, or hide keys by `where`; NaN after the Softmax may be replaced
//! by 0. Masks are made finite: if a query sees no key, the result is the mean of all values.

mod find;

use std::collections::BTreeMap;

use super::matcher::{Matcher, to_f32};
use super::scores::{HIDDEN, Mask, Reason};
use crate::common::index::IndexMap;
use crate::common::int::Int;
use crate::error::{At, Error, Result};
use crate::graph::{Attribute, Graph, Node, NodeId, ValueId};
use crate::op::{NEWEST_OPSET, range};
use crate::pass::builder::{Builder, Expr, replacement_of};
use crate::pass::dead::remove_dead_nodes;
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Dim};
use find::find;

/// [`HIDDEN`] for constants of float16.
const HIDDEN_IN_HALF: f32 = -6e4;

/// A concatenation of an input with computed values that is an output.
#[derive(Clone, Copy)]
struct Appended {
    past: ValueId,
    new: ValueId,
    /// The concatenation, and the output, which may be an Identity of it.
    whole: ValueId,
    present: ValueId,
    axis: usize,
}

/// New keys or values behind those of a cache.
struct Cache {
    appended: Appended,
    /// The axes of the cache: heads, positions, and elements of a head.
    axes: [usize; 3],
    /// The sizes along these axes of the new part.
    sizes: [Dim; 3],
}

struct Parts {
    q: ValueId,
    heads: i64,
    keys: Cache,
    values: Cache,
    masks: Vec<Mask>,
    scale: f64,
}

pub(crate) fn fuse_cached_attention(graph: &mut Graph) -> Result<bool> {
    let readers = Readers::of(graph);
    let matcher = Matcher { graph, readers: &readers };
    let matches = graph.nodes().filter_map(|(id, node)| Some((id, find(&matcher, node)?.ok()?)));
    let mut found: BTreeMap<NodeId, Parts> = matches.collect();
    if found.is_empty() {
        return Ok(false);
    }
    let caches = || found.values().flat_map(|parts| [&parts.keys, &parts.values]);
    let made = caches().flat_map(|cache| [cache.appended.whole, cache.appended.present]);
    let appending = made.filter_map(|value| graph.value(value).producer);
    let appending: IndexMap<NodeId, Vec<Node>> = appending.map(|node| (node, Vec::new())).collect();
    let grown: BTreeMap<ValueId, Appended> =
        caches().map(|cache| (cache.appended.whole, cache.appended)).collect();
    graph.replace_nodes(
        |_, node| grown.get(&node.input(0).filter(|_| node.is("Shape"))?).copied(),
        shape_of_whole,
    )?;
    // Layers with the same masks share a blob.
    let mut masks = BTreeMap::new();
    graph.rewrite_nodes(|graph, id| {
        let (Some(parts), Some(node)) = (found.remove(&id), graph.node(id).cloned()) else { return Ok(None) };
        build(graph, &node, parts, &mut masks)
    })?;
    graph.replace_found(appending)?;
    // The other nodes of the patterns read the concatenations before they are computed now.
    remove_dead_nodes(graph);
    graph.sort_nodes()?;
    Ok(true)
}

/// Returns the attentions over a cache that the layer does not compute, and the caches that they append to,
/// with the reasons.
pub(crate) fn refused_attentions(graph: &Graph) -> Vec<(NodeId, Reason)> {
    let readers = Readers::of(graph);
    let matcher = Matcher { graph, readers: &readers };
    graph.nodes().filter_map(|(id, node)| Some((id, find(&matcher, node)?.err()?))).collect()
}

/// The shape of a concatenation, from those of its parts.
fn shape_of_whole(
    graph: &mut Graph,
    node: &Node,
    Appended { past, new, axis, .. }: Appended,
) -> Result<Option<Vec<Node>>> {
    let rank = graph.value(past).shape.as_deref().map_or(0, <[Dim]>::len);
    let mut grows = vec![0; rank];
    grows.put(axis, 1);
    let bound = |name: &str, default: usize| -> usize {
        let Some(Attribute::Int(index)) = node.attributes.get(name) else { return default };
        let index = if *index < 0 { index.saturating_add(rank.int()) } else { *index };
        usize::try_from(index).unwrap_or(0).min(rank)
    };
    let (start, end) = (bound("start", 0), bound("end", rank));
    let grows: Vec<i64> = grows.into_iter().take(end).skip(start).collect();
    replacement_of(graph, node, node.version, |made| {
        let grows = made.ints(&grows);
        let shape = |id: ValueId| made.only_copy_of(node, &[Some(made.value(id))]);
        let (before, added) = (shape(past)?, shape(new)?);
        Ok(Some(before + added * grows))
    })
}

fn build(
    graph: &mut Graph,
    node: &Node,
    parts: Parts,
    masks: &mut BTreeMap<Vec<Mask>, (ValueId, bool)>,
) -> Result<Option<Vec<Node>>> {
    let result = node.output(0).ok_or_else(|| Error::internal("a product without a result"))?;
    let Parts { q, heads, keys, values, masks: of_node, scale } = parts;
    let known = |cache: &Cache, index: usize| cache.sizes.get(index).and_then(Dim::known).unwrap_or(-1);
    let axis = |cache: &Cache| i64::try_from(cache.axes[1]).map(Attribute::Int);
    let (key_axis, value_axis) = (axis(&keys)?, axis(&values)?);
    replacement_of(graph, node, NEWEST_OPSET, |made| {
        let q = by_heads(made.value(q), &[1, heads, -1, known(&keys, 2)]);
        let mut inputs = vec![q];
        for cache in [&keys, &values] {
            let new = made.value(cache.appended.new);
            let mut perm: Vec<usize> =
                (0..new.sizes().len()).filter(|axis| !cache.axes.contains(axis)).collect();
            perm.extend(cache.axes);
            let new = if perm.is_sorted() { new } else { new.transpose(&perm) };
            inputs.push(by_heads(new, &[1, known(cache, 0), -1, known(cache, 2)]));
        }
        inputs.extend([&keys, &values].map(|cache| made.value(cache.appended.past)));
        let mut hides_all = false;
        if !of_node.is_empty() {
            let (mask, may_hide_all) = match masks.get(&of_node) {
                Some((known, may_hide_all)) => (made.value(*known), *may_hide_all),
                None => mask_value(made, &of_node, q)?,
            };
            masks.insert(of_node, (mask.id, may_hide_all));
            inputs.push(mask);
            hides_all = may_hide_all;
        }
        let attributes = [
            ("scale", to_f32(scale).into()),
            ("key_axis", key_axis),
            ("value_axis", value_axis),
            ("hides_all", i64::from(hides_all).into()),
        ];
        let result = made.value(result);
        let y = made.op("ncnn.CachedAttention", inputs, attributes);
        made.give(y.output(1), keys.appended.present);
        made.give(y.output(2), values.appended.present);
        let target: Vec<i64> = result.sizes().iter().map(|size| size.unwrap_or(-1)).collect();
        if target == [1, heads, target.get(2).copied().unwrap_or(0), known(&values, 2)] {
            return Ok(Some(y));
        }
        let y = result.dtype.map_or(y, |dtype| y.typed(dtype));
        Ok(Some(y.reshape(&target)))
    })
}

/// A value in a shape of four axes with one free size.
fn by_heads<'b>(value: Expr<'b>, shape: &[i64; 4]) -> Expr<'b> {
    let sizes = value.sizes();
    let has_it = sizes.len() == shape.len()
        && sizes.iter().zip(shape).all(|(size, wanted)| *wanted == -1 || *size == Some(*wanted));
    if has_it { value } else { value.reshape(shape) }
}

/// The sum of masks without infinities, and whether it may hide all keys of a query where NaN would be the
/// result.
fn mask_value<'b>(made: &'b Builder<'b>, masks: &[Mask], like: Expr<'b>) -> Result<(Expr<'b>, bool)> {
    let lowest = if like.dtype == Some(DType::F16) { HIDDEN_IN_HALF } else { HIDDEN };
    let sum = masks.iter().map(|mask| mask.term(made, lowest, like)).reduce(|sum, term| sum + term);
    let hides_all = masks.iter().any(|mask| match *mask {
        Mask::Added(value) => range::range(made.graph, value).least == f64::NEG_INFINITY,
        Mask::Hidden(_, _, by_infinity) => by_infinity,
    });
    let sum = sum.ok_or_else(|| Error::internal("a mask of no terms"))?;
    // Assumptions name it.
    let of = masks.first().filter(|_| hides_all).map(|mask| &made.graph.value(mask.value()).name);
    Ok((of.map_or(sum, |name| sum.named(format!("{name}_mask"))), hides_all))
}
