//! Strided views: the results of chains of nodes that move elements, as elements of their source.

use std::collections::BTreeSet;

use super::matcher::{Matcher, two};
use crate::graph::{Node, ValueId};
use crate::op::{self, Move};
use crate::tensor::{Dim, Span};

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

    /// The view after a step; `None` if that is not strided.
    fn moved(&self, step: &Move) -> Option<View> {
        match step {
            Move::Reshape(to) => self.reshaped(&to.iter().map(Dim::known).collect::<Option<Vec<i64>>>()?),
            Move::Transpose(perm) => self.transposed(perm),
            Move::Take { axis, span: Span { start, step: 1, count } } => {
                self.sliced(*axis, start.known()?, count.known()?)
            }
            _ => None,
        }
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

/// The steps from a source to a value.
pub(super) struct Chain {
    pub source: ValueId,
    /// The factor of the elements.
    scale: f64,
    /// The steps from the last nodes to the first ones, those of a node in order.
    steps: Vec<Vec<Move>>,
    inner: BTreeSet<ValueId>,
}

impl Chain {
    /// Applies `step` to the description of the source and to each step.
    pub fn traced<T>(self, source: T, step: impl Fn(&Move, &T) -> Option<T>) -> Option<Traced<T>> {
        let mut steps = self.steps.iter().rev().flatten();
        let view = steps.try_fold(source, |view, moved| step(moved, &view))?;
        Some(Traced { source: self.source, view, scale: self.scale, inner: self.inner })
    }
}

/// Follows a value back to the first that `is_source`, or as far as nodes move elements by steps that are
/// `known`, or scale them if `scaled`.
pub(super) fn chain(
    matcher: &Matcher,
    value: ValueId,
    is_source: impl Fn(ValueId) -> bool,
    known: impl Fn(&Move) -> bool,
    scaled: bool,
) -> Chain {
    let mut chain = Chain { source: value, scale: 1.0, steps: Vec::new(), inner: BTreeSet::new() };
    while chain.inner.len() < MAX_CHAIN && !is_source(chain.source) {
        let Some(node) = matcher.producer(chain.source) else { break };
        let (source, factor, steps) = if let Some((x, factor)) = scaling(matcher, node).filter(|_| scaled) {
            (x, factor, Vec::new())
        } else if let Some(x) = converted(matcher, node) {
            (x, 1.0, Vec::new())
        } else if let Some((x, steps)) = op::moved(matcher.graph, chain.source)
            && steps.iter().all(&known)
        {
            (x, 1.0, steps)
        } else {
            break;
        };
        chain.inner.insert(chain.source);
        chain.steps.push(steps);
        chain.scale *= factor;
        chain.source = source;
    }
    chain
}

/// The input of a Cast or an Identity that changes nothing.
pub(super) fn converted(matcher: &Matcher, node: &Node) -> Option<ValueId> {
    let x = node.input(0).filter(|_| node.is_one_of(&["Cast", "Identity"]))?;
    matcher.alike(x, node.output(0)?).then_some(x)
}

/// Traces a value back as far as nodes only move elements, or scale them if `scaled`.
pub(super) fn trace(matcher: &Matcher, value: ValueId, scaled: bool) -> Option<Traced> {
    // A view of free sizes has no strides.
    matcher.sizes(value)?;
    let known = |step: &Move| matches!(step, Move::Reshape(_) | Move::Transpose(_) | Move::Take { .. });
    let chain = chain(matcher, value, |_| false, known, scaled);
    let view = View::of(&matcher.sizes(chain.source)?);
    chain.traced(view, |step, view| view.moved(step))
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
