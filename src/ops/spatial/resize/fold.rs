//! Evaluation of Resize on constants, such as positions that a network interpolates to the size of its input.

use ndarray::{ArrayD, Axis};

use super::axis::{AxisMap, onnx_map};
use super::node::{AxisResize, Resize, read_resize};
use crate::ops::prelude::*;

pub(super) fn fold_resize(call: &Call) -> Result<Vec<Array>> {
    let data = call.array(0)?;
    let resize = read_resize(call)?;
    let mut result = data.clone();
    for (axis, map) in changed_axes(&resize, call.shape(0)?, data.dtype())? {
        result = resized(&result, axis, &map, resize.extrapolation_value)?;
    }
    Ok(vec![result.cast(data.dtype())?])
}

/// Returns whether [`fold_resize`] evaluates the node.
pub(super) fn is_defined(call: &Call) -> bool {
    let evaluates = || {
        let resize = read_resize(call)?;
        changed_axes(&resize, call.shape(0)?, call.dtype(0)?).map(drop)
    };
    evaluates().is_ok()
}

/// Returns the axes whose elements change, and their maps.
fn changed_axes<'a>(
    resize: &'a Resize,
    shape: &[Dim],
    dtype: DType,
) -> Result<Vec<(&'a AxisResize, AxisMap)>> {
    let mut maps = Vec::new();
    for axis in &resize.axes {
        let input = shape.at(axis.axis)?;
        if resize.keeps(input, axis) {
            continue;
        }
        let map = onnx_map(&resize.filter, axis, input.known().unwrap_or(0))?;
        if !dtype.is_float() && map.copied_elements().is_none() {
            unsupported!("interpolation of {dtype}: the output is rounded");
        }
        maps.push((axis, map));
    }
    // Axes that shrink are the first, so no intermediate array is larger than both ends.
    maps.sort_by(|(a, _), (b, _)| a.scale.unwrap_or(1.0).total_cmp(&b.scale.unwrap_or(1.0)));
    Ok(maps)
}

/// Applies the map of an axis: copies elements of any type, and sums floats as float64.
fn resized(array: &Array, axis: &AxisResize, map: &AxisMap, extrapolation_value: f32) -> Result<Array> {
    if let Some(elements) = map.copied_elements() {
        let elements: std::result::Result<Vec<usize>, _> =
            elements.into_iter().map(usize::try_from).collect();
        return array.gather(axis.axis, &elements?);
    }
    let from = array.to_f64()?;
    let axis = Axis(axis.axis);
    let mut shape = from.shape().to_vec();
    shape.put(axis.index(), map.rows.len());
    let mut to = ArrayD::from_elem(shape, f64::from(extrapolation_value));
    for ((mut to, row), outside) in to.axis_iter_mut(axis).zip(&map.rows).zip(&map.outside) {
        if *outside {
            continue;
        }
        to.fill(0.0);
        for (at, weight) in row {
            to.scaled_add(f64::from(*weight), &from.index_axis(axis, *at));
        }
    }
    Ok(Array::new(DType::F64, Elements::F64(to)))
}
