//! Unfolding: nodes that were folded to a large constant are restored, so that folding does not enlarge the
//! file.
//!
//! A model runs the same with a Tile or an Expand as with the large constant that it computes, but the
//! constant takes bytes in the file. All nodes are folded first, since constants improve shape inference. In
//! the end, folding is undone if it added more bytes than a small allowance, and more than the file has
//! shrunk by otherwise.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::tensor::Tensor;

/// A folded constant may be larger than its sources by this part of all constants, or by the minimum. Tables
/// of positions and indices that exporters compute from small constants stay below it.
const GROWTH_PART: u64 = 256;
const MIN_GROWTH: u64 = 1 << 10;

/// The choice of the nodes to restore.
#[derive(Clone, Copy, Debug)]
pub struct Unfolding {
    /// The bytes that all constants may take: folding within them stays.
    pub room: u64,
    /// Whether a Cast of an initializer stays folded even to a wider type.
    pub casts_stay_folded: bool,
    /// Whether Constant nodes are restored.
    pub constant_nodes_return: bool,
}

/// Restores the nodes in `Graph::folded` whose constants are larger than their sources. Returns whether there
/// were any.
pub fn unfold_large_constants(graph: &mut Graph, how: Unfolding) -> Result<bool> {
    let folded = graph.folded.take().unwrap_or_default();
    let used = used_constants(graph);
    let needed = needed_nodes(&folded, &used);
    let folded: Vec<&Node> =
        folded.iter().zip(&needed).filter(|(_, needed)| **needed).map(|(node, _)| node).collect();
    let allowed = allowed_growth(graph, &folded, &used)?;
    let mut costs = Costs::of(graph, &folded, &used, allowed)?;
    if how.casts_stay_folded {
        let casts = folded.iter().filter(|node| is_cast_of_unfolded(node, &costs));
        let casts: BTreeSet<ValueId> =
            casts.flat_map(|node| node.outputs.iter().flatten().copied()).collect();
        costs.large.retain(|id, _| !casts.contains(id));
    }
    costs.spend(graph, how.room, &used)?;
    if how.constant_nodes_return {
        let constants = folded.iter().filter(|node| node.is("Constant"));
        costs.large.extend(constants.flat_map(|node| node.outputs.iter().flatten()).map(|id| (*id, 0)));
    }
    let kept = costs.kept_nodes(&folded, &used);
    if kept.is_empty() {
        return Ok(false);
    }
    for node in kept {
        for output in node.outputs.iter().flatten() {
            graph.value_mut(*output)?.constant = None;
        }
        graph.add_node(node.clone());
    }
    graph.sort_nodes()?;
    Ok(true)
}

/// The constants that nodes read, or that are outputs of the graph.
fn used_constants(graph: &Graph) -> BTreeSet<ValueId> {
    let read = graph.nodes().flat_map(|(_, node)| node.reads());
    read.chain(graph.outputs.iter().copied()).filter(|id| graph.value(*id).constant.is_some()).collect()
}

/// Whether each folded node contributes to a used constant.
fn needed_nodes(folded: &[Node], used: &BTreeSet<ValueId>) -> Vec<bool> {
    let mut wanted = used.clone();
    let mut needed = vec![false; folded.len()];
    for (node, needed) in folded.iter().zip(&mut needed).rev() {
        if node.outputs.iter().flatten().any(|output| wanted.contains(output)) {
            *needed = true;
            wanted.extend(node.inputs.iter().flatten());
        }
    }
    needed
}

/// The bytes that one constant may add: a power of two, so that a few folded nodes do not change it.
fn allowed_growth(graph: &Graph, folded: &[&Node], used: &BTreeSet<ValueId>) -> Result<u64> {
    let mut sources = used.clone();
    sources.extend(folded.iter().flat_map(|node| node.inputs.iter().flatten()));
    for made in folded.iter().flat_map(|node| node.outputs.iter().flatten()) {
        sources.remove(made);
    }
    let mut bytes = 0_u64;
    for tensor in sources.iter().filter_map(|id| graph.value(*id).constant.as_ref()) {
        bytes = bytes.saturating_add(tensor.byte_len()?);
    }
    let part = (bytes / GROWTH_PART).checked_ilog2().map_or(0, |log| 1 << log);
    Ok(part.max(MIN_GROWTH))
}

