//! `y = linear(merge(softmax(scale * q * transpose(k) + mask) * v))`
//!
//! with `q`, `k`, `v = heads(linear(x))`, the mask optional, becomes `MultiHeadAttention` of this program's
//! own domain; and so does such an attention that is PlainAttention.
//!
//! `heads` is any chain of Reshape, Transpose, Split and the like that gives a view of the columns of a
//! linear map, by heads; `merge` is such a chain that puts the heads side by side. All scales before the
//! Softmax are multiplied into the weight of the queries. The mask may be added, or chosen by
//! `where(condition, lowest, scores)`; NaN after the Softmax may be replaced by 0.

use std::collections::{BTreeMap, BTreeSet};

use super::matcher::{Found, Matcher, first, fuse, orders, output, to_f32, two};
use super::scores::{FAR, HIDDEN, Hidden, hidden, plain, softmax_of};
use super::view::{Run, Traced, View, scaling, trace};
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{float, input, int};
use crate::tensor::DType;

/// A factor this close to 1 leaves the weight as it is.
const SAME_SCALE: f64 = 1e-6;

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

/// Columns of a linear map that make up the heads.
struct Projection {
    linear: Linear,
    /// The indices of the columns, by heads.
    columns: Vec<i64>,
}

/// A mask of the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Mask {
    /// Added to the scores.
    Added(ValueId),
    /// Added to the scores; a constant with elements below [`HIDDEN`].
    Clamped(ValueId),
    /// A condition that masks a key if it is equal to the boolean.
    Hidden(ValueId, bool),
}

