//! The transforms themselves: linear maps whose matrices are known.

use std::f64::consts::PI;

use ndarray::{Array2, ArrayD, IxDyn};
use num_traits::AsPrimitive;

use crate::common::limits;
use crate::error::{At, Error, ErrorKind, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, resolve_axis};
use crate::ops::run_time::{
    Choice, MAX_CHOICES, check_count, check_integer, choose, is_axis, is_number, scalar,
};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType, Dim, Tensor, display_shape};

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

/// What of a transform is known before the net runs.
struct DftInputs {
    /// What a value computed at run time is told by.
    axis: Option<usize>,
    length: Option<i64>,
    inverse: bool,
    onesided: bool,
}

/// An integer input that is given, where it is known.
fn known_scalar(call: &Call, index: usize) -> Result<Option<i64>> {
    check_integer(call, index)?;
    match call.array(index) {
        Ok(array) => array.scalar_i64().map(Some),
        Err(error) if error.kind() == ErrorKind::Unsupported => Ok(None),
        Err(error) => Err(error),
    }
}

fn check_float(call: &Call) -> Result<()> {
    match call.dtype(0)? {
        dtype if dtype.is_float() => Ok(()),
        dtype => Err(Error::invalid(format!("a transform of {dtype}"))),
    }
}

fn read_dft_inputs(call: &Call) -> Result<DftInputs> {
    check_float(call)?;
    let axis = match (call.since(), call.has_input(2)) {
        (..20, _) => Some(call.int_or("axis", 1)?),
        (_, true) => known_scalar(call, 2)?,
        (_, false) => Some(-2),
    };
    let rank = call.shape(0)?.len();
    Ok(DftInputs {
        axis: axis.map(|axis| resolve_axis(axis, rank)).transpose()?,
        length: if call.has_input(1) { known_scalar(call, 1)? } else { None },
        inverse: call.flag("inverse", false)?,
        onesided: call.flag("onesided", false)?,
    })
}

