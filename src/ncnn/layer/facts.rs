//! What the tables of layers say besides params and weights.

use super::Work;
use super::shape::{Sizes, Tops, one};
use super::weight::Reads;
use super::window::Window;
use crate::error::{At, Result};
use crate::ncnn::block::BlockFormat;
use crate::tensor::Dim;

/// A trait of a layer type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trait {
    /// It has code for the GPU in the newest release (`src/layer/vulkan`).
    Gpu,
    /// Each element of the top is an element of a bottom: it needs float32 if they do.
    Move,
    /// It is an elementwise function for blobs of up to three axes.
    Function,
    /// It ignores the axis d of four in a supported release.
    NoDepth,
    /// It computes one element at a time, and so takes longer than others of its work.
    Scalar,
    /// Its tops are float32 on runtimes of half precision, without a mask: inputs, constants, and the
    /// identity, which has no code for half precision.
    Float32,
    /// Its tops are not computed: inputs and constants.
    Source,
    /// It unpacks all its bottoms, also if it reads only the size of one.
    Unpacks,
    /// It never gets a mask against half precision, for which it has no code.
    Unmasked,
    /// It computes in float32 only on request, whatever its bottoms are: a mask may become -inf, and
    /// attention in float32 takes twice the time and differs only for a query of which all keys are masked.
    OnRequest,
}

/// What checks and passes ask of a layer, besides its params and weights.
pub(in crate::ncnn) trait Facts {
    /// Returns the type in the binary form of the `.param` file.
    fn index(&self) -> i32;

    /// Returns whether the layer has a trait.
    fn has(&self, wanted: Trait) -> bool;

    /// Returns the weights that `load_model` reads, in its order. `bottom` is the shape of the first bottom.
    fn reads(&self, _bottom: &[Dim]) -> Reads {
        Ok(Vec::new())
    }

    /// Returns the shapes of the tops for the shapes of the bottoms.
    fn top_sizes(&self, bottoms: &[Sizes], _tops: usize) -> Result<Tops> {
        one(bottoms.at(0)?.as_slice())
    }

    /// Returns the multiply-adds; `None` if a size is not known.
    fn work(&self, _work: &Work) -> Option<u64> {
        Some(0)
    }

    /// Returns whether a constant of the layer is beyond float16, in which it would be infinite: a product
    /// with 0 is NaN then. Bounds may be infinite.
    fn exceeds_half(&self) -> bool {
        false
    }

    /// Returns whether the layer computes the right result if the bottom at `index` is empty. The runtime
    /// hands empty blobs on to layers; most fail, and those that work in place read a null pointer
    /// (`net.cpp`).
    fn accepts_empty(&self, index: usize) -> bool {
        self.reads_only_size(index) && !self.has(Trait::Unpacks)
    }

    /// Returns whether the result depends on the size of the bottom at `index`, but on no element.
    fn reads_only_size(&self, _index: usize) -> bool {
        false
    }

    /// Returns whether the top at `index` is a cache in a layout private to the runtime. The last bottoms are
    /// the caches that it continues.
    fn computes_cache(&self, _index: usize) -> bool {
        false
    }

    /// Returns whether the layer is an elementwise function with these params.
    fn is_function(&self) -> bool {
        self.has(Trait::Function)
    }

    /// Returns whether the layer reads 32-bit integers: `Some(false)` if it reads and computes them, or
    /// neither.
    fn reads_integers(&self) -> Option<bool> {
        None
    }

    /// Returns the windows of a convolution over two inner axes, its groups and its output channels.
    fn convolves(&self) -> Option<(Vec<Window>, i32, i32)> {
        None
    }

    /// Returns whether the layer reads 8-bit integers, and whether it computes them.
    fn bytes(&self) -> (bool, bool) {
        (false, false)
    }

    /// Returns the direction of a recurrent layer: 0 forward, 1 reverse, 2 both.
    fn direction(&self) -> Option<i32> {
        None
    }

    /// Returns the number of output channels of a depthwise convolution.
    fn depthwise_outputs(&self) -> Option<i32> {
        None
    }

    /// Returns the names of the weights of int8.
    fn int8_weights(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the format and the name of the weight in blocks.
    fn block_weight(&self) -> Option<(BlockFormat, &'static str)> {
        None
    }
}
