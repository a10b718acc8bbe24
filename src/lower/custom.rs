//! Layers of the user.

use super::form::interface_form;
use super::node::Lower;
use crate::error::Result;
use crate::ncnn::layer::Custom;

impl Lower<'_> {
    /// Emits a layer of the user for the node. Its bottoms and tops have the shapes in which a net has inputs
    /// and outputs, without the batch axis. An elementwise layer keeps the form of its bottom.
    pub fn custom(&self, layer: Custom, inputs: &[usize], is_elementwise: bool) -> Result<()> {
        let blob = |index: &usize| match is_elementwise {
            true => self.blob(*index),
            false => self.blob_as(*index, &interface_form(self.call.shape(*index)?)),
        };
        let bottoms = inputs.iter().map(blob).collect::<Result<Vec<_>>>()?;
        let form = |index| match (is_elementwise, bottoms.first()) {
            (true, Some(bottom)) => Ok(self.form(*bottom)),
            _ => Ok(interface_form(self.call.output_shape(index)?)),
        };
        let forms = (0..self.call.output_count()).map(form).collect::<Result<Vec<_>>>()?;
        let tops = self.emit_n(layer, &bottoms, &forms)?;
        tops.iter().enumerate().try_for_each(|(index, top)| self.set(index, *top))
    }
}
