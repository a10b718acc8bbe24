//! BitCast: the same bits as another type.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__BitCast.html>.

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::defined("", "BitCast", expand_bit_cast)
    .fold(fold_bit_cast)
    .lowers_to("Cast between integers of 8 or 16 bits")
    .limits("floats, and integers of 32 and 64 bits, computed at run time")];

fn fold_bit_cast(call: &Call) -> Result<Vec<Array>> {
    let array = call.array(0)?;
    Ok(vec![Array::from_bytes(call.element_type("to")?, array.shape(), &array.to_bytes()?)?])
}

fn expand_bit_cast<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let (from, to) = (x.dtype(0)?, x.element_type("to")?);
    if from.bits() != to.bits() {
        invalid!("elements of {} bits cast to {} of {}", from.bits(), to, to.bits());
    }
    if from == to {
        return Ok(x.operand(0));
    }
    // Wrapping keeps the bits of an integer. Float32 does not represent all integers of more than 16 bits.
    if from.int_range().is_none() || to.int_range().is_none() || to == DType::Bool || to.bits() > 16 {
        x.refuse(Error::unsupported(format!("the bits of {from} as {to}: ncnn computes in float32")));
    }
    Ok(x.operand(0).cast(to))
}
