//! The values and nodes of a part as the vertices of a flow.

use std::collections::{BTreeMap, BTreeSet};

use super::flow::{Flow, Near};
use super::part::Parts;
use crate::common::index::{IndexMap, IndexSet};
use crate::graph::{NodeId, ValueId};

/// The values and nodes of a part as vertices.
pub(super) struct Vertices {
    pub flow: Flow,
    nodes: IndexMap<NodeId, usize>,
    /// The vertices of each value: the half with the arcs to it, and the half with the arcs from it.
    pub values: IndexMap<ValueId, (usize, usize)>,
    /// The values that may be cut, by their first vertices.
    by_vertex: BTreeMap<usize, ValueId>,
}

impl Vertices {
    /// Adds the nodes of a part and the values between them, not beyond the values of `stops`. Those may be
    /// cut that fit.
    pub fn of(
        parts: &Parts,
        nodes: &IndexSet<NodeId>,
        stops: impl Fn(ValueId) -> bool,
        fits: impl Fn(ValueId) -> bool,
    ) -> Vertices {
        let (flow, values, by_vertex) = (Flow::new(), IndexMap::default(), BTreeMap::new());
        let mut net = Vertices { flow, nodes: IndexMap::default(), values, by_vertex };
        for id in nodes.iter() {
            let Some(node) = parts.graph.node(id) else { continue };
            let vertex = net.node(id);
            for output in node.outputs.iter().flatten().filter(|id| parts.is_data(**id)) {
                let (to, _) = net.value(*output, &fits);
                net.flow.arc(vertex, to);
            }
            let reads: BTreeSet<ValueId> = node.reads().collect();
            let is_inside =
                |id: &ValueId| parts.graph.value(*id).producer.is_some() && parts.is_data(*id) && !stops(*id);
            for read in reads.into_iter().filter(is_inside) {
                let (_, from) = net.value(read, &fits);
                net.flow.arc(from, vertex);
            }
        }
        net
    }

    /// Returns the vertex of a node.
    pub fn node(&mut self, id: NodeId) -> usize {
        if let Some(vertex) = self.nodes.get(id) {
            return *vertex;
        }
        let vertex = self.flow.vertex();
        self.nodes.insert(id, vertex);
        vertex
    }

    fn value(&mut self, id: ValueId, fits: impl Fn(ValueId) -> bool) -> (usize, usize) {
        if let Some(halves) = self.values.get(id) {
            return *halves;
        }
        let halves = if fits(id) {
            let halves = self.flow.cuttable();
            self.by_vertex.insert(halves.0, id);
            halves
        } else {
            let vertex = self.flow.vertex();
            (vertex, vertex)
        };
        self.values.insert(id, halves);
        halves
    }

    /// Returns the fewest values that separate the source from the sink, if there are not more than `most`.
    pub fn cut(self, most: usize, near: Near) -> Option<Vec<ValueId>> {
        let mut found: Vec<ValueId> = self
            .flow
            .cut(most, near)?
            .iter()
            .filter_map(|vertex| self.by_vertex.get(vertex))
            .copied()
            .collect();
        found.sort_unstable();
        Some(found)
    }
}
