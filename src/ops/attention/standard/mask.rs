//! Masks: the keys that each query sees, and the terms added to the scores.

use ndarray::{ArrayD, Axis, IxDyn};

use super::window::structure;
use super::{AttentionAttributes, input};
use crate::ops::attention::parts::{HIDDEN, Sizes, hide_unseen, is_finite};
use crate::ops::prelude::*;
use crate::tensor::zip_broadcast;

/// 1 for each key that a query sees, otherwise 0; broadcast to the scores.
pub(super) enum Visible<'x> {
    Known(ArrayD<f32>),
    Computed(Expr<'x>),
}

/// The effect of the masks.
#[derive(Default)]
pub(super) struct Bias<'x> {
    /// Added to the scores.
    pub added: Vec<Expr<'x>>,
    /// 1 for each query that sees a key, as a column; `None` if all do.
    pub rows: Option<Expr<'x>>,
    /// Whether the weights of a query that sees no key are NaN, which stand for 0.
    pub leaves_nan: bool,
    /// Added to scores that are an output: with infinities. `None` for booleans computed at run time.
    pub infinite: Option<Vec<Expr<'x>>>,
}

/// The mask in the input.
struct Mask<'x> {
    /// `None` if it hides nothing: if none of its terms is infinite.
    visible: Option<Visible<'x>>,
    /// The terms to be added: without infinities, and with them.
    numbers: Option<(Expr<'x>, Expr<'x>)>,
}

/// Combines all masks of a node.
pub(super) fn read_bias<'x>(
    expand: &'x Expand,
    attention: &AttentionAttributes,
    sizes: &Sizes,
) -> Result<Bias<'x>> {
    let mut visible = structure(expand, attention, sizes)?;
    let mut bias = Bias { infinite: infinite(expand, visible.as_ref()), ..Bias::default() };
    let mut each_sees_itself = sizes.queries == sizes.keys && !expand.has_input(input::NONPAD_KV_SEQLEN);
    if let Some(mask) = cached_mask(expand, sizes)? {
        bias.added.push(mask);
        bias.infinite = bias.infinite.map(|terms| [terms, vec![mask]].concat());
        bias.leaves_nan = true;
    } else if expand.has_input(input::ATTN_MASK) {
        let mask = read_mask(expand, sizes)?;
        each_sees_itself &= mask.visible.is_none();
        let of_mask = match mask.numbers {
            Some((finite, with_infinities)) => {
                bias.added.push(finite);
                Some(vec![with_infinities])
            }
            None => infinite(expand, mask.visible.as_ref()),
        };
        bias.infinite = bias.infinite.zip(of_mask).map(|(a, b)| [a, b].concat());
        visible = both(expand, visible, mask.visible)?;
    }
    match visible {
        None => {}
        Some(Visible::Known(visible)) => {
            let last = Axis(visible.ndim().max(1) - 1);
            let seen = visible.map_axis(last, |row| row.iter().copied().fold(0.0, f32::max));
            if seen.iter().any(|seen| *seen == 0.0) {
                bias.rows = Some(literal(expand, seen.insert_axis(last)));
                let hidden = visible.mapv(|seen| if seen == 0.0 { HIDDEN } else { 0.0 });
                bias.added.push(literal(expand, hidden));
            } else if visible.iter().any(|seen| *seen == 0.0) {
                bias.added.push(hide_from_some(literal(expand, visible)));
            }
        }
        Some(Visible::Computed(visible)) => {
            if each_sees_itself {
                bias.added.push(hide_from_some(visible));
            } else {
                bias.rows = Some(visible.reduce("ReduceMax", &[-1], true));
                bias.added.push(hide_unseen(visible));
            }
        }
    }
    Ok(bias)
}

/// Like [`hide_unseen`], if each query sees a key: then infinity hides others, too, and the cast ends the
/// search for values beyond half precision.
fn hide_from_some(visible: Expr) -> Expr {
    hide_unseen(visible).cast(DType::F32)
}

/// Returns the mask in the input with infinities, which the attention to a cache of the runtime takes as it
/// is.
fn cached_mask<'x>(expand: &'x Expand, sizes: &Sizes) -> Result<Option<Expr<'x>>> {
    if !expand.keeps_cache() || !expand.has_input(input::ATTN_MASK) || !expand.has_input(input::PAST_KEY) {
        return Ok(None);
    }
    if expand.shape(input::ATTN_MASK)?.last() != Some(&sizes.total()) {
        return Ok(None);
    }
    if expand.dtype(input::ATTN_MASK)? != DType::Bool {
        return Ok(Some(expand.operand(input::ATTN_MASK).cast(DType::F32)));
    }
    let seen = expand.make.number(0.0, DType::F32);
    Ok(Some(expand.operand(input::ATTN_MASK).select(seen, f32::NEG_INFINITY)))
}

