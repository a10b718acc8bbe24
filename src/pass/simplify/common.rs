//! Common subexpressions and equal constants are merged.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};

use bytes::Bytes;

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
    let mut computed = Interner::with_capacity(graph.node_count());
    let mut sizes: BTreeMap<(DType, Vec<usize>, Vec<Dim>), ValueId> = BTreeMap::new();
    for (_, node) in graph.nodes() {
        let follow = |input: &ValueId| same.get(*input).copied().unwrap_or(*input);
        let inputs: Ids = node.inputs.iter().map(|input| input.as_ref().map(follow)).collect();
        let equal = Computation::new(inputs, node).and_then(|computation| computed.add(computation).err());
        let first = equal.and_then(|index| computed.get(index)).map(|first| first.node);
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

/// A node with these inputs. Two are equal if they compute the same.
struct Computation<'g> {
    inputs: Ids,
    node: &'g Node,
}

impl<'g> Computation<'g> {
    /// Returns `None` for a node that may compute other values than an equal one.
    fn new(inputs: Ids, node: &'g Node) -> Option<Self> {
        let are_comparable = node.attributes.values().all(|attribute| bits(attribute).is_some());
        (are_comparable && !op::find(node)?.random).then_some(Computation { inputs, node })
    }

    fn attributes(&self) -> impl Iterator<Item = (&str, Option<Bits<'_>>)> {
        self.node.attributes.iter().map(|(name, attribute)| (&**name, bits(attribute)))
    }
}

impl Hash for Computation<'_> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inputs.hash(state);
        self.node.op_type.hash(state);
        self.attributes().for_each(|attribute| attribute.hash(state));
    }
}

impl PartialEq for Computation<'_> {
    fn eq(&self, other: &Self) -> bool {
        let (node, other_node) = (self.node, other.node);
        self.inputs == other.inputs
            && (&node.domain, &node.op_type, node.version)
                == (&other_node.domain, &other_node.op_type, other_node.version)
            && self.attributes().eq(other.attributes())
    }
}

impl Eq for Computation<'_> {}

/// An attribute whose floats are compared by their bits.
#[derive(PartialEq, Eq, Hash)]
enum Bits<'a> {
    Float(u32),
    Floats(Vec<u32>),
    Int(i64),
    Ints(&'a [i64]),
    String(&'a [u8]),
    Strings(&'a [Bytes]),
    Tensor(Content<'a>),
}

/// `None` for attributes that are not compared.
fn bits(attribute: &Attribute) -> Option<Bits<'_>> {
    Some(match attribute {
        Attribute::Float(x) => Bits::Float(x.to_bits()),
        Attribute::Floats(list) => Bits::Floats(list.iter().map(|x| x.to_bits()).collect()),
        Attribute::Int(n) => Bits::Int(*n),
        Attribute::Ints(list) => Bits::Ints(list),
        Attribute::String(text) => Bits::String(text),
        Attribute::Strings(list) => Bits::Strings(list),
        Attribute::Tensor(tensor) => Bits::Tensor(content(tensor)?),
        _ => return None,
    })
}

/// Whether a node can replace another one with these outputs: it has the same outputs, and none is an output
/// of the graph, whose name is kept.
fn may_stand_for(readers: &Readers, first: &[Option<ValueId>], outputs: &[Option<ValueId>]) -> bool {
    first.len() == outputs.len()
        && first.iter().zip(outputs).all(|(first, output)| first.is_some() == output.is_some())
        && !outputs.iter().flatten().any(|output| readers.is_output(*output))
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
