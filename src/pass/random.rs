//! Random numbers that become inputs.

use super::{dead, infer};
use crate::error::Result;
use crate::graph::{Graph, NodeId, ValueId};
use crate::op;

/// Makes the results of operators of random numbers inputs, with their inferred types and shapes.
pub fn make_random_inputs(graph: &mut Graph) -> Result<()> {
    dead::remove_dead_nodes(graph);
    let is_random = |id: &NodeId| graph.node(*id).and_then(op::find).is_some_and(|op| op.random);
    let random: Vec<NodeId> = graph.node_ids().into_iter().filter(is_random).collect();
    if random.is_empty() {
        return Ok(());
    }
    // The shapes of the results may follow from the nodes before them, which are no longer needed afterwards.
    let mut inferred = graph.clone();
    infer::infer_and_fold(&mut inferred)?;
    for id in random {
        let Some(node) = graph.node_mut(id) else { continue };
        let outputs: Vec<ValueId> = node.outputs.iter_mut().filter_map(Option::take).collect();
        for output in outputs {
            let (dtype, shape) = (inferred.value(output).dtype, inferred.value(output).shape.clone());
            let value = graph.value_mut(output)?;
            (value.producer, value.dtype, value.shape) = (None, dtype, shape);
            graph.inputs.push(output);
        }
    }
    dead::remove_dead_nodes(graph);
    Ok(())
}
