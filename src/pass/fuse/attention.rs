//! MultiHeadAttention of ncnn, from MatMul, Softmax and linear maps.
//!
//! `softmax((x Wq + bq) (y Wk + bk)^T * factor + mask) (z Wv + bv) Wo + bo`, by heads.
//!
//! The heads of queries, keys and values are views of linear maps of the inputs, through any Reshape,
//! Transpose and Split. The input of the last linear map is a view of the results of all heads. Scales at any
//! place are one factor, which is multiplied into the weight of the queries.

use std::collections::{BTreeMap, BTreeSet};

use super::swish::single;
use super::view::{Run, Traced, View, scaling, trace};
use super::{Build, Found, Look, first, fuse, orders, two};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::tensor::DType;

/// A scale that differs from the default by less than this is a rounding error.
const SAME_SCALE: f64 = 1e-6;

/// The score of a hidden key, in place of -inf: ncnn's layers compute without infinities.
const HIDDEN: f32 = -1e30;
/// A score below this hides a key: beside any other score its weight is 0.
const FAR: f64 = -1e9;

/// `x * weight + bias`.
#[derive(Clone, Copy, Debug)]
struct Linear {
    x: ValueId,
    weight: ValueId,
    /// Whether the weight is `[outputs, inputs]`.
    transposed: bool,
    bias: Option<ValueId>,
    inputs: i64,
    outputs: i64,
}

/// The columns of a linear map that are the elements of heads.
struct Projection {
    linear: Linear,
    /// The columns of the map that are elements of the heads, in order.
    columns: Vec<i64>,
}

/// The mask that is added to the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mask {
    /// A mask as it is.
    Added(ValueId),
    /// A constant mask with infinities, which are replaced by [`HIDDEN`].
    Clamped(ValueId),
    /// A boolean mask; its elements equal to the second field hide a key.
    Hidden(ValueId, bool),
}

struct Parts {
    q: Projection,
    k: Projection,
    v: Projection,
    out: Linear,
    mask: Option<Mask>,
    num_heads: i64,
    /// The factor of the weight of the queries.
    factor: f64,
}

pub(crate) fn fuse_attention(graph: &mut Graph) -> Result<bool> {
    // Layers with the same mask share its blob.
    let mut masks = BTreeMap::new();
    fuse(graph, find, |made, parts| build(made, parts, &mut masks))
}

