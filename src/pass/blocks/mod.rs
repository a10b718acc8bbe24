//! Constant matrices as integers in blocks, which products and tables of the net read as they are.
//!
//! [`Weights`] is the choice of the user. Products become the node `BlockGemm` and tables `BlockEmbed`, both
//! of ncnn's domain.

mod dequantized;
mod float;
mod matrix;

use std::str::FromStr;

use byteorder::{ByteOrder, LittleEndian};

use crate::error::{Error, Result};
use crate::graph::{Graph, ValueId};
use crate::ncnn::{BlockFormat, inverse, is_scale};
use crate::op::{self, Access};
use crate::tensor::{DType, Take, Tensor};

pub(crate) use dequantized::pack_dequantized;
pub(crate) use float::{product_attributes, round_matrices, table_attributes};
pub(crate) use matrix::{Matrix, Packed, Zero, stored_bytes};

/// The storage of constant matrices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Weights {
    /// Floats.
    #[default]
    Float,
    /// Integers in blocks if the model has such integers, and floats otherwise.
    Keep,
    /// As `Keep`, and floats are rounded to 8 bits. The runtime rounds the other factor of a product as well.
    Int8,
    /// As `Keep`, and floats are rounded to 6 bits; those of tables to 8 bits.
    Int6,
    /// As `Keep`, and floats are rounded to 4 bits.
    Int4,
}

impl Weights {
    /// All kinds by their names.
    pub const NAMES: [(&str, Weights); 5] = [
        ("float", Weights::Float),
        ("keep", Weights::Keep),
        ("int8", Weights::Int8),
        ("int6", Weights::Int6),
        ("int4", Weights::Int4),
    ];

    /// The sizes of matrices that are rounded, and of their blocks, by their names: the fewest `elements` of
    /// a matrix and `columns` of a product; the columns of a `block`, and of a `narrow_block` of tables whose
    /// rows have no whole blocks; and `few_rows`, up to which a table is not rounded.
    pub const SIZES: [(&str, usize); 5] = float::SIZES;

    /// Returns whether floats are rounded.
    pub fn rounds(self) -> bool {
        self.bits().is_some()
    }

    /// Returns the bits to which floats are rounded.
    pub fn bits(self) -> Option<usize> {
        match self {
            Weights::Float | Weights::Keep => None,
            Weights::Int8 => Some(8),
            Weights::Int6 => Some(6),
            Weights::Int4 => Some(4),
        }
    }

    /// Returns the fewest bits of the integers of a product, between bounds, if it keeps them.
    pub(crate) fn product_bits(self, (least, most): (i16, i16)) -> Option<usize> {
        // With 8 bits the runtime rounds the other factor, which a model in blocks does not ask for.
        let offered: &[usize] = match self {
            Weights::Float => &[],
            Weights::Int8 => &[4, 6, 8],
            Weights::Keep | Weights::Int6 | Weights::Int4 => &[4, 6],
        };
        offered.iter().copied().find(|bits| least >= -(1 << (bits - 1)) && most < 1 << (bits - 1))
    }
}

impl FromStr for Weights {
    type Err = Error;

    fn from_str(text: &str) -> Result<Weights> {
        let found = Weights::NAMES.into_iter().find(|(name, _)| *name == text);
        let names = || Weights::NAMES.map(|(name, _)| name).join(", ");
        found
            .map(|(_, weights)| weights)
            .ok_or_else(|| Error::usage(format!("\"{text}\" is not one of {}", names())))
    }
}

/// The bits of the integers of a table, between bounds.
pub(crate) fn table_bits((least, most): (i16, i16)) -> Option<usize> {
    [4, 8].into_iter().find(|bits| least >= -(1 << (bits - 1)) && most < 1 << (bits - 1))
}

/// The maximum length of a chain of views.
const MAX_VIEWS: usize = 16;

/// Returns whether a value has the elements of an input of the graph, which Embed reads as integers.
pub(crate) fn is_graph_input(graph: &Graph, value: Option<ValueId>) -> bool {
    let mut value = value;
    for _ in 0..MAX_VIEWS {
        let Some(id) = value else { return false };
        let Some(node) = graph.producer(id) else {
            return graph.inputs.contains(&id) && graph.value(id).constant.is_none();
        };
        let is_view = op::access(node) == Access::View || node.is("Identity");
        value = node.input(0).filter(|_| is_view);
    }
    false
}

