//! Indices that count up along one axis, as exporters compute them from sizes: a Range, its slices and views.

use crate::error::At;
use crate::graph::{Graph, Node, Value, ValueId};
use crate::pass::pattern::{axis, input, inverse, perm_of, reshapes};
use crate::tensor::{Array, Dim, coordinates};

/// The most nodes between a Range and the indices.
const DEPTH: usize = 12;

/// The most elements of a constant that are looked at.
const MOST_LISTED: usize = 1 << 20;

/// The elements of a value that count up along one axis, and are the same along all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::ops) struct Line {
    pub start: Dim,
    pub step: i64,
    /// The axis along which they count; `None` if all elements are equal.
    pub axis: Option<usize>,
}

/// Returns the line that a value is.
pub(in crate::ops) fn line(graph: &Graph, id: ValueId) -> Option<Line> {
    read(graph, id, DEPTH)
}

/// Returns the columns of tuples, the last axis of a value, as lines along the other axes.
pub(in crate::ops) fn columns(graph: &Graph, id: ValueId) -> Option<Vec<Line>> {
    let value = graph.value(id);
    let rank = value.shape.as_ref()?.len();
    let node = graph.node(value.producer?)?;
    if ["Cast", "Identity"].iter().any(|op| node.is(op)) {
        return columns(graph, input(node, 0)?);
    }
    let is_tuple = |line: &Line| line.axis.is_none_or(|axis| axis + 1 != rank);
    if !node.is("Concat") || axis(node, 0, rank)? + 1 != rank {
        let is_single = value.shape.as_ref()?.last()?.is(1);
        return line(graph, id).filter(|line| is_single && is_tuple(line)).map(|line| vec![line]);
    }
    let mut lines = Vec::new();
    for part in node.inputs.iter().flatten() {
        let is_single = graph.value(*part).shape.as_ref()?.last()?.is(1);
        lines.push(line(graph, *part).filter(|line| is_single && is_tuple(line))?);
    }
    Some(lines)
}

/// Returns the elements of a value that are known when converting.
fn known_elements(value: &Value) -> Option<Array> {
    match &value.constant {
        Some(constant) if constant.len() > MOST_LISTED => None,
        Some(constant) => constant.load_listed().ok(),
        None => value.elements.as_deref().cloned(),
    }
}

/// Returns the only element of a value, if it is known when converting.
pub(super) fn number(graph: &Graph, id: ValueId) -> Option<Dim> {
    let list = known_elements(graph.value(id))?.to_dims().ok()?;
    list.first().filter(|_| list.len() == 1).cloned()
}

fn shape(graph: &Graph, id: ValueId) -> Option<&[Dim]> {
    graph.value(id).shape.as_deref()
}

fn read(graph: &Graph, id: ValueId, depth: usize) -> Option<Line> {
    let value = graph.value(id);
    if let Some(elements) = known_elements(value) {
        return of_elements(&elements);
    }
    let node = graph.node(value.producer?)?;
    let (to, depth) = (value.shape.as_deref()?, depth.checked_sub(1)?);
    if node.is("Range") {
        let [start, step] = [number(graph, input(node, 0)?)?, number(graph, input(node, 2)?)?];
        return Some(Line { start, step: step.known()?, axis: Some(0) });
    }
    let source = input(node, 0)?;
    let from = shape(graph, source)?;
    if ["Cast", "Identity"].iter().any(|op| node.is(op)) {
        return read(graph, source, depth);
    }
    if node.is("Expand") {
        let moved = |line: Line| Line { axis: line.axis.map(|axis| axis + to.len() - from.len()), ..line };
        return read(graph, source, depth).map(moved);
    }
    if node.is("Tile") {
        let kept = |line: &Line| line.axis.is_none_or(|axis| from.get(axis) == to.get(axis));
        return read(graph, source, depth).filter(kept);
    }
    if node.is("Transpose") {
        let (places, line) = (inverse(&perm_of(graph, node)?), read(graph, source, depth)?);
        return Some(Line { axis: line.axis.and_then(|axis| places.get(axis).copied()), ..line });
    }
    if reshapes(node) {
        return viewed(read(graph, source, depth)?, from, to);
    }
    if node.is("Slice") {
        return sliced(graph, node, read(graph, source, depth)?);
    }
    if node.is("Add") || node.is("Sub") {
        let second = input(node, 1)?;
        let [a, b] = [(source, from), (second, shape(graph, second)?)].map(|(id, from)| {
            let line = read(graph, id, depth)?;
            Some(Line { axis: line.axis.map(|axis| axis + to.len() - from.len()), ..line })
        });
        return combined(a?, b?, node.is("Sub"));
    }
    None
}

