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
use std::sync::LazyLock;

use super::matcher::{Found, Matcher, fuse, to_f32};
use super::terms::{OVER_ROOT, reduced_axes};
use super::text::{Bound, Pattern};
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::inverse;

static VARIANCE: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::of("Add(mean = ReduceMean(Pow(base, 2) | Mul(base, base)), epsilon)"));
// The mean may be computed twice.
static DIVIDEND: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::of("Sub(x, mean_of_dividend = ReduceMean(x))"));
static BASE: LazyLock<Pattern> = LazyLock::new(|| Pattern::of("Sub(x, mean_of_base = ReduceMean(x))"));

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
    let quotients = OVER_ROOT.matches(matcher, y);
    let continued = |found: &Bound| Some(VARIANCE.continued(matcher, found.value("squares")?, found));
    quotients.iter().filter_map(continued).flatten().find_map(|found| {
        let [dividend, base, mean, epsilon] = found.values(["dividend", "base", "mean", "epsilon"])?;
        let (axes, epsilon) = (reduced_axes(matcher, mean)?, matcher.scalar(epsilon)?);
        let (x, centered, inner) = match centered(matcher, dividend, base, &axes, &found) {
            Some((x, inner)) => (x, true, inner),
            None => (dividend, false, found.inner),
        };
        let shape = matcher.shape(x)?;
        let is_known = axes.iter().all(|axis| shape.get(*axis).is_some_and(|size| size.known().is_some()));
        let fits = (centered || dividend == base) && matcher.alike(x, y) && epsilon > 0.0;
        let parts = Parts { x, axes, rank: shape.len(), epsilon, centered };
        (is_known && fits).then_some(Found { inner, parts })
    })
}

/// `x`, if both values are `x - mean(x)` along these axes, and the values inside of the pattern.
fn centered(
    matcher: &Matcher,
    dividend: ValueId,
    base: ValueId,
    axes: &[usize],
    found: &Bound,
) -> Option<(ValueId, BTreeSet<ValueId>)> {
    let found = DIVIDEND.continued(matcher, dividend, found).pop()?;
    let found = BASE.continued(matcher, base, &found).pop()?;
    let [x, a, b] = found.values(["x", "mean_of_dividend", "mean_of_base"])?;
    let is_along = |mean: &ValueId| reduced_axes(matcher, *mean).as_deref() == Some(axes);
    [a, b].iter().all(is_along).then_some((x, found.inner))
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
    let attributes = [("axis", (-axes.len().int()).into()), epsilon];
    if axes.iter().copied().eq(rank - axes.len()..rank) {
        return Ok(made.op(op_type, [x, scale], attributes));
    }
    let mut perm: Vec<usize> = (0..rank).filter(|axis| !axes.contains(axis)).collect();
    perm.extend(&axes);
    Ok(made.op(op_type, [x.transpose(&perm), scale], attributes).transpose(&inverse(&perm)))
}
