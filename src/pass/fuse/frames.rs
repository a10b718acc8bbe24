//! Overlapping parts of an axis, by the indices of their elements.
//!
//! `y = gather(x, start + i * stride + j * dilation)` for all pairs of `i` and `j`, with `stride` below the
//! reach of `j`
//!
//! becomes `reshape(Frames(x))`. Indices are constants, or sums of a Range over a free size and of constants:
//! exporters write Tensor.unfold, frames of signals and im2col so.
//!
//! `y = scatter_add(data, start + i * stride + j, x)` along a list, with constant indices
//!
//! becomes `data + Col2Im(x)`: frames that are added where they overlap.

use super::matcher::{Found, Matcher, fuse, two};
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axis, text};
use crate::pass::progression::{Progression, Steps};

/// The most views of the indices.
const MAX_VIEWS: usize = 8;
/// The least number of frames, or of their elements, for which a layer is worth it.
const WORTH_A_LAYER: i64 = 4;

struct Frames {
    x: ValueId,
    indices: ValueId,
    axis: usize,
    rank: usize,
    start: i64,
    /// The first indices of the frames.
    firsts: Steps,
    elements: i64,
    dilation: i64,
    elements_first: bool,
}

pub(crate) fn fuse_frames(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, build)
}

fn build<'b>(made: &'b Builder<'b>, frames: Frames) -> Result<Expr<'b>> {
    let x = made.value(frames.x);
    let count = match (frames.firsts.count.known(), frames.firsts.range) {
        (Some(count), _) => made.ints(&[count]),
        (None, Some(range)) => made.value(range).shape(),
        (None, None) => return Err(Error::internal("frames of an unknown number")),
    };
    let attributes = [
        ("axis", frames.axis.into()),
        ("start", frames.start.into()),
        ("stride", frames.firsts.step.into()),
        ("elements", frames.elements.into()),
        ("dilation", frames.dilation.into()),
        ("elements_first", i64::from(frames.elements_first).into()),
    ];
    let taken = made.op("ncnn.Frames", [x, count], attributes);
    let (axis, rank) = (frames.axis.int(), frames.rank.int());
    let mut shape = vec![made.value(frames.indices).shape()];
    if axis > 0 {
        shape.insert(0, made.op("Shape", [x], [("end", axis.into())]));
    }
    if axis + 1 < rank {
        shape.push(made.op("Shape", [x], [("start", (axis + 1).into())]));
    }
    Ok(taken.reshape_to(made.concat(&shape, 0)))
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<Frames>> {
    let [x, indices] = two(node).filter(|_| node.is("Gather"))?;
    let rank = matcher.rank(x)?;
    let axis = axis(node, 0, rank)?;
    let (start, [outer, inner]) = pair_of_steps(matcher, indices)?;
    let last = |steps: &Steps| steps.count.known().map_or(0, |count| (count - 1).saturating_mul(steps.step));
    let end = start.saturating_add(last(&outer)).saturating_add(last(&inner));
    if matcher.shape(x)?.get(axis)?.known().is_some_and(|size| end >= size) {
        return None;
    }
    let reach = |steps: &Steps| steps.count.known()?.checked_mul(steps.step);
    let is_free = |steps: &Steps| steps.count.known().is_none();
    // The axis of few elements is that of a frame. Frames of a free number need not overlap.
    let is_frame = |frame: &Steps, other: &Steps| {
        frame.count.known().is_some_and(|count| other.count.known().is_none_or(|others| count <= others))
            && (is_free(other) || reach(frame).is_some_and(|reach| reach > other.step))
    };
    let elements_first = if is_frame(&inner, &outer) {
        false
    } else if is_frame(&outer, &inner) || reach(&outer).is_some() && is_free(&inner) {
        true
    } else {
        return None;
    };
    let (firsts, frame) = if elements_first { (inner, outer) } else { (outer, inner) };
    let (elements, dilation) = (frame.count.known()?, frame.step);
    let is_worth = firsts.count.known().map_or(firsts.range.is_some(), |count| count >= WORTH_A_LAYER);
    if !is_worth || start < 0 || firsts.step < 1 || dilation < 1 {
        return None;
    }
    let parts = Frames { x, indices, axis, rank, start, firsts, elements, dilation, elements_first };
    Some(Found::open(parts))
}

/// Frames that are added to a list.
struct Overlap {
    data: ValueId,
    updates: ValueId,
    /// The sizes of the data but the first.
    row: Vec<i64>,
    length: i64,
    start: i64,
    count: i64,
    stride: i64,
    elements: i64,
    /// Whether the axis of the elements precedes that of the frames.
    elements_first: bool,
}

pub(crate) fn fuse_overlap_add(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find_overlap, |made, overlap| {
        let Overlap { data, updates, row, length, start, count, stride, elements, elements_first } = overlap;
        let (width, covered) = (row.iter().product::<i64>(), (count - 1) * stride + elements);
        let columns = made.value(updates);
        let columns = if elements_first {
            columns.reshape(&[elements, count, width]).transpose(&[2, 0, 1])
        } else {
            columns.reshape(&[count, elements, width]).transpose(&[2, 1, 0])
        };
        let columns = columns.reshape(&[1, width * elements, count]);
        let inputs = [columns, made.ints(&[covered]), made.ints(&[elements])];
        let sum = made.op("Col2Im", inputs, [("strides", vec![stride].into())]);
        let mut sum = sum.reshape(&[width, covered]).transpose(&[1, 0]);
        if covered < length {
            let pads = made.ints(&[start, 0, length - start - covered, 0]);
            sum = made.op("Pad", [sum, pads], []);
        }
        let shape = [vec![length], row].concat();
        Ok(made.value(data) + sum.reshape(&shape))
    })
}

