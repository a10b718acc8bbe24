//! DynamicQuantizeLSTM, whose weights are quantized, and everything else at each step by its own range.

use smallvec::smallvec;

use super::Plain;
use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Ids, Node, ValueId};
use crate::tensor::{Array, DType, Tensor};

/// The names of the weights of DynamicQuantizeLSTM by their places: the weight, its step, its zero point.
const RECURRENT: [[usize; 3]; 2] = [[1, 8, 9], [2, 10, 11]];

impl Plain<'_> {
    /// DynamicQuantizeLSTM as LSTM. Its weights have the gates along the last axis, and a step for each direction or each gate.
    pub(super) fn recurrent(mut self) -> Result<Vec<Node>> {
        let mut inputs: Ids = (0..8).map(|index| self.input(index)).collect();
        for [weight, scale, zero] in RECURRENT {
            let levels = self.single(weight);
            let mut operand = levels;
            for (op_type, place) in [("Sub", zero), ("Mul", scale)] {
                let parameter = self.single(place);
                let shape = self.graph.add_constant("", Tensor::from_array(&along_gates()?)?)?;
                let apart = self.number();
                self.push(
                    "Reshape",
                    smallvec![parameter, Some(shape)],
                    AttributeMap::new(),
                    smallvec![Some(apart)],
                );
                let result = self.number();
                self.push(
                    op_type,
                    smallvec![operand, Some(apart)],
                    AttributeMap::new(),
                    smallvec![Some(result)],
                );
                operand = Some(result);
            }
            let turned = self.number();
            let perm = AttributeMap::from_iter([("perm".into(), Attribute::Ints(vec![0, 2, 1]))]);
            self.push("Transpose", smallvec![operand], perm, smallvec![Some(turned)]);
            if let Some(slot) = inputs.get_mut(weight) {
                *slot = Some(turned);
            }
        }
        while inputs.last().is_some_and(Option::is_none) {
            inputs.pop();
        }
        self.push("LSTM", inputs, self.node.attributes.clone(), self.node.outputs.clone());
        Ok(self.nodes)
    }

    /// Input `index` in float32.
    fn single(&mut self, index: usize) -> Option<ValueId> {
        let value = self.input(index)?;
        let number = self.number();
        let to = AttributeMap::from_iter([("to".into(), Attribute::Int(i64::from(DType::F32.to_onnx())))]);
        self.push("Cast", smallvec![Some(value)], to, smallvec![Some(number)]);
        Some(number)
    }
}

/// The shape of steps of weights: directions, then gates or one for all.
fn along_gates() -> Result<Array> {
    Ok(Array::i64(ndarray::ArrayD::from_shape_vec(vec![3], vec![0, 1, -1])?))
}
