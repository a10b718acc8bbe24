//! DFT and STFT: linear maps with constant matrices.

use std::f64::consts::PI;

use ndarray::{Array2, ArrayD, IxDyn};
use num_traits::AsPrimitive;

use crate::ops::prelude::*;
use crate::pass::pattern::inverse;

/// The maximum number of elements of a matrix: that of a complex transform of length 2048.
const MAX_MATRIX: i64 = 1 << 24;

/// A discrete Fourier transform along an axis.
#[derive(Clone, Copy)]
struct Dft {
    axis: usize,
    /// The number of elements of the axis that are read.
    used: i64,
    /// The length of the transform; elements beyond those that are read are zero.
    length: i64,
    inverse: bool,
    onesided: bool,
    /// 1 if the input is real, 2 if it is complex.
    parts: i64,
}

impl Dft {
    /// Returns the number of elements of the axis in the output.
    fn bins(&self) -> i64 {
        if self.onesided && !self.inverse { self.length / 2 + 1 } else { self.length }
    }

    /// Returns 1 if the output is real, 2 if it is complex.
    fn output_parts(&self) -> i64 {
        if self.onesided && self.inverse { 1 } else { 2 }
    }

    /// Returns the factor by which part `from` of element `n` contributes to part `to` of bin `k`.
    fn weight(&self, n: i64, from: i64, k: i64, to: i64) -> f64 {
        // Reducing the integer product keeps the precision of the angle.
        let turn: f64 = (n * k).rem_euclid(self.length.max(1)).as_();
        let length: f64 = self.length.as_();
        let angle = 2.0 * PI * turn / length;
        let sine = if self.inverse { libm::sin(angle) } else { -libm::sin(angle) };
        let weight = match (from, to) {
            (0, 0) | (1, 1) => libm::cos(angle),
            (0, _) => sine,
            _ => -sine,
        };
        if !self.inverse {
            return weight;
        }
        // In a one-sided spectrum every element but the first and the middle one also represents its mirror
        // image.
        let twice = self.onesided && n != 0 && 2 * n != self.length;
        // The imaginary parts of those two are multiplied by sines of multiples of pi.
        let none = self.onesided && !twice && from == 1;
        let count = if none { 0.0 } else { 1.0 + f64::from(u8::from(twice)) };
        weight * count / length
    }
}

/// Returns 1 if the elements are real, 2 if they are complex.
fn parts(shape: &[Dim]) -> Result<i64> {
    match shape.last().and_then(Dim::known) {
        Some(parts @ (1 | 2)) => Ok(parts),
        Some(other) => Err(Error::invalid(format!("the last axis has size {other}, expected 1 or 2"))),
        None => Err(Error::unsupported("the size of the last axis is known only at run time")),
    }
}

/// Returns an integer input of one element.
fn integer(call: &Call, index: usize) -> Result<i64> {
    call.check_integer(index)?;
    call.array(index)?.scalar_i64()
}

fn check_float(call: &Call) -> Result<()> {
    match call.dtype(0)? {
        dtype if dtype.is_float() => Ok(()),
        dtype => Err(Error::invalid(format!("the signal has type {dtype}, expected a float type"))),
    }
}

fn read_dft(call: &Call) -> Result<Dft> {
    check_float(call)?;
    let shape = call.shape(0)?;
    let axis = match (call.since(), call.has_input(2)) {
        (..20, _) => call.int("axis")?,
        (_, true) => integer(call, 2)?,
        (_, false) => -2,
    };
    let axis = resolve_axis(axis, shape.len())?;
    let (inverse, onesided) = (call.flag("inverse")?, call.flag("onesided")?);
    let Some(size) = shape.at(axis)?.known() else {
        return Err(Error::unsupported("the length of the transform is known only at run time"));
    };
    check_length(size)?;
    let length = match call.has_input(1) {
        true => integer(call, 1)?,
        false if inverse && onesided => 2 * (size - 1),
        false => size,
    };
    check_length(length)?;
    if length < 1 || axis + 1 == shape.len() {
        invalid!("a transform of length {length} along axis {axis} of {}", shape.len());
    }
    let parts = parts(shape)?;
    if onesided && !inverse && parts == 2 {
        invalid!("a one-sided spectrum of a complex signal");
    }
    if inverse && onesided && size != length / 2 + 1 {
        unsupported!(
            "a one-sided spectrum of {size} bins for {length} elements: onnxruntime and the specification's \
                reference disagree"
        );
    }
    let used = size.min(if inverse && onesided { length / 2 + 1 } else { length });
    Ok(Dft { axis, used, length, inverse, onesided, parts })
}