/// Returns -inf for each hidden key; `None` for booleans computed at run time.
fn infinite<'x>(expand: &'x Expand, visible: Option<&Visible<'x>>) -> Option<Vec<Expr<'x>>> {
    match visible {
        None => Some(Vec::new()),
        Some(Visible::Known(visible)) => {
            let hidden = visible.mapv(|seen| if seen == 0.0 { f32::NEG_INFINITY } else { 0.0 });
            Some(vec![literal(expand, hidden)])
        }
        Some(Visible::Computed(_)) => None,
    }
}

/// Adds a float32 constant: the node is computed in float32 whatever its type is.
fn literal<'x>(expand: &'x Expand, elements: ArrayD<f32>) -> Expr<'x> {
    expand.make.literal(&Array::f32(elements))
}

/// Returns the keys that both masks show; the keys of one mask if the other hides nothing.
pub(super) fn both<'x>(
    expand: &'x Expand,
    a: Option<Visible<'x>>,
    b: Option<Visible<'x>>,
) -> Result<Option<Visible<'x>>> {
    let (a, b) = match (a, b) {
        (Some(a), Some(b)) => (a, b),
        (a, b) => return Ok(a.or(b)),
    };
    if let (Visible::Known(a), Visible::Known(b)) = (&a, &b) {
        return Ok(Some(Visible::Known(zip_broadcast(a, b, |a, b| a * b)?)));
    }
    let [a, b] = [a, b].map(|visible| match visible {
        Visible::Known(elements) => literal(expand, elements),
        Visible::Computed(computed) => computed,
    });
    Ok(Some(Visible::Computed(a * b)))
}

/// Returns the mask of the input: true booleans show a key; numbers are added, and -inf hides a key.
fn read_mask<'x>(expand: &'x Expand, sizes: &Sizes) -> Result<Mask<'x>> {
    let shape = expand.shape(input::ATTN_MASK)?.to_vec();
    let is_bool = expand.dtype(input::ATTN_MASK)? == DType::Bool;
    let last = shape.last().cloned().unwrap_or(Dim::ONE);
    let padding = match (sizes.total() - &last).known() {
        Some(padding) => usize::try_from(padding)?,
        None => {
            expand.require_equal(&sizes.total(), &last)?;
            0
        }
    };
    let hidden = if is_bool { 0.0 } else { f32::NEG_INFINITY };
    if let Some(tensor) = expand.constant(input::ATTN_MASK) {
        let mut mask = tensor.load_listed()?.to_f32()?;
        if mask.ndim() == 0 {
            mask = mask.insert_axis(Axis(0));
        }
        let fill = padding_of(mask.shape(), padding, hidden);
        let mask = ndarray::concatenate(Axis(mask.ndim() - 1), &[mask.view(), fill.view()])?;
        if is_bool {
            return Ok(Mask { visible: Some(Visible::Known(mask)), numbers: None });
        }
        let hides = mask.iter().any(|x| *x == f32::NEG_INFINITY);
        let visible = mask.mapv(|x| if x == f32::NEG_INFINITY { 0.0 } else { 1.0 });
        let finite = mask.mapv(|x| x.max(f32::MIN));
        let numbers = Some((literal(expand, finite), literal(expand, mask)));
        return Ok(Mask { visible: hides.then_some(Visible::Known(visible)), numbers });
    }
    let mut mask = expand.operand(input::ATTN_MASK).cast(DType::F32);
    if padding > 0 {
        let known: Option<Vec<usize>> = Dim::known_sizes(&shape);
        let known = known.ok_or_else(|| Error::unsupported("a padded mask of free size"))?;
        let fill = literal(expand, padding_of(&known, padding, hidden));
        mask = expand.make.concat(&[mask, fill], -1);
    }
    if is_bool {
        return Ok(Mask { visible: Some(Visible::Computed(mask)), numbers: None });
    }
    if padding == 0 && is_finite(expand, input::ATTN_MASK) {
        return Ok(Mask { visible: None, numbers: Some((mask, mask)) });
    }
    // Half of the bound, so that the lowest finite number is above it and -inf below it.
    let visible = Visible::Computed((mask * 0.5).greater(f32::MIN).cast(DType::F32));
    Ok(Mask { visible: Some(visible), numbers: Some((mask.maximum(f32::MIN), mask)) })
}

/// Returns the padding of a mask that ends before the last key.
fn padding_of(shape: &[usize], padding: usize, hidden: f32) -> ArrayD<f32> {
    let mut shape = shape.to_vec();
    if let Some(last) = shape.last_mut() {
        *last = padding;
    }
    ArrayD::from_elem(IxDyn(&shape), hidden)
}
