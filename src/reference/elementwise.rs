//! Arithmetic on several blobs, and on a blob and weights along its outermost axis.

use ndarray::Zip;

use super::Mat;
use super::array::{axis, bottom, shaped, weight};
use crate::error::{At, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::ncnn::layer::{BinaryOp, Eltwise, Scale, binary_op};
use crate::tensor::Tensor;

/// Computes a layer of several blobs, or of one along its outermost axis.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    match layer {
        Layer::Bias(l) => {
            let bottom = bottom(bottoms, 0)?;
            // The runtime takes one or two axes for a single channel.
            if bottom.ndim() < 3 {
                unsupported!("a Bias over {} axes", bottom.ndim());
            }
            Ok(bottom + along_outermost(&l.bias_data, bottom, false)?)
        }
        Layer::BinaryOp(l) => binary(l, bottoms),
        Layer::Eltwise(l) => eltwise(l, bottoms),
        Layer::Scale(l) => scale(l, bottoms),
        _ => unsupported!("{} as an elementwise layer", layer.type_name()),
    }
}

/// Returns a weight with an element for each index of the outermost axis of `bottom`, as an array that
/// broadcasts to it. If `shared`, a single element is the same for all.
pub(super) fn along_outermost(data: &Option<Tensor>, bottom: &Mat, shared: bool) -> Result<Mat> {
    let single = shared && data.as_ref().is_some_and(|tensor| tensor.len() == 1);
    let len = if single { 1 } else { outermost(bottom)? };
    broadcast_outermost(weight(data, len)?, bottom.ndim())
}

/// Returns the size of the outermost axis.
pub(super) fn outermost(bottom: &Mat) -> Result<usize> {
    bottom.shape().at(axis(0, bottom.ndim())?).copied()
}

/// Returns elements as an array of this number of axes, all but the outermost one of size 1.
fn broadcast_outermost(elements: Vec<f64>, axes: usize) -> Result<Mat> {
    let sizes: Vec<usize> = (0..axes).map(|axis| if axis == 0 { elements.len() } else { 1 }).collect();
    shaped(&sizes, elements)
}

/// Computes a Scale; without `scale_data` the second bottom is the scale.
fn scale(layer: &Scale, bottoms: &[&Mat]) -> Result<Mat> {
    let blob = bottom(bottoms, 0)?;
    let scale = if layer.scale_data.is_some() {
        along_outermost(&layer.scale_data, blob, false)?
    } else {
        let scale = bottom(bottoms, 1)?;
        if scale.len() != outermost(blob)? {
            invalid!("{} scales for a bottom of {:?}", scale.len(), blob.shape());
        }
        broadcast_outermost(scale.iter().copied().collect(), blob.ndim())?
    };
    let scaled = blob * scale;
    match layer.bias_data {
        Some(_) => Ok(scaled + along_outermost(&layer.bias_data, blob, false)?),
        None => Ok(scaled),
    }
}

/// Computes the product, the weighted sum or the maximum of bottoms of one shape.
fn eltwise(layer: &Eltwise, bottoms: &[&Mat]) -> Result<Mat> {
    let first = bottom(bottoms, 0)?;
    if let Some(other) = bottoms.iter().find(|other| other.shape() != first.shape()) {
        invalid!("bottoms of {:?} and {:?}", first.shape(), other.shape());
    }
    let weighted = layer.op_type == 1 && !layer.coeffs.is_empty();
    if weighted && layer.coeffs.len() < bottoms.len() {
        invalid!("{} coefficients for {} bottoms", layer.coeffs.len(), bottoms.len());
    }
    let combine: fn(f64, f64) -> f64 = match layer.op_type {
        0 => |x, y| x * y,
        1 => |x, y| x + y,
        2 => f64::max,
        _ => invalid!("an Eltwise of type {}", layer.op_type),
    };
    let coeffs = layer.coeffs.iter().map(|coeff| if weighted { f64::from(*coeff) } else { 1.0 });
    let mut terms = bottoms.iter().zip(coeffs.chain(std::iter::repeat(1.0)));
    let Some((first, coeff)) = terms.next() else { invalid!("it has no bottom") };
    let mut top = first.mapv(|x| x * coeff);
    for (term, coeff) in terms {
        Zip::from(&mut top).and(*term).for_each(|x, y| *x = combine(*x, y * coeff));
    }
    Ok(top)
}