/// Returns the linear map that computes a value, with its bias.
fn linear(look: &Look, value: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<Linear> {
    let node = look.graph.node(look.graph.value(value).producer?)?;
    if node.is("Gemm") {
        return gemm(look, node);
    }
    let (node, bias) = if node.is("Add") {
        let (product, bias) = orders(node).find(|(product, bias)| {
            look.graph.value(*bias).constant.is_some() && look.made_by(*product, "MatMul").is_some()
        })?;
        look.alike(product, value).then_some(())?;
        inner.insert(product);
        (look.made_by(product, "MatMul")?, Some(bias))
    } else {
        (node, None)
    };
    let [x, weight] = two(node).filter(|_| node.is("MatMul"))?;
    look.graph.value(weight).constant.as_ref()?;
    let [inputs, outputs] = *look.sizes(weight)?.as_slice() else { return None };
    fits(look, Linear { x, weight, transposed: false, bias, inputs, outputs })
}

fn gemm(look: &Look, node: &Node) -> Option<Linear> {
    let one = |name| !matches!(node.attributes.get(name), Some(Attribute::Float(x)) if *x != 1.0);
    let flag = |name| matches!(node.attributes.get(name), Some(Attribute::Int(x)) if *x != 0);
    if !one("alpha") || !one("beta") || flag("transA") {
        return None;
    }
    let (x, weight) = (first(node)?, node.inputs.get(1).copied().flatten()?);
    look.graph.value(weight).constant.as_ref()?;
    let [rows, columns] = *look.sizes(weight)?.as_slice() else { return None };
    let transposed = flag("transB");
    let (inputs, outputs) = if transposed { (columns, rows) } else { (rows, columns) };
    let bias = node.inputs.get(2).copied().flatten();
    fits(look, Linear { x, weight, transposed, bias, inputs, outputs })
}

/// Returns the map if it has one bias element for each output and a float type.
fn fits(look: &Look, linear: Linear) -> Option<Linear> {
    if let Some(bias) = linear.bias {
        look.graph.value(bias).constant.as_ref()?;
        let (last, outer) = look.sizes(bias)?.split_last().map(|(last, outer)| (*last, outer.to_vec()))?;
        (last == linear.outputs && outer.iter().all(|size| *size == 1)).then_some(())?;
    }
    (look.is_float(linear.x) && look.sizes(linear.x)?.last() == Some(&linear.inputs)).then_some(linear)
}

/// Returns a value as heads of a linear map. `order` gives the axes of heads, positions and elements of a
/// head.
fn projection(
    look: &Look,
    value: ValueId,
    sizes: [i64; 3],
    order: [usize; 3],
    inner: &mut BTreeSet<ValueId>,
) -> Option<(Projection, f64)> {
    let is_linear = |value| linear(look, value, &mut BTreeSet::new()).is_some();
    let Traced { source, view, scale, inner: way } = trace(look, value, is_linear, true)?;
    let linear = linear(look, source, inner)?;
    inner.extend(way);
    inner.insert(source);
    let seen = order.map(|axis| sizes.get(axis).copied());
    let [Some(a), Some(b), Some(c)] = seen else { return None };
    let view = view.reshaped(&[a, b, c])?.merged();
    // Heads, positions, elements: the axis of each in the view.
    let axis = |of: usize| view.axes.get(order.iter().position(|axis| *axis == of)?);
    let one = |runs: &Vec<Run>| match runs.as_slice() {
        [] => Some(Run { size: 1, stride: 0 }),
        [run] => Some(*run),
        _ => None,
    };
    let (heads, places, elements) = (one(axis(0)?)?, one(axis(1)?)?, one(axis(2)?)?);
    let rows: i64 = look.sizes(linear.x)?.iter().rev().skip(1).product();
    let is_row = places.size == 1 || places.stride == linear.outputs;
    if !is_row || rows != places.size || view.offset >= linear.outputs {
        return None;
    }
    let mut columns = Vec::new();
    for head in 0..heads.size {
        for element in 0..elements.size {
            columns.push(view.offset + head * heads.stride + element * elements.stride);
        }
    }
    let within = columns.iter().all(|column| (0..linear.outputs).contains(column));
    within.then_some((Projection { linear, columns }, scale))
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    let result = node.outputs.first().copied().flatten()?;
    let mut inner = BTreeSet::new();
    let out = linear(look, result, &mut inner)?;
    // A bias that follows belongs to the map; the sum is then the last node.
    let sum = look.only_reader(result).filter(|reader| node.is("MatMul") && reader.is("Add"));
    if let Some(sum) = sum.and_then(|sum| sum.outputs.first().copied().flatten())
        && linear(look, sum, &mut BTreeSet::new()).is_some()
    {
        return None;
    }
    let is_product = |value| {
        look.made_by(value, "MatMul")
            .and_then(two)
            .is_some_and(|[a, _]| softmax_of(look, a, &mut BTreeSet::new()).is_some())
    };
    let traced = trace(look, out.x, is_product, false)?;
    let [weights, values] = two(look.made_by(traced.source, "MatMul")?)?;
    inner.extend(traced.inner);
    inner.extend([traced.source, weights]);
    // Heads, queries, elements of a head.
    let (heads, queries, width) = by_heads(&look.sizes(traced.source)?)?;
    let merged = View::of(&[heads, queries, width]).transposed(&[1, 0, 2])?;
    let merged = merged.reshaped(&[queries, heads * width])?.merged();
    if traced.view.reshaped(&[queries, heads * width])?.merged() != merged {
        return None;
    }
    let (softmax, guarded) = softmax_of(look, weights, &mut inner)?;
    let rank = look.rank(weights)?;
    let axis = match softmax.attributes.get("axis") {
        Some(Attribute::Int(axis)) => *axis,
        _ => {
            if softmax.version < 13 {
                1
            } else {
                -1
            }
        }
    };
    // Before version 13 Softmax flattens all axes from `axis` on; for the last axis that makes no difference.
    if crate::op::resolve_axis(axis, rank).ok()? + 1 != rank {
        return None;
    }
    let mut scores = first(softmax)?;
    let (_, _, keys) = by_heads(&look.sizes(scores)?)?;
    inner.insert(scores);
    let mut mask = None;
    if let Some((product, found)) = read_mask(look, scores, [heads, queries, keys]) {
        // A row in which every key is hidden is NaN, which the layer cannot reproduce.
        if guarded
            && matches!(found, Mask::Added(value) if look.graph.value(value).constant.is_none() || !sees(look, value))
        {
            return None;
        }
        (mask, scores) = (Some(found), product);
        inner.insert(scores);
    }
    let mut scale = 1.0;
    if let Some((product, factor)) =
        look.graph.value(scores).producer.and_then(|id| scaling(look, look.graph.node(id)?))
    {
        (scale, scores) = (factor, product);
        inner.insert(scores);
    }
    let [q, k] = two(look.made_by(scores, "MatMul")?)?;
    let (q, q_scale) = projection(look, q, [heads, queries, width], [0, 1, 2], &mut inner)?;
    let (k, k_scale) = projection(look, k, [heads, keys, width], [0, 2, 1], &mut inner)?;
    let (v, v_scale) = projection(look, values, [heads, keys, width], [0, 1, 2], &mut inner)?;
    let factor = scale * q_scale * k_scale * width_root(width);
    inner.remove(&result);
    // Old releases of ncnn need the same size for queries, merged heads and results.
    let fits = [q.linear.inputs, out.outputs] == [heads * width; 2];
    let fits = fits && v_scale == 1.0 && factor > 0.0 && queries > 1 && keys > 1;
    fits.then_some(Found { inner, parts: Parts { q, k, v, out, mask, num_heads: heads, factor } })
}

fn width_root(width: i64) -> f64 {
    num_traits::AsPrimitive::<f64>::as_(width).sqrt()
}

/// Returns the last three sizes, if the sizes before them are 1.
fn by_heads(sizes: &[i64]) -> Option<(i64, i64, i64)> {
    let [outer @ .., rows, columns] = sizes else { return None };
    Some((outer.iter().product(), *rows, *columns))
}

/// Returns whether a value is the product of queries and keys, with or without a scale.
fn is_scores(look: &Look, value: ValueId) -> bool {
    let Some(node) = look.graph.value(value).producer.and_then(|id| look.graph.node(id)) else {
        return false;
    };
    node.is("MatMul") || scaling(look, node).is_some_and(|(value, _)| look.made_by(value, "MatMul").is_some())
}

/// Returns the Softmax that computes a value, and whether its NaN elements are replaced by 0.
fn softmax_of<'a>(
    look: &Look<'a>,
    value: ValueId,
    inner: &mut BTreeSet<ValueId>,
) -> Option<(&'a Node, bool)> {
    if let Some(softmax) = look.made_by(value, "Softmax") {
        return Some((softmax, false));
    }
    let [condition, zero, softmax] = *look.made_by(value, "Where")?.inputs.as_slice() else { return None };
    let (condition, softmax) = (condition?, softmax?);
    let is_guard = first(look.made_by(condition, "IsNaN")?)? == softmax && look.number(zero?)? == 0.0;
    inner.extend([condition, softmax]);
    Some((look.made_by(softmax, "Softmax").filter(|_| is_guard)?, true))
}