struct Parts {
    /// The result.
    y: ValueId,
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

/// Reads a value as the result of MatMul, MatMul and Add, or Gemm.
fn linear(matcher: &Matcher, value: ValueId, inner: &mut BTreeSet<ValueId>) -> Option<Linear> {
    let node = matcher.producer(value)?;
    if node.is("Gemm") {
        return gemm(matcher, node);
    }
    let (node, bias) = if node.is("Add") {
        let (product, bias) = orders(node).find(|(product, bias)| {
            matcher.constant(*bias).is_some() && matcher.made_by(*product, "MatMul").is_some()
        })?;
        matcher.alike(product, value).then_some(())?;
        inner.insert(product);
        (matcher.made_by(product, "MatMul")?, Some(bias))
    } else {
        (node, None)
    };
    let [x, weight] = two(node).filter(|_| node.is("MatMul"))?;
    matcher.constant(weight)?;
    let [inputs, outputs] = *matcher.sizes(weight)?.as_slice() else { return None };
    checked(matcher, Linear { x, weight, transposed: false, bias, inputs, outputs })
}

fn gemm(matcher: &Matcher, node: &Node) -> Option<Linear> {
    let is_one = |name| float(node, name).is_none_or(|x| x == 1.0);
    let flag = |name| int(node, name).is_some_and(|x| x != 0);
    if !is_one("alpha") || !is_one("beta") || flag("transA") {
        return None;
    }
    let (x, weight) = (first(node)?, input(node, 1)?);
    matcher.constant(weight)?;
    let [rows, columns] = *matcher.sizes(weight)?.as_slice() else { return None };
    let transposed = flag("transB");
    let (inputs, outputs) = if transposed { (columns, rows) } else { (rows, columns) };
    let bias = input(node, 2);
    checked(matcher, Linear { x, weight, transposed, bias, inputs, outputs })
}

/// The map, if its type is a floating-point one and its bias has one element for each output.
fn checked(matcher: &Matcher, linear: Linear) -> Option<Linear> {
    if let Some(bias) = linear.bias {
        matcher.constant(bias)?;
        let (last, outer) = matcher.sizes(bias)?.split_last().map(|(last, outer)| (*last, outer.to_vec()))?;
        (last == linear.outputs && outer.iter().all(|size| *size == 1)).then_some(())?;
    }
    (matcher.is_float(linear.x) && matcher.sizes(linear.x)?.last() == Some(&linear.inputs)).then_some(linear)
}

/// Reads a value as a view of a linear map, and its factor. `order` gives the axes of heads, rows and
/// elements in `sizes`.
fn projection(
    matcher: &Matcher,
    value: ValueId,
    sizes: [i64; 3],
    order: [usize; 3],
    inner: &mut BTreeSet<ValueId>,
) -> Option<(Projection, f64)> {
    let is_linear = |value| linear(matcher, value, &mut BTreeSet::new()).is_some();
    let Traced { source, view, scale, inner: chain } = trace(matcher, value, is_linear, true)?;
    let linear = linear(matcher, source, inner)?;
    inner.extend(chain);
    inner.insert(source);
    let [Some(a), Some(b), Some(c)] = order.map(|axis| sizes.get(axis).copied()) else { return None };
    let view = view.reshaped(&[a, b, c])?.merged();
    let axis = |of: usize| view.axes.get(order.iter().position(|axis| *axis == of)?);
    let one = |runs: &Vec<Run>| match runs.as_slice() {
        [] => Some(Run { size: 1, stride: 0 }),
        [run] => Some(*run),
        _ => None,
    };
    let (heads, rows, elements) = (one(axis(0)?)?, one(axis(1)?)?, one(axis(2)?)?);
    let all_rows: i64 = matcher.sizes(linear.x)?.iter().rev().skip(1).product();
    let are_rows = rows.size == 1 || rows.stride == linear.outputs;
    if !are_rows || rows.size != all_rows || view.offset >= linear.outputs {
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

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let result = output(node)?;
    let mut inner = BTreeSet::new();
    let out = linear(matcher, result, &mut inner)?;
    // If a bias is added to the MatMul, the sum is the last node of the pattern.
    let sum = matcher.only_reader(result).filter(|reader| node.is("MatMul") && reader.is("Add"));
    if let Some(sum) = sum.and_then(output)
        && linear(matcher, sum, &mut BTreeSet::new()).is_some()
    {
        return None;
    }
    let is_core = |value| {
        plain(matcher, value).is_some()
            || matcher
                .made_by(value, "MatMul")
                .and_then(two)
                .is_some_and(|[a, _]| softmax_of(matcher, a, &mut BTreeSet::new()).is_some())
    };
    let traced = trace(matcher, out.x, is_core, false)?;
    inner.extend(traced.inner);
    inner.insert(traced.source);
    let (heads, queries, width) = by_heads(&matcher.sizes(traced.source)?)?;
    let merged = View::of(&[heads, queries, width]).transposed(&[1, 0, 2])?;
    let merged = merged.reshaped(&[queries, heads * width])?.merged();
    if traced.view.reshaped(&[queries, heads * width])?.merged() != merged {
        return None;
    }
    let Core { q, k, v, keys, k_order, mask, scale } = match plain(matcher, traced.source) {
        Some(node) => read_plain(matcher, node, [heads, queries])?,
        None => read_product(matcher, traced.source, [heads, queries], &mut inner)?,
    };
    let (q, q_scale) = projection(matcher, q, [heads, queries, width], [0, 1, 2], &mut inner)?;
    let (k, k_scale) = projection(matcher, k, [heads, keys, width], k_order, &mut inner)?;
    let (v, v_scale) = projection(matcher, v, [heads, keys, width], [0, 1, 2], &mut inner)?;
    // The layer itself divides by the root of the width of a head.
    let root = num_traits::AsPrimitive::<f64>::as_(width).sqrt();
    let factor = scale * q_scale * k_scale * root;
    inner.remove(&result);
    // In the oldest releases queries, merged heads and results have the same width.
    let fits = [q.linear.inputs, out.outputs] == [heads * width; 2];
    let fits = fits && v_scale == 1.0 && factor > 0.0 && queries > 1 && keys > 1;
    fits.then_some(Found {
        inner,
        parts: Parts { y: output(node)?, q, k, v, out, mask, num_heads: heads, factor },
    })
}

/// An attention without its linear maps.
struct Core {
    q: ValueId,
    k: ValueId,
    v: ValueId,
    /// The number of keys.
    keys: i64,
    /// The axes of heads, rows and elements in the keys.
    k_order: [usize; 3],
    mask: Option<Mask>,
    scale: f64,
}

fn read_plain(matcher: &Matcher, node: &Node, [heads, queries]: [i64; 2]) -> Option<Core> {
    let [Some(q), Some(k), Some(v), ref mask @ ..] = *node.inputs.as_slice() else { return None };
    let (key_heads, keys, _) = by_heads(&matcher.sizes(k)?)?;
    let mask = match *mask {
        [Some(mask)] if is_mask(matcher, mask, [heads, queries, keys]) => Some(added(matcher, mask)),
        [Some(_)] => return None,
        _ => None,
    };
    let zeroes_nan = int(node, "zeroes_nan").is_some_and(|flag| flag != 0);
    let scale = f64::from(float(node, "scale")?);
    (key_heads == heads && !zeroes_nan).then_some(Core { q, k, v, keys, k_order: [0, 1, 2], mask, scale })
}

/// Reads a value as the product of a Softmax with the values.
fn read_product(
    matcher: &Matcher,
    value: ValueId,
    [heads, queries]: [i64; 2],
    inner: &mut BTreeSet<ValueId>,
) -> Option<Core> {
    let [weights, v] = two(matcher.made_by(value, "MatMul")?)?;
    inner.insert(weights);
    let (softmax, guarded) = softmax_of(matcher, weights, inner)?;
    let mut scores = first(softmax)?;
    let (_, _, keys) = by_heads(&matcher.sizes(scores)?)?;
    inner.insert(scores);
    let mut mask = None;
    if let Some((product, found)) = read_mask(matcher, scores, [heads, queries, keys]) {
        // If a query has all keys masked, the result is NaN, which the layer does not replace by 0.
        if guarded && matches!(found, Mask::Added(value) if !each_row_has_key(matcher, value)) {
            return None;
        }
        (mask, scores) = (Some(found), product);
        inner.insert(scores);
    }
    let mut scale = 1.0;
    if let Some((product, factor)) = matcher.producer(scores).and_then(|node| scaling(matcher, node)) {
        (scale, scores) = (factor, product);
        inner.insert(scores);
    }
    let [q, k] = two(matcher.made_by(scores, "MatMul")?)?;
    Some(Core { q, k, v, keys, k_order: [0, 2, 1], mask, scale })
}

/// Merges all axes but the last two.
fn by_heads(sizes: &[i64]) -> Option<(i64, i64, i64)> {
    let [outer @ .., rows, columns] = sizes else { return None };
    Some((outer.iter().product(), *rows, *columns))
}

/// Whether a value is a MatMul, or one times a constant.
fn is_scores(matcher: &Matcher, value: ValueId) -> bool {
    matcher.producer(value).is_some_and(|node| {
        node.is("MatMul")
            || scaling(matcher, node).is_some_and(|(x, _)| matcher.made_by(x, "MatMul").is_some())
    })
}

/// Reads scores as masked: the scores without the mask, and the mask.
fn read_mask(matcher: &Matcher, scores: ValueId, sizes: [i64; 3]) -> Option<(ValueId, Mask)> {
    if let Some(sum) = matcher.made_by(scores, "Add") {
        let (product, added) = orders(sum)
            .find(|(product, added)| is_mask(matcher, *added, sizes) && is_scores(matcher, *product))?;
        return Some((product, self::added(matcher, added)));
    }
    let Hidden { others, condition, hides, .. } =
        hidden(matcher, matcher.made_by(scores, "Where")?).find(|found| is_scores(matcher, found.others))?;
    let flags = floats(matcher, condition).filter(|_| is_mask(matcher, condition, sizes))?;
    let has_key = |row: &[f32]| row.iter().any(|flag| (*flag != 0.0) != hides);
    flags
        .chunks(usize::try_from(sizes[2]).ok()?)
        .all(has_key)
        .then_some((others, Mask::Hidden(condition, hides)))
}

/// Reads a value as a mask that is added to the scores.
fn added(matcher: &Matcher, mask: ValueId) -> Mask {
    let is_low = floats(matcher, mask).is_some_and(|mask| mask.iter().any(|x| *x < HIDDEN));
    if is_low && each_row_has_key(matcher, mask) { Mask::Clamped(mask) } else { Mask::Added(mask) }
}

/// The elements of a constant.
fn floats(matcher: &Matcher, value: ValueId) -> Option<Vec<f32>> {
    matcher.constant(value)?.load_listed().ok()?.cast(DType::F32).ok()?.float_list().ok()
}

/// Whether a mask is a constant that leaves each query a key.
fn each_row_has_key(matcher: &Matcher, mask: ValueId) -> bool {
    let keys = matcher.sizes(mask).and_then(|sizes| usize::try_from(*sizes.last()?).ok());
    let Some((mask, keys)) = floats(matcher, mask).zip(keys.filter(|keys| *keys > 0)) else { return false };
    mask.chunks(keys).all(|row| row.iter().any(|x| f64::from(*x) > FAR))
}

/// Whether a value has the shape of a mask: `[queries, keys]` or `[heads, queries, keys]` after axes of size
/// 1.
fn is_mask(matcher: &Matcher, value: ValueId, [heads, queries, keys]: [i64; 3]) -> bool {
    let Some(sizes) = matcher.sizes(value) else { return false };
    let [outer @ .., rows, columns] = sizes.as_slice() else { return false };
    let outer: i64 = outer.iter().product();
    let innermost = sizes.iter().rev().nth(2).copied().unwrap_or(1);
    (*rows, *columns) == (queries, keys) && (outer == 1 || (outer == heads && innermost == heads))
}

fn build<'b>(made: &'b Builder<'b>, parts: Parts, masks: &mut BTreeMap<Mask, ValueId>) -> Result<Expr<'b>> {
    let Parts { y, q, k, v, out, mask, num_heads, factor } = parts;
    let x = made.value(q.linear.x);
    let mut inputs = [&q, &k, &v].map(|projection| made.value(projection.linear.x)).to_vec();
    for (projection, factor) in [(&q, factor), (&k, 1.0), (&v, 1.0)] {
        inputs.extend(columns_of(made, projection, factor)?);
    }
    let all: Vec<i64> = (0..out.outputs).collect();
    inputs.extend(columns_of(made, &Projection { linear: out, columns: all }, 1.0)?);
    if let Some(mask) = mask {
        let value = match masks.get(&mask) {
            Some(known) => made.value(*known),
            None => mask_value(made, mask, x),
        };
        masks.insert(mask, value.id);
        inputs.push(value);
    }
    let rows = made.op("ncnn.MultiHeadAttention", inputs, [("num_heads", num_heads.into())]);
    let mut shape = x.sizes();
    if let Some(last) = shape.last_mut() {
        *last = Some(out.outputs);
    }
    let result = made.value(y).sizes();
    if shape == result {
        return Ok(rows);
    }
    let result = result.into_iter().collect::<Option<Vec<i64>>>();
    Ok(rows.reshape(&result.ok_or_else(|| Error::internal("an attention of free sizes was fused"))?))
}

fn mask_value<'b>(made: &'b Builder<'b>, mask: Mask, like: Expr<'b>) -> Expr<'b> {
    match mask {
        Mask::Added(value) => made.value(value),
        Mask::Clamped(value) => made.value(value).max(HIDDEN),
        Mask::Hidden(condition, hides) => Hidden::term(made.value(condition), hides, HIDDEN, like),
    }
}

