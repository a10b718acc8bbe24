//! The attributes and inputs of a node: its function and its axes.

use crate::ops::prelude::*;

/// The function of the reduced elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    L1,
    L2,
    LogSum,
    LogSumExp,
    Max,
    Mean,
    Min,
    Prod,
    Sum,
    SumSquare,
}

pub(super) struct ReduceAttributes {
    pub keepdims: bool,
    /// Whether an empty list of axes means none instead of all.
    pub noop_with_empty_axes: bool,
    /// The axes, if they are an attribute.
    pub axes: Option<Vec<i64>>,
}

pub(super) fn read_reduce(call: &Call) -> Result<ReduceAttributes> {
    Ok(ReduceAttributes {
        keepdims: call.flag("keepdims")?,
        noop_with_empty_axes: call.flag("noop_with_empty_axes")?,
        axes: call.optional_ints("axes")?,
    })
}

impl ReduceAttributes {
    /// Returns for each of `rank` axes whether it is reduced; `input` are the axes in the input.
    pub fn reduced(&self, input: Option<Vec<i64>>, rank: usize) -> Result<Vec<bool>> {
        let axes = self.axes.clone().or(input).unwrap_or_default();
        if axes.is_empty() {
            return Ok(vec![!self.noop_with_empty_axes; rank]);
        }
        let mut reduced = vec![false; rank];
        for axis in axes {
            // A scalar may be reduced along its axis 0 or -1, as in numpy.
            if rank == 0 && (-1..=0).contains(&axis) {
                continue;
            }
            reduced.put(resolve_axis(axis, rank)?, true);
        }
        Ok(reduced)
    }

    /// Returns the shape of the output.
    pub fn shape(&self, input: &[Dim], reduced: &[bool]) -> Vec<Dim> {
        reduced_shape(input, reduced, self.keepdims.then_some(Dim::ONE))
    }
}

/// Returns for each axis of the input whether it is reduced.
pub(super) fn reduced_axes(call: &Call, reduce: &ReduceAttributes) -> Result<Vec<bool>> {
    let shape = call.shape(0)?;
    if !call.has_input(1) {
        return reduce.reduced(None, shape.len());
    }
    if let Some(axes) = call.shape(1).ok().filter(|axes| axes.len() != 1) {
        return Err(
            Error::invalid(format!("axes of rank {}, expected a list", axes.len())).at_part(call.label(1))
        );
    }
    match call.axes(1) {
        Ok(axes) => reduce.reduced(Some(axes), shape.len()),
        Err(error) => deduced_axes(call, reduce, shape).ok_or(error),
    }
}

/// Returns the axes computed at run time if the declared shape leaves one choice.
fn deduced_axes(call: &Call, reduce: &ReduceAttributes, shape: &[Dim]) -> Option<Vec<bool>> {
    let mut choices = choices(call, reduce, shape)?;
    choices.pop().filter(|_| choices.is_empty())
}

/// Returns the choices of axes that give the declared shape. Choices that differ only in unit axes are
/// equivalent.
pub(super) fn choices(call: &Call, reduce: &ReduceAttributes, shape: &[Dim]) -> Option<Vec<Vec<bool>>> {
    let count = call.shape(1).ok()?.first()?.known()?;
    if count == 0 {
        return Some(vec![reduce.reduced(Some(Vec::new()), shape.len()).ok()?]);
    }
    let output = call.output_shape(0).ok()?;
    if shape.len() > MAX_DEDUCED_RANK || !shape.iter().chain(output).all(|d| d.known().is_some()) {
        return None;
    }
    let count = usize::try_from(count).ok()?;
    let matters = |reduced: &[bool]| -> Vec<bool> {
        reduced.iter().zip(shape).map(|(reduced, size)| *reduced && !size.is(1)).collect()
    };
    let mut found: Vec<Vec<bool>> = Vec::new();
    for choice in 0..1_usize << shape.len() {
        let reduced: Vec<bool> = (0..shape.len()).map(|axis| choice & (1 << axis) != 0).collect();
        if reduced.iter().filter(|reduced| **reduced).count() == count
            && reduce.shape(shape, &reduced) == output
            && !found.iter().any(|other| matters(other) == matters(&reduced))
        {
            found.push(reduced);
        }
    }
    if !found.is_empty() {
        call.replace_by_sizes(1);
    }
    Some(found)
}

/// The maximum rank for which the reduced axes are searched.
const MAX_DEDUCED_RANK: usize = 8;

/// Returns the shape of a reduction: a reduced axis has the size `kept`, or disappears.
pub(super) fn reduced_shape<T: Clone>(shape: &[T], reduced: &[bool], kept: Option<T>) -> Vec<T> {
    let size = |(size, reduced): (&T, &bool)| if *reduced { kept.clone() } else { Some(size.clone()) };
    shape.iter().zip(reduced).filter_map(size).collect()
}

/// Returns the numbers of the reduced axes.
pub(super) fn axis_numbers(reduced: &[bool]) -> Vec<i64> {
    (0..).zip(reduced).filter_map(|(axis, reduced)| reduced.then_some(axis)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axes_are_counted_from_either_end() {
        let reduce = |noop| ReduceAttributes { keepdims: true, noop_with_empty_axes: noop, axes: None };
        assert_eq!(reduce(false).reduced(Some(vec![-1, 0]), 3).unwrap(), [true, false, true]);
        assert_eq!(reduce(false).reduced(None, 2).unwrap(), [true, true]);
        assert_eq!(reduce(true).reduced(Some(Vec::new()), 2).unwrap(), [false, false]);
        assert_eq!(reduce(false).reduced(Some(vec![0]), 0).unwrap(), Vec::<bool>::new());
        assert!(reduce(false).reduced(Some(vec![2]), 2).is_err());
    }
}
