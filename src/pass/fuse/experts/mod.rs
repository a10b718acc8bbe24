//! Mixtures of experts: functions of the same form with separate weights, of which each token chooses
//! some. They are computed for all experts, and weighted; the weights of those that are not chosen are 0.
//!
//! `y[t] = sum_j w[t, j] * (B[i[t, j]] f(A[i[t, j]] x[t]))` with matrices gathered for each choice `j`, where
//! `f` maps elements
//!
//! becomes two products with the matrices of all experts, `y = [B0 B1 ..] (r * f([A0; A1; ..] x))`, where
//! `r[t, e]` is the weight of expert `e`.
//!
//! `y = sum_e scatter(f_e(gather(x, t_e)) * gather(w, t_e, j_e))` with the tokens and choices of each expert,
//! from the positions of its number among the indices of a TopK
//!
//! becomes `y = sum_e f_e(x) * r_e`.

mod gathered;
mod rows;
mod scattered;

pub(super) use gathered::fuse_gathered_experts;
pub(super) use scattered::fuse_scattered_experts;

use super::matcher::Matcher;
use crate::graph::ValueId;
use crate::op;
use crate::pass::builder::{Builder, Expr};

/// The choices of tokens among experts.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Choices {
    /// The indices of the experts, a row for each token.
    indices: ValueId,
    /// The weights, in the same order.
    weights: ValueId,
    /// The number of choices of a token.
    choices: i64,
    experts: i64,
}

impl Choices {
    /// Returns the weight of each expert for each token, for which all experts take `multiply_adds`.
    fn expert_weights<'b>(&self, made: &'b Builder<'b>, multiply_adds: i64) -> Expr<'b> {
        let by_token = |id: ValueId| made.value(id).reshape(&[-1, self.choices]);
        let attributes = [("experts", self.experts.into()), ("multiply_adds", multiply_adds.into())];
        made.op("ncnn.ExpertWeights", [by_token(self.indices), by_token(self.weights)], attributes)
    }
}

/// Returns the value of which another is a view.
fn viewed(matcher: &Matcher, value: ValueId) -> Option<ValueId> {
    op::viewed(matcher.producer(value)?)
}
