//! Convolutions and their transposes over one to three axes.

pub(super) mod window;

use std::iter::repeat_n;

use ndarray::linalg::general_mat_mul;
use ndarray::{Array3, Array4, ArrayView3, ArrayViewMut3, Axis, Dimension, IxDyn, Slice, indices};
use num_traits::AsPrimitive;

use self::window::{Window, filled, inner, narrow, pad, paddings, plain_paddings, positions, taps, unpad};
use super::Mat;
use super::activation::fused;
use super::array::{bottom, size, weight};
use super::sampling::{Taps, linear, product, sum};
use crate::error::{Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::tensor::{DType, Tensor};

/// The number of elements of top and bottom that are computed at a time, for the cache of the processor.
const BLOCK: usize = 1 << 18;

/// The scales of a convolution of int8.
struct Scales {
    /// Of the weights of each output, or of each group.
    weight: Vec<f64>,
    bottom: f64,
    /// Of the top, if it is int8 too.
    top: Option<f64>,
}

/// The params that all layers of this file have.
struct Params<'a> {
    num_output: i32,
    group: i32,
    /// Kernel, dilation and stride along each axis, and its pads.
    windows: Vec<([i32; 3], (i32, i32))>,
    weight_data: &'a Option<Tensor>,
    bias_data: &'a Option<Tensor>,
    dynamic_weight: bool,
    activation_type: i32,
    activation_params: &'a [f32],
    scales: Option<Scales>,
}

/// A layer with the values of its weights.
struct Operation {
    windows: Vec<Window>,
    /// `[taps, groups, outputs of a group, channels of a group]`
    weight: Array4<f64>,
    /// A summand of each output.
    bias: Option<Vec<f64>>,
    activation: Box<dyn Fn(f64) -> f64>,
    outputs: usize,
}

macro_rules! params {
    ($layer:expr, $group:expr, $dynamic:expr) => {
        Params {
            num_output: $layer.num_output,
            group: $group,
            windows: $layer.windows().iter().map(|w| ([w.kernel, w.dilation, w.stride], w.pads)).collect(),
            weight_data: &$layer.weight_data,
            bias_data: &$layer.bias_data,
            dynamic_weight: $dynamic != 0,
            activation_type: $layer.activation_type,
            activation_params: &$layer.activation_params,
            scales: None,
        }
    };
}

/// Computes a convolution or its transpose.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat]) -> Result<Mat> {
    match layer {
        Layer::Convolution1D(l) => convolve(&params!(l, 1, l.dynamic_weight), bottoms, l.pad_value),
        Layer::Convolution(l) => {
            let of = [&l.weight_data_int8_scales, &l.bottom_blob_int8_scales, &l.top_blob_int8_scales];
            let scales = scales(l.num_output, of)?;
            convolve(&Params { scales, ..params!(l, 1, l.dynamic_weight) }, bottoms, l.pad_value)
        }
        Layer::ConvolutionDepthWise(l) => {
            let of = [&l.weight_data_int8_scales, &l.bottom_blob_int8_scales, &l.top_blob_int8_scales];
            let scales = scales(l.group, of)?;
            convolve(&Params { scales, ..params!(l, l.group, l.dynamic_weight) }, bottoms, l.pad_value)
        }
        Layer::ConvolutionDepthWise1D(l) => {
            convolve(&params!(l, l.group, l.dynamic_weight), bottoms, l.pad_value)
        }
        Layer::Convolution3D(l) => convolve(&params!(l, 1, 0), bottoms, l.pad_value),
        Layer::ConvolutionDepthWise3D(l) => convolve(&params!(l, l.group, 0), bottoms, l.pad_value),
        Layer::DeformableConv2D(l) => deform(&params!(l, 1, 0), bottoms),
        Layer::Deconvolution1D(l) => {
            transpose(&params!(l, 1, l.dynamic_weight), bottoms, &[l.output_pad_right])
        }
        Layer::Deconvolution(l) => {
            let output_pads = [l.output_pad_bottom, l.output_pad_right];
            transpose(&params!(l, 1, l.dynamic_weight), bottoms, &output_pads)
        }
        Layer::DeconvolutionDepthWise1D(l) => {
            transpose(&params!(l, l.group, l.dynamic_weight), bottoms, &[l.output_pad_right])
        }
        Layer::DeconvolutionDepthWise(l) => {
            let output_pads = [l.output_pad_bottom, l.output_pad_right];
            transpose(&params!(l, l.group, l.dynamic_weight), bottoms, &output_pads)
        }
        Layer::Deconvolution3D(l) => {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(&params!(l, 1, 0), bottoms, &output_pads)
        }
        Layer::DeconvolutionDepthWise3D(l) => {
            let output_pads = [l.output_pad_behind, l.output_pad_bottom, l.output_pad_right];
            transpose(&params!(l, l.group, 0), bottoms, &output_pads)
        }
        _ => unsupported!("{} has no reference", layer.type_name()),
    }
}

