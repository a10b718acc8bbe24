//! Islands: connected layout-independent nodes, and the cost of moves at their edges.

use std::collections::{BTreeMap, BTreeSet};

use crate::common::groups::Groups;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::pass::pattern::Readers;

use super::super::only_output;
use super::operand::{may_join, operands};
use super::{Kind, MAX_WAYS, Way};

/// A connected component of layout-independent nodes.
pub(super) struct Island {
    kind: Kind,
    /// The nodes in the order of the graph.
    pub nodes: Vec<NodeId>,
    members: BTreeSet<NodeId>,
    /// Operands that are computed outside.
    entries: BTreeSet<ValueId>,
    /// Values that are read outside, or are outputs of the graph.
    pub exits: BTreeSet<ValueId>,
}

pub(super) fn find(graph: &Graph, readers: &Readers, kind: Kind) -> Vec<Island> {
    let mut groups = Groups::default();
    let mut nodes: Vec<NodeId> = Vec::new();
    let (mut joined, mut first_readers) = (BTreeSet::new(), BTreeMap::new());
    for (id, node) in graph.nodes() {
        if !may_join(graph, node, kind) {
            continue;
        }
        joined.insert(id);
        nodes.push(id);
        for value in operand_values(graph, node) {
            match graph.value(value).producer {
                Some(producer) if joined.contains(&producer) => groups.join(producer, id),
                // Readers of the same move belong together.
                Some(producer) if graph.node(producer).is_some_and(|mover| kind.matches(mover)) => {
                    groups.join(*first_readers.entry(value).or_insert(id), id);
                }
                _ => {}
            }
        }
    }
    let mut islands: BTreeMap<NodeId, Vec<NodeId>> = BTreeMap::new();
    for id in nodes {
        islands.entry(groups.root(id)).or_default().push(id);
    }
    islands.into_values().map(|nodes| Island::of(graph, readers, kind, nodes)).collect()
}

fn operand_values(graph: &Graph, node: &Node) -> Vec<ValueId> {
    let values = operands(node).filter_map(|index| node.input(index));
    values.filter(|value| graph.value(*value).constant.is_none()).collect()
}

impl Island {
    fn of(graph: &Graph, readers: &Readers, kind: Kind, nodes: Vec<NodeId>) -> Island {
        let members: BTreeSet<NodeId> = nodes.iter().copied().collect();
        let (mut entries, mut exits) = (BTreeSet::new(), BTreeSet::new());
        for node in nodes.iter().filter_map(|id| graph.node(*id)) {
            let from_outside = |value: &ValueId| {
                !graph.value(*value).producer.is_some_and(|producer| members.contains(&producer))
            };
            entries.extend(operand_values(graph, node).into_iter().filter(from_outside));
            let outside = |output: &ValueId| {
                readers.is_output(*output)
                    || readers.all(*output).iter().any(|reader| !members.contains(reader))
            };
            exits.extend(only_output(node).filter(outside));
        }
        Island { kind, nodes, members, entries, exits }
    }

    fn mover<'g>(&self, graph: &'g Graph, id: NodeId) -> Option<&'g Node> {
        graph.node(id).filter(|node| self.kind.matches(node))
    }

    /// The move that computes an entry.
    fn entry_mover<'g>(&self, graph: &'g Graph, entry: ValueId) -> Option<&'g Node> {
        self.mover(graph, graph.value(entry).producer?)
    }

    /// The moves at the edges.
    pub fn movers(&self, graph: &Graph, readers: &Readers) -> BTreeSet<NodeId> {
        let before = self.entries.iter().filter_map(|entry| graph.value(*entry).producer);
        let after = self.exits.iter().flat_map(|exit| self.exit_readers(readers, *exit));
        before.chain(after).filter(|id| self.mover(graph, *id).is_some()).collect()
    }

    /// Whether only nodes of the island read an entry.
    fn is_read_only_here(&self, readers: &Readers, entry: ValueId) -> bool {
        !readers.is_output(entry) && readers.all(entry).iter().all(|reader| self.members.contains(reader))
    }

    fn exit_readers<'a>(&'a self, readers: &'a Readers, exit: ValueId) -> impl Iterator<Item = NodeId> + 'a {
        readers.all(exit).iter().copied().filter(|reader| !self.members.contains(reader))
    }

    /// The ways that make a move at the edges redundant.
    pub fn ways(&self, graph: &Graph, readers: &Readers) -> Vec<Way> {
        let entering = self.entries.iter().filter_map(|entry| {
            let mover = self.entry_mover(graph, *entry)?;
            Way::of(graph, mover, true)
        });
        let leaving = self.exits.iter().flat_map(|exit| {
            let movers = self.exit_readers(readers, *exit).filter_map(|id| self.mover(graph, id));
            movers.filter_map(|mover| Way::of(graph, mover, false))
        });
        let mut ways: Vec<Way> = Vec::new();
        for way in entering.chain(leaving) {
            if ways.len() < MAX_WAYS && !ways.contains(&way) {
                ways.push(way);
            }
        }
        ways
    }

    /// The change of the number of moves if the island goes this way.
    pub fn cost(&self, graph: &Graph, readers: &Readers, way: &Way) -> i64 {
        let mut cost = 0;
        for entry in &self.entries {
            let mover = self.entry_mover(graph, *entry);
            let only_here = self.is_read_only_here(readers, *entry);
            let redundant = mover.is_some_and(|mover| Way::of(graph, mover, true).as_ref() == Some(way));
            cost += match (redundant, mover.is_some() && only_here) {
                (true, true) => -1,
                (true, false) | (false, true) => 0,
                (false, false) => 1,
            };
        }
        for exit in &self.exits {
            let mut stays = readers.is_output(*exit);
            for reader in self.exit_readers(readers, *exit) {
                let Some(mover) = self.mover(graph, reader) else {
                    stays = true;
                    continue;
                };
                let redundant = Way::of(graph, mover, false).as_ref() == Some(way);
                let named = only_output(mover).is_none_or(|output| readers.is_output(output));
                cost -= i64::from(redundant && !named);
            }
            cost += i64::from(stays);
        }
        cost
    }
}