/// The number of bytes that are passed on at a time.
const PART: usize = 1 << 16;

/// Returns whether the runtime reads all scales of a matrix without overflow.
pub(crate) fn are_scales_finite(scales: &Tensor) -> Result<bool> {
    let mut finite = true;
    scales.for_each_f32(&mut |part| {
        finite &= part.iter().all(|scale| is_scale(*scale));
        Ok(())
    })?;
    Ok(finite)
}

/// Returns the size of the runtime's blocks for blocks of `block` columns, if there is one: a scale may be
/// repeated.
pub(crate) fn size_of_blocks(block: usize) -> Option<usize> {
    [128, 64, 32]
        .into_iter()
        .find(|size| block == *size || (*size == 128 && block.is_multiple_of(128) && block > 0))
}

/// Returns the bytes of a matrix and the inverses of its scales, as Gemm reads them.
pub(crate) fn gemm_weights(matrix: &Matrix, format: BlockFormat) -> Result<[Tensor; 2]> {
    let (rows, columns) = matrix.sizes();
    let levels = matrix.clone();
    let shape = vec![rows, format.row_bytes(columns)];
    let bytes = Tensor::streamed(DType::U8, shape, matrix.loss(), move |take| {
        if let Matrix::Packed(packed) = &levels
            && packed.invert_signs(format, take)?
        {
            return Ok(());
        }
        write_rows(&levels, true, take, |row, _, bytes| format.pack(row, bytes))
    })?;
    let (scales, block) = (matrix.clone(), matrix.block());
    let shape = vec![rows, format.blocks(columns)];
    let inverses = Tensor::streamed(DType::F32, shape, None, move |take| {
        write_rows(&scales, false, take, |_, scales, bytes| {
            for first in (0..columns).step_by(format.size) {
                let scale = scales.get(first / block).copied().unwrap_or_default();
                bytes.extend_from_slice(&inverse(scale).to_le_bytes());
            }
        })
    })?;
    Ok([bytes, inverses])
}

/// Returns the integers of a table and its scales. In a table of 4 bits a byte contains an integer of the
/// left half of a row plus 8, and 16 times one of the right half: the sum is a signed byte.
pub(crate) fn table_weights(matrix: &Matrix, bits: usize) -> Result<[Tensor; 2]> {
    let (rows, columns) = matrix.sizes();
    let levels = matrix.clone();
    let shape = vec![rows, columns * bits / 8];
    let bytes = Tensor::streamed(DType::I8, shape, matrix.loss(), move |take| {
        write_rows(&levels, true, take, |row, _, bytes| {
            if bits == 8 {
                bytes.extend(row.iter().map(|level| level.cast_unsigned()));
            } else {
                let (left, right) = row.split_at(columns / 2);
                let pairs = left.iter().zip(right);
                bytes.extend(pairs.map(|(low, high)| {
                    (low.wrapping_add(8).cast_unsigned() & 0x0f) | (high.cast_unsigned() << 4)
                }));
            }
        })
    })?;
    let scales = matrix.clone();
    let shape = vec![rows, columns.div_ceil(matrix.block())];
    let scales = Tensor::streamed(DType::F32, shape, None, move |take| {
        write_rows(&scales, false, take, |_, scales, bytes| {
            let start = bytes.len();
            bytes.resize(start + size_of_val(scales), 0);
            LittleEndian::write_f32_into(scales, bytes.get_mut(start..).unwrap_or_default());
        })
    })?;
    Ok([bytes, scales])
}

/// Passes on the bytes that `write` appends for the integers, if they are wanted, and the scales of each row.
fn write_rows(
    matrix: &Matrix,
    levels: bool,
    take: &mut Take,
    write: impl Fn(&[i8], &[f32], &mut Vec<u8>),
) -> Result<()> {
    let mut bytes = Vec::with_capacity(PART);
    matrix.for_each(levels, &mut |row, scales| {
        write(row, scales, &mut bytes);
        if bytes.len() > PART {
            take(&bytes)?;
            bytes.clear();
        }
        Ok(())
    })?;
    if bytes.is_empty() { Ok(()) } else { take(&bytes) }
}

#[cfg(test)]
mod tests;
