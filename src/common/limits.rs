//! How much a model may ask for. A model is a file that somebody else made: whatever it says, converting it takes memory and time in
//! proportion to its bytes, beside a fixed allowance that every model has.
//!
//! What is above a limit is refused with an error of kind `Limit`, or stays a node that is computed when the net runs. Bounds of
//! single operators, on how many layers one node may become, stand with their operators.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{Error, Result};

// Reading

/// Largest model file by default, 16 GiB. Protobuf ends at 2 GiB, larger weights lie in external files, which do not count.
pub(crate) const MODEL_BYTES: u64 = 1 << 34;

/// Most messages of a model: nodes, attributes, constants, types, notes and what they consist of. The largest exports have some
/// hundred thousand; in memory these would be about two gigabytes.
pub(crate) const MESSAGES: usize = 1 << 22;

/// Deepest nesting of messages, as in prost, whose answer would list all hundred fields.
pub(crate) const MESSAGE_DEPTH: usize = 100;

/// Deepest nesting of bodies and functions: reading recurses along it. Protobuf itself ends at some thirty bodies.
pub(crate) const NESTING: usize = 64;

/// What inlining may cost: about a node, an input, an output or an element of an attribute each, and sixteen bytes of a name. The
/// largest exports have some ten thousand nodes; functions that call each other twice could make 2^64.
pub(crate) const INLINING: usize = 1 << 19;

/// Most bytes of a name. Those of functions are joined to those of their calls, and exporters write paths of modules: some hundred.
pub(crate) const NAME_BYTES: usize = 1 << 12;

/// Most axes of a tensor: runtimes end at eight or so.
pub(crate) const AXES: usize = 64;

/// Most bytes of all sparse constants of a model once they are dense: a few indices must not become gigabytes.
pub(crate) const DENSE_BYTES: usize = 1 << 28;

/// Most places along the other axes of a tensor that has no elements: it needs no bytes, and whoever walks along its axes would not
/// come to an end.
pub(crate) const EMPTY_PLACES: usize = 1 << 24;

// Sizes

/// Most terms of one expression of sizes; real models need under ten, the bound keeps products from exploding.
pub(crate) const DIM_TERMS: usize = 64;

/// Deepest nesting of divisions in one expression of sizes: above it recursion could exhaust the stack.
pub(crate) const DIM_DEPTH: u32 = 200;

/// Most elements of an integer tensor whose elements are followed as sizes.
pub(crate) const SIZE_ELEMENTS: usize = 1 << 12;

/// Most elements of a blob: ncnn counts them in 32-bit integers.
pub(crate) const BLOB_ELEMENTS: i64 = (1 << 31) - 1;

// Folding

/// Constants of at most this many bytes are evaluated at once; larger ones when they are written.
pub(crate) const EAGER_BYTES: u64 = 1 << 16;

/// A constant may be this much larger than all that it is computed from: a kilobyte must not become a gigabyte.
pub(crate) const FOLD_GROWTH: u64 = 1 << 26;

/// Most bytes in memory while a constant is evaluated, beside sixteen for each byte of the model: half a gigabyte, so that a
/// kilobyte does not take a whole one. Constants that are one element repeated take none until then.
pub(crate) const FOLDING_BYTES: u64 = 1 << 29;

/// Most elements that are computed for all constants of a model, each time that they are, beside 256 for each byte of the model: what
/// is read twice by what is read twice is computed 2^n times. Some seconds.
pub(crate) const FOLDING_WORK: u64 = 1 << 28;

/// Most elements that are computed for one constant where only sizes are.
pub(crate) const SIZES_WORK: u64 = 1 << 16;

/// Longest chain of deferred constants: evaluation recurses along it.
pub(crate) const DEFERRED_DEPTH: usize = 64;

/// Constants of more elements are not looked into by rules that only find something to leave out.
pub(crate) const LOOKED_AT: usize = 1 << 16;

// Expansion

/// Most nodes that one node may become: loops are unrolled.
pub(crate) const UNROLLED_NODES: usize = 100_000;

/// Most nodes that all expansions of a model make together, those of bodies among them: loops may stand in loops.
pub(crate) const EXPANDED_NODES: usize = 1 << 19;

/// Longest axis of what is expanded: something may be listed for each of its places, and float32, in which ncnn counts
/// them, ends there.
pub(crate) const EXPANDED_AXIS: i64 = 1 << 24;

/// Refuses to list something for more places than an axis may have.
pub(crate) fn check_listed(places: usize) -> Result<()> {
    match i64::try_from(places) {
        Ok(places) if places <= EXPANDED_AXIS => Ok(()),
        _ => Err(Error::limit(format!("{places} places, each listed; {EXPANDED_AXIS} are the most"))),
    }
}

