//! DynamicQuantizeLSTM, whose weights are quantized; at every step the other values are quantized by their
//! own range.

use super::{Plain, trim};
use crate::error::{Error, Result};
use crate::graph::{Attribute, Ids, Node, ValueId};
use crate::tensor::DType;

/// The indices of each weight, its scale and its zero point.
const WEIGHTS: [[usize; 3]; 2] = [[1, 8, 9], [2, 10, 11]];

impl Plain<'_> {
    /// Replaces DynamicQuantizeLSTM by LSTM. The weights of the former have the gates along the last axis,
    /// and a scale for each direction or each gate.
    pub(super) fn lstm(mut self) -> Result<Vec<Node>> {
        let mut inputs: Ids = (0..8).map(|index| self.input(index)).collect();
        for [weight, scale, zero] in WEIGHTS {
            let mut operand = self.cast_to_float(weight)?;
            for (op_type, index) in [("Sub", zero), ("Mul", scale)] {
                let parameter = self.cast_to_float(index)?;
                // Directions, then gates or one element for all.
                let parameter = self.point.reshape(parameter, &[0, 1, -1])?;
                operand = self.point.op(op_type, &[operand, parameter], &[]);
            }
            let perm = ("perm", Attribute::Ints(vec![0, 2, 1]));
            let transposed = self.point.op("Transpose", &[operand], &[perm]);
            if let Some(slot) = inputs.get_mut(weight) {
                *slot = Some(transposed);
            }
        }
        trim(&mut inputs);
        Ok(self.point.finish("LSTM", inputs, self.node.attributes.clone()))
    }

    /// Casts input `index` to float32.
    fn cast_to_float(&mut self, index: usize) -> Result<ValueId> {
        let value = self.input(index).ok_or_else(|| Error::invalid(format!("input {index} is missing")))?;
        let to = ("to", Attribute::Int(i64::from(DType::F32.to_onnx())));
        Ok(self.point.op("Cast", &[value], &[to]))
    }
}