fn find_overlap(matcher: &Matcher, node: &Node) -> Option<Found<Overlap>> {
    let is_list = node.is("ScatterElements");
    let adds = text(node, "reduction") == Some("add");
    let [data, indices, updates] = [0, 1, 2].map(|index| node.input(index));
    let (data, indices, updates) = (data?, indices?, updates?);
    let sizes = matcher.sizes(data)?;
    let (length, row) = sizes.split_first()?;
    let list = matcher.sizes(indices)?;
    let fits = match is_list {
        true => row.is_empty(),
        false => node.is("ScatterND") && list.last() == Some(&1),
    };
    if !adds || !fits || !matcher.is_float(data) {
        return None;
    }
    let Progression { start, axes } = Progression::of_list(&matcher.ints(indices)?)?;
    let [outer, inner] = axes.as_slice() else { return None };
    let (start, elements_first) = (start.known()?, outer.step == 1);
    let (firsts, frame) = if elements_first { (inner, outer) } else { (outer, inner) };
    let (count, stride, elements) = (firsts.count.known()?, firsts.step, frame.count.known()?);
    if frame.step != 1 {
        return None;
    }
    let end = count.checked_sub(1)?.checked_mul(stride)?.checked_add(elements)?.checked_add(start)?;
    let overlaps = count > 1 && (1..elements).contains(&stride) && start >= 0 && end <= *length;
    let (length, row) = (*length, row.to_vec());
    let parts = Overlap { data, updates, row, length, start, count, stride, elements, elements_first };
    overlaps.then_some(Found::open(parts))
}

/// Returns the start and both axes of indices of two axes, except axes that continue each other and
/// axes of one element.
fn pair_of_steps(matcher: &Matcher, indices: ValueId) -> Option<(i64, [Steps; 2])> {
    let mut value = indices;
    for _ in 0..MAX_VIEWS {
        let found = match matcher.ints(value) {
            Some(list) => Progression::of_list(&list),
            None => Progression::of(matcher.graph, value).map(Progression::merged),
        };
        if let Some(Progression { start, axes }) = found {
            return Some((start.known()?, <[_; 2]>::try_from(axes).ok()?));
        }
        let views = ["Reshape", "Unsqueeze", "Squeeze", "Cast", "Identity"];
        value = views.iter().find_map(|view| matcher.made_by(value, view)?.input(0))?;
    }
    None
}
