//! The composition of Reshape, Transpose, Split, Slice and the like: each element of the result is an element
//! of the source, at an offset that is a sum of strides.

use std::collections::BTreeSet;

use super::{Look, first, orders, two};
use crate::graph::{Attribute, Node, ValueId};
use crate::op;

/// The maximum number of nodes of a chain.
const MAX_CHAIN: usize = 16;

/// A run of elements: their number, and their distance in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub size: i64,
    pub stride: i64,
}

/// A value as elements of a source. Each axis is a product of runs, the outermost first; no run has size 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub axes: Vec<Vec<Run>>,
    pub offset: i64,
}

impl View {
    /// Returns the view of a whole value.
    pub fn of(sizes: &[i64]) -> View {
        let mut stride = 1;
        let mut axes: Vec<Vec<Run>> = sizes
            .iter()
            .rev()
            .map(|size| {
                let run = Run { size: *size, stride };
                stride *= size;
                if *size == 1 { Vec::new() } else { vec![run] }
            })
            .collect();
        axes.reverse();
        View { axes, offset: 0 }
    }

    /// Returns the view with permuted axes.
    pub fn transposed(&self, perm: &[usize]) -> Option<View> {
        let axes = perm.iter().map(|axis| self.axes.get(*axis).cloned()).collect::<Option<_>>()?;
        Some(View { axes, offset: self.offset })
    }

    /// Returns the view of the same elements in the same order with other sizes.
    pub fn reshaped(&self, sizes: &[i64]) -> Option<View> {
        let mut runs = merged(self.axes.iter().flatten().copied());
        runs.reverse();
        let mut axes = Vec::with_capacity(sizes.len());
        for size in sizes {
            let mut needed = *size;
            let mut axis = Vec::new();
            while needed > 1 {
                let run = runs.pop()?;
                if needed % run.size == 0 {
                    needed /= run.size;
                    axis.push(run);
                } else if run.size % needed == 0 {
                    let rest = run.size / needed;
                    axis.push(Run { size: needed, stride: run.stride * rest });
                    runs.push(Run { size: rest, stride: run.stride });
                    needed = 1;
                } else {
                    return None;
                }
            }
            axes.push(axis);
        }
        (runs.is_empty() && !sizes.contains(&0)).then_some(View { axes, offset: self.offset })
    }

    /// Returns the view of `size` elements of an axis from `start` on.
    fn sliced(&self, axis: usize, start: i64, size: i64) -> Option<View> {
        let mut view = self.clone();
        let runs = view.axes.get_mut(axis)?;
        let Some((outer, within)) = runs.split_first_mut() else {
            return (start == 0 && size == 1).then_some(view);
        };
        let block: i64 = within.iter().map(|run| run.size).product();
        let end = start.checked_add(size)?;
        if start % block != 0 || size % block != 0 || start < 0 || end > outer.size * block {
            return None;
        }
        view.offset += start / block * outer.stride;
        outer.size = size / block;
        if outer.size == 1 {
            runs.remove(0);
        }
        (size > 0).then_some(view)
    }

    /// Returns the view with runs that continue each other merged.
    pub fn merged(&self) -> View {
        let axes = self.axes.iter().map(|runs| merged(runs.iter().copied())).collect();
        View { axes, offset: self.offset }
    }
}

fn merged(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut made: Vec<Run> = Vec::new();
    for run in runs {
        match made.last_mut() {
            Some(outer) if outer.stride == run.size * run.stride => {
                *outer = Run { size: outer.size * run.size, stride: run.stride };
            }
            _ => made.push(run),
        }
    }
    made
}

/// A value as elements of a source.
pub(super) struct Traced {
    pub source: ValueId,
    pub view: View,
    /// The factor of the elements.
    pub scale: f64,
    /// The intermediate values, without the source.
    pub inner: BTreeSet<ValueId>,
}

/// Follows a value back to the first that satisfies `is_source`, or as far as elements are only moved.
pub(super) fn trace(
    look: &Look,
    value: ValueId,
    is_source: impl Fn(ValueId) -> bool,
    scaled: bool,
) -> Option<Traced> {
    let mut chain = Vec::new();
    let (mut source, mut scale) = (value, 1.0);
    while chain.len() < MAX_CHAIN && !is_source(source) {
        let Some(node) = look.graph.value(source).producer.and_then(|id| look.graph.node(id)) else { break };
        if let Some((next, factor)) = scaling(look, node).filter(|_| scaled) {
            scale *= factor;
            chain.push((source, None));
            source = next;
            continue;
        }
        if !moves(look, node) {
            break;
        }
        chain.push((source, Some(node)));
        source = first(node)?;
    }
    let mut view = View::of(&look.sizes(source)?);
    for (made, node) in chain.iter().rev() {
        if let Some(node) = node {
            view = step(look, node, *made, &view)?;
        }
    }
    Some(Traced { source, view, scale, inner: chain.into_iter().map(|(made, _)| made).collect() })
}

/// Returns the operand and the constant factor of a scaling.
pub(super) fn scaling(look: &Look, node: &Node) -> Option<(ValueId, f64)> {
    let alike = |x: &ValueId| {
        let result = node.outputs.first().copied().flatten();
        result.is_some_and(|result| look.alike(*x, result))
    };
    if node.is("Mul") {
        return orders(node).find_map(|(x, by)| Some((x, look.number(by)?))).filter(|(x, _)| alike(x));
    }
    let [x, by] = two(node).filter(|_| node.is("Div"))?;
    Some((x, 1.0 / look.number(by)?)).filter(|(x, _)| alike(x))
}

