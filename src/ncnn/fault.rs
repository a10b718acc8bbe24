//! Known faults of the runtime's kernels, each with the features that a layer must not use to avoid it.
//!
//! A fault is one of a kernel and not of a kind of arithmetic: without it, the layer is as exact as others of
//! its type.

use num_traits::AsPrimitive;

use super::layer::ConvolutionDepthWise;
use super::text::{FLOAT16_ARITHMETIC, VULKAN};
use super::{Layer, Net, NetLayer};
use crate::common::index::IndexSet;
use crate::error::{Error, Result};
use crate::tensor::Dim;

/// The root mean square of the elements of a weight below which the transform of Winograd with tiles of 8 by
/// 8 has more than twice the usual error in float16: some of its sums of nine weights are 6 * 10^-4 times as
/// large, and denormal.
const SMALL_WEIGHT: f64 = 1.0 / 256.0;

/// The terms that the kernel of Softmax for ARM64 adds one by one in float16 with an error of at most two
/// percent. A sum loses terms below 2^-12 of it.
const MAX_SUMMED: i64 = 256;

/// The elements of float16 in a register of ARM64, and those of two packs of channels that share one.
const LANES: [i64; 2] = [8, 4];

/// A fault of the kernels of some layers.
struct Fault {
    /// What is wrong.
    about: &'static str,
    /// The features with which it is.
    features: i32,
    /// Returns whether it may show in a layer; sizes may be free.
    may_show: fn(&Net, &NetLayer) -> bool,
}

const FAULTS: &[Fault] = &[
    Fault {
        about: "a column is wrong in float16 on ARM64",
        features: FLOAT16_ARITHMETIC,
        may_show: steps_in_pairs,
    },
    Fault {
        about: "small weights are lost by a transform in float16",
        features: FLOAT16_ARITHMETIC,
        may_show: |net, layer| net.has_small_weight(layer),
    },
    Fault { about: "results are wrong on the GPU", features: VULKAN, may_show: broadcasts_four_axes },
];

impl Net {
    /// Returns the features that a layer must not use because of faults.
    pub(super) fn fault_mask(&self, layer: &NetLayer) -> i32 {
        self.faults(layer).fold(0, |mask, fault| mask | fault.features)
    }

    /// Returns what would be wrong in a layer with all features that its numbers allow.
    pub fn avoided_faults(&self, layer: &NetLayer) -> impl Iterator<Item = &'static str> {
        let mask = self.precision_mask(layer);
        self.faults(layer).filter(move |fault| fault.features & !mask != 0).map(|fault| fault.about)
    }

    /// Finds the convolutions whose weights are so small that a transform of Winograd loses them in float16.
    ///
    /// # Errors
    ///
    /// `Io` if a file of weights cannot be read.
    pub(crate) fn find_small_weights(&mut self) -> Result<()> {
        let mut found = IndexSet::default();
        for layer in self.layers.iter().filter(|layer| self.may_be_transformed(layer)) {
            let weights = layer.layer.weights();
            let Some(weight) = weights.iter().find(|weight| weight.name == "weight_data") else { continue };
            let elements: f64 = weight.tensor.len().as_();
            let least = elements * SMALL_WEIGHT.powi(2);
            let mut sum = 0.0;
            let read = weight.tensor.for_each_f32(&mut |elements| {
                sum += elements.iter().map(|element| f64::from(*element).powi(2)).sum::<f64>();
                // An error ends the reading: the first elements of most weights suffice.
                if sum < least { Ok(()) } else { Err(Error::internal("large weights")) }
            });
            if sum < least {
                read?;
                found.extend(layer.tops.iter().copied());
            }
        }
        self.small_weights = found;
        Ok(())
    }

    /// Returns whether [`Net::find_small_weights`] found a layer.
    pub(super) fn has_small_weight(&self, layer: &NetLayer) -> bool {
        layer.tops.first().is_some_and(|top| self.small_weights.contains(*top))
    }

    /// Returns whether a layer is a Softmax over so many elements that its sum in float16 loses some,
    /// whatever arithmetic a mask asks for.
    pub(super) fn loses_terms(&self, layer: &NetLayer) -> bool {
        let (Layer::Softmax(softmax), [bottom]) = (&layer.layer, layer.bottoms.as_slice()) else {
            return false;
        };
        let shape = &self.blob(*bottom).shape;
        let axis = i32::try_from(shape.len()).ok().and_then(|axes| softmax.axis.checked_rem_euclid(axes));
        let Some(axis) = axis.and_then(|axis| usize::try_from(axis).ok()) else { return false };
        let size = shape.get(axis).and_then(Dim::known);
        size.is_some_and(|size| size > MAX_SUMMED * sums_of_softmax(shape, axis))
    }

    fn faults(&self, layer: &NetLayer) -> impl Iterator<Item = &'static Fault> {
        FAULTS.iter().filter(|fault| (fault.may_show)(self, layer))
    }
}

