//! Gated units.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__SwiGLU.html>.

use crate::error::{At, Error, Result};
use crate::lower::Lower;
use crate::ncnn::layer::GLU;
use crate::op::{Access, Call, Fact, OWN_DOMAIN, required, resolve_axis};
use crate::ops::Row;
use crate::pass::expand::Expand;
use crate::tensor::Dim;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("GLU", &[1], Access::Any, infer_glu).domain(OWN_DOMAIN).lower(lower_glu).lowers_to("GLU"),
    Row::new("SwiGLU", &[28], Access::Any, infer_swiglu)
        .expand(expand_swiglu)
        .lowers_to("a * Sigmoid(alpha * a) * b"),
];

/// Returns the axis that is halved, and its size after that.
fn read_glu(call: &Call) -> Result<(usize, Dim)> {
    let shape = call.shape(0)?;
    let axis = resolve_axis(required(call.int("axis")?, "axis")?, shape.len())?;
    let half = shape.at(axis)?.exact_div(&Dim::Known(2));
    Ok((axis, half.ok_or_else(|| Error::invalid("the axis has an odd size"))?))
}

fn infer_glu(call: &Call) -> Result<Vec<Fact>> {
    let (axis, half) = read_glu(call)?;
    let mut shape = call.shape(0)?.to_vec();
    if let Some(size) = shape.get_mut(axis) {
        *size = half;
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn lower_glu(lower: &mut Lower) -> Result<()> {
    let (axis, half) = read_glu(lower)?;
    let (mut x, places) = lower.isolated(0, &[axis])?;
    let mut place = *places.at(0)?;
    if lower.form(x).len() > 3 {
        (x, place) = lower.grouped(x, place)?;
    }
    let mut form = lower.form(x);
    if let Some(size) = form.get_mut(place) {
        *size = half;
    }
    let y = lower.emit(GLU { axis: i32::try_from(place)? }, &[x], &form)?;
    lower.set(0, y)
}

fn read_alpha(call: &Call) -> Result<f32> {
    call.float_or("alpha", 1.0)
}

fn infer_swiglu(call: &Call) -> Result<Vec<Fact>> {
    read_alpha(call)?;
    Ok(vec![call.like(0, call.dtype(0)?)?])
}

fn expand_swiglu(x: &Expand) -> Result<bool> {
    let alpha = read_alpha(x)?;
    let (gate, value) = (x.operand(0), x.operand(1));
    let scaled = if alpha == 1.0 { gate } else { gate * alpha };
    x.output(0, gate * scaled.sigmoid() * value);
    Ok(true)
}
