//! Slice.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Slice.html>.

mod computed;

use super::size::{array_dims, input_dims, known_dims, resized};
use crate::error::ErrorKind;
use crate::lower::OPEN_END;
use crate::op::identity::same_shape;
use crate::op::{self, required};
use crate::ops::prelude::*;
use crate::tensor::Shape;

pub(in crate::ops) const OPS: &[Row] = &[Row::new("Slice", Access::Selection, infer_slice)
    .fold(fold_slice)
    .batched(|call, index| {
        index == 0 && call_cuts(call).is_ok_and(|cuts| cuts.iter().all(|cut| cut.axis != 0))
    })
    .expand(computed::expand_slice)
    .lower(lower_slice)
    .identity(unsliced)
    .transparent(|_, _| true)
    .lowers_to(
        "Crop; Pooling for steps; Flip, or Slice and Concat, for the reverse order; \
        Gather for starts computed at run time",
    )
    .limits(
        "bounds computed at run time, unless their distance is a size or the model declares the shape of the \
            output; axes and steps computed at run time",
    )];

/// The least bound that means the end of an axis of free size: a blob with a longer one would take 4 GB. Exporters
/// write it and larger numbers for an open end.
const BEYOND: i64 = 1_000_000_000;

/// The kept elements of an axis: those at `start`, `start + step`, and so on.
#[derive(Clone, Debug, PartialEq)]
struct AxisSlice {
    axis: usize,
    start: Dim,
    step: i64,
    count: Dim,
}

/// Takes a bound whose sign depends on sizes as counted from the front, or refuses it.
type Decide<'a> = &'a dyn Fn(Result<Option<SizeCondition>>) -> Result<()>;

/// Reads bounds and steps: attributes in version 1, then inputs.
fn read_cuts(
    attributes: &Attributes,
    input: impl Fn(usize) -> Result<Option<Vec<Dim>>>,
    shape: &[Dim],
    require: Decide,
) -> Result<Vec<AxisSlice>> {
    let (starts, ends, axes, steps) = if attributes.since() == 1 {
        let list = |name| Ok::<_, Error>(attributes.given_ints(name)?.map(known_dims));
        (list("starts")?, list("ends")?, list("axes")?, None)
    } else {
        (input(1)?, input(2)?, input(3)?, input(4)?)
    };
    let (starts, ends) = (required(starts, "starts")?, required(ends, "ends")?);
    let axes = axes.unwrap_or((0..i64::try_from(starts.len())?).map(Dim::Known).collect());
    let steps = steps.unwrap_or(vec![Dim::Known(1); starts.len()]);
    let lens = [starts.len(), ends.len(), axes.len(), steps.len()];
    if lens.iter().any(|len| *len != starts.len()) {
        invalid!("starts, ends, axes and steps have the different lengths {lens:?}");
    }
    let fixed =
        |d: &Dim| d.known().ok_or_else(|| Error::unsupported(format!("the axis or step {d} is not fixed")));
    let mut cuts: Vec<AxisSlice> = Vec::with_capacity(starts.len());
    for (i, (start, end)) in starts.iter().zip(&ends).enumerate() {
        let axis = resolve_axis(fixed(axes.at(i)?)?, shape.len())?;
        if cuts.iter().any(|cut| cut.axis == axis) {
            invalid!("axis {axis} is sliced twice");
        }
        cuts.push(cut(axis, shape.at(axis)?, (start, end), fixed(steps.at(i)?)?, require)?);
    }
    Ok(cuts)
}

/// The position of a bound.
enum Bound {
    /// A bound that may lie before the front or after the end.
    Counted(Dim),
    /// A bound that is required not to be negative.
    Required(Dim),
}

/// Returns a bound counted from the front.
fn from_front(bound: &Dim, size: &Dim, require: Decide) -> Result<Bound> {
    Ok(Bound::Counted(match bound.known() {
        Some(n) if n >= BEYOND && size.known().is_none_or(|size| size <= n) => size.clone(),
        Some(n) if n <= -BEYOND && size.known().is_none_or(|size| n < -size) => Dim::Known(-1),
        _ => match bound.bounds() {
            (Some(0..), _) => bound.clone(),
            (_, Some(..0)) => size.add(bound)?,
            // The negative length of a cache: 0 would count from the front.
            (_, Some(0)) => {
                require(SizeCondition::at_least(&bound.mul(&Dim::Known(-1))?, 1))?;
                size.add(bound)?
            }
            _ => match SizeCondition::at_least(bound, 0) {
                Ok(condition) => {
                    require(Ok(condition))?;
                    return Ok(Bound::Required(bound.clone()));
                }
                // It is negative for all sizes.
                Err(_) => size.add(bound)?,
            },
        },
    }))
}

impl Bound {
    /// Returns the position, at least `least`, which is not positive.
    fn at_least(self, least: &Dim) -> Result<Dim> {
        match self {
            Bound::Counted(place) => place.larger(least),
            Bound::Required(place) => Ok(place),
        }
    }
}

