//! Products of rows and matrices that DequantizeLinear computes from integers with a scale for each block of
//! columns become MatMulNBits, whose weights the net keeps.

use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::pass::builder::replacement_of;
use crate::pass::pattern::{LinearMap, axis, int, ints, linear_map, producer};
use crate::tensor::{Array, DType, Tensor};

/// A constant matrix in blocks, before DequantizeLinear.
struct Blocks {
    levels: Tensor,
    scales: Tensor,
    zeros: Option<Tensor>,
    /// Whether the rows of the product are the columns of the constants.
    transposed: bool,
    /// The sizes of the product: elements of a row that is multiplied, and of the result.
    columns: usize,
    rows: usize,
    block: usize,
}

/// Replaces the products. They are found before constants are folded.
pub(crate) fn pack_dequantized(graph: &mut Graph) -> Result<()> {
    graph.replace_nodes(product, |graph, node, found| {
        let Some(x) = node.input(0) else { return Ok(None) };
        let bits = found.levels.dtype().bits();
        let size = |name: &'static str, size: usize| -> Result<(&'static str, Attribute)> {
            Ok((name, Attribute::Int(size.int())))
        };
        let attributes = [
            size("K", found.columns)?,
            size("N", found.rows)?,
            size("bits", bits)?,
            size("block_size", found.block)?,
        ];
        let mut constants = vec![packed(&found, &found.levels, found.columns)?, scales(&found)?];
        let blocks = found.columns.div_ceil(found.block);
        match &found.zeros {
            Some(zeros) => constants.push(packed(&found, zeros, blocks)?),
            // The middle is that of MatMulNBits, to which signed integers are shifted.
            None if found.levels.dtype().is_unsigned() => {
                let bytes = found.rows * (blocks * bits).div_ceil(8);
                let zero = Array::i64(ndarray::ArrayD::zeros(Vec::new())).cast(DType::U8)?;
                constants.push(Tensor::filled(&zero, vec![bytes])?);
            }
            None => {}
        }
        let bias = node.input(2);
        replacement_of(graph, node, node.version, |made| {
            let inputs = [made.value(x)].into_iter().chain(constants.into_iter().map(|it| made.tensor(it)));
            let product = made.op("com.microsoft.MatMulNBits", inputs, attributes);
            Ok(Some(bias.map_or(product, |bias| product + made.value(bias))))
        })
    })?;
    Ok(())
}

/// Reads a node as a product with a matrix in blocks.
fn product(graph: &Graph, node: &Node) -> Option<Blocks> {
    let LinearMap { weight: mut matrix, mut transposed, .. } = linear_map(node)?;
    if let Some(transpose) = producer(graph, matrix, "Transpose") {
        matrix = transpose.input(0).filter(|_| ints(transpose, "perm").is_none_or(|perm| perm == [1, 0]))?;
        transposed = !transposed;
    }
    blocks(graph, matrix, transposed)
}

/// Reads a value as a matrix in blocks along the axis over which a product sums.
fn blocks(graph: &Graph, value: ValueId, transposed: bool) -> Option<Blocks> {
    let node = producer(graph, value, "DequantizeLinear")?;
    let constant = |index| node.input(index).and_then(|id: ValueId| graph.value(id).constant.clone());
    let (levels, scales) = (constant(0)?, constant(1)?);
    let zeros = constant(2);
    if zeros.is_none() && node.input(2).is_some() || int(node, "output_dtype").is_some_and(|code| code != 0) {
        return None;
    }
    if ![DType::I4, DType::U4, DType::I8, DType::U8].contains(&levels.dtype()) {
        return None;
    }
    let along = axis(node, 1, 2)?;
    let block = usize::try_from(int(node, "block_size")?).ok().filter(|block| *block > 0)?;
    let (&[a, b], &[scale_a, scale_b]) = (levels.shape(), scales.shape()) else { return None };
    let (sizes, counts) =
        if transposed { ([b, a], [scale_b, scale_a]) } else { ([a, b], [scale_a, scale_b]) };
    let [columns, rows] = sizes;
    let fits = along == usize::from(transposed)
        && counts == [columns.div_ceil(block), rows]
        && columns > 0
        && rows > 0;
    let same =
        zeros.as_ref().is_none_or(|zeros| zeros.shape() == scales.shape() && zeros.dtype() == levels.dtype());
    (fits && same).then_some(Blocks { levels, scales, zeros, transposed, columns, rows, block })
}

/// Returns the scales, a row for each row of the result.
fn scales(found: &Blocks) -> Result<Tensor> {
    let (transposed, dtype) = (found.transposed, found.scales.dtype());
    let shape = vec![found.rows, found.columns.div_ceil(found.block)];
    Tensor::deferred(dtype, shape, vec![found.scales.clone()], move |inputs| {
        let [scales] = inputs else { return Err(Error::internal("one input")) };
        if transposed { Ok(scales.clone()) } else { scales.transpose(&[1, 0]) }
    })
}

/// Returns integers as MatMulNBits reads them: a row for each row of the result, the lowest bits first, in
/// whole blocks, or bytes of zero points. Signed integers become unsigned ones with the same differences to
/// their zero points.
fn packed(found: &Blocks, tensor: &Tensor, each: usize) -> Result<Tensor> {
    let dtype = tensor.dtype();
    let bits = dtype.bits();
    let is_weight = each == found.columns;
    let unit = if is_weight { found.block } else { 8 / bits };
    let count = each.div_ceil(unit) * unit;
    let row_bytes = count * bits / 8;
    let blocks = each.div_ceil(found.block);
    let shape = if is_weight {
        vec![found.rows, blocks, row_bytes / blocks.max(1)]
    } else {
        vec![found.rows * row_bytes]
    };
    let (transposed, rows, middle) = (found.transposed, found.rows, 1_i64 << (bits - 1));
    let shift = if dtype.is_unsigned() { 0 } else { middle };
    let bytes = shape.clone();
    Tensor::deferred(DType::U8, shape, vec![tensor.clone()], move |inputs| {
        let [levels] = inputs else { return Err(Error::internal("one input")) };
        let levels = if transposed { levels.clone() } else { levels.transpose(&[1, 0])? };
        let list = levels.int_list()?;
        let mut packed = vec![0_i64; rows * row_bytes];
        for (row, from) in list.chunks(each.max(1)).enumerate() {
            for (column, level) in from.iter().enumerate() {
                let bit = column * bits;
                let byte =
                    packed.get_mut(row * row_bytes + bit / 8).ok_or_else(|| Error::internal("a byte"))?;
                *byte |= (level + shift) << (bit % 8);
            }
        }
        Array::i64(ndarray::ArrayD::from_shape_vec(bytes.as_slice(), packed)?).cast(DType::U8)
    })
}
