//! Operators that only move elements: where the elements of each output come from.
//!
//! A family states this once, as [`Moved`]. Its shape rule, evaluation, layers and traits follow, and passes
//! ask for the moves of a node instead of reading its inputs.

use std::borrow::Cow;

use super::identity::is_as_output;
use super::{Access, Call, Op, find, resolve_index};
use crate::common::int::Int;
use crate::common::limits;
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::{Fact, Graph, Node, ValueId};
use crate::tensor::{Array, Border, Dim, Span};

/// A step from the elements of a value to the elements of another one.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Move {
    /// The same elements in another shape.
    Reshape(Vec<Dim>),
    /// The axes in another order.
    Transpose(Vec<usize>),
    /// The elements of a span of an axis.
    Take { axis: usize, span: Span },
    /// The elements of an axis at these indices. Negative ones count from the end.
    Pick { axis: usize, indices: Vec<i64> },
    /// The elements of axes of size 1, repeated to these sizes, aligned at the last axes.
    Broadcast(Vec<Dim>),
    /// An axis several times.
    Repeat { axis: usize, times: Dim },
    /// Elements before and after an axis. Negative numbers remove elements.
    Pad { axis: usize, added: [Dim; 2], border: Border<Array> },
}

/// The elements of an output.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Moved {
    /// The elements of an input after steps, the first one first.
    Steps(usize, Vec<Move>),
    /// The elements of values in a row along an axis.
    Join(Vec<Moved>, usize),
}

/// Returns the elements of each output. An `Unsupported` error means that they are known only at run time.
pub(crate) type Moves = fn(&Call) -> Result<Vec<Moved>>;

use Move::{Broadcast, Pad, Pick, Repeat, Reshape, Take, Transpose};

impl Moved {
    /// Returns the elements of an input.
    pub fn input(index: usize) -> Moved {
        Moved::Steps(index, Vec::new())
    }

    /// Returns the elements of input 0 after steps.
    pub fn by(steps: impl IntoIterator<Item = Move>) -> Moved {
        Moved::Steps(0, steps.into_iter().collect())
    }

    /// Returns the input whose elements these are, in another shape.
    fn view(&self) -> Option<usize> {
        let Moved::Steps(index, steps) = self else { return None };
        steps.iter().all(|step| matches!(step, Reshape(_))).then_some(*index)
    }

    /// Returns the shape. Requires that the sizes of free axes agree.
    fn shape<'s>(&'s self, call: &'s Call) -> Result<Cow<'s, [Dim]>> {
        let (index, steps) = match self {
            Moved::Steps(index, steps) => (*index, steps),
            Moved::Join(parts, axis) => return joined_shape(call, parts, *axis).map(Cow::Owned),
        };
        let mut shape = Cow::Borrowed(call.shape(index)?);
        for step in steps {
            shape = if let Reshape(to) = step {
                require_same_elements(call, &shape, to)?;
                Cow::Borrowed(to)
            } else {
                Cow::Owned(step.shape(&shape)?)
            };
        }
        Ok(shape)
    }

    /// Returns whether each element of the first axis is the one of input `index`; `None` if it is not read.
    fn keeps_batch(&self, call: &Call, index: usize) -> Option<bool> {
        match self {
            Moved::Steps(input, steps) if *input == index => {
                Some(all_steps(steps, call.shape(index).ok()?, Move::keeps_batch))
            }
            Moved::Steps(..) => None,
            Moved::Join(parts, axis) => {
                let keep =
                    parts.iter().filter_map(|part| part.keeps_batch(call, index)).reduce(|a, b| a && b);
                Some(keep? && *axis != 0)
            }
        }
    }

