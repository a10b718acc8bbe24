//! Poolings.
//!
//! Channels are independent, so a batch is merged into them. A dilated window covers every n-th element: the
//! axis is split in two, and the window slides along the outer one.
//! Spec: <https://onnx.ai/onnx/operators/onnx__MaxPool.html>, `onnx__AveragePool.html`, `onnx__LpPool.html`
//! and so on.

mod free;
mod indices;
mod lower;
mod lp;
pub(in crate::ops) mod taps;
mod windows;

use super::window::{Pads, Window, read_window};
use crate::ncnn::layer::pooling_type;
use crate::op::identity::same_shape;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("AveragePool", Access::Any, infer_pool)
        .batched(|_, index| index == 0)
        .lower(|lower| lower::lower_pool(lower, read_average(lower)?))
        .identity(has_unit_windows)
        .lowers_to("Pooling, Pooling1D, Pooling3D")
        .limits("over four axes or more"),
    Row::new("GlobalAveragePool", Access::Any, infer_global)
        .batched(|_, index| index == 0)
        .lower(|lower| lower::lower_global(lower, pooling_type::AVERAGE))
        .identity(same_shape)
        .lowers_to("Pooling"),
    Row::new("GlobalLpPool", Access::Any, |call| read_p(call).and_then(|_| infer_global(call)))
        .batched(|_, index| index == 0)
        .lower(lp::lower_global_lp)
        .lowers_to("Reduction of powers, UnaryOp"),
    Row::new("GlobalMaxPool", Access::Selection, infer_global)
        .batched(|_, index| index == 0)
        .lower(|lower| lower::lower_global(lower, pooling_type::MAX))
        .exact()
        .identity(same_shape)
        .lowers_to("Pooling"),
    Row::new("LpPool", Access::Any, |call| read_p(call).and_then(|_| infer_pool(call)))
        .batched(|_, index| index == 0)
        .lower(|lower| lower::lower_pool(lower, Kind::Lp { p: read_p(lower)? }))
        .lowers_to("Pooling of powers, UnaryOp")
        .limits("over four axes or more")
        .differs("windows whose sum overflows"),
    Row::new("MaxPool", Access::Selection, infer_max_pool)
        // Indices count the elements of the whole batch.
        .batched(|call, index| index == 0 && call.node().outputs.iter().flatten().count() == 1)
        .expand(indices::expand_max_pool)
        .lower(|lower| lower::lower_pool(lower, Kind::Max))
        .identity(has_unit_windows)
        .exact()
        .lowers_to(
            "Pooling, Pooling1D, Pooling3D; comparisons of each window element with the maxima for \
            Indices",
        )
        .limits(
            "over four axes or more; Indices of large windows, of 2^24 elements or more, or of sizes \
            known only at run time",
        )
        .further_range(range_indices)
        .differs("windows that contain only -inf, which become the least finite number"),
];

/// The function of the elements of a window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Max,
    Average {
        /// Whether the average includes the padding.
        count_include_pad: bool,
    },
    Lp {
        p: i64,
    },
}

struct Pool {
    kind: Kind,
    window: Window,
}

fn read_windows(call: &Call) -> Result<Window> {
    let kernel = call.ints("kernel_shape")?;
    let window = read_window(call, kernel)?;
    // onnxruntime ignores the dilations when it computes the padding.
    if matches!(window.pads, Pads::Same { .. }) && window.dilations.iter().any(|n| *n != 1) {
        unsupported!("auto_pad with dilations: onnxruntime and the specification disagree");
    }
    Ok(window)
}

fn read_average(call: &Call) -> Result<Kind> {
    // Elements that `ceil_mode` adds are not padding, and do not count.
    let pads = read_windows(call)?.pads;
    let is_bare = matches!(&pads, Pads::Explicit(pads) if pads.iter().all(|pad| *pad == (0, 0)));
    Ok(Kind::Average { count_include_pad: call.flag("count_include_pad")? && !is_bare })
}

/// Indices count the elements of the input.
fn range_indices(_: &Call, _: &[Range]) -> Range {
    // Refused beyond.
    Range { least: 0.0, ..Range::EXACT_INTEGERS }
}

/// Returns the exponent, which is a float in version 1.
fn read_p(call: &Call) -> Result<i64> {
    let p = if call.since() == 1 {
        let p = call.float("p")?;
        if p.fract() != 0.0 || !(1.0..=1024.0).contains(&p) {
            unsupported!("exponent p = {p}");
        }
        num_traits::AsPrimitive::as_(p)
    } else {
        call.int("p")?
    };
    if p < 1 {
        return Err(Error::invalid(format!("exponent p = {p} is not positive")));
    }
    Ok(p)
}

/// Returns the input if the windows are its elements.
fn has_unit_windows(graph: &Graph, node: &Node) -> Option<ValueId> {
    let data = same_shape(graph, node)?;
    let window = read_windows(&Call::of(graph, node)?.1).ok()?;
    Some(data).filter(|_| window.kernel.iter().chain(&window.strides).all(|n| *n == 1))
}

/// Splits the shape of the input into batch, channels and spatial axes.
fn split_shape(shape: &[Dim]) -> Result<(&Dim, &Dim, &[Dim])> {
    match shape {
        [batch, channels, spatial @ ..] if !spatial.is_empty() => Ok((batch, channels, spatial)),
        shape => Err(Error::invalid(format!("a pooling over an input of shape {}", display_shape(shape)))),
    }
}

fn infer_pool(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(0)?, pool_shape(call, call.shape(0)?)?)])
}

/// The elements and their indices.
fn infer_max_pool(call: &Call) -> Result<Vec<Fact>> {
    let shape = pool_shape(call, call.shape(0)?)?;
    Ok(vec![Fact::new(call.dtype(0)?, shape.clone()), Fact::new(DType::I64, shape)])
}

/// Returns the shape of the pooling of a value of shape `data`.
pub(in crate::ops) fn pool_shape(call: &Call, data: &[Dim]) -> Result<Vec<Dim>> {
    let (batch, channels, spatial) = split_shape(data)?;
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.extend(read_windows(call)?.output_sizes(spatial)?);
    Ok(shape)
}

fn infer_global(call: &Call) -> Result<Vec<Fact>> {
    let (batch, channels, spatial) = split_shape(call.shape(0)?)?;
    if spatial.iter().any(|size| size.is(0)) {
        invalid!("a pooling over an input without elements");
    }
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.resize(2 + spatial.len(), Dim::ONE);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}
