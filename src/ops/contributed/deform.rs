//! Deformable convolutions as the exporters of OpenMMLab write them: DeformConv with other names and another order.
//!
//! <https://mmcv.readthedocs.io/en/latest/understand_mmcv/ops.html>

use crate::error::{At, Error, Result, invalid};
use crate::op::{Access, Attributes, Call, Fact};
use crate::ops::Row;
use crate::pass::expand::Expand;
use crate::tensor::{Dim, display_shape};

pub(in crate::ops) const OPS: &[Row] =
    &[row("mmcv", PLAIN), row("mmcv", MODULATED), row("mmdeploy", PLAIN), row("mmdeploy", MODULATED)];

const PLAIN: &str = "MMCVDeformConv2d";
const MODULATED: &str = "MMCVModulatedDeformConv2d";

const fn row(domain: &'static str, name: &'static str) -> Row {
    Row::of(domain, name, Access::Any, infer).expand(expand).lowers_to("DeformConv")
}

/// The inputs: data and offsets are the first two.
struct Places {
    mask: Option<usize>,
    weight: usize,
}

fn places(attributes: &Attributes) -> Places {
    match attributes.op_type() {
        PLAIN => Places { mask: None, weight: 2 },
        _ => Places { mask: Some(2), weight: 3 },
    }
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

fn infer(call: &Call) -> Result<Vec<Fact>> {
    let (shape, weight) = (call.shape(0)?, call.shape(places(call).weight)?);
    let ([batch, _, height, width], [channels, _, rows, columns]) = (shape, weight) else {
        invalid!("an input of shape {} and a weight of {}", display_shape(shape), display_shape(weight));
    };
    let [stride, padding, dilation] =
        [("stride", 1), ("padding", 0), ("dilation", 1)].map(|(name, default)| pair(call, name, default));
    let (stride, padding, dilation) = (stride?, padding?, dilation?);
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

fn expand(x: &Expand) -> Result<bool> {
    let Places { mask, weight } = places(x);
    let [height, width] = pair(x, "padding", 0)?;
    let attributes = [
        ("strides", pair(x, "stride", 1)?.to_vec().into()),
        ("pads", vec![height, width, height, width].into()),
        ("dilations", pair(x, "dilation", 1)?.to_vec().into()),
        ("group", x.int("groups")?.into()),
        ("offset_group", x.int("deform_groups")?.into()),
    ];
    let mask = mask.map(|mask| x.operand(mask));
    let inputs =
        [Some(x.operand(0)), Some(x.operand(weight)), Some(x.operand(1)), x.optional(weight + 1), mask];
    x.output(0, x.make.op("DeformConv", inputs, attributes));
    Ok(true)
}
