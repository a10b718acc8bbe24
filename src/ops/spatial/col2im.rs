//! Col2Im: the sum of overlapping blocks at their positions in an image.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Col2Im.html>.

use super::window::{area, unit_kernels};
use crate::ncnn::layer::Fold;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Col2Im", Access::Any, infer_col2im)
    .expand(expand_col2im)
    .lower(lower_col2im)
    .lowers_to("Fold; over three axes or free sizes depthwise Deconvolution with one-hot kernels")
    .limits(
        "block sizes known only at run time; image sizes computed from elements; dilations over other than \
         two axes",
    )];

/// The most axes of an image of Fold.
const FOLDED_AXES: usize = 2;

/// The positions of the blocks in the image.
struct Layout {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding before each axis, then after each axis.
    pads: Vec<i64>,
}

fn read_layout(call: &Call, axes: usize) -> Result<Layout> {
    let list = |name: &str, default: i64, len: usize| {
        let list = call.optional_ints(name)?.unwrap_or(vec![default; len]);
        check_sizes(&list)?;
        if list.len() == len {
            Ok(list)
        } else {
            Err(Error::invalid(format!("{name} has {} elements, expected {len}", list.len())))
        }
    };
    Ok(Layout {
        strides: list("strides", 1, axes)?,
        dilations: list("dilations", 1, axes)?,
        pads: list("pads", 0, 2 * axes)?,
    })
}

/// Refuses sizes whose sums and products could overflow.
fn check_sizes(sizes: &[i64]) -> Result<()> {
    match sizes.iter().find(|size| !(-limits::EXPANDED_AXIS..=limits::EXPANDED_AXIS).contains(*size)) {
        Some(size) => Err(Error::limit(format!("a size of {size}"))),
        None => Ok(()),
    }
}

/// Returns the sizes of the image; if they are computed at run time, the output's declared sizes.
fn image_sizes(call: &Call) -> Result<Vec<Dim>> {
    call.dims(1).or_else(|error| {
        call.declared_instead_of(1).and_then(|shape| shape.get(2..)).map(<[Dim]>::to_vec).ok_or(error)
    })
}

/// Returns the shape of a block.
fn read_block(call: &Call, image: &[Dim], layout: &Layout) -> Result<Vec<i64>> {
    check_sizes(&image.iter().filter_map(Dim::known).collect::<Vec<_>>())?;
    for list in 1..3 {
        call.check_list(list, image.len())?;
    }
    let block = call.int_list(2)?;
    check_sizes(&block)?;
    if block.iter().chain(&layout.dilations).any(|size| *size < 1) {
        invalid!("block_shape {block:?} or dilations {:?} are not positive", layout.dilations);
    }
    let dilated = layout.dilations.iter().zip(&block).any(|(dilation, size)| *dilation > 1 && *size > 1);
    if dilated && image.len() != 2 {
        unsupported!(
            "dilations over {} axes: onnxruntime and the specification's reference disagree",
            image.len()
        );
    }
    Ok(block)
}

/// Returns the number of blocks along each axis of the image, and of the elements after the last block.
fn counts(image: &[i64], block: &[i64], layout: &Layout) -> Result<(Vec<i64>, Vec<i64>)> {
    let (mut counts, mut left_over) = (Vec::new(), Vec::new());
    for axis in 0..image.len() {
        let reach = layout.dilations.at(axis)? * (block.at(axis)? - 1) + 1;
        let room = image.at(axis)? + layout.pads.at(axis)? + layout.pads.at(axis + image.len())? - reach;
        let stride = *layout.strides.at(axis)?;
        if room < 0 || stride < 1 {
            invalid!("blocks of shape {block:?} with stride {stride} do not fit an image of shape {image:?}");
        }
        counts.push(room / stride + 1);
        left_over.push(room % stride);
    }
    Ok((counts, left_over))
}

