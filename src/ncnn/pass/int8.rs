//! Values between int8 layers.

use num_traits::AsPrimitive;

use super::super::layer::LARGEST_INT8;
use super::super::{BlobId, Element, Layer, Net};
use super::Wiring;
use super::activation::activation_type;
use super::wiring::Edits;
use crate::error::Result;
use crate::tensor::Tensor;

/// The number of steps between the bounds of 8 bits.
const STEPS: f64 = 255.0;

/// The largest distance of a zero point from an integer, in steps.
const TOLERANCE: f64 = 1e-3;

/// The parts of an int8 convolution that these passes change.
struct Conv<'a> {
    activation_type: &'a mut i32,
    activation_params: &'a mut Vec<f32>,
    pads: [i32; 4],
    pad_value: &'a mut f32,
    weight: &'a mut Option<Tensor>,
    bias: &'a mut Option<Tensor>,
    weight_scales: &'a Option<Tensor>,
    bottom_scale: &'a mut Option<Tensor>,
    top_scale: &'a mut Option<Tensor>,
}

/// Returns the parts of an int8 convolution.
fn conv(layer: &mut Layer) -> Option<Conv<'_>> {
    if !layer.is_int8() {
        return None;
    }
    macro_rules! parts {
        ($layer:ident) => {
            Some(Conv {
                activation_type: &mut $layer.activation_type,
                activation_params: &mut $layer.activation_params,
                pads: [$layer.pad_top, $layer.pad_bottom, $layer.pad_left, $layer.pad_right],
                pad_value: &mut $layer.pad_value,
                weight: &mut $layer.weight_data,
                bias: &mut $layer.bias_data,
                weight_scales: &$layer.weight_data_int8_scales,
                bottom_scale: &mut $layer.bottom_blob_int8_scales,
                top_scale: &mut $layer.top_blob_int8_scales,
            })
        };
    }
    match layer {
        Layer::Convolution(layer) => parts!(layer),
        Layer::ConvolutionDepthWise(layer) => parts!(layer),
        _ => None,
    }
}

fn conv_at(net: &mut Net, index: usize) -> Option<Conv<'_>> {
    net.layers.get_mut(index).and_then(|layer| conv(&mut layer.layer))
}

/// Returns the factor by which a layer rounds its bottom to integers from -127 to 127.
fn factor(layer: &Layer) -> Result<Option<f32>> {
    let scale = match layer {
        Layer::Convolution(layer) => &layer.bottom_blob_int8_scales,
        Layer::ConvolutionDepthWise(layer) => &layer.bottom_blob_int8_scales,
        Layer::InnerProduct(layer) => &layer.bottom_blob_int8_scales,
        _ => return Ok(None),
    };
    scale.as_ref().map(|scale| scale.load_listed()?.scalar_f32()).transpose()
}

/// Returns the factor of all readers of a blob, if they have the same.
fn common_factor(net: &Net, readers: &[usize]) -> Result<Option<f32>> {
    let factor_of = |reader: &usize| net.layers.get(*reader).map_or(Ok(None), |reader| factor(&reader.layer));
    let factors: Vec<Option<f32>> = readers.iter().map(factor_of).collect::<Result<_>>()?;
    let first = factors.first().copied().flatten();
    let is_first = |factor: &Option<f32>| factor.map(f32::to_bits) == first.map(f32::to_bits);
    Ok(first.filter(|_| factors.iter().all(is_first)))
}

/// Whether a bound lies where integers end: values beyond it are rounded as the bound is.
fn is_beyond(bound: f32, factor: f32) -> bool {
    (f64::from(bound) * f64::from(factor)).abs().round() >= LARGEST_INT8
}

/// Removes each Clip to bounds beyond the integers of the int8 layers that read it.
pub(super) fn remove_int8_bounds(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for (index, layer) in net.layers.iter().enumerate() {
        let (Layer::Clip(clip), [bottom], [top]) =
            (&layer.layer, layer.bottoms.as_slice(), layer.tops.as_slice())
        else {
            continue;
        };
        let readers = wiring.readers(*top);
        let Some(factor) = common_factor(net, readers)? else { continue };
        let bounds = clip.min < 0.0 && clip.max > 0.0;
        if bounds && is_beyond(clip.min, factor) && is_beyond(clip.max, factor) {
            edits.remove(index, readers.first().copied());
            edits.replace(*top, *bottom);
        }
    }
    Ok(edits.apply(net))
}