    fn evaluate<'c>(&self, call: &'c Call) -> Result<Cow<'c, Array>> {
        match self {
            Moved::Steps(index, steps) => {
                steps.iter().try_fold(Cow::Borrowed(call.array(*index)?), |data, step| {
                    Ok(Cow::Owned(step.evaluate(&data)?))
                })
            }
            Moved::Join(parts, axis) => {
                let parts = parts.iter().map(|part| part.evaluate(call)).collect::<Result<Vec<_>>>()?;
                Ok(Cow::Owned(Array::concat(&parts, *axis)?))
            }
        }
    }

    /// Returns the input whose elements keep their indices, provided that the shape stays the same.
    fn unmoved(&self, graph: &Graph, node: &Node) -> Option<ValueId> {
        let shape_of = |id: ValueId| graph.value(id).shape.as_deref();
        match self {
            Moved::Steps(index, steps) => {
                let data = node.input(*index)?;
                all_steps(steps, shape_of(data)?, Move::is_idle).then_some(data)
            }
            Moved::Join(parts, axis) => {
                let is_empty = |part: &&Moved| {
                    let Moved::Steps(index, steps) = part else { return false };
                    let shape = node.input(*index).and_then(shape_of).filter(|_| steps.is_empty());
                    shape.and_then(|shape| shape.get(*axis)).is_some_and(|size| size.is(0))
                };
                let mut parts = parts.iter().filter(|part| !is_empty(part));
                parts.next()?.unmoved(graph, node).filter(|_| parts.next().is_none())
            }
        }
    }
}

/// Returns whether `is_met` returns true for each step and the shape before it.
fn all_steps(steps: &[Move], from: &[Dim], is_met: impl Fn(&Move, &[Dim]) -> bool) -> bool {
    let mut shape = Cow::Borrowed(from);
    for step in steps {
        match step.shape(&shape) {
            Ok(next) if is_met(step, &shape) => shape = Cow::Owned(next),
            _ => return false,
        }
    }
    true
}

/// Requires two shapes to have the same number of elements, without the sizes that both have.
fn require_same_elements(call: &Call, from: &[Dim], to: &[Dim]) -> Result<()> {
    if Dim::known_product(from).is_some_and(|elements| Dim::known_product(to) == Some(elements)) {
        return Ok(());
    }
    let (mut from, mut to) = (from.to_vec(), to.to_vec());
    from.retain(|size| match to.iter().position(|other| other == size) {
        Some(index) => {
            to.swap_remove(index);
            false
        }
        None => true,
    });
    call.require_equal(&Dim::product(&from), &Dim::product(&to))
}

fn joined_shape(call: &Call, parts: &[Moved], axis: usize) -> Result<Vec<Dim>> {
    let mut shapes = parts.iter().map(|part| part.shape(call));
    let mut shape = shapes.next().ok_or_else(|| Error::invalid("nothing to concatenate"))??.into_owned();
    for other in shapes {
        let other = other?;
        if other.len() != shape.len() {
            invalid!("cannot concatenate values of {} and {} axes", shape.len(), other.len());
        }
        for (i, (size, next)) in shape.iter_mut().zip(&*other).enumerate() {
            if i == axis {
                *size += next;
                continue;
            }
            let misfit = || Error::invalid(format!("the parts differ along axis {i}: {size} and {next}"));
            call.require_equal(size, next).map_err(|_| misfit())?;
            // The known size is used for both.
            if next.known().is_some() {
                size.clone_from(next);
            }
        }
    }
    Ok(shape)
}

impl Move {
    /// Returns the shape of the result for elements of this shape.
    pub fn shape(&self, from: &[Dim]) -> Result<Vec<Dim>> {
        let resized = |axis: usize, size: Dim| {
            let mut shape = from.to_vec();
            shape.put(axis, size);
            shape
        };
        Ok(match self {
            Reshape(to) | Broadcast(to) => to.clone(),
            Transpose(perm) => perm.iter().map(|axis| from.at(*axis).cloned()).collect::<Result<_>>()?,
            Take { axis, span } => resized(*axis, span.count.clone()),
            Pick { axis, indices } => resized(*axis, indices.len().into()),
            Repeat { axis, times } => resized(*axis, from.at(*axis)? * times),
            Pad { axis, added: [before, after], .. } => {
                let size = from.at(*axis)? + before + after;
                if size.known().is_some_and(|size| size < 0) {
                    invalid!("axis {axis} has the negative size {size} after padding");
                }
                resized(*axis, size)
            }
        })
    }

    /// Returns whether the elements keep their indices if the shape stays the same.
    fn is_idle(&self, from: &[Dim]) -> bool {
        match self {
            Reshape(_) | Broadcast(_) | Repeat { .. } => true,
            // Axes of size 1 may move.
            Transpose(perm) => {
                let is_long = |axis: &&usize| from.get(**axis).is_none_or(|size| !size.is(1));
                perm.iter().filter(is_long).is_sorted()
            }
            Take { span, .. } => span.step > 0,
            Pick { indices, .. } => indices.iter().copied().eq(0..indices.len().int()),
            Pad { added, .. } => added.iter().all(|count| count.is(0)),
        }
    }

