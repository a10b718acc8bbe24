//! Successive factors, or successive terms, that are constants become one constant.
//!
//! Float32 results are rounded in another order. Constants of extreme magnitude are not changed.

use crate::common::index::{IndexMap, IndexSet};
use crate::error::Result;
use crate::graph::{Graph, NodeId, ValueId};
use crate::pass::builder::{Builder, Expr, replacement_of};
use crate::pass::pattern::{MODERATE, Readers};
use crate::tensor::{DType, Tensor, broadcast_lens};

use super::only_output;

/// The largest term. Models round by adding and subtracting a large constant; these must not be merged.
const MAX_TERM: f64 = 1024.0;

/// Merges products and quotients.
pub(crate) fn fuse_consecutive_factors(graph: &mut Graph) -> Result<bool> {
    fuse(graph, ["Mul", "Div"])
}

/// Merges sums and differences.
pub(crate) fn fuse_consecutive_terms(graph: &mut Graph) -> Result<bool> {
    fuse(graph, ["Add", "Sub"])
}

/// An operation with a constant.
#[derive(Clone, Copy, Debug)]
struct Step {
    node: NodeId,
    data: ValueId,
    by: ValueId,
    /// Whether the operator is the inverse one, Div or Sub.
    inverse: bool,
    output: ValueId,
}

/// Reads `data op constant`, or `constant op data` if `op` is commutative.
fn read_step(graph: &Graph, id: NodeId, op_types: [&'static str; 2]) -> Option<Step> {
    let node = graph.node(id)?;
    let inverse = match op_types.map(|op_type| node.is(op_type)) {
        [true, _] => false,
        [_, true] => true,
        _ => return None,
    };
    let (first, second, output) = (node.input(0)?, node.input(1)?, only_output(node)?);
    let is_constant = |id: ValueId| graph.value(id).constant.is_some();
    let (data, by) = match (is_constant(first), is_constant(second)) {
        (false, true) => (first, second),
        (true, false) if !inverse => (second, first),
        _ => return None,
    };
    let is_supported = matches!(graph.value(output).dtype?, DType::F32 | DType::F64);
    (is_supported && node.version >= 7).then_some(Step { node: id, data, by, inverse, output })
}

fn fuse(graph: &mut Graph, op_types: [&'static str; 2]) -> Result<bool> {
    let steps: Vec<Step> = graph.nodes().filter_map(|(id, _)| read_step(graph, id, op_types)).collect();
    if steps.is_empty() {
        return Ok(false);
    }
    let readers = Readers::of(graph);
    let mut runs: Vec<Vec<Step>> = Vec::new();
    let mut taken: IndexSet<NodeId> = IndexSet::default();
    for first in steps {
        if taken.contains(first.node) {
            continue;
        }
        let run = run_from(graph, &readers, first, op_types);
        if run.len() > 1 {
            taken.extend(run.iter().map(|step| step.node));
            runs.push(run);
        }
    }
    let [direct, opposite] = op_types;
    let mut replaced = IndexMap::default();
    for run in runs {
        let (Some(first), Some(last)) = (run.first().copied(), run.last().copied()) else { continue };
        let Some(node) = graph.node(last.node).cloned() else { continue };
        let op_type = if first.inverse { opposite } else { direct };
        let made = replacement_of(graph, &node, node.version, |made| {
            let Some(by) = join(made, run, op_types) else { return Ok(None) };
            Ok(Some(made.op(op_type, [made.value(first.data), by.named_after(first.by)], [])))
        })?;
        if let Some(made) = made {
            replaced.insert(last.node, made);
        }
    }
    graph.replace_found(replaced)
}

/// The longest run of steps from one on, each the only reader of the one before, whose constants can be
/// merged.
fn run_from(graph: &Graph, readers: &Readers, first: Step, op_types: [&'static str; 2]) -> Vec<Step> {
    let mut steps = vec![first];
    let mut joined = Joined::of(graph, first.by);
    let mut last = first;
    while let Some(before) = joined
        && let Some(reader) = readers.only(last.output)
        && let Some(next) = read_step(graph, reader, op_types)
        && next.data == last.output
        && let Some(with_next) =
            before.with(Joined::of(graph, next.by), first.inverse == next.inverse, op_types)
    {
        steps.push(next);
        (joined, last) = (Some(with_next), next);
    }
    steps
}

/// Builds the merged constant of several steps, pair by pair, so that each constant is rounded few times: `x
/// / a * b` is `x / (a / b)`, `x / a / b` is `x / (a * b)`, and so on.
fn join<'b>(made: &'b Builder<'b>, steps: Vec<Step>, op_types: [&'static str; 2]) -> Option<Expr<'b>> {
    let [direct, opposite] = op_types;
    let mut terms: Vec<(bool, Expr)> =
        steps.into_iter().map(|step| (step.inverse, made.value(step.by))).collect();
    while terms.len() > 1 {
        let pairs = terms.chunks(2).filter_map(|pair| match pair {
            [(inverse, first), (other, second)] => {
                let op_type = if inverse == other { direct } else { opposite };
                Some((*inverse, first.builder.op(op_type, [*first, *second], [])))
            }
            _ => pair.first().copied(),
        });
        terms = pairs.collect();
    }
    terms.first().map(|(_, term)| *term)
}

