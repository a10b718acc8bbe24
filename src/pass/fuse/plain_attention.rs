//! `y = softmax(scale * q * transpose(k) + mask) * v`
//!
//! with the same axes before the last two in `q`, `k` and `v` becomes PlainAttention of this program's
//! domain, of which SDPA is the layer. The layer reads the mask in half precision, so its numbers are those
//! of float16, or each query sees a key.

use std::collections::BTreeMap;

use super::matcher::{Found, Matcher, fuse, to_f32};
use super::scores::{Attention, HIDDEN, Mask, Scores, attention, outer};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::LARGEST_HALF;
use crate::op::range;
use crate::pass::builder::{Builder, Expr};
use crate::tensor::{Dim, Range};

struct Parts {
    y: ValueId,
    q: ValueId,
    k: ValueId,
    v: ValueId,
    mask: Option<Mask>,
    scale: f64,
    /// The shapes of queries and keys and of values with four axes, unless a batch of 1 and the heads are the
    /// axes before the last two.
    shapes: Option<[[i64; 4]; 2]>,
}

pub(crate) fn fuse_plain_attention(graph: &mut Graph) -> Result<bool> {
    // Layers with the same mask share its blob.
    let mut masks = BTreeMap::new();
    fuse(graph, find, |made, parts| Ok(build(made, &parts, &mut masks)))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let y = node.output(0)?;
    let Attention { scores, v, transposed, zeroes_nan, inner, .. } = attention(matcher, node).ok()?;
    let Scores { q, k, masks, scale } = scores;
    let heads_of = outer(matcher, y)?;
    let heads = Dim::product(&heads_of).known()?;
    let size = |value: ValueId, from_end: usize| matcher.shape(value)?.iter().rev().nth(from_end)?.known();
    let shapes = [size(k, 1)?, size(v, 0)?].map(|width| [1, heads, -1, width]);
    let alike = [q, k, v].iter().all(|operand| outer(matcher, *operand).as_ref() == Some(&heads_of));
    if !transposed || !alike {
        return None;
    }
    let mask = match masks.as_slice() {
        [] => None,
        [(mask, masked)] => {
            let queries = matcher.shape(y)?.iter().rev().nth(1)?;
            // The layer divides the mask by the scale.
            let most = f64::from(LARGEST_HALF) * scale.abs().min(1.0);
            let numbers = match mask {
                Mask::Added(value) => range::range(matcher.graph, *value),
                Mask::Hidden(..) => Range::new(f64::NEG_INFINITY, 0.0),
            };
            let is_right = mask.shows_each(matcher, -most) || (numbers.least >= -most && !zeroes_nan);
            let fits = numbers.most <= most && mask.fits(matcher, masked, heads, queries);
            (is_right && fits).then_some(Some(*mask))?
        }
        _ => return None,
    };
    let has_them = heads_of.len() == 2 && heads_of.first().is_some_and(|batch| batch.is(1));
    let shapes = Some(shapes).filter(|_| !has_them);
    Some(Found { inner, parts: Parts { y, q, k, v, mask, scale, shapes } })
}

fn build<'b>(made: &'b Builder<'b>, parts: &Parts, masks: &mut BTreeMap<Mask, ValueId>) -> Expr<'b> {
    let [q, k, v] = [parts.q, parts.k, parts.v].map(|id| made.value(id));
    let rank = k.sizes().len();
    let mut perm: Vec<usize> = (0..rank).collect();
    perm.swap(rank.saturating_sub(2), rank.saturating_sub(1));
    let k = k.transpose(&perm);
    let mut inputs = match &parts.shapes {
        None => vec![q, k, v],
        Some([of_keys, of_values]) => vec![q.reshape(of_keys), k.reshape(of_keys), v.reshape(of_values)],
    };
    inputs.extend(parts.mask.map(|mask| mask.shared_term(made, HIDDEN, q, masks)));
    let y = made.op("ncnn.PlainAttention", inputs, [("scale", to_f32(parts.scale).into())]);
    if parts.shapes.is_none() {
        return y;
    }
    let shape: Vec<i64> = made.value(parts.y).sizes().into_iter().map(|size| size.unwrap_or(-1)).collect();
    y.reshape(&shape)
}