    /// Returns whether the first axis of the result has the same elements in the same order.
    fn keeps_batch(&self, from: &[Dim]) -> bool {
        match self {
            Reshape(to) => to.first() == from.first(),
            Transpose(perm) => perm.first() == Some(&0),
            Take { axis, .. } | Pick { axis, .. } | Repeat { axis, .. } => *axis != 0,
            Pad { axis, added, .. } => *axis != 0 || added.iter().all(|count| count.is(0)),
            Broadcast(_) => false,
        }
    }

    fn evaluate(&self, data: &Array) -> Result<Array> {
        let along = |axis: usize| data.shape().at(axis).copied();
        match self {
            Reshape(to) => data.reshape(&fixed(to)?),
            Broadcast(to) => data.broadcast(&fixed(to)?),
            Transpose(perm) => data.transpose(perm),
            Take { axis, span } => data.take(*axis, span),
            Pick { axis, indices } => {
                let size = along(*axis)?.int();
                let resolved: Result<Vec<i64>> =
                    indices.iter().map(|index| resolve_index(*index, size)).collect();
                data.gather(*axis, &positions(resolved?)?)
            }
            Repeat { axis, times } => {
                let Some(times) = times.known() else {
                    unsupported!("the number of repeats {times} is not fixed")
                };
                let size = along(*axis)?;
                data.gather(*axis, &(0..times).flat_map(|_| 0..size).collect::<Vec<_>>())
            }
            Pad { axis, added: [before, after], border } => {
                let (Some(before), Some(after)) = (before.known(), after.known()) else {
                    unsupported!("the amounts {before} and {after} are not fixed");
                };
                pad(data, *axis, [before, after], border)
            }
        }
    }
}

fn fixed(shape: &[Dim]) -> Result<Vec<usize>> {
    let fixed = |size: &Dim| match size.known() {
        Some(known) => Ok(usize::try_from(known)?),
        None => unsupported!("the size {size} is not fixed"),
    };
    shape.iter().map(fixed).collect()
}

fn positions(indices: impl IntoIterator<Item = i64>) -> Result<Vec<usize>> {
    indices.into_iter().map(|index| Ok(usize::try_from(index)?)).collect()
}

fn pad(data: &Array, axis: usize, [before, after]: [i64; 2], border: &Border<Array>) -> Result<Array> {
    // Added elements do not copy removed ones.
    let size = i64::try_from(*data.shape().at(axis)?)?;
    let padded = size.saturating_add(before).saturating_add(after);
    let kept = positions(0.max(before.saturating_neg())..size.min(size.saturating_add(after)))?;
    let data = data.gather(axis, &kept)?;
    let size = i64::try_from(kept.len())?;
    // If no element of the axis is left, the rest is removed from the added elements.
    let (before, after) = if size == 0 { (0, padded) } else { (before.max(0), after.max(0)) };
    let Border::Constant(element) = border else {
        if size == 0 && padded > 0 {
            invalid!("an empty axis has no elements to pad with");
        }
        let taken = |range: std::ops::Range<i64>| {
            data.gather(axis, &positions(range.filter_map(|index| border.source(index, size)))?)
        };
        return Array::concat(&[taken(-before..0)?, data.clone(), taken(size..size + after)?], axis);
    };
    let block = |count: i64| {
        let mut shape = data.shape().to_vec();
        shape.put(axis, usize::try_from(count)?);
        limits::check_listed(shape.iter().product())?;
        element.broadcast(&shape)
    };
    Array::concat(&[block(before)?, data.clone(), block(after)?], axis)
}

impl Call<'_> {
    /// Returns the elements of each output, of an operator that only moves elements.
    ///
    /// # Errors
    ///
    /// `Unsupported` if they are known only at run time, or if the operator computes elements.
    pub fn moves(&self) -> Result<Vec<Moved>> {
        match self.op().moves {
            Some(moves) => moves(self),
            None => Err(Error::unsupported("the node computes elements")),
        }
    }
}

/// Returns the elements of the outputs of a node, if it only moves elements.
pub(crate) fn moves(graph: &Graph, node: &Node) -> Option<Vec<Moved>> {
    let (_, call) = Call::of(graph, node)?;
    call.moves().ok()
}

/// Returns the input of a node that gives it another shape, with the elements in the same order.
pub(crate) fn viewed(node: &Node) -> Option<ValueId> {
    let is_view = |op: &Op| op.access == Access::View && op.moves.is_some();
    node.input(0).filter(|_| find(node).is_some_and(is_view))
}