/// Most bytes of constants that all expansions of a model make together, beside eight for each byte of the model.
pub(crate) const EXPANDED_BYTES: u64 = 1 << 28;

// Lowering

/// Most elements of a matrix that moves or mixes elements: 64 MiB of weights that the model does not have.
pub(crate) const MATRIX_ELEMENTS: usize = 1 << 24;

/// Most elements of a blob that compares indices with all places: 256 MiB while the net runs.
pub(crate) const COMPARED: i64 = 1 << 26;

/// Longest axis that is resized: the weights of each of its places are worked out.
pub(crate) const RESIZED: i64 = 1 << 20;

/// Most weights of all places of such an axis: a filter that smooths reaches over as many elements as become one.
pub(crate) const RESIZED_WEIGHTS: i64 = 1 << 23;

/// Most elements that a constant is stretched to where broadcasting has more axes than ncnn.
pub(crate) const STRETCHED: i64 = 1 << 22;

// Writing

/// Most elements of all weights of a net, beside 256 for each byte of the model: a kilobyte must not fill a disk. What several layers
/// read is written for each of them, and one element repeated is written as often as it is.
pub(crate) const WRITTEN_ELEMENTS: u64 = 1 << 28;

/// What a model has cost so far, against what it may.
#[derive(Clone, Debug, Default)]
pub(crate) struct Budget {
    /// The bytes of the files that it was read from.
    pub stored: u64,
    /// Whether constants are computed only as far as sizes need it: in a branch of If, which is inferred after each pass.
    pub sizes_alone: bool,
    nodes: usize,
    bytes: u64,
    computed: Arc<AtomicU64>,
}

impl Budget {
    /// Whether a constant may be computed of so many elements, with so many bytes in memory.
    pub fn may_fold(&self, work: u64, memory: u64) -> bool {
        if self.sizes_alone {
            return work <= SIZES_WORK;
        }
        work <= self.meter().left() && memory <= FOLDING_BYTES.saturating_add(self.stored.saturating_mul(16))
    }

    /// What counts the elements that are computed for constants of the model.
    pub fn meter(&self) -> Meter {
        let allowed = FOLDING_WORK.saturating_add(self.stored.saturating_mul(256));
        Meter { computed: Arc::clone(&self.computed), allowed }
    }

    /// Takes what a node was expanded to.
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

    /// Refuses to write a net of more weights than the model may have.
    pub fn check_written(&self, elements: u64) -> Result<()> {
        let allowed = WRITTEN_ELEMENTS.saturating_add(self.stored.saturating_mul(256));
        if elements > allowed {
            let message = format!("the net has {elements} elements of weights; {allowed} are the most");
            return Err(Error::limit(message));
        }
        Ok(())
    }

    /// Whether nothing can be expanded any more.
    pub fn is_spent(&self) -> bool {
        self.nodes > EXPANDED_NODES
            || self.bytes > EXPANDED_BYTES.saturating_add(self.stored.saturating_mul(8))
    }
}

/// Counts the elements that are computed for constants, wherever in the conversion they are.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    computed: Arc<AtomicU64>,
    allowed: u64,
}

impl Meter {
    /// How many elements may still be computed.
    pub fn left(&self) -> u64 {
        self.allowed.saturating_sub(self.computed.load(Ordering::Relaxed))
    }

    /// Takes what is about to be computed.
    pub fn take(&self, elements: u64) -> Result<()> {
        let add = |computed: u64| Some(computed.saturating_add(elements));
        let (Ok(before) | Err(before)) =
            self.computed.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
        if before.saturating_add(elements) > self.allowed {
            let allowed = self.allowed;
            return Err(Error::limit(format!(
                "constants are computed from others, of more than {allowed} elements on the way"
            )));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_computed_is_counted_wherever_it_is() {
        let budget = Budget { stored: 1, ..Budget::default() };
        let most = FOLDING_WORK + 256;
        budget.clone().meter().take(most - 10).unwrap();
        assert!(budget.may_fold(10, 0) && !budget.may_fold(11, 0));
        assert_eq!(budget.meter().take(11).unwrap_err().kind(), crate::error::ErrorKind::Limit);
        assert_eq!(budget.meter().left(), 0);
    }

    #[test]
    fn what_is_inferred_again_and_again_computes_sizes_alone() {
        let (whole, branch) = (Budget::default(), Budget { sizes_alone: true, ..Budget::default() });
        assert!(whole.may_fold(SIZES_WORK + 1, 0) && !branch.may_fold(SIZES_WORK + 1, 0));
        assert!(branch.may_fold(SIZES_WORK, 0));
    }
}
