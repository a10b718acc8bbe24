//! `y = (x - mean(x)) / sqrt(mean((x - mean(x)) ^ 2) + epsilon)`
//!
//! becomes `InstanceNormalization(x)` if the means are of all axes but batch and channels, and
//! `LayerNormalization(x)` if not.
//!
//! `y = x / sqrt(mean(x ^ 2) + epsilon)`
//!
//! becomes `RMSNormalization(x)`.
//!
//! The normalized sizes must be known. Axes that are not the last ones are moved there by Transposes. Scale
//! and bias after the normalization become its parameters by [`affine`](super::affine).

use std::collections::BTreeSet;

use super::matcher::{Found, Matcher, fuse, to_f32, two};
use super::terms::{over_root, reduced, squared};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::inverse;

/// A normalization without scale and bias.
struct Parts {
    x: ValueId,
    /// The normalized axes, sorted.
    axes: Vec<usize>,
    rank: usize,
    epsilon: f64,
    /// Whether the mean is subtracted.
    centered: bool,
}

pub(crate) fn fuse_layer_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |matcher, node| find(matcher, node).filter(|found| found.parts.centered), build)
}

pub(crate) fn fuse_rms_norm(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |matcher, node| find(matcher, node).filter(|found| !found.parts.centered), build)
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Parts>> {
    let y = node.output(0)?;
    let mut inner = BTreeSet::new();
    let (dividend, sum) = over_root(matcher, node, &mut inner)?;
    let (mean, epsilon) = matcher.with_scalar(matcher.made_by(sum, "Add")?)?;
    let (square, axes) = reduced(matcher, mean, "ReduceMean")?;
    let base = squared(matcher, square)?;
    inner.extend([sum, mean, square]);
    let (x, centered) = match (centered(matcher, dividend, &axes), centered(matcher, base, &axes)) {
        // The mean may be computed twice.
        (Some((x, mean)), Some((other, other_mean))) if x == other => {
            inner.extend([dividend, base, mean, other_mean]);
            (x, true)
        }
        _ if dividend == base => (dividend, false),
        _ => return None,
    };
    let shape = matcher.shape(x)?;
    let is_known = axes.iter().all(|axis| shape.get(*axis).is_some_and(|size| size.known().is_some()));
    let parts = Parts { x, axes, rank: shape.len(), epsilon, centered };
    (is_known && matcher.alike(x, y) && epsilon > 0.0).then_some(Found { inner, parts })
}

/// `x` and `mean(x)`, if a value is `x - mean(x)` along these axes.
fn centered(matcher: &Matcher, value: ValueId, axes: &[usize]) -> Option<(ValueId, ValueId)> {
    let [x, mean] = two(matcher.made_by(value, "Sub")?)?;
    let (of, along) = reduced(matcher, mean, "ReduceMean")?;
    (of == x && along == axes).then_some((x, mean))
}

fn build<'b>(made: &'b Builder<'b>, parts: Parts) -> Result<Expr<'b>> {
    let Parts { x, axes, rank, epsilon, centered } = parts;
    let (x, epsilon) = (made.value(x), ("epsilon", to_f32(epsilon).into()));
    let is_spatial = rank >= 4 && axes.iter().copied().eq(2..rank);
    let channels = x.sizes().get(1).copied().flatten();
    if let Some(channels) = channels.filter(|_| centered && is_spatial) {
        let (scale, bias) = (x.filled(1.0, &[channels]), x.filled(0.0, &[channels]));
        return Ok(made.op("InstanceNormalization", [x, scale, bias], [epsilon]));
    }
    // A scale of one element adds no weight to the net.
    let scale = x.filled(1.0, &[1]);
    let op_type = if centered { "LayerNormalization" } else { "RMSNormalization" };
    let attributes = [("axis", (-i64::try_from(axes.len())?).into()), epsilon];
    if axes.iter().copied().eq(rank - axes.len()..rank) {
        return Ok(made.op(op_type, [x, scale], attributes));
    }
    let mut perm: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    perm.extend(&axes);
    Ok(made.op(op_type, [x.transpose(&perm), scale], attributes).transpose(&inverse(&perm)))
}
