//! Which keys each query sees, and what is added to their scores.

use ndarray::{Array2, Array4, ArrayD, Axis, IxDyn};
use num_traits::AsPrimitive;

use super::scores::to_single;
use super::{AttentionAttributes, Sizes, input};
use crate::error::{At, Error, Result, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, zip_broadcast};

/// Added to the scores of keys that are not seen: finite, so that a query that sees none has no score without a number.
const HIDDEN: f32 = -1e30;

/// Most elements of a mask that is looked at here.
const MAX_MASK: i64 = 1 << 24;

/// 1 for each key that a query sees, else 0; broadcast to the scores.
enum Visible {
    Known(ArrayD<f32>),
    Computed(Operand),
}

/// What the masks do.
#[derive(Default)]
pub(super) struct Bias {
    /// Added to the scores.
    pub added: Vec<Operand>,
    /// 1 for each query that sees a key, a column; none where all do.
    pub rows: Option<Operand>,
    /// Added to scores that are an output: with infinities. None for truth values that are computed at run time.
    pub infinite: Option<Vec<Operand>>,
}

/// The mask that is given.
struct Mask {
    visible: Visible,
    /// Numbers to be added: without infinities, and with them.
    numbers: Option<(Operand, Operand)>,
}

/// All masks of a node together.
pub(super) fn read_bias(expand: &mut Expand, attention: &AttentionAttributes, sizes: &Sizes) -> Result<Bias> {
    let mut visible = structure(expand, attention, sizes)?;
    let mut bias = Bias { infinite: infinite(expand, visible.as_ref())?, ..Bias::default() };
    if expand.has_input(input::ATTN_MASK) {
        let mask = read_mask(expand, sizes)?;
        let of_mask = match mask.numbers {
            Some((finite, with_infinities)) => {
                bias.added.push(finite);
                Some(vec![with_infinities])
            }
            None => infinite(expand, Some(&mask.visible))?,
        };
        bias.infinite = bias.infinite.zip(of_mask).map(|(a, b)| [a, b].concat());
        visible = Some(match visible {
            None => mask.visible,
            Some(other) => both(expand, other, mask.visible)?,
        });
    }
    match visible {
        None => {}
        Some(Visible::Known(visible)) => {
            let last = Axis(visible.ndim().max(1) - 1);
            let seen = visible.map_axis(last, |row| row.iter().copied().fold(0.0, f32::max));
            if seen.iter().any(|seen| *seen == 0.0) {
                bias.rows = Some(literal(expand, seen.insert_axis(last))?);
            }
            if visible.iter().any(|seen| *seen == 0.0) {
                bias.added
                    .push(literal(expand, visible.mapv(|seen| if seen == 0.0 { HIDDEN } else { 0.0 }))?);
            }
        }
        Some(Visible::Computed(visible)) => {
            let axis = expand.ints(&[-1])?;
            bias.rows = Some(expand.op("ReduceMax", &[visible, axis], &[("keepdims", Attribute::Int(1))])?);
            let one = number(expand, 1.0)?;
            let hidden = expand.op("Sub", &[visible, one], &[])?;
            let by = number(expand, -HIDDEN)?;
            bias.added.push(expand.op("Mul", &[hidden, by], &[])?);
        }
    }
    Ok(bias)
}

/// Minus infinity for each key that is not seen.
fn infinite(expand: &mut Expand, visible: Option<&Visible>) -> Result<Option<Vec<Operand>>> {
    match visible {
        None => Ok(Some(Vec::new())),
        Some(Visible::Known(visible)) => {
            let hidden = visible.mapv(|seen| if seen == 0.0 { f32::NEG_INFINITY } else { 0.0 });
            Ok(Some(vec![literal(expand, hidden)?]))
        }
        Some(Visible::Computed(_)) => Ok(None),
    }
}

/// A constant of singles, in which the node is computed whatever its type is.
fn literal(expand: &mut Expand, elements: ArrayD<f32>) -> Result<Operand> {
    expand.literal(&Array::f32(elements))
}