/// The bytes that constants take.
struct Costs {
    /// The bytes of a value in the file, as a constant or by its node, whichever is smaller.
    least: BTreeMap<ValueId, u64>,
    /// The bytes that a value adds as a constant, if they exceed the allowance.
    large: BTreeMap<ValueId, u64>,
}

impl Costs {
    /// Computes the costs in the order in which the nodes were folded.
    fn of(graph: &Graph, folded: &[&Node], used: &BTreeSet<ValueId>, allowed: u64) -> Result<Costs> {
        let bytes_of = |id: &ValueId| graph.value(*id).constant.as_ref().map_or(Ok(0), Tensor::byte_len);
        let mut readers: BTreeMap<ValueId, u64> = BTreeMap::new();
        for node in folded {
            let largest = node.outputs.iter().flatten().map(bytes_of).collect::<Result<Vec<_>>>()?;
            let largest = largest.into_iter().max().unwrap_or(0);
            for input in node.inputs.iter().flatten() {
                // A node that takes only a part of a constant does not keep all of it.
                if bytes_of(input)? <= largest {
                    *readers.entry(*input).or_insert(0) += 1;
                }
            }
        }
        let mut costs = Costs { least: BTreeMap::new(), large: BTreeMap::new() };
        for node in folded {
            let inputs: BTreeSet<ValueId> = node.inputs.iter().flatten().copied().collect();
            let mut from = attribute_bytes(node)?;
            let mut whole = true;
            for input in &inputs {
                let Some(tensor) = &graph.value(*input).constant else {
                    // Only the shape is read of a value computed at run time.
                    whole = false;
                    continue;
                };
                let bytes = tensor.byte_len()?;
                // A used constant is in the file anyway; nodes that read the same input share its cost.
                let shared = readers.get(input).copied().unwrap_or(1).max(1);
                let least = costs.least.get(input).copied().unwrap_or(bytes);
                from = from.saturating_add(if used.contains(input) { 0 } else { least / shared });
            }
            for output in node.outputs.iter().flatten() {
                let Some(tensor) = &graph.value(*output).constant else { continue };
                let bytes = tensor.byte_len()?;
                costs.least.insert(*output, if whole { bytes.min(from) } else { bytes });
                let added = bytes.saturating_sub(from);
                if whole && added > allowed {
                    costs.large.insert(*output, added);
                }
            }
        }
        Ok(costs)
    }

    /// Keeps constants folded while there is room, the smallest first.
    fn spend(&mut self, graph: &Graph, room: u64, used: &BTreeSet<ValueId>) -> Result<()> {
        let mut spare = room;
        let mut large: Vec<(u64, ValueId)> = Vec::new();
        for id in used {
            let Some(tensor) = &graph.value(*id).constant else { continue };
            let added = self.large.get(id).copied();
            spare = spare.saturating_sub(tensor.byte_len()?.saturating_sub(added.unwrap_or(0)));
            large.extend(added.map(|added| (added, *id)));
        }
        large.sort_unstable();
        for (added, id) in large {
            let Some(left) = spare.checked_sub(added) else { break };
            spare = left;
            self.large.remove(&id);
        }
        Ok(())
    }

    /// The nodes to restore, each before its readers.
    fn kept_nodes<'n>(&self, folded: &[&'n Node], used: &BTreeSet<ValueId>) -> Vec<&'n Node> {
        let mut wanted = used.clone();
        let mut kept = Vec::new();
        for node in folded.iter().rev() {
            let wants = |output: &ValueId| wanted.contains(output) && self.large.contains_key(output);
            if node.outputs.iter().flatten().any(wants) {
                kept.push(*node);
                wanted.extend(node.inputs.iter().flatten());
            }
        }
        kept.reverse();
        kept
    }
}

/// Whether a node casts a constant that is not the result of a folded node.
fn is_cast_of_unfolded(node: &Node, costs: &Costs) -> bool {
    node.is("Cast") && node.inputs.iter().flatten().all(|input| !costs.least.contains_key(input))
}

/// The bytes of the constants in the attributes of a node.
fn attribute_bytes(node: &Node) -> Result<u64> {
    let mut bytes = 0_u64;
    for attribute in node.attributes.values() {
        for tensor in attribute.tensors() {
            bytes = bytes.saturating_add(tensor.byte_len()?);
        }
        bytes = bytes.saturating_add(match attribute {
            Attribute::Floats(list) => 4 * u64::try_from(list.len())?,
            Attribute::Ints(list) => 8 * u64::try_from(list.len())?,
            _ => 0,
        });
    }
    Ok(bytes)
}
