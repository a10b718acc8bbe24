//! Parts of several attentions.

use num_traits::AsPrimitive;

use crate::graph::Attribute;
use crate::ops::prelude::*;

/// Added to the scores of hidden keys: finite, so that a query without visible keys has no NaN.
pub(in crate::ops) const HIDDEN: f32 = -1e30;

/// The sizes of queries, keys and values.
pub(in crate::ops) struct Sizes {
    /// Whether heads and their elements are merged in one of three axes.
    pub merged: bool,
    pub batch: Dim,
    pub q_heads: i64,
    /// The number of heads of keys and values, each for as many adjacent heads of queries.
    pub kv_heads: i64,
    pub queries: Dim,
    /// The number of keys of this step, and of the steps before it.
    pub keys: Dim,
    pub past: Dim,
    pub head: Dim,
    pub v_head: Dim,
}

impl Sizes {
    /// Returns the sizes of inputs 0 to 2, queries, keys and values: `[batch, heads, length, size]`.
    pub fn of_heads(call: &Call) -> Result<Sizes> {
        let ([batch, q_heads, queries, head], [_, kv_heads, keys, _]) = (call.shape(0)?, call.shape(1)?)
        else {
            invalid!("queries and keys need four axes: batch, heads, length and size");
        };
        let v_head = call.shape(2)?.last().cloned().unwrap_or(Dim::ONE);
        call.check_broadcasts(1, &shape![batch, kv_heads, keys, head])?;
        call.check_broadcasts(2, &shape![batch, kv_heads, keys, &v_head])?;
        let (Some(q_heads), Some(kv_heads)) = (q_heads.known(), kv_heads.known()) else {
            return Err(unknown_heads());
        };
        Ok(Sizes {
            merged: false,
            batch: batch.clone(),
            q_heads,
            kv_heads,
            queries: queries.clone(),
            keys: keys.clone(),
            past: Dim::ZERO,
            head: head.clone(),
            v_head,
        })
    }

    /// Returns the number of all keys.
    pub fn total(&self) -> Dim {
        &self.past + &self.keys
    }

    /// Each query has a product with each key, and each weight one with its value.
    pub fn multiply_adds(&self) -> Option<u64> {
        let heads = Dim::Known(self.q_heads);
        let pairs = [self.batch.clone(), heads, self.queries.clone(), self.total()];
        let each = [&self.head, &self.v_head].map(|size| element_count(std::slice::from_ref(size)));
        Some(element_count(&pairs)?.saturating_mul(each[0]?.saturating_add(each[1]?)))
    }
}

/// Counts the multiply-adds of input 0 with the weight, input 1, of each query with each key, and of each
/// weight with its value; queries and values of all heads have these sizes.
pub(in crate::ops) fn projected_multiply_adds(call: &Call, [queries, values]: [u64; 2]) -> Option<u64> {
    let [input, weight] = [call.shape(0).ok()?, call.shape(1).ok()?];
    let projected = element_count(input)?.saturating_mul(element_count(weight.get(1..)?)?);
    let pairs = element_count(input.get(..2)?)?.saturating_mul(element_count(input.get(1..2)?)?);
    Some(projected.saturating_add(pairs.saturating_mul(queries.saturating_add(values))))
}

pub(in crate::ops) fn unknown_heads() -> Error {
    Error::unsupported("the number or size of the heads is known only at run time")
}