/// Refuses lengths whose products could overflow.
fn check_length(length: i64) -> Result<()> {
    if length > limits::EXPANDED_AXIS {
        return Err(Error::limit(format!("a transform of length {length}")));
    }
    Ok(())
}

/// A fast transform takes about four multiply-adds for each number and each halving of its length.
pub(super) fn multiply_adds(call: &Call) -> Option<u64> {
    let shape = call.output_shape(0).ok()?;
    let longest = shape.iter().map(|size| size.known()).max()??;
    Some(element_count(shape)?.saturating_mul(4 * u64::from(longest.checked_ilog2()? + 1)))
}

pub(in crate::ops) fn infer_dft(call: &Call) -> Result<Vec<Fact>> {
    let dft = read_dft(call)?;
    let mut shape = call.shape(0)?.to_vec();
    shape.put(dft.axis, Dim::Known(dft.bins()));
    if let Some(size) = shape.last_mut() {
        *size = Dim::Known(dft.output_parts());
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Returns the matrix of a transform, with a row for each element and part of the input and a column for each
/// of the output.
fn matrix(dft: Dft) -> Result<Tensor> {
    let rows = dft.used.saturating_mul(dft.parts);
    let columns = dft.bins().saturating_mul(dft.output_parts());
    if rows.saturating_mul(columns) > MAX_MATRIX {
        return Err(Error::limit(format!("a transform of length {}", dft.length)));
    }
    let shape = [usize::try_from(rows)?, usize::try_from(columns)?];
    Tensor::deferred(DType::F32, shape.to_vec(), Vec::new(), move |_| {
        let weights = Array2::from_shape_fn(shape, |(row, column)| {
            let (row, column): (i64, i64) = (row.as_(), column.as_());
            let (n, from) = (row / dft.parts, row % dft.parts);
            dft.weight(n, from, column / dft.output_parts(), column % dft.output_parts()).as_()
        });
        Ok(Array::f32(weights.into_dyn()))
    })
}

pub(in crate::ops) fn expand_dft<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let result = transform(x, x.operand_as(0, DType::F32), read_dft(x)?)?;
    Ok(result.to_type(x.dtype(0)?))
}

fn transform<'x>(x: &'x Expand, mut data: Expr<'x>, dft: Dft) -> Result<Expr<'x>> {
    let rank = x.shape(0)?.len();
    if x.shape(0)?.at(dft.axis)?.known() != Some(dft.used) {
        data = data.slice(i64::try_from(dft.axis)?, 0, dft.used);
    }
    // The axis is moved next to the parts, and both are merged.
    let mut perm: Vec<usize> = (0..rank).collect();
    let moved = perm.remove(dft.axis);
    perm.insert(rank - 2, moved);
    let in_place = dft.axis + 2 == rank;
    if !in_place {
        data = data.transpose(&perm);
    }
    let mut shape = vec![0; rank - 2];
    shape.push(dft.used * dft.parts);
    let product = data.reshape(&shape).matmul(x.make.tensor(matrix(dft)?));
    shape.pop();
    shape.extend([dft.bins(), dft.output_parts()]);
    let result = product.reshape(&shape);
    Ok(if in_place { result } else { result.transpose(&inverse(&perm)) })
}

/// Returns the number of last axes that Rfft and Irfft transform.
fn read_real(call: &Call, rank: usize) -> Result<i64> {
    check_float(call)?;
    if !call.flag("onesided")? || call.flag("normalized")? {
        unsupported!("a two-sided or normalized transform");
    }
    let axes = call.int("signal_ndim")?;
    if axes < 1 || usize::try_from(axes)? > rank {
        invalid!("a transform of {axes} of {rank} axes");
    }
    Ok(axes)
}

/// The spectrum of a real signal is one-sided along the last axis, and has an axis for its parts.
pub(super) fn infer_rfft(call: &Call) -> Result<Vec<Fact>> {
    let mut shape = call.shape(0)?.to_vec();
    read_real(call, shape.len())?;
    let last = shape.len().saturating_sub(1);
    let bins = shape.at(last)?.floor_div(&Dim::Known(2))?.add(&Dim::Known(1))?;
    shape.put(last, bins);
    shape.push(Dim::Known(2));
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

pub(super) fn expand_rfft<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let axes = read_real(x, x.shape(0)?.len())?;
    let signal = x.operand(0).unsqueeze(&[-1]);
    Ok((0..axes).fold(signal, |value, axis| along(x, value, axis, false)))
}

/// The signal has an even number of elements.
pub(super) fn infer_irfft(call: &Call) -> Result<Vec<Fact>> {
    let [axes @ .., Dim::Known(2)] = call.shape(0)? else { invalid!("a spectrum without two parts") };
    read_real(call, axes.len())?;
    let mut shape = axes.to_vec();
    let last = shape.len().saturating_sub(1);
    let length = shape.at(last)?.sub(&Dim::Known(1))?.mul(&Dim::Known(2))?;
    shape.put(last, length);
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

pub(super) fn expand_irfft<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let axes = read_real(x, x.shape(0)?.len().saturating_sub(1))?;
    let signal = (0..axes).rev().fold(x.operand(0), |value, axis| along(x, value, axis, true));
    Ok(signal.squeeze(&[-1]))
}

/// Returns the transform along an axis, counted from the last before the parts; that one is one-sided.
fn along<'x>(x: &'x Expand, value: Expr<'x>, axis: i64, inverse: bool) -> Expr<'x> {
    let attributes = [("inverse", i64::from(inverse).into()), ("onesided", i64::from(axis == 0).into())];
    x.make.op("DFT", [Some(value), None, Some(x.make.int(-2 - axis))], attributes)
}

/// A short-time transform, of frames along the second axis of `[batch, length, parts]`.
#[derive(Clone, Copy)]
struct Stft {
    frame_step: i64,
    frame: Dft,
}

fn read_stft(call: &Call) -> Result<Stft> {
    check_float(call)?;
    let shape = call.shape(0)?;
    let onesided = call.flag("onesided")?;
    let parts = match shape {
        // onnxruntime computes real signals without their axis, which torch writes.
        [_, _] => 1,
        [_, _, _] => parts(shape)?,
        _ => invalid!("the signal has {} axes, expected 3", shape.len()),
    };
    if onesided && parts == 2 {
        invalid!("a one-sided spectrum of a complex signal");
    }
    let frame_step = integer(call, 1)?;
    let length = if call.has_input(3) {
        integer(call, 3)?
    } else {
        let size = if call.has_input(2) { call.shape(2)?.at(0)? } else { shape.at(1)? };
        size.known()
            .ok_or_else(|| Error::unsupported("the length of the frames is known only at run time"))?
    };
    check_length(length)?;
    if length < 1 || frame_step < 1 {
        invalid!("frames of length {length} with step {frame_step}");
    }
    Ok(Stft { frame_step, frame: Dft { axis: 1, used: length, length, inverse: false, onesided, parts } })
}

pub(in crate::ops) fn infer_stft(call: &Call) -> Result<Vec<Fact>> {
    let Stft { frame_step, frame } = read_stft(call)?;
    let (batch, length) = (call.shape(0)?.at(0)?, call.shape(0)?.at(1)?);
    let steps = length.sub(&Dim::Known(frame.length))?.floor_div(&Dim::Known(frame_step))?;
    let frames = steps.add(&Dim::Known(1))?;
    Ok(vec![Fact::new(call.dtype(0)?, vec![batch.clone(), frames, Dim::Known(frame.bins()), Dim::Known(2)])])
}

/// Returns a kernel for each bin and part: the rows of the transform times the window.
fn kernels(frame: Dft, window: Option<Tensor>) -> Result<Tensor> {
    let columns = frame.bins().saturating_mul(2);
    if columns.saturating_mul(frame.parts).saturating_mul(frame.length) > MAX_MATRIX {
        return Err(Error::limit(format!("frames of length {}", frame.length)));
    }
    let shape = [usize::try_from(columns)?, usize::try_from(frame.parts)?, usize::try_from(frame.length)?];
    let inputs: Vec<Tensor> = window.into_iter().collect();
    Tensor::deferred(DType::F32, shape.to_vec(), inputs, move |inputs| {
        let window = inputs.first().map(Array::to_f64).transpose()?;
        let window: Option<Vec<f64>> = window.map(|window| window.iter().copied().collect());
        let weights = ArrayD::from_shape_fn(IxDyn(&shape), |at| {
            let at: Vec<i64> = ndarray::Dimension::slice(&at).iter().map(|i| i.as_()).collect();
            let [column, part, n] = *at.as_slice() else { return 0.0 };
            let n_place: usize = n.as_();
            let factor = window.as_ref().and_then(|window| window.get(n_place)).copied();
            (frame.weight(n, part, column / 2, column % 2) * factor.unwrap_or(1.0)).as_()
        });
        Ok(Array::f32(weights))
    })
}

pub(in crate::ops) fn expand_stft<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let signal = x.operand_as(0, DType::F32);
    let is_bare = x.shape(0)?.len() == 2;
    let signal = if is_bare { signal.unsqueeze(&[1]) } else { signal.transpose(&[0, 2, 1]) };
    Ok(spectra(x, signal, read_stft(x)?)?.to_type(x.dtype(0)?))
}