/// The transform along an axis; of a length, where it is not that of the axis.
fn dft(call: &Call, inputs: &DftInputs, axis: usize, length: Option<i64>) -> Result<Dft> {
    let (shape, inverse, onesided) = (call.shape(0)?, inputs.inverse, inputs.onesided);
    let Some(size) = shape.at(axis)?.known() else {
        return Err(
            Error::unsupported("the length of the transform is not fixed").help("fix it with --input-shape")
        );
    };
    check_length(size)?;
    let length = length.unwrap_or(if inverse && onesided { 2 * (size - 1) } else { size });
    check_length(length)?;
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

/// Refuses what is too long for any matrix, so that nothing that is computed of it is out of range.
fn check_length(length: i64) -> Result<()> {
    if length > limits::EXPANDED_AXIS {
        return Err(Error::limit(format!("a transform of length {length}")));
    }
    Ok(())
}

/// Refuses a spectrum of one side that has not as many bins as its length.
fn check_bins(call: &Call, dft: &Dft) -> Result<()> {
    let size = call.shape(0)?.at(dft.axis)?;
    if dft.inverse && dft.onesided && !size.is(dft.length / 2 + 1) {
        unsupported!(
            "one side of a spectrum, {size} bins, for {} elements: onnxruntime and the specification's reference disagree",
            dft.length
        );
    }
    Ok(())
}

/// The lengths of transforms that have so many bins.
fn lengths_of(bins: i64, of_one_side: bool) -> Vec<i64> {
    if bins > limits::EXPANDED_AXIS {
        return Vec::new();
    }
    let shortest = 2 * (bins - 1);
    if of_one_side { vec![shortest, shortest + 1] } else { vec![bins] }
}

/// The transforms that may be meant: where axis or length are computed at run time, those that give the shape that the model states.
fn read_dfts(call: &Call) -> Result<Vec<Dft>> {
    let inputs = read_dft_inputs(call)?;
    let computed = inputs.length.is_none() && call.has_input(1);
    if let (Some(axis), false) = (inputs.axis, computed) {
        let only = dft(call, &inputs, axis, inputs.length)?;
        return check_bins(call, &only).map(|()| vec![only]);
    }
    let (shape, Some(stated)) = (call.shape(0)?, call.declared_shape(0)) else {
        unsupported!("an axis or a length computed at run time, and no shape is stated of the result");
    };
    let mut found = Vec::new();
    for axis in (0..shape.len().saturating_sub(1)).filter(|axis| inputs.axis.is_none_or(|own| own == *axis)) {
        let bins = stated.get(axis).and_then(Dim::known).unwrap_or(0);
        let lengths = match computed {
            true => lengths_of(bins, inputs.onesided && !inputs.inverse).into_iter().map(Some).collect(),
            false => vec![inputs.length],
        };
        let fits = |dft: &Dft| transformed(shape, dft) == stated;
        found.extend(
            lengths.into_iter().filter_map(|length| dft(call, &inputs, axis, length).ok()).filter(fits),
        );
    }
    if found.is_empty() {
        unsupported!("no transform of {} is {}", display_shape(shape), display_shape(stated));
    }
    found.iter().try_for_each(|dft| check_bins(call, dft))?;
    check_count("transforms with an axis or a length", found.len())?;
    Ok(found)
}

fn transformed(shape: &[Dim], dft: &Dft) -> Vec<Dim> {
    let mut shape = shape.to_vec();
    if let Some(size) = shape.get_mut(dft.axis) {
        *size = Dim::Known(dft.bins());
    }
    if let Some(size) = shape.last_mut() {
        *size = Dim::Known(dft.output_parts());
    }
    shape
}

pub(in crate::ops) fn infer_dft(call: &Call) -> Result<Vec<Fact>> {
    let dfts = read_dfts(call)?;
    Ok(vec![Fact::new(call.dtype(0)?, transformed(call.shape(0)?, dfts.at(0)?))])
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
    let (dfts, inputs) = (read_dfts(x)?, read_dft_inputs(x)?);
    let operand = x.operand_as(0, DType::F32)?;
    let mut choices: Vec<Choice> = Vec::with_capacity(dfts.len());
    for dft in dfts {
        let result = transform(x, operand, dft)?;
        let mut meant = Vec::new();
        if !choices.is_empty() && inputs.axis.is_none() {
            let (axis, rank) = (scalar(x, 2)?, x.shape(0)?.len());
            meant.push(is_axis(x, axis, dft.axis, rank)?);
        }
        if !choices.is_empty() && x.has_input(1) && inputs.length.is_none() {
            let length = scalar(x, 1)?;
            meant.push(is_number(x, length, dft.length)?);
        }
        choices.push(Choice { result, meant });
    }
    let result = choose(x, &choices)?;
    give(x, result)
}

/// Makes float32 values the output, in the type of the input.
fn give(x: &mut Expand, result: Operand) -> Result<bool> {
    let dtype = x.dtype(0)?;
    let result = if dtype == DType::F32 { result } else { x.cast(result, dtype)? };
    x.output(0, result)?;
    Ok(true)
}

/// One transform of the data.
fn transform(x: &mut Expand, data: Operand, dft: Dft) -> Result<Operand> {
    let rank = x.shape(0)?.len();
    let mut operand = data;
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
    Ok(result)
}

/// A short-time transform: of frames along the second axis of `[batch, length, parts]`.
#[derive(Clone, Copy)]
struct Stft {
    frame_step: i64,
    frame: Dft,
}

/// The transforms that may be meant: where the step or the length of frames are computed at run time, those that give the shape that the
/// model states.
fn read_stfts(call: &Call) -> Result<Vec<Stft>> {
    check_float(call)?;
    let shape = call.shape(0)?;
    let onesided = call.flag("onesided", true)?;
    let parts = parts(shape)?;
    if shape.len() != 3 {
        invalid!("a signal of {} axes, where it has 3", shape.len());
    }
    if onesided && parts == 2 {
        invalid!("one side of the spectrum of a complex signal");
    }
    let stated = |axis: usize| call.declared_shape(0).and_then(|shape| shape.get(axis)?.known());
    let unstated = || Error::unsupported("frames computed at run time, and no shape is stated of the result");
    let given = if call.has_input(3) { known_scalar(call, 3)? } else { None };
    let lengths = match (given, call.has_input(2), call.has_input(3)) {
        (Some(length), ..) => vec![length],
        (None, false, true) => lengths_of(stated(2).ok_or_else(unstated)?, onesided),
        (None, has_window, _) => {
            let size = if has_window { call.shape(2)?.at(0)? } else { shape.at(1)? };
            vec![size.known().ok_or_else(|| Error::unsupported("the length of the frames is not fixed"))?]
        }
    };
    let mut found = Vec::new();
    for length in lengths {
        check_length(length)?;
        if length < 1 {
            invalid!("frames of {length}");
        }
        let steps = match known_scalar(call, 1)? {
            Some(step) => vec![step],
            None => {
                let (Some(size), Some(frames)) = (shape.at(1)?.known(), stated(1)) else {
                    return Err(unstated());
                };
                steps_of(size - length, frames)
            }
        };
        // The others of several lengths give another shape than the one that is stated.
        let frames = stated(1).filter(|_| given.is_none() && call.has_input(3));
        if let (Some(size), Some(frames)) = (shape.at(1)?.known(), frames)
            && steps.iter().any(|step| *step > 0 && (size - length).div_euclid(*step) + 1 != frames)
        {
            continue;
        }
        let frame = Dft { axis: 1, used: length, length, inverse: false, onesided, parts };
        if steps.iter().any(|step| *step < 1) {
            invalid!("frames of {length} in steps of {steps:?}");
        }
        found.extend(steps.into_iter().map(|frame_step| Stft { frame_step, frame }));
    }
    if found.is_empty() {
        unsupported!("no frames of {} give the shape that is stated", display_shape(shape));
    }
    check_count("frames", found.len())?;
    Ok(found)
}

/// The steps in which there are so many frames, of which the last begins at `last` or before. One frame has no step: it stands for all.
fn steps_of(last: i64, frames: i64) -> Vec<i64> {
    match frames {
        ..1 => Vec::new(),
        1 if last >= 0 => vec![last + 1],
        1 => Vec::new(),
        _ => {
            let steps = last / frames + 1..=last / (frames - 1);
            steps.filter(|step| last / step + 1 == frames).take(MAX_CHOICES + 1).collect()
        }
    }
}

pub(in crate::ops) fn infer_stft(call: &Call) -> Result<Vec<Fact>> {
    let stfts = read_stfts(call)?;
    let Stft { frame_step, frame } = *stfts.at(0)?;
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
    let stfts = read_stfts(x)?;
    let signal = x.operand_as(0, DType::F32)?;
    let signal = x.transpose(signal, &[0, 2, 1])?;
    let mut choices: Vec<Choice> = Vec::with_capacity(stfts.len());
    for Stft { frame_step, frame } in stfts {
        let result = spectra(x, signal, frame_step, frame)?;
        let mut meant = Vec::new();
        // Where there is one frame, all steps are alike.
        let steps_matter = x.output_shape(0)?.at(1)?.known() != Some(1);
        if !choices.is_empty() && steps_matter && known_scalar(x, 1)?.is_none() {
            let step = scalar(x, 1)?;
            meant.push(is_number(x, step, frame_step)?);
        }
        if !choices.is_empty() && x.has_input(3) && known_scalar(x, 3)?.is_none() {
            let length = scalar(x, 3)?;
            meant.push(is_number(x, length, frame.length)?);
        }
        choices.push(Choice { result, meant });
    }
    let result = choose(x, &choices)?;
    give(x, result)
}

/// The spectra of frames of one length, in one step.
fn spectra(x: &mut Expand, signal: Operand, frame_step: i64, frame: Dft) -> Result<Operand> {
    let window = if x.has_input(2) { x.constant(2).cloned() } else { None };
    if x.has_input(2) && x.shape(2)?.at(0)?.known() != Some(frame.length) {
        invalid!("a window of another length than the frames");
    }
    if x.shape(0)?.at(1)?.known().is_some_and(|length| length < frame.length) {
        unsupported!("a signal that is shorter than a frame");
    }
    let computed = x.has_input(2) && window.is_none();
    let mut kernels = x.tensor(kernels(frame, window)?)?;
    if computed {
        let window = x.operand_as(2, DType::F32)?;
        let window = x.reshape(window, &[1, 1, frame.length])?;
        kernels = x.op("Mul", &[kernels, window], &[])?;
    }
    let strides = ("strides", Attribute::Ints(vec![frame_step]));
    let spectrum = x.op("Conv", &[signal, kernels], &[strides])?;
    let apart = x.reshape(spectrum, &[0, frame.bins(), 2, -1])?;
    x.transpose(apart, &[0, 3, 1, 2])
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
