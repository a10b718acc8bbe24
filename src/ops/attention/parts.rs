//! Parts of several attentions.

use crate::ops::prelude::*;

/// Added to the scores of hidden keys: finite, so that a query without visible keys has no NaN.
pub(in crate::ops) const HIDDEN: f32 = -1e30;

/// Returns `[batch, length, heads * size]` as `[batch, heads, length, size]`.
pub(in crate::ops) fn split_heads(value: Expr, heads: i64) -> Expr {
    value.reshape(&[0, 0, heads, -1]).transpose(&[0, 2, 1, 3])
}

/// The inverse of [`split_heads`].
pub(in crate::ops) fn merge_heads(value: Expr) -> Expr {
    value.transpose(&[0, 2, 1, 3]).reshape(&[0, 0, -1])
}

/// Returns the scores, each smoothly bounded by `cap` if that is positive.
pub(in crate::ops) fn capped(scores: Expr, cap: f32) -> Expr {
    if cap > 0.0 { (scores / cap).tanh() * cap } else { scores }
}

/// Returns the term that hides the keys for which `seen` is 0, and keeps those for which it is 1.
pub(in crate::ops) fn hide_unseen(seen: Expr) -> Expr {
    (seen - 1.0) * -HIDDEN
}
