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
mod moment;

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
    Row::of(NCNN_DOMAIN, "Normalize", Access::Any, infer_same)
        .lower(local::lower_normalize)
        .lowers_to("Normalize; Reduction and BinaryOp for an axis between others"),
    Row::new("RMSNormalization", Access::Any, layer::infer_rms_norm)
        .lower(layer::lower_rms_norm)
        .lowers_to("Reduction, UnaryOp, BinaryOp; RMSNorm for runtimes that have it"),
];
