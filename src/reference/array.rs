//! What several layers need of arrays.

use ndarray::{ArrayD, IxDyn};

use super::Mat;
use super::expression::axis_names;
use crate::error::{Error, Result, invalid};
use crate::ncnn::layer::axis_index;
use crate::tensor::Tensor;

/// Returns bottom `index`.
pub(super) fn bottom<'a>(bottoms: &[&'a Mat], index: usize) -> Result<&'a Mat> {
    match bottoms.get(index) {
        Some(bottom) => Ok(bottom),
        None => invalid!("it has {} bottoms, and needs bottom {index}", bottoms.len()),
    }
}

/// Returns the elements of a weight as a list.
///
/// # Errors
///
/// `Invalid` if the weight is absent or has another number of elements, `Io` if it cannot be read.
pub(super) fn weight(weight: &Option<Tensor>, len: usize) -> Result<Vec<f64>> {
    let Some(tensor) = weight else { invalid!("a weight of {len} elements is missing") };
    if tensor.len() != len {
        invalid!("a weight has {} elements instead of {len}", tensor.len());
    }
    // Weights are large: the elements are moved, not copied.
    match tensor.load()?.to_f64()?.into_flat().into_raw_vec_and_offset() {
        (elements, None | Some(0)) if elements.len() == len => Ok(elements),
        _ => Err(Error::internal("the elements of a weight are a part of others")),
    }
}

/// Returns an array of these sizes, outermost first.
pub(super) fn shaped(sizes: &[usize], elements: Vec<f64>) -> Result<Mat> {
    let count = elements.len();
    ArrayD::from_shape_vec(IxDyn(sizes), elements)
        .map_err(|_| Error::invalid(format!("{count} elements as {sizes:?}")))
}

/// Returns the params along w, h, d and c that apply to a Mat of `axes` axes, outermost first.
pub(super) fn by_axis(axes: usize, [w, h, d, c]: [i32; 4]) -> Result<Vec<i32>> {
    let param = |name| match name {
        'w' => w,
        'h' => h,
        'd' => d,
        _ => c,
    };
    Ok(axis_names(axes)?.chars().map(param).collect())
}

/// Returns a size or a count that a param has.
pub(super) fn size(param: i32) -> Result<usize> {
    usize::try_from(param).map_err(|_| Error::invalid(format!("a size of {param}")))
}

/// Returns the index of an axis; a negative one counts from the end.
pub(super) fn axis(param: i32, axes: usize) -> Result<usize> {
    match axis_index(param, axes) {
        Some(index) => Ok(index),
        None => invalid!("axis {param} of {axes} axes"),
    }
}
