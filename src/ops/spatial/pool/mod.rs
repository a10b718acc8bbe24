//! Poolings.
//!
//! Channels are independent, so a batch is merged into them. A dilated window covers every n-th element: the
//! axis is split in two, and the window slides along the outer one.
//! Spec: <https://onnx.ai/onnx/operators/onnx__MaxPool.html>, `onnx__AveragePool.html`, `onnx__LpPool.html`
//! and so on.

mod indices;
mod lower;
mod lp;
mod windows;

use super::window::{Pads, Window, read_window};
use crate::op::identity::same_shape;
use crate::op::{self};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("AveragePool", Access::Any, infer_pool)
        .batched(|_, index| index == 0)
        .lower(lower::lower_pool)
        .identity(has_unit_windows)
        .lowers_to("Pooling, Pooling1D, Pooling3D")
        .limits("over four axes or more"),
    Row::new("GlobalAveragePool", Access::Any, infer_global)
        .batched(|_, index| index == 0)
        .lower(lower::lower_global)
        .identity(same_shape)
        .lowers_to("Pooling"),
    Row::new("GlobalLpPool", Access::Any, infer_global)
        .batched(|_, index| index == 0)
        .lower(lp::lower_global_lp)
        .lowers_to("Reduction of powers, UnaryOp"),
    Row::new("GlobalMaxPool", Access::Selection, infer_global)
        .batched(|_, index| index == 0)
        .lower(lower::lower_global)
        .exact()
        .identity(same_shape)
        .lowers_to("Pooling"),
    Row::new("LpPool", Access::Any, infer_pool)
        .batched(|_, index| index == 0)
        .lower(lower::lower_pool)
        .lowers_to("Pooling of powers, UnaryOp")
        .limits("over four axes or more")
        .differs("windows whose sum overflows"),
    Row::new("MaxPool", Access::Selection, infer_pool)
        // Indices count the elements of the whole batch.
        .batched(|call, index| index == 0 && call.node().outputs.iter().flatten().count() == 1)
        .expand(indices::expand_max_pool)
        .lower(lower::lower_pool)
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
        .differs("windows of -inf alone, which become the least finite number"),
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

fn read_pool(attributes: &Attributes) -> Result<Pool> {
    let kernel = attributes.ints("kernel_shape")?;
    let window = read_window(attributes, kernel)?;
    // onnxruntime ignores the dilations when it computes the padding.
    if matches!(window.pads, Pads::Same { .. }) && window.dilations.iter().any(|n| *n != 1) {
        unsupported!("auto_pad with dilations: onnxruntime and the specification disagree");
    }
    let kind = match attributes.op_type() {
        "MaxPool" | "NhwcMaxPool" => Kind::Max,
        "AveragePool" | "QLinearAveragePool" => {
            // Elements that `ceil_mode` adds are no padding, and never counted.
            let is_bare =
                matches!(&window.pads, Pads::Explicit(pads) if pads.iter().all(|pad| *pad == (0, 0)));
            Kind::Average { count_include_pad: attributes.flag("count_include_pad")? && !is_bare }
        }
        _ => Kind::Lp { p: read_p(attributes)? },
    };
    Ok(Pool { kind, window })
}

/// Indices count the elements of the input.
fn range_indices(_: &Call, _: &[Range]) -> Range {
    // Refused beyond.
    Range { least: 0.0, ..Range::EXACT_INTEGERS }
}

/// Returns the exponent, which is a float in version 1.
fn read_p(attributes: &Attributes) -> Result<i64> {
    let p = if attributes.since() == 1 {
        let p = attributes.float("p")?;
        if p.fract() != 0.0 || !(1.0..=1024.0).contains(&p) {
            unsupported!("exponent p = {p}");
        }
        num_traits::AsPrimitive::as_(p)
    } else {
        attributes.int("p")?
    };
    if p < 1 {
        return Err(Error::invalid(format!("exponent p = {p} is not positive")));
    }
    Ok(p)
}

/// Returns the input if the windows are its elements.
fn has_unit_windows(graph: &Graph, node: &Node) -> Option<ValueId> {
    let data = same_shape(graph, node)?;
    let window = read_pool(&Attributes::new(node, op::find_handled(node).ok()?)).ok()?.window;
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
    let shape = pool_shape(call, call.shape(0)?)?;
    let mut facts = vec![Fact::new(call.dtype(0)?, shape.clone())];
    if read_pool(call)?.kind == Kind::Max {
        facts.push(Fact::new(DType::I64, shape));
    }
    Ok(facts)
}

/// Returns the shape of the pooling of a value of shape `data`.
pub(in crate::ops) fn pool_shape(call: &Call, data: &[Dim]) -> Result<Vec<Dim>> {
    let (batch, channels, spatial) = split_shape(data)?;
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.extend(read_pool(call)?.window.output_sizes(spatial)?);
    Ok(shape)
}

fn infer_global(call: &Call) -> Result<Vec<Fact>> {
    if call.op_type() == "GlobalLpPool" {
        read_p(call)?;
    }
    let (batch, channels, spatial) = split_shape(call.shape(0)?)?;
    if spatial.iter().any(|size| size.is(0)) {
        invalid!("a pooling over an input without elements");
    }
    let mut shape = vec![batch.clone(), channels.clone()];
    shape.resize(2 + spatial.len(), Dim::Known(1));
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}
