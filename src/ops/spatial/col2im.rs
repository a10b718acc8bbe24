//! Col2Im: the sum of overlapping blocks at their positions in an image.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Col2Im.html>.

use super::window::{area, unit_kernels};
use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Attributes, Call, Fact};
use crate::ops::Row;
use crate::ops::run_time::{Choice, check_count, check_list, choose, element, is_number};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{DType, Dim, display_shape};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Col2Im", &[18], infer_col2im)
    .expand(expand_col2im)
    .lowers_to("depthwise Deconvolution with one-hot kernels")
    .limits(
        "image sizes known only at run time; dilations over other than two axes; block sizes computed \
        at run time if the model does not state the shape of the output",
    )];

/// The maximum number of candidate block shapes.
const MAX_BLOCKS: usize = 1 << 12;
/// The maximum number of axes of blocks with inferred shapes: ncnn's Deconvolution has no more.
const MAX_AXES: usize = 3;
/// The maximum number of candidate sizes along one axis.
const MAX_TRIED: i64 = 1 << 12;

/// The positions of the blocks in the image.
struct Layout {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// The padding before each axis, then after each axis.
    pads: Vec<i64>,
}

fn read_layout(attributes: &Attributes, axes: usize) -> Result<Layout> {
    let list = |name: &str, default: i64, len: usize| {
        let list = attributes.ints(name)?.unwrap_or(vec![default; len]);
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
        call.stated_instead_of(1).and_then(|shape| shape.get(2..)).map(<[Dim]>::to_vec).ok_or(error)
    })
}

/// Returns the possible block shapes: the given one, or, if it is computed at run time, those that give the
/// declared number of channels.
fn candidate_blocks(call: &Call, image: &[Dim], layout: &Layout) -> Result<Vec<Vec<i64>>> {
    let axes = image.len();
    let image: Option<Vec<i64>> = image.iter().map(Dim::known).collect();
    check_sizes(image.as_deref().unwrap_or_default())?;
    for list in 1..3 {
        check_list(call, list, axes)?;
    }
    let error = match call.int_list(2) {
        Ok(block) => {
            check_sizes(&block)?;
            if block.iter().chain(&layout.dilations).any(|size| *size < 1) {
                invalid!("block_shape {block:?} or dilations {:?} are not positive", layout.dilations);
            }
            return Ok(vec![block]);
        }
        Err(error) => error,
    };
    if axes > MAX_AXES {
        unsupported!("block_shape of {axes} axes computed at run time (at most {MAX_AXES})");
    }
    let [_, depth, blocks] = call.shape(0)? else { return Err(error) };
    let channels = call.declared_shape(0).and_then(|shape| shape.get(1)?.known());
    let (Some(image), Some(depth), Some(blocks), Some(channels)) =
        (image, depth.known(), blocks.known(), channels)
    else {
        return Err(error);
    };
    let Some(elements) = depth.checked_div(channels).filter(|n| *n > 0 && n * channels == depth) else {
        invalid!("{depth} block elements are not a multiple of {channels} channels");
    };
    let mut found: Vec<Vec<i64>> = vec![Vec::new()];
    for axis in 0..image.len() {
        let reach = *image.at(axis)? + layout.pads.at(axis)? + layout.pads.at(axis + image.len())?;
        if elements.min(reach) > MAX_TRIED {
            unsupported!(
                "block_shape computed at run time over an axis of size {reach} (at most {MAX_TRIED})"
            );
        }
        let grown = found.iter().flat_map(|block| {
            // The product of the sizes so far divides `elements`.
            let rest = elements / block.iter().product::<i64>();
            (1..=rest.min(reach)).filter(move |n| rest % n == 0).map(move |n| {
                let mut block = block.clone();
                block.push(n);
                block
            })
        });
        found = grown.take(MAX_BLOCKS + 1).collect();
        if found.len() > MAX_BLOCKS {
            unsupported!(
                "block_shape computed at run time: more than {MAX_BLOCKS} shapes have {elements} elements"
            );
        }
    }
    found.retain(|block| {
        let fits =
            counts(&image, block, layout).is_ok_and(|(counts, _)| area(&counts).is_ok_and(|n| n == blocks));
        fits && block.iter().product::<i64>() == elements
    });
    if found.is_empty() {
        invalid!("no block of {elements} elements fits {blocks} times into an image of shape {image:?}");
    }
    check_count("blocks", found.len())?;
    Ok(found)
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
    let blocks = candidate_blocks(call, &image, &layout)?;
    let block = Dim::product(&blocks.at(0)?.iter().copied().map(Dim::Known).collect::<Vec<_>>())?;
    let channels = depth.exact_div(&block).ok_or_else(|| {
        Error::invalid(format!("{depth} is not a multiple of {block}, the elements of a block"))
    })?;
    let mut shape = vec![batch.clone(), channels];
    shape.extend(image);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_col2im(expand: &mut Expand) -> Result<bool> {
    let image: Option<Vec<i64>> = image_sizes(expand)?.iter().map(Dim::known).collect();
    let Some(image) = image else { unsupported!("the image sizes are known only at run time") };
    let layout = read_layout(expand, image.len())?;
    let known = image.iter().copied().map(Dim::Known).collect::<Vec<_>>();
    let blocks = candidate_blocks(expand, &known, &layout)?;
    let mut choices: Vec<Choice> = Vec::with_capacity(blocks.len());
    for block in blocks {
        let result = fold_blocks(expand, &image, &block, &layout)?;
        let mut meant = Vec::new();
        if !choices.is_empty() {
            let sizes = expand.operand_as(2, DType::I64)?;
            for (axis, size) in block.iter().enumerate() {
                let own = element(expand, sizes, axis)?;
                meant.push(is_number(expand, own, *size)?);
            }
        }
        choices.push(Choice { result, meant });
    }
    let result = choose(expand, &choices)?;
    expand.output(0, result)?;
    Ok(true)
}

/// Emits the sum of blocks of one shape at their positions in the image.
fn fold_blocks(expand: &mut Expand, image: &[i64], block: &[i64], layout: &Layout) -> Result<Operand> {
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
    let columns = expand.operand(0)?;
    let mut form = vec![batch, depth];
    form.extend(&counts);
    let columns = expand.reshape(columns, &form)?;
    let kernels = expand.tensor(unit_kernels(channels, block)?)?;
    expand.op(
        "ConvTranspose",
        &[columns, kernels],
        &[
            ("group", Attribute::Int(channels)),
            ("kernel_shape", Attribute::Ints(block.to_vec())),
            ("strides", Attribute::Ints(layout.strides.clone())),
            ("dilations", Attribute::Ints(layout.dilations.clone())),
            ("pads", Attribute::Ints(layout.pads.clone())),
            ("output_padding", Attribute::Ints(left_over)),
        ],
    )
}