/// Returns the value whose elements a value has, and the steps from it, if a node moves them.
pub(crate) fn moved(graph: &Graph, value: ValueId) -> Option<(ValueId, Vec<Move>)> {
    let node = graph.producer(value)?;
    let index = node.outputs.iter().position(|output| *output == Some(value))?;
    let Moved::Steps(input, steps) = moves(graph, node)?.into_iter().nth(index)? else { return None };
    Some((node.input(input)?, steps))
}

/// Returns the value of which a value is a part, and the elements of its axes.
pub(crate) fn taken(graph: &Graph, value: ValueId) -> Option<(ValueId, Vec<(usize, Span)>)> {
    let (source, steps) = moved(graph, value)?;
    let span = |step| if let Take { axis, span } = step { Some((axis, span)) } else { None };
    let spans: Vec<_> = steps.into_iter().map(span).collect::<Option<_>>()?;
    (!spans.is_empty()).then_some((source, spans))
}

/// The shape rule of operators that only move elements.
pub(crate) fn infer_moves(call: &Call) -> Result<Vec<Fact>> {
    let fact = |moved: &Moved| {
        let shape = moved.shape(call)?;
        // A view of a constant is a constant, and is not loaded.
        let constant = moved.view().and_then(|index| call.constant(index));
        if let (Some(tensor), Some(sizes)) = (constant, Dim::known_sizes::<usize>(&*shape)) {
            return Ok(Fact::constant(tensor.reshaped(&sizes)?));
        }
        Ok(Fact::new(call.dtype(0)?, &*shape))
    };
    call.moves()?.iter().map(fact).collect()
}

/// The evaluation of operators that only move elements.
pub(crate) fn fold_moves(call: &Call) -> Result<Vec<Array>> {
    call.moves()?.iter().map(|moved| Ok(moved.evaluate(call)?.into_owned())).collect()
}

/// Returns the input of a node that keeps the indices of all elements.
pub(crate) fn unmoved(graph: &Graph, node: &Node) -> Option<ValueId> {
    // Most nodes change the shape, and need not be read.
    if !node.inputs.iter().flatten().any(|input| is_as_output(graph, node, *input)) {
        return None;
    }
    let moves = moves(graph, node)?;
    let [moved] = moves.as_slice() else { return None };
    moved.unmoved(graph, node).filter(|data| is_as_output(graph, node, *data))
}

/// Returns whether a node computes each element of the batch from the same element of input `index`.
pub(crate) fn moves_batch(call: &Call, index: usize) -> bool {
    call.moves().is_ok_and(|moves| moves.iter().all(|moved| moved.keeps_batch(call, index) == Some(true)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ints(list: &[i64]) -> Array {
        Array::i64(ndarray::Array1::from_vec(list.to_vec()).into_dyn())
    }

    fn padded(data: &Array, added: [i64; 2], border: &Border<Array>) -> Vec<i64> {
        pad(data, 0, added, border).unwrap().int_list().unwrap()
    }

    fn sevens() -> Border<Array> {
        Border::Constant(Array::i64(ndarray::ArrayD::from_elem(Vec::new(), 7)))
    }

    /// As in onnxruntime 1.31.
    #[test]
    fn padding_may_remove_more_than_all_elements() {
        let data = ints(&[1; 6]);
        assert_eq!(padded(&data, [-8, 5], &sevens()), [7; 3]);
        assert_eq!(padded(&data, [5, -8], &sevens()), [7; 3]);
        assert_eq!(padded(&data, [-(1 << 31), (1 << 31) - 1], &sevens()), [7; 5]);
        assert_eq!(padded(&data, [-7, 1], &sevens()), [0; 0]);
        assert_eq!(padded(&data, [-5, 2], &sevens()), [1, 7, 7]);
    }

    #[test]
    fn arrays_are_padded_and_cropped() {
        let data = ints(&[1, 2, 3]);
        assert_eq!(padded(&data, [1, 2], &sevens()), [7, 1, 2, 3, 7, 7]);
        assert_eq!(padded(&data, [-1, 1], &sevens()), [2, 3, 7]);
        assert_eq!(padded(&data, [-1, 1], &Border::Reflect), [2, 3, 2]);
        assert_eq!(padded(&data, [2, -1], &Border::Wrap), [1, 2, 1, 2]);
    }
}