/// Returns whether a layer is a depthwise 3 by 3 convolution with stride 2 over packs of 8 channels that
/// computes two columns at once, after all groups of four. The kernel reads the fifth element of the second
/// and third row from the first one (`convdw3x3s2_pack8_fp16sa_neon` in
/// `convolutiondepthwise_3x3_pack8_fp16s.h`).
fn steps_in_pairs(net: &Net, layer: &NetLayer) -> bool {
    const PACK: i32 = 8;
    let Layer::ConvolutionDepthWise(convolution) = &layer.layer else { return false };
    let ConvolutionDepthWise { group, num_output, .. } = **convolution;
    let is_window = convolution
        .windows()
        .iter()
        .all(|window| (window.kernel, window.dilation, window.stride) == (3, 1, 2));
    let channels = layer.bottoms.first().and_then(|bottom| net.blob(*bottom).shape.first());
    let is_depthwise = group == num_output && channels.is_some_and(|channels| channels.is(group.into()));
    let width = layer.tops.first().and_then(|top| net.blob(*top).shape.last());
    let left = width.and_then(|width| width.modulo(4).known());
    let has_pair = left.is_none_or(|left| left >= 2);
    is_window && is_depthwise && group % PACK == 0 && has_pair && !layer.layer.is_int8()
}

/// Returns among how many sums the kernel of Softmax divides the terms along an axis, at least if sizes are
/// free (`softmax_fp16s` in `softmax_arm_asimdhp.cpp`).
fn sums_of_softmax(shape: &[Dim], axis: usize) -> i64 {
    let [whole, half] = LANES;
    let is_packed = |pack: i64| {
        let left = shape.first().and_then(|channels| channels.modulo(pack).known());
        left.is_none_or(|left| left == 0)
    };
    match (axis, shape.len()) {
        (_, 1) => whole,
        // The channels of a pack are added as a whole, and then to the sum.
        (0, _) => LANES.into_iter().find(|pack| is_packed(*pack)).unwrap_or(1),
        // A lane has the terms of one channel.
        (axis, axes) if axis + 1 == axes => {
            if is_packed(whole) {
                1
            } else if is_packed(half) {
                whole / half
            } else {
                whole
            }
        }
        _ => 1,
    }
}