/// Returns the product of queries and keys before the mask, and the mask.
fn read_mask(look: &Look, scores: ValueId, sizes: [i64; 3]) -> Option<(ValueId, Mask)> {
    if let Some(sum) = look.made_by(scores, "Add") {
        let (product, added) =
            orders(sum).find(|(product, added)| is_mask(look, *added, sizes) && is_scores(look, *product))?;
        let clamped = look.graph.value(added).constant.is_some() && hides(look, added) && sees(look, added);
        let mask = if clamped { Mask::Clamped(added) } else { Mask::Added(added) };
        return Some((product, mask));
    }
    let [condition, yes, no] = *look.made_by(scores, "Where")?.inputs.as_slice() else { return None };
    let (condition, yes, no) = (condition?, yes?, no?);
    let (product, hidden, hides) = if is_scores(look, no) { (no, yes, true) } else { (yes, no, false) };
    let far = look.number(hidden)? <= FAR;
    let fits = far && is_scores(look, product) && is_mask(look, condition, sizes);
    let flags = elements(look, condition).filter(|_| fits)?;
    let seen = |row: &[f32]| row.iter().any(|flag| (*flag != 0.0) != hides);
    flags
        .chunks(usize::try_from(sizes[2]).ok()?)
        .all(seen)
        .then_some((product, Mask::Hidden(condition, hides)))
}

/// Returns the elements of a constant.
fn elements(look: &Look, value: ValueId) -> Option<Vec<f32>> {
    look.graph.value(value).constant.as_ref()?.load_listed().ok()?.cast(DType::F32).ok()?.float_list().ok()
}

/// Returns whether a constant mask hides any key.
fn hides(look: &Look, mask: ValueId) -> bool {
    elements(look, mask).is_some_and(|numbers| numbers.iter().any(|x| *x < HIDDEN))
}

/// Returns whether every query sees a key through a constant mask.
fn sees(look: &Look, mask: ValueId) -> bool {
    let keys = look.sizes(mask).and_then(|sizes| usize::try_from(*sizes.last()?).ok());
    let (Some(numbers), Some(keys)) = (elements(look, mask), keys.filter(|keys| *keys > 0)) else {
        return false;
    };
    numbers.chunks(keys).all(|row| row.iter().any(|x| f64::from(*x) > FAR))
}

