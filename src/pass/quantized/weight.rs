//! Quantized constants: weights and biases.

use num_traits::AsPrimitive;

use super::step::{constant_input, dequantize_before};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::ncnn::layer::LARGEST_INT8;
use crate::op::resolve_axis;
use crate::pass::pattern::{int, producer};
use crate::tensor::{DType, Tensor};

/// The maximum width of a quantized weight.
const MAX_BITS: usize = 8;

/// A quantized matrix or kernel as integers of ncnn's int8 layers, with the outputs along the first axis.
pub(super) struct Levels {
    /// The constant of the model, if it has these integers already.
    pub value: Option<ValueId>,
    /// The scale of each output.
    pub scales: Vec<f32>,
    shape: Vec<usize>,
    /// Integers of eight bits minus a zero point.
    levels: Vec<i16>,
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
        let mut levels = narrow_integers(constant)?;
        let Some(each) = levels.len().checked_div(outputs).filter(|each| *each > 0) else { return Ok(None) };
        if axis == 1 {
            levels = transposed(&levels, each, outputs);
            shape.reverse();
        }
        let mut is_unchanged = dtype == DType::I8 && axis == 0 && zeros.iter().all(|zero| *zero == 0);
        for ((row, zero), scale) in levels.chunks_mut(each).zip(zeros).zip(&mut scales) {
            row.iter_mut().for_each(|level| *level -= zero);
            let largest = f64::from(row.iter().map(|level| level.abs()).max().unwrap_or(0));
            if largest > LARGEST_INT8 {
                is_unchanged = false;
                let ratio = LARGEST_INT8 / largest;
                for level in row {
                    *level = (f64::from(*level) * ratio).round().as_();
                }
                *scale = (f64::from(*scale) / ratio).as_();
            }
        }
        let value = dequantize.input(0).filter(|_| is_unchanged);
        Ok(Some(Levels { value, scales, shape, levels }))
    }

    /// Returns the integers.
    pub fn tensor(&self) -> Result<Tensor> {
        let bytes = self.levels.iter().map(|level| AsPrimitive::<i8>::as_(*level).cast_unsigned());
        Tensor::from_raw(DType::I8, self.shape.clone(), bytes.collect::<Vec<u8>>().into())
    }
}

/// Returns integers of at most eight bits.
fn narrow_integers(constant: &Tensor) -> Result<Vec<i16>> {
    Ok(match (constant.dtype(), constant.raw_bytes()) {
        (DType::I8, Some(bytes)) => bytes.iter().map(|byte| byte.cast_signed().into()).collect(),
        (DType::U8, Some(bytes)) => bytes.iter().map(|byte| i16::from(*byte)).collect(),
        _ => constant.load_listed()?.int_list()?.into_iter().map(|integer| integer.as_()).collect(),
    })
}

/// The rows and columns of a part of a matrix that is transposed at once: both fit into the cache.
const TILE: usize = 64;

/// Returns the transpose of a matrix.
fn transposed(matrix: &[i16], rows: usize, columns: usize) -> Vec<i16> {
    let mut turned = vec![0; matrix.len()];
    for (tile, some_rows) in matrix.chunks(columns * TILE).enumerate() {
        for first in (0..columns).step_by(TILE) {
            for (row, elements) in some_rows.chunks(columns).enumerate() {
                let at = tile * TILE + row;
                let part = elements.iter().skip(first).take(TILE);
                let column = turned.iter_mut().skip(first * rows + at).step_by(rows);
                column.zip(part).for_each(|(turned, element)| *turned = *element);
            }
        }
    }
    turned
}

/// Returns the zero point of each of `outputs`, if they are constant.
fn zero_points(graph: &Graph, dequantize: &Node, outputs: usize) -> Result<Option<Vec<i16>>> {
    if dequantize.input(2).is_none() {
        return Ok(Some(vec![0; outputs]));
    }
    let Some(zeros) = constant_input(graph, dequantize, 2) else { return Ok(None) };
    let zeros = zeros.load_listed()?.int_list()?;
    let zeros: Vec<i16> = zeros.into_iter().map(|zero| zero.as_()).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matrices_of_any_size_are_transposed() {
        for (rows, columns) in [(1, 1), (3, 70), (130, 2), (65, 129)] {
            let matrix: Vec<i16> = (0..rows * columns).map(|element| element.as_()).collect();
            let turned = transposed(&matrix, rows, columns);
            let found =
                |row: usize, column: usize| turned[column * rows + row] == matrix[row * columns + column];
            assert!((0..rows).all(|row| (0..columns).all(|column| found(row, column))), "{rows} {columns}");
        }
    }
}
