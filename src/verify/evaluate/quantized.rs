//! Quantization by the range of the elements.

use ndarray::ArrayD;

use super::of_type;
use crate::error::Result;
use crate::op::Call;
use crate::tensor::{Array, DType};

/// Levels of the range of the elements and 0. The scale of nothing but zeros is 1, as in onnxruntime; by the
/// specification it is 0.
pub(super) fn dynamic_quantize(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f32()?;
    let (least, most) = x.iter().fold((0.0_f32, 0.0_f32), |(least, most), x| (least.min(*x), most.max(*x)));
    let scale = if most > least { (most - least) / 255.0 } else { 1.0 };
    let level = |x: f32| x.clamp(0.0, 255.0);
    let zero = level((-least / scale).round_ties_even());
    let levels = x.mapv(|x| f64::from(level((x / scale).round_ties_even() + zero)));
    let scalar = |x: f32| ArrayD::from_elem(Vec::new(), x);
    Ok(vec![
        of_type(DType::U8, levels),
        Array::f32(scalar(scale)),
        of_type(DType::U8, scalar(zero).mapv(f64::from)),
    ])
}