/// Returns whether a value has an element for each query and key, or for each head, query and key.
fn is_mask(look: &Look, value: ValueId, [heads, queries, keys]: [i64; 3]) -> bool {
    let Some(sizes) = look.sizes(value) else { return false };
    let [outer @ .., rows, columns] = sizes.as_slice() else { return false };
    let outer: i64 = outer.iter().product();
    let innermost = sizes.iter().rev().nth(2).copied().unwrap_or(1);
    (*rows, *columns) == (queries, keys) && (outer == 1 || (outer == heads && innermost == heads))
}

fn build(made: &mut Build, parts: Parts, masks: &mut BTreeMap<Mask, ValueId>) -> Result<()> {
    let Parts { q, k, v, out, mask, num_heads, factor } = parts;
    let mut inputs = vec![q.linear.x, k.linear.x, v.linear.x];
    for (projection, factor) in [(&q, factor), (&k, 1.0), (&v, 1.0)] {
        let (weight, bias) = columns_of(made, projection, factor)?;
        inputs.extend([weight, bias]);
    }
    let all: Vec<i64> = (0..out.outputs).collect();
    let (weight, bias) = columns_of(made, &Projection { linear: out, columns: all }, 1.0)?;
    inputs.extend([weight, bias]);
    if let Some(mask) = mask {
        let known = masks.get(&mask).copied();
        inputs.push(match known {
            Some(value) => value,
            None => mask_value(made, mask, q.linear.x)?,
        });
        masks.extend(inputs.last().map(|value| (mask, *value)));
    }
    let heads = [("num_heads", Attribute::Int(num_heads))];
    let mut shape = made.known_sizes(q.linear.x);
    if let Some(last) = shape.last_mut() {
        *last = Some(out.outputs);
    }
    let result = made.result_sizes();
    if shape == result {
        made.own("MultiHeadAttention", &inputs, &heads);
        return Ok(());
    }
    let rows = made.own_op("MultiHeadAttention", &inputs, &heads);
    let result = result.into_iter().collect::<Option<Vec<i64>>>();
    let shape = made.ints(&result.ok_or_else(|| Error::internal("attention with unknown sizes"))?)?;
    made.last("Reshape", &[rows, shape], &[]);
    Ok(())
}

fn mask_value(made: &mut Build, mask: Mask, like: ValueId) -> Result<ValueId> {
    match mask {
        Mask::Added(value) => Ok(value),
        Mask::Clamped(value) => {
            let lowest = made.filled(HIDDEN, &[], value)?;
            made.op("Max", &[value, lowest], &[])
        }
        Mask::Hidden(condition, hides) => {
            let (hidden, seen) = (made.filled(HIDDEN, &[], like)?, made.filled(0.0, &[], like)?);
            let (yes, no) = if hides { (hidden, seen) } else { (seen, hidden) };
            made.op("Where", &[condition, yes, no], &[])
        }
    }
}

/// Returns weight, `[outputs, inputs]`, and bias of some columns of a linear map.
fn columns_of(made: &mut Build, projection: &Projection, factor: f64) -> Result<(ValueId, ValueId)> {
    let Projection { linear, columns } = projection;
    let count = i64::try_from(columns.len())?;
    let bias = match linear.bias {
        Some(bias) => {
            let shape = made.ints(&[linear.outputs])?;
            made.op("Reshape", &[bias, shape], &[])?
        }
        None => made.filled(0.0, &[linear.outputs], linear.x)?,
    };
    let weight = linear.weight;
    let (mut weight, mut bias) = if columns.iter().copied().eq(0..linear.outputs) {
        (weight, bias)
    } else {
        let axis = i64::from(!linear.transposed);
        let begin = columns.first().copied().unwrap_or(0);
        if columns.iter().copied().eq(begin..begin + count) {
            let (start, end) = (made.ints(&[begin])?, made.ints(&[begin + count])?);
            let (of_weight, of_bias) = (made.ints(&[axis])?, made.ints(&[0])?);
            (
                made.op("Slice", &[weight, start, end, of_weight], &[])?,
                made.op("Slice", &[bias, start, end, of_bias], &[])?,
            )
        } else {
            let places = made.ints(columns)?;
            (
                made.op("Gather", &[weight, places], &[("axis", Attribute::Int(axis))])?,
                made.op("Gather", &[bias, places], &[("axis", Attribute::Int(0))])?,
            )
        }
    };
    if !linear.transposed {
        weight = made.op("Transpose", &[weight], &[("perm", Attribute::Ints(vec![1, 0]))])?;
    }
    if (factor - 1.0).abs() > SAME_SCALE {
        let factor = made.filled(single(factor), &[1], linear.x)?;
        weight = made.op("Mul", &[weight, factor], &[])?;
        bias = made.op("Mul", &[bias, factor], &[])?;
    }
    Ok((weight, bias))
}
