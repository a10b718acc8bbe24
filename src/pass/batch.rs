//! Batches, of which the runtime computes one element after the other.
//!
//! Convolutions over a batch are layers over one more axis, between permutations. Since release 20261020 a
//! Mat may have a batch, and every layer computes each element of it with the same weights. So convolutions,
//! and the nodes between them, compute values whose first axis has size 1; other nodes read those with the
//! whole batch.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Add;

use smallvec::smallvec;

use crate::common::groups::Groups;
use crate::common::index::IndexMap;
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, NodeId, Value, ValueId};
use crate::ncnn::Cost;
use crate::op::{self, Access, Call, NEWEST_OPSET, element_count};
use crate::pass::builder::program_node;
use crate::pass::pattern::{Readers, constant_ints, is_numpy};
use crate::pass::rewrite::{Rewrite, pass};
use crate::pass::simplify::axes_of;
use crate::tensor::Dim;

/// The pass for runtimes with batches.
pub const BATCHING: &[Rewrite] = &[pass!(self::batch_elements [Conv ConvTranspose DeformConv]
    "convolutions over a batch, and the nodes between them, over each element of it")];

/// The layers that take as long as the start of a convolution: transforms of small images are mostly padding.
const START: u64 = 20;

/// The layers that move the batch of a convolution on each side: Permute, Reshape, and Padding or Crop.
const MOVES: u64 = 3;

/// The steps in a row that are tried as the ends of a group.
const MAX_ROUNDS: usize = 64;

/// A node that computes each element of a batch from only the same elements of its inputs.
struct Step {
    node: NodeId,
    /// The size of the batch.
    size: i64,
    /// The inputs with the batch.
    read: Vec<ValueId>,
    made: Vec<ValueId>,
    is_convolution: bool,
    /// The numbers of elements of these inputs and of the outputs.
    elements: [u64; 2],
    /// The cost of a convolution over three axes and a batch, for which the runtime has no fast code.
    scalars: Cost,
    /// The steps whose outputs it reads, and whether a step reads its output.
    before: Vec<usize>,
    is_read: bool,
}

impl Step {
    fn of(graph: &Graph, id: NodeId) -> Option<Step> {
        let node = graph.node(id)?;
        let shape = graph.value(*node.outputs.iter().flatten().next()?).shape.as_deref()?;
        let size = shape.first()?.known().filter(|size| *size > 1)?;
        let (op, call) = Call::of(graph, node)?;
        let made: Vec<ValueId> = node.outputs.iter().flatten().copied().collect();
        if op.random || node.bodies().next().is_some() {
            return None;
        }
        let has_batch = |value: &Value| {
            let shape = value.shape.as_deref().unwrap_or_default();
            value.constant.is_none() && shape.len() > 1 && shape.first().is_some_and(|first| first.is(size))
        };
        let axes = || axes_of(graph, node).is_some_and(|axes| !axes.contains(&0));
        let mut read = Vec::new();
        for (index, input) in node.inputs.iter().enumerate() {
            let Some(input) = *input else { continue };
            let value = graph.value(input);
            let of_input = value.shape.as_deref()?;
            let is_batched = match (op.batched, op.access) {
                (Some(batched), _) => batched(&call, index),
                (None, Access::Elementwise | Access::View) => index == 0,
                (None, Access::Broadcast) => of_input.len() == shape.len() && !of_input.first()?.is(1),
                (None, Access::Lanes { .. }) => axes(),
                (None, Access::Reduction) => index == 0 && axes(),
                (None, Access::Any | Access::Selection) => false,
            };
            if is_batched {
                read.push(Some(input).filter(|_| has_batch(value))?);
            } else if value.constant.is_none() && op.access != Access::Broadcast
                || op.access == Access::Elementwise && value.constant.as_ref()?.len() > 1
            {
                return None;
            }
        }
        let is_aligned = op.access != Access::Broadcast || is_numpy(node);
        let fits = is_aligned && !read.is_empty() && made.iter().all(|made| has_batch(graph.value(*made)));
        let count = |values: &[ValueId]| {
            let counts = values.iter().map(|id| element_count(graph.value(*id).shape.as_deref()?));
            counts.sum::<Option<u64>>()
        };
        let multiply_adds = op.multiply_adds.and_then(|count| count(&call)).unwrap_or(0);
        let scalars = match shape.len() {
            // Over the whole, each element has separate layers, with copies of the weights.
            _ if node.is("DeformConv") => u64::MAX,
            5.. => multiply_adds,
            _ => 0,
        };
        Some(Step {
            node: id,
            scalars: Cost::scalar_products(scalars),
            size,
            elements: [count(&read)?, count(&made)?],
            is_convolution: op.batched.is_some() && op.multiply_adds.is_some(),
            read,
            made,
            before: Vec::new(),
            is_read: false,
        })
        .filter(|_| fits)
    }

    /// Returns whether the step makes fewer values enter or leave the group.
    fn is_worth_it(&self) -> bool {
        let [read, made] = self.elements;
        let (is_first, is_last) = (self.before.is_empty(), !self.is_read);
        self.is_convolution || !(is_first && read > made || is_last && made > read)
    }
}

