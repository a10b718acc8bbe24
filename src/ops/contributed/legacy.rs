//! Experimental operators of ONNX's own domain that onnxruntime still computes; early converters wrote them.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Affine", Access::Elementwise, infer_same)
        .formula(|x| Ok(x.operand(0) * x.float("alpha")? + x.float("beta")?))
        .lowers_to("Mul, Add"),
    Row::new("Crop", Access::Any, infer_crop)
        .formula(expand_crop)
        .bears_rounding(|_, _| true)
        .lowers_to("Slice")
        .limits("free sizes"),
    Row::new("ImageScaler", Access::Any, infer_same).formula(expand_image_scaler).lowers_to("Mul, Add"),
    Row::new("ParametricSoftplus", Access::Elementwise, infer_same)
        .formula(|x| Ok((x.operand(0) * x.float("beta")?).apply("Softplus", []) * x.float("alpha")?))
        .lowers_to("Mul, Softplus, Mul"),
    Row::new("Scale", Access::Elementwise, infer_same)
        .formula(|x| Ok(x.operand(0) * x.float("scale")?))
        .lowers_to("Mul"),
    Row::new("ScaledTanh", Access::Elementwise, infer_same)
        .formula(|x| Ok((x.operand(0) * x.float("beta")?).tanh() * x.float("alpha")?))
        .lowers_to("Mul, Tanh, Mul"),
];

fn expand_image_scaler<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let bias = x.make.floats(&x.floats("bias")?).to_type(x.dtype(0)?);
    Ok(x.operand(0) * x.float("scale")? + bias.along(1, x.shape(0)?.len()))
}

/// Returns the first element and the number of elements along height and width.
fn read_crop(call: &Call) -> Result<[(i64, i64); 2]> {
    let [_, _, height, width] = *call.sizes(0)?.as_slice() else {
        invalid!("an input of other than four axes")
    };
    let [left, top, right, bottom] = *call.ints("border")?.as_slice() else {
        invalid!("a border of other than four sides")
    };
    let [rows, columns] = match call.given_ints("scale")?.as_deref() {
        Some([rows, columns]) => [*rows, *columns],
        _ => [height - top - bottom, width - left - right],
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

fn infer_crop(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    for (axis, (_, count)) in (2..).zip(read_crop(call)?) {
        shape.put(axis, Dim::Known(count));
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_crop<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let parts = read_crop(x)?;
    let starts = parts.map(|(first, _)| first);
    Ok(x.operand(0).slices(&[2, 3], &starts, &parts.map(|(first, count)| first + count)))
}
