//! Means, deviations and scales.

use crate::lower::Formula;
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

/// Returns the mean of `x` along axes, `x` minus the mean, and the variance along the axes.
pub(super) fn center<'l>(lower: &Lower, x: Nd<'l>, axes: &[usize]) -> [Nd<'l>; 3] {
    // Squares exceed float16 sooner than elements.
    lower.compute_in_float32();
    let mean = x.reduce(reduction_op::MEAN, axes);
    let centered = x - mean;
    [mean, centered, centered.compute(|x| x.square()).reduce(reduction_op::MEAN, axes)]
}

/// Returns `sqrt(variance + epsilon)`.
pub(super) fn deviation(variance: BlobId, epsilon: f32) -> Formula {
    (variance + epsilon).sqrt()
}

/// Repeats each element of a vector `inner` times, and the result `outer` times.
pub(super) fn repeat(vector: &Tensor, outer: usize, inner: usize) -> Result<Tensor> {
    if outer == 1 && inner == 1 {
        return Ok(vector.clone());
    }
    let len = vector.len().checked_mul(outer).and_then(|len| len.checked_mul(inner));
    let len = len.ok_or_else(|| Error::limit("a scale is too large"))?;
    limits::check_listed(len)?;
    Tensor::deferred(crate::tensor::DType::F32, vec![len], vec![vector.clone()], move |arrays| {
        let elements = arrays.at(0)?.float_list()?;
        let each: Vec<f32> = elements.iter().flat_map(|x| std::iter::repeat_n(*x, inner)).collect();
        Ok(Array::f32(ndarray::ArrayD::from_shape_vec(vec![len], each.repeat(outer))?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn vectors_are_repeated_by_element_and_as_a_whole() {
        let vector = Tensor::from_f32(&[2], vec![1.0, 2.0]).unwrap();
        let repeated = repeat(&vector, 2, 3).unwrap().load().unwrap().float_list().unwrap();
        assert_eq!(repeated, [1.0, 1.0, 1.0, 2.0, 2.0, 2.0, 1.0, 1.0, 1.0, 2.0, 2.0, 2.0]);
    }
}
