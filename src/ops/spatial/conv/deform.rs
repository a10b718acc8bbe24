//! DeformConv.

use super::node::{
    Conv, conv_attributes, conv_shape, fixed, grouped_attributes, infer_biased, read_conv, split_shape,
};
use crate::ncnn::layer::DeformableConv2D;
use crate::ops::prelude::*;
use crate::ops::spatial::batch_as_channels;
use crate::ops::spatial::window::one_hot;
use crate::tensor::move_elements;

/// The maximum number of layers of a node: one for each block of channels that share group and offset group.
const MAX_BLOCKS: i64 = 64;

fn read_offset_group(call: &Call) -> Result<i64> {
    match call.int("offset_group")? {
        group if group < 1 => Err(Error::invalid(format!("offset_group {group} is not positive"))),
        group => Ok(group),
    }
}

pub(in crate::ops) fn infer_deform_conv(call: &Call) -> Result<Vec<Fact>> {
    let groups = Dim::Known(read_offset_group(call)?);
    let facts = infer_biased(call, 3)?;
    // The mask has a channel for each kernel element, the offsets have one for each direction of each.
    let mask = Dim::product(call.shape(1)?.iter().skip(2)) * &groups;
    let offsets = &mask * 2;
    let mut expected = conv_shape(call)?;
    for (index, size) in [(2, offsets), (4, mask)] {
        expected.put(1, size);
        call.check_shape(index, &expected)?;
    }
    Ok(facts)
}

/// Expands weights computed at run time into a MatMul with the columns that DeformConv with one-hot weights
/// samples, and a bias computed at run time into an Add.
pub(in crate::ops) fn expand_deform_conv(x: &Expand) -> Result<bool> {
    let bias_is_computed = x.has_input(3) && x.constant(3).is_none();
    let computed = x.constant(1).is_none();
    if !computed && !bias_is_computed {
        return Ok(false);
    }
    let sums = if computed { products(x)? } else { without_bias(x, None)? };
    x.output(0, sums.add_optional(x.optional(3).map(|bias| bias.along(1, 4))));
    Ok(true)
}

/// Returns the same DeformConv without its bias, and with other weights and group if present.
fn without_bias<'x>(x: &'x Expand, weights: Option<(Expr<'x>, i64)>) -> Result<Expr<'x>> {
    let (weight, mut attributes) = match weights {
        Some((weight, group)) => (weight, grouped_attributes(x, group)),
        None => (x.operand(1), conv_attributes(x)),
    };
    attributes.push(("offset_group", read_offset_group(x)?.into()));
    let inputs = [Some(x.operand(0)), Some(weight), Some(x.operand(2)), None, x.optional(4)];
    Ok(x.make.op("DeformConv", inputs, attributes))
}

/// Returns the convolution with weights computed at run time as a MatMul with sampled columns.
fn products<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let group = read_conv(x, x.shape(1)?)?.group;
    let (data, weight) = (x.sizes(0)?, x.sizes(1)?);
    let ([1, channels, _, _], [outputs, _, kernel @ ..]) = (data.as_slice(), weight.as_slice()) else {
        unsupported!("a deformable convolution over an input of shape {}", display_shape(x.shape(0)?))
    };
    let taps = kernel.iter().fold(1_i64, |taps, size| taps.saturating_mul(*size));
    let (channels, outputs) = (*channels, *outputs);
    let offset_groups = read_offset_group(x)?;
    check_divisible(channels, group, offset_groups)?;
    let columns = channels.saturating_mul(taps);
    let per_offset_group = columns / offset_groups;
    if usize::try_from(columns.saturating_mul(per_offset_group))? > limits::MATRIX_ELEMENTS {
        unsupported!("weights computed at run time for columns of {columns} elements");
    }
    let mut shape = vec![columns, channels / offset_groups];
    shape.extend(kernel);
    let weights = x.make.tensor(one_hot(&shape, per_offset_group)?);
    let unfolded = without_bias(x, Some((weights, offset_groups)))?.reshape(&[group, columns / group, -1]);
    let weight = x.operand(1).reshape(&[group, outputs / group, columns / group]);
    let mut shape = vec![1, outputs];
    for size in x.output_shape(0)?.iter().skip(2) {
        shape.push(i64::from(fixed(size)?));
    }
    Ok(weight.matmul(unfolded).reshape(&shape))
}