pub(super) fn number(expand: &mut Expand, x: f32) -> Result<Operand> {
    literal(expand, ArrayD::from_elem(IxDyn(&[]), x))
}

fn both(expand: &mut Expand, a: Visible, b: Visible) -> Result<Visible> {
    let computed = |expand: &mut Expand, visible: Visible| match visible {
        Visible::Known(elements) => literal(expand, elements),
        Visible::Computed(operand) => Ok(operand),
    };
    if let (Visible::Known(a), Visible::Known(b)) = (&a, &b) {
        return Ok(Visible::Known(zip_broadcast(a, b, |a, b| a * b)?));
    }
    let (a, b) = (computed(expand, a)?, computed(expand, b)?);
    Ok(Visible::Computed(expand.op("Mul", &[a, b], &[])?))
}

/// The mask that is given: truth values say what is seen; numbers are added, and those of minus infinity hide.
fn read_mask(expand: &mut Expand, sizes: &Sizes) -> Result<Mask> {
    let shape = expand.shape(input::ATTN_MASK)?.to_vec();
    let is_bool = expand.dtype(input::ATTN_MASK)? == DType::Bool;
    let last = shape.last().cloned().unwrap_or(Dim::Known(1));
    let padding = sizes.total()?.sub(&last)?;
    let padding = match padding.known() {
        Some(n) => usize::try_from(n)?,
        None => unsupported!("a mask of {last} keys for {}", sizes.total()?),
    };
    if let Some(tensor) = expand.constant(input::ATTN_MASK) {
        let mut mask = tensor.load()?.to_f32()?;
        if mask.ndim() == 0 {
            mask = mask.insert_axis(Axis(0));
        }
        let mut wide = mask.shape().to_vec();
        if let Some(last) = wide.last_mut() {
            *last = padding;
        }
        let fill = ArrayD::from_elem(IxDyn(&wide), if is_bool { 0.0 } else { f32::NEG_INFINITY });
        let mask = ndarray::concatenate(Axis(wide.len() - 1), &[mask.view(), fill.view()])?;
        if is_bool {
            return Ok(Mask { visible: Visible::Known(mask), numbers: None });
        }
        let visible = mask.mapv(|x| if x == f32::NEG_INFINITY { 0.0 } else { 1.0 });
        let finite = mask.mapv(|x| x.max(f32::MIN));
        let numbers = Some((literal(expand, finite)?, literal(expand, mask)?));
        return Ok(Mask { visible: Visible::Known(visible), numbers });
    }
    let mask = expand.operand(input::ATTN_MASK)?;
    let mut mask = to_single(expand, mask)?;
    if padding > 0 {
        let mut wide = Vec::with_capacity(shape.len());
        for size in &shape {
            let size =
                size.known().ok_or_else(|| Error::unsupported("a mask that is padded and not fixed"))?;
            wide.push(usize::try_from(size)?);
        }
        if let Some(last) = wide.last_mut() {
            *last = padding;
        }
        let fill = ArrayD::from_elem(IxDyn(&wide), if is_bool { 0.0 } else { f32::NEG_INFINITY });
        let fill = literal(expand, fill)?;
        mask = expand.op("Concat", &[mask, fill], &[("axis", Attribute::Int(-1))])?;
    }
    if is_bool {
        return Ok(Mask { visible: Visible::Computed(mask), numbers: None });
    }
    // Halves, so that the lowest finite number stays above the bound and infinity below it.
    let (half, lowest) = (number(expand, 0.5)?, number(expand, f32::MIN)?);
    let halves = expand.op("Mul", &[mask, half], &[])?;
    let visible = expand.op("Greater", &[halves, lowest], &[])?;
    let visible = to_single(expand, visible)?;
    let finite = expand.op("Max", &[mask, lowest], &[])?;
    Ok(Mask { visible: Visible::Computed(visible), numbers: Some((finite, mask)) })
}

