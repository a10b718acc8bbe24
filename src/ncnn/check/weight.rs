//! The number of elements that `load_model` reads of each weight. The `.bin` file has no index: a wrong
//! number shifts all later weights.

use super::is_numeric;
use crate::error::{Error, Result, invalid};
use crate::ncnn::layer::window::Window;
use crate::ncnn::layer::{Gemm, MultiHeadAttention, Weight, weight_len};
use crate::ncnn::{BlockFormat, Layer, Net, NetLayer};
use crate::tensor::{DType, Dim, Tensor};

/// A weight that the runtime reads, and its number of elements if known.
type Expected = (&'static str, Option<i64>);

impl Net {
    /// Checks the weights of a layer; returns their number of elements.
    pub(super) fn check_weights(&self, layer: &NetLayer) -> Result<usize> {
        let weights = layer.layer.weights();
        let bottom = layer.bottoms.first().map(|blob| &*self.blob(*blob).shape).unwrap_or_default();
        let mut expected = expected_weights(&layer.layer, bottom)?;
        if let Some(name) = layer.layer.int8_weight() {
            check_integers(&weights, name, DType::I8)?;
        }
        if let Some((_, name)) = layer.layer.block_weight() {
            check_integers(&weights, name, DType::U8)?;
        }
        expected.extend(int8_scales(&layer.layer));
        for weight in &weights {
            if !expected.iter().any(|(name, _)| *name == weight.name) {
                invalid!("ncnn does not read {} with these params", weight.name);
            }
        }
        for (name, count) in expected {
            match weights.iter().find(|weight| weight.name == name) {
                Some(weight) => check_weight(weight, count)?,
                None => invalid!("{name} is missing"),
            }
        }
        Ok(weights.iter().fold(0, |sum, weight| sum.saturating_add(weight.tensor.len())))
    }
}

/// Returns the scales of an int8 layer.
fn int8_scales(layer: &Layer) -> Vec<Expected> {
    let (num_output, top) = match layer {
        Layer::Embed(l) => {
            return if_given(&l.weight_data_int8_scale, &[("weight_data_int8_scale", Some(1))]);
        }
        _ if !layer.is_int8() => return Vec::new(),
        Layer::Convolution(l) => (l.num_output, &l.top_blob_int8_scales),
        Layer::ConvolutionDepthWise(l) => (l.group, &l.top_blob_int8_scales),
        Layer::InnerProduct(l) => (l.num_output, &None),
        Layer::Gemm(l) => return vec![("A_data_int8_scales", Some(l.constantM.into()))],
        _ => return Vec::new(),
    };
    let mut expected =
        vec![("weight_data_int8_scales", Some(num_output.into())), ("bottom_blob_int8_scales", Some(1))];
    expected.extend(top.as_ref().map(|_| ("top_blob_int8_scales", Some(1))));
    expected
}

/// Checks that the weight `name` is of type `dtype`, and that scales of int8 are positive normal numbers.
fn check_integers(weights: &[Weight<'_>], name: &str, dtype: DType) -> Result<()> {
    for weight in weights {
        if weight.name == name && weight.tensor.dtype() != dtype {
            invalid!("{} is of type {} instead of {dtype}", weight.name, weight.tensor.dtype());
        }
        if weight.name.ends_with("_int8_scales") {
            let scales = weight.tensor.load_listed()?.float_list()?;
            if !scales.iter().all(|scale| scale.is_normal() && *scale > 0.0) {
                invalid!("{} has an element that is not a positive normal number", weight.name);
            }
        }
    }
    Ok(())
}

fn check_weight(weight: &Weight<'_>, count: Option<i64>) -> Result<()> {
    let (name, tensor) = (weight.name, weight.tensor);
    if !is_numeric(tensor.dtype()) {
        invalid!("{name} is of type {}", tensor.dtype());
    }
    // ncnn counts elements in an int.
    let Ok(len) = i32::try_from(tensor.len()) else {
        return Err(Error::limit(format!(
            "{name} has {} elements: ncnn supports at most {}",
            tensor.len(),
            i32::MAX
        )));
    };
    if len == 0 {
        invalid!("{name} has no elements");
    }
    if count.is_some_and(|count| count != i64::from(len)) {
        invalid!("{name} has {len} elements instead of {}", count.unwrap_or_default());
    }
    Ok(())
}

/// Returns the product of sizes; each must be positive.
fn product(factors: &[i32]) -> Result<i64> {
    factors.iter().try_fold(1_i64, |product, factor| match product.checked_mul(i64::from(*factor)) {
        Some(product) if *factor > 0 => Ok(product),
        Some(_) => invalid!("a size of {factor}"),
        None => invalid!("sizes {factors:?} are too large"),
    })
}

/// Returns the weight, and the bias if it is given.
fn with_bias(weight: Option<i64>, bias: &Option<Tensor>, num_output: i32) -> Vec<Expected> {
    let mut expected = vec![("weight_data", weight)];
    expected.extend(bias.as_ref().map(|_| ("bias_data", Some(i64::from(num_output)))));
    expected
}

/// Returns the weights of a layer that are absent together.
fn if_given(weight: &Option<Tensor>, expected: &[Expected]) -> Vec<Expected> {
    if weight.is_some() { expected.to_vec() } else { Vec::new() }
}

fn affine(gamma: &Option<Tensor>, size: i32) -> Vec<Expected> {
    let size = Some(i64::from(size));
    if_given(gamma, &[("gamma_data", size), ("beta_data", size)])
}

/// Returns the weights of a convolution or its transpose.
fn convolution(
    channels: Option<i64>,
    num_output: i32,
    group: i32,
    windows: &[Window],
    bias: &Option<Tensor>,
) -> Result<Vec<Expected>> {
    if group < 1
        || num_output % group != 0
        || channels.is_some_and(|channels| channels % i64::from(group) != 0)
    {
        invalid!("{num_output} output channels in {group} groups");
    }
    let mut factors = vec![num_output];
    factors.extend(windows.iter().map(|window| window.kernel));
    let per_channel = product(&factors)?;
    let weight = channels.map(|channels| per_channel.saturating_mul(channels / i64::from(group)));
    Ok(with_bias(weight, bias, num_output))
}

fn recurrent(
    direction: i32,
    gates: i32,
    biases: i32,
    hidden: i32,
    output: i32,
    input: Option<i64>,
) -> Result<Vec<Expected>> {
    let directions = if direction == 2 { 2 } else { 1 };
    let rows = product(&[directions, gates, hidden])?;
    let mut expected = vec![
        ("weight_xc_data", input.map(|input| rows.saturating_mul(input))),
        ("bias_c_data", Some(product(&[directions, biases, hidden])?)),
        ("weight_hc_data", Some(product(&[directions, gates, hidden, output])?)),
    ];
    if hidden != output {
        expected.push(("weight_hr_data", Some(product(&[directions, hidden, output])?)));
    }
    Ok(expected)
}

/// Returns the weights that `load_model` reads, in its order. `bottom` is the shape of the first bottom.
fn expected_weights(layer: &Layer, bottom: &[Dim]) -> Result<Vec<Expected>> {
    let outermost = bottom.first().and_then(Dim::known);
    let innermost = bottom.last().and_then(Dim::known);
    macro_rules! convolution {
        ($l:ident, $group:expr, $dynamic_weight:expr) => {
            match $dynamic_weight {
                0 => convolution(outermost, $l.num_output, $group, &$l.windows(), &$l.bias_data)?,
                _ => Vec::new(),
            }
        };
    }
    Ok(match layer {
        Layer::Convolution1D(l) => convolution!(l, 1, l.dynamic_weight),
        Layer::Convolution(l) => convolution!(l, 1, l.dynamic_weight),
        Layer::Convolution3D(l) => convolution!(l, 1, 0),
        Layer::ConvolutionDepthWise(l) => convolution!(l, l.group, l.dynamic_weight),
        Layer::ConvolutionDepthWise3D(l) => convolution!(l, l.group, 0),
        Layer::Deconvolution1D(l) => convolution!(l, 1, l.dynamic_weight),
        Layer::Deconvolution(l) => convolution!(l, 1, l.dynamic_weight),
        Layer::Deconvolution3D(l) => convolution!(l, 1, 0),
        Layer::DeconvolutionDepthWise(l) => convolution!(l, l.group, l.dynamic_weight),
        Layer::DeconvolutionDepthWise3D(l) => convolution!(l, l.group, 0),
        Layer::DeformableConv2D(l) => convolution!(l, 1, 0),
        Layer::InnerProduct(l) => {
            // The rows of a matrix of matching width are mapped, any other bottom as a single vector.
            let row = i64::from(weight_len(&l.weight_data)).checked_div(l.num_output.into());
            let is_matrix = bottom.len() == 2 && innermost.is_some() && innermost == row;
            let whole = || Dim::product(bottom).ok().and_then(|n| n.known());
            let input = if is_matrix { row } else { whole() };
            with_bias(input.map(|n| n.saturating_mul(l.num_output.into())), &l.bias_data, l.num_output)
        }
        Layer::Embed(l) => {
            with_bias(Some(product(&[l.num_output, l.input_dim])?), &l.bias_data, l.num_output)
        }
        Layer::Dequantize(_) => vec![("scale_data", Some(1))],
        Layer::Gemm(l) => gemm(l)?,
        Layer::LSTM(l) => recurrent(l.direction, 4, 4, l.hidden_size, l.num_output, innermost)?,
        Layer::GRU(l) => recurrent(l.direction, 3, 4, l.num_output, l.num_output, innermost)?,
        Layer::RNN(l) => recurrent(l.direction, 1, 1, l.num_output, l.num_output, innermost)?,
        Layer::MultiHeadAttention(l) => attention(l, innermost)?,
        Layer::BatchNorm(_) => {
            ["slope_data", "mean_data", "var_data", "bias_data"].map(|name| (name, outermost)).to_vec()
        }
        Layer::Bias(_) => vec![("bias_data", outermost)],
        Layer::Scale(l) => match (&l.scale_data, &l.bias_data) {
            (None, _) => Vec::new(),
            (Some(_), None) => vec![("scale_data", outermost)],
            (Some(_), Some(_)) => vec![("scale_data", outermost), ("bias_data", outermost)],
        },
        Layer::PReLU(l) => {
            vec![("slope_data", if weight_len(&l.slope_data) == 1 { Some(1) } else { outermost })]
        }
        Layer::GroupNorm(l) => {
            if l.group < 1
                || l.channels % l.group != 0
                || outermost.is_some_and(|n| n != i64::from(l.channels))
            {
                invalid!("{} channels in {} groups", l.channels, l.group);
            }
            affine(&l.gamma_data, l.channels)
        }
        Layer::InstanceNorm(l) => affine(&l.gamma_data, l.channels),
        Layer::LayerNorm(l) => affine(&l.gamma_data, l.affine_size),
        Layer::RMSNorm(l) => if_given(&l.gamma_data, &[("gamma_data", Some(l.affine_size.into()))]),
        Layer::Normalize(l) => vec![("scale_data", if l.channel_shared != 0 { Some(1) } else { outermost })],
        Layer::Padding(l) => if_given(&l.per_channel_pad_data, &[("per_channel_pad_data", outermost)]),
        Layer::MemoryData(l) => {
            let sizes: Vec<i32> = [l.w, l.h, l.d, l.c].into_iter().filter(|size| *size != 0).collect();
            vec![("data", Some(product(&sizes)?))]
        }
        _ => Vec::new(),
    })
}

fn gemm(l: &Gemm) -> Result<Vec<Expected>> {
    let mut expected = Vec::new();
    if l.A_data.is_some() {
        expected.push(("A_data", Some(product(&[l.constantM, l.constantK])?)));
    }
    let blocks = BlockFormat::of_term(l.quantize_term);
    if let Some(format) = blocks {
        // The runtime refuses any other form.
        if l.A_data.is_some() || l.transA != 0 || l.transB != 1 || l.output_transpose != 0 {
            invalid!("B in blocks is not transposed, or something else is");
        }
        let columns = usize::try_from(l.constantK)?;
        let each = |count: usize| product(&[l.constantN, i32::try_from(count)?]);
        expected.push(("B_data", Some(each(format.row_bytes(columns))?)));
        expected.push(("B_data_quantize_scales", Some(each(format.blocks(columns))?)));
    } else if l.B_data.is_some() {
        expected.push(("B_data", Some(product(&[l.constantN, l.constantK])?)));
    }
    if l.constantC == 1 {
        let sizes: &[i32] = match l.constant_broadcast_type_C {
            -1 => return Ok(expected),
            0 => &[],
            1 | 2 => &[l.constantM],
            3 => &[l.constantM, l.constantN],
            4 => &[l.constantN],
            other => invalid!("constant_broadcast_type_C {other}"),
        };
        expected.push(("C_data", Some(product(sizes)?)));
    }
    Ok(expected)
}

fn attention(l: &MultiHeadAttention, qdim: Option<i64>) -> Result<Vec<Expected>> {
    if l.num_heads < 1 || l.embed_dim % l.num_heads != 0 {
        invalid!("{} elements in {} heads", l.embed_dim, l.num_heads);
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