/// Returns the scales of `count` weights, of the bottom and of the top, if the weights have any.
fn scales(count: i32, [of_weights, of_bottom, of_top]: [&Option<Tensor>; 3]) -> Result<Option<Scales>> {
    if of_weights.is_none() {
        return Ok(None);
    }
    let bottom = weight(of_bottom, 1)?.iter().sum();
    let top = if of_top.is_some() { Some(weight(of_top, 1)?.iter().sum()) } else { None };
    Ok(Some(Scales { weight: weight(of_weights, size(count)?)?, bottom, top }))
}

/// Rounds to int8 as layers of int8 do: half away from zero, and without -128.
fn to_int8(x: f64) -> f64 {
    x.round().clamp(-127.0, 127.0)
}

impl Scales {
    /// Returns the scale of the weights of each output.
    fn of_outputs(&self, outputs: usize) -> impl Iterator<Item = f64> {
        let repeated = outputs / self.weight.len().max(1);
        self.weight.iter().flat_map(move |scale| repeat_n(*scale, repeated))
    }
}

impl Operation {
    fn new(params: &Params, bottoms: &[&Mat], transposed: bool) -> Result<Operation> {
        let blob = bottom(bottoms, 0)?;
        let axes = params.windows.len();
        if blob.ndim() != axes + 1 || blob.is_empty() {
            invalid!("a bottom of {:?} under windows of {axes} axes", blob.shape());
        }
        let (channels, groups) = (blob.len_of(Axis(0)), size(params.group)?);
        let dynamic = if params.dynamic_weight { Some(bottom(bottoms, 1)?) } else { None };
        let (kernels, outputs): (Vec<i32>, usize) = match dynamic.map(|weight| weight.shape()) {
            None => {
                (params.windows.iter().map(|([kernel, ..], _)| *kernel).collect(), size(params.num_output)?)
            }
            // The weight of a transposed one is as in ONNX, `[c, num_output / group, kernels...]`.
            Some([_, outputs, kernels @ ..]) if transposed && kernels.len() == axes => {
                (kernels.iter().map(|size| size.as_()).collect(), outputs.saturating_mul(groups))
            }
            // A size of 1 between outputs and kernels may be left out.
            Some([outputs, rest @ ..]) if !transposed && (axes..=axes + 1).contains(&rest.len()) => {
                (rest.iter().skip(rest.len() - axes).map(|size| size.as_()).collect(), *outputs)
            }
            Some(sizes) => invalid!("a weight of {sizes:?} with windows of {axes} axes"),
        };
        if groups == 0 || outputs == 0 || channels % groups != 0 || outputs % groups != 0 {
            invalid!("{channels} channels to {outputs} in {groups} groups");
        }
        let windows = kernels.iter().zip(&params.windows);
        let windows: Vec<Window> = windows
            .map(|(kernel, ([_, dilation, stride], pads))| Window::new([*kernel, *dilation, *stride], *pads))
            .collect::<Result<_>>()?;
        let (outputs_of, channels_of) = (outputs / groups, channels / groups);
        let taps = windows.iter().fold(1_usize, |count, window| count.saturating_mul(window.kernel));
        let count = taps.saturating_mul(channels_of).saturating_mul(outputs);
        let mut elements: Vec<f64> = match dynamic {
            Some(weight) if weight.len() == count => weight.iter().copied().collect(),
            Some(weight) => invalid!("a weight of {:?} for {channels} channels", weight.shape()),
            None => weight(params.weight_data, count)?,
        };
        // Weights of float32 are rounded when a layer of int8 is loaded.
        let is_int8 = params.weight_data.as_ref().is_some_and(|weight| weight.dtype() == DType::I8);
        if let Some(scales) = params.scales.as_ref().filter(|_| !is_int8) {
            for (weights, scale) in elements.chunks_mut(taps * channels_of).zip(scales.of_outputs(outputs)) {
                weights.iter_mut().for_each(|x| *x = to_int8(*x * scale));
            }
        }
        let weight_of_taps = if transposed && dynamic.is_some() {
            Array4::from_shape_vec((groups, channels_of, outputs_of, taps), elements)?
                .permuted_axes([3, 0, 2, 1])
        } else {
            Array4::from_shape_vec((groups, outputs_of, channels_of, taps), elements)?
                .permuted_axes([3, 0, 1, 2])
        };
        let bias = match params.bias_data {
            Some(_) => Some(weight(params.bias_data, outputs)?),
            None => None,
        };
        Ok(Operation {
            windows,
            weight: weight_of_taps.as_standard_layout().into_owned(),
            bias,
            activation: fused(params.activation_type, params.activation_params)?,
            outputs,
        })
    }