/// A bound on the number of keys that are valid: at least, or at most, what is computed for a query and a key.
#[derive(Clone, Copy)]
enum Bound {
    AtLeast(i64),
    AtMost(i64),
}

/// What `is_causal`, the window and the number of valid keys let a query see. With `n` valid keys the query `i` of `q` stands at
/// `i + n - q`.
fn structure(expand: &mut Expand, attention: &AttentionAttributes, sizes: &Sizes) -> Result<Option<Visible>> {
    let counted = expand.has_input(input::NONPAD_KV_SEQLEN);
    let windowed = attention.is_causal || attention.left_window.is_some() || attention.right_window.is_some();
    if !counted && !windowed {
        return Ok(None);
    }
    let (Some(queries), Some(keys), Some(past)) =
        (sizes.queries.known(), sizes.total()?.known(), sizes.past.known())
    else {
        return Err(
            Error::unsupported("a mask over lengths that are not fixed").help("fix them with --input-shape")
        );
    };
    if queries.saturating_mul(keys) > MAX_MASK {
        unsupported!("a mask of {queries} by {keys}");
    }
    // Each bound as a matrix over queries and keys.
    let mut bounds: Vec<Box<dyn Fn(i64, i64) -> Bound>> = Vec::new();
    if attention.is_causal {
        bounds.push(Box::new(move |i, j| Bound::AtLeast(j - i + queries)));
    }
    if let Some(left) = attention.left_window {
        bounds.push(Box::new(move |i, j| Bound::AtMost(left.saturating_add(queries + j - i))));
    }
    if let Some(right) = attention.right_window {
        bounds.push(Box::new(move |i, j| Bound::AtLeast((j - i + queries).saturating_sub(right))));
    }
    if counted {
        bounds.push(Box::new(|_, j| Bound::AtLeast(j + 1)));
    }
    let counts = match counted {
        false => Some(vec![past + queries]),
        true => expand.int_list(input::NONPAD_KV_SEQLEN).ok(),
    };
    let (rows, columns) = (usize::try_from(queries)?, usize::try_from(keys)?);
    if let Some(counts) = counts {
        let holds = |n: i64, bound: Bound| match bound {
            Bound::AtLeast(least) => n >= least,
            Bound::AtMost(most) => n <= most,
        };
        let visible = Array4::from_shape_fn((counts.len(), 1, rows, columns), |(b, _, i, j)| {
            let n = counts.get(b).copied().unwrap_or(0);
            let all = bounds.iter().all(|bound| holds(n, bound(i.as_(), j.as_())));
            if all { 1.0 } else { 0.0 }
        });
        let visible = visible.into_dyn();
        let visible =
            if counted { visible } else { visible.into_shape_with_order(IxDyn(&[rows, columns]))? };
        return Ok(Some(Visible::Known(visible)));
    }
    let batch = expand.shape(input::NONPAD_KV_SEQLEN)?.at(0)?.known().unwrap_or(-1);
    let (n, shape) = (expand.operand(input::NONPAD_KV_SEQLEN)?, expand.ints(&[batch, 1, 1, 1])?);
    let n = to_single(expand, n)?;
    let n = expand.op("Reshape", &[n, shape], &[])?;
    let mut visible = None;
    for bound in bounds {
        let size = |bound: Bound| -> f32 {
            let (Bound::AtLeast(n) | Bound::AtMost(n)) = bound;
            n.as_()
        };
        let matrix = Array2::from_shape_fn((rows, columns), |(i, j)| size(bound(i.as_(), j.as_())));
        let matrix = literal(expand, matrix.into_dyn())?;
        let name = match bound(0, 0) {
            Bound::AtLeast(_) => "GreaterOrEqual",
            Bound::AtMost(_) => "LessOrEqual",
        };
        let holds = expand.op(name, &[n, matrix], &[])?;
        let holds = Visible::Computed(to_single(expand, holds)?);
        visible = Some(match visible {
            None => holds,
            Some(other) => both(expand, other, holds)?,
        });
    }
    Ok(visible)
}
