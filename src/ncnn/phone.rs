//! The layers that run otherwise on a phone than on a desktop: in float32 although the runtime computes in
//! half precision, on the processor although it computes on the GPU, and by transforms that lose digits in
//! float16.

use super::layer::{Trait, is_transformed};
use super::text::{FLOAT16_ARITHMETIC, WINOGRAD};
use super::{Net, NetLayer};

/// The channels of convolutions that the runtime computes in float16 by the transform of Winograd with tiles
/// of 8 by 8: both numbers are at most the last, and one is at least the first (`create_pipeline_fp16s` in
/// `convolution_arm_asimdhp.cpp`). With more channels, the tiles are smaller, and the error is that of other
/// sums.
const ROUGH: (i64, i64) = (16, 128);

impl Net {
    /// Returns whether a layer runs on the GPU if the runtime uses one.
    pub fn runs_on_gpu(&self, layer: &NetLayer) -> bool {
        layer.layer.has(Trait::Source) || (layer.layer.has(Trait::Gpu) && !self.avoids_gpu(layer))
    }

    /// Returns the number of products that a layer adds in float16 for an element.
    pub fn half_sums(&self, layer: &NetLayer) -> u64 {
        if self.sums_in_float16(layer) { self.usual_multiply_adds(layer).1 } else { 0 }
    }

    /// Returns whether the runtime may compute a convolution in float16 after the transform that loses most
    /// digits.
    pub fn is_roughly_transformed(&self, layer: &NetLayer) -> bool {
        !self.careful && self.has_rough_transform(layer) && self.sums_in_float16(layer)
    }

    /// Returns the size of the outermost axis of the first bottom of a layer. `None` if it is free.
    pub(super) fn channels(&self, layer: &NetLayer) -> Option<i64> {
        self.blob(*layer.bottoms.first()?).shape.first()?.known()
    }

    fn sums_in_float16(&self, layer: &NetLayer) -> bool {
        let mask = self.precision_mask(layer) | self.fault_mask(layer);
        mask & FLOAT16_ARITHMETIC == 0 && !layer.layer.is_int8() && layer.layer.block_weight().is_none()
    }

    /// Returns whether a layer is a convolution that avoids a transform because it loses digits in float16.
    pub fn avoids_transform(&self, layer: &NetLayer) -> bool {
        self.precision_mask(layer) & WINOGRAD != 0
    }

    /// Returns whether the runtime may compute a convolution in float16 by the transform of Winograd that
    /// loses most digits.
    pub(super) fn has_rough_transform(&self, layer: &NetLayer) -> bool {
        self.may_be_transformed(layer) && !self.has_small_weight(layer)
    }

    /// Returns whether a convolution has the windows and channels for which the runtime has this transform.
    pub(super) fn may_be_transformed(&self, layer: &NetLayer) -> bool {
        let Some((windows, group, outputs)) = layer.layer.facts().convolves() else { return false };
        let channels = self.channels(layer);
        let (outputs, group) = (i64::from(outputs) / i64::from(group), i64::from(group));
        let (least, most) = ROUGH;
        // A number of channels that is known only at run time may be any.
        let inputs = channels.map_or(least..=most, |channels| channels / group..=channels / group);
        let is_rough = outputs <= most && *inputs.start() <= most && outputs.max(*inputs.end()) >= least;
        is_transformed(&windows) && is_rough && !layer.layer.is_int8()
    }
}

#[cfg(test)]
mod tests {
    use super::super::layer::{Convolution, ConvolutionDepthWise};
    use super::*;
    use crate::ncnn::Layer;
    use crate::ncnn::example::sizes;

    /// Returns whether a 3 by 3 convolution of these channels avoids a transform, after a change of the net.
    fn avoids(layer: impl Into<Layer>, channels: &str, change: impl Fn(&mut Net)) -> bool {
        let mut net = Net { careful: true, ..Net::default() };
        let x = net.push_input("x", &[1, 8, 8]);
        net.push("y", layer, &[x], &[1, 6, 6]);
        net.blob_mut(x).unwrap().shape = sizes(&[channels, "8", "8"]);
        change(&mut net);
        net.avoids_transform(net.layers.last().unwrap())
    }

    fn dense(num_output: i32) -> Convolution {
        Convolution { num_output, kernel_w: 3, kernel_h: 3, ..Convolution::default() }
    }

    fn grouped(num_output: i32, group: i32) -> ConvolutionDepthWise {
        ConvolutionDepthWise {
            num_output,
            group,
            kernel_w: 3,
            kernel_h: 3,
            ..ConvolutionDepthWise::default()
        }
    }

    #[test]
    fn few_channels_are_transformed_in_large_tiles() {
        for (channels, outputs, expected) in [
            ("15", 15, false),
            ("3", 16, true),
            ("16", 1, true),
            ("128", 128, true),
            ("129", 16, false),
            ("3", 129, false),
            ("N", 8, true),
            ("N", 129, false),
        ] {
            assert_eq!(avoids(dense(outputs), channels, |_| ()), expected, "{channels} to {outputs}");
        }
        assert!(avoids(grouped(32, 2), "32", |_| ()));
        assert!(!avoids(grouped(32, 4), "32", |_| ()));
        assert!(!avoids(grouped(32, 32), "32", |_| ()));
    }

    #[test]
    fn other_convolutions_have_no_such_transform() {
        assert!(!avoids(Convolution { stride_w: 2, ..dense(16) }, "16", |_| ()));
        assert!(!avoids(Convolution { dilation_h: 2, ..dense(16) }, "16", |_| ()));
        assert!(!avoids(Convolution { kernel_w: 5, ..dense(16) }, "16", |_| ()));
        assert!(!avoids(dense(16), "16", |net| net.careful = false));
        assert!(!avoids(dense(16), "16", |net| net.precise = true));
        assert!(!avoids(dense(16), "16", |net| net.blob_mut(net.inputs[0]).unwrap().float32 = true));
    }
}
