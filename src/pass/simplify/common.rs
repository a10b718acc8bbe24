//! Common subexpressions and equal constants, merged.

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

/// Constants of more bytes are not compared: reading all weights would take longer than a copy is worth.
const MAX_COMPARED: u64 = 1 << 16;

/// Merges nodes of one operator with the same inputs, attributes and symbolic output sizes.
pub(crate) fn merge_subexpressions(graph: &mut Graph) -> Result<bool> {
    let same = computed_before(graph)?;
    graph.redirect(&same);
    Ok(!same.is_empty())
}

/// Returns the values that an earlier node computes too, and that node's values.
fn computed_before(graph: &Graph) -> Result<IndexMap<ValueId, ValueId>> {
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
            let list = elements.to_dims()?.iter().cloned().collect();
            let first = *sizes.entry((elements.dtype(), elements.shape().to_vec(), list)).or_insert(*output);
            if first != *output && !readers.is_output(*output) {
                same.insert(*output, first);
            }
        }
    }
    same.retain(|value, _| !readers.all(value).is_empty());
    Ok(same)
}

/// The nodes so far, by their inputs. Most inputs have one reader, so a node is described only when a second
/// one appears.
struct Computed<'g> {
    inputs: Interner<Ids>,
    /// The first node with each list of inputs, until it is described.
    first: Vec<Option<&'g Node>>,
    /// By the index of the inputs and a description.
    spelled: HashMap<(usize, String), &'g Node>,
}

impl<'g> Computed<'g> {
    fn with_capacity(nodes: usize) -> Self {
        Computed {
            inputs: Interner::with_capacity(nodes),
            first: Vec::with_capacity(nodes),
            spelled: HashMap::new(),
        }
    }

    /// Adds a node and returns an earlier node that computes the same.
    fn add(&mut self, inputs: Ids, node: &'g Node) -> Option<&'g Node> {
        let inputs = match self.inputs.add(inputs) {
            Ok(_) => {
                self.first.push(Some(node));
                return None;
            }
            Err(number) => number,
        };
        let first = self.first.get_mut(inputs).and_then(Option::take);
        if let Some((first, key)) = first.and_then(|first| Some((first, key(first)?))) {
            self.spelled.insert((inputs, key), first);
        }
        match self.spelled.entry((inputs, key(node)?)) {
            Entry::Occupied(first) => Some(first.get()),
            Entry::Vacant(place) => {
                place.insert(node);
                None
            }
        }
    }
}

/// Returns whether the outputs of one node can replace those of another, whose outputs must have no names to
/// keep.
fn may_stand_for(readers: &Readers, first: &[Option<ValueId>], outputs: &[Option<ValueId>]) -> bool {
    first.len() == outputs.len()
        && first.iter().zip(outputs).all(|(first, output)| first.is_some() == output.is_some())
        && !outputs.iter().flatten().any(|output| readers.is_output(*output))
}

/// Describes a node apart from its inputs; `None` if two equal nodes may have different results.
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
pub(crate) fn merge_constants(graph: &mut Graph) -> Result<bool> {
    let read: IndexSet<ValueId> = graph.nodes().flat_map(|(_, node)| node.reads()).collect();
    let mut contents: Interner<Content> = Interner::with_capacity(graph.constant_count());
    let mut first: Vec<ValueId> = Vec::new();
    let mut same = IndexMap::default();
    for id in graph.value_ids().filter(|id| read.contains(*id)) {
        let Some(content) = graph.value(id).constant.as_ref().and_then(content) else { continue };
        match contents.add(content).map_err(|number| first.get(number)) {
            Ok(_) => first.push(id),
            Err(kept) => {
                same.extend(kept.map(|kept| (id, *kept)));
            }
        }
    }
    graph.redirect(&same);
    Ok(!same.is_empty())
}

/// Type, shape and bytes of a constant.
type Content<'t> = (DType, &'t [usize], &'t [u8]);

/// Returns the content of a small constant in memory.
fn content(tensor: &Tensor) -> Option<Content<'_>> {
    let small = tensor.byte_len().is_ok_and(|len| len <= MAX_COMPARED);
    let bytes = tensor.raw_bytes().filter(|_| small && tensor.dtype() != DType::String)?;
    Some((tensor.dtype(), tensor.shape(), bytes))
}