    /// Returns sums to begin with, `[outputs, sizes...]`.
    fn zeros(&self, sizes: &[usize]) -> Result<Mat> {
        filled(&[&[self.outputs], sizes].concat(), 0.0)
    }

    /// Applies the bias and the activation to the sums of each output.
    fn finish(&self, mut sums: Mat) -> Mat {
        if let Some(bias) = &self.bias {
            sums.outer_iter_mut().zip(bias).for_each(|(mut sums, bias)| sums += *bias);
        }
        sums.mapv_into(&self.activation)
    }

    /// Adds the products with the weights of one tap: `columns` are `[groups, channels of a group, n]`, and
    /// `sums` `[groups, outputs of a group, n]`.
    fn add(&self, tap: usize, columns: ArrayView3<f64>, mut sums: ArrayViewMut3<f64>) {
        let weights = self.weight.index_axis(Axis(0), tap);
        for ((weights, columns), mut sums) in
            weights.outer_iter().zip(columns.outer_iter()).zip(sums.outer_iter_mut())
        {
            match weights.as_slice() {
                // A group of one channel needs no matrix.
                Some([weight]) => sums.scaled_add(*weight, &columns),
                _ => general_mat_mul(1.0, &weights, &columns, 1.0, &mut sums),
            }
        }
    }
}

/// Returns the sizes `[groups, of a group, inner]` of an array `[c, inner...]`.
fn grouped(array: &[usize], groups: usize) -> (usize, usize, usize) {
    let (outer, inner) =
        array.split_first().map_or((0, 1), |(outer, inner)| (*outer, inner.iter().product()));
    (groups, outer / groups, inner)
}

/// Computes a convolution: at each position, the sum of the products of elements and weights.
fn convolve(params: &Params, bottoms: &[&Mat], pad_value: f32) -> Result<Mat> {
    let operation = Operation::new(params, bottoms, false)?;
    let (_, groups, ..) = operation.weight.dim();
    let blob = bottom(bottoms, 0)?;
    let pads = paddings(&operation.windows, inner(blob))?;
    let padded = match &params.scales {
        Some(scales) => pad(&blob.mapv(|x| to_int8(x * scales.bottom)), &pads, pad_value.trunc().into())?,
        None => pad(blob, &pads, pad_value.into())?,
    };
    let counts = positions(&operation.windows, &padded)?;
    let mut top = operation.zeros(&counts)?;
    let (first, rest) = (counts.first().copied().unwrap_or(1), counts.iter().skip(1).product::<usize>());
    let rows = (BLOCK / (padded.len_of(Axis(0)) + operation.outputs) / rest).clamp(1, first);
    let sizes = grouped(top.shape(), groups);
    let mut sums = top.view_mut().into_shape_with_order(sizes)?;
    for start in (0..first).step_by(rows) {
        let end = first.min(start + rows);
        let mut sums = sums.slice_axis_mut(Axis(2), Slice::from(start * rest..end * rest));
        for (tap, offsets) in taps(&operation.windows).enumerate() {
            let mut elements = padded.view();
            narrow(&mut elements, &operation.windows, &offsets, &counts);
            elements.slice_axis_inplace(Axis(1), Slice::from(start..end));
            let columns = elements.to_shape(grouped(elements.shape(), groups))?;
            operation.add(tap, columns.view(), sums.view_mut());
        }
    }
    if let Some(scales) = &params.scales {
        for (mut sums, scale) in top.outer_iter_mut().zip(scales.of_outputs(operation.outputs)) {
            sums *= if scale == 0.0 { 0.0 } else { 1.0 / (scales.bottom * scale) };
        }
    }
    let top = operation.finish(top);
    Ok(match params.scales.as_ref().and_then(|scales| scales.top) {
        Some(scale) => top.mapv_into(|x| to_int8(x * scale)),
        None => top,
    })
}