/// The shape and the magnitude of a merged constant.
struct Joined<'g> {
    shape: &'g [usize],
    /// Bounds of the magnitudes of its elements.
    least: f64,
    most: f64,
}

impl<'g> Joined<'g> {
    /// Describes a constant, if all its elements are finite.
    fn of(graph: &'g Graph, constant: ValueId) -> Option<Joined<'g>> {
        let tensor: &Tensor = graph.value(constant).constant.as_ref()?;
        let elements = tensor.load_listed().ok()?.to_f64().ok()?;
        let bounds = |(least, most): (f64, f64), x: &f64| (least.min(x.abs()), most.max(x.abs()));
        let (least, most) = elements.iter().fold((f64::INFINITY, 0.0), bounds);
        elements.iter().all(|x| x.is_finite()).then_some(Joined { shape: tensor.shape(), least, most })
    }

    /// Merges another constant, which has the same operator if it is `alike`. `None` if the result would have
    /// more elements than both, or if either is of extreme magnitude.
    fn with(self, other: Option<Joined<'g>>, alike: bool, op_types: [&'static str; 2]) -> Option<Joined<'g>> {
        let other = other?;
        let shape = broadcast_lens(&[self.shape, other.shape]).ok()?;
        let shape = [self.shape, other.shape].into_iter().find(|one| *one == shape)?;
        let is_sum = op_types.contains(&"Add");
        let range = if is_sum { 0.0..=MAX_TERM } else { MODERATE };
        if ![&self, &other].iter().all(|x| x.least >= *range.start() && x.most <= *range.end()) {
            return None;
        }
        let (least, most) = match (is_sum, alike) {
            (true, _) => (0.0, self.most + other.most),
            (false, true) => (self.least * other.least, self.most * other.most),
            (false, false) => (self.least / other.most, self.most / other.least),
        };
        Some(Joined { shape, least, most })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::{Node, Value};
    use crate::pass::dead::remove_dead_nodes;
    use crate::pass::infer::infer_and_fold;
    use crate::pass::pattern::scalar;

    /// The operators and constants that remain of a chain of operators with constants.
    fn merged(steps: &[(&str, f32)], apply: fn(&mut Graph) -> Result<bool>) -> Vec<(String, f64)> {
        crate::ops::register();
        let mut graph = Graph::default();
        let value = Value { dtype: Some(DType::F32), shape: Some(Vec::new().into()), ..Value::default() };
        let mut last = graph.add_value(value.clone());
        graph.inputs.push(last);
        for (op_type, number) in steps {
            let by = graph.add_constant("", Tensor::from_f32(&[], vec![*number]).unwrap());
            let output = graph.add_value(value.clone());
            let inputs = smallvec::smallvec![Some(last), Some(by)];
            let outputs = smallvec::smallvec![Some(output)];
            graph.add_node(Node {
                op_type: (*op_type).into(),
                version: 14,
                inputs,
                outputs,
                ..Node::default()
            });
            last = output;
        }
        graph.outputs.push(last);
        apply(&mut graph).unwrap();
        remove_dead_nodes(&mut graph);
        infer_and_fold(&mut graph).unwrap();
        let number = |node: &Node| scalar(&graph, node.inputs[1].unwrap()).unwrap();
        graph.nodes().map(|(_, node)| (node.op_type.to_string(), number(node))).collect()
    }

    #[test]
    fn successive_constants_merge() {
        let sum = [("Sub", 1.0), ("Add", 2.0), ("Add", 4.0), ("Sub", 8.0), ("Sub", 16.0)];
        assert_eq!(merged(&sum, fuse_consecutive_terms), [("Sub".to_owned(), 19.0)]);
        let product = [("Div", 2.0), ("Mul", 8.0), ("Div", 4.0)];
        assert_eq!(merged(&product, fuse_consecutive_factors), [("Div".to_owned(), 1.0)]);
    }

    #[test]
    fn extreme_constants_stay_separate() {
        let sum = [("Add", 1.0), ("Add", 1e5), ("Add", 1.0), ("Add", 2.0)];
        let wanted = [("Add", 1.0), ("Add", 1e5), ("Add", 3.0)].map(|(op, x)| (op.to_owned(), x));
        assert_eq!(merged(&sum, fuse_consecutive_terms), wanted);
        let product = [("Mul", 2_f32.powi(33)); 3];
        let wanted = [("Mul", 66), ("Mul", 33)].map(|(op, n)| (op.to_owned(), 2_f64.powi(n)));
        assert_eq!(merged(&product, fuse_consecutive_factors), wanted);
    }
}