fn infer_col2im(call: &Call) -> Result<Vec<Fact>> {
    let [batch, depth, _] = call.shape(0)? else {
        invalid!(
            "an input of shape {}, expected batch, block elements and blocks",
            display_shape(call.shape(0)?)
        )
    };
    if call.dtype(0)? == DType::Bool {
        unsupported!("sums of booleans");
    }
    let image = image_sizes(call)?;
    let layout = read_layout(call, image.len())?;
    let block = read_block(call, &image, &layout)?;
    let block = Dim::product(&block.into_iter().map(Dim::Known).collect::<Vec<_>>());
    let channels = depth.exact_div(&block).ok_or_else(|| {
        Error::invalid(format!("{depth} is not a multiple of {block}, the elements of a block"))
    })?;
    let mut shape = vec![batch.clone(), channels];
    shape.extend(image);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The sizes of a node that are known.
struct Known {
    image: Vec<i64>,
    block: Vec<i64>,
    layout: Layout,
    batch: i64,
    channels: i64,
    counts: Vec<i64>,
    left_over: Vec<i64>,
}

fn read_known(call: &Call) -> Result<Known> {
    let image: Option<Vec<i64>> = Dim::known_sizes(image_sizes(call)?.iter());
    let Some(image) = image else { unsupported!("the image sizes are known only at run time") };
    let layout = read_layout(call, image.len())?;
    let block = read_block(call, &image_sizes(call)?, &layout)?;
    let [batch, depth, blocks] = *call.sizes(0)?.as_slice() else {
        invalid!("an input of shape {}, expected three axes", display_shape(call.shape(0)?))
    };
    let (counts, left_over) = counts(&image, &block, &layout)?;
    if area(&counts)? != blocks {
        invalid!("{blocks} blocks, expected {counts:?} along the axes of the image");
    }
    let channels = depth / block.iter().product::<i64>().max(1);
    Ok(Known { image, block, layout, batch, channels, counts, left_over })
}

/// Expands an image of free sizes. Its sizes are such that the last block ends with the image.
fn expand_free(x: &Expand) -> Result<bool> {
    let image = image_sizes(x)?;
    let layout = read_layout(x, image.len())?;
    let block = read_block(x, &image, &layout)?;
    let mut form = vec![x.make.int(0), x.make.int(x.shape(0)?.at(1)?.known().unwrap_or(-1))];
    for (axis, size) in image.iter().enumerate() {
        let stride = *layout.strides.at(axis)?;
        let reach = layout.dilations.at(axis)? * (block.at(axis)? - 1) + 1;
        let added = layout.pads.at(axis)? + layout.pads.at(axis + image.len())? - reach;
        x.require(SizeCondition::multiple(&(size + added), stride))?;
        let size = x.operand(1).element(0, axis);
        form.push((size + added) / stride + 1_i64);
    }
    let form: Vec<Expr> = form.into_iter().map(|size| size.reshape(&[1])).collect();
    let blocks = x.operand(0).reshape_to(x.make.concat(&form, 0));
    let channels = x.output_shape(0)?.at(1)?.known();
    let channels = channels.ok_or_else(|| Error::unsupported("a free number of channels"))?;
    x.output(0, add_up(x, blocks, channels, block, layout, vec![0; image.len()])?);
    Ok(true)
}

fn expand_col2im(expand: &Expand) -> Result<bool> {
    if image_sizes(expand)?.iter().any(|size| size.known().is_none()) {
        return expand_free(expand);
    }
    let known = read_known(expand)?;
    if known.image.len() <= FOLDED_AXES {
        return Ok(false);
    }
    let Known { block, layout, batch, channels, counts, left_over, .. } = known;
    let mut form = vec![batch, channels.saturating_mul(area(&block)?)];
    form.extend(&counts);
    let blocks = expand.operand(0).reshape(&form);
    expand.output(0, add_up(expand, blocks, channels, block, layout, left_over)?);
    Ok(true)
}

/// Returns the sum of the blocks, whose elements are the channels of `blocks`, with `left_over` elements
/// after them.
fn add_up<'x>(
    x: &'x Expand,
    blocks: Expr<'x>,
    channels: i64,
    block: Vec<i64>,
    layout: Layout,
    left_over: Vec<i64>,
) -> Result<Expr<'x>> {
    let kernels = x.make.tensor(unit_kernels(channels, &block)?);
    let attributes = [
        ("group", channels.into()),
        ("kernel_shape", block.into()),
        ("strides", layout.strides.into()),
        ("dilations", layout.dilations.into()),
        ("pads", layout.pads.into()),
        ("output_padding", left_over.into()),
    ];
    Ok(x.make.op("ConvTranspose", [blocks, kernels], attributes))
}

fn lower_col2im(lower: &Lower) -> Result<()> {
    let Known { image, block, layout, batch, channels, counts, .. } = read_known(lower)?;
    let int = |size: i64| Ok::<_, Error>(i32::try_from(size)?);
    // The height and width of each list; 1 instead of the height of one axis.
    let plane = |list: &[i64], missing: i64| match *list {
        [width] => Ok([int(missing)?, int(width)?]),
        [height, width] => Ok([int(height)?, int(width)?]),
        _ => Err(Error::internal("an image of other axes")),
    };
    let (before, after) = layout.pads.split_at_checked(image.len()).unwrap_or_default();
    let [kernel_h, kernel_w] = plane(&block, 1)?;
    let [stride_h, stride_w] = plane(&layout.strides, 1)?;
    let [dilation_h, dilation_w] = plane(&layout.dilations, 1)?;
    let [pad_top, pad_left] = plane(before, 0)?;
    let [pad_bottom, pad_right] = plane(after, 0)?;
    let [output_h, output_w] = plane(&image, 1)?;
    let images = batch.saturating_mul(channels);
    let columns = [Dim::Known(images.saturating_mul(area(&block)?)), Dim::Known(area(&counts)?)];
    let layer = Fold {
        kernel_w,
        dilation_w,
        stride_w,
        pad_left,
        output_w,
        kernel_h,
        dilation_h,
        stride_h,
        pad_top,
        pad_right,
        pad_bottom,
        output_h,
    };
    let form = [Dim::Known(images), Dim::Known(output_h.into()), Dim::Known(output_w.into())];
    lower.give(0, lower.input(0).reshape(columns).layer(layer, form))
}
