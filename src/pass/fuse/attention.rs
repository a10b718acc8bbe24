//! `y = linear(merge(softmax(scale * q * transpose(k) + mask) * v))`
//!
//! with `q`, `k`, `v = heads(linear(x))`, the mask optional, becomes `MultiHeadAttention` of this program's
//! domain; and so does such an attention that is PlainAttention.
//!
//! `heads` is any chain of Reshape, Transpose, Split and the like that gives a view of the columns of a
//! linear map, by heads; `merge` is such a chain that puts the heads side by side. All scales before the
//! Softmax are multiplied into the weight of the queries. The mask may be added, or chosen by
//! `where(condition, lowest, scores)`; NaN after the Softmax may be replaced by 0.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use super::matcher::{Found, Matcher, fuse, to_f32};
use super::scores::{Attention, FAR, HIDDEN, Mask, attention};
use super::text::Pattern;
use super::view::{Run, Traced, View, trace};
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{LinearMap, MODERATE, linear_map};
use crate::tensor::Dim;

static BIASED: LazyLock<Pattern> = LazyLock::new(|| Pattern::of("Add(product = MatMul(x, weight), bias)"));

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

struct Parts {
    /// The result.
    y: ValueId,
    q: Projection,
    k: Projection,
    v: Projection,
    out: Linear,
    /// The mask, and whether each query sees a key.
    mask: Option<(Mask, bool)>,
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
    if let Some(map) = matcher.producer(value).and_then(linear_map) {
        return checked(matcher, map);
    }
    BIASED.matches(matcher, value).into_iter().find_map(|found| {
        let [product, bias] = found.values(["product", "bias"])?;
        matcher.alike(product, value).then_some(())?;
        let map = linear_map(matcher.producer(product)?)?;
        let linear = checked(matcher, LinearMap { bias: Some(bias), ..map })?;
        inner.extend(found.inner);
        Some(linear)
    })
}

/// The map, if its type is a floating-point one, its weight a constant matrix, and its bias a constant with
/// one element for each output.
fn checked(matcher: &Matcher, map: LinearMap) -> Option<Linear> {
    let LinearMap { x, weight, transposed, bias } = map;
    matcher.constant(weight)?;
    let [rows, columns] = *matcher.sizes(weight)?.as_slice() else { return None };
    let (inputs, outputs) = if transposed { (columns, rows) } else { (rows, columns) };
    if let Some(bias) = bias {
        matcher.constant(bias)?;
        let (last, outer) = matcher.sizes(bias)?.split_last().map(|(last, outer)| (*last, outer.to_vec()))?;
        (last == outputs && outer.iter().all(|size| *size == 1)).then_some(())?;
    }
    let fits = matcher.is_float(x) && matcher.sizes(x)?.last() == Some(&inputs);
    fits.then_some(Linear { x, weight, transposed, bias, inputs, outputs })
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
    let Traced { source, view, scale, inner: chain } = trace(matcher, value, true)?;
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
    let result = node.output(0)?;
    let mut inner = BTreeSet::new();
    let out = linear(matcher, result, &mut inner)?;
    // If a bias is added to the MatMul, the sum is the last node of the pattern.
    let sum = matcher.only_reader(result).filter(|reader| node.is("MatMul") && reader.is("Add"));
    if let Some(sum) = sum.and_then(|node| node.output(0))
        && linear(matcher, sum, &mut BTreeSet::new()).is_some()
    {
        return None;
    }
    let traced = trace(matcher, out.x, false)?;
    inner.extend(traced.inner);
    inner.insert(traced.source);
    let (heads, queries, width) = by_heads(&matcher.sizes(traced.source)?)?;
    let merged = View::of(&[heads, queries, width]).transposed(&[1, 0, 2])?;
    let merged = merged.reshaped(&[queries, heads * width])?.merged();
    if traced.view.reshaped(&[queries, heads * width])?.merged() != merged {
        return None;
    }
    let Attention { scores, v, transposed, zeroes_nan, inner: core, .. } =
        attention(matcher, matcher.producer(traced.source)?).ok()?;
    inner.extend(core);
    let (_, rows, columns) = by_heads(&matcher.sizes(scores.k)?)?;
    let (keys, k_order) = if transposed { (columns, [0, 2, 1]) } else { (rows, [0, 1, 2]) };
    let mask = match scores.masks.as_slice() {
        [] => None,
        [(mask, masked)] => {
            let shows_each = mask.shows_each(matcher, FAR);
            // If a query has all keys masked, the result is NaN, which the layer does not replace by 0.
            let is_right = shows_each || (matches!(mask, Mask::Added(_)) && !zeroes_nan);
            let fits = mask.fits(matcher, masked, heads, &Dim::from(queries));
            (is_right && fits).then_some(Some((*mask, shows_each)))?
        }
        _ => return None,
    };
    let (q, q_scale) = projection(matcher, scores.q, [heads, queries, width], [0, 1, 2], &mut inner)?;
    let (k, k_scale) = projection(matcher, scores.k, [heads, keys, width], k_order, &mut inner)?;
    let (v, v_scale) = projection(matcher, v, [heads, keys, width], [0, 1, 2], &mut inner)?;
    // The layer itself divides by the root of the width of a head.
    let root = num_traits::AsPrimitive::<f64>::as_(width).sqrt();
    let factor = scores.scale * q_scale * k_scale * root;
    inner.remove(&result);
    // In the oldest releases queries, merged heads and results have the same width.
    let fits = [q.linear.inputs, out.outputs] == [heads * width; 2];
    let fits = fits && v_scale == 1.0 && MODERATE.contains(&factor) && queries > 1 && keys > 1;
    fits.then_some(Found {
        inner,
        parts: Parts { y: node.output(0)?, q, k, v, out, mask, num_heads: heads, factor },
    })
}

/// Merges all axes but the last two.
fn by_heads(sizes: &[i64]) -> Option<(i64, i64, i64)> {
    let [outer @ .., rows, columns] = sizes else { return None };
    Some((outer.iter().product(), *rows, *columns))
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
    if let Some((mask, shows_each)) = mask {
        let lowest = if shows_each { HIDDEN } else { f32::NEG_INFINITY };
        inputs.push(mask.shared_term(made, lowest, x, masks));
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

/// The weight, `[outputs, inputs]`, and the bias of a projection.
fn columns_of<'b>(made: &'b Builder<'b>, projection: &Projection, factor: f64) -> Result<[Expr<'b>; 2]> {
    let Projection { linear, columns } = projection;
    let count = columns.len().int();
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
