//! Convolutions with weights computed at run time where ncnn's layer holds its weights: over three axes, or over two with a batch.
//!
//! A layer with kernels of zeros and a one lays the elements of each window one below the other, or sums them up at their places in
//! the transpose; the weights are one side of a product of matrices.

use super::{conv_attributes, fixed, read_group, read_kernel_shape, split_shape};
use crate::common::limits;
use crate::error::{At, Error, Result};
use crate::graph::Attribute;
use crate::op::Call;
use crate::ops::spatial::window::{area, unit_kernels};
use crate::pass::expand::{Expand, Operand};

/// What the matrices are made of.
struct Layout {
    group: i64,
    /// The size of the window.
    kernel: Vec<i64>,
    /// Sizes of the weight along its first two axes.
    weight: (i64, i64),
}

impl Layout {
    /// Kernels that give each of `channels` as many channels as a window has elements.
    fn unit_kernels(&self, x: &mut Expand, channels: i64) -> Result<Operand> {
        let area = area(&self.kernel)?;
        let elements = channels.saturating_mul(area).saturating_mul(area);
        if usize::try_from(elements)? > limits::MATRIX_ELEMENTS {
            return Err(Error::unsupported(format!(
                "weights computed at run time: windows of {area} elements over {channels} channels take {elements} further weights"
            )));
        }
        x.tensor(unit_kernels(channels, &self.kernel)?)
    }
}

/// The matrices for a node, where no layer reads its weights.
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

/// `operand` with the axes in `leading` in front of the spatial axes of `like`.
fn with_spatial(x: &mut Expand, operand: Operand, leading: &[i64], like: Operand) -> Result<Operand> {
    let spatial = x.op("Shape", &[like], &[("start", Attribute::Int(2))])?;
    let leading = x.ints(leading)?;
    let shape = x.op("Concat", &[leading, spatial], &[("axis", Attribute::Int(0))])?;
    x.op("Reshape", &[operand, shape], &[])
}

pub(super) fn expand_conv(x: &mut Expand) -> Result<bool> {
    let Some(layout) = layout_of(x)? else { return Ok(false) };
    let ((outputs, inputs), group, area) = (layout.weight, layout.group, area(&layout.kernel)?);
    let channels = inputs.saturating_mul(group);
    let kernels = layout.unit_kernels(x, channels)?;
    let mut attributes = conv_attributes(x);
    attributes.retain(|(name, _)| *name != "group");
    attributes.push(("group", Attribute::Int(channels)));
    let data = x.operand(0)?;
    let windows = x.op("Conv", &[data, kernels], &attributes)?;
    let columns = x.reshape(windows, &[0, group, inputs.saturating_mul(area), -1])?;
    let weight = x.operand(1)?;
    let weight = x.reshape(weight, &[group, outputs / group, inputs.saturating_mul(area)])?;
    let product = x.op("MatMul", &[weight, columns], &[])?;
    let result = with_spatial(x, product, &[0, outputs], windows)?;
    add_bias(x, result, outputs)
}

pub(super) fn expand_conv_transpose(x: &mut Expand) -> Result<bool> {
    let Some(layout) = layout_of(x)? else { return Ok(false) };
    let ((inputs, outputs), group, area) = (layout.weight, layout.group, area(&layout.kernel)?);
    let channels = outputs.saturating_mul(group);
    let kernels = layout.unit_kernels(x, channels)?;
    let mut attributes = conv_attributes(x);
    attributes.retain(|(name, _)| *name != "group");
    attributes.push(("group", Attribute::Int(channels)));
    for name in ["output_padding", "output_shape"] {
        attributes.extend(x.node().attributes.get(name).map(|attribute| (name, attribute.clone())));
    }
    let (data, weight) = (x.operand(0)?, x.operand(1)?);
    let weight = x.reshape(weight, &[group, inputs / group, outputs.saturating_mul(area)])?;
    let weight = x.transpose(weight, &[0, 2, 1])?;
    let columns = x.reshape(data, &[0, group, inputs / group, -1])?;
    let product = x.op("MatMul", &[weight, columns], &[])?;
    let windows = with_spatial(x, product, &[0, channels.saturating_mul(area)], data)?;
    let result = x.op("ConvTranspose", &[windows, kernels], &attributes)?;
    add_bias(x, result, channels)
}

/// Makes the sum with the bias, where there is one, the output.
fn add_bias(x: &mut Expand, result: Operand, channels: i64) -> Result<bool> {
    let mut result = result;
    if x.has_input(2) {
        let mut shape = vec![1; x.shape(0)?.len()];
        if let Some(size) = shape.get_mut(1) {
            *size = channels;
        }
        let bias = x.operand(2)?;
        let bias = x.reshape(bias, &shape)?;
        result = x.op("Add", &[result, bias], &[])?;
    }
    x.output(0, result)?;
    Ok(true)
}