/// Returns a start that is not after the end of the axis. Requires that of an axis of free size, because the
/// result is empty otherwise.
fn start_within(start: Dim, size: &Dim, require: Decide) -> Result<Dim> {
    let clamped = start.smaller(size)?;
    if clamped == start || size.known().is_some() || size.has_length() {
        return Ok(clamped);
    }
    match SizeCondition::at_least(&size.sub(&start)?, 0) {
        Ok(condition) => require(Ok(condition)).map(|()| start),
        // The result is always empty.
        Err(_) => Ok(clamped),
    }
}

fn cut(axis: usize, size: &Dim, (start, end): (&Dim, &Dim), step: i64, require: Decide) -> Result<AxisSlice> {
    let (zero, last) = (Dim::Known(0), size.sub(&Dim::Known(1))?);
    let (start, end) = (from_front(start, size, require)?, from_front(end, size, require)?);
    let (start, distance) = match step {
        0 => invalid!("the step is 0"),
        1.. => {
            // A negative end leaves an empty result, which is not a blob: a free end needs no lower clamp.
            let end = match end {
                Bound::Counted(end @ Dim::Known(_)) => end.larger(&zero)?,
                Bound::Counted(end) | Bound::Required(end) => end,
            };
            let (start, end) = match start {
                Bound::Required(start) => {
                    // Where the slice begins depends on the size, and so may its end: it is required to be in
                    // the axis, which spares a minimum in the size of the result.
                    match SizeCondition::at_least(&size.sub(&end)?, 0) {
                        Ok(condition) => require(Ok(condition)).map(|()| (start, end))?,
                        Err(_) => (start, size.clone()),
                    }
                }
                Bound::Counted(start) => {
                    (start_within(start.larger(&zero)?, size, require)?, end.smaller(size)?)
                }
            };
            let distance = end.sub(&start)?;
            (start, distance)
        }
        _ => {
            let start = match start {
                // A start before the front is the front in onnxruntime, and gives nothing in numpy.
                Bound::Counted(start) if size.known().is_none() && !size.has_length() => {
                    require(SizeCondition::at_least(&start, 0))?;
                    start
                }
                start => start.at_least(&zero)?,
            };
            let start = start.smaller(&last)?;
            let distance = match end {
                // An end before the front, which stands for a place before the first element.
                Bound::Counted(end) => start.sub(&end)?.smaller(&start.add(&Dim::Known(1))?)?,
                Bound::Required(end) => start.sub(&end)?,
            };
            (start, distance)
        }
    };
    let stride = step.checked_abs().unwrap_or(i64::MAX);
    let count = match distance.known() {
        // A stride beyond the axis keeps one element; ceil_div would overflow.
        Some(n) if n > 0 && stride >= n => Dim::Known(1),
        Some(n) if n <= 0 => zero,
        _ => distance.ceil_div(&Dim::Known(stride.min(1 << 31)))?,
    };
    let count = match count.bounds() {
        // Without elements it would not be a blob, unless it is the last element of a cache.
        (Some(0), Some(1)) if !size.has_length() || size.symbol_name().is_none() => {
            require(SizeCondition::at_least(&count, 1))?;
            Dim::Known(1)
        }
        _ => count,
    };
    Ok(AxisSlice { axis, start, step, count })
}

/// Returns the slices of a node. Requires that bounds of unknown sign are not negative.
fn call_cuts(call: &Call) -> Result<Vec<AxisSlice>> {
    read_cuts(call, |index| input_dims(call, index), call.shape(0)?, &|condition| call.require(condition))
}

/// Returns the data if all of it is kept in order.
fn unsliced(graph: &Graph, node: &Node) -> Option<ValueId> {
    let data = same_shape(graph, node)?;
    let cuts = call_cuts(&Call::new(graph, node, op::find_handled(node).ok()?)).ok()?;
    Some(data).filter(|_| cuts.iter().all(|cut| cut.step > 0))
}

