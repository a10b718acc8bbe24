//! Cancellation of Transposes and Reshapes on both sides of layout-independent nodes.
//!
//! Element-wise nodes do not depend on the layout of their operands, as long as it is the same for all. An
//! island is a connected component of such nodes. A whole island is transposed, or reshaped, if that leaves
//! fewer nodes: TensorFlow's exporters leave islands between two Transposes, linear layers work on matrices
//! between two Reshapes. The moves inserted at the edges of the island meet those that are there, and other
//! passes merge them.

mod island;
mod operand;

use std::collections::{BTreeMap, BTreeSet};

use crate::common::index::IndexMap;
use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::pass::pattern::{Readers, inverse, perm_of};
use crate::tensor::Shape;

use super::only_output;
use super::view::{is_view, target_of};
use crate::pass::builder::{Builder, Expr, opset_for};
use island::Island;
pub(in crate::pass) use operand::axes_of;
use operand::{name_axes, operands};

/// The most layouts tried for an island; those of real networks have one or two kinds of moves at their
/// edges.
const MAX_WAYS: usize = 4;

/// Cancels Transposes on both sides of islands.
pub(crate) fn cancel_transposes(graph: &mut Graph) -> Result<bool> {
    cancel(graph, Kind::Transpose)
}

/// Cancels Reshapes on both sides of islands.
pub(crate) fn cancel_reshapes(graph: &mut Graph) -> Result<bool> {
    cancel(graph, Kind::View)
}

/// The moves to be cancelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transpose,
    View,
}

impl Kind {
    fn matches(self, node: &Node) -> bool {
        match self {
            Kind::Transpose => node.is("Transpose"),
            Kind::View => is_view(node),
        }
    }
}

/// The move from the new values of an island to the original ones.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// A Transpose.
    Turn(Vec<usize>),
    /// A Reshape from the first shape to the second.
    Shape(Shape, Shape),
}

/// A move with its permutation or target shape.
enum Move {
    Transpose(Vec<usize>),
    Reshape(Vec<i64>),
}

impl Way {
    /// The way that makes a move at the edge of the island redundant, one of an entry or one of an exit.
    fn of(graph: &Graph, mover: &Node, enters: bool) -> Option<Way> {
        if mover.is("Transpose") {
            let perm = perm_of(graph, mover)?;
            return Some(Way::Turn(if enters { perm } else { inverse(&perm) }));
        }
        let (before, after) = (mover.input(0)?, only_output(mover)?);
        let (before, after) = (graph.value(before).shape.clone()?, graph.value(after).shape.clone()?);
        let (inside, outside) = if enters { (before, after) } else { (after, before) };
        // Reshape must be able to make either shape of the other one.
        let both = target_of(&inside, &outside).and(target_of(&outside, &inside));
        (inside != outside && !inside.is_empty())
            .then_some(Way::Shape(inside, outside))
            .filter(|_| both.is_some())
    }

    fn enter(&self) -> Option<Move> {
        Some(match self {
            Way::Turn(perm) => Move::Transpose(inverse(perm)),
            Way::Shape(inside, outside) => Move::Reshape(target_of(outside, inside)?),
        })
    }

    fn leave(&self) -> Option<Move> {
        Some(match self {
            Way::Turn(perm) => Move::Transpose(perm.clone()),
            Way::Shape(inside, outside) => Move::Reshape(target_of(inside, outside)?),
        })
    }
}

fn cancel(graph: &mut Graph, kind: Kind) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut found = Vec::new();
    // A move between two islands can be removed for one of them: the other one waits for the next round.
    let mut taken: BTreeSet<NodeId> = BTreeSet::new();
    for island in island::find(graph, &readers, kind) {
        let ways = island.ways(graph, &readers);
        let costs = ways.into_iter().map(|way| (island.cost(graph, &readers, &way), way));
        let Some((_, way)) = costs.filter(|(cost, _)| *cost < 0).min_by_key(|(cost, _)| *cost) else {
            continue;
        };
        let movers = island.movers(graph, &readers);
        if taken.is_disjoint(&movers) {
            taken.extend(movers);
            found.push((island, way));
        }
    }
    let mut moved = IndexMap::default();
    for (island, way) in found {
        move_island(graph, &mut moved, &island, &way)?;
    }
    graph.replace_found(moved)
}

/// Adds the replacement of each node of an island, with moves at its edges.
fn move_island(
    graph: &mut Graph,
    replaced: &mut IndexMap<NodeId, Vec<Node>>,
    island: &Island,
    way: &Way,
) -> Result<()> {
    let (Some(enter), Some(leave)) = (way.enter(), way.leave()) else { return Ok(()) };
    let mut inside: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for id in &island.nodes {
        let Some(node) = graph.node(*id).cloned() else { continue };
        let Some(output) = only_output(&node) else { continue };
        let data = operands(&node);
        let axes = axes_of(graph, &node).unwrap_or_default();
        let made = Builder::of_version(graph, opset_for(graph, &node));
        let mut renamed = node.clone();
        let mut inputs: Vec<Option<Expr>> = Vec::new();
        for (index, value) in node.inputs.iter().enumerate() {
            let Some(value) = value.map(|id| made.value(id)) else {
                inputs.push(None);
                continue;
            };
            inputs.push(Some(if !data.contains(&index) {
                value
            } else if graph.value(value.id).constant.is_some() {
                moved_constant(value, way)
            } else if let Some(known) = inside.get(&value.id) {
                made.value(*known)
            } else {
                let moved = enter.of(value);
                inside.insert(value.id, moved.id);
                moved
            }));
        }
        if let Way::Turn(perm) = way {
            name_axes(&made, &mut renamed, &mut inputs, &axes, perm)?;
        }
        let moved = made.only_copy_of(&renamed, &inputs)?;
        inside.insert(output, moved.id);
        // The name of an exit stays with the original value.
        if island.exits.contains(&output) {
            made.give(leave.of(moved), output);
        } else {
            moved.named_after(output);
        }
        let made = made.finish()?.add_to(graph, &node)?;
        replaced.insert(*id, made);
    }
    Ok(())
}

/// A constant operand in the new layout; one of a single element stays as it is.
fn moved_constant<'b>(value: Expr<'b>, way: &Way) -> Expr<'b> {
    let Way::Turn(perm) = way else { return value };
    let sizes = value.constant_shape();
    if sizes.iter().all(|size| *size == 1) {
        return value;
    }
    let mut aligned = vec![1; perm.len().saturating_sub(sizes.len())];
    aligned.extend(value.sizes().into_iter().flatten());
    value.reshape(&aligned).transpose(&inverse(perm)).named_after(value.id)
}

impl Move {
    /// Moves a value.
    fn of<'b>(&self, value: Expr<'b>) -> Expr<'b> {
        match self {
            Move::Transpose(perm) => value.transpose(perm),
            Move::Reshape(target) => value.reshape(target),
        }
    }
}
