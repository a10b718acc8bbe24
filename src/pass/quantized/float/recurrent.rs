//! DynamicQuantizeLSTM, whose weights are quantized; at every step the other values are quantized by their
//! range.

use super::Plain;
use crate::error::{At, Error, Result};
use crate::pass::builder::Expr;
use crate::pass::quantized::recurrent::recurrent;
use crate::tensor::DType;

/// The indices of each weight, its scale and its zero point.
const WEIGHTS: [[usize; 3]; 2] = [[1, 8, 9], [2, 10, 11]];

impl<'b> Plain<'b, '_> {
    /// Returns LSTM, or its variant for ncnn, instead of DynamicQuantizeLSTM. The weights of the latter have
    /// the gates along the last axis, and a scale for each direction or each gate.
    pub(super) fn lstm(&self, operator: &'static str) -> Result<Expr<'b>> {
        let mut inputs: Vec<Option<Expr>> = (0..8).map(|index| self.input(index)).collect();
        for [weight, scale, zero] in WEIGHTS {
            let [weight_of, scale, zero] = [weight, scale, zero].map(|index| self.float(index));
            // Directions, then gates or one element for all.
            let [scale, zero] = [scale?, zero?].map(|parameter| parameter.reshape(&[0, 1, -1]));
            inputs.put(weight, Some(((weight_of? - zero) * scale).transpose(&[0, 2, 1])));
        }
        Ok(recurrent(self.made, operator, inputs, self.node))
    }

    /// Returns input `index` cast to float32.
    fn float(&self, index: usize) -> Result<Expr<'b>> {
        let value = self.input(index).ok_or_else(|| Error::invalid(format!("input {index} is missing")))?;
        Ok(value.cast(DType::F32))
    }
}
