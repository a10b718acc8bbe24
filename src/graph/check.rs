//! The invariants of a graph, checked after every pass in tests and under `--check`.

use super::{Graph, ValueId};
use crate::common::index::IndexSet;
use crate::error::{Error, Result};
use crate::tensor::DType;

impl Graph {
    /// Checks the invariants: order, producers, constants that match their value's type and shape.
    pub fn check(&self) -> Result<()> {
        let mut made: IndexSet<ValueId> = self.inputs.iter().copied().collect();
        for (id, node) in self.nodes() {
            let here = |error: Error| error.at_node(|| node.at());
            for input in node.reads() {
                let value = self.value(input);
                let computed_later = value.producer.is_some() && !made.contains(input);
                if computed_later || (value.producer.is_none() && !self.is_input_or_constant(input)) {
                    return Err(here(Error::internal(format!(
                        "\"{}\" is read before it is computed",
                        value.name
                    ))));
                }
            }
            for output in node.outputs.iter().flatten() {
                if self.value(*output).producer != Some(id) {
                    return Err(here(Error::internal("an output names another producer")));
                }
                if !made.insert(*output) {
                    return Err(here(Error::internal(format!(
                        "\"{}\" is computed twice",
                        self.value(*output).name
                    ))));
                }
            }
        }
        for output in &self.outputs {
            if !made.contains(*output) && !self.is_input_or_constant(*output) {
                let name = &self.value(*output).name;
                return Err(Error::internal(format!("the graph output \"{name}\" is not computed")));
            }
        }
        self.check_constants()
    }

    /// Returns whether a value needs no node: an input, a constant, a captured value, or text, which is
    /// refused if a layer has to give it.
    fn is_input_or_constant(&self, id: ValueId) -> bool {
        self.value(id).constant.is_some()
            || self.value(id).dtype == Some(DType::String)
            || self.inputs.contains(&id)
            || self.captures.iter().any(|capture| capture.inner == id)
    }

    fn check_constants(&self) -> Result<()> {
        for value in &self.values {
            let (Some(tensor), Some(shape)) = (&value.constant, &value.shape) else { continue };
            if !shape.is(tensor.shape()) || value.dtype != Some(tensor.dtype()) {
                return Err(Error::internal(format!(
                    "the type or shape of the constant \"{}\" differs from that of its value",
                    value.name
                )));
            }
        }
        Ok(())
    }
}