/// Returns the spectra of the frames.
fn spectra<'x>(x: &'x Expand, signal: Expr<'x>, stft: Stft) -> Result<Expr<'x>> {
    let Stft { frame_step, frame } = stft;
    let window = if x.has_input(2) { x.constant(2).cloned() } else { None };
    if x.has_input(2) && x.shape(2)?.at(0)?.known() != Some(frame.length) {
        invalid!("the window and the frames differ in length");
    }
    if x.shape(0)?.at(1)?.known().is_some_and(|length| length < frame.length) {
        unsupported!("the signal is shorter than a frame");
    }
    let computed = x.has_input(2) && window.is_none();
    let mut kernels = x.make.tensor(kernels(frame, window)?);
    if computed {
        kernels = kernels * x.operand_as(2, DType::F32).reshape(&[1, 1, frame.length]);
    }
    let spectrum = x.make.op("Conv", [signal, kernels], [("strides", vec![frame_step].into())]);
    Ok(spectrum.reshape(&[0, frame.bins(), 2, -1]).transpose(&[0, 3, 1, 2]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn transform(dft: Dft, input: &[f64]) -> Vec<f64> {
        let columns = dft.bins() * dft.output_parts();
        (0..columns)
            .map(|column| {
                let (k, to) = (column / dft.output_parts(), column % dft.output_parts());
                let terms = input.iter().zip(0_i64..);
                terms.map(|(x, row)| x * dft.weight(row / dft.parts, row % dft.parts, k, to)).sum()
            })
            .collect()
    }

    #[test]
    fn inverse_transform_restores_the_signal() {
        let signal = [1.0, -2.0, 0.5, 4.0, 3.0];
        for length in [4_i64, 5] {
            let part = &signal[..usize::try_from(length).unwrap()];
            for onesided in [false, true] {
                let there = Dft { axis: 0, used: length, length, inverse: false, onesided, parts: 1 };
                let spectrum = transform(there, part);
                let used = there.bins();
                let back = Dft { used, inverse: true, parts: 2, ..there };
                let result = transform(back, &spectrum);
                let step = if onesided { 1 } else { 2 };
                for (x, y) in part.iter().zip(result.iter().step_by(step)) {
                    assert!((x - y).abs() < 1e-12, "{length} {onesided}: {result:?}");
                }
            }
        }
    }
}