/// Computes a BinaryOp, on two blobs or on a blob and a constant.
fn binary(layer: &BinaryOp, bottoms: &[&Mat]) -> Result<Mat> {
    let function = binary_function(layer.op_type)?;
    let a = bottom(bottoms, 0)?;
    if layer.with_scalar != 0 {
        let b = f64::from(layer.b);
        return Ok(a.mapv(|x| function(x, b)));
    }
    let b = bottom(bottoms, 1)?;
    let axes = a.ndim().max(b.ndim());
    let (a, b) = (expand(a, b, axes)?, expand(b, a, axes)?);
    let sizes: Vec<usize> = a.shape().iter().zip(b.shape()).map(|(x, y)| *x.max(y)).collect();
    let (Some(x), Some(y)) = (a.broadcast(sizes.as_slice()), b.broadcast(sizes.as_slice())) else {
        invalid!("bottoms of {:?} and {:?}", a.shape(), b.shape());
    };
    Ok(Zip::from(x).and(y).map_collect(|x, y| function(*x, *y)))
}

/// Returns `blob` with as many axes as the other bottom.
///
/// The axes that it has are the outermost ones. But a single axis is the innermost one if it does not have
/// the size of the other's outermost axis.
fn expand(blob: &Mat, other: &Mat, axes: usize) -> Result<Mat> {
    let inner = blob.ndim() == 1 && blob.len() != outermost(other)?;
    let ones = std::iter::repeat_n(1, axes.saturating_sub(blob.ndim()));
    let sizes_of_blob = blob.shape().iter().copied();
    let sizes: Vec<usize> =
        if inner { ones.chain(sizes_of_blob).collect() } else { sizes_of_blob.chain(ones).collect() };
    Ok(blob.to_shape(sizes)?.into_owned())
}

/// Returns the function of a BinaryOp.
fn binary_function(op_type: i32) -> Result<fn(f64, f64) -> f64> {
    Ok(match op_type {
        binary_op::ADD => |x, y| x + y,
        binary_op::SUB => |x, y| x - y,
        binary_op::MUL => |x, y| x * y,
        binary_op::DIV => |x, y| x / y,
        binary_op::MAX => f64::max,
        binary_op::MIN => f64::min,
        binary_op::POW => libm::pow,
        binary_op::RSUB => |x, y| y - x,
        binary_op::RDIV => |x, y| y / x,
        binary_op::RPOW => |x, y| libm::pow(y, x),
        binary_op::ATAN2 => libm::atan2,
        binary_op::RATAN2 => |x, y| libm::atan2(y, x),
        binary_op::FMOD => |x, y| x % y,
        binary_op::RFMOD => |x, y| y % x,
        binary_op::LOGADDEXP => log_add_exp,
        binary_op::FLOOR_DIVIDE => |x, y| (x / y).floor(),
        binary_op::RFLOOR_DIVIDE => |x, y| (y / x).floor(),
        binary_op::REMAINDER => libm::remainder,
        binary_op::RREMAINDER => |x, y| libm::remainder(y, x),
        _ => invalid!("a BinaryOp of type {op_type}"),
    })
}

/// Returns `log(exp(x) + exp(y))`, without overflow.
pub(super) fn log_add_exp(x: f64, y: f64) -> f64 {
    // The difference of equal infinities is NaN.
    let ratio = if x == y { 1.0 } else { libm::exp(-(x - y).abs()) };
    x.max(y) + libm::log1p(ratio)
}
