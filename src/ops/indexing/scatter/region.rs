//! Updates of a box: indices that are, along each axis of the data, a range with a step.
//!
//! `x[..., 0:2] = v` and `x[:, ::2] += v` write such indices. The result is the updates next to the slices of
//! the data around them, axis by axis. An axis with a step is divided into rows of as many elements as the
//! step.

use std::ops::Range;

use super::{Reduction, read_reduction};
use crate::op::{index_from_front, resolve_index};
use crate::ops::prelude::*;
use crate::ops::shape::size::resized;
use crate::pass::builder::sliced;
use crate::pass::pattern::inverse;
use crate::pass::progression::{Line, Progression, columns};
use crate::tensor::{Span, from_either_end};

/// Returns the first element of a span, counted from the front of an axis, or from the end of one of free
/// size.
fn first_of(span: &Span, size: &Dim) -> Option<i64> {
    from_either_end(&span.start, size)
}

/// Returns the number of elements after a range of free length that ends at a known distance from the end of
/// its axis.
fn rest_after(span: &Span, size: &Dim) -> Option<i64> {
    let is_range = span.count.known().is_none() && span.step == 1 && span.start.known().is_some();
    (size - span.end()).known().filter(|rest| is_range && *rest >= 0)
}

/// A box of the data, and the updates in its shape.
pub(super) struct Region<'x> {
    spans: Vec<Span>,
    updates: Expr<'x>,
}

impl<'x> Region<'x> {
    /// Returns the box that the indices of a ScatterND are.
    pub(super) fn of_tuples(expand: &'x Expand) -> Result<Option<Region<'x>>> {
        let (shape, index_shape) = (expand.shape(0)?, expand.shape(1)?);
        let Some((width, tuples)) = index_shape.split_last() else { return Ok(None) };
        let Some(depth) = width.known().and_then(|width| usize::try_from(width).ok()) else {
            return Ok(None);
        };
        let slice = shape.get(depth..).unwrap_or_default();
        if expand.constant(1).is_some() {
            let indices = expand.array(1)?.int_list()?;
            let Some(found) = Counted::of(&indices, shape.get(..depth).unwrap_or_default())? else {
                return Ok(None);
            };
            return found.region(expand, slice).map(Some);
        }
        let lines = expand.node().input(1).and_then(|id| columns(expand.graph(), id));
        let Some(lines) = lines.filter(|lines| lines.len() == depth) else { return Ok(None) };
        Region::of_lines(expand, &lines, tuples, slice)
    }

    /// Returns the box of columns of indices that each count up along one axis of the tuples.
    fn of_lines(
        expand: &'x Expand,
        lines: &[Line],
        tuples: &[Dim],
        slice: &[Dim],
    ) -> Result<Option<Region<'x>>> {
        let (shape, updates_shape) = (expand.shape(0)?, expand.shape(2)?);
        let mut order: Vec<usize> = lines.iter().filter_map(|line| line.axis).collect();
        let is_used = |axis: &usize| order.contains(axis) || tuples.get(*axis).is_some_and(|size| size.is(1));
        let distinct = order.iter().collect::<std::collections::BTreeSet<_>>().len() == order.len();
        if !distinct || !(0..tuples.len()).all(|axis| is_used(&axis)) {
            return Ok(None);
        }
        let mut spans = Vec::new();
        for (line, size) in lines.iter().zip(shape) {
            let count = match line.axis {
                Some(axis) => count_of([tuples, updates_shape].map(|shape| shape.get(axis)), size)?,
                None => Dim::ONE,
            };
            let Some(start) = start_of(line, size)? else { return Ok(None) };
            spans.push(Span { start, step: line.step, count });
        }
        spans.extend(slice.iter().map(|size| Span::of(0, size)));
        // The axes of the tuples in the order of the axes of the data, without axes of size 1.
        let (left, unused): (Vec<usize>, Vec<usize>) =
            (0..tuples.len()).partition(|axis| order.contains(axis));
        let mut updates = expand.operand(2);
        if !unused.is_empty() {
            updates = updates.squeeze(&unused);
        }
        for axis in &mut order {
            *axis = left.iter().position(|kept| kept == axis).unwrap_or(0);
        }
        order.extend(order.len()..order.len() + slice.len());
        updates = updates.transpose(&order);
        let single = (0_i64..).zip(lines).filter(|(_, line)| line.axis.is_none());
        let single: Vec<i64> = single.map(|(axis, _)| axis).collect();
        if !single.is_empty() {
            updates = updates.unsqueeze(&single);
        }
        Ok(Some(Region { spans, updates }))
    }

