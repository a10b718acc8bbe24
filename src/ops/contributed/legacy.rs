//! Experimental operators of the domain of ONNX that onnxruntime still computes; early converters wrote them.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::defined("", "Affine", |x| Ok(x.operand(0) * x.float("alpha")? + x.float("beta")?))
        .access(Access::Elementwise)
        .lowers_to("Mul, Add"),
    Row::defined("", "Crop", expand_crop)
        .tolerates_rounding(|_, _| true)
        .lowers_to("Slice")
        .limits("free sizes"),
    Row::defined("", "ImageScaler", expand_image_scaler).lowers_to("Mul, Add"),
    Row::defined("", "ParametricSoftplus", |x| {
        Ok(x.make.op("Softplus", [(x.operand(0) * x.float("beta")?)], []) * x.float("alpha")?)
    })
    .access(Access::Elementwise)
    .lowers_to("Mul, Softplus, Mul"),
    Row::defined("", "Scale", |x| Ok(x.operand(0) * x.float("scale")?))
        .access(Access::Elementwise)
        .lowers_to("Mul"),
    Row::defined("", "ScaledTanh", |x| Ok((x.operand(0) * x.float("beta")?).tanh() * x.float("alpha")?))
        .access(Access::Elementwise)
        .lowers_to("Mul, Tanh, Mul"),
];

fn expand_image_scaler<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let bias = x.make.floats(&x.floats("bias")?).to_type(x.dtype(0)?);
    Ok((x.operand(0) * x.float("scale")?).plus(bias.along(1, x.shape(0)?.len())))
}

/// Returns the first element and the number of elements along height and width.
fn read_crop(call: &Call) -> Result<[(i64, i64); 2]> {
    let [_, _, height, width] = *call.sizes(0)?.as_slice() else {
        invalid!("an input of other than four axes")
    };
    let [left, top, right, bottom] = *call.ints("border")?.as_slice() else {
        invalid!("a border of other than four sides")
    };
    let [rows, columns] = match call.optional_ints("scale")?.as_deref() {
        Some([rows, columns]) => [*rows, *columns],
        _ => [
            height.saturating_sub(top).saturating_sub(bottom),
            width.saturating_sub(left).saturating_sub(right),
        ],
    };
    let parts = [(top, rows, height), (left, columns, width)];
    if parts
        .iter()
        .any(|(first, count, size)| *first < 0 || *count < 1 || first.saturating_add(*count) > *size)
    {
        invalid!("{rows} x {columns} elements from row {top} and column {left} of {height} x {width}");
    }
    Ok(parts.map(|(first, count, _)| (first, count)))
}

fn expand_crop<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let parts = read_crop(x)?;
    let starts = parts.map(|(first, _)| first);
    Ok(x.operand(0).slices(&[2, 3], &starts, &parts.map(|(first, count)| first + count)))
}
