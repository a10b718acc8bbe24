//! Shapes of results whose sizes depend on elements: their number of axes, and sizes with new names.

use std::collections::BTreeSet;

use crate::common::limits;
use crate::graph::{Fact, Graph};
use crate::op::Call;
use crate::pass::infer::infer_with;
use crate::tensor::{DType, Dim};

/// The names of sizes that depend on elements, in a model that uses others.
#[derive(Clone)]
pub(super) struct Names {
    used: BTreeSet<String>,
    new: BTreeSet<String>,
    /// The last number that was tried.
    number: u32,
}

impl Names {
    fn of(graph: &Graph) -> Names {
        let mut used = BTreeSet::new();
        let shapes = graph.value_ids().filter_map(|id| graph.value(id).shape.as_deref());
        shapes.flatten().for_each(|size| size.collect_symbols(&mut used));
        Names { used, new: BTreeSet::new(), number: 0 }
    }

    /// Returns whether a size depends on elements.
    pub fn has(&self, size: &Dim) -> bool {
        let mut symbols = BTreeSet::new();
        size.collect_symbols(&mut symbols);
        !symbols.is_disjoint(&self.new)
    }

    /// Returns a size with a new name.
    pub fn next(&mut self) -> Dim {
        let name = loop {
            self.number += 1;
            let name = format!("n{}", self.number);
            if !self.used.contains(&name) {
                break name;
            }
        };
        let size = Dim::symbol(&name);
        self.new.insert(name);
        size
    }
}

/// Infers what is known of a graph, with names for sizes that depend on elements. Returns these names.
pub(super) fn infer(graph: &mut Graph) -> Names {
    let mut names = Names::of(graph);
    // What is known up to an error is enough.
    let _ = infer_with(graph, |call| outline(call, &mut names));
    names
}

/// Returns the facts of the first output of a node whose sizes are not known.
fn outline(call: &Call, names: &mut Names) -> Option<Fact> {
    let node = call.node();
    if node.is("NonZero") {
        let rank = i64::try_from(call.shape(0).ok()?.len()).ok()?;
        return Some(Fact::new(DType::I64, [Dim::from(rank), names.next()]));
    }
    if node.is("NonMaxSuppression") {
        return Some(Fact::new(DType::I64, [names.next(), Dim::from(3)]));
    }
    let dtype = call.dtype(0).ok()?;
    if node.is_one_of(&["Range", "Compress", "Unique"]) && node.attributes.get("axis").is_none() {
        return Some(Fact::new(dtype, [names.next()]));
    }
    let shape = usize::from(!node.is("ConstantOfShape"));
    let [length] = call.shape(shape).ok()? else { return None };
    let length = usize::try_from(length.known()?).ok().filter(|length| *length <= limits::AXES)?;
    if node.is("Expand") {
        let from = call.shape(0).ok()?;
        let rank = length.max(from.len());
        let size = |axis: usize| {
            let size = (axis + from.len()).checked_sub(rank).and_then(|axis| from.get(axis));
            size.filter(|size| !size.is(1)).cloned()
        };
        let sizes = (0..rank).map(|axis| size(axis).unwrap_or_else(|| names.next()));
        return Some(Fact::new(dtype, sizes.collect::<Vec<_>>()));
    }
    let dtype = match call.optional_tensor("value") {
        _ if !node.is("ConstantOfShape") => dtype,
        Ok(Some(fill)) => fill.dtype(),
        _ => DType::F32,
    };
    let is_shaped = node.is_one_of(&["ConstantOfShape", "Reshape", "Tile"]);
    is_shaped.then(|| Fact::new(dtype, (0..length).map(|_| names.next()).collect::<Vec<_>>()))
}