    /// Returns the box that the indices of a ScatterElements are.
    pub(super) fn of_elements(expand: &'x Expand, axis: usize) -> Result<Option<Region<'x>>> {
        let (shape, index_shape) = (expand.shape(0)?, expand.shape(1)?);
        let found = expand.node().input(1).and_then(|id| Progression::of(expand.graph(), id)?.line());
        let Some(found) = found.filter(|found| found.axis.is_none_or(|along| along == axis)) else {
            return Ok(None);
        };
        let updates_shape = expand.shape(2)?;
        let count = count_of([index_shape, updates_shape].map(|shape| shape.get(axis)), shape.at(axis)?)?;
        if found.axis.is_none() && !count.is(1) || shape.len() != index_shape.len() {
            return Ok(None);
        }
        let Some(start) = start_of(&found, shape.at(axis)?)? else { return Ok(None) };
        let spans: Vec<Span> = index_shape.iter().map(|size| Span::of(0, size)).collect();
        let spans = resized(&spans, axis, Span { start, step: found.step, count });
        Ok(Some(Region { spans, updates: expand.operand(2) }))
    }

    /// Returns the number of axes along which elements of the data stay.
    pub(super) fn open_axes(&self, shape: &[Dim]) -> usize {
        self.spans.iter().zip(shape).filter(|(span, size)| !span.is_whole(size)).count()
    }

    /// Makes the data with the updates of the box the result.
    pub(super) fn give(mut self, expand: &'x Expand) -> Result<bool> {
        let shape = expand.shape(0)?.to_vec();
        let reduction = read_reduction(expand)?;
        if reduction != Reduction::Replace && expand.dtype(0)? == DType::Bool {
            return Ok(false);
        }
        let mut conditions = Vec::new();
        for ((axis, span), size) in (0_i64..).zip(&mut self.spans).zip(&shape) {
            if span.is_whole(size) || rest_after(span, size).is_some() {
                continue;
            }
            // A range that may end before its bound ends there.
            let Some(count) = span.count.known().or(span.count.bounds().1).filter(|count| *count > 0) else {
                return Ok(false);
            };
            conditions.push(SizeCondition::at_least(&span.count, count)?);
            span.count = count.into();
            if span.step < 0 {
                *span = Span { start: span.last(), step: -span.step, count: count.into() };
                self.updates = self.updates.slice_by(axis, -1, i64::MIN, -1);
            }
            let Some(start) = first_of(span, size) else { return Ok(false) };
            let end = start + span.step * (count - 1) + 1;
            let fits = match size.known() {
                Some(size) => start >= 0 && end <= size,
                None => start >= 0 || span.step == 1 && end <= 0,
            };
            if !fits {
                return Ok(false);
            }
        }
        for condition in conditions {
            expand.make.require(condition);
        }
        let data = expand.operand(0);
        let result = assigned(expand, data, &shape, &self.spans, self.updates, reduction)?;
        expand.output(0, result);
        Ok(true)
    }
}

/// Returns the number of indices along an axis of `size`, of the sizes of indices and updates, which are
/// equal: a known size, or the size of the axis.
fn count_of(sizes: [Option<&Dim>; 2], size: &Dim) -> Result<Dim> {
    let mut sizes = sizes.into_iter().flatten().peekable();
    let first = sizes.peek().copied().ok_or_else(|| Error::internal("indices without an axis"))?;
    let is_clear = |count: &&Dim| count.known().is_some() || *count == size;
    Ok(sizes.find(is_clear).unwrap_or(first).clone())
}

/// Returns the first index of a line, counted from the front of an axis of `size`.
fn start_of(line: &Line, size: &Dim) -> Result<Option<Dim>> {
    match line.start.known() {
        Some(start) => from_front(start, size).map(Some),
        None => Ok(from_either_end(&line.start, size).map(|_| line.start.clone())),
    }
}

/// Returns an index, counted from the front of an axis of `size`.
fn from_front(index: i64, size: &Dim) -> Result<Dim> {
    Ok(match size.known() {
        Some(size) => resolve_index(index, size)?.into(),
        None => index_from_front(index, size),
    })
}

/// Returns the data with the updates of a box.
fn assigned<'x>(
    expand: &'x Expand,
    data: Expr<'x>,
    shape: &[Dim],
    spans: &[Span],
    updates: Expr<'x>,
    reduction: Reduction,
) -> Result<Expr<'x>> {
    let open = spans.iter().zip(shape).position(|(span, size)| !span.is_whole(size));
    let Some(axis) = open else {
        return Ok(match reduction {
            Reduction::Replace => updates,
            Reduction::Add => data + updates,
            Reduction::Mul => data * updates,
            Reduction::Max => data.maximum(updates),
            Reduction::Min => data.minimum(updates),
        });
    };
    let (span, size, along) = (spans.at(axis)?, shape.at(axis)?, axis.int());
    let start = first_of(span, size).ok_or_else(|| Error::internal("a box without a start"))?;
    if let Some(rest) = rest_after(span, size) {
        let end = if rest == 0 { i64::MAX } else { -rest };
        let (shape, spans) =
            (resized(shape, axis, span.count.clone()), resized(spans, axis, Span::of(0, &span.count)));
        let mut parts = Vec::new();
        if start > 0 {
            parts.push(data.slice(along, 0, start));
        }
        parts.push(assigned(expand, data.slice(along, start, end), &shape, &spans, updates, reduction)?);
        if rest > 0 {
            parts.push(data.slice(along, end, i64::MAX));
        }
        return Ok(expand.make.concat(&parts, along));
    }
    let count = span.count.known().unwrap_or(1);
    let step = if count == 1 { 1 } else { span.step };
    // The first element of the part that changes, and its length: rows of a step, if it is known that they
    // are complete.
    let covered = step * (count - 1) + 1;
    let is_divided = step > 1 && size.known().is_some();
    let (first, length) = if !is_divided {
        (start, covered)
    } else {
        let length = step * count;
        let first = size.known().map_or(start, |size| start.min(size - length));
        if first < 0 || start - first >= step {
            // The last row of the step is not complete.
            let most = Span { count: Dim::Known(count - 1), ..span.clone() };
            let last = Span::of(span.last(), 1);
            let parts = [(most, 0, count - 1), (last, count - 1, i64::MAX)];
            let mut data = data;
            for (span, from, to) in parts {
                let spans = resized(spans, axis, span);
                data = assigned(expand, data, shape, &spans, updates.slice(along, from, to), reduction)?;
            }
            return Ok(data);
        }
        (first, length)
    };
    let end = first + length;
    let is_last = size.is(end) || first < 0 && end == 0;
    // An axis of free size may end with the box, and no blob is empty: the data get one more element there
    // for as long.
    let is_open = !is_last && first >= 0 && size.bounds().0.is_none_or(|least| least <= end);
    let data = if is_open { lengthened(expand, data, shape.len(), along)? } else { data };
    let mut parts = Vec::new();
    if first != 0 {
        parts.push(data.slice(along, 0, first));
    }
    let part = if first == 0 && is_last {
        data
    } else {
        data.slice(along, first, if is_last { i64::MAX } else { end })
    };
    parts.push(if !is_divided {
        let shape = resized(shape, axis, Dim::Known(covered));
        let spans = resized(spans, axis, Span { start: Dim::ZERO, step, count: count.into() });
        assigned(expand, part, &shape, &spans, updates, reduction)?
    } else {
        let divided = |list: &[Dim]| {
            let mut list = resized(list, axis, Dim::Known(count));
            list.insert(axis + 1, Dim::Known(step));
            list
        };
        let rows = with_axes(expand, part, along..along + 1, &[count, step]);
        let mut spans = resized(spans, axis, Span::of(0, count));
        spans.insert(axis + 1, Span::of(start - first, 1));
        let updates = updates.unsqueeze(&[along + 1]);
        let rows = assigned(expand, rows, &divided(shape), &spans, updates, reduction)?;
        with_axes(expand, rows, along..along + 2, &[length])
    });
    if !is_last {
        parts.push(data.slice(along, end, i64::MAX));
    }
    let result = expand.make.concat(&parts, along);
    Ok(if is_open { result.slice(along, 0, -1) } else { result })
}

