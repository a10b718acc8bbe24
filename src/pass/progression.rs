//! Indices that grow by a step along each axis, as exporters compute them from sizes: a Range, its multiples,
//! slices and views, and sums of these.

use super::pattern::{axis, is_numpy, known_elements, number};
use crate::common::int::Int;
use crate::graph::{Graph, ValueId};
use crate::op::{self, Move};
use crate::tensor::{Array, Dim, Span};

/// The most nodes between a Range and the indices.
const DEPTH: usize = 12;

/// Elements that grow by a step along each axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Progression {
    pub start: Dim,
    pub axes: Vec<Steps>,
}

/// The elements along an axis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Steps {
    pub count: Dim,
    /// The difference of neighbours; 0 if there is one element.
    pub step: i64,
    /// A Range of as many elements.
    pub range: Option<ValueId>,
}

/// Elements that grow along one axis at most, and are the same along all others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    pub start: Dim,
    pub step: i64,
    /// The axis along which they grow; `None` if all elements are equal.
    pub axis: Option<usize>,
    /// A Range of as many elements.
    pub range: Option<ValueId>,
}

impl Line {
    /// Whether the elements are 0, 1, 2 and so on.
    pub fn counts(&self) -> bool {
        self.start.is(0) && self.step == 1 && self.axis.is_some()
    }
}

impl Steps {
    fn new(count: &Dim, step: i64, range: Option<ValueId>) -> Steps {
        Steps { count: count.clone(), step: if count.is(1) { 0 } else { step }, range }
    }

    fn equal(count: &Dim) -> Steps {
        Steps::new(count, 0, None)
    }
}

impl Progression {
    /// Reads a value.
    pub fn of(graph: &Graph, id: ValueId) -> Option<Progression> {
        read(graph, id, DEPTH)
    }

    /// Reads a list: the elements of an array that grow along its axes.
    pub fn of_list(list: &[i64]) -> Option<Progression> {
        let start = *list.first()?;
        let mut sizes = Vec::new();
        // The elements at the start of the axes that are already found.
        let mut firsts = list.to_vec();
        while firsts.len() > 1 {
            let mut steps =
                firsts.iter().zip(firsts.iter().skip(1)).map(|(a, b)| b.wrapping_sub(*a)).peekable();
            let step = *steps.peek()?;
            let count = 1 + steps.take_while(|other| *other == step).count();
            sizes.insert(0, count);
            firsts = firsts.into_iter().step_by(count).collect();
        }
        let offsets: Option<Vec<i64>> = list.iter().map(|element| element.checked_sub(start)).collect();
        Progression::of_offsets(Dim::from(start), &sizes, &offsets?)
    }

    fn of_elements(elements: &Array) -> Option<Progression> {
        let list = elements.to_dims().ok()?;
        let start = list.first()?.clone();
        let offsets: Option<Vec<i64>> = list.iter().map(|element| (element - &start).known()).collect();
        Progression::of_offsets(start, elements.shape(), &offsets?)
    }

    /// Reads the differences of elements from the first one.
    fn of_offsets(start: Dim, sizes: &[usize], offsets: &[i64]) -> Option<Progression> {
        let (mut stride, mut expected) = (offsets.len(), vec![0_i64]);
        let mut axes = Vec::with_capacity(sizes.len());
        for size in sizes {
            stride = stride.checked_div(*size)?;
            let step = if *size > 1 { *offsets.get(stride)? } else { 0 };
            let count = size.int();
            let along = |first: i64| (0..count).map(move |n| first.wrapping_add(n.wrapping_mul(step)));
            expected = expected.into_iter().flat_map(along).collect();
            if expected.len() > offsets.len() {
                return None;
            }
            axes.push(Steps::new(&Dim::from(count), step, None));
        }
        (expected == offsets).then_some(Progression { start, axes })
    }

    /// Equal elements.
    fn equal(start: Dim, shape: &[Dim]) -> Progression {
        Progression { start, axes: shape.iter().map(Steps::equal).collect() }
    }

    fn is_constant(&self) -> bool {
        self.axes.iter().all(|along| along.step == 0)
    }

