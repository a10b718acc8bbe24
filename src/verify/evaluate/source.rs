//! Operators that make elements from sizes.

use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;

use super::of_type;
use crate::error::Result;
use crate::op::Call;
use crate::tensor::Array;

/// The sum of cosines `a - b cos(2 pi n / N) + c cos(4 pi n / N)`.
pub(super) fn cosine_window(call: &Call, [a, b, c]: [f64; 3]) -> Result<Vec<Array>> {
    let size = call.array(0)?.scalar_i64()?;
    let period: f64 = if call.flag("periodic")? { size } else { size - 1 }.as_();
    let element = |n: i64| {
        let angle = std::f64::consts::TAU * AsPrimitive::<f64>::as_(n) / period;
        a - b * libm::cos(angle) + c * libm::cos(2.0 * angle)
    };
    let window = ArrayD::from_shape_fn(IxDyn(&[usize::try_from(size)?]), |index| element(index[0].as_()));
    Ok(vec![of_type(call.element_type("output_datatype")?, window)])
}

/// The sizes of some axes.
pub(super) fn shape(call: &Call) -> Result<Vec<Array>> {
    let sizes: Vec<i64> = call.array(0)?.shape().iter().map(|size| size.as_()).collect();
    let rank: i64 = sizes.len().as_();
    let bound = |axis: i64| usize::try_from(if axis < 0 { axis + rank } else { axis }.clamp(0, rank));
    let (start, end) = (bound(call.int_or("start", 0)?)?, bound(call.int_or("end", rank)?)?);
    let sizes = sizes.get(start..end.max(start)).unwrap_or_default();
    Ok(vec![Array::i64(ArrayD::from_shape_vec(IxDyn(&[sizes.len()]), sizes.to_vec())?)])
}
