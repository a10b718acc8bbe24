//! Layers that copy a part of a Mat, or replace it.

use ndarray::{ArrayBase, ArrayViewD, Axis, IxDyn, RawData, Slice as Range};
use num_traits::AsPrimitive;

use crate::common::int::Int;
use crate::error::{At, Result, invalid};
use crate::ncnn::layer::{CopyTo, Crop, Slice};
use crate::reference::Mat;
use crate::reference::array::{axis, bottom, by_axis, shaped};
use crate::reference::expression::{axis_names, evaluate, size_of};

/// A start or an end that is the one of the axis, or a size that is the rest.
const REST: i64 = -233;
/// The first index along an axis, and the number of them.
type Part = (i64, i64);

/// Narrows an array to a part of each axis.
pub(super) fn narrow<S: RawData>(array: &mut ArrayBase<S, IxDyn>, parts: &[Part]) -> Result<()> {
    for (index, (start, count)) in parts.iter().copied().enumerate() {
        let all = array.len_of(Axis(index)).int();
        match start.checked_add(count) {
            Some(end) if start >= 0 && count > 0 && end <= all => {
                let range = Range::from(usize::try_from(start)?..usize::try_from(end)?);
                array.slice_axis_inplace(Axis(index), range);
            }
            _ => invalid!("{count} elements from index {start} on of {all}"),
        }
    }
    Ok(())
}

/// Returns a part of each axis of a Mat.
fn part_of(mat: &Mat, parts: &[Part]) -> Result<Mat> {
    let mut view = mat.view();
    narrow(&mut view, parts)?;
    Ok(view.as_standard_layout().into_owned())
}

/// Returns a Mat in which a part of each axis is replaced; the parts have the sizes of `source`.
pub(super) fn replaced(mut mat: Mat, starts: &[i64], source: ArrayViewD<f64>) -> Result<Mat> {
    let mut target = mat.view_mut();
    let parts: Vec<Part> = starts.iter().copied().zip(source.shape().iter().map(Int::int)).collect();
    narrow(&mut target, &parts)?;
    target.assign(&source);
    Ok(mat)
}

/// Writes `source` at an offset into a copy of `mat`; a Mat of the same sizes replaces it whole.
pub(super) fn copy_to(layer: &CopyTo, mat: &Mat, source: &Mat) -> Result<Mat> {
    if mat.shape() == source.shape() {
        return Ok(source.clone());
    }
    let starts: Vec<i64> = if layer.starts.is_empty() {
        let offsets = [layer.woffset, layer.hoffset, layer.doffset, layer.coffset];
        by_axis(mat.ndim(), offsets)?.into_iter().map(i64::from).collect()
    } else {
        let ends = vec![REST; layer.starts.len()];
        ranges(mat, &wide(&layer.starts), &ends, &wide(&layer.axes))?
            .into_iter()
            .map(|(start, _)| start)
            .collect()
    };
    // Axes that the source has not are of size 1.
    let names = axis_names(mat.ndim())?.chars();
    let sizes: Vec<usize> = names.map(|name| size_of(source, name)).collect::<Result<_>>()?;
    replaced(mat.clone(), &starts, shaped(&sizes, source.iter().copied().collect())?.view())
}

/// Returns params as wide integers.
fn wide(params: &[i32]) -> Vec<i64> {
    params.iter().copied().map(i64::from).collect()
}

/// Returns the part of each axis from `starts` to `ends`, which count from the end if they are negative.
///
/// `axes` lists the axes; without it they are the first ones. An end of 0 is the end of the axis.
fn ranges(mat: &Mat, starts: &[i64], ends: &[i64], axes: &[i64]) -> Result<Vec<Part>> {
    let mut parts: Vec<Part> = mat.shape().iter().map(|size| (0, size.int())).collect();
    let axes = if axes.is_empty() { (0..mat.ndim().int()).collect() } else { axes.to_vec() };
    for (index, param) in axes.into_iter().enumerate() {
        let axis = axis(i32::try_from(param)?, mat.ndim())?;
        let size = mat.shape().at(axis)?.int();
        let start = match *starts.at(index)? {
            REST => 0,
            start if start < 0 => size.saturating_add(start),
            start => start,
        };
        let end = match *ends.at(index)? {
            REST => size,
            end if end > 0 => size.min(end),
            end => size.saturating_add(end),
        };
        parts.put(axis, (start, end.saturating_sub(start)));
    }
    Ok(parts)
}

