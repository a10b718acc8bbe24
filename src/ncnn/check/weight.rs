//! How many elements `load_model` takes of each weight: the `.bin` file has no index, so a wrong count shifts all that follows.

use super::is_number;
use crate::error::{Error, Result, invalid};
use crate::ncnn::layer::Weight;
use crate::ncnn::{Layer, Net, NetLayer};
use crate::tensor::{DType, Dim};

/// A weight that the runtime asks for, and how many elements it must have; `None` where that is not known here.
type Wanted = (&'static str, Option<i64>);

impl Net {
    /// Gives the elements of all.
    pub(super) fn check_weights(&self, layer: &NetLayer) -> Result<usize> {
        let weights = layer.layer.weights();
        let bottoms: Vec<&[Dim]> = layer.bottoms.iter().map(|blob| &*self.blob(*blob).shape).collect();
        let mut wanted = wanted_weights(&layer.layer, bottoms.first().copied().unwrap_or_default())?;
        if layer.layer.is_int8() {
            check_integers(&weights)?;
            let outputs = weights.iter().find(|weight| weight.name == "bias_data");
            let outputs = outputs.and_then(|bias| i64::try_from(bias.tensor.len()).ok());
            wanted.extend([("weight_data_int8_scales", outputs), ("bottom_blob_int8_scales", Some(1))]);
        }
        for weight in &weights {
            if !wanted.iter().any(|(name, _)| *name == weight.name) {
                invalid!("{} is given, which ncnn does not read with these params", weight.name);
            }
        }
        for (name, count) in wanted {
            match weights.iter().find(|weight| weight.name == name) {
                Some(weight) => check_weight(weight, count)?,
                None => invalid!("{name} is missing"),
            }
        }
        Ok(weights.iter().fold(0, |sum, weight| sum.saturating_add(weight.tensor.len())))
    }
}

/// The weight must be of integers that ncnn multiplies without loss, and its scales numbers.
fn check_integers(weights: &[Weight<'_>]) -> Result<()> {
    for weight in weights {
        if weight.name == "weight_data" && weight.tensor.dtype() != DType::I8 {
            invalid!("{} is of type {} in a layer with integers", weight.name, weight.tensor.dtype());
        }
        if weight.name.ends_with("_int8_scales")
            && !weight
                .tensor
                .load_listed()?
                .float_list()?
                .iter()
                .all(|scale| scale.is_normal() && *scale > 0.0)
        {
            invalid!("{} has an element that is not a scale", weight.name);
        }
    }
    Ok(())
}

fn check_weight(weight: &Weight<'_>, count: Option<i64>) -> Result<()> {
    let (name, tensor) = (weight.name, weight.tensor);
    if !is_number(tensor.dtype()) {
        invalid!("{name} is of type {}", tensor.dtype());
    }
    // ncnn counts elements in an int.
    let Ok(len) = i32::try_from(tensor.len()) else {
        return Err(Error::limit(format!(
            "{name} has {} elements: ncnn counts to {}",
            tensor.len(),
            i32::MAX
        )));
    };
    if len == 0 {
        invalid!("{name} has no elements");
    }
    if count.is_some_and(|count| count != i64::from(len)) {
        invalid!("{name} has {len} elements where ncnn takes {}", count.unwrap_or_default());
    }
    Ok(())
}

/// The product of numbers each of which must be positive.
fn product(factors: &[i32]) -> Result<i64> {
    factors.iter().try_fold(1_i64, |product, factor| match product.checked_mul(i64::from(*factor)) {
        Some(product) if *factor > 0 => Ok(product),
        Some(_) => invalid!("a size of {factor}"),
        None => invalid!("sizes {factors:?} are too large"),
    })
}

/// The weight and the bias of a convolution or one of its transposes.
fn convolution(
    channels: Option<i64>,
    num_output: i32,
    group: i32,
    kernel: &[i32],
    has_bias: bool,
) -> Result<Vec<Wanted>> {
    if group < 1
        || num_output % group != 0
        || channels.is_some_and(|channels| channels % i64::from(group) != 0)
    {
        invalid!("{num_output} output channels in {group} groups");
    }
    let per_channel = product(&[&[num_output], kernel].concat())?;
    let weight = channels.map(|channels| per_channel.saturating_mul(channels / i64::from(group)));
    let mut wanted = vec![("weight_data", weight)];
    if has_bias {
        wanted.push(("bias_data", Some(i64::from(num_output))));
    }
    Ok(wanted)
}

fn recurrent(
    directions: i32,
    gates: i32,
    biases: i32,
    hidden: i32,
    output: i32,
    input: Option<i64>,
) -> Result<Vec<Wanted>> {
    let directions = if directions == 2 { 2 } else { 1 };
    let rows = product(&[directions, gates, hidden])?;
    Ok(vec![
        ("weight_xc_data", input.map(|input| rows.saturating_mul(input))),
        ("bias_c_data", Some(product(&[directions, biases, hidden])?)),
        ("weight_hc_data", Some(product(&[directions, gates, hidden, output])?)),
    ])
}

fn optional(wanted: &mut Vec<Wanted>, given: bool, weights: &[Wanted]) {
    if given {
        wanted.extend(weights);
    }
}

/// What `load_model` asks for, in its order. `bottom` has the sizes of the first bottom.
fn wanted_weights(layer: &Layer, bottom: &[Dim]) -> Result<Vec<Wanted>> {
    let outermost = bottom.first().and_then(Dim::known);
    let innermost = bottom.last().and_then(Dim::known);
    macro_rules! of_convolution {
        ($l:ident, $group:expr, $kernel:expr, $dynamic_weight:expr) => {
            if $dynamic_weight == 0 {
                return convolution(outermost, $l.num_output, $group, &$kernel, $l.bias_data.is_some());
            }
        };
    }
    let all = |bottom: &[Dim]| Dim::product(bottom).ok().and_then(|n| n.known());
    let mut wanted = Vec::new();
    match layer {
        Layer::Convolution1D(l) => of_convolution!(l, 1, [l.kernel_w], l.dynamic_weight),
        Layer::Convolution(l) => of_convolution!(l, 1, [l.kernel_w, l.kernel_h], l.dynamic_weight),
        Layer::Convolution3D(l) => of_convolution!(l, 1, [l.kernel_w, l.kernel_h, l.kernel_d], 0),
        Layer::ConvolutionDepthWise1D(l) => of_convolution!(l, l.group, [l.kernel_w], l.dynamic_weight),
        Layer::ConvolutionDepthWise(l) => {
            of_convolution!(l, l.group, [l.kernel_w, l.kernel_h], l.dynamic_weight)
        }
        Layer::ConvolutionDepthWise3D(l) => {
            of_convolution!(l, l.group, [l.kernel_w, l.kernel_h, l.kernel_d], 0)
        }
        Layer::Deconvolution1D(l) => of_convolution!(l, 1, [l.kernel_w], l.dynamic_weight),
        Layer::Deconvolution(l) => of_convolution!(l, 1, [l.kernel_w, l.kernel_h], l.dynamic_weight),
        Layer::Deconvolution3D(l) => of_convolution!(l, 1, [l.kernel_w, l.kernel_h, l.kernel_d], 0),
        Layer::DeconvolutionDepthWise1D(l) => of_convolution!(l, l.group, [l.kernel_w], l.dynamic_weight),
        Layer::DeconvolutionDepthWise(l) => {
            of_convolution!(l, l.group, [l.kernel_w, l.kernel_h], l.dynamic_weight)
        }
        Layer::DeconvolutionDepthWise3D(l) => {
            of_convolution!(l, l.group, [l.kernel_w, l.kernel_h, l.kernel_d], 0)
        }
        Layer::DeformableConv2D(l) => of_convolution!(l, 1, [l.kernel_w, l.kernel_h], 0),
        Layer::InnerProduct(l) => {
            // A matrix whose width fits is taken row by row, any other bottom as one vector.
            let (rows, whole) = (innermost.filter(|_| bottom.len() == 2), all(bottom));
            let num_input =
                l.weight_data.as_ref().map_or(0, |w| w.len()).checked_div(usize::try_from(l.num_output)?);
            let num_input = num_input.and_then(|n| i64::try_from(n).ok());
            let input = if rows.is_some() && rows == num_input { rows } else { whole };
            wanted.push(("weight_data", input.map(|n| n.saturating_mul(i64::from(l.num_output)))));
            optional(&mut wanted, l.bias_data.is_some(), &[("bias_data", Some(i64::from(l.num_output)))]);
        }
        Layer::Embed(l) => {
            wanted.push(("weight_data", Some(product(&[l.num_output, l.input_dim])?)));
            optional(&mut wanted, l.bias_data.is_some(), &[("bias_data", Some(i64::from(l.num_output)))]);
        }
        Layer::Dequantize(_) => wanted.push(("scale_data", Some(1))),
        Layer::Gemm(l) => return wanted_of_gemm(l),
        Layer::LSTM(l) => {
            wanted = recurrent(l.direction, 4, 4, l.hidden_size, l.num_output, innermost)?;
            if l.hidden_size != l.num_output {
                let directions = if l.direction == 2 { 2 } else { 1 };
                wanted.push(("weight_hr_data", Some(product(&[directions, l.hidden_size, l.num_output])?)));
            }
        }
        Layer::GRU(l) => return recurrent(l.direction, 3, 4, l.num_output, l.num_output, innermost),
        Layer::RNN(l) => return recurrent(l.direction, 1, 1, l.num_output, l.num_output, innermost),
        Layer::MultiHeadAttention(l) => return wanted_of_attention(l, innermost),
        Layer::BatchNorm(_) => {
            wanted.extend(["slope_data", "mean_data", "var_data", "bias_data"].map(|name| (name, outermost)));
        }
        Layer::Bias(_) => wanted.push(("bias_data", outermost)),
        Layer::Scale(l) => {
            optional(&mut wanted, l.scale_data.is_some(), &[("scale_data", outermost)]);
            optional(
                &mut wanted,
                l.scale_data.is_some() && l.bias_data.is_some(),
                &[("bias_data", outermost)],
            );
        }
        Layer::PReLU(l) => {
            let shared = l.slope_data.as_ref().is_some_and(|slope| slope.len() == 1);
            wanted.push(("slope_data", if shared { Some(1) } else { outermost }));
        }
        Layer::GroupNorm(l) => {
            if l.group < 1
                || l.channels % l.group != 0
                || outermost.is_some_and(|n| n != i64::from(l.channels))
            {
                invalid!("{} channels in {} groups", l.channels, l.group);
            }
            affine(&mut wanted, l.gamma_data.is_some(), l.channels);
        }
        Layer::InstanceNorm(l) => affine(&mut wanted, l.gamma_data.is_some(), l.channels),
        Layer::LayerNorm(l) => affine(&mut wanted, l.gamma_data.is_some(), l.affine_size),
        Layer::RMSNorm(l) => {
            optional(&mut wanted, l.gamma_data.is_some(), &[("gamma_data", Some(i64::from(l.affine_size)))]);
        }
        Layer::Normalize(l) => {
            wanted.push(("scale_data", if l.channel_shared != 0 { Some(1) } else { outermost }));
        }
        Layer::Padding(l) => {
            let given = l.per_channel_pad_data.is_some();
            optional(&mut wanted, given, &[("per_channel_pad_data", outermost)]);
        }
        Layer::MemoryData(l) => {
            let sizes: Vec<i32> = [l.w, l.h, l.d, l.c].into_iter().filter(|size| *size != 0).collect();
            wanted.push(("data", Some(product(&sizes)?)));
        }
        _ => {}
    }
    Ok(wanted)
}

fn affine(wanted: &mut Vec<Wanted>, given: bool, size: i32) {
    let size = Some(i64::from(size));
    optional(wanted, given, &[("gamma_data", size), ("beta_data", size)]);
}

fn wanted_of_gemm(l: &crate::ncnn::layer::Gemm) -> Result<Vec<Wanted>> {
    let mut wanted = Vec::new();
    if l.A_data.is_some() {
        wanted.push(("A_data", Some(product(&[l.constantM, l.constantK])?)));
    }
    if l.B_data.is_some() {
        wanted.push(("B_data", Some(product(&[l.constantN, l.constantK])?)));
    }
    if l.constantC == 1 {
        let sizes: &[i32] = match l.constant_broadcast_type_C {
            -1 => return Ok(wanted),
            0 => &[],
            1 | 2 => &[l.constantM],
            3 => &[l.constantM, l.constantN],
            4 => &[l.constantN],
            other => invalid!("constant_broadcast_type_C {other}"),
        };
        wanted.push(("C_data", Some(product(sizes)?)));
    }
    Ok(wanted)
}

fn wanted_of_attention(l: &crate::ncnn::layer::MultiHeadAttention, qdim: Option<i64>) -> Result<Vec<Wanted>> {
    if l.num_heads < 1 || l.embed_dim % l.num_heads != 0 {
        invalid!("{} elements for {} heads", l.embed_dim, l.num_heads);
    }
    let embed = Some(i64::from(l.embed_dim));
    let from_q = qdim.map(|qdim| qdim.saturating_mul(i64::from(l.embed_dim)));
    Ok(vec![
        ("q_weight_data", from_q),
        ("q_bias_data", embed),
        ("k_weight_data", Some(product(&[l.embed_dim, l.kdim])?)),
        ("k_bias_data", embed),
        ("v_weight_data", Some(product(&[l.embed_dim, l.vdim])?)),
        ("v_bias_data", embed),
        ("out_weight_data", from_q),
        ("out_bias_data", qdim),
    ])
}
