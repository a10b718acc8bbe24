//! Normalizations.
//!
//! ncnn's RMSNorm is newer than the oldest supported release: it is composed of other layers unless a newer
//! release is requested. Divisions by a root are UnaryOp SQRT and BinaryOp DIV: UnaryOp RSQRT is an estimate
//! of twelve bits in `unaryop_x86.cpp`.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__BatchNormalization.html>, `onnx__InstanceNormalization.html`
//! and so on.

mod batch;
mod channel;
mod layer;
mod local;

use crate::lower::Formula;
use crate::ncnn::layer::reduction_op;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("BatchNormalization", Access::Any, batch::infer_batch_norm)
        .batched(|call, index| index == 0 && batch::has_statistics(call))
        .expand(batch::expand_batch_norm)
        .lower(batch::lower_batch_norm)
        .lowers_to("BatchNorm; BinaryOp for a batch or a parameter computed at run time")
        .limits("training before version 14"),
    Row::new("GroupNormalization", Access::Any, channel::infer_group_norm)
        .batched(|_, index| index == 0)
        .lower(channel::lower_group_norm)
        .lowers_to("GroupNorm"),
    Row::new("InstanceNormalization", Access::Any, channel::infer_instance_norm)
        .batched(|_, index| index == 0)
        .lower(channel::lower_instance_norm)
        .lowers_to("InstanceNorm"),
    Row::new("LRN", Access::Any, infer_same)
        .batched(|_, index| index == 0)
        .lower(local::lower_lrn)
        .lowers_to("LRN; Pooling along the channels for a batch or an even size"),
    // onnxruntime's optimizer used this operator before ONNX had it.
    Row::new("LayerNormalization", Access::Any, layer::infer_layer_norm)
        .lower(layer::lower_layer_norm)
        .lowers_to("LayerNorm; Reduction if Mean or InvStdDev is read"),
    Row::new("LpNormalization", Access::Any, infer_same)
        .lower(local::lower_lp_norm)
        .lowers_to("Reduction, Power, BinaryOp")
        .limits("p over 2"),
    Row::new("MeanVarianceNormalization", Access::Any, infer_same)
        .lower(local::lower_mvn)
        .lowers_to("Reduction, Power, BinaryOp"),
    Row::of(OWN_DOMAIN, "Normalize", Access::Any, infer_same)
        .lower(local::lower_normalize)
        .lowers_to("Normalize; Reduction and BinaryOp for an axis between others"),
    Row::new("RMSNormalization", Access::Any, layer::infer_rms_norm)
        .lower(layer::lower_rms_norm)
        .lowers_to("Reduction, UnaryOp, BinaryOp; RMSNorm for runtimes that have it"),
];

/// Emits `x` minus its mean along axes, and its variance along them.
fn center(lower: &mut Lower, x: BlobId, axes: &[usize]) -> Result<(BlobId, BlobId, BlobId)> {
    // Squares exceed float16 sooner than elements.
    lower.compute_in_float32();
    let mean = lower.reduce(reduction_op::MEAN, x, axes)?;
    let centered = lower.compute(x - mean)?;
    let variance = lower.reduce(reduction_op::MEAN, centered.square(), axes)?;
    Ok((mean, centered, variance))
}

/// Returns `sqrt(variance + epsilon)`.
fn deviation(variance: BlobId, epsilon: f32) -> Formula {
    (variance + epsilon).sqrt()
}

/// Repeats each element of a vector `inner` times, and the result `outer` times.
fn repeat(vector: &Tensor, outer: usize, inner: usize) -> Result<Tensor> {
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