/// Returns the sum or difference of lines, of which one is a number.
fn combined(a: Line, b: Line, is_difference: bool) -> Option<Line> {
    let start = if is_difference { a.start.sub(&b.start) } else { a.start.add(&b.start) }.ok()?;
    match (a.axis, b.axis) {
        (_, None) => Some(Line { start, ..a }),
        (None, _) if !is_difference => Some(Line { start, ..b }),
        _ => None,
    }
}

/// Returns a line in another shape that differs in axes of size 1 alone.
fn viewed(line: Line, from: &[Dim], to: &[Dim]) -> Option<Line> {
    let Some(axis) = line.axis else { return Some(line) };
    if from.get(axis)?.is(1) {
        return Some(Line { axis: None, ..line });
    }
    let long = |shape: &[Dim]| -> Vec<(usize, Dim)> {
        shape.iter().cloned().enumerate().filter(|(_, size)| !size.is(1)).collect()
    };
    let (from, to) = (long(from), long(to));
    let is_same = from.len() == to.len() && from.iter().zip(&to).all(|((_, from), (_, to))| from == to);
    let number = from.iter().position(|(place, _)| *place == axis).filter(|_| is_same)?;
    Some(Line { axis: Some(to.get(number)?.0), ..line })
}

/// Returns a slice of a line.
fn sliced(graph: &Graph, node: &Node, line: Line) -> Option<Line> {
    let Some(along) = line.axis else { return Some(line) };
    let rank = shape(graph, input(node, 0)?)?.len();
    let list = |index: usize| {
        let id = input(node, index)?;
        Some(known_elements(graph.value(id))?.to_dims().ok()?.iter().cloned().collect::<Vec<Dim>>())
    };
    let starts = list(1)?;
    let axes = match input(node, 3) {
        Some(_) => list(3)?.iter().map(Dim::known).collect::<Option<Vec<i64>>>()?,
        None => (0..i64::try_from(starts.len()).ok()?).collect(),
    };
    let steps = if input(node, 4).is_some() { list(4)? } else { vec![Dim::Known(1); starts.len()] };
    let is_along = |axis: &i64| crate::op::resolve_axis(*axis, rank).is_ok_and(|axis| axis == along);
    let Some(place) = axes.iter().position(is_along) else { return Some(line) };
    let (start, step) = (starts.at(place).ok()?, steps.at(place).ok()?.known()?);
    // A start beyond the end, or from it, and a step backwards are other lines.
    if start.lower_bound()? < 0 || step < 1 {
        return None;
    }
    let size = shape(graph, input(node, 0)?)?.get(along)?.known();
    if size.zip(start.known()).is_some_and(|(size, start)| start >= size) {
        return None;
    }
    let start = line.start.add(&start.mul(&Dim::Known(line.step)).ok()?).ok()?;
    Some(Line { start, step: line.step.checked_mul(step)?, ..line })
}

/// Returns the line of known elements.
fn of_elements(elements: &Array) -> Option<Line> {
    let sizes = elements.shape().to_vec();
    let list: Vec<Dim> = elements.to_dims().ok()?.iter().cloned().collect();
    let start = list.first()?.clone();
    let mut found: Option<(usize, i64)> = None;
    let mut stride = list.len();
    // The first axis along which elements differ from the first one.
    for (axis, size) in sizes.iter().enumerate() {
        stride /= (*size).max(1);
        if *size > 1
            && let step = list.get(stride)?.sub(&start).ok()?.known()?
            && step != 0
        {
            if found.is_some() {
                return None;
            }
            found = Some((axis, step));
        }
    }
    let (axis, step) = found.map_or((None, 1), |(axis, step)| (Some(axis), step));
    for (at, element) in coordinates(&sizes).zip(&list) {
        let number = axis.and_then(|axis| at.get(axis)).map_or(0, |number| *number);
        let expected = start.add(&Dim::Known(step.checked_mul(i64::try_from(number).ok()?)?)).ok()?;
        if *element != expected {
            return None;
        }
    }
    Some(Line { start, step, axis })
}
