//! Lowering of Resize to ncnn's layers.

use super::axis::{AxisMap, INTERP_MODES, InterpMode, interp_map, onnx_map};
use super::free;
use super::node::{AxisResize, Mode, Resize, read_resize};
use super::plane::{interpolate, is_plane};
use super::product::multiply;
use crate::lower::line_form;
use crate::ops::prelude::*;

pub(super) fn lower_resize(lower: &Lower) -> Result<()> {
    let resize = read_resize(lower)?;
    let shape = lower.shape(0)?.to_vec();
    let mut changed = Vec::new();
    for axis in &resize.axes {
        if !resize.keeps(shape.at(axis.axis)?, axis) {
            changed.push(axis.clone());
        }
    }
    if changed.is_empty() {
        return lower.give(0, lower.input(0));
    }
    changed.sort_by_key(|axis| axis.axis);
    let dtype = lower.dtype(0)?;
    if !matches!(resize.filter.mode, Mode::Nearest(_)) && !dtype.is_float() {
        unsupported!("interpolation of {dtype}: the output is rounded");
    }
    let outputs = changed.iter().map(|axis| &axis.output);
    if shape.iter().chain(outputs).all(|size| size.known().is_some()) {
        return lower_fixed(lower, &resize, &shape, &changed);
    }
    free::lower_free(lower, &resize, &shape, &changed)
}

/// Lowers a Resize of known sizes: each axis is a map, which Interp computes if its map is the same.
fn lower_fixed(lower: &Lower, resize: &Resize, shape: &[Dim], changed: &[AxisResize]) -> Result<()> {
    let map = |axis: &AxisResize| onnx_map(&resize.filter, axis, shape.at(axis.axis)?.known().unwrap_or(0));
    let maps = changed.iter().map(map).collect::<Result<Vec<_>>>()?;
    if let ([a, b], [map_a, map_b]) = (changed, maps.as_slice())
        && is_plane(shape, a.axis, b.axis)
        && let Some(mode) = common_mode(map_a, map_b)
    {
        return lower.give(0, interpolate(lower, lower.input(0), changed, mode, None)?);
    }
    let y = changed.iter().zip(&maps).try_fold(lower.input(0), |x, (axis, map)| {
        resize_axis(lower, x, axis, map, resize.extrapolation_value)
    });
    lower.give(0, y?)
}

/// Returns the modes of Interp that compute `map`.
fn matching_modes(map: &AxisMap) -> impl Iterator<Item = InterpMode> + '_ {
    let (input, output) = (i64::try_from(map.input), i64::try_from(map.rows.len()));
    INTERP_MODES.into_iter().filter(move |mode| match (&input, &output) {
        (Ok(input), Ok(output)) => interp_map(*mode, *input, *output).is_some_and(|interp| interp.same(map)),
        _ => false,
    })
}

/// Returns the first mode of Interp that computes both maps.
fn common_mode(a: &AxisMap, b: &AxisMap) -> Option<InterpMode> {
    matching_modes(a).find(|mode| matching_modes(b).any(|other| other == *mode))
}

/// Returns the map of one axis.
fn resize_axis<'l>(
    lower: &'l Lower,
    x: Nd<'l>,
    axis: &AxisResize,
    map: &AxisMap,
    extrapolation_value: f32,
) -> Result<Nd<'l>> {
    if let Some(elements) = map.copied_elements() {
        return Ok(x.pick(axis.axis, &elements));
    }
    let shape = x.shape();
    let [_, inner] = Dim::around(&shape, axis.axis);
    let keeps = |mode| {
        let width = inner.known().unwrap_or(0);
        inner.is(1) || interp_map(mode, width, width).is_some()
    };
    if let Some(mode) = matching_modes(map).next()
        && keeps(mode)
    {
        return interpolate(lower, x, std::slice::from_ref(axis), mode, None);
    }
    let y = multiply(lower, x, axis.axis, map)?;
    if extrapolation_value == 0.0 || !map.outside.contains(&true) {
        return Ok(y);
    }
    let values = map.outside.iter().map(|outside| if *outside { extrapolation_value } else { 0.0 });
    let values = lower.tensor(Tensor::from_f32(&[map.rows.len()], values.collect()));
    Ok(y + values.reshape(line_form(&axis.output, axis.axis, shape.len())))
}
