//! Col2Im: the sum of overlapping blocks at their positions in an image.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Col2Im.html>.

use super::window::{area, unit_kernels};
use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::op::{Access, Attributes, Call, Fact};
use crate::ops::Row;
use crate::pass::builder::Expr;
use crate::pass::expand::Expand;
use crate::tensor::{Dim, display_shape};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Col2Im", Access::Any, infer_col2im)
    .expand(expand_col2im)
    .lowers_to("depthwise Deconvolution with one-hot kernels")
    .limits("image or block sizes known only at run time; dilations over other than two axes")];

/// The positions of the blocks in the image.
struct Layout {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding before each axis, then after each axis.
    pads: Vec<i64>,
}

fn read_layout(attributes: &Attributes, axes: usize) -> Result<Layout> {
    let list = |name: &str, default: i64, len: usize| {
        let list = attributes.given_ints(name)?.unwrap_or(vec![default; len]);
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

/// Returns the sizes of the image; if they are computed at run time, those of the output's declared shape.
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
    let image = image_sizes(call)?;
    let layout = read_layout(call, image.len())?;
    let block = read_block(call, &image, &layout)?;
    let block = Dim::product(&block.into_iter().map(Dim::Known).collect::<Vec<_>>())?;
    let channels = depth.exact_div(&block).ok_or_else(|| {
        Error::invalid(format!("{depth} is not a multiple of {block}, the elements of a block"))
    })?;
    let mut shape = vec![batch.clone(), channels];
    shape.extend(image);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_col2im(expand: &Expand) -> Result<bool> {
    let image: Option<Vec<i64>> = image_sizes(expand)?.iter().map(Dim::known).collect();
    let Some(image) = image else { unsupported!("the image sizes are known only at run time") };
    let layout = read_layout(expand, image.len())?;
    let block = read_block(expand, &image_sizes(expand)?, &layout)?;
    expand.output(0, fold_blocks(expand, &image, &block, &layout)?);
    Ok(true)
}

/// Returns the sum of blocks of one shape at their positions in the image.
fn fold_blocks<'x>(expand: &'x Expand, image: &[i64], block: &[i64], layout: &Layout) -> Result<Expr<'x>> {
    let [batch, depth, blocks] = *expand.sizes(0)?.as_slice() else {
        invalid!("an input of shape {}, expected three axes", display_shape(expand.shape(0)?))
    };
    let dilated = layout.dilations.iter().zip(block).any(|(dilation, size)| *dilation > 1 && *size > 1);
    if dilated && image.len() != 2 {
        unsupported!(
            "dilations over {} axes: onnxruntime and the specification's reference disagree",
            image.len()
        );
    }
    let (counts, left_over) = counts(image, block, layout)?;
    if area(&counts)? != blocks {
        invalid!("{blocks} blocks, expected {counts:?} along the axes of the image");
    }
    let elements: i64 = block.iter().product();
    let channels = depth / elements.max(1);
    let mut form = vec![batch, depth];
    form.extend(&counts);
    let kernels = expand.make.tensor(unit_kernels(channels, block)?);
    let attributes = [
        ("group", channels.into()),
        ("kernel_shape", block.into()),
        ("strides", layout.strides.as_slice().into()),
        ("dilations", layout.dilations.as_slice().into()),
        ("pads", layout.pads.as_slice().into()),
        ("output_padding", left_over.into()),
    ];
    Ok(expand.make.op("ConvTranspose", [expand.operand(0).reshape(&form), kernels], attributes))
}