/// The inputs of ONNX's Attention, which the other attentions become.
pub(in crate::ops) struct Standard<'x> {
    /// Queries, keys and values: all `[batch, length, heads * size]`, or all `[batch, heads, length, size]`.
    pub operands: [Expr<'x>; 3],
    /// Added to the scores.
    pub mask: Option<Expr<'x>>,
    /// Earlier keys and values.
    pub past: [Option<Expr<'x>>; 2],
    /// Whether the keys and values of all positions are read.
    pub has_present: bool,
}

impl<'x> Standard<'x> {
    /// Adds the node, and returns the result, and the keys and values of all positions.
    pub fn attend<'n>(
        self,
        x: &'x Expand,
        attributes: impl IntoIterator<Item = (&'n str, Attribute)>,
    ) -> (Expr<'x>, Vec<Expr<'x>>) {
        let ([q, k, v], [past_key, past_value]) = (self.operands, self.past);
        let inputs = [Some(q), Some(k), Some(v), self.mask, past_key, past_value];
        let result = x.make.op("Attention", inputs, attributes);
        let present = if self.has_present { result.outputs(1..3) } else { Vec::new() };
        (result, present)
    }
}

/// Returns input `index`, a mask of an operator that has no rule for queries without visible keys, unlike
/// ONNX's Attention.
pub(in crate::ops) fn plain_mask<'x>(x: &'x Expand, index: usize) -> Option<Expr<'x>> {
    let mask = x.optional(index)?.to_type(DType::F32);
    Some(if is_finite(x, index) { mask } else { x.make.op("ncnn.WithoutInfinity", [mask], []) })
}

/// Returns whether no element of input `index` is minus infinity, as far as its range tells.
pub(in crate::ops) fn is_finite(x: &Expand, index: usize) -> bool {
    let least: f32 = x.range(index).least.as_();
    least.is_finite()
}

/// Returns `[batch, length, heads * size]` as `[batch, heads, length, size]`.
pub(in crate::ops) fn split_heads(value: Expr, heads: i64) -> Expr {
    value.reshape(&[0, 0, heads, -1]).transpose(&[0, 2, 1, 3])
}

/// The inverse of [`split_heads`].
pub(in crate::ops) fn merge_heads(value: Expr) -> Expr {
    value.transpose(&[0, 2, 1, 3]).reshape(&[0, 0, -1])
}

/// Returns the term that hides the keys for which `seen` is 0, and keeps the keys for which it is 1.
pub(in crate::ops) fn hide_unseen(seen: Expr) -> Expr {
    (seen - 1.0) * -HIDDEN
}

/// Returns the sums of the values, `[batch, kv_heads, keys, v_head]`, by the weights that `weights` makes of
/// the products of the queries, `[batch, q_heads, queries, head]`, with the keys, `[batch, kv_heads, head,
/// keys]`.
pub(in crate::ops) fn attend<'x>(
    sizes: &Sizes,
    [q, k, v]: [Expr<'x>; 3],
    weights: impl FnOnce(Expr<'x>) -> Result<Expr<'x>>,
) -> Result<Expr<'x>> {
    let keys = sizes.total();
    let scores = ungrouped(grouped(q, sizes, &sizes.head)?.matmul(k), sizes, &keys)?;
    ungrouped(grouped(weights(scores)?, sizes, &keys)?.matmul(v), sizes, &sizes.v_head)
}

/// Merges heads of queries that share a head of keys: `[batch, kv_heads, rows, size]`.
fn grouped<'x>(value: Expr<'x>, sizes: &Sizes, size: &Dim) -> Result<Expr<'x>> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(value);
    }
    let group = Dim::Known(sizes.q_heads).floor_div(sizes.kv_heads);
    let rows = &sizes.queries * &group;
    reshape(value, [&sizes.batch, &Dim::Known(sizes.kv_heads), &rows, size])
}

/// The inverse of [`grouped`].
fn ungrouped<'x>(value: Expr<'x>, sizes: &Sizes, size: &Dim) -> Result<Expr<'x>> {
    if sizes.q_heads == sizes.kv_heads {
        return Ok(value);
    }
    reshape(value, [&sizes.batch, &Dim::Known(sizes.q_heads), &sizes.queries, size])
}

/// Returns another shape with the same last axis of four, and at most one other free size.
fn reshape<'x>(value: Expr<'x>, shape: [&Dim; 4]) -> Result<Expr<'x>> {
    let mut shape = shape.map(|size| size.known().unwrap_or(-1));
    if let [.., last @ -1] = &mut shape {
        // The size is copied.
        *last = 0;
    }
    if shape.iter().filter(|size| **size == -1).count() > 1 {
        return Err(Error::unsupported("several free lengths"));
    }
    Ok(value.reshape(&shape))
}
