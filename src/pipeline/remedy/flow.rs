//! The fewest values that separate two parts of a graph.

use std::collections::VecDeque;

/// The capacity of an arc that is never cut.
const NEVER: u32 = u32::MAX / 2;

/// Arcs between vertices, and the flow through them. Vertex 0 is the source, vertex 1 the sink.
pub(super) struct Flow {
    /// The arcs from each vertex; arc `n ^ 1` is the reverse of arc `n`.
    from: Vec<Vec<usize>>,
    /// The target of each arc, and the capacity that is left.
    arcs: Vec<(usize, u32)>,
    /// The vertices that may be cut: the half with the arcs to it, and the half with the arcs from it.
    cuttable: Vec<(usize, usize)>,
}

/// The side of a cut: of several cuts with equally many vertices, that nearest to the source or to the sink.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Near {
    Source,
    Sink,
}

impl Flow {
    pub const SOURCE: usize = 0;
    pub const SINK: usize = 1;

    pub fn new() -> Flow {
        Flow { from: vec![Vec::new(); 2], arcs: Vec::new(), cuttable: Vec::new() }
    }

    /// Adds a vertex that is not cut.
    pub fn vertex(&mut self) -> usize {
        self.from.push(Vec::new());
        self.from.len() - 1
    }

    /// Adds a vertex that may be cut; returns the half for arcs to it and the half for arcs from it.
    pub fn cuttable(&mut self) -> (usize, usize) {
        let halves = (self.vertex(), self.vertex());
        self.add(halves.0, halves.1, 1);
        self.cuttable.push(halves);
        halves
    }

    /// Adds an arc.
    pub fn arc(&mut self, from: usize, to: usize) {
        self.add(from, to, NEVER);
    }

    fn add(&mut self, from: usize, to: usize, capacity: u32) {
        for (from, to, capacity) in [(from, to, capacity), (to, from, 0)] {
            if let Some(arcs) = self.from.get_mut(from) {
                arcs.push(self.arcs.len());
            }
            self.arcs.push((to, capacity));
        }
    }

    /// Returns the fewest vertices without which the sink cannot be reached from the source, by their first
    /// halves; `None` if there are more than `most`, or some path has none.
    pub fn cut(mut self, most: usize, near: Near) -> Option<Vec<usize>> {
        for _ in 0..=most {
            let (seen, by) = self.reach(Flow::SOURCE, true);
            if !contains(&seen, Flow::SINK) {
                return Some(self.separating(near, seen));
            }
            self.push(&by)?;
        }
        None
    }

    /// Returns the vertices that are reached from a vertex over arcs with capacity, or from which it is
    /// reached, and the last arc of the way to each.
    fn reach(&self, start: usize, forward: bool) -> (Vec<bool>, Vec<usize>) {
        let mut seen = vec![false; self.from.len()];
        let mut by = vec![usize::MAX; self.from.len()];
        let mut queue = VecDeque::from([start]);
        if let Some(first) = seen.get_mut(start) {
            *first = true;
        }
        while let Some(vertex) = queue.pop_front() {
            for arc in self.from.get(vertex).into_iter().flatten() {
                let way = if forward { *arc } else { *arc ^ 1 };
                let left = self.arcs.get(way).map_or(0, |(_, left)| *left);
                let Some((to, _)) = self.arcs.get(*arc) else { continue };
                if left > 0
                    && let (Some(seen), Some(by)) = (seen.get_mut(*to), by.get_mut(*to))
                    && !*seen
                {
                    (*seen, *by) = (true, *arc);
                    queue.push_back(*to);
                }
            }
        }
        (seen, by)
    }

    /// Sends one unit along a way; `None` if nothing on it may be cut.
    fn push(&mut self, by: &[usize]) -> Option<()> {
        let mut vertex = Flow::SINK;
        let mut is_bounded = false;
        while vertex != Flow::SOURCE {
            let arc = *by.get(vertex)?;
            let (_, left) = self.arcs.get_mut(arc)?;
            is_bounded |= *left < NEVER / 2;
            *left -= 1;
            let (from, back) = self.arcs.get_mut(arc ^ 1)?;
            *back += 1;
            vertex = *from;
        }
        is_bounded.then_some(())
    }

    fn separating(&self, near: Near, from_source: Vec<bool>) -> Vec<usize> {
        let cut =
            |side: &[bool], inside: usize, outside: usize| contains(side, inside) && !contains(side, outside);
        let vertices = self.cuttable.iter();
        match near {
            Near::Source => {
                vertices.filter(|(to, from)| cut(&from_source, *to, *from)).map(|(to, _)| *to).collect()
            }
            Near::Sink => {
                let (to_sink, _) = self.reach(Flow::SINK, false);
                vertices.filter(|(to, from)| cut(&to_sink, *from, *to)).map(|(to, _)| *to).collect()
            }
        }
    }
}

fn contains(side: &[bool], vertex: usize) -> bool {
    side.get(vertex).copied().unwrap_or(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the indices, among the cuttable vertices, of the vertices of a cut; `arcs` joins them, `0` is
    /// the source and `9` the sink.
    fn cut(arcs: &[(usize, usize)], near: Near) -> Option<Vec<usize>> {
        let mut flow = Flow::new();
        let halves: Vec<_> = (1..9).map(|_| flow.cuttable()).collect();
        let leave = |vertex: usize| if vertex == 0 { Flow::SOURCE } else { halves[vertex - 1].1 };
        let enter = |vertex: usize| if vertex == 9 { Flow::SINK } else { halves[vertex - 1].0 };
        for (from, to) in arcs {
            flow.arc(leave(*from), enter(*to));
        }
        let found = flow.cut(3, near)?;
        Some(found.iter().map(|half| halves.iter().position(|(to, _)| to == half).unwrap() + 1).collect())
    }

    #[test]
    fn the_fewest_vertices_are_cut() {
        let wide = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 9)];
        assert_eq!(cut(&wide, Near::Source), Some(vec![1]));
        assert_eq!(cut(&wide, Near::Sink), Some(vec![4]));
        // A way against an arc: 1-4 and 2-3 cross.
        let crossing = [(0, 1), (0, 2), (1, 3), (1, 4), (2, 3), (3, 9), (4, 9)];
        assert_eq!(cut(&crossing, Near::Source), Some(vec![1, 2]));
        assert_eq!(cut(&crossing, Near::Sink), Some(vec![3, 4]));
        assert_eq!(cut(&[(0, 1), (2, 9)], Near::Sink), Some(vec![]));
        assert_eq!(cut(&[(0, 1), (1, 9), (0, 9)], Near::Sink), None);
        let many: Vec<_> = (1..5).flat_map(|i| [(0, i), (i, 9)]).collect();
        assert_eq!(cut(&many, Near::Sink), None);
    }
}