/// The weight, `[outputs, inputs]`, and the bias of a projection.
fn columns_of<'b>(made: &'b Builder<'b>, projection: &Projection, factor: f64) -> Result<[Expr<'b>; 2]> {
    let Projection { linear, columns } = projection;
    let count = i64::try_from(columns.len())?;
    let x = made.value(linear.x);
    let mut bias = match linear.bias {
        Some(bias) => made.value(bias).reshape(&[linear.outputs]),
        None => x.filled(0.0, &[linear.outputs]),
    };
    let mut weight = made.value(linear.weight);
    if !columns.iter().copied().eq(0..linear.outputs) {
        let axis = i64::from(!linear.transposed);
        let begin = columns.first().copied().unwrap_or(0);
        if columns.iter().copied().eq(begin..begin + count) {
            weight = weight.slice(axis, begin, begin + count);
            bias = bias.slice(0, begin, begin + count);
        } else {
            let indices = made.ints(columns);
            weight = weight.gather(indices, axis);
            bias = bias.gather(indices, 0);
        }
    }
    if !linear.transposed {
        weight = weight.transpose(&[1, 0]);
    }
    if (factor - 1.0).abs() > SAME_SCALE {
        let factor = x.filled(to_f32(factor), &[1]);
        weight = weight * factor;
        bias = bias * factor;
    }
    Ok([weight, bias])
}
