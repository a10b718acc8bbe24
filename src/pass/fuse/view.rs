//! Strided views: the results of chains of Reshape, Transpose, Split, Slice and Gather as elements of their
//! source.

use std::collections::BTreeSet;

use super::matcher::{Matcher, two};
use crate::common::int::Int;
use crate::graph::{Node, ValueId};
use crate::pass::pattern::{Cut, axis, cuts, ints, perm_of};

/// The most nodes of a chain.
const MAX_CHAIN: usize = 16;

/// The size of an axis, or of a part of one, and its stride in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub size: i64,
    pub stride: i64,
}

/// A view of a source. Each axis is a product of runs, the outermost first; runs of size 1 are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct View {
    pub axes: Vec<Vec<Run>>,
    pub offset: i64,
}

impl View {
    /// The identical view of a source of these sizes.
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

    /// Permutes the axes.
    pub fn transposed(&self, perm: &[usize]) -> Option<View> {
        let axes = perm.iter().map(|axis| self.axes.get(*axis).cloned()).collect::<Option<_>>()?;
        Some(View { axes, offset: self.offset })
    }

    /// Reshapes the view; `None` if the result is not strided.
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

    /// Slices an axis, from `start` with `size` elements; `None` if the result is not strided.
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

    /// The size of an axis.
    fn size(&self, axis: usize) -> Option<i64> {
        Some(self.axes.get(axis)?.iter().map(|run| run.size).product())
    }

    /// Merges runs that are contiguous.
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

/// A value as a view of a source, or as another description of its elements.
pub(super) struct Traced<T = View> {
    pub source: ValueId,
    pub view: T,
    /// The factor of the elements.
    pub scale: f64,
    /// The values of the chain without the source.
    pub inner: BTreeSet<ValueId>,
}

/// The nodes from a source to a value that move or scale elements.
pub(super) struct Chain<'a> {
    pub source: ValueId,
    /// The factor of the elements.
    pub scale: f64,
    /// The values after the source, the last first, and the nodes that make them unless they scale.
    pub nodes: Vec<(ValueId, Option<&'a Node>)>,
}

impl Chain<'_> {
    /// Applies `step` to the description of the source and to each node that moves elements.
    pub fn traced<T>(self, source: T, step: impl Fn(&Node, ValueId, &T) -> Option<T>) -> Option<Traced<T>> {
        let mut view = source;
        for (made, node) in self.nodes.iter().rev() {
            if let Some(node) = node {
                view = step(node, *made, &view)?;
            }
        }
        let inner = self.nodes.into_iter().map(|(made, _)| made).collect();
        Some(Traced { source: self.source, view, scale: self.scale, inner })
    }
}

/// Follows a value back to the first that `is_source`, or as far as nodes have a property `moves`, or scale elements if
/// `scaled`.
pub(super) fn chain<'a>(
    matcher: &Matcher<'a>,
    value: ValueId,
    is_source: impl Fn(ValueId) -> bool,
    moves: impl Fn(&Node) -> bool,
    scaled: bool,
) -> Option<Chain<'a>> {
    let mut chain = Chain { source: value, scale: 1.0, nodes: Vec::new() };
    while chain.nodes.len() < MAX_CHAIN && !is_source(chain.source) {
        let Some(node) = matcher.producer(chain.source) else { break };
        let scaling = scaling(matcher, node).filter(|_| scaled);
        if scaling.is_none() && !moves(node) {
            break;
        }
        chain.nodes.push((chain.source, scaling.is_none().then_some(node)));
        chain.scale *= scaling.map_or(1.0, |(_, factor)| factor);
        chain.source = scaling.map_or_else(|| node.input(0), |(x, _)| Some(x))?;
    }
    Some(chain)
}

/// Traces a value back as far as nodes only move elements, or scale them if `scaled`.
pub(super) fn trace(matcher: &Matcher, value: ValueId, scaled: bool) -> Option<Traced> {
    let chain = chain(matcher, value, |_| false, |node| moves(matcher, node), scaled)?;
    let view = View::of(&matcher.sizes(chain.source)?);
    chain.traced(view, |node, made, view| step(matcher, node, made, view))
}

/// The operand and the factor of a product, or quotient, with a constant of one element.
pub(super) fn scaling(matcher: &Matcher, node: &Node) -> Option<(ValueId, f64)> {
    let (x, factor) = if node.is("Mul") {
        matcher.with_scalar(node)?
    } else {
        let [x, divisor] = two(node).filter(|_| node.is("Div"))?;
        (x, 1.0 / matcher.scalar(divisor)?)
    };
    matcher.alike(x, node.output(0)?).then_some((x, factor))
}