    /// Drops axes of one element, and merges those that continue each other.
    pub fn merged(self) -> Progression {
        let mut axes: Vec<Steps> = Vec::new();
        for steps in self.axes.into_iter().filter(|steps| !steps.count.is(1)) {
            if let Some(before) = axes.last_mut()
                && let Some(count) = continued(before, &steps)
            {
                *before = Steps { count: Dim::from(count), step: steps.step, range: None };
            } else {
                axes.push(steps);
            }
        }
        Progression { axes, ..self }
    }

    /// Returns the line of elements that grow along one axis at most.
    pub fn line(self) -> Option<Line> {
        let mut grown = self.axes.iter().enumerate().filter(|(_, along)| along.step != 0);
        let first = grown.next();
        if grown.next().is_some() {
            return None;
        }
        let (axis, step, range) =
            first.map_or((None, 1, None), |(axis, along)| (Some(axis), along.step, along.range));
        Some(Line { start: self.start, step, axis, range })
    }

    /// Returns the elements broadcast to a shape, or repeated along axes of equal elements.
    fn spread(self, to: &[Dim]) -> Option<Progression> {
        let added = to.len().checked_sub(self.axes.len())?;
        let mut axes: Vec<Steps> = to.iter().map(Steps::equal).collect();
        for (along, steps) in axes.iter_mut().skip(added).zip(self.axes).filter(|(_, steps)| steps.step != 0)
        {
            if steps.count != along.count {
                return None;
            }
            *along = steps;
        }
        Some(Progression { axes, ..self })
    }

    /// Returns the elements in another shape, which differs only in axes of size 1 unless all elements are
    /// equal.
    fn viewed(self, to: &[Dim]) -> Option<Progression> {
        if self.is_constant() {
            return Some(Progression::equal(self.start, to));
        }
        let mut left = self.axes.into_iter().filter(|along| !along.count.is(1));
        let viewed = |size: &Dim| match size.is(1) {
            true => Some(Steps::equal(size)),
            false => left.next().filter(|along| along.count == *size),
        };
        let axes = to.iter().map(viewed).collect::<Option<_>>()?;
        left.next().is_none().then_some(Progression { start: self.start, axes })
    }

    /// Returns the elements after a step.
    fn moved(self, step: &Move) -> Option<Progression> {
        let shape: Vec<Dim> = self.axes.iter().map(|along| along.count.clone()).collect();
        match step {
            Move::Reshape(to) => self.viewed(to),
            Move::Broadcast(to) => self.spread(to),
            Move::Repeat { .. } => self.spread(&step.shape(&shape).ok()?),
            Move::Transpose(perm) => {
                let axes = perm.iter().map(|from| self.axes.get(*from).cloned()).collect::<Option<_>>()?;
                Some(Progression { axes, ..self })
            }
            Move::Take { axis, span } => self.taken(*axis, span),
            Move::Pick { .. } | Move::Pad { .. } => None,
        }
    }

    /// Returns the elements of a span of an axis.
    fn taken(mut self, axis: usize, Span { start, step, count }: &Span) -> Option<Progression> {
        let along = self.axes.get_mut(axis)?;
        if along.step != 0 {
            // A step backwards gives other elements.
            if *step < 1 {
                return None;
            }
            self.start += start * along.step;
        }
        let range = along.range.filter(|_| along.count == *count);
        *along = Steps::new(count, along.step.checked_mul(*step)?, range);
        Some(self)
    }

    fn scaled(self, factor: i64) -> Option<Progression> {
        let scaled = |steps: Steps| Some(Steps { step: steps.step.checked_mul(factor)?, ..steps });
        let axes = self.axes.into_iter().map(scaled).collect::<Option<_>>()?;
        Some(Progression { start: &self.start * factor, axes })
    }

    fn plus(self, other: Progression) -> Option<Progression> {
        let sum = |(a, b): (Steps, Steps)| {
            Some(Steps::new(&a.count, a.step.checked_add(b.step)?, a.range.or(b.range)))
        };
        let axes = self.axes.into_iter().zip(other.axes).map(sum).collect::<Option<_>>()?;
        Some(Progression { start: &self.start + &other.start, axes })
    }
}

/// Returns the number of elements along two axes, if those along the second one lead on to the next of the
/// first.
fn continued(outer: &Steps, inner: &Steps) -> Option<i64> {
    let count = inner.count.known()?;
    (inner.step.checked_mul(count) == Some(outer.step)).then_some(outer.count.known()?.saturating_mul(count))
}

