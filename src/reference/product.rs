//! InnerProduct, Gemm, MatMul, Einsum and Embed.

use ndarray::{
    Array, Array1, Array2, ArrayBase, ArrayD, ArrayView1, ArrayView2, ArrayViewD, ArrayViewMut, Axis,
    CowArray, DataMut, Dimension, Ix2, IxDyn, indices,
};
use num_traits::AsPrimitive;

use super::array::{bottom, shaped, size, weight};
use super::{Mat, activation};
use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::layer::{Einsum, Embed, Gemm, InnerProduct, MatMul, broadcast_type_c};
use crate::ncnn::{BlockFormat, Layer};
use crate::tensor::{DType, Tensor};

/// The largest magnitude of a rounded number.
const LARGEST: f32 = 127.0;

/// The largest number of terms of an Einsum.
const MOST_TERMS: usize = 1 << 26;

/// Computes a product.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    let top = match layer {
        Layer::InnerProduct(layer) => inner_product(layer, bottom(bottoms, 0)?),
        Layer::Gemm(layer) => gemm(layer, bottoms),
        Layer::MatMul(layer) => mat_mul(layer, bottom(bottoms, 0)?, bottom(bottoms, 1)?),
        Layer::Einsum(layer) => einsum(layer, bottoms),
        Layer::Embed(layer) => embed(layer, bottom(bottoms, 0)?),
        _ => unsupported!("{} has no reference", layer.type_name()),
    };
    top.map(in_order)
}

/// Returns an array whose elements are in memory as they are counted.
pub(super) fn in_order<D: Dimension>(array: Array<f64, D>) -> Array<f64, D> {
    if array.is_standard_layout() { array } else { array.as_standard_layout().into_owned() }
}

/// Returns a weight as a matrix.
pub(super) fn matrix(tensor: &Option<Tensor>, rows: usize, columns: usize) -> Result<Array2<f64>> {
    let Some(len) = rows.checked_mul(columns) else {
        invalid!("a matrix of {rows} by {columns} is too large");
    };
    Ok(Array2::from_shape_vec((rows, columns), weight(tensor, len)?)?)
}

/// Returns a weight as several matrices.
pub(super) fn matrices(
    tensor: &Option<Tensor>,
    count: usize,
    rows: usize,
    columns: usize,
) -> Result<Vec<Array2<f64>>> {
    let Some(all) = count.checked_mul(rows) else { invalid!("{count} matrices of {rows} rows") };
    let all = matrix(tensor, all, columns)?;
    Ok(all.axis_chunks_iter(Axis(0), rows.max(1)).map(|matrix| matrix.to_owned()).collect())
}

/// Returns a blob of two axes as a matrix.
pub(super) fn two_axes(mat: ArrayViewD<'_, f64>) -> Result<ArrayView2<'_, f64>> {
    let shape = mat.shape().to_vec();
    mat.into_dimensionality::<Ix2>().map_err(|_| Error::invalid(format!("a matrix of {shape:?}")))
}

/// Returns the product of two matrices.
pub(super) fn product(a: ArrayView2<'_, f64>, b: ArrayView2<'_, f64>) -> Result<Array2<f64>> {
    if a.ncols() != b.nrows() {
        invalid!("a product of {:?} and {:?}", a.shape(), b.shape());
    }
    Ok(a.dot(&b))
}

/// Checks that a weight is int8.
pub(super) fn check_int8(tensor: &Option<Tensor>) -> Result<()> {
    match tensor {
        Some(tensor) if tensor.dtype() != DType::I8 => {
            unsupported!("scales of a weight of {:?}", tensor.dtype())
        }
        _ => Ok(()),
    }
}

/// Divides the rows of int8 by their scales. A row whose scale is 0 is 0.
pub(super) fn divide_rows<'a>(
    matrix: &mut ArrayBase<impl DataMut<Elem = f64>, Ix2>,
    scales: impl IntoIterator<Item = &'a f64>,
) {
    for (mut row, scale) in matrix.outer_iter_mut().zip(scales) {
        row.mapv_inplace(|level| if *scale == 0.0 { 0.0 } else { level / scale });
    }
}