/// Returns a part, by expressions, by starts and ends, by params for each axis, or by the second bottom.
pub(super) fn crop(layer: &Crop, mat: &Mat, bottoms: &[&Mat]) -> Result<Mat> {
    let names = axis_names(mat.ndim())?;
    let params = |name| match name {
        'w' => (layer.woffset, layer.woffset2, layer.outw),
        'h' => (layer.hoffset, layer.hoffset2, layer.outh),
        'd' => (layer.doffset, layer.doffset2, layer.outd),
        _ => (layer.coffset, layer.coffset2, layer.outc),
    };
    let states_size = |name| {
        let (_, after, count) = params(name);
        after != 0 || count != 0
    };
    let parts = if !layer.starts_expr.is_empty() && !layer.ends_expr.is_empty() {
        let [starts, ends, axes] =
            [&layer.starts_expr, &layer.ends_expr, &layer.axes_expr].map(|text| evaluate(text, bottoms));
        ranges(mat, &starts?, &ends?, &axes?)?
    } else if !layer.starts.is_empty() && !layer.ends.is_empty() {
        ranges(mat, &wide(&layer.starts), &wide(&layer.ends), &wide(&layer.axes))?
    } else if "whdc".chars().any(states_size) {
        let part = |(name, size): (char, &usize)| {
            let (before, after, count) = params(name);
            let rest = size.int() - i64::from(before) - i64::from(after);
            (before.into(), if i64::from(count) == REST { rest } else { rest.min(count.into()) })
        };
        names.chars().zip(mat.shape()).map(part).collect()
    } else {
        let reference = bottom(bottoms, 1)?;
        let part = |name| {
            if i64::from(layer.woffset) == REST {
                return listed_part(reference, mat.ndim(), name);
            }
            let whole = name == 'c' && reference.ndim() != mat.ndim();
            let count = size_of(if whole { mat } else { reference }, name)?;
            Ok((params(name).0.into(), count.int()))
        };
        names.chars().map(part).collect::<Result<_>>()?
    };
    part_of(mat, &parts)
}

/// Returns the part along an axis that the elements of a bottom list: the offsets of the axes, and their
/// sizes.
fn listed_part(list: &Mat, axes: usize, name: char) -> Result<Part> {
    // Only d has no elements if it is absent.
    let order = if axes == 4 { "whdc" } else { "whc" };
    let index = order.chars().position(|other| other == name);
    let element = |index: usize| list.iter().nth(index).map(|x| AsPrimitive::<i64>::as_(*x));
    match index.and_then(|index| element(index).zip(element(order.len() + index))) {
        Some(part) => Ok(part),
        None => invalid!("a list of {} elements of offsets and sizes of {axes} axes", list.len()),
    }
}

/// Returns parts along an axis, by their sizes or by the indices between them.
pub(super) fn slice(layer: &Slice, mat: &Mat, tops: usize) -> Result<Vec<Mat>> {
    let index = axis(layer.axis, mat.ndim())?;
    let all = mat.len_of(Axis(index)).int();
    let mut parts: Vec<Part> = mat.shape().iter().map(|size| (0, size.int())).collect();
    let mut start = 0;
    let mut slices = Vec::new();
    for top in 0..tops {
        let left = all - start;
        let count = if layer.indices.is_empty() {
            match i64::from(*layer.slices.at(top)?) {
                REST => left / (tops - top).int(),
                count => count,
            }
        } else if top + 1 == tops {
            left
        } else {
            let end = i64::from(*layer.indices.at(top)?);
            if end < 0 { left + end } else { end - start }
        };
        parts.put(index, (start, count));
        slices.push(part_of(mat, &parts)?);
        start += count;
    }
    Ok(slices)
}
