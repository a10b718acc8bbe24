//! Limits on the resources that a model may use. A model is untrusted input: converting it takes memory and
//! time in proportion to its bytes, plus a fixed allowance.
//!
//! Exceeding a limit is an error of kind `Limit`, or leaves a node that is computed at run time. Limits on
//! the number of layers of one operator are defined with the operator.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

// Reading

/// The default maximum size of a model file, 16 GiB. Protobuf ends at 2 GiB; external weight files do not
/// count.
pub(crate) const MODEL_BYTES: u64 = 1 << 34;

/// The maximum number of messages of a model: nodes, attributes, constants, types, metadata and their parts.
/// The largest exports have some hundred thousand; these would take about 2 GB of memory.
pub(crate) const MESSAGES: usize = 1 << 22;

/// The maximum nesting of messages, as in prost, whose error would list all hundred fields.
pub(crate) const MESSAGE_DEPTH: usize = 100;

/// The maximum nesting of bodies and functions, along which reading recurses. Protobuf itself ends at about
/// thirty bodies.
pub(crate) const NESTING: usize = 64;

/// The budget of inlining: about one unit for each node, input, output, attribute element, and sixteen bytes
/// of a name. The largest exports have some ten thousand nodes; functions that call each other twice could
/// give 2^64.
pub(crate) const INLINING: usize = 1 << 19;

/// The maximum bytes of a name. Names in functions are joined to those of their calls, and exporters write
/// module paths of some hundred bytes.
pub(crate) const NAME_BYTES: usize = 1 << 12;

/// The maximum number of axes of a tensor: runtimes support about eight.
pub(crate) const AXES: usize = 64;

/// The maximum bytes of all sparse constants of a model in dense form: a few indices must not give gigabytes.
pub(crate) const DENSE_BYTES: usize = 1 << 28;

/// The maximum product of the nonzero sizes of an empty tensor: it takes no bytes, but loops along its axes
/// must terminate.
pub(crate) const EMPTY_POSITIONS: usize = 1 << 24;

// Sizes

/// The maximum number of terms of a size expression; real models need fewer than ten, and products could
/// explode.
pub(crate) const DIM_TERMS: usize = 64;

/// The maximum nesting of divisions in a size expression: deeper recursion could exhaust the stack.
pub(crate) const DIM_DEPTH: u32 = 200;

/// The maximum number of symbols and operations of a size expression as a text. Expressions share their
/// parts, so the text of a sum of maxima may double with each node.
pub(crate) const DIM_ATOMS: u32 = 1 << 16;

/// The maximum number of elements of an integer tensor whose elements are tracked as sizes.
pub(crate) const SIZE_ELEMENTS: usize = 1 << 12;

/// The maximum number of elements of a blob: ncnn counts them in 32-bit integers.
pub(crate) const BLOB_ELEMENTS: i64 = (1 << 31) - 1;

// Folding

/// Constants of at most this many bytes are evaluated at once; larger ones when they are written.
pub(crate) const EAGER_BYTES: u64 = 1 << 16;

/// The maximum growth of a constant over its inputs: a kilobyte must not give a gigabyte.
pub(crate) const FOLD_GROWTH: u64 = 1 << 26;

/// The maximum bytes in memory during the evaluation of a constant, plus sixteen for each byte of the model.
/// Repeated elements take no memory until then.
pub(crate) const FOLDING_BYTES: u64 = 1 << 29;

/// The maximum number of evaluated elements of all constants, each time that they are evaluated, plus 256 for
/// each byte of the model: a chain of n doublings evaluates 2^n elements.
pub(crate) const FOLDING_WORK: u64 = 1 << 28;

/// The maximum number of evaluated elements of a constant if only sizes are computed.
pub(crate) const SIZES_WORK: u64 = 1 << 16;

/// The maximum length of a chain of deferred constants, along which evaluation recurses.
pub(crate) const DEFERRED_DEPTH: usize = 64;

/// Larger constants are not searched by rules that only optimise.
pub(crate) const LOOKED_AT: usize = 1 << 16;

// Expansion

/// The maximum number of nodes into which one node is unrolled.
pub(crate) const UNROLLED_NODES: usize = 100_000;

/// The maximum number of layers of a path through a net: the runtime recurses over them, with up to 208 bytes
/// of the stack for each, and the stack of a main thread has 8 MB. The rest is for the caller and the layers
/// themselves.
pub(crate) const NET_DEPTH: usize = 36_000;

/// The number of layers of a path for which smaller stacks suffice: the stacks of further threads have 512 KB
/// on some systems.
pub(crate) const SAFE_NET_DEPTH: usize = 2_200;

/// The maximum number of nodes that all expansions of a model add, including those of bodies: loops may be
/// nested.
pub(crate) const EXPANDED_NODES: usize = 1 << 19;

/// The maximum size of an axis that is expanded: its indices may be listed, and float32, in which ncnn
/// counts, represents no more.
pub(crate) const EXPANDED_AXIS: i64 = 1 << 24;

/// Refuses to list more indices than an axis may have.
pub(crate) fn check_listed(count: usize) -> Result<()> {
    match i64::try_from(count) {
        Ok(count) if count <= EXPANDED_AXIS => Ok(()),
        _ => Err(Error::limit(format!("{count} indices, each listed (at most {EXPANDED_AXIS})"))),
    }
}