/// Returns the number that the int8 of a number stands for.
///
/// The integer is decided in float32, as the runtime does: next to a half the precision decides.
fn rounded(number: f64, scale: f32) -> f64 {
    let scaled: f32 = number.as_();
    f64::from((scaled * scale).round().clamp(-LARGEST, LARGEST)) / f64::from(scale)
}

/// Rounds numbers to int8 with the scale that takes the largest magnitude to the largest integer.
pub(super) fn round<D: Dimension>(mut numbers: ArrayViewMut<'_, f64, D>) {
    let largest: f32 = numbers.fold(0.0, |most: f64, x| most.max(x.abs())).as_();
    let scale = if largest == 0.0 { 1.0 } else { LARGEST / largest };
    numbers.mapv_inplace(|x| rounded(x, scale));
}

/// Maps a vector, or the rows of a matrix whose width is the number of inputs.
fn inner_product(layer: &InnerProduct, bottom: &Mat) -> Result<Mat> {
    let outputs = size(layer.num_output)?;
    let len = layer.weight_data.as_ref().map_or(0, Tensor::len);
    let Some(inputs) = len.checked_div(outputs) else { invalid!("no outputs") };
    let rows = match bottom.shape() {
        [h, w] if *w == inputs => Some(*h),
        _ => None,
    };
    let mut bottom = Array2::from_shape_vec((rows.unwrap_or(1), inputs), bottom.iter().copied().collect())?;
    let mut weights = matrix(&layer.weight_data, outputs, inputs)?;
    if layer.weight_data_int8_scales.is_some() {
        check_int8(&layer.weight_data)?;
        divide_rows(&mut weights, &weight(&layer.weight_data_int8_scales, outputs)?);
        for scale in weight(&layer.bottom_blob_int8_scales, 1)? {
            bottom.mapv_inplace(|x| rounded(x, scale.as_()));
        }
    }
    let mut top = product(bottom.view(), weights.t())?;
    if layer.bias_data.is_some() {
        top += &Array1::from(weight(&layer.bias_data, outputs)?);
    }
    let activation = activation::fused(layer.activation_type, &layer.activation_params)?;
    top.mapv_inplace(activation);
    let top = top.into_dyn();
    Ok(if rows.is_some() { top } else { top.remove_axis(Axis(0)) })
}

/// Returns a bottom of Gemm as a matrix: rows are along h, or along c if h is 1.
fn gemm_matrix(mat: &Mat, transposed: i32) -> Result<ArrayView2<'_, f64>> {
    let matrix = match mat.shape() {
        [_] => mat.view().insert_axis(Axis(0)),
        [_, _] => mat.view(),
        [_, 1, _] => mat.view().index_axis_move(Axis(1), 0),
        other => unsupported!("a matrix of {other:?}"),
    };
    let matrix = two_axes(matrix)?;
    Ok(if transposed != 0 { matrix.reversed_axes() } else { matrix })
}

