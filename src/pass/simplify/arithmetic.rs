//! Constants that follow each other in products, or in sums, become one.
//!
//! Products and sums of singles are rounded in another order; constants whose product is out of the range of their type are left alone.

use smallvec::smallvec;

use crate::error::Result;
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Tensor, broadcast_lens};

use super::{Edits, Site, input, only_output};

/// Far from where singles overflow or lose digits.
const MAX_FACTOR: f64 = 1e12;

/// A sum with a large number, and a difference from it, rounds to whole numbers: such are no sums that can be joined.
const MAX_TERM: f64 = 1024.0;

/// Products and quotients.
pub(crate) fn fuse_factors(graph: &mut Graph) -> Result<bool> {
    fuse(graph, ["Mul", "Div"])
}

/// Sums and differences.
pub(crate) fn fuse_terms(graph: &mut Graph) -> Result<bool> {
    fuse(graph, ["Add", "Sub"])
}

/// One operation with a constant.
#[derive(Clone, Copy, Debug)]
struct Step {
    data: ValueId,
    by: ValueId,
    /// Whether it is the second of the two operators, which takes away what the first one adds.
    inverse: bool,
    output: ValueId,
}

/// Reads `data op constant`, and `constant op data` where that is the same.
fn read_step(graph: &Graph, node: &Node, op_types: [&str; 2]) -> Option<Step> {
    let inverse = match op_types.map(|op_type| node.is(op_type)) {
        [true, _] => false,
        [_, true] => true,
        _ => return None,
    };
    let (first, second, output) = (input(node, 0)?, input(node, 1)?, only_output(node)?);
    let is_constant = |id: ValueId| graph.value(id).constant.is_some();
    let (data, by) = match (is_constant(first), is_constant(second)) {
        (false, true) => (first, second),
        (true, false) if !inverse => (second, first),
        _ => return None,
    };
    let known = matches!(graph.value(output).dtype?, DType::F32 | DType::F64);
    (known && node.version >= 7).then_some(Step { data, by, inverse, output })
}

fn fuse(graph: &mut Graph, op_types: [&str; 2]) -> Result<bool> {
    if !graph.nodes().any(|(_, node)| read_step(graph, node, op_types).is_some()) {
        return Ok(false);
    }
    let readers = Readers::of(graph);
    let mut found: Vec<([NodeId; 2], [Step; 2])> = Vec::new();
    let mut edits = Edits::default();
    for (id, node) in graph.nodes() {
        let Some(first) = read_step(graph, node, op_types) else { continue };
        let second = readers
            .only(first.output)
            .and_then(|reader| Some((reader, read_step(graph, graph.node(reader)?, op_types)?)));
        if let Some((reader, second)) = second
            && second.data == first.output
            && edits.are_free(&[id, reader])
            && fits(graph, first, second, op_types)
        {
            edits.touch(&[id, reader]);
            found.push(([id, reader], [first, second]));
        }
    }
    for (pattern, [first, second]) in found {
        let [_, last] = pattern;
        let Some(node) = graph.node(last).cloned() else { continue };
        let mut site = Site::new(graph);
        let [direct, opposite] = op_types;
        // (x o a) o b is x o (a b), or x o (a / b), and so on.
        let joined = if first.inverse == second.inverse { direct } else { opposite };
        let by = site.op(joined, &[first.by, second.by], &[]);
        site.take_name(by, first.by)?;
        let op_type = if first.inverse { opposite } else { direct };
        let made = Node { op_type: op_type.into(), inputs: smallvec![Some(first.data), Some(by)], ..node };
        edits.replace(&pattern, site.end_with(made));
    }
    edits.apply(graph)
}

/// Whether the two constants make one that is no larger than they are, and within the range of their type.
fn fits(graph: &Graph, first: Step, second: Step, op_types: [&str; 2]) -> bool {
    let tensors = (&graph.value(first.by).constant, &graph.value(second.by).constant);
    let (Some(a), Some(b)) = tensors else { return false };
    let one_shape =
        broadcast_lens(&[a.shape(), b.shape()]).is_ok_and(|shape| shape == a.shape() || shape == b.shape());
    let magnitudes = |tensor: &Tensor| {
        let elements = tensor.load_listed().ok()?.to_f64().ok()?;
        let bounds = |(least, most): (f64, f64), x: &f64| (least.min(x.abs()), most.max(x.abs()));
        let all_finite = elements.iter().all(|x| x.is_finite());
        all_finite.then(|| elements.iter().fold((f64::INFINITY, 0.0), bounds))
    };
    let (Some(a), Some(b)) = (magnitudes(a), magnitudes(b)) else { return false };
    let within = |least_factor: f64, most: f64| [a, b].iter().all(|x| x.0 >= least_factor && x.1 <= most);
    one_shape
        && if op_types.contains(&"Add") {
            within(0.0, MAX_TERM)
        } else {
            within(1.0 / MAX_FACTOR, MAX_FACTOR)
        }
}