/// Returns the steps by groups in which each reads another.
fn groups(graph: &Graph) -> Vec<Vec<Step>> {
    let mut steps: Vec<Step> = graph.node_ids().into_iter().filter_map(|id| Step::of(graph, id)).collect();
    let mut rounds = 0..MAX_ROUNDS;
    loop {
        let makers: IndexMap<ValueId, usize> = steps
            .iter()
            .enumerate()
            .flat_map(|(at, step)| step.made.iter().map(move |id| (*id, at)))
            .collect();
        let mut is_read = vec![false; steps.len()];
        let mut joined = Groups::default();
        for (at, step) in steps.iter_mut().enumerate() {
            step.before = step.read.iter().filter_map(|id| makers.get(*id).copied()).collect();
            for other in &step.before {
                if let Some(is_read) = is_read.get_mut(*other) {
                    *is_read = true;
                }
                joined.join(at, *other);
            }
        }
        steps.iter_mut().zip(is_read).for_each(|(step, is_read)| step.is_read = is_read);
        let mut kept = steps.iter().map(Step::is_worth_it).collect::<Vec<_>>().into_iter();
        if kept.clone().all(|kept| kept) || rounds.next().is_none() {
            let mut groups: BTreeMap<usize, Vec<Step>> = BTreeMap::new();
            for (at, step) in steps.into_iter().enumerate() {
                groups.entry(joined.root(at)).or_default().push(step);
            }
            return groups.into_values().collect();
        }
        steps.retain(|_| kept.next() == Some(true));
    }
}

/// Returns whether the group takes less time over each element of the batch than over the whole.
fn is_faster(graph: &Graph, group: &[Step], readers: &Readers) -> bool {
    let nodes: BTreeSet<NodeId> = group.iter().map(|step| step.node).collect();
    let made: BTreeSet<ValueId> = group.iter().flat_map(|step| step.made.iter().copied()).collect();
    let mut border: BTreeSet<ValueId> = group.iter().flat_map(|step| step.read.iter().copied()).collect();
    border.retain(|value| !made.contains(value));
    border
        .extend(made.iter().filter(|value| is_read_outside(readers, |node| nodes.contains(&node), **value)));
    let elements = border.iter().filter_map(|id| element_count(graph.value(*id).shape.as_deref()?));
    let mut by_element =
        elements.map(|elements| Cost::passes(MOVES, elements)).fold(Cost::default(), Cost::add);
    let mut whole = Cost::default();
    for step in group {
        let [read, made] = step.elements;
        let layers = if step.is_convolution { START } else { 1 };
        by_element = by_element + Cost { layers, ..Cost::default() } * step.size.unsigned_abs();
        if step.is_convolution {
            by_element = by_element + Cost::passes(1, made);
            whole = whole + Cost::passes(MOVES, read) + Cost::passes(MOVES, made) + step.scalars;
        }
    }
    by_element.nanoseconds() < whole.nanoseconds()
}

fn is_read_outside(readers: &Readers, is_inside: impl Fn(NodeId) -> bool, value: ValueId) -> bool {
    readers.is_output(value) || readers.all(value).iter().any(|reader| !is_inside(*reader))
}

fn batch_elements(graph: &mut Graph) -> Result<bool> {
    let mut groups = groups(graph);
    if groups.is_empty() {
        return Ok(false);
    }
    let readers = Readers::of(graph);
    groups.retain(|group| is_faster(graph, group, &readers));
    let is_changed = !groups.is_empty();
    let steps: IndexMap<NodeId, Step> = groups.into_iter().flatten().map(|step| (step.node, step)).collect();
    let mut inner: IndexMap<ValueId, ValueId> = IndexMap::default();
    graph.rewrite_nodes(|graph, id| {
        let (Some(step), Some(mut node)) = (steps.get(id), graph.node(id).cloned()) else { return Ok(None) };
        let mut before = Vec::new();
        for value in &step.read {
            if !inner.contains(*value) {
                let element = element_of(graph, *value);
                inner.insert(*value, element);
                before.push(program_node("SplitBatch", *value, element));
            }
        }
        state_sizes(graph, &mut node)?;
        for input in node.inputs.iter_mut().flatten() {
            if let Some(element) = inner.get(*input).filter(|_| step.read.contains(input)) {
                *input = *element;
            }
        }
        let mut after = Vec::new();
        for output in node.outputs.iter_mut().flatten() {
            let element = element_of(graph, *output);
            inner.insert(*output, element);
            if is_read_outside(&readers, |node| steps.contains(node), *output) {
                let mut join = program_node("JoinBatch", element, *output);
                join.attributes.insert("size".into(), Attribute::Int(step.size));
                after.push(join);
            }
            *output = element;
        }
        before.push(node);
        before.extend(after);
        Ok(Some(before))
    })?;
    Ok(is_changed)
}

/// Adds the value of an element of a batch.
fn element_of(graph: &mut Graph, value: ValueId) -> ValueId {
    let name = format!("{}_element", graph.value(value).name);
    graph.add_value(Value { name, ..Value::default() })
}

/// Replaces the size of the batch in the sizes that a node states: those of a view, and those of Resize.
fn state_sizes(graph: &mut Graph, node: &mut Node) -> Result<()> {
    let output = node.outputs.iter().flatten().next().map(|id| graph.value(*id));
    let shape: Option<Vec<i64>> =
        output.and_then(|value| value.shape.iter().flatten().map(Dim::known).collect());
    let is_view = op::access(node) == Access::View;
    let Some(shape) = shape.filter(|_| is_view || node.is("Resize")) else { return Ok(()) };
    let element: Vec<i64> = std::iter::once(1).chain(shape.iter().skip(1).copied()).collect();
    if is_view {
        let stated = graph.add_ints(&element)?;
        let data = node.input(0);
        let (name, index) = (std::mem::take(&mut node.name), node.index);
        *node = Node {
            name,
            index,
            op_type: "Reshape".into(),
            version: NEWEST_OPSET,
            inputs: smallvec![data, Some(stated)],
            outputs: std::mem::take(&mut node.outputs),
            ..Node::default()
        };
        return Ok(());
    }
    for input in &mut node.inputs {
        let Some(id) = *input else { continue };
        if constant_ints(graph, id).is_some_and(|sizes| sizes == shape) {
            *input = Some(graph.add_ints(&element)?);
        }
    }
    Ok(())
}
