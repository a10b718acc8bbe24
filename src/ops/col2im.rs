//! Col2Im: sums of blocks that overlap, at their places in an image.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Col2Im.html>.

use super::window::unit_kernels;
use super::{Attributes, Call, Fact, Op};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::Expand;
use crate::tensor::{Dim, display_shape};

pub(super) const OPS: &[Op] = &[Op::new("Col2Im", &[18], infer_col2im)
    .expand(expand_col2im)
    .becomes("Deconvolution by groups, with kernels of zeros and a one")
    .limits("an image whose sizes are not fixed")];

/// How blocks lie in the image.
struct Layout {
    strides: Vec<i64>,
    dilations: Vec<i64>,
    /// Before each axis, then behind each.
    pads: Vec<i64>,
}

fn read_layout(attributes: &Attributes, axes: usize) -> Result<Layout> {
    let list = |name: &str, default: i64, len: usize| {
        let list = attributes.ints(name)?.unwrap_or(vec![default; len]);
        if list.len() == len { Ok(list) } else { Err(Error::invalid(format!("{} {name}", list.len()))) }
    };
    Ok(Layout {
        strides: list("strides", 1, axes)?,
        dilations: list("dilations", 1, axes)?,
        pads: list("pads", 0, 2 * axes)?,
    })
}

/// The sizes of the image; where they are computed at run time, what the model declares of the result.
fn image_of(call: &Call) -> Result<Vec<Dim>> {
    call.dims(1).or_else(|error| {
        call.declared_shape(0).and_then(|shape| shape.get(2..)).map(<[Dim]>::to_vec).ok_or(error)
    })
}

fn infer_col2im(call: &Call) -> Result<Vec<Fact>> {
    let [batch, depth, _] = call.shape(0)? else {
        invalid!("{} where batch, elements of blocks and blocks are needed", display_shape(call.shape(0)?))
    };
    let image = image_of(call)?;
    read_layout(call, image.len())?;
    let block = Dim::product(&call.dims(2)?)?;
    let channels = depth
        .exact_div(&block)
        .ok_or_else(|| Error::invalid(format!("{depth} elements are no whole blocks of {block}")))?;
    let mut shape = vec![batch.clone(), channels];
    shape.extend(image);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_col2im(expand: &mut Expand) -> Result<bool> {
    let image: Option<Vec<i64>> = image_of(expand)?.iter().map(Dim::known).collect();
    let Some(image) = image else { unsupported!("an image whose sizes are not fixed") };
    let block = expand.int_list(2)?;
    let layout = read_layout(expand, image.len())?;
    let [batch, depth, blocks] = *expand.sizes(0)?.as_slice() else {
        invalid!("columns of other than three axes")
    };
    let (mut counts, mut left_over) = (Vec::new(), Vec::new());
    for axis in 0..image.len() {
        let reach = layout.dilations.at(axis)? * (block.at(axis)? - 1) + 1;
        let room = image.at(axis)? + layout.pads.at(axis)? + layout.pads.at(axis + image.len())? - reach;
        let stride = *layout.strides.at(axis)?;
        if room < 0 || stride < 1 {
            invalid!("blocks of {block:?} in steps of {stride} in an image of {image:?}");
        }
        counts.push(room / stride + 1);
        left_over.push(room % stride);
    }
    if counts.iter().product::<i64>() != blocks {
        invalid!("{blocks} blocks where {counts:?} fit");
    }
    let elements: i64 = block.iter().product();
    let channels = depth / elements.max(1);
    let columns = expand.operand(0)?;
    let mut form = vec![batch, depth];
    form.extend(&counts);
    let form = expand.ints(&form)?;
    let columns = expand.op("Reshape", &[columns, form], &[])?;
    let kernels = expand.tensor(unit_kernels(channels, &block)?)?;
    let spread = expand.op(
        "ConvTranspose",
        &[columns, kernels],
        &[
            ("group", Attribute::Int(channels)),
            ("kernel_shape", Attribute::Ints(block)),
            ("strides", Attribute::Ints(layout.strides)),
            ("dilations", Attribute::Ints(layout.dilations)),
            ("pads", Attribute::Ints(layout.pads)),
            ("output_padding", Attribute::Ints(left_over)),
        ],
    )?;
    expand.output(0, spread)?;
    Ok(true)
}
