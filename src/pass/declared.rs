//! Declared types and shapes: comparison with the inferred ones, and propagation.

use crate::common::index::IndexMap;
use crate::error::Result;
use crate::graph::{Graph, ValueId};
use crate::op::{self, Access};
use crate::tensor::{DType, Dim, Shape, display_shape};

/// The beginning of messages about declared types and shapes.
const DECLARES: &str = "the model declares";

/// The declared types and shapes of computed values.
#[derive(Debug)]
pub struct Declared(IndexMap<ValueId, (Option<DType>, Option<Shape>)>);

impl Declared {
    /// Collects the types and shapes of a graph before inference.
    pub fn of(graph: &Graph) -> Declared {
        let computed = graph.nodes().flat_map(|(_, node)| node.outputs.iter().flatten());
        let types = computed.map(|id| (*id, graph.value(*id)));
        Declared(types.map(|(id, value)| (id, (value.dtype, value.shape.clone()))).collect())
    }

    /// Returns a message for each value whose inferred type or shape is a different one.
    pub fn contradictions(&self, graph: &Graph) -> Vec<String> {
        // Some exporters write 0 for an unknown size.
        let differs = |(declared, inferred): (&Dim, &Dim)| {
            let declared = declared.known().filter(|size| *size != 0);
            declared.zip(inferred.known()).is_some_and(|(declared, inferred)| declared != inferred)
        };
        let mut lines = Vec::new();
        for (id, (dtype, shape)) in self.0.iter() {
            let value = graph.value(id);
            if let (Some(declared), Some(inferred)) = (dtype, value.dtype)
                && *declared != inferred
            {
                lines.push(format!("{DECLARES} \"{}\" as {declared}, but it is {inferred}", value.name));
            }
            let (Some(declared), Some(inferred)) = (shape, &value.shape) else { continue };
            if declared.len() != inferred.len() || declared.iter().zip(inferred).any(differs) {
                let (declared, inferred) = (display_shape(declared), display_shape(inferred));
                lines.push(format!("{DECLARES} \"{}\" as {declared}, but it is {inferred}", value.name));
            }
        }
        lines
    }
}

/// Returns whether a message is one of [`Declared::contradictions`].
pub(crate) fn is_contradiction(message: &str) -> bool {
    message.starts_with(DECLARES)
}

/// Propagates declared shapes from results of element-wise nodes to inputs without a shape: values in bodies
/// of functions have no declared shapes.
pub fn propagate_back(graph: &mut Graph) -> Result<()> {
    for id in graph.node_ids().into_iter().rev() {
        let Some(node) = graph.node(id).filter(|node| op::access(node) == Access::Elementwise) else {
            continue;
        };
        let (Some(Some(input)), Some(Some(output))) = (node.inputs.first(), node.outputs.first()) else {
            continue;
        };
        let (input, declared) = (*input, graph.value(*output).shape.clone());
        let is_known = |size: &Dim| size.known().is_some_and(|size| size > 0);
        let value = graph.value(input);
        if value.producer.is_some()
            && value.shape.is_none()
            && declared.as_ref().is_some_and(|declared| declared.iter().all(is_known))
        {
            graph.value_mut(input)?.shape = declared;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Node, Value};
    use crate::tensor::shape;

    #[test]
    fn types_and_known_sizes_are_compared() {
        let mut graph = Graph::default();
        let free = Dim::symbol("N");
        let shapes = [
            (&shape![1, 3][..], &shape![1, 3][..]),
            (&shape![&free, 3], &shape![7, 3]),
            (&shape![1, 4], &shape![1, 3]),
            (&shape![3], &shape![free, 3]),
        ];
        let mut outputs = Vec::new();
        for (index, (declared, _)) in shapes.iter().enumerate() {
            let shape = Some((*declared).into());
            let value =
                Value { name: format!("v{index}"), dtype: Some(DType::I64), shape, ..Value::default() };
            outputs.push(Some(graph.add_value(value)));
        }
        graph.add_node(Node { outputs: outputs.clone().into(), ..Node::default() });
        let declared = Declared::of(&graph);
        for (id, (_, inferred)) in outputs.iter().flatten().zip(shapes) {
            graph.value_mut(*id).unwrap().shape = Some(inferred.into());
        }
        let first = outputs[0].unwrap();
        graph.value_mut(first).unwrap().dtype = Some(DType::F32);
        assert_eq!(
            declared.contradictions(&graph),
            [
                "the model declares \"v0\" as int64, but it is float",
                "the model declares \"v2\" as [1, 4], but it is [1, 3]",
                "the model declares \"v3\" as [3], but it is [N, 3]"
            ]
        );
    }
}