/// Returns the columns of tuples, the last axis of a value, as lines along the other axes.
pub(crate) fn columns(graph: &Graph, id: ValueId) -> Option<Vec<Line>> {
    let value = graph.value(id);
    let rank = value.shape.as_ref()?.len();
    let node = graph.node(value.producer?)?;
    if node.is_one_of(&["Cast", "Identity"]) {
        return columns(graph, node.input(0)?);
    }
    let column = |part: ValueId| {
        let is_single = graph.value(part).shape.as_ref()?.last()?.is(1);
        let line = Progression::of(graph, part).filter(|_| is_single)?.line()?;
        line.axis.is_none_or(|axis| axis + 1 != rank).then_some(line)
    };
    if !node.is("Concat") || axis(node, 0, rank)? + 1 != rank {
        return Some(vec![column(id)?]);
    }
    node.inputs.iter().flatten().map(|part| column(*part)).collect()
}

fn read(graph: &Graph, id: ValueId, depth: usize) -> Option<Progression> {
    let value = graph.value(id);
    if let Some(elements) = known_elements(value) {
        return Progression::of_elements(&elements);
    }
    let depth = depth.checked_sub(1)?;
    if let Some((source, steps)) = op::moved(graph, id) {
        return steps.iter().try_fold(read(graph, source, depth)?, Progression::moved);
    }
    let node = graph.node(value.producer?).filter(|node| node.domain.is_empty() && is_numpy(node))?;
    let shape = value.shape.as_deref()?;
    let of = |index: usize| read(graph, node.input(index)?, depth);
    match node.op_type.as_str() {
        "Range" => {
            let at = |index: usize| number(graph, node.input(index)?);
            let [count] = shape else { return None };
            Some(Progression { start: at(0)?, axes: vec![Steps::new(count, at(2)?.known()?, Some(id))] })
        }
        "Cast" => of(0),
        "Add" => of(0)?.spread(shape)?.plus(of(1)?.spread(shape)?),
        "Sub" => of(0)?.spread(shape)?.plus(of(1)?.scaled(-1)?.spread(shape)?),
        "Mul" => {
            let factor = |index: usize| number(graph, node.input(index)?)?.known();
            let (other, factor) = factor(1).map(|factor| (0, factor)).or_else(|| Some((1, factor(0)?)))?;
            of(other)?.scaled(factor)?.spread(shape)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns start, and count and step along each axis.
    fn found(progression: Option<Progression>) -> Option<(i64, Vec<[i64; 2]>)> {
        let Progression { start, axes } = progression?;
        let known = |steps: &Steps| Some([steps.count.known()?, steps.step]);
        Some((start.known()?, axes.iter().map(known).collect::<Option<_>>()?))
    }

    #[test]
    fn steps_of_constants_are_verified() {
        let of_elements = |shape: &[usize], list: &[i64]| {
            let elements = ndarray::ArrayD::from_shape_vec(shape, list.to_vec()).unwrap();
            Progression::of_elements(&Array::i64(elements))
        };
        let of = |shape: &[usize], list: &[i64]| found(of_elements(shape, list));
        assert_eq!(of(&[3, 2], &[1, 2, 3, 4, 5, 6]), Some((1, vec![[3, 2], [2, 1]])));
        assert_eq!(of(&[2, 3], &[0, 1, 2, 2, 3, 4]), Some((0, vec![[2, 2], [3, 1]])));
        assert_eq!(of(&[2, 3], &[0, 1, 2, 2, 3, 5]), None);
        let merged = |shape: &[usize], list: &[i64]| found(of_elements(shape, list).map(Progression::merged));
        assert_eq!(merged(&[3, 1, 2], &[1, 2, 3, 4, 5, 6]), Some((1, vec![[6, 1]])));
        assert_eq!(merged(&[2, 3], &[0, 1, 2, 2, 3, 4]), Some((0, vec![[2, 2], [3, 1]])));
    }

    #[test]
    fn lists_have_axes() {
        let of = |list: &[i64]| found(Progression::of_list(list));
        assert_eq!(of(&[5]), Some((5, vec![])));
        assert_eq!(of(&[0, 1, 2, 2, 3, 4]), Some((0, vec![[2, 2], [3, 1]])));
        assert_eq!(of(&[0, 0, 3, 3, 0, 0, 3, 3]), Some((0, vec![[2, 0], [2, 3], [2, 0]])));
        assert_eq!(of(&[1, 2, 3, 5, 6]), None);
    }
}
