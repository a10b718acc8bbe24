//! Pad and CenterCropPad: elements added around a value or removed.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | negative amounts | Crop |
//! | constant, edge, reflect | Padding of up to three axes at once |
//! | constant, edge by a free size | Padding by its upper bound and Crop; Concat of a product with ones if it has none |
//! | reflect by a free size | Concat with Flip |
//! | reflect by the size of the axis or more | Crop and Concat; the sizes must be fixed |
//! | wrap | Crop and Concat |
//! | an infinite constant | Padding with a value per channel: a param cannot be infinite |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Pad.html>, `onnx__CenterCropPad.html`.

use super::size::known_dims;
use crate::op::{Move, Moved, axes_or_all, required};
use crate::ops::prelude::*;
use crate::tensor::Border;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::moving("", "CenterCropPad", Access::Any, |call| {
        Ok(vec![padded(center_amounts(call)?, &Border::Constant(number(call, 0.0)?))])
    })
    // The target size of a batch is stated.
    .batched(|_, _| false)
    .lowers_to("Padding, Crop")
    .limits("free sizes"),
    Row::moving("", "Pad", Access::Any, |call| Ok(vec![padded(pad_amounts(call)?, &border(call)?)]))
        .lowers_to(
            "Padding; Crop for negative amounts; Crop and Concat for wrap, for reflections by the size of the \
            axis or more, and for free sizes without an upper bound",
        )
        .limits("amounts or a constant computed at run time"),
];

/// The numbers of elements added before and after each axis; negative numbers remove elements.
type Amounts = Vec<[Dim; 2]>;

fn padded(amounts: Amounts, border: &Border<Array>) -> Moved {
    let amounts =
        amounts.into_iter().enumerate().filter(|(_, added)| !added.iter().all(|amount| amount.is(0)));
    Moved::by(amounts.map(|(axis, added)| Move::Pad { axis, added, border: border.clone() }))
}

fn border(call: &Call) -> Result<Border<Array>> {
    Ok(match call.string("mode")? {
        "constant" if call.since() < 11 => Border::Constant(number(call, call.float("value")?)?),
        "constant" if !call.has_input(2) => Border::Constant(number(call, 0.0)?),
        "constant" => {
            let value = call.array(2)?;
            if value.len() != 1 {
                invalid!("constant_value has {} elements", value.len());
            }
            Border::Constant(value.reshape(&[])?)
        }
        "edge" => Border::Edge,
        "reflect" => Border::Reflect,
        // New in version 19; torch writes it in older ones too, and onnxruntime accepts it there.
        "wrap" => Border::Wrap,
        other => unsupported!("unknown mode \"{other}\""),
    })
}

/// Returns a number in the type of the data.
fn number(call: &Call, number: f32) -> Result<Array> {
    Array::f32(ndarray::ArrayD::from_elem(Vec::new(), number)).cast(call.dtype(0)?)
}

/// Reads the amounts of each axis: attributes before version 11, then an input; since version 18 another
/// input lists the axes.
fn pad_amounts(call: &Call) -> Result<Amounts> {
    let (since, rank) = (call.since(), call.shape(0)?.len());
    let pads = match since {
        1 => call.optional_ints("paddings")?.map(known_dims),
        2 => call.optional_ints("pads")?.map(known_dims),
        _ => call.optional_dims(1)?,
    };
    let pads = required(pads, "pads")?;
    let axes = if since >= 18 { call.optional_dims(3)? } else { None };
    let axes = axes.unwrap_or((0..rank.int()).map(Dim::Known).collect());
    if pads.len() != 2 * axes.len() {
        invalid!("pads has {} elements for {} axes", pads.len(), axes.len());
    }
    let mut amounts = vec![[Dim::ZERO; 2]; rank];
    let mut padded = Vec::new();
    let (before, after) = pads.split_at_checked(axes.len()).unwrap_or((&pads, &[]));
    for ((axis, before), after) in axes.iter().zip(before).zip(after) {
        let Some(axis) = axis.known() else { unsupported!("the axis {axis} is not fixed") };
        let axis = resolve_axis(axis, rank)?;
        if padded.contains(&axis) {
            invalid!("axis {axis} is padded twice");
        }
        padded.push(axis);
        for amount in [before, after].into_iter().filter_map(Dim::known) {
            if amount.unsigned_abs() > limits::BLOB_ELEMENTS.unsigned_abs() {
                return Err(Error::limit(format!(
                    "axis {axis} is padded by {amount}; a blob has at most {} elements",
                    limits::BLOB_ELEMENTS
                )));
            }
        }
        amounts.put(axis, [before.clone(), after.clone()]);
    }
    Ok(amounts)
}

/// Returns the target sizes of CenterCropPad; the declared ones if they are computed at run time.
fn center_target(call: &Call) -> Result<Vec<Dim>> {
    let axes = axes_or_all(call, call.shape(0)?.len())?;
    call.check_list(1, axes.len())?;
    call.dims(1).or_else(|error| match call.declared_instead_of(1) {
        Some(declared) => axes.iter().map(|axis| declared.at(*axis).cloned()).collect(),
        None => Err(error),
    })
}

/// Returns the amounts that bring each axis to its target size; the larger half of an odd difference goes
/// after.
fn center_amounts(call: &Call) -> Result<Amounts> {
    let (shape, target) = (call.shape(0)?, center_target(call)?);
    let axes = axes_or_all(call, shape.len())?;
    if axes.len() != target.len() {
        invalid!("the target has {} sizes for {} axes", target.len(), axes.len());
    }
    let mut amounts = vec![[Dim::ZERO; 2]; shape.len()];
    for (axis, size) in axes.iter().zip(&target) {
        let difference = size - shape.at(*axis)?;
        let Some(n) = difference.known() else {
            unsupported!("cannot pad an axis of size {} to {size}", shape.at(*axis)?)
        };
        let before = n / 2;
        amounts.put(*axis, [before.into(), (n - before).into()]);
    }
    Ok(amounts)
}