/// Returns the readers of the top of an int8 convolution, if they are int8 convolutions with one factor; the
/// top; and the factor.
fn read_pair(net: &Net, wiring: &Wiring, index: usize) -> Result<Option<(Vec<usize>, BlobId, f32)>> {
    let is_conv = |layer: &Layer| layer.facts().bytes().0;
    let Some(layer) = net.layers.get(index).filter(|layer| is_conv(&layer.layer)) else { return Ok(None) };
    let [top] = layer.tops.as_slice() else { return Ok(None) };
    let readers = wiring.readers(*top).to_vec();
    if !readers.iter().all(|reader| net.layers.get(*reader).is_some_and(|layer| is_conv(&layer.layer))) {
        return Ok(None);
    }
    Ok(common_factor(net, &readers)?.map(|factor| (readers, *top, factor)))
}

/// Rounds the top of a convolution in the convolution itself, if only int8 convolutions read it.
pub(super) fn fuse_requantization(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut changed = false;
    for index in 0..net.layers.len() {
        let Some((_, top, factor)) = read_pair(net, wiring, index)? else { continue };
        let Some(conv) = conv_at(net, index) else { continue };
        if conv.top_scale.is_some() {
            continue;
        }
        *conv.top_scale = Some(Tensor::from_f32(&[1], vec![factor])?);
        if let Some(blob) = net.blob_mut(top) {
            blob.element = Element::I8;
            // The blob has the levels of the value.
            blob.name.push_str("_int8");
            blob.is_value = false;
        }
        changed = true;
    }
    Ok(changed)
}

/// A mapping of values to integers: `sign * value * factor + offset`.
struct Mapping {
    sign: f64,
    offset: f64,
    factor: f32,
}

impl Mapping {
    /// Returns a mapping of all 256 steps between two bounds, of which the last one that is farther from zero
    /// joins the next. Zero is an integer, because paddings have this value; if there are any, it is not
    /// negative: packed int8 padding with negative values is wrong in the runtime (`padding_x86.cpp`,
    /// forward_int8).
    fn new(low: f64, high: f64, is_padded: bool) -> Option<Mapping> {
        let step = (high - low) / STEPS;
        let zero = -low / step;
        let is_step = (zero - zero.round()).abs() < TOLERANCE && (0.0..=STEPS).contains(&zero.round());
        let zero = zero.round();
        let (sign, offset) = if zero > LARGEST_INT8 {
            (1.0, zero - LARGEST_INT8 - 1.0)
        } else if is_padded {
            (-1.0, LARGEST_INT8 - zero)
        } else {
            (1.0, zero - LARGEST_INT8)
        };
        let factor: f32 = (1.0 / step).as_();
        (is_step && factor.is_normal()).then_some(Mapping { sign, offset, factor })
    }
}

/// Maps values between int8 convolutions to all 8-bit integers, if the bounds of the activation leave the
/// usual mapping, which keeps zero at zero, with a part of them. Biases compensate for the offset, and the
/// limits of the integers replace the activation.
pub(super) fn use_all_int8_values(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut changed = false;
    for index in 0..net.layers.len() {
        let Some((readers, _, factor)) = read_pair(net, wiring, index)? else { continue };
        let mut is_padded = false;
        for reader in &readers {
            is_padded |= conv_at(net, *reader).is_some_and(|conv| conv.pads != [0; 4]);
        }
        let Some(producer) = conv_at(net, index).filter(|producer| producer.top_scale.is_some()) else {
            continue;
        };
        let (low, high) = match (*producer.activation_type, producer.activation_params.as_slice()) {
            (activation_type::CLIP, [low, high]) => (*low, *high),
            (activation_type::RELU, _) => (0.0, AsPrimitive::<f32>::as_(LARGEST_INT8) / factor),
            _ => continue,
        };
        let (least, most) = (f64::from(low), f64::from(high));
        let is_partial = (most - least) * f64::from(factor) < STEPS - 1.0;
        if let Some(mapping) = Mapping::new(least, most, is_padded).filter(|_| is_partial) {
            producer.map_top(&mapping)?;
            for reader in readers {
                if let Some(reader) = conv_at(net, reader) {
                    reader.map_bottom(&mapping)?;
                }
            }
        } else if low < 0.0 && high > 0.0 && is_beyond(low, factor) && is_beyond(high, factor) {
            (*producer.activation_type, *producer.activation_params) = (0, Vec::new());
        } else {
            continue;
        }
        changed = true;
    }
    Ok(changed)
}

