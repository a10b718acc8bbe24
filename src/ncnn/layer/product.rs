//! Matrix products and related layers.

use super::shape::{Size, Sizes, Tops, extended, one, unknown};
use super::weight::{
    Reads, if_present, innermost, int8_scales, names_if_present, product as sizes, with_bias,
};
use super::work::{self, Work, elements};
use super::{MANY, OLDEST, between, exactly, layer, weight_len};
use crate::error::{At, Result, invalid, unsupported};
use crate::ncnn::block::{BLOCKS_SINCE, BlockFormat};
use crate::tensor::Dim;

layer! {
    /// `alpha * (A B + beta * C)`, with the rows of `A` and of the result along h. Constant matrices are
    /// weights, the others bottoms in this order. `A_data_int8_scales` are the factors of the rows of A in
    /// int8; the runtime rounds B to 127 steps of its largest magnitude. `B_data_quantize_scales` are the
    /// inverse scales of a transposed B in blocks, whose bytes are `B_data`.
    74 Gemm(between(0, 3), exactly(1)) [Gpu] {
        params {
            0 alpha: f32 = 1.0,
            1 beta: f32 = 1.0,
            2 transA: i32 = 0,
            3 transB: i32 = 0,
            6 constantC: i32 = 0,
            7 constantM: i32 = 0,
            8 constantN: i32 = 0,
            9 constantK: i32 = 0,
            /// The shape of a constant C: see [`broadcast_type_c`].
            10 constant_broadcast_type_C: i32 = 0,
            /// 1: the rows of the result are along w.
            14 output_transpose: i32 = 0,
            /// The format of a constant matrix of integers: 2 for A in int8; for B hundred for each bit, plus
            /// 0, 1 or 2 for blocks of 32, 64 or 128 columns.
            18 quantize_term: i32 = 0,
        }
        derived {
            4 constantA = |layer| i32::from(layer.A_data.is_some()),
            5 constantB = |layer| i32::from(layer.B_data.is_some()),
        }
        weights {
            Tagged A_data,
            Tagged B_data,
            Tagged C_data,
            Raw A_data_int8_scales,
            Raw B_data_quantize_scales,
        }
        reads { Gemm::reads }
        tops { Gemm::top }
        work { Gemm::work }
        since { Gemm::first_release }
        also {
            fn int8_weights(&self) -> &'static [&'static str] {
                names_if_present(&self.A_data_int8_scales, &["A_data"])
            }

            fn block_weight(&self) -> Option<(BlockFormat, &'static str)> {
                Some((BlockFormat::of_term(self.quantize_term)?, "B_data"))
            }
        }
    }
}

impl Gemm {
    /// The `quantize_term` of a constant A in int8.
    pub(crate) const INT8_ROWS: i32 = 2;

    fn first_release(&self) -> u32 {
        match self.quantize_term {
            0 => OLDEST,
            Gemm::INT8_ROWS => 20241226,
            _ => BLOCKS_SINCE,
        }
    }

    fn reads(&self, _: &[Dim]) -> Reads {
        let mut reads = Vec::new();
        if self.A_data.is_some() {
            reads.push(("A_data", Some(sizes(&[self.constantM, self.constantK])?)));
        }
        if let Some(format) = BlockFormat::of_term(self.quantize_term) {
            // The runtime refuses any other form.
            if self.A_data.is_some() || self.transA != 0 || self.transB != 1 || self.output_transpose != 0 {
                invalid!("B in blocks is not transposed, or something else is");
            }
            let columns = usize::try_from(self.constantK)?;
            let each = |count: usize| sizes(&[self.constantN, i32::try_from(count)?]);
            reads.push(("B_data", Some(each(format.row_bytes(columns))?)));
            reads.push(("B_data_quantize_scales", Some(each(format.blocks(columns))?)));
        } else if self.B_data.is_some() {
            reads.push(("B_data", Some(sizes(&[self.constantN, self.constantK])?)));
        }
        let c: Option<&[i32]> = match self.constant_broadcast_type_C {
            _ if self.constantC != 1 => None,
            broadcast_type_c::NONE => None,
            broadcast_type_c::SCALAR => Some(&[]),
            broadcast_type_c::M | broadcast_type_c::M_1 => Some(&[self.constantM]),
            broadcast_type_c::M_N => Some(&[self.constantM, self.constantN]),
            broadcast_type_c::ONE_N => Some(&[self.constantN]),
            other => invalid!("constant_broadcast_type_C {other}"),
        };
        if let Some(c) = c {
            reads.push(("C_data", Some(sizes(c)?)));
        }
        reads.extend(if_present(
            &self.A_data_int8_scales,
            &[("A_data_int8_scales", Some(self.constantM.into()))],
        ));
        Ok(reads)
    }

