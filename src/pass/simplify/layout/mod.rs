//! Transposes and reshapes on both sides of elementwise nodes.
//!
//! An elementwise node can work on permuted or reshaped operands if the change is the same for all of them.
//! Connected nodes of that kind are an island. An island is permuted or reshaped as a whole if that leaves
//! fewer nodes: exporters from TensorFlow leave islands between two Transposes, linear layers work on
//! matrices between two Reshapes. The moves that are inserted at the boundary meet those that are there, and
//! other passes merge them.

mod island;
mod operand;

use std::collections::BTreeMap;

use smallvec::smallvec;

use crate::error::Result;
use crate::graph::{Attribute, AttributeMap, Graph, Node, Value, ValueId};
use crate::op::{self, Access};
use crate::pass::pattern::Readers;
use crate::tensor::Shape;

use super::transpose::perm_of;
use super::view::target_of;
use super::{Edits, InsertionPoint, input, only_output};
use island::Island;
use operand::{axes_of, name_axes, operands};

/// The maximum number of ways to try for an island: real networks have one or two kinds of moves at a
/// boundary.
const MAX_WAYS: usize = 4;

/// Removes Transposes on both sides of islands.
pub(crate) fn cancel_transposes(graph: &mut Graph) -> Result<bool> {
    cancel(graph, Kind::Transpose)
}

/// Removes Reshapes on both sides of islands.
pub(crate) fn cancel_reshapes(graph: &mut Graph) -> Result<bool> {
    cancel(graph, Kind::View)
}

/// The kind of moves to remove.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Transpose,
    View,
}

impl Kind {
    fn holds(self, node: &Node) -> bool {
        match self {
            Kind::Transpose => node.is("Transpose"),
            Kind::View => op::access(node) == Access::View,
        }
    }
}

/// The relation between the values of an island and their replacements.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Way {
    /// Permuted by this order of axes.
    Turn(Vec<usize>),
    /// Reshaped from the first shape to the second.
    Shape(Shape, Shape),
}

/// The operator and the attribute or input of a move.
enum Move {
    Transpose(Vec<i64>),
    Reshape(Vec<i64>),
}

impl Way {
    /// Returns the way that makes a move at the boundary superfluous. `enters` if it computes an entry of the
    /// island, not if it reads an exit.
    fn of(graph: &Graph, mover: &Node, enters: bool) -> Option<Way> {
        if mover.is("Transpose") {
            let perm = perm_of(graph, mover)?;
            return Some(Way::Turn(if enters { perm } else { inverse(&perm)? }));
        }
        let (before, after) = (input(mover, 0)?, only_output(mover)?);
        let (before, after) = (graph.value(before).shape.clone()?, graph.value(after).shape.clone()?);
        let (inside, outside) = if enters { (before, after) } else { (after, before) };
        // Each shape may have at most one size that the other one does not have.
        let both = target_of(&inside, &outside).and(target_of(&outside, &inside));
        (inside != outside && !inside.is_empty())
            .then_some(Way::Shape(inside, outside))
            .filter(|_| both.is_some())
    }

    fn enter(&self) -> Option<Move> {
        Some(match self {
            Way::Turn(perm) => Move::Transpose(as_ints(&inverse(perm)?)?),
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

fn inverse(perm: &[usize]) -> Option<Vec<usize>> {
    (0..perm.len()).map(|axis| perm.iter().position(|from| *from == axis)).collect()
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

/// Replaces the values of an island, and inserts moves at its boundary.
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
                let moved = site.stay(&node, value, &enter)?;
                inside.insert(value, moved);
                moved
            });
        }
        if let Way::Turn(perm) = way {
            name_axes(&mut site, &mut made, &axes, perm)?;
        }
        let is_exit = island.exits.contains(&output);
        // A value that is visible outside by its name keeps the name.
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

/// Returns a moved constant operand. A constant of one element stays the same.
fn moved_constant(site: &mut InsertionPoint, value: ValueId, way: &Way) -> Result<ValueId> {
    let Way::Turn(perm) = way else { return Ok(value) };
    let sizes = site.sizes(value).to_vec();
    if sizes.iter().all(|size| *size == 1) {
        return Ok(value);
    }
    let mut aligned: Vec<i64> = vec![1; perm.len().saturating_sub(sizes.len())];
    for size in sizes {
        aligned.push(i64::try_from(size)?);
    }
    let aligned = site.reshape(value, &aligned)?;
    let order = inverse(perm).as_deref().and_then(as_ints).unwrap_or_default();
    let moved = site.op("Transpose", &[aligned], &[("perm", Attribute::Ints(order))]);
    site.take_name(moved, value)?;
    Ok(moved)
}

impl InsertionPoint<'_> {
    /// Returns a new value.
    fn new_value(&mut self) -> ValueId {
        self.graph.add_value(Value::default())
    }

    /// Returns a value that replaces another.
    fn namesake(&mut self, value: ValueId) -> ValueId {
        let name = self.graph.value(value).name.clone();
        self.graph.add_value(Value { name, ..Value::default() })
    }

    fn is_constant(&self, value: ValueId) -> bool {
        self.graph.value(value).constant.is_some()
    }

    /// Moves `from` by a node of the operator set of `like`.
    fn stay(&mut self, like: &Node, from: ValueId, by: &Move) -> Result<ValueId> {
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