impl Conv<'_> {
    /// Computes integers of a mapping.
    fn map_top(mut self, mapping: &Mapping) -> Result<()> {
        let factor = f64::from(mapping.factor);
        self.add_to_bias(mapping.sign, |_| mapping.offset / factor)?;
        self.multiply_weight(mapping.sign)?;
        *self.top_scale = Some(Tensor::from_f32(&[1], vec![mapping.factor])?);
        (*self.activation_type, *self.activation_params) = (0, Vec::new());
        Ok(())
    }

    /// Reads integers of a mapping.
    fn map_bottom(mut self, mapping: &Mapping) -> Result<()> {
        self.multiply_weight(mapping.sign)?;
        let (weights, scales) = (self.weight.as_ref(), self.weight_scales.as_ref());
        let (Some(weights), Some(scales)) = (weights, scales) else { return Ok(()) };
        let weights = weights.load_listed()?.int_list()?;
        let scales = scales.load_listed()?.float_list()?;
        let each = weights.len().checked_div(scales.len()).unwrap_or(0).max(1);
        let sums: Vec<f64> = weights.chunks(each).map(|row| row.iter().sum::<i64>().as_()).collect();
        let factor = f64::from(mapping.factor);
        self.add_to_bias(1.0, |output| {
            let scale = scales.get(output).copied().map_or(1.0, f64::from);
            -mapping.offset * sums.get(output).copied().unwrap_or(0.0) / (scale * factor)
        })?;
        *self.bottom_scale = Some(Tensor::from_f32(&[1], vec![mapping.factor])?);
        if self.pads != [0; 4] {
            *self.pad_value = mapping.offset.as_();
        }
        Ok(())
    }

    /// Multiplies the bias of each output by `sign` and adds a term.
    fn add_to_bias(&mut self, sign: f64, term: impl Fn(usize) -> f64) -> Result<()> {
        let outputs = self.weight_scales.as_ref().map_or(0, Tensor::len);
        let old = match &*self.bias {
            Some(bias) => bias.load_listed()?.float_list()?,
            None => vec![0.0; outputs],
        };
        let new = old.iter().enumerate().map(|(output, bias)| (sign * f64::from(*bias) + term(output)).as_());
        *self.bias = Some(Tensor::from_f32(&[outputs], new.collect())?);
        Ok(())
    }

    fn multiply_weight(&mut self, sign: f64) -> Result<()> {
        if sign == 1.0 {
            return Ok(());
        }
        let Some(weight) = &*self.weight else { return Ok(()) };
        let negated = weight.load_listed()?.map(|level| -level)?;
        *self.weight = Some(Tensor::from_array(&negated)?.reshaped(weight.shape())?);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{Clip, Convolution, ConvolutionDepthWise, InnerProduct};
    use crate::ncnn::pass::wiring::apply;
    use crate::tensor::{Array, DType};

    fn one(number: f32) -> Option<Tensor> {
        Some(Tensor::from_f32(&[1], vec![number]).unwrap())
    }

    fn weight(level: i64) -> Option<Tensor> {
        let array = Array::i64(ndarray::ArrayD::from_elem(vec![1, 1, 1, 1], level));
        Some(Tensor::from_array(&array.cast(DType::I8).unwrap()).unwrap())
    }

    /// A convolution of one channel by one weight, with a factor of 0.01 for the weight.
    fn int8_conv(level: i64, bias: f32, bottom: f32) -> Convolution {
        Convolution {
            num_output: 1,
            kernel_w: 1,
            kernel_h: 1,
            weight_data: weight(level),
            bias_data: one(bias),
            weight_data_int8_scales: one(100.0),
            bottom_blob_int8_scales: one(bottom),
            ..Convolution::default()
        }
    }

    fn bounded(low: f32, high: f32) -> Convolution {
        let activation_type = activation_type::CLIP;
        Convolution { activation_type, activation_params: vec![low, high], ..int8_conv(50, 0.25, 20.0) }
    }

    /// Returns a net of two convolutions; `pad` is the padding of the second one.
    fn pair(first: Convolution, factor: f32, pad: i32) -> Net {
        let mut net = Net::default();
        let x = net.push_input("x", &[1, 4, 4]);
        let a = net.push("a", first, &[x], &[1, 4, 4]);
        let second = ConvolutionDepthWise {
            num_output: 1,
            group: 1,
            kernel_w: 1,
            kernel_h: 1,
            pad_left: pad,
            pad_right: pad,
            pad_top: pad,
            pad_bottom: pad,
            weight_data: weight(-30),
            weight_data_int8_scales: one(100.0),
            bottom_blob_int8_scales: one(factor),
            ..ConvolutionDepthWise::default()
        };
        let size = i64::from(4 + 2 * pad);
        let y = net.push("y", second, &[a], &[1, size, size]);
        net.push_output("y", y);
        net
    }

    fn number(tensor: &Option<Tensor>) -> f64 {
        tensor.as_ref().unwrap().load().unwrap().float_list().unwrap()[0].into()
    }

    /// Returns the integer between both convolutions, the result, and the result at a padded position.
    fn run(net: &mut Net, x: f64) -> (f64, f64, f64) {
        let [first, second] = [1, 2].map(|index| {
            let conv = conv_at(net, index).unwrap();
            let weight = conv.weight.as_ref().unwrap().load().unwrap().int_list().unwrap()[0];
            let weight: f64 = weight.as_();
            let sum_factor = number(conv.weight_scales) * number(conv.bottom_scale);
            let bias = conv.bias.as_ref().map_or(0.0, |_| number(conv.bias));
            let pad = f64::from(*conv.pad_value);
            let top = conv.top_scale.as_ref().map_or(1.0, |_| number(conv.top_scale));
            let bounds = match *conv.activation_type {
                0 => [f64::NEG_INFINITY, f64::INFINITY],
                _ => [conv.activation_params[0].into(), conv.activation_params[1].into()],
            };
            (weight / sum_factor, bias, pad, top, bounds, number(conv.bottom_scale))
        });
        let round = |x: f64| x.round().clamp(-LARGEST_INT8, LARGEST_INT8);
        let (ratio, bias, _, top, [low, high], bottom) = first;
        let level = round((round(x * bottom) * ratio + bias).clamp(low, high) * top);
        let (ratio, bias, pad, ..) = second;
        (level, level * ratio + bias, pad * ratio + bias)
    }

    fn passed(net: &mut Net) {
        for pass in [fuse_requantization, use_all_int8_values] {
            apply(pass, net).unwrap();
        }
        let mut written = net.clone();
        written.split();
        written.name(&[], std::iter::empty()).unwrap();
        written.check().unwrap();
    }

    #[test]
    fn all_values_have_the_same_results_in_finer_steps() {
        // Bounds of unsigned bytes after a ReLU, and about zero points of 130 and 100.
        for (low, high, pad) in
            [(0.0, 2.55, 0), (0.0, 2.55, 1), (-1.3, 1.25, 1), (-1.0, 1.55, 0), (-1.0, 1.55, 1)]
        {
            let factor = 127.0 / f32::max(-low, high);
            let mut net = pair(bounded(low, high), factor, pad);
            passed(&mut net);
            assert_eq!(net.blob(net.layers[1].tops[0]).element, Element::I8);
            let (_, _, padded) = run(&mut net, 0.0);
            assert!(pad == 0 || padded.abs() < 1e-6, "{low} {high}: padding is worth {padded}");
            for index in -60..=60 {
                let x = f64::from(index) / 10.0;
                let (level, result, _) = run(&mut net, x);
                let value = ((x * 20.0).round().clamp(-127.0, 127.0) / 20.0 * 0.5 + 0.25)
                    .clamp(low.into(), high.into());
                let step = 0.01;
                let exact = (value / step).round() * step * -0.3;
                // The last step joins the next one.
                let room = if level.abs() == LARGEST_INT8 { 1.01 * step * 0.3 } else { 1e-6 };
                assert!((result - exact).abs() < room, "{low} {high} {x}: {result} for {exact}");
            }
        }
    }

    #[test]
    fn values_that_use_all_steps_need_no_bounds() {
        let mut net = pair(bounded(-1.28, 1.27), 100.0, 1);
        passed(&mut net);
        let conv = conv_at(&mut net, 1).unwrap();
        assert_eq!((*conv.activation_type, number(conv.top_scale)), (0, 100.0));
    }

    #[test]
    fn bounds_without_a_step_at_zero_stay() {
        for (low, high) in [(0.3, 2.55), (-0.005, 2.55)] {
            let mut net = pair(bounded(low, high), 127.0 / high, 0);
            passed(&mut net);
            let conv = conv_at(&mut net, 1).unwrap();
            assert_eq!(*conv.activation_type, activation_type::CLIP, "{low} {high}");
            assert!(conv.top_scale.is_some());
        }
    }

    #[test]
    fn other_readers_keep_floats() {
        let mut net = pair(bounded(0.0, 2.55), 49.8, 0);
        let a = net.layers[1].tops[0];
        let z = net.push_abs("z", a);
        net.push_output("z", z);
        assert!(!apply(fuse_requantization, &mut net).unwrap());
        let mut net = pair(bounded(0.0, 2.55), 49.8, 0);
        net.push_output("a", net.layers[1].tops[0]);
        assert!(!apply(fuse_requantization, &mut net).unwrap());
    }

    #[test]
    fn bounds_beyond_the_integers_are_removed() {
        for (min, max, removed) in [(-1.28, 1.27, true), (-1.2, 1.27, false), (0.0, 1.27, false)] {
            let mut net = Net::default();
            let x = net.push_input("x", &[4]);
            let clipped = net.push("clip", Clip { min, max }, &[x], &[4]);
            let linear = InnerProduct {
                num_output: 1,
                weight_data: weight(3),
                weight_data_int8_scales: one(100.0),
                bottom_blob_int8_scales: one(100.0),
                ..InnerProduct::default()
            };
            let y = net.push("y", linear, &[clipped], &[1]);
            net.push_output("y", y);
            assert_eq!(apply(remove_int8_bounds, &mut net).unwrap(), removed, "{min} {max}");
        }
    }
}
