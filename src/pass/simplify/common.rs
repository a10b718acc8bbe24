//! Common subexpressions and equal constants are merged.

use std::collections::BTreeMap;
use std::fmt::Write;

use hashbrown::HashMap;
use hashbrown::hash_map::Entry;

use crate::common::index::{IndexMap, IndexSet, Interner};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Ids, Node, ValueId};
use crate::op;
use crate::pass::pattern::Readers;
use crate::tensor::{DType, Dim, Tensor};

/// The most bytes of constants that are compared: comparing all weights would take longer than a few copies
/// cost.
const MAX_COMPARED: u64 = 1 << 16;

/// Merges nodes of the same operator, inputs and attributes, and values that are the same expression of
/// sizes.
pub(crate) fn eliminate_common_subexpression(graph: &mut Graph) -> Result<bool> {
    let same = find_equal(graph)?;
    graph.redirect(&same);
    Ok(!same.is_empty())
}

/// Maps each value that an earlier node computes already to the earlier value.
fn find_equal(graph: &Graph) -> Result<IndexMap<ValueId, ValueId>> {
    let readers = Readers::of(graph);
    let mut same: IndexMap<ValueId, ValueId> = IndexMap::default();
    let mut computed = Computed::with_capacity(graph.node_count());
    let mut sizes: BTreeMap<(DType, Vec<usize>, Vec<Dim>), ValueId> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let follow = |input: &ValueId| same.get(*input).copied().unwrap_or(*input);
        let inputs: Ids = node.inputs.iter().map(|input| input.as_ref().map(follow)).collect();
        let first = computed.add(inputs, node);
        if let Some(first) = first.filter(|first| may_stand_for(&readers, &first.outputs, &node.outputs)) {
            let pairs = node.outputs.iter().flatten().zip(first.outputs.iter().flatten());
            same.extend(pairs.map(|(output, first)| (*output, *first)));
            continue;
        }
        for output in node.outputs.iter().flatten() {
            let value = graph.value(*output);
            let Some(elements) = &value.elements else { continue };
            let list = elements.dim_list()?;
            let first = *sizes.entry((elements.dtype(), elements.shape().to_vec(), list)).or_insert(*output);
            if first != *output && !readers.is_output(*output) {
                same.insert(*output, first);
            }
        }
    }
    same.retain(|value, _| !readers.all(value).is_empty());
    Ok(same)
}

/// The nodes visited, by inputs and key. Keys are written only for inputs that several nodes share.
struct Computed<'g> {
    inputs: Interner<Ids>,
    /// The first node with each list of inputs, until its key is written.
    first: Vec<Option<&'g Node>>,
    /// By the index of their inputs and their key.
    keyed: HashMap<(usize, String), &'g Node>,
}

impl<'g> Computed<'g> {
    fn with_capacity(nodes: usize) -> Self {
        Computed {
            inputs: Interner::with_capacity(nodes),
            first: Vec::with_capacity(nodes),
            keyed: HashMap::new(),
        }
    }

    /// Adds a node; returns the earlier node that computes the same.
    fn add(&mut self, inputs: Ids, node: &'g Node) -> Option<&'g Node> {
        let inputs = match self.inputs.add(inputs) {
            Ok(_) => {
                self.first.push(Some(node));
                return None;
            }
            Err(index) => index,
        };
        let first = self.first.get_mut(inputs).and_then(Option::take);
        if let Some((first, key)) = first.and_then(|first| Some((first, key(first)?))) {
            self.keyed.insert((inputs, key), first);
        }
        match self.keyed.entry((inputs, key(node)?)) {
            Entry::Occupied(first) => Some(first.get()),
            Entry::Vacant(entry) => {
                entry.insert(node);
                None
            }
        }
    }
}

/// Whether a node can replace another one with these outputs: it has the same outputs, and none is an output
/// of the graph, whose name is kept.
fn may_stand_for(readers: &Readers, first: &[Option<ValueId>], outputs: &[Option<ValueId>]) -> bool {
    first.len() == outputs.len()
        && first.iter().zip(outputs).all(|(first, output)| first.is_some() == output.is_some())
        && !outputs.iter().flatten().any(|output| readers.is_output(*output))
}

/// The operator and the attributes of a node as text; `None` if nodes with equal ones may compute different
/// values.
fn key(node: &Node) -> Option<String> {
    if op::find(node)?.random {
        return None;
    }
    let mut key = format!("{} {} {}", node.domain, node.op_type, node.version);
    for (name, attribute) in &node.attributes {
        write!(key, " {name}=").ok()?;
        match attribute {
            Attribute::Float(x) => write!(key, "{}", x.to_bits()),
            Attribute::Floats(list) => {
                write!(key, "{:?}", list.iter().map(|x| x.to_bits()).collect::<Vec<_>>())
            }
            Attribute::Int(n) => write!(key, "{n}"),
            Attribute::Ints(list) => write!(key, "{list:?}"),
            Attribute::String(text) => write!(key, "{text:?}"),
            Attribute::Strings(list) => write!(key, "{list:?}"),
            Attribute::Tensor(tensor) => write!(key, "{:?}", content(tensor)?),
            _ => return None,
        }
        .ok()?;
    }
    Some(key)
}

/// Merges equal constants.
pub(crate) fn eliminate_duplicate_initializer(graph: &mut Graph) -> Result<bool> {
    let read: IndexSet<ValueId> = graph.nodes().flat_map(|(_, node)| node.reads()).collect();
    let mut contents: Interner<Content> = Interner::with_capacity(graph.constant_count());
    let mut first: Vec<ValueId> = Vec::new();
    let mut same = IndexMap::default();
    for id in graph.value_ids().filter(|id| read.contains(*id)) {
        let Some(content) = graph.value(id).constant.as_ref().and_then(content) else { continue };
        match contents.add(content) {
            Ok(_) => first.push(id),
            Err(index) => same.extend(first.get(index).map(|kept| (id, *kept))),
        }
    }
    graph.redirect(&same);
    Ok(!same.is_empty())
}

/// Type, shape and bytes of a constant.
type Content<'t> = (DType, &'t [usize], &'t [u8]);

/// The content of a constant that is small and in memory.
fn content(tensor: &Tensor) -> Option<Content<'_>> {
    let small = tensor.byte_len().is_ok_and(|len| len <= MAX_COMPARED);
    let bytes = tensor.raw_bytes().filter(|_| small && tensor.dtype() != DType::String)?;
    Some((tensor.dtype(), tensor.shape(), bytes))
}