/// A split of the input channels into blocks that share group and offset group.
struct Blocks {
    /// The number of blocks.
    count: i64,
    /// The number of channels of a block.
    channels: i64,
    per_group: i64,
    per_offset_group: i64,
}

fn check_divisible(channels: i64, group: i64, offset_group: i64) -> Result<()> {
    if channels % group != 0 || channels % offset_group != 0 {
        invalid!(
            "{channels} channels are not divisible into {group} groups and {offset_group} offset groups"
        );
    }
    Ok(())
}

fn blocks(channels: i64, group: i64, offset_group: i64) -> Result<Blocks> {
    check_divisible(channels, group, offset_group)?;
    let (per_group, per_offset_group) = (channels / group, channels / offset_group);
    let (larger, smaller) = (per_group.max(per_offset_group), per_group.min(per_offset_group));
    if larger % smaller != 0 {
        unsupported!("{group} groups overlap {offset_group} offset groups");
    }
    Ok(Blocks { count: channels / smaller, channels: smaller, per_group, per_offset_group })
}

/// Returns `count` channels of an element of the batch of input `index`, from `start` on, as three axes.
fn channels<'l>(lower: &'l Lower, index: usize, element: i64, start: i64, count: i64) -> Result<Nd<'l>> {
    let shape = lower.shape(index)?;
    let start = start + element * i64::from(fixed(shape.at(1)?)?);
    Ok(lower.input(index).reshape(batch_as_channels(shape)).slice(0, start, count))
}

pub(in crate::ops) fn lower_deform_conv(lower: &Lower) -> Result<()> {
    lower.compute_in_float32();
    let conv = read_conv(lower, lower.shape(1)?)?;
    let offset_group = read_offset_group(lower)?;
    let (batch, in_channels, spatial) = split_shape(lower.shape(0)?, lower.shape(1)?)?;
    let (Some(batch), 2) = (batch.known(), spatial.len()) else {
        unsupported!("a deformable convolution over an input of shape {}", display_shape(lower.shape(0)?));
    };
    let blocks = blocks(i64::from(fixed(in_channels)?), conv.group, offset_group)?;
    if blocks.count.saturating_mul(batch) > MAX_BLOCKS {
        unsupported!(
            "{} blocks of channels for each of {batch} images, each of which becomes a layer (at most {MAX_BLOCKS})",
            blocks.count
        );
    }
    let weight = lower.required_constant(1)?.clone();
    let bias = if lower.has_input(3) { Some(lower.required_constant(3)?.clone()) } else { None };
    let outputs = i64::from(fixed(lower.shape(1)?.at(0)?)?) / conv.group;
    let mut tops = Vec::new();
    for (element, group) in (0..batch).flat_map(|element| (0..conv.group).map(move |group| (element, group)))
    {
        let mut sum: Option<Nd> = None;
        for block in 0..blocks.count {
            let start = block * blocks.channels;
            if start / blocks.per_group != group {
                continue;
            }
            let rows = (group * outputs, outputs);
            let columns = (start % blocks.per_group, blocks.channels);
            let part = Part { element, start, offset_group: start / blocks.per_offset_group, rows };
            let layer = DeformableConv2D {
                weight_data: Some(part_of(&weight, rows, columns)?),
                bias_data: match &bias {
                    Some(bias) if sum.is_none() => Some(part_of(bias, rows, (0, 1))?),
                    _ => None,
                },
                ..layer(&conv, spatial)?
            };
            let top = lower_part(lower, layer, &part, blocks.channels)?;
            sum = Some(sum.map_or(top, |sum| sum + top));
        }
        tops.extend(sum);
    }
    lower.give(0, lower.join(&tops, 0))
}

