//! Random numbers that become inputs.

use super::cut::detach;
use super::{dead, infer};
use crate::error::Result;
use crate::graph::{Graph, NodeId};
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
        let outputs = graph.node(id).map(|node| node.outputs.clone()).unwrap_or_default();
        for output in outputs.into_iter().flatten() {
            detach(graph, output)?;
            let value = graph.value_mut(output)?;
            (value.dtype, value.shape) = (inferred.value(output).dtype, inferred.value(output).shape.clone());
            graph.inputs.push(output);
        }
    }
    dead::remove_dead_nodes(graph);
    Ok(())
}