/// Computes `alpha * (A B + beta * C)`.
fn gemm(layer: &Gemm, bottoms: &[&Mat]) -> Result<Mat> {
    let (m, n, k) = (layer.constantM, layer.constantN, layer.constantK);
    let mut left = bottoms.iter();
    let mut factor = |constant: &Option<Tensor>, rows, columns, transposed| {
        Ok::<CowArray<'_, f64, Ix2>, Error>(match (constant, transposed) {
            (Some(_), 0) => matrix(constant, size(rows)?, size(columns)?)?.into(),
            (Some(_), _) => matrix(constant, size(columns)?, size(rows)?)?.reversed_axes().into(),
            (None, _) => match left.next() {
                Some(bottom) => gemm_matrix(bottom, transposed)?.into(),
                None => invalid!("{} bottoms", bottoms.len()),
            },
        })
    };
    let mut a = factor(&layer.A_data, m, k, layer.transA)?;
    let mut b = match BlockFormat::of_term(layer.quantize_term) {
        Some(format) => blocks(layer, format)?.reversed_axes().into(),
        None => factor(&layer.B_data, k, n, layer.transB)?,
    };
    round_factors(layer, &mut a, &mut b)?;
    let mut top = product(a.view(), b.view())?;
    let (m, n) = top.dim();
    let c = match layer.constantC {
        0 => left.next().map(|c| whole_c(c, m, n)).transpose()?,
        1 => constant_c(layer, m, n)?,
        other => invalid!("constantC {other}"),
    };
    if let Some(c) = c {
        let Some(c) = c.broadcast((m, n)) else { invalid!("C of {:?} for {m} by {n}", c.shape()) };
        top.scaled_add(layer.beta.into(), &c);
    }
    top *= f64::from(layer.alpha);
    Ok(if layer.output_transpose != 0 { top.reversed_axes() } else { top }.into_dyn())
}

/// Rounds the factors of a Gemm, if its `quantize_term` says so.
fn round_factors(layer: &Gemm, a: &mut CowArray<'_, f64, Ix2>, b: &mut CowArray<'_, f64, Ix2>) -> Result<()> {
    match (layer.quantize_term, BlockFormat::of_term(layer.quantize_term)) {
        (0, _) => {}
        (_, Some(format)) if format.bits < 8 => {}
        // A is rounded too, each block of a row by itself.
        (_, Some(format)) => {
            for mut row in a.outer_iter_mut() {
                row.axis_chunks_iter_mut(Axis(0), format.size).for_each(round);
            }
        }
        (Gemm::INT8_ROWS, None) if layer.B_data.is_none() => {
            if layer.A_data_int8_scales.is_some() {
                check_int8(&layer.A_data)?;
                divide_rows(a, &weight(&layer.A_data_int8_scales, a.nrows())?);
            } else {
                a.outer_iter_mut().for_each(round);
            }
            round(b.view_mut());
        }
        (term, None) => unsupported!("quantize_term {term}"),
    }
    Ok(())
}

/// Returns a bottom C as a matrix. A vector is a row if it can be one, else a column.
fn whole_c(c: &Mat, m: usize, n: usize) -> Result<Array2<f64>> {
    let sizes = match *c.shape() {
        [w] if w == n => (1, n),
        [w] if w == m => (m, 1),
        [1] => (1, 1),
        [h, w] if h == m && (w == n || w == 1) || h == 1 && w == n => (h, w),
        ref shape => invalid!("C of {shape:?} for {m} by {n}"),
    };
    Ok(Array2::from_shape_vec(sizes, c.iter().copied().collect())?)
}

/// Returns the constant C, whose sizes are those of its broadcast type.
fn constant_c(layer: &Gemm, m: usize, n: usize) -> Result<Option<Array2<f64>>> {
    let (rows, columns) = match layer.constant_broadcast_type_C {
        broadcast_type_c::NONE => return Ok(None),
        broadcast_type_c::SCALAR => (1, 1),
        broadcast_type_c::M | broadcast_type_c::M_1 => (m, 1),
        broadcast_type_c::M_N => (m, n),
        broadcast_type_c::ONE_N => (1, n),
        other => invalid!("constant_broadcast_type_C {other}"),
    };
    matrix(&layer.C_data, rows, columns).map(Some)
}

/// Returns the matrix `[N, K]` of B in blocks.
fn blocks(layer: &Gemm, format: BlockFormat) -> Result<Array2<f64>> {
    // The runtime has no other form.
    if layer.A_data.is_some() || layer.transA != 0 || layer.transB != 1 || layer.output_transpose != 0 {
        invalid!("B in blocks is not transposed, or something else is");
    }
    let (n, k) = (size(layer.constantN)?, size(layer.constantK)?);
    let bytes = matrix(&layer.B_data, n, format.row_bytes(k))?;
    let inverses = matrix(&layer.B_data_quantize_scales, n, format.blocks(k))?;
    let mut numbers = Array2::zeros((n, k));
    let rows = numbers.outer_iter_mut().zip(bytes.outer_iter()).zip(inverses.outer_iter());
    for ((mut row, bytes), inverses) in rows {
        for (number, integer) in row.iter_mut().zip(integers(bytes, format.bits)) {
            *number = integer;
        }
        for (mut block, inverse) in row.axis_chunks_iter_mut(Axis(0), format.size).zip(inverses) {
            block /= *inverse;
        }
    }
    Ok(numbers)
}

