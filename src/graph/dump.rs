//! The graph as readable text.

use std::fmt;

use super::{Graph, ValueId};
use crate::common::index::Index;
use crate::tensor::display_shape;

impl Graph {
    fn label(&self, id: ValueId) -> String {
        let value = self.value(id);
        if value.name.is_empty() { format!("%{}", id.index()) } else { value.name.clone() }
    }

    fn typed_label(&self, id: ValueId) -> String {
        let value = self.value(id);
        let dtype = value.dtype.map_or("?", |dtype| dtype.name());
        let shape = value.shape.as_deref().map_or_else(|| "?".to_owned(), display_shape);
        format!("{}: {dtype} {shape}", self.label(id))
    }
}

impl fmt::Display for Graph {
    /// One line for each node: `outputs = op-version(inputs) {attributes}`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for input in &self.inputs {
            writeln!(f, "input {}", self.typed_label(*input))?;
        }
        for (_, node) in self.nodes() {
            let outputs: Vec<String> =
                node.outputs.iter().flatten().map(|id| self.typed_label(*id)).collect();
            let inputs: Vec<String> =
                node.inputs.iter().map(|id| id.map_or_else(|| "-".to_owned(), |id| self.label(id))).collect();
            write!(
                f,
                "{} = {}-{}({})",
                outputs.join(", "),
                node.qualified_op_type(),
                node.version,
                inputs.join(", ")
            )?;
            for (name, attribute) in &node.attributes {
                write!(f, " {name}={}", attribute.kind())?;
            }
            writeln!(f)?;
        }
        for output in &self.outputs {
            writeln!(f, "output {}", self.typed_label(*output))?;
        }
        Ok(())
    }
}
