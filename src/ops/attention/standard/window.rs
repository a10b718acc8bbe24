//! Masks from the positions of queries and keys, and from the number of valid keys.

use ndarray::{Array2, Array4, IxDyn};
use num_traits::AsPrimitive;

use super::mask::{Visible, both};
use super::{AttentionAttributes, input};
use crate::ops::attention::parts::Sizes;
use crate::ops::attention::positions::Positions;
use crate::ops::prelude::*;

/// The maximum number of elements of a constant mask.
const MAX_MASK: i64 = 1 << 24;

/// A bound on the number of valid keys: with `n` of them, query `i` of `q` is at position `i + n - q`.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(i64),
    AtMost(i64),
}

impl Bound {
    /// Returns whether a number of valid keys is within the bound.
    fn contains(self, n: i64) -> bool {
        match self {
            Bound::AtLeast(least) => n >= least,
            Bound::AtMost(most) => n <= most,
        }
    }
}

/// The bound for which a query, the first number, sees a key.
type Rule = Box<dyn Fn(i64, i64) -> Bound>;

/// Returns the rules that are all met if a query sees a key. `counted`: one is the number of valid keys.
fn rules(attention: &AttentionAttributes, queries: i64, counted: bool) -> Vec<Rule> {
    let mut rules: Vec<Rule> = Vec::new();
    if attention.is_causal {
        rules.push(Box::new(move |i, j| Bound::AtLeast(j - i + queries)));
    }
    if let Some(left) = attention.left_window {
        rules.push(Box::new(move |i, j| Bound::AtMost((j - i + queries).saturating_add(left))));
    }
    if let Some(right) = attention.right_window {
        rules.push(Box::new(move |i, j| Bound::AtLeast((j - i + queries).saturating_sub(right))));
    }
    if counted {
        rules.push(Box::new(|_, j| Bound::AtLeast(j + 1)));
    }
    rules
}

/// Returns the mask of `is_causal`, the window and the number of valid keys; `None` if it hides nothing.
pub(super) fn structure<'x>(
    expand: &'x Expand,
    attention: &AttentionAttributes,
    sizes: &Sizes,
) -> Result<Option<Visible<'x>>> {
    let counted = expand.has_input(input::NONPAD_KV_SEQLEN);
    if !counted && !attention.is_causal && attention.left_window.is_none() && attention.right_window.is_none()
    {
        return Ok(None);
    }
    let known = sizes.queries.known().zip(sizes.total().known()).zip(sizes.past.known());
    let fits = |((queries, keys), _): &((i64, i64), i64)| queries.saturating_mul(*keys) <= MAX_MASK;
    let Some(((queries, keys), past)) = known.filter(fits) else {
        if counted {
            unsupported!(
                "a number of valid keys of free lengths, or of more than {MAX_MASK} pairs with queries"
            );
        }
        return Ok(free(expand, attention, sizes));
    };
    let rules = rules(attention, queries, counted);
    let (rows, columns) = (usize::try_from(queries)?, usize::try_from(keys)?);
    let counts = match counted {
        false => Some(vec![past.saturating_add(queries)]),
        true => expand.int_list(input::NONPAD_KV_SEQLEN).ok(),
    };
    let Some(counts) = counts else { return computed(expand, &rules, [rows, columns]) };
    let visible = Array4::from_shape_fn((counts.len(), 1, rows, columns), |(b, _, i, j)| {
        let n = counts.get(b).copied().unwrap_or(0);
        let all = rules.iter().all(|rule| rule(i.as_(), j.as_()).contains(n));
        if all { 1.0 } else { 0.0 }
    });
    let visible = visible.into_dyn();
    let visible = if counted { visible } else { visible.into_shape_with_order(IxDyn(&[rows, columns]))? };
    Ok(Some(Visible::Known(visible)))
}

/// Returns the mask for free lengths, or large ones.
fn free<'x>(expand: &'x Expand, attention: &AttentionAttributes, sizes: &Sizes) -> Option<Visible<'x>> {
    let axis = if sizes.merged { 1 } else { 2 };
    let positions = Positions::of(expand, (input::Q, axis), (input::K, axis), (input::PAST_KEY, 2));
    let causal = attention.is_causal.then_some(0);
    let after = [causal, attention.right_window].into_iter().flatten().min();
    let near = positions.near(attention.left_window, after);
    near.map(|near| Visible::Computed(near.cast(DType::F32)))
}

/// Returns the mask for a number of valid keys computed at run time.
fn computed<'x>(expand: &'x Expand, rules: &[Rule], sizes: [usize; 2]) -> Result<Option<Visible<'x>>> {
    let batch = expand.shape(input::NONPAD_KV_SEQLEN)?.at(0)?.known().unwrap_or(-1);
    let n = expand.operand(input::NONPAD_KV_SEQLEN).cast(DType::F32).reshape(&[batch, 1, 1, 1]);
    let mut visible = None;
    for rule in rules {
        let size = |i: usize, j: usize| -> f32 {
            let (Bound::AtLeast(n) | Bound::AtMost(n)) = rule(i.as_(), j.as_());
            n.as_()
        };
        let matrix = Array2::from_shape_fn(sizes, |(i, j)| size(i, j));
        let matrix = expand.make.literal(&Array::f32(matrix.into_dyn()));
        let is_met = match rule(0, 0) {
            Bound::AtLeast(_) => n.greater_or_equal(matrix),
            Bound::AtMost(_) => n.less_or_equal(matrix),
        };
        visible = both(expand, visible, Some(Visible::Computed(is_met.cast(DType::F32))))?;
    }
    Ok(visible)
}