/// The maximum bytes of constants that all expansions of a model add, plus eight for each byte of the model.
pub(crate) const EXPANDED_BYTES: u64 = 1 << 28;

// Lowering

/// The maximum number of elements of a matrix that moves or mixes elements: 64 MiB of additional weights.
pub(crate) const MATRIX_ELEMENTS: usize = 1 << 24;

/// The maximum number of elements of a blob that compares indices with all positions: 256 MiB at run time.
pub(crate) const COMPARED: i64 = 1 << 26;

/// The maximum size of an axis that is resized: the weights of each position are computed.
pub(crate) const RESIZED: i64 = 1 << 20;

/// The maximum number of weights of all positions of a resized axis: a smoothing filter covers as many
/// elements as it merges.
pub(crate) const RESIZED_WEIGHTS: i64 = 1 << 23;

/// The maximum number of elements to which a constant is broadcast because the result has more axes than ncnn
/// supports.
pub(crate) const STRETCHED: i64 = 1 << 22;

// Writing

/// The maximum number of elements of all weights of a net, plus 256 for each byte of the model: a kilobyte
/// must not fill a disk. Weights that several layers read are written for each of them, and repeated elements
/// are written in full.
pub(crate) const WRITTEN_ELEMENTS: u64 = 1 << 28;

/// The resources that a model has used, and their limits.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    /// The bytes of the files from which it was read.
    pub stored: u64,
    /// Whether constants are evaluated only as far as sizes need it: in a branch of If, which is inferred
    /// after each pass.
    pub only_sizes: bool,
    nodes: usize,
    bytes: u64,
    computed: Arc<AtomicU64>,
}

impl Budget {
    /// Returns whether a constant of that cost may be evaluated.
    pub fn may_fold(&self, work: u64, memory: u64) -> bool {
        if self.only_sizes {
            return work <= SIZES_WORK;
        }
        work <= self.meter().left() && memory <= FOLDING_BYTES.saturating_add(self.stored.saturating_mul(16))
    }

    /// Returns the counter of evaluated elements.
    pub fn meter(&self) -> Meter {
        let allowed = FOLDING_WORK.saturating_add(self.stored.saturating_mul(256));
        Meter { computed: Arc::clone(&self.computed), allowed }
    }

    /// Subtracts the cost of an expansion.
    pub fn take_expansion(&mut self, nodes: usize, bytes: u64) -> Result<()> {
        self.nodes = self.nodes.saturating_add(nodes);
        self.bytes = self.bytes.saturating_add(bytes);
        if self.is_spent() {
            let (nodes, bytes) = (self.nodes, self.bytes);
            return Err(Error::limit(format!(
                "the model expands to {nodes} nodes, and {bytes} bytes of constants"
            )));
        }
        Ok(())
    }

    /// Refuses to write a net with more weights than the model may have.
    pub fn check_written(&self, elements: u64) -> Result<()> {
        let allowed = WRITTEN_ELEMENTS.saturating_add(self.stored.saturating_mul(256));
        if elements > allowed {
            let message = format!("the net has {elements} elements of weights (at most {allowed})");
            return Err(Error::limit(message));
        }
        Ok(())
    }

    /// Returns whether the budget of expansions is used up.
    pub fn is_spent(&self) -> bool {
        self.nodes > EXPANDED_NODES
            || self.bytes > EXPANDED_BYTES.saturating_add(self.stored.saturating_mul(8))
    }
}

/// Counts the evaluated elements of constants during the whole conversion.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    computed: Arc<AtomicU64>,
    allowed: u64,
}

impl Meter {
    /// Returns the number of elements that may still be evaluated.
    pub fn left(&self) -> u64 {
        self.allowed.saturating_sub(self.computed.load(Ordering::Relaxed))
    }

    /// Subtracts the cost of an evaluation.
    pub fn take(&self, elements: u64) -> Result<()> {
        let add = |computed: u64| Some(computed.saturating_add(elements));
        let (Ok(before) | Err(before)) =
            self.computed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if before.saturating_add(elements) > self.allowed {
            let allowed = self.allowed;
            return Err(Error::limit(format!(
                "the evaluation of constants takes more than {allowed} elements"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_evaluations_are_counted() {
        let budget = Budget { stored: 1, ..Budget::default() };
        let most = FOLDING_WORK + 256;
        budget.clone().meter().take(most - 10).unwrap();
        assert!(budget.may_fold(10, 0) && !budget.may_fold(11, 0));
        assert_eq!(budget.meter().take(11).unwrap_err().kind(), crate::error::ErrorKind::Limit);
        assert_eq!(budget.meter().left(), 0);
    }

    #[test]
    fn repeated_inference_evaluates_only_sizes() {
        let (whole, branch) = (Budget::default(), Budget { only_sizes: true, ..Budget::default() });
        assert!(whole.may_fold(SIZES_WORK + 1, 0) && !branch.may_fold(SIZES_WORK + 1, 0));
        assert!(branch.may_fold(SIZES_WORK, 0));
    }
}