/// Returns whether a layer is arithmetic that broadcasts blobs of four axes, for which BinaryOp on the GPU
/// reads beyond them, or gives other results (`binaryop_broadcast.comp`).
fn broadcasts_four_axes(net: &Net, layer: &NetLayer) -> bool {
    let [a, b] = layer.bottoms.as_slice() else { return false };
    let (a, b) = (&net.blob(*a).shape, &net.blob(*b).shape);
    matches!(layer.layer, Layer::BinaryOp(_)) && a.len() == 4 && b.len() == 4 && a != b
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::example::sizes;
    use crate::ncnn::layer::{Convolution, Softmax};
    use crate::tensor::Tensor;

    /// Returns the mask of a convolution over 16 channels with tops of this width, and the number of its
    /// faults.
    fn mask(width: &str, change: impl Fn(&mut ConvolutionDepthWise, &mut Net)) -> (i32, usize) {
        let mut net = Net::default();
        let mut layer = ConvolutionDepthWise {
            num_output: 16,
            group: 16,
            kernel_w: 3,
            kernel_h: 3,
            stride_w: 2,
            stride_h: 2,
            ..ConvolutionDepthWise::default()
        };
        let x = net.push_input("x", &[16, 9, 9]);
        change(&mut layer, &mut net);
        let y = net.push("y", layer, &[x], &[16, 4, 4]);
        net.blob_mut(y).unwrap().shape = sizes(&["16", "4", width]);
        let layer = net.layers.last().unwrap();
        let params = net.params(layer, false);
        let mask = params.iter().find_map(|(id, param)| match param {
            crate::ncnn::layer::Param::Int(mask) if *id == 31 => Some(*mask),
            _ => None,
        });
        (mask.unwrap_or(0), net.avoided_faults(layer).count())
    }

    #[test]
    fn pairs_of_columns_avoid_float16() {
        let with_width = |width| mask(width, |_, _| {});
        for (width, expected) in
            [("4", 0), ("5", 0), ("6", 1), ("7", 1), ("N", 1), ("4*N", 0), ("4*N + 3", 1)]
        {
            assert_eq!(with_width(width), (expected, usize::from(expected != 0)), "{width}");
        }
    }

    /// Returns the mask of a 3 by 3 convolution over 16 channels, by the usual size of its weights.
    fn mask_by_weights(element: f32, change: impl Fn(&mut Convolution, &mut Net)) -> i32 {
        let mut net = Net::default();
        let mut layer = Convolution { num_output: 16, kernel_w: 3, kernel_h: 3, ..Convolution::default() };
        // Half of them, so the root mean square is smaller by a factor of 0.71.
        let weights = (0..16 * 16 * 9).map(|index| if index % 2 == 0 { element } else { 0.0 }).collect();
        layer.weight_data = Some(Tensor::from_f32(&[16, 16, 3, 3], weights).unwrap());
        let x = net.push_input("x", &[16, 8, 8]);
        change(&mut layer, &mut net);
        net.push("y", layer, &[x], &[16, 6, 6]);
        net.find_small_weights().unwrap();
        let layer = net.layers.last().unwrap();
        net.precision_mask(layer) | net.fault_mask(layer)
    }

    #[test]
    fn small_weights_avoid_float16() {
        let with = |element| mask_by_weights(element, |_, _| {});
        assert_eq!([0.1, 0.006, 0.005, -0.005, 1e-5].map(with), [0, 0, 1, 1, 1]);
        let changed = |change: fn(&mut Convolution, &mut Net)| mask_by_weights(1e-3, change);
        assert_eq!(changed(|layer, _| layer.stride_w = 2), 0);
        assert_eq!(changed(|layer, _| layer.weight_data = None), 0);
        // Without float16, a transform loses nothing.
        assert_eq!(changed(|_, net| net.careful = true), 1);
        assert_eq!(mask_by_weights(0.1, |_, net| net.careful = true), 64);
    }

    #[test]
    fn sums_of_many_are_in_float32() {
        for (sizes, axis, most) in [
            // Eight sums for a row, two of a pack of four rows, and one of a pack of eight.
            (vec![""], 0, 2048),
            (vec!["7", ""], -1, 2048),
            (vec!["4", ""], 1, 512),
            (vec!["16", ""], 1, 256),
            (vec!["N", ""], 1, 256),
            (vec!["8*N + 1", ""], 1, 2048),
            (vec!["8*N + 4", ""], 1, 512),
            (vec!["3", "8", ""], 2, 2048),
            (vec!["8", "3", ""], 2, 256),
            (vec!["7", "", "3"], 1, 256),
            // The sums are those of other axes.
            (vec!["", "9"], 0, 2048),
        ] {
            for (size, expected) in [(most, 0), (most + 8, 23)] {
                assert_eq!(mask_of_softmax(&sizes, axis, &size.to_string()), expected, "{sizes:?}, {size}");
            }
        }
        assert_eq!(mask_of_softmax(&["", "9"], 0, "1028"), 23);
        assert_eq!(mask_of_softmax(&["", "9"], 0, "257"), 23);
        assert_eq!(mask_of_softmax(&["8", ""], 1, "N"), 0);
    }

    /// Returns the mask of a Softmax along an axis; an empty size of its bottom is replaced.
    fn mask_of_softmax(shape: &[&str], axis: i32, size: &str) -> i32 {
        let mut net = Net::default();
        let x = net.push_input("x", &[4, 4]);
        let shape: Vec<&str> = shape.iter().map(|word| if word.is_empty() { size } else { word }).collect();
        net.blob_mut(x).unwrap().shape = sizes(&shape);
        net.push("y", Softmax { axis, fixbug0: 1 }, &[x], &[4, 4]);
        net.isolate_float32();
        net.precision_mask(net.layers.last().unwrap())
    }

    #[test]
    fn other_kernels_have_no_mask() {
        assert_eq!(mask("7", |layer, _| layer.stride_w = 1), (0, 0));
        assert_eq!(mask("7", |layer, _| layer.kernel_h = 5), (0, 0));
        assert_eq!(mask("7", |layer, _| layer.dilation_w = 2), (0, 0));
        assert_eq!(mask("7", |layer, _| layer.group = 8), (0, 0));
        assert_eq!(mask("7", |layer, _| (layer.group, layer.num_output) = (12, 12)), (0, 0));
    }

    #[test]
    fn masks_that_avoid_more_stay() {
        assert_eq!(mask("7", |_, net| net.precise = true), (1, 0));
        assert_eq!(mask("7", |_, net| net.blob_mut(net.inputs[0]).unwrap().float32 = true), (23, 0));
    }
}
