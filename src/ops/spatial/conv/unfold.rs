//! Convolutions with weights computed at run time for which ncnn's layer needs constant weights: over three
//! axes, or over two with a batch.
//!
//! A convolution with one-hot kernels unfolds the windows into columns (im2col), and a MatMul multiplies them
//! by the weight. The transposed convolution multiplies first and folds the columns back (col2im).

use super::node::{fixed, grouped_attributes, read_group, read_kernel_shape, split_shape};
use crate::ops::prelude::*;
use crate::ops::spatial::window::{area, unit_kernels};

/// The sizes of the matrices.
struct Layout {
    group: i64,
    /// The size of the window along each axis.
    kernel: Vec<i64>,
    /// The sizes of the first two axes of the weight.
    weight: (i64, i64),
}

impl Layout {
    /// Returns one-hot kernels that unfold each of `channels` into one channel for each window element.
    fn unit_kernels<'x>(&self, x: &'x Expand, channels: i64) -> Result<Expr<'x>> {
        let area = area(&self.kernel)?;
        let elements = channels.saturating_mul(area).saturating_mul(area);
        if usize::try_from(elements)? > limits::MATRIX_ELEMENTS {
            return Err(Error::unsupported(format!(
                "weights computed at run time: windows of {area} elements over {channels} channels need \
                    {elements} constant weights (at most {})",
                limits::MATRIX_ELEMENTS
            )));
        }
        Ok(x.make.tensor(unit_kernels(channels, &self.kernel)?))
    }
}

/// Returns the layout for a node, or `None` if a layer can read its weights.
fn layout_of(call: &Call) -> Result<Option<Layout>> {
    let weight = call.shape(1)?;
    let (batch, _, spatial) = split_shape(call.shape(0)?, weight)?;
    let axes = spatial.len() + usize::from(!batch.is(1));
    if call.constant(1).is_some() || axes < 3 || spatial.len() > 3 {
        return Ok(None);
    }
    let weight_sizes = (fixed(weight.at(0)?)?.into(), fixed(weight.at(1)?)?.into());
    Ok(Some(Layout {
        group: read_group(call)?,
        kernel: read_kernel_shape(call, weight)?,
        weight: weight_sizes,
    }))
}

/// Returns `value` in the sizes `leading` followed by the spatial sizes of `like`.
fn with_spatial<'x>(value: Expr<'x>, leading: &[i64], like: Expr<'x>) -> Expr<'x> {
    let make = value.builder;
    let spatial = like.builder.op("Shape", [like], [("start", 2.into())]);
    value.reshape_to(make.concat(&[make.ints(leading), spatial], 0))
}

pub(super) fn expand_conv(x: &Expand) -> Result<bool> {
    let Some(layout) = layout_of(x)? else { return Ok(false) };
    let ((outputs, inputs), group, area) = (layout.weight, layout.group, area(&layout.kernel)?);
    let channels = inputs.saturating_mul(group);
    let kernels = layout.unit_kernels(x, channels)?;
    let windows = x.make.op("Conv", [x.operand(0), kernels], grouped_attributes(x, channels));
    let columns = windows.reshape(&[0, group, inputs.saturating_mul(area), -1]);
    let weight = x.operand(1).reshape(&[group, outputs / group, inputs.saturating_mul(area)]);
    add_bias(x, with_spatial(weight.matmul(columns), &[0, outputs], windows))
}

pub(super) fn expand_conv_transpose(x: &Expand) -> Result<bool> {
    let Some(layout) = layout_of(x)? else { return Ok(false) };
    let ((inputs, outputs), group, area) = (layout.weight, layout.group, area(&layout.kernel)?);
    let channels = outputs.saturating_mul(group);
    let kernels = layout.unit_kernels(x, channels)?;
    let mut attributes = grouped_attributes(x, channels);
    for name in ["output_padding", "output_shape"] {
        attributes.extend(x.node().attributes.get(name).map(|attribute| (name, attribute.clone())));
    }
    let (data, weight) = (x.operand(0), x.operand(1));
    let weight = weight.reshape(&[group, inputs / group, outputs.saturating_mul(area)]).transpose(&[0, 2, 1]);
    let product = weight.matmul(data.reshape(&[0, group, inputs / group, -1]));
    let windows = with_spatial(product, &[0, channels.saturating_mul(area)], data);
    add_bias(x, x.make.op("ConvTranspose", [windows, kernels], attributes))
}

/// Adds the bias, if any, and sets the output.
fn add_bias<'x>(x: &'x Expand, result: Expr<'x>) -> Result<bool> {
    let rank = x.shape(0)?.len();
    x.output(0, result.add_optional(x.optional(2).map(|bias| bias.along(1, rank))));
    Ok(true)
}