/// Whether the result of a node is a view of its input.
fn moves(matcher: &Matcher, node: &Node) -> bool {
    const MOVES: [&str; 8] =
        ["Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Split", "Slice", "Gather"];
    match node.op_type.as_str() {
        _ if !node.domain.is_empty() => false,
        "Cast" | "Identity" => {
            node.input(0).zip(node.output(0)).is_some_and(|(x, result)| matcher.alike(x, result))
        }
        op_type => MOVES.contains(&op_type),
    }
}

fn step(matcher: &Matcher, node: &Node, made: ValueId, view: &View) -> Option<View> {
    let sizes = matcher.sizes(made)?;
    match node.op_type.as_str() {
        "Transpose" => view.transposed(&perm_of(matcher.graph, node)?),
        "Split" => split(matcher, node, made, view),
        "Slice" => slice(matcher, node, &sizes, view),
        "Gather" => {
            let axis = axis(node, 0, view.axes.len())?;
            let index = matcher.int(node.input(1)?)?;
            let start = if index < 0 { index + view.size(axis)? } else { index };
            view.sliced(axis, start, 1)?.reshaped(&sizes)
        }
        _ => view.reshaped(&sizes),
    }
}

fn split(matcher: &Matcher, node: &Node, made: ValueId, view: &View) -> Option<View> {
    let axis = axis(node, 0, view.axes.len())?;
    let part = node.outputs.iter().position(|output| *output == Some(made))?;
    let size = matcher.sizes(made)?.get(axis).copied()?;
    let given = match node.input(1) {
        Some(sizes) => Some(matcher.ints(sizes)?),
        None => ints(node, "split").map(<[i64]>::to_vec),
    };
    let start = match given {
        Some(sizes) => sizes.get(..part)?.iter().sum(),
        None => {
            // Without sizes the parts are equal, except for the last one.
            let (whole, parts) = (view.size(axis)?, node.outputs.len().int());
            (whole % parts == 0).then(|| whole / parts * part.int())?
        }
    };
    view.sliced(axis, start, size)
}

/// The view of a Slice with constant bounds as inputs and step 1.
fn slice(matcher: &Matcher, node: &Node, sizes: &[i64], view: &View) -> Option<View> {
    let mut view = view.clone();
    for Cut { axis, start, step, .. } in cuts(matcher.graph, node)? {
        let start = if start < 0 { start.saturating_add(view.size(axis)?).max(0) } else { start };
        view = view.sliced(axis, start, *sizes.get(axis)?).filter(|_| step == 1)?;
    }
    Some(view)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flat indices in the source of the elements of a view.
    fn indices(view: &View) -> Vec<i64> {
        view.axes.iter().flatten().fold(vec![view.offset], |indices, run| {
            indices.iter().flat_map(|index| (0..run.size).map(move |i| index + i * run.stride)).collect()
        })
    }

    #[test]
    fn views_match_numpy() {
        let source = View::of(&[2, 6, 2]);
        let blocks = source.reshaped(&[2, 3, 2, 2]).unwrap().transposed(&[0, 2, 1, 3]).unwrap();
        let shuffled = blocks.reshaped(&[2, 6, 2]).unwrap();
        assert_eq!(indices(&shuffled)[..12], [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]);
        // The inverse operations restore the source.
        let back = shuffled.reshaped(&[2, 2, 3, 2]).unwrap().transposed(&[0, 2, 1, 3]).unwrap();
        assert_eq!(back.reshaped(&[2, 6, 2]).unwrap().merged(), source);
        assert_eq!(indices(&source.sliced(1, 4, 2).unwrap())[..4], [8, 9, 10, 11]);
        assert_eq!(source.reshaped(&[4, 6]).map(|view| indices(&view)), Some((0..24).collect()));
    }

    #[test]
    fn sizes_that_split_a_run_are_not_strided() {
        let turned = View::of(&[2, 3]).transposed(&[1, 0]).unwrap();
        assert_eq!(turned.reshaped(&[2, 3]), None);
        assert_eq!(View::of(&[4, 6]).sliced(1, 4, 3), None);
        assert_eq!(turned.reshaped(&[6]).unwrap().sliced(0, 1, 2), None);
    }
}
