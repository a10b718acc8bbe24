//! Deformable convolutions as OpenMMLab and torchvision name them: DeformConv with other names and another order.
//!
//! <https://mmcv.readthedocs.io/en/latest/understand_mmcv/ops.html>,
//! <https://pytorch.org/vision/stable/generated/torchvision.ops.deform_conv2d.html>

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] =
    &[plain("mmcv"), plain("mmdeploy"), modulated("mmcv"), modulated("mmdeploy"), TORCHVISION];

const fn plain(domain: &'static str) -> Row {
    const PLACES: Places = Places { weight: 2, offsets: 1, mask: None, bias: 3 };
    Row::of(domain, "MMCVDeformConv2d", Access::Any, |call| infer(call, &PLACES, &attributes(call)?))
        .formula(|x| expand(x, &PLACES, &attributes(x)?))
        .lowers_to("DeformConv")
}

const fn modulated(domain: &'static str) -> Row {
    const PLACES: Places = Places { weight: 3, offsets: 1, mask: Some(2), bias: 4 };
    Row::of(domain, "MMCVModulatedDeformConv2d", Access::Any, |call| infer(call, &PLACES, &attributes(call)?))
        .formula(|x| expand(x, &PLACES, &attributes(x)?))
        .lowers_to("DeformConv")
}

const TORCHVISION: Row = Row::of("torchvision", "deform_conv2d", Access::Any, |call| {
    infer(call, &torchvision(call)?, &inputs(call)?)
})
.formula(|x| expand(x, &torchvision(x)?, &inputs(x)?))
.lowers_to("DeformConv");

/// The inputs other than the data.
struct Places {
    weight: usize,
    offsets: usize,
    mask: Option<usize>,
    bias: usize,
}

/// Returns the inputs of torchvision's operator, whose input 13 says whether the mask counts.
fn torchvision(call: &Call) -> Result<Places> {
    let has_mask = call.int_list(13)? != [0];
    Ok(Places { weight: 1, offsets: 2, mask: has_mask.then_some(3), bias: 4 })
}

/// Numbers for height and width, and of groups.
struct Windows {
    stride: [i64; 2],
    padding: [i64; 2],
    dilation: [i64; 2],
    groups: i64,
    offset_groups: i64,
}

/// Returns the numbers of the windows in attributes.
fn attributes(call: &Call) -> Result<Windows> {
    Ok(Windows {
        stride: pair(call, "stride", 1)?,
        padding: pair(call, "padding", 0)?,
        dilation: pair(call, "dilation", 1)?,
        groups: call.int("groups")?,
        offset_groups: call.int("deform_groups")?,
    })
}

/// Returns the numbers of the windows in the inputs of torchvision's operator.
fn inputs(call: &Call) -> Result<Windows> {
    let number = |index| Ok::<_, Error>(*call.int_list(index)?.at(0)?);
    Ok(Windows {
        stride: [number(5)?, number(6)?],
        padding: [number(7)?, number(8)?],
        dilation: [number(9)?, number(10)?],
        groups: number(11)?,
        offset_groups: number(12)?,
    })
}

/// Returns the numbers of an attribute for height and width.
fn pair(attributes: &Attributes, name: &'static str, default: i64) -> Result<[i64; 2]> {
    match attributes.given_ints(name)?.as_deref() {
        None => Ok([default; 2]),
        Some([both]) => Ok([*both; 2]),
        Some([height, width]) => Ok([*height, *width]),
        Some(other) => invalid!("{name} has {} elements", other.len()),
    }
}

fn infer(call: &Call, places: &Places, windows: &Windows) -> Result<Vec<Fact>> {
    let (shape, weight) = (call.shape(0)?, call.shape(places.weight)?);
    let ([batch, _, height, width], [channels, _, rows, columns]) = (shape, weight) else {
        invalid!("an input of shape {} and a weight of {}", display_shape(shape), display_shape(weight));
    };
    let Windows { stride, padding, dilation, .. } = windows;
    let mut sizes = vec![batch.clone(), channels.clone()];
    for (axis, (size, kernel)) in [(height, rows), (width, columns)].into_iter().enumerate() {
        let Some(kernel) = kernel.known() else {
            return Err(Error::unsupported("the size of the window is known only at run time"));
        };
        let (stride, padding, dilation) = (*stride.at(axis)?, *padding.at(axis)?, *dilation.at(axis)?);
        if stride < 1 {
            invalid!("a stride of {stride}");
        }
        let more =
            padding.saturating_mul(2).saturating_sub(dilation.saturating_mul(kernel - 1)).saturating_sub(1);
        let steps = size.add(&Dim::Known(more))?.floor_div(&Dim::Known(stride))?;
        sizes.push(steps.add(&Dim::Known(1))?);
    }
    Ok(vec![Fact::new(call.dtype(0)?, sizes)])
}

fn expand<'x>(x: &'x Expand, places: &Places, windows: &Windows) -> Result<Expr<'x>> {
    let Places { weight, offsets, mask, bias } = *places;
    let Windows { stride, padding: [height, width], dilation, groups, offset_groups } = *windows;
    let attributes = [
        ("strides", stride.to_vec().into()),
        ("pads", vec![height, width, height, width].into()),
        ("dilations", dilation.to_vec().into()),
        ("group", groups.into()),
        ("offset_group", offset_groups.into()),
    ];
    let mask = mask.map(|mask| x.operand(mask));
    let inputs =
        [Some(x.operand(0)), Some(x.operand(weight)), Some(x.operand(offsets)), x.optional(bias), mask];
    Ok(x.make.op("DeformConv", inputs, attributes))
}