/// Returns whether the elements of a node's output are elements of its input.
fn moves(look: &Look, node: &Node) -> bool {
    const MOVES: [&str; 8] =
        ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Split", "Slice", "Gather"];
    let hands_on = |x| node.outputs.first().copied().flatten().is_some_and(|result| look.alike(x, result));
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => false,
        "Cast" | "Identity" => first(node).is_some_and(hands_on),
        op_type => MOVES.contains(&op_type),
    }
}

fn step(look: &Look, node: &Node, made: ValueId, view: &View) -> Option<View> {
    let sizes = look.sizes(made)?;
    match node.op_type.as_str() {
        "Transpose" => {
            let perm: Vec<usize> = match node.attributes.get("perm") {
                Some(Attribute::Ints(perm)) => {
                    perm.iter().map(|axis| usize::try_from(*axis).ok()).collect::<Option<_>>()?
                }
                _ => (0..sizes.len()).rev().collect(),
            };
            view.transposed(&perm)
        }
        "Split" => split(look, node, made, view),
        "Slice" => slice(look, node, &sizes, view),
        "Gather" => {
            let index = node.inputs.get(1).copied().flatten()?;
            let axis = axis_of(node, "axis", 0, view)?;
            let size: i64 = view.axes.get(axis)?.iter().map(|run| run.size).product();
            let [start] = *ints(look, index)?.as_slice() else { return None };
            let start = if start < 0 { start + size } else { start };
            view.sliced(axis, start, 1)?.reshaped(&sizes)
        }
        _ => view.reshaped(&sizes),
    }
}

fn axis_of(node: &Node, name: &str, missing: i64, view: &View) -> Option<usize> {
    let axis = match node.attributes.get(name) {
        Some(Attribute::Int(axis)) => *axis,
        _ => missing,
    };
    op::resolve_axis(axis, view.axes.len()).ok()
}

fn split(look: &Look, node: &Node, made: ValueId, view: &View) -> Option<View> {
    let axis = axis_of(node, "axis", 0, view)?;
    let place = node.outputs.iter().position(|output| *output == Some(made))?;
    let size = look.sizes(made)?.get(axis).copied()?;
    let given = match (node.inputs.get(1).copied().flatten(), node.attributes.get("split")) {
        (Some(sizes), _) => Some(ints(look, sizes)?),
        (None, Some(Attribute::Ints(sizes))) => Some(sizes.clone()),
        _ => None,
    };
    let start = match given {
        Some(sizes) => sizes.get(..place)?.iter().sum(),
        None => {
            // Equal parts, but for the last.
            let whole: i64 = view.axes.get(axis)?.iter().map(|run| run.size).product();
            let parts = i64::try_from(node.outputs.len()).ok()?;
            (whole % parts == 0).then(|| whole / parts * i64::try_from(place).unwrap_or(0))?
        }
    };
    view.sliced(axis, start, size)
}

/// Matches Slice with a step of 1 and constant bounds.
fn slice(look: &Look, node: &Node, sizes: &[i64], view: &View) -> Option<View> {
    let list = |index: usize| node.inputs.get(index).copied().flatten().map(|value| ints(look, value));
    let starts = list(1)??;
    let axes = match list(3) {
        Some(axes) => axes?,
        None => (0..i64::try_from(starts.len()).ok()?).collect(),
    };
    if let Some(steps) = list(4)
        && steps?.iter().any(|step| *step != 1)
    {
        return None;
    }
    let mut view = view.clone();
    for (start, axis) in starts.iter().zip(axes) {
        let axis = op::resolve_axis(axis, sizes.len()).ok()?;
        let whole: i64 = view.axes.get(axis)?.iter().map(|run| run.size).product();
        let start = if *start < 0 { start.saturating_add(whole).max(0) } else { *start };
        view = view.sliced(axis, start, *sizes.get(axis)?)?;
    }
    Some(view)
}

/// Returns the elements of an integer constant.
pub(super) fn ints(look: &Look, value: ValueId) -> Option<Vec<i64>> {
    look.graph.value(value).constant.as_ref()?.load_listed().ok()?.int_list().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the offsets of the elements of a view, in order.
    fn places(view: &View) -> Vec<i64> {
        view.axes.iter().flatten().fold(vec![view.offset], |places, run| {
            places.iter().flat_map(|place| (0..run.size).map(move |i| place + i * run.stride)).collect()
        })
    }

    #[test]
    fn views_match_numpy() {
        let source = View::of(&[2, 6, 2]);
        let blocks = source.reshaped(&[2, 3, 2, 2]).unwrap().transposed(&[0, 2, 1, 3]).unwrap();
        let shuffled = blocks.reshaped(&[2, 6, 2]).unwrap();
        assert_eq!(places(&shuffled)[..12], [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]);
        // Splitting and merging restores the view.
        let back = shuffled.reshaped(&[2, 2, 3, 2]).unwrap().transposed(&[0, 2, 1, 3]).unwrap();
        assert_eq!(back.reshaped(&[2, 6, 2]).unwrap().merged(), source);
        assert_eq!(places(&source.sliced(1, 4, 2).unwrap())[..4], [8, 9, 10, 11]);
        assert_eq!(source.reshaped(&[4, 6]).map(|view| places(&view)), Some((0..24).collect()));
    }

    #[test]
    fn sizes_that_divide_no_run_have_no_strides() {
        let turned = View::of(&[2, 3]).transposed(&[1, 0]).unwrap();
        assert_eq!(turned.reshaped(&[2, 3]), None);
        assert_eq!(View::of(&[4, 6]).sliced(1, 4, 3), None);
        assert_eq!(turned.reshaped(&[6]).unwrap().sliced(0, 1, 2), None);
    }
}