fn infer_slice(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    let cuts = match call_cuts(call) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {
            for part in computed::computed_parts(call, error)? {
                shape = resized(&shape, part.axis, part.count);
            }
            return Ok(vec![Fact::new(call.dtype(0)?, shape)]);
        }
        cuts => cuts?,
    };
    for cut in cuts {
        shape = resized(&shape, cut.axis, cut.count);
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn fold_slice(attributes: &Attributes, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
    let mut data = required_input(inputs, 0)?.clone();
    let shape = Shape::try_from(data.shape())?;
    let refuse = |_| Err(Error::unsupported("the sign of a bound is known only at run time"));
    for cut in read_cuts(attributes, |index| array_dims(inputs, index), &shape, &refuse)? {
        let places: Result<Vec<usize>> =
            cut.places()?.into_iter().map(|place| Ok(usize::try_from(place)?)).collect();
        data = data.gather(cut.axis, &places?)?;
    }
    Ok(vec![data])
}

impl AxisSlice {
    /// Returns the indices of the kept elements, which must be known.
    fn places(&self) -> Result<Vec<i64>> {
        let (Some(start), Some(count)) = (self.start.known(), self.count.known()) else {
            return Err(Error::unsupported(format!(
                "{} elements from {} in steps of {} are not fixed",
                self.count, self.start, self.step
            )));
        };
        (0..count)
            .map(|i| self.step.checked_mul(i).and_then(|n| n.checked_add(start)))
            .collect::<Option<_>>()
            .ok_or_else(|| Error::limit("the step is too large"))
    }

    /// Returns the slice of the reversed axis with the same elements in the same order.
    fn of_reversed(&self, size: &Dim) -> Result<AxisSlice> {
        let start = size.sub(&Dim::Known(1))?.sub(&self.start)?;
        Ok(AxisSlice { start, step: self.step.saturating_neg(), ..self.clone() })
    }

    /// Returns start and end for Crop of an axis of `size`: from the front, or negative from the end.
    fn crop(&self, size: &Dim) -> Result<Option<(i32, Option<i32>)>> {
        if self.step != 1 {
            return Ok(None);
        }
        let end = self.start.add(&self.count)?;
        let after = |bound: &Dim| {
            Ok::<_, Error>(bound.sub(size)?.known().filter(|n| *n < 0 && *n != i64::from(OPEN_END)))
        };
        let Some(start) = self.start.known().or(after(&self.start)?) else { return Ok(None) };
        let end = match end.known().or(after(&end)?) {
            _ if end == *size => None,
            Some(end) => Some(i32::try_from(end)?),
            None => return Ok(None),
        };
        Ok(Some((i32::try_from(start)?, end)))
    }
}

fn lower_slice(lower: &mut Lower) -> Result<()> {
    let mut shape = lower.shape(0)?.to_vec();
    let mut cuts = call_cuts(lower)?;
    cuts.retain(|cut| cut.step != 1 || shape.get(cut.axis) != Some(&cut.count));
    if cuts.is_empty() {
        return lower.alias();
    }
    let mut blob = lower.blob(0)?;
    for cut in cuts {
        let (alone, place) = lower.alone(blob, &shape, cut.axis)?;
        blob = emit_cut(lower, alone, place, &cut)?;
        shape = resized(&shape, cut.axis, cut.count);
    }
    lower.set(0, blob)
}

/// Emits the kept elements of the axis at `place`.
fn emit_cut(lower: &mut Lower, blob: BlobId, place: usize, cut: &AxisSlice) -> Result<BlobId> {
    let size = lower.form(blob).at(place)?.clone();
    if cut.step == 1 && cut.count == size {
        return Ok(blob);
    }
    if let Some((start, end)) = cut.crop(&size)? {
        return lower.crop(blob, place, start, end, &cut.count);
    }
    match cut.places() {
        Ok(places) => lower.gather(blob, place, &places),
        Err(_) if cut.step < 0 => {
            let reversed = lower.reverse(blob, place)?;
            emit_cut(lower, reversed, place, &cut.of_reversed(&size)?)
        }
        Err(_) if cut.step == 1 => lower.crop_by_expression(blob, place, &cut.start, &cut.count),
        Err(_) => lower.stride(blob, place, &cut.start, cut.step, &cut.count),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_match_numpy() {
        for (size, start, end, step, first, count) in [
            (5, 1, 3, 1, 1, 2),
            (5, 0, i64::MAX, 1, 0, 5),
            (5, -3, -1, 1, 2, 2),
            (5, -9, 9, 2, 0, 3),
            (5, 4, 1, 1, 4, 0),
            (5, -1, i64::MIN, -1, 4, 5),
            (5, 20, 0, -4, 4, 1),
            (5, 4, -6, -2, 4, 3),
            (5, 1, 1000, i64::MAX, 1, 1),
            (5, 3, -9, i64::MIN, 3, 1),
        ] {
            let bounds = (&Dim::Known(start), &Dim::Known(end));
            let cut = cut(0, &Dim::Known(size), bounds, step, &|_| Ok(())).unwrap();
            assert_eq!((cut.start, cut.count), (first.into(), count.into()), "[{start}:{end}:{step}]");
        }
    }

    #[test]
    fn bounds_of_free_sizes() {
        let h = Dim::symbol("H");
        let half = h.floor_div(&Dim::Known(2)).unwrap();
        for (start, end, step, count, crop) in [
            (Dim::Known(1), Dim::Known(i64::MAX), 1, "H-1", Some((1, None))),
            (Dim::Known(0), Dim::Known(-1), 1, "H-1", Some((0, Some(-1)))),
            (Dim::Known(-1), Dim::Known(i64::MAX), 1, "1", Some((-1, None))),
            (Dim::Known(0), Dim::Known(1), 1, "1", Some((0, Some(1)))),
            (Dim::Known(0), half, 1, "min(floor_div(H, 2), H)", None),
            (Dim::Known(0), Dim::Known(i64::MAX), 2, "floor_div(H+1, 2)", None),
        ] {
            let cut = cut(0, &h, (&start, &end), step, &|_| Ok(())).unwrap();
            assert_eq!(cut.count.to_string(), count, "[{start}:{end}:{step}]");
            assert_eq!(cut.crop(&h).unwrap(), crop, "[{start}:{end}:{step}]");
        }
    }
}
