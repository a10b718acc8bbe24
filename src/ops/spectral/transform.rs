//! The transforms themselves: linear maps whose matrices are known.

use std::f64::consts::PI;

use ndarray::{Array2, ArrayD, IxDyn};
use num_traits::AsPrimitive;

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::ops::{Call, Fact, resolve_axis};
use crate::pass::expand::Expand;
use crate::tensor::{Array, DType, Dim, Tensor};

/// Most elements of the matrix of a transform: a full complex one of 2048 has as many.
const MAX_MATRIX: i64 = 1 << 24;

/// A discrete Fourier transform along an axis.
#[derive(Clone, Copy)]
struct Dft {
    axis: usize,
    /// Elements of the axis that are read.
    used: i64,
    /// The length of the transform: what is missing of it is zero.
    length: i64,
    inverse: bool,
    onesided: bool,
    /// 1 where the input is real, 2 where it is complex.
    parts: i64,
}

impl Dft {
    /// Elements of the axis in the output.
    fn bins(&self) -> i64 {
        if self.onesided && !self.inverse { self.length / 2 + 1 } else { self.length }
    }

    /// 1 where the output is real, 2 where it is complex.
    fn output_parts(&self) -> i64 {
        if self.onesided && self.inverse { 1 } else { 2 }
    }

    /// What part `from` of element `n` adds to part `to` of bin `k`.
    fn weight(&self, n: i64, from: i64, k: i64, to: i64) -> f64 {
        // The product is reduced before it becomes an angle, so that no precision is lost.
        let turn: f64 = (n * k).rem_euclid(self.length.max(1)).as_();
        let length: f64 = self.length.as_();
        let angle = 2.0 * PI * turn / length;
        let sine = if self.inverse { angle.sin() } else { -angle.sin() };
        let weight = match (from, to) {
            (0, 0) | (1, 1) => angle.cos(),
            (0, _) => sine,
            _ => -sine,
        };
        if !self.inverse {
            return weight;
        }
        // A spectrum of one side: every element but the first and the middle one stands for its mirror image too.
        let twice = self.onesided && n != 0 && 2 * n != self.length;
        // The imaginary parts of those two would add sines of multiples of pi.
        let none = self.onesided && !twice && from == 1;
        let count = if none { 0.0 } else { 1.0 + f64::from(u8::from(twice)) };
        weight * count / length
    }
}

/// 1 where the elements are real, 2 where they are complex.
fn parts(shape: &[Dim]) -> Result<i64> {
    match shape.last().and_then(Dim::known) {
        Some(parts @ (1 | 2)) => Ok(parts),
        Some(other) => Err(Error::invalid(format!("a last axis of {other}, where it is 1 or 2"))),
        None => Err(Error::unsupported("a last axis whose size is not fixed")),
    }
}

fn read_dft(call: &Call) -> Result<Dft> {
    let shape = call.shape(0)?;
    let (inverse, onesided) = (call.flag("inverse", false)?, call.flag("onesided", false)?);
    let axis = match (call.since(), call.has_input(2)) {
        (..20, _) => call.int_or("axis", 1)?,
        (_, true) => call.array(2)?.scalar_i64()?,
        (_, false) => -2,
    };
    let axis = resolve_axis(axis, shape.len())?;
    let Some(size) = shape.at(axis)?.known() else {
        return Err(
            Error::unsupported("the length of the transform is not fixed").help("fix it with --input-shape")
        );
    };
    let length = match call.has_input(1) {
        true => call.array(1)?.scalar_i64()?,
        false if inverse && onesided => 2 * (size - 1),
        false => size,
    };
    if length < 1 || axis + 1 == shape.len() {
        invalid!("a transform of length {length} along axis {axis} of {}", shape.len());
    }
    let parts = parts(shape)?;
    if onesided && !inverse && parts == 2 {
        invalid!("one side of the spectrum of a complex signal");
    }
    let used = size.min(if inverse && onesided { length / 2 + 1 } else { length });
    Ok(Dft { axis, used, length, inverse, onesided, parts })
}