    fn work(&self, work: &Work) -> Option<u64> {
        let left = match self.A_data {
            Some(_) => work::weight_len(&self.A_data),
            None => elements(work.bottom(0)?),
        };
        let top = work.top()?;
        left.checked_mul(*if self.output_transpose == 0 { top.last()? } else { top.first()? })
    }

    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let mut left = bottoms.iter();
        let mut matrix = |constant: Option<[i32; 2]>, transposed: i32| {
            if let Some(sizes) = constant {
                return Ok(sizes.map(Size::from));
            }
            let [rows, columns] = match left.next().map(Vec::as_slice) {
                Some([w]) => [Size::from(1), *w],
                Some([h, w]) => [*h, *w],
                // The rows of a blob of three axes are its channels.
                Some([c, h, w]) if !h.differs(1) => [*c, *w],
                Some(bottom) => unsupported!("a matrix of {bottom:?}"),
                None => unsupported!("{} bottoms", bottoms.len()),
            };
            Ok(if transposed != 0 { [columns, rows] } else { [rows, columns] })
        };
        let a = self.A_data.as_ref().map(|_| [self.constantM, self.constantK]);
        let b = self.B_data.as_ref().map(|_| [self.constantK, self.constantN]);
        let [m, k] = matrix(a, self.transA)?;
        let [k_of_b, n] = matrix(b, self.transB)?;
        if k.differs(k_of_b) {
            unsupported!("a product of {:?} and {:?}", [m, k], [k_of_b, n]);
        }
        one(if self.output_transpose != 0 { [n, m] } else { [m, n] })
    }
}

/// Values of `Gemm::constant_broadcast_type_C`.
#[allow(missing_docs)] // The names are the shapes in ncnn's `gemm.cpp`.
pub mod broadcast_type_c {
    pub const NONE: i32 = -1;
    pub const SCALAR: i32 = 0;
    pub const M: i32 = 1;
    pub const M_1: i32 = 2;
    pub const M_N: i32 = 3;
    pub const ONE_N: i32 = 4;
}

layer! {
    /// A linear map of a vector, or of each row of a matrix; the weight is `[num_output, inputs]`.
    15 InnerProduct(exactly(1), exactly(1)) [Gpu] {
        params {
            0 num_output: i32 = 0,
            9 activation_type: i32 = 0,
            10 activation_params: Vec<f32> = Vec::new(),
        }
        derived {
            1 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            2 weight_data_size = |layer| weight_len(&layer.weight_data),
            8 int8_scale_term = |layer| i32::from(layer.bottom_blob_int8_scales.is_some()),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
            Raw weight_data_int8_scales,
            Raw bottom_blob_int8_scales,
        }
        reads { InnerProduct::reads }
        tops { InnerProduct::top }
        work { |l, work| work.at_positions(work.top()?.split_last()?.1, &l.weight_data) }
        also {
            fn int8_weights(&self) -> &'static [&'static str] {
                names_if_present(&self.weight_data_int8_scales, &["weight_data"])
            }
        }
    }
}