/// One block of channels.
struct Part {
    /// The element of the batch.
    element: i64,
    /// The first input channel.
    start: i64,
    offset_group: i64,
    /// The first output channel, and the number of output channels.
    rows: (i64, i64),
}

fn layer(conv: &Conv, spatial: &[Dim]) -> Result<DeformableConv2D> {
    let spans = conv.window.spans(spatial)?;
    let [h, w] = spans.as_slice() else {
        unsupported!("a deformable convolution over {} spatial axes", spans.len())
    };
    Ok(DeformableConv2D {
        kernel_w: w.kernel,
        kernel_h: h.kernel,
        stride_w: w.stride,
        stride_h: h.stride,
        dilation_w: w.dilation,
        dilation_h: h.dilation,
        pad_left: w.begin,
        pad_right: w.end,
        pad_top: h.begin,
        pad_bottom: h.end,
        ..DeformableConv2D::default()
    })
}

fn lower_part<'l>(
    lower: &'l Lower,
    mut layer: DeformableConv2D,
    part: &Part,
    block_channels: i64,
) -> Result<Nd<'l>> {
    layer.num_output = i32::try_from(part.rows.1)?;
    let taps = i64::from(layer.kernel_h) * i64::from(layer.kernel_w);
    let mut bottoms = vec![
        channels(lower, 0, part.element, part.start, block_channels)?,
        channels(lower, 2, part.element, part.offset_group * taps * 2, taps * 2)?,
    ];
    if lower.has_input(4) {
        bottoms.push(channels(lower, 4, part.element, part.offset_group * taps, taps)?);
    }
    let mut form = lower.output_shape(0)?.get(1..).unwrap_or_default().to_vec();
    form.put(0, Dim::Known(part.rows.1));
    Ok(lower.layer(layer, &bottoms, form))
}

/// Slices the first axis of a weight, and the second if there is one, to ranges of start and count.
fn part_of(weight: &Tensor, rows: (i64, i64), columns: (i64, i64)) -> Result<Tensor> {
    let mut shape = weight.shape().to_vec();
    let mut ranges = Vec::new();
    for (size, (start, count)) in shape.iter_mut().zip([rows, columns]) {
        let (start, count) = (usize::try_from(start)?, usize::try_from(count)?);
        if start.saturating_add(count) > *size {
            invalid!("weight or bias has shape {:?}", weight.shape());
        }
        ranges.push((start, start + count, *size));
        *size = count;
    }
    if ranges.iter().all(|(start, end, size)| *start == 0 && end == size) {
        return Ok(weight.clone());
    }
    Tensor::deferred(weight.dtype(), shape, vec![weight.clone()], move |arrays| {
        let array = arrays.at(0)?;
        Ok(move_elements!(array, elements => {
            let mut view = elements.view();
            for (axis, (start, end, _)) in ranges.iter().enumerate() {
                view.slice_axis_inplace(ndarray::Axis(axis), ndarray::Slice::from(*start..*end));
            }
            view.to_owned()
        }))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_share_group_and_offset_group() {
        let shape = |channels, group, offset_group| {
            blocks(channels, group, offset_group).map(|b| (b.count, b.channels)).unwrap()
        };
        assert_eq!(shape(8, 1, 1), (1, 8));
        assert_eq!(shape(8, 2, 1), (2, 4));
        assert_eq!(shape(8, 2, 4), (4, 2));
        assert!(blocks(12, 2, 3).is_err());
    }

    #[test]
    fn part_of_slices_both_axes() {
        let weight = Tensor::from_f32(&[2, 3], vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        let part = part_of(&weight, (1, 1), (1, 2)).unwrap().load().unwrap();
        assert_eq!((part.shape(), part.float_list().unwrap()), (&[1, 2][..], vec![4.0, 5.0]));
    }
}