pub(in crate::ops) fn infer_dft(call: &Call) -> Result<Vec<Fact>> {
    let dft = read_dft(call)?;
    let mut shape = call.shape(0)?.to_vec();
    if let Some(size) = shape.get_mut(dft.axis) {
        *size = Dim::Known(dft.bins());
    }
    if let Some(size) = shape.last_mut() {
        *size = Dim::Known(dft.output_parts());
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The transform as a matrix: a row an element and part of the input, a column an element and part of the output.
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

pub(in crate::ops) fn expand_dft(x: &mut Expand) -> Result<bool> {
    let dft = read_dft(x)?;
    let (rank, dtype) = (x.shape(0)?.len(), x.dtype(0)?);
    let mut operand = x.operand_as(0, DType::F32)?;
    if x.shape(0)?.at(dft.axis)?.known() != Some(dft.used) {
        let (start, end) = (x.ints(&[0])?, x.ints(&[dft.used])?);
        let axes = x.ints(&[i64::try_from(dft.axis)?])?;
        operand = x.op("Slice", &[operand, start, end, axes], &[])?;
    }
    // The axis beside the parts, and both as one.
    let mut perm = (0..rank).map(i64::try_from).collect::<std::result::Result<Vec<_>, _>>()?;
    let moved = perm.remove(dft.axis);
    perm.insert(rank - 2, moved);
    let in_place = dft.axis + 2 == rank;
    if !in_place {
        operand = x.transpose(operand, &perm)?;
    }
    let mut shape = vec![0; rank - 2];
    shape.push(dft.used * dft.parts);
    let merged = x.reshape(operand, &shape)?;
    let matrix = x.tensor(matrix(dft)?)?;
    let product = x.op("MatMul", &[merged, matrix], &[])?;
    shape.pop();
    shape.extend([dft.bins(), dft.output_parts()]);
    let mut result = x.reshape(product, &shape)?;
    if !in_place {
        let mut back = vec![0; rank];
        for (place, axis) in perm.iter().enumerate() {
            if let Some(slot) = back.get_mut(usize::try_from(*axis)?) {
                *slot = i64::try_from(place)?;
            }
        }
        result = x.transpose(result, &back)?;
    }
    if dtype != DType::F32 {
        result = x.cast(result, dtype)?;
    }
    x.output(0, result)?;
    Ok(true)
}

/// A short-time transform: of frames along the second axis of `[batch, length, parts]`.
struct Stft {
    frame_step: i64,
    frame: Dft,
}

fn read_stft(call: &Call) -> Result<Stft> {
    let shape = call.shape(0)?;
    let onesided = call.flag("onesided", true)?;
    let parts = parts(shape)?;
    if shape.len() != 3 {
        invalid!("a signal of {} axes, where it has 3", shape.len());
    }
    if onesided && parts == 2 {
        invalid!("one side of the spectrum of a complex signal");
    }
    let frame_step = call.array(1)?.scalar_i64()?;
    let length = if call.has_input(3) {
        call.array(3)?.scalar_i64()?
    } else {
        let size = if call.has_input(2) { call.shape(2)?.at(0)? } else { shape.at(1)? };
        size.known().ok_or_else(|| Error::unsupported("the length of the frames is not fixed"))?
    };
    if frame_step < 1 || length < 1 {
        invalid!("frames of {length} in steps of {frame_step}");
    }
    Ok(Stft { frame_step, frame: Dft { axis: 1, used: length, length, inverse: false, onesided, parts } })
}

pub(in crate::ops) fn infer_stft(call: &Call) -> Result<Vec<Fact>> {
    let Stft { frame_step, frame } = read_stft(call)?;
    let [batch, length, _] = call.shape(0)? else { invalid!("a signal without three axes") };
    let steps = length.sub(&Dim::Known(frame.length))?.floor_div(&Dim::Known(frame_step))?;
    let frames = steps.add(&Dim::Known(1))?;
    Ok(vec![Fact::new(call.dtype(0)?, vec![batch.clone(), frames, Dim::Known(frame.bins()), Dim::Known(2)])])
}

/// A kernel a bin and part: the rows of the transform times the window.
fn kernels(frame: Dft, window: Option<Tensor>) -> Result<Tensor> {
    let columns = frame.bins().saturating_mul(2);
    if columns.saturating_mul(frame.parts).saturating_mul(frame.length) > MAX_MATRIX {
        return Err(Error::limit(format!("frames of {}", frame.length)));
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

pub(in crate::ops) fn expand_stft(x: &mut Expand) -> Result<bool> {
    let Stft { frame_step, frame } = read_stft(x)?;
    let window = if x.has_input(2) { Some(x.required_constant(2)?.clone()) } else { None };
    if window.as_ref().is_some_and(|window| i64::try_from(window.len()) != Ok(frame.length)) {
        invalid!("a window of another length than the frames");
    }
    if x.shape(0)?.at(1)?.known().is_some_and(|length| length < frame.length) {
        unsupported!("a signal that is shorter than a frame");
    }
    let dtype = x.dtype(0)?;
    let signal = x.operand_as(0, DType::F32)?;
    let signal = x.transpose(signal, &[0, 2, 1])?;
    let kernels = x.tensor(kernels(frame, window)?)?;
    let strides = ("strides", Attribute::Ints(vec![frame_step]));
    let spectrum = x.op("Conv", &[signal, kernels], &[strides])?;
    let apart = x.reshape(spectrum, &[0, frame.bins(), 2, -1])?;
    let mut result = x.transpose(apart, &[0, 3, 1, 2])?;
    if dtype != DType::F32 {
        result = x.cast(result, dtype)?;
    }
    x.output(0, result)?;
    Ok(true)
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
    fn transforms_there_and_back_are_the_signal() {
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
