//! Cancellation of Transposes and Reshapes on both sides of layout-independent nodes.
//!
//! Element-wise nodes do not depend on the layout of their operands, as long as it is the same for all. An
//! island is a connected component of such nodes. A whole island is transposed, or reshaped, if that leaves
//! fewer nodes: TensorFlow's exporters leave islands between two Transposes, linear layers work on matrices
//! between two Reshapes. The moves inserted at the edges of the island meet those that are there, and other
//! passes merge them.

mod island;
mod operand;

use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, Value, ValueId};
use crate::pass::pattern::{Readers, inverse};
use crate::tensor::Shape;

use super::transpose::perm_of;
use super::view::{is_view, target_of};
use super::{Edits, InsertionPoint, input, only_output};
use island::Island;
use operand::{axes_of, name_axes, operands};

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
    fn holds(self, node: &Node) -> bool {
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
    Transpose(Vec<i64>),
    Reshape(Vec<i64>),
}

impl Way {
    /// The way that makes a move at the edge of the island redundant, one of an entry or one of an exit.
    fn of(graph: &Graph, mover: &Node, enters: bool) -> Option<Way> {
        if mover.is("Transpose") {
            let perm = perm_of(graph, mover)?;
            return Some(Way::Turn(if enters { perm } else { inverse(&perm) }));
        }
        let (before, after) = (input(mover, 0)?, only_output(mover)?);
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
            Way::Turn(perm) => Move::Transpose(as_ints(&inverse(perm))?),
            Way::Shape(inside, outside) => Move::Reshape(target_of(outside, inside)?),
        })
    }

    fn leave(&self) -> Option<Move> {
        Some(match self {
            Way::Turn(perm) => Move::Transpose(as_ints(perm)?),
            Way::Shape(inside, outside) => Move::Reshape(target_of(inside, outside)?),
        })
    }
}

fn as_ints(perm: &[usize]) -> Option<Vec<i64>> {
    perm.iter().map(|axis| i64::try_from(*axis).ok()).collect()
}

fn cancel(graph: &mut Graph, kind: Kind) -> Result<bool> {
    let readers = Readers::of(graph);
    let mut found = Vec::new();
    for island in island::find(graph, &readers, kind) {
        let ways = island.ways(graph, &readers);
        let costs = ways.into_iter().map(|way| (island.cost(graph, &readers, &way), way));
        if let Some((cost, way)) = costs.min_by_key(|(cost, _)| *cost)
            && cost < 0
        {
            found.push((island, way));
        }
    }
    let mut edits = Edits::default();
    for (island, way) in found {
        move_island(graph, &mut edits, &island, &way)?;
    }
    edits.apply(graph)
}

/// Replaces the nodes of an island and inserts moves at its edges.
fn move_island(graph: &mut Graph, edits: &mut Edits, island: &Island, way: &Way) -> Result<()> {
    let (Some(enter), Some(leave)) = (way.enter(), way.leave()) else { return Ok(()) };
    let mut inside: BTreeMap<ValueId, ValueId> = BTreeMap::new();
    for id in &island.nodes {
        let Some(node) = graph.node(*id).cloned() else { continue };
        let Some(output) = only_output(&node) else { continue };
        let data = operands(&node);
        let axes = axes_of(graph, &node).unwrap_or_default();
        let mut site = InsertionPoint::new(graph);
        let mut made = node.clone();
        for (index, slot) in made.inputs.iter_mut().enumerate() {
            let Some(value) = slot.filter(|_| data.contains(&index)) else { continue };
            *slot = Some(if site.is_constant(value) {
                moved_constant(&mut site, value, way)?
            } else if let Some(value) = inside.get(&value) {
                *value
            } else {
                let moved = site.moved(&node, value, &enter)?;
                inside.insert(value, moved);
                moved
            });
        }
        if let Way::Turn(perm) = way {
            name_axes(&mut site, &mut made, &axes, perm)?;
        }
        let is_exit = island.exits.contains(&output);
        // The name of an exit stays with the original value.
        let moved = if is_exit { site.new_value() } else { site.namesake(output) };
        inside.insert(output, moved);
        made.outputs = smallvec![Some(moved)];
        let nodes = match is_exit {
            true => {
                let back = site.mover(&node, moved, output, &leave)?;
                site.push(made);
                site.end_with(back)
            }
            false => site.end_with(made),
        };
        edits.replace(&[*id], nodes);
    }
    Ok(())
}

/// A constant operand in the new layout; one of a single element stays as it is.
fn moved_constant(site: &mut InsertionPoint, value: ValueId, way: &Way) -> Result<ValueId> {
    let Way::Turn(perm) = way else { return Ok(value) };
    let sizes = site.constant_shape(value).to_vec();
    if sizes.iter().all(|size| *size == 1) {
        return Ok(value);
    }
    let mut aligned: Vec<i64> = vec![1; perm.len().saturating_sub(sizes.len())];
    for size in sizes {
        aligned.push(i64::try_from(size)?);
    }
    let aligned = site.reshape(value, &aligned)?;
    let order = as_ints(&inverse(perm)).unwrap_or_default();
    let moved = site.op("Transpose", &[aligned], &[("perm", Attribute::Ints(order))]);
    site.take_name(moved, value)?;
    Ok(moved)
}

impl InsertionPoint<'_> {
    /// Adds a value.
    fn new_value(&mut self) -> ValueId {
        self.graph.add_value(Value::default())
    }

    /// Adds a value with the name of the one that it replaces.
    fn namesake(&mut self, value: ValueId) -> ValueId {
        let name = self.graph.value(value).name.clone();
        self.graph.add_value(Value { name, ..Value::default() })
    }

    fn is_constant(&self, value: ValueId) -> bool {
        self.graph.value(value).constant.is_some()
    }

    /// Adds a move of `from`, of the operator set of `like`.
    fn moved(&mut self, like: &Node, from: ValueId, by: &Move) -> Result<ValueId> {
        let to = self.new_value();
        let mover = self.mover(like, from, to, by)?;
        self.push(mover);
        Ok(to)
    }

    fn mover(&mut self, like: &Node, from: ValueId, to: ValueId, by: &Move) -> Result<Node> {
        let node = Node { inputs: smallvec![Some(from)], outputs: smallvec![Some(to)], ..like.clone() };
        Ok(match by {
            Move::Transpose(perm) => Node {
                op_type: "Transpose".into(),
                attributes: AttributeMap::from_iter([("perm".into(), Attribute::Ints(perm.clone()))]),
                ..node
            },
            Move::Reshape(target) => Node {
                op_type: "Reshape".into(),
                inputs: smallvec![Some(from), Some(self.ints(target)?)],
                attributes: AttributeMap::new(),
                ..node
            },
        })
    }
}