/// Returns data with a further element at the end of an axis: the longer data, if the data are all but its
/// last element, or a zero.
fn lengthened<'x>(expand: &'x Expand, data: Expr<'x>, rank: usize, axis: i64) -> Result<Expr<'x>> {
    let graph = expand.graph();
    let longer = || {
        let mut id = data.id;
        while let Some(node) = graph.producer(id).filter(|node| node.is("Identity")) {
            id = node.input(0)?;
        }
        sliced(graph, id, axis, 0, -1)
    };
    if let Some(longer) = longer() {
        return Ok(expand.make.value(longer));
    }
    Ok(data.pad_along(rank, usize::try_from(axis)?, [0, 1]))
}

/// Returns a value with axes of these sizes instead of some of its axes.
fn with_axes<'x>(expand: &'x Expand, value: Expr<'x>, replaced: Range<i64>, sizes: &[i64]) -> Expr<'x> {
    let before = expand.make.op("Shape", [value], [("end", replaced.start.into())]);
    let after = expand.make.op("Shape", [value], [("start", replaced.end.into())]);
    value.reshape_to(expand.make.concat(&[before, expand.make.ints(sizes), after], 0))
}

/// Tuples of constant indices that count up along each axis of a box.
#[derive(Debug, PartialEq, Eq)]
struct Counted {
    spans: Vec<Span>,
    /// The axes in the order in which the tuples count, the slowest first.
    order: Vec<usize>,
}