impl InnerProduct {
    fn reads(&self, bottom: &[Dim]) -> Reads {
        // The rows of a matrix of matching width are mapped, any other bottom as a single vector.
        let row = i64::from(weight_len(&self.weight_data)).checked_div(self.num_output.into());
        let is_matrix = bottom.len() == 2 && innermost(bottom).is_some() && innermost(bottom) == row;
        let whole = || Dim::product(bottom).known();
        let input = if is_matrix { row } else { whole() };
        let weight = input.map(|n| n.saturating_mul(self.num_output.into()));
        let mut reads = with_bias(weight, &self.bias_data, self.num_output);
        reads.extend(int8_scales(&self.weight_data_int8_scales, &None, self.num_output));
        Ok(reads)
    }

    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let weights = weight_len(&self.weight_data);
        match *bottoms.at(0)?.as_slice() {
            [_, w] if w.known().is_none() => Ok(None),
            [h, w] if w * self.num_output == i64::from(weights) => one([h, Size::from(self.num_output)]),
            _ => one([Size::from(self.num_output)]),
        }
    }
}

layer! {
    /// The matrix product over h and w; the other axes are broadcast.
    87 MatMul(exactly(2), exactly(1)) {
        params {
            0 transB: i32 = 0,
        }
        tops { MatMul::top }
        work { |_, work| elements(work.top()?).checked_mul(*work.bottom(0)?.last()?) }
    }
}

impl MatMul {
    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        let (a, b) = (bottoms.at(0)?, bottoms.at(1)?);
        let ([a_batch @ .., m, k], [b_batch @ .., k_of_b, n]) = (a.as_slice(), b.as_slice()) else {
            return Ok(None);
        };
        let (k_of_b, n) = if self.transB == 0 { (k_of_b, n) } else { (n, k_of_b) };
        let rank = a_batch.len().max(b_batch.len());
        let batch = extended(a_batch, rank).into_iter().zip(extended(b_batch, rank));
        match batch.map(|(x, y)| x.broadcast(y)).collect::<Option<Sizes>>() {
            Some(batch) if !k.differs(*k_of_b) => one([batch, vec![*m, *n]].concat()),
            _ => unsupported!("a product of {a:?} and {b:?}"),
        }
    }
}

layer! {
    /// Einstein summation over letters from `i` on; the equation is a list of character codes.
    92 Einsum(MANY, exactly(1)) {
        params {
            0 equation: Vec<i32> = Vec::new(),
        }
        tops { unknown }
        work { |_, _| None }
    }

    /// Rows of a table `[input_dim, num_output]` at int32 indices; one of int8 is divided by its scale.
    12 Embed(exactly(1), exactly(1)) [Unmasked] {
        params {
            0 num_output: i32 = 0,
            1 input_dim: i32 = 0,
        }
        derived {
            2 bias_term = |layer| i32::from(layer.bias_data.is_some()),
            3 weight_data_size = |layer| weight_len(&layer.weight_data),
            18 int8_scale_term = |layer| i32::from(layer.weight_data_int8_scale.is_some()),
        }
        weights {
            Tagged weight_data,
            Raw bias_data,
            Raw weight_data_int8_scale,
        }
        reads { Embed::reads }
        tops { Embed::top }
        since { |layer| if layer.weight_data_int8_scale.is_some() { 20241226 } else { OLDEST } }
        also {
            fn reads_integers(&self) -> Option<bool> {
                Some(true)
            }

            fn int8_weights(&self) -> &'static [&'static str] {
                names_if_present(&self.weight_data_int8_scale, &["weight_data"])
            }
        }
    }
}

impl Embed {
    fn reads(&self, _: &[Dim]) -> Reads {
        let weight = Some(sizes(&[self.num_output, self.input_dim])?);
        let mut reads = with_bias(weight, &self.bias_data, self.num_output);
        reads.extend(if_present(&self.weight_data_int8_scale, &[("weight_data_int8_scale", Some(1))]));
        Ok(reads)
    }

    fn top(&self, bottoms: &[Sizes], _: usize) -> Result<Tops> {
        match bottoms.at(0)?.as_slice() {
            [indices] => one([*indices, Size::from(self.num_output)]),
            other => unsupported!("indices of {other:?}"),
        }
    }
}
