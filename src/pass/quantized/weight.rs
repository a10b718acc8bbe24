//! Quantized constants: weights and biases.

use num_traits::AsPrimitive;

use super::step::{constant_input, dequantize_before};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::layer::LARGEST_INT8;
use crate::op::resolve_axis;
use crate::pass::pattern::{int, producer};
use crate::tensor::{Array, DType, Tensor};

/// The maximum width of a quantized weight.
const MAX_BITS: usize = 8;

/// A quantized matrix or kernel as integers of ncnn's int8 layers, with the outputs along the first axis.
pub(super) struct Levels {
    /// The constant of the model, if it has these integers already.
    pub value: Option<ValueId>,
    /// The scale of each output.
    pub scales: Vec<f32>,
    shape: Vec<usize>,
    levels: Vec<i64>,
}

impl Levels {
    /// Reads input 1 of a node; `axis` is the axis of the outputs: 0, or 1 in a matrix. Integers of an output
    /// that exceed ncnn's are rounded to steps of their largest magnitude.
    pub fn read(graph: &Graph, node: &Node, axis: usize) -> Result<Option<Levels>> {
        let Some(dequantize) = dequantize_before(graph, node, 1) else { return Ok(None) };
        let Some(constant) = constant_input(graph, dequantize, 0) else { return Ok(None) };
        let dtype = constant.dtype();
        let mut shape = constant.shape().to_vec();
        let outputs = shape.get(axis).copied().unwrap_or(0);
        let is_narrow = dtype.int_range().is_some() && dtype.bits() <= MAX_BITS;
        let Some(mut scales) = scales(graph, dequantize, outputs, axis)?.filter(|_| is_narrow) else {
            return Ok(None);
        };
        let Some(zeros) = zero_points(graph, dequantize, outputs)? else { return Ok(None) };
        let mut levels = constant.load_listed()?.int_list()?;
        let Some(each) = levels.len().checked_div(outputs).filter(|each| *each > 0) else { return Ok(None) };
        if axis == 1 {
            let columns = std::mem::take(&mut levels);
            levels = (0..outputs)
                .flat_map(|output| columns.iter().skip(output).step_by(outputs).copied())
                .collect();
            shape.reverse();
        }
        let mut is_unchanged = dtype == DType::I8 && axis == 0 && zeros.iter().all(|zero| *zero == 0);
        for ((row, zero), scale) in levels.chunks_mut(each).zip(zeros).zip(&mut scales) {
            row.iter_mut().for_each(|level| *level -= zero);
            let largest = row.iter().map(|level| level.abs()).max().unwrap_or(0);
            let largest: f64 = largest.as_();
            if largest > LARGEST_INT8 {
                is_unchanged = false;
                let ratio = LARGEST_INT8 / largest;
                for level in row {
                    let exact: f64 = (*level).as_();
                    *level = (exact * ratio).round().as_();
                }
                *scale = (f64::from(*scale) / ratio).as_();
            }
        }
        let value = dequantize.input(0).filter(|_| is_unchanged);
        Ok(Some(Levels { value, scales, shape, levels }))
    }

    /// Returns the integers.
    pub fn tensor(&self) -> Result<Tensor> {
        let levels = ndarray::ArrayD::from_shape_vec(self.shape.clone(), self.levels.clone())?;
        Tensor::from_array(&Array::i64(levels).cast(DType::I8)?)
    }
}

/// Returns the zero point of each of `outputs`, if they are constant.
fn zero_points(graph: &Graph, dequantize: &Node, outputs: usize) -> Result<Option<Vec<i64>>> {
    if dequantize.input(2).is_none() {
        return Ok(Some(vec![0; outputs]));
    }
    let Some(zeros) = constant_input(graph, dequantize, 2) else { return Ok(None) };
    let zeros = zeros.load_listed()?.int_list()?;
    Ok(match zeros.as_slice() {
        [one] => Some(vec![*one; outputs]),
        _ => Some(zeros).filter(|zeros| zeros.len() == outputs),
    })
}

/// Returns the scale of each of `outputs` along an axis of the constant that DequantizeLinear reads, if it
/// has one without blocks whose reciprocals are normal floats.
pub(super) fn scales(
    graph: &Graph,
    dequantize: &Node,
    outputs: usize,
    axis: usize,
) -> Result<Option<Vec<f32>>> {
    let Some(scale) = constant_input(graph, dequantize, 1) else { return Ok(None) };
    let rank = constant_input(graph, dequantize, 0).map_or(0, |constant| constant.shape().len());
    let is_axis =
        resolve_axis(int(dequantize, "axis").unwrap_or(1), rank).is_ok_and(|resolved| resolved == axis);
    let list = scale.load_listed()?.float_list()?;
    let list = match list.as_slice() {
        [one] => vec![*one; outputs],
        _ if list.len() == outputs && scale.shape().len() == 1 && (is_axis || rank == 1) => list,
        _ => return Ok(None),
    };
    let is_regular = list.iter().all(|scale| scale.is_normal() && *scale > 0.0 && (1.0 / scale).is_normal());
    let has_blocks = int(dequantize, "block_size").is_some_and(|size| size != 0);
    Ok(Some(list).filter(|_| is_regular && !has_blocks))
}

/// Whether all zero points of DequantizeLinear are 0.
pub(super) fn is_symmetric(graph: &Graph, dequantize: &Node) -> Result<bool> {
    let Some(zero) = dequantize.input(2) else { return Ok(true) };
    let Some(zero) = &graph.value(zero).constant else { return Ok(false) };
    Ok(zero.load_listed()?.to_i64()?.iter().all(|zero| *zero == 0))
}

/// Returns the bias of a product, quantized or not, if it is a constant of one row; zeros if there is none.
pub(super) fn bias(graph: &Graph, value: Option<ValueId>, outputs: usize) -> Result<Option<Vec<f32>>> {
    let Some(value) = value else { return Ok(Some(vec![0.0; outputs])) };
    let rows = graph.value(value).shape.as_deref().and_then(|shape| shape.split_last()).map(|(_, rows)| rows);
    if !rows.is_some_and(|rows| rows.iter().all(|size| size.is(1))) {
        return Ok(None);
    }
    let list = if let Some(constant) = &graph.value(value).constant {
        constant.load_listed()?.float_list()?
    } else {
        let Some(dequantize) = producer(graph, value, "DequantizeLinear") else { return Ok(None) };
        let Some(constant) = constant_input(graph, dequantize, 0) else { return Ok(None) };
        let Some(scales) = scales(graph, dequantize, constant.len(), 0)? else { return Ok(None) };
        if !is_symmetric(graph, dequantize)? {
            return Ok(None);
        }
        let levels = constant.load_listed()?.int_list()?;
        levels.iter().zip(scales).map(|(level, scale)| AsPrimitive::<f32>::as_(*level) * scale).collect()
    };
    Ok(Some(list).filter(|list| list.len() == outputs))
}