/// Returns the signed integers of so many bits in a row of bytes, the low bits first.
fn integers(bytes: ArrayView1<'_, f64>, width: usize) -> Vec<f64> {
    // A byte may be read as signed.
    let bytes = bytes.iter().map(|byte| AsPrimitive::<u8>::as_(byte.rem_euclid(256.0)));
    let bits: Vec<bool> = bytes.flat_map(|byte| (0..8).map(move |bit| byte >> bit & 1 != 0)).collect();
    let integer = |bits: &[bool]| {
        let value = bits.iter().rev().fold(0_i32, |value, bit| 2 * value + i32::from(*bit));
        let is_negative = bits.last() == Some(&true);
        f64::from(if is_negative { value - (1_i32 << bits.len()) } else { value })
    };
    bits.chunks_exact(width).map(integer).collect()
}

/// Multiplies matrices over the last two axes; the others are broadcast. A vector is a row of A or a column
/// of B, and the top is without that axis.
fn mat_mul(layer: &MatMul, a: &Mat, b: &Mat) -> Result<Mat> {
    let (a_is_vector, b_is_vector) = (a.ndim() == 1, b.ndim() == 1);
    let a = if a_is_vector { a.view().insert_axis(Axis(0)) } else { a.view() };
    let mut b = if b_is_vector { b.view().insert_axis(Axis(1)) } else { b.view() };
    let (Some(a_batch), Some(b_batch)) = (a.ndim().checked_sub(2), b.ndim().checked_sub(2)) else {
        invalid!("a product of scalars");
    };
    if layer.transB != 0 && !b_is_vector {
        b.swap_axes(b_batch, b_batch + 1);
    }
    let (Some(m), Some(n)) = (a.shape().get(a_batch), b.shape().get(b_batch + 1)) else {
        invalid!("a product of {:?} and {:?}", a.shape(), b.shape());
    };
    let axes = a_batch.max(b_batch);
    let mut sizes = vec![1; axes];
    for (shape, batch) in [(a.shape(), a_batch), (b.shape(), b_batch)] {
        for (size, other) in sizes.iter_mut().skip(axes - batch).zip(shape.iter().take(batch)) {
            match (*size, *other) {
                (1, other) => *size = other,
                (size, other) if other == 1 || other == size => {}
                _ => invalid!("a product of {:?} and {:?}", a.shape(), b.shape()),
            }
        }
    }
    let mut elements = Vec::new();
    for index in indices(IxDyn(&sizes)) {
        let index = Dimension::slice(&index);
        let of = |batch: usize| index.iter().skip(axes - batch);
        elements.extend(product(matrix_at(&a, of(a_batch))?, matrix_at(&b, of(b_batch))?)?);
    }
    sizes.extend((!a_is_vector).then_some(*m));
    sizes.extend((!b_is_vector).then_some(*n));
    if sizes.is_empty() {
        sizes.push(1);
    }
    shaped(&sizes, elements)
}

/// Returns the matrix of an operand at an index of its batch. Axes of one element are broadcast.
fn matrix_at<'a, 'b>(
    operand: &ArrayViewD<'a, f64>,
    batch: impl Iterator<Item = &'b usize>,
) -> Result<ArrayView2<'a, f64>> {
    let matrix = batch.fold(operand.clone(), |view, index| {
        let only = view.len_of(Axis(0)) == 1;
        view.index_axis_move(Axis(0), if only { 0 } else { *index })
    });
    two_axes(matrix)
}

