//! Constant matrices of floats, which are rounded to integers in blocks.

use std::sync::Arc;

use super::matrix::Rounded;
use super::{Matrix, Weights, gemm_weights, is_graph_input, table_weights};
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::ncnn::BlockFormat;
use crate::pass::builder::replacement_of;
use crate::pass::pattern::{LinearMap, int, linear_map};
use crate::tensor::{DType, Tensor};

/// The number of elements from which a matrix is rounded: smaller ones save little.
const ROUNDED: usize = 1 << 12;

/// The number of columns of a block.
const BLOCK: usize = 64;

/// The types of floats that are rounded.
const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

/// The fewest columns of a product, and the number of columns of a block of a table that [`BLOCK`] does not
/// divide.
const NARROW: usize = 32;

/// The number of rows up to which a table is selected from by comparison (`ops/indexing/gather`).
const FEW_ROWS: usize = 32;

/// The sizes by their names, for a script that rounds the same matrices by samples.
pub(super) const SIZES: [(&str, usize); 5] = [
    ("elements", ROUNDED),
    ("columns", NARROW),
    ("block", BLOCK),
    ("narrow_block", NARROW),
    ("few_rows", FEW_ROWS),
];

/// A constant matrix.
struct Constant {
    tensor: Tensor,
    rows: usize,
    columns: usize,
    /// Whether the rows are the columns of the tensor.
    transposed: bool,
}

impl Constant {
    fn rounded(self, format: BlockFormat) -> Matrix {
        let Constant { tensor: weight, rows, columns, transposed } = self;
        Matrix::Rounded(Arc::new(Rounded { weight, rows, columns, transposed, format, loss: Arc::default() }))
    }
}

/// A product with a constant matrix, which has a row for each output.
struct Product {
    x: ValueId,
    weight: Constant,
    /// The term that is added.
    term: Option<ValueId>,
}

/// Rounds the constant matrices of products and tables.
pub(crate) fn round_matrices(graph: &mut Graph, weights: Weights) -> Result<()> {
    let Some(bits) = weights.bits() else { return Ok(()) };
    graph.replace_nodes(read_product, |graph, node, product| round_product(graph, node, product, bits))?;
    graph.replace_nodes(read_table, |graph, node, table| round_table(graph, node, table, bits))?;
    Ok(())
}

fn read_product(graph: &Graph, node: &Node) -> Option<Product> {
    let LinearMap { x, transposed, bias: term, .. } = linear_map(node)?;
    let value = graph.value(x);
    let is_row = value.shape.as_ref().is_some_and(|shape| !shape.is_empty());
    let weight = constant(graph, node, 1).filter(|_| value.constant.is_none() && is_row)?;
    let shape: Vec<usize> = weight.shape().iter().copied().skip_while(|size| *size == 1).collect();
    let (rows, columns, transposed) = match *shape.as_slice() {
        [outputs, inputs] if transposed => (outputs, inputs, false),
        [inputs, outputs] => (outputs, inputs, true),
        _ => return None,
    };
    let is_large = rows.saturating_mul(columns) >= ROUNDED && columns >= NARROW;
    // A matrix of more axes than the other factor adds axes to the product.
    let is_matrix = weight.shape().len() <= value.shape.as_ref().map_or(0, |shape| shape.len().max(2));
    let weight = || Constant { tensor: weight.clone(), rows, columns, transposed };
    (is_large && is_matrix).then(|| Product { x, weight: weight(), term })
}

fn constant<'a>(graph: &'a Graph, node: &Node, index: usize) -> Option<&'a Tensor> {
    graph.value(node.input(index)?).constant.as_ref().filter(|tensor| FLOATS.contains(&tensor.dtype()))
}

fn round_product(
    graph: &mut Graph,
    node: &Node,
    Product { x, weight, term }: Product,
    bits: usize,
) -> Result<Option<Vec<Node>>> {
    let (outputs, inputs) = (weight.rows, weight.columns);
    let format = BlockFormat { bits, size: BLOCK };
    let weights = gemm_weights(&weight.rounded(format), format)?;
    let row = |graph: &Graph, term: ValueId| {
        let constant = graph.value(term).constant.as_ref();
        constant.is_some_and(|tensor| tensor.len() == outputs && tensor.shape().last() == Some(&outputs))
    };
    let (bias, term) = match term {
        Some(term) if row(graph, term) => (Some(term), None),
        term => (None, term),
    };
    let attributes = product_attributes(inputs, format)?;
    replacement_of(graph, node, node.version, |made| {
        let [levels, inverses] = weights.map(|tensor| made.tensor(tensor));
        let inputs = [made.value(x), levels, inverses];
        let inputs = inputs.into_iter().chain(bias.map(|bias| made.value(bias)));
        let result = made.op("ncnn.BlockGemm", inputs, attributes);
        Ok(Some(term.map_or(result, |term| result + made.value(term))))
    })
}

/// Returns the attributes of a product of `columns` inputs.
pub(crate) fn product_attributes(
    columns: usize,
    format: BlockFormat,
) -> Result<[(&'static str, Attribute); 2]> {
    let number = |number: usize| -> Result<Attribute> { Ok(Attribute::Int(number.int())) };
    Ok([("columns", number(columns)?), ("term", Attribute::Int(i64::from(format.term()?)))])
}

/// Rows of a constant table.
struct Table {
    weight: Constant,
    indices: ValueId,
    block: usize,
}

fn read_table(graph: &Graph, node: &Node) -> Option<Table> {
    let indices = node.input(1).filter(|_| node.is("Gather"))?;
    let weight = constant(graph, node, 0)?;
    let &[rows, columns] = weight.shape() else { return None };
    let along_rows = matches!(int(node, "axis").unwrap_or(0), 0 | -2);
    let is_large = rows > FEW_ROWS && rows.saturating_mul(columns) >= ROUNDED;
    let is_read = is_graph_input(graph, Some(indices));
    let block = [BLOCK, NARROW].into_iter().find(|block| columns.is_multiple_of(*block))?;
    let weight = || Constant { tensor: weight.clone(), rows, columns, transposed: false };
    (along_rows && is_large && is_read).then(|| Table { weight: weight(), indices, block })
}

fn round_table(
    graph: &mut Graph,
    node: &Node,
    Table { weight, indices, block }: Table,
    bits: usize,
) -> Result<Option<Vec<Node>>> {
    // A byte contains one integer or two.
    let bits = if bits == 4 { 4 } else { 8 };
    let weights = table_weights(&weight.rounded(BlockFormat { bits, size: block }), bits)?;
    let attributes = table_attributes(bits)?;
    replacement_of(graph, node, node.version, |made| {
        let [levels, scales] = weights.map(|tensor| made.tensor(tensor));
        Ok(Some(made.op("ncnn.BlockEmbed", [made.value(indices), levels, scales], attributes)))
    })
}

/// Returns the attributes of a table.
pub(crate) fn table_attributes(bits: usize) -> Result<[(&'static str, Attribute); 1]> {
    Ok([("bits", Attribute::Int(bits.int()))])
}
