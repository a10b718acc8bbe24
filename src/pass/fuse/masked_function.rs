//! `y = scatter_nd(x, at, f(gather_nd(a, at)))` with `at = transpose(nonzero(mask))`
//!
//! becomes `where(mask, f(a), x)`, if `f` computes each element from the same elements: PyTorch's
//! `x[mask] = f(a[mask])`. How many elements the mask selects is known only at run time.

use std::cell::Cell;

use super::masked::{assigned, longer, mask_of, replacement};
use super::matcher::{Found, Matcher, fuse};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::op::{self, Access};
use crate::pass::builder::{Builder, Expr};
use crate::tensor::Dim;

/// The most nodes that are copied: those that several read are copied for each.
const MAX_NODES: usize = 64;

/// Elements that the mask selects.
enum Selected {
    /// Elements of a value.
    Of(ValueId),
    /// The results of a node, whose input at each index is selected, or the same for all positions.
    By(Node, Vec<Option<Selected>>),
}

struct Part {
    x: ValueId,
    mask: ValueId,
    /// The axes of size 1 that the mask lacks.
    added: Vec<usize>,
    updates: Selected,
}

pub(crate) fn fuse_masked_function(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, Part { x, mask, added, updates }| {
        Ok(assigned(made, made.value(x), (mask, &added), updates.whole(made)?))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Part>> {
    let [x, at, updates] = replacement(node)?;
    let (mask, shape) = (unrepeated_mask_of(matcher, at, x)?, matcher.shape(x)?);
    let of_mask = matcher.shape(mask)?;
    shape.starts_with(of_mask).then_some(())?;
    let selection = Selection { matcher, mask, shape, left: Cell::new(MAX_NODES) };
    let updates = selection.read(listed(matcher, updates))?;
    Some(Found::open(Part { x, mask, added: (of_mask.len()..shape.len()).collect(), updates }))
}

/// Returns the value of whose elements the updates are a list: there are as many as the mask selects, so
/// neither an expansion nor a cut changes their number.
fn listed(matcher: &Matcher, mut updates: ValueId) -> ValueId {
    let source = |updates: ValueId| {
        let node = matcher.producer(updates)?;
        let is_flat =
            || node.input(1).and_then(|shape| matcher.ints(shape)).is_some_and(|shape| shape == [-1]);
        longer(matcher, updates)
            .or_else(|| node.input(0).filter(|_| node.is("Expand") || node.is("Reshape") && is_flat()))
    };
    while let Some(source) = source(updates) {
        updates = source;
    }
    updates
}

/// Returns the mask whose positions are the indices of a value into data, before it is repeated along further
/// axes.
fn unrepeated_mask_of(matcher: &Matcher, at: ValueId, data: ValueId) -> Option<ValueId> {
    let mut mask = mask_of(matcher, at, data)?;
    let unrepeated = |mask: ValueId| {
        let node = matcher.producer(mask).filter(|node| node.is("Expand") || node.is("Unsqueeze"))?;
        let source = node.input(0)?;
        let (shape, of_source) = (matcher.shape(mask)?, matcher.shape(source)?);
        let kept = of_source.iter().rposition(|size| !size.is(1)).map_or(0, |last| last + 1);
        (shape.get(..kept) == of_source.get(..kept)).then_some(source)
    };
    while let Some(source) = unrepeated(mask) {
        mask = source;
    }
    Some(mask)
}

/// What a mask selects of values of one shape.
struct Selection<'m> {
    matcher: &'m Matcher<'m>,
    mask: ValueId,
    shape: &'m [Dim],
    /// The number of nodes that may still be read.
    left: Cell<usize>,
}

impl Selection<'_> {
    fn read(&self, value: ValueId) -> Option<Selected> {
        self.left.set(self.left.get().checked_sub(1)?);
        let node = self.matcher.producer(value)?;
        let data = node.input(0)?;
        if node.is("GatherND") {
            let is_same = unrepeated_mask_of(self.matcher, node.input(1)?, data)? == self.mask;
            let fits = is_same && self.matcher.shape(data)? == self.shape;
            return fits.then_some(Selected::Of(data));
        }
        let op = op::find(node).filter(|op| !op.random && node.bodies().next().is_none())?;
        if !matches!(op.access, Access::Elementwise | Access::Broadcast) || node.outputs.len() != 1 {
            return None;
        }
        let input = |(index, input): (usize, &Option<ValueId>)| {
            let Some(input) = *input else { return Some(None) };
            let is_operand = index == 0 || op.access == Access::Broadcast;
            match self.is_common(input) {
                true => Some(None),
                false => self.read(input).filter(|_| is_operand).map(Some),
            }
        };
        let inputs: Vec<Option<Selected>> =
            node.inputs.iter().enumerate().map(input).collect::<Option<_>>()?;
        inputs.iter().any(Option::is_some).then(|| Selected::By(node.clone(), inputs))
    }

    /// Returns whether a value is the same for all positions of the mask.
    fn is_common(&self, value: ValueId) -> bool {
        let (Some(shape), Some(of_mask)) = (self.matcher.shape(value), self.matcher.rank(self.mask)) else {
            return false;
        };
        let is_number = shape.len() < 2 && shape.iter().all(|size| size.is(1));
        is_number || shape.len() + of_mask <= self.shape.len()
    }
}

impl Selected {
    /// Returns the elements at all indices.
    fn whole<'b>(&self, made: &'b Builder<'b>) -> Result<Expr<'b>> {
        match self {
            Selected::Of(value) => Ok(made.value(*value)),
            Selected::By(node, inputs) => {
                let mut whole = made.inputs_of(node);
                for (input, selected) in whole.iter_mut().zip(inputs) {
                    if let Some(selected) = selected {
                        *input = Some(selected.whole(made)?);
                    }
                }
                made.only_copy_of(node, &whole)
            }
        }
    }
}