/// Sums the products of elements over the letters that the top does not have.
fn einsum(layer: &Einsum, bottoms: &[&Mat]) -> Result<Mat> {
    let text: Option<String> =
        layer.equation.iter().map(|code| u32::try_from(*code).ok().and_then(char::from_u32)).collect();
    let text = text.unwrap_or_default();
    // The runtime has this form for a trace, whose top has one element.
    let equation = if text == "ii" { "ii->" } else { &text };
    let Some((operands, top)) = equation.split_once("->") else { invalid!("the equation \"{text}\"") };
    if !"ijkl".starts_with(top) || top.is_empty() && text != "ii" {
        unsupported!("the equation \"{text}\", whose top is not i, j, k, l in this order");
    }
    let operands: Vec<Vec<char>> = operands.split(',').map(|letters| letters.chars().collect()).collect();
    let mut letters: Vec<char> = operands.concat();
    letters.sort_unstable();
    letters.dedup();
    // The letters of the top are the first ones, so its axes are outermost.
    if operands.len() != bottoms.len()
        || letters.iter().any(|letter| !('i'..='x').contains(letter))
        || !letters.iter().copied().take(top.len()).eq(top.chars())
    {
        invalid!("the equation \"{text}\" of {} bottoms", bottoms.len());
    }
    let mut sizes = vec![None; letters.len()];
    let mut indexed = Vec::new();
    for (operand, bottom) in operands.iter().zip(bottoms) {
        if operand.len() != bottom.ndim() {
            invalid!("a bottom of {:?} in the equation \"{text}\"", bottom.shape());
        }
        let axes: Vec<usize> =
            operand.iter().filter_map(|letter| letters.iter().position(|other| other == letter)).collect();
        for (axis, size) in axes.iter().zip(bottom.shape()) {
            match sizes.get_mut(*axis) {
                Some(known) if known.is_none_or(|known| known == *size) => *known = Some(*size),
                _ => invalid!("sizes of the equation \"{text}\" differ"),
            }
        }
        indexed.push((axes, bottom));
    }
    let sizes: Vec<usize> = sizes.into_iter().flatten().collect();
    let terms = sizes.iter().try_fold(1_usize, |terms, size| terms.checked_mul(*size));
    if terms.is_none_or(|terms| terms > MOST_TERMS) {
        unsupported!("an Einsum of {sizes:?} terms");
    }
    let mut products = ArrayD::ones(sizes);
    for (axes, bottom) in indexed {
        for (index, product) in products.indexed_iter_mut() {
            let index = Dimension::slice(&index);
            let at: Vec<usize> = axes.iter().filter_map(|axis| index.get(*axis)).copied().collect();
            *product *= bottom.get(at.as_slice()).copied().unwrap_or(f64::NAN);
        }
    }
    while products.ndim() > top.len() {
        products = products.sum_axis(Axis(products.ndim() - 1));
    }
    Ok(if top.is_empty() { products.insert_axis(Axis(0)) } else { products })
}

/// Returns the rows of a table. An index beyond the table takes the first or the last row.
fn embed(layer: &Embed, bottom: &Mat) -> Result<Mat> {
    let (rows, width) = (size(layer.input_dim)?, size(layer.num_output)?);
    if bottom.ndim() != 1 || rows == 0 {
        invalid!("indices of {:?} into {rows} rows", bottom.shape());
    }
    let table = matrix(&layer.weight_data, rows, width)?;
    let chosen: Vec<usize> =
        bottom.iter().map(|index| AsPrimitive::<usize>::as_(*index).min(rows - 1)).collect();
    let mut top = table.select(Axis(0), &chosen);
    if layer.weight_data_int8_scale.is_some() {
        check_int8(&layer.weight_data)?;
        for scale in weight(&layer.weight_data_int8_scale, 1)? {
            top /= scale;
        }
    }
    if layer.bias_data.is_some() {
        top += &Array1::from(weight(&layer.bias_data, width)?);
    }
    Ok(top.into_dyn())
}