impl Counted {
    /// Reads tuples of one index for each size.
    fn of(indices: &[i64], sizes: &[Dim]) -> Result<Option<Counted>> {
        let depth = sizes.len();
        if depth == 0 || indices.is_empty() {
            return Ok(None);
        }
        let total = (indices.len() / depth).int();
        let mut found: Vec<(i64, i64)> = Vec::with_capacity(depth);
        let mut spans = Vec::with_capacity(depth);
        for (axis, size) in sizes.iter().enumerate() {
            let column: Result<Vec<i64>> = (indices.iter().skip(axis).step_by(depth))
                .map(|index| size.known().map_or(Ok(*index), |size| resolve_index(*index, size)))
                .collect();
            let Some(column) = Progression::of_list(&column?) else { return Ok(None) };
            let sizes: Vec<i64> = column.axes.iter().filter_map(|axis| axis.count.known()).collect();
            let Some(line) = column.line() else { return Ok(None) };
            let (count, stride) = match line.axis {
                Some(axis) => (*sizes.at(axis)?, sizes.iter().skip(axis + 1).product()),
                None => (1, total),
            };
            found.push((stride, count));
            let start = from_front(line.start.known().unwrap_or(0), size)?;
            spans.push(Span { start, step: line.step, count: count.into() });
        }
        let mut order: Vec<usize> =
            (0..depth).filter(|axis| found.get(*axis).is_some_and(|f| f.1 > 1)).collect();
        order.sort_by_key(|axis| std::cmp::Reverse(found.get(*axis).map_or(0, |f| f.0)));
        // Each tuple occurs once: the strides follow from the counts.
        let mut expected = total;
        for axis in &order {
            let (stride, count) = *found.at(*axis)?;
            if expected != stride * count {
                return Ok(None);
            }
            expected = stride;
        }
        Ok((expected == 1).then_some(Counted { spans, order }))
    }

    /// Returns the box of slices of the data.
    fn region<'x>(self, expand: &'x Expand, slice: &[Dim]) -> Result<Region<'x>> {
        let depth = self.spans.len();
        // The axes in the order of the tuples, axes of a single index first.
        let mut order: Vec<usize> = (0..depth).filter(|axis| !self.order.contains(axis)).collect();
        order.extend(&self.order);
        let counts: Vec<i64> = (order.iter())
            .map(|axis| self.spans.get(*axis).and_then(|span| span.count.known()).unwrap_or(1))
            .collect();
        let tuples = expand.shape(1)?.len().int() - 1;
        let rest = expand.make.op("Shape", [expand.operand(2)], [("start", tuples.into())]);
        let shape = expand.make.concat(&[expand.make.ints(&counts), rest], 0);
        let mut perm = inverse(&order);
        perm.extend(depth..depth + slice.len());
        let updates = expand.operand(2).reshape_to(shape).transpose(&perm);
        let mut spans = self.spans;
        spans.extend(slice.iter().map(|size| Span::of(0, size)));
        Ok(Region { spans, updates })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns start, step and count along each axis, and the order of the axes.
    fn counted(tuples: &[[i64; 2]]) -> Option<([[i64; 3]; 2], Vec<usize>)> {
        let found = Counted::of(tuples.as_flattened(), &shape![9, 9]).unwrap()?;
        let span = |axis: usize| {
            let Span { start, step, count } = &found.spans[axis];
            [start.known().unwrap(), *step, count.known().unwrap()]
        };
        Some(([span(0), span(1)], found.order.clone()))
    }

    #[test]
    fn boxes_are_found() {
        assert_eq!(counted(&[[1, 2]]), Some(([[1, 1, 1], [2, 1, 1]], vec![])));
        let found = counted(&[[0, 1], [0, 3], [1, 1], [1, 3]]);
        assert_eq!(found, Some(([[0, 1, 2], [1, 2, 2]], vec![0, 1])));
        let found = counted(&[[0, 8], [3, 8], [0, -2], [3, -2]]);
        assert_eq!(found, Some(([[0, 3, 2], [8, -1, 2]], vec![1, 0])));
        assert_eq!(counted(&[[0, 1], [1, 2]]), None, "a diagonal");
        assert_eq!(counted(&[[0, 1], [0, 1]]), None, "a tuple twice");
        assert_eq!(counted(&[[0, 1], [0, 2], [0, 4]]), None, "no range");
    }
}
