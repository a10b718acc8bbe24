//! The cost of evaluating deferred tensors.

use super::{DType, Data, Tensor, float8};

/// The cost of evaluating a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Evaluated elements of its inputs, for each read.
    pub before: u64,
    /// Evaluated elements of the tensor itself.
    pub direct: u64,
    /// The maximum bytes in memory.
    pub memory: u64,
}

impl Cost {
    /// Returns the total of evaluated elements.
    pub fn work(self) -> u64 {
        self.before.saturating_add(self.direct)
    }
}

/// The resources of an array.
struct Extent {
    /// The cost of an element, in float32 operations.
    steps: u64,
    /// The bytes in memory.
    bytes: u64,
}

impl Extent {
    fn of(dtype: DType, shape: &[usize]) -> Extent {
        let elements = shape.iter().fold(1_usize, |n, d| n.saturating_mul(*d));
        let elements = u64::try_from(elements).unwrap_or(u64::MAX);
        let steps = if dtype.is_float() && dtype.bits() <= 8 { float8::STEPS } else { 1 };
        let width = if dtype == DType::F32 { 4 } else { 8 };
        Extent { steps: elements.saturating_mul(steps), bytes: elements.saturating_mul(width) }
    }
}

impl Tensor {
    /// Returns the cost of a tensor computed from `inputs` with one step for each element.
    pub(crate) fn cost(dtype: DType, shape: &[usize], inputs: &[Tensor]) -> Cost {
        let made = Extent::of(dtype, shape);
        let (mut before, mut direct, mut loaded, mut memory) = (0_u64, made.steps, 0_u64, 0_u64);
        for input in inputs {
            let extent = Extent::of(input.0.dtype, &input.0.shape);
            let input_memory = if let Data::Deferred(deferred) = &input.0.data {
                before = before.saturating_add(deferred.cost.work());
                deferred.cost.memory
            } else {
                direct = direct.saturating_add(extent.steps);
                extent.bytes
            };
            memory = memory.max(loaded.saturating_add(input_memory));
            loaded = loaded.saturating_add(extent.bytes);
        }
        Cost { before, direct, memory: memory.max(loaded.saturating_add(made.bytes.saturating_mul(2))) }
    }
}