/// Computes a transposed convolution: each element adds its products with the weights to the elements of the
/// top under its window.
fn transpose(params: &Params, bottoms: &[&Mat], output_pads: &[i32]) -> Result<Mat> {
    let operation = Operation::new(params, bottoms, true)?;
    let (_, groups, outputs_of, _) = operation.weight.dim();
    let blob = bottom(bottoms, 0)?;
    let mut sizes = Vec::new();
    for ((window, len), output_pad) in operation.windows.iter().zip(inner(blob)).zip(output_pads) {
        let last = window.stride.saturating_mul(len - 1);
        sizes.push(last.saturating_add(window.extent()).saturating_add(size(*output_pad)?));
    }
    let mut top = operation.zeros(&sizes)?;
    let columns = blob.to_shape(grouped(blob.shape(), groups))?;
    for (tap, offsets) in taps(&operation.windows).enumerate() {
        let mut products = Array3::zeros((groups, outputs_of, columns.len_of(Axis(2))));
        operation.add(tap, columns.view(), products.view_mut());
        let mut elements = top.view_mut();
        narrow(&mut elements, &operation.windows, &offsets, inner(blob));
        let products = products.into_shape_with_order(elements.shape())?;
        elements += &products;
    }
    // Without `output_w` in the table there is no automatic padding.
    unpad(&operation.finish(top), &plain_paddings(&operation.windows)?)
}

/// Computes a convolution over elements that are interpolated at the positions of its taps, moved by offsets.
fn deform(params: &Params, bottoms: &[&Mat]) -> Result<Mat> {
    let operation = Operation::new(params, bottoms, false)?;
    let (blob, offsets) = (bottom(bottoms, 0)?, bottom(bottoms, 1)?);
    let taps: Vec<IxDyn> = taps(&operation.windows).collect();
    let axes = operation.windows.len();
    let pads = plain_paddings(&operation.windows)?;
    let mut counts = Vec::new();
    for ((window, len), (before, after)) in operation.windows.iter().zip(inner(blob)).zip(&pads) {
        counts.push(window.positions(len.saturating_add(*before).saturating_add(*after))?);
    }
    let ones = filled(&[&[taps.len()], counts.as_slice()].concat(), 1.0)?;
    let factors = bottoms.get(2).copied().unwrap_or(&ones);
    if offsets.shape() != [&[axes * taps.len()], counts.as_slice()].concat()
        || factors.shape() != ones.shape()
    {
        invalid!("offsets of {:?} and factors of {:?}", offsets.shape(), factors.shape());
    }
    let mut top = operation.zeros(&counts)?;
    let sizes = grouped(top.shape(), 1);
    let images = blob.to_shape(grouped(blob.shape(), 1))?;
    let channels = images.index_axis(Axis(0), 0);
    for (tap, indices_of_tap) in taps.iter().enumerate() {
        let mut columns = Array3::zeros((1, channels.len_of(Axis(0)), sizes.2));
        let factors = factors.index_axis(Axis(0), tap);
        let offsets = offsets.slice_axis(Axis(0), Slice::from(axes * tap..axes * (tap + 1)));
        let windows = indices(IxDyn(&counts)).into_iter().zip(offsets.lanes(Axis(0))).zip(factors);
        for (((window, offsets), factor), mut column) in windows.zip(columns.lanes_mut(Axis(1))) {
            let along = operation.windows.iter().zip(window.slice()).zip(indices_of_tap.slice());
            let along = along.zip(offsets).zip(inner(blob)).map(|((((window, at), tap), offset), len)| {
                let start: i64 = (at * window.stride + tap * window.dilation).as_();
                let position: f64 = (start - i64::from(window.pads.0)).as_();
                linear(position + offset, *len)
            });
            let taps = product(&along.collect::<Vec<Taps>>(), inner(blob));
            for (element, channel) in column.iter_mut().zip(channels.outer_iter()) {
                *element = factor * sum(&taps, channel);
            }
        }
        let sums = top.view_mut().into_shape_with_order(sizes)?;
        operation.add(tap, columns.view(), sums);
    }
    Ok(operation.finish(top))
}
