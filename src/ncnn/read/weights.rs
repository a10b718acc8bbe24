//! The weights of a `.bin` file, in the order of `load_model` of each layer.

use bytes::Bytes;

use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::block::BlockFormat;
use crate::ncnn::float16::TAG_F16;
use crate::ncnn::layer::{Gemm, Layer, StatedParams, Storage, broadcast_type_c};
use crate::ncnn::write::TAG_INT8;
use crate::tensor::{DType, Tensor};

/// The tag of float32 elements, which the runtime may scale.
const TAG_SCALED: [u8; 4] = 0x0002_C056_u32.to_le_bytes();

/// The entries of the table of a weight of indices.
const TABLE: usize = 256;

/// A weight to read: its name, its storage and its sizes.
type Expected = (&'static str, Storage, Vec<i32>);

/// The bytes that are not read yet.
pub(super) struct Reader {
    bytes: Bytes,
    len: usize,
}

impl Reader {
    pub fn new(bytes: Bytes) -> Reader {
        Reader { len: bytes.len(), bytes }
    }

    /// Reads the weights of a layer whose params are set.
    pub fn load(&mut self, layer: &mut Layer, params: &StatedParams) -> Result<()> {
        for (name, storage, sizes) in expected(layer, params)? {
            let count = element_count(&sizes)?;
            let is_bytes = layer.block_weight().is_some_and(|(_, block)| block == name);
            let tensor = match storage {
                _ if is_bytes => self.blocks(count),
                Storage::Raw => self.raw(count),
                Storage::Tagged => self.tagged(count),
            };
            let tensor = tensor.map_err(|error| error.at_part(name))?;
            layer.settable().set_weight(name, tensor)?;
        }
        Ok(())
    }

    /// Checks that all bytes are read.
    pub fn end(&self) -> Result<()> {
        if !self.bytes.is_empty() {
            invalid!(
                "the .bin file has {} bytes, and the layers read {}",
                self.len,
                self.len - self.bytes.len()
            );
        }
        Ok(())
    }

    fn take(&mut self, bytes: usize) -> Result<Bytes> {
        if bytes > self.bytes.len() {
            let (at, len) = (self.len - self.bytes.len(), self.len);
            invalid!("the .bin file has {len} bytes, and {bytes} are read from byte {at} on");
        }
        Ok(self.bytes.split_to(bytes))
    }

    fn raw(&mut self, count: usize) -> Result<Tensor> {
        let bytes = self.take(count.checked_mul(4).ok_or_else(too_large)?)?;
        Tensor::from_raw(DType::F32, vec![count], bytes)
    }

    /// Reads the bytes of a weight in blocks, which have no tag.
    fn blocks(&mut self, count: usize) -> Result<Tensor> {
        let bytes = self.take(count.checked_next_multiple_of(4).ok_or_else(too_large)?)?.slice(..count);
        Tensor::from_raw(DType::U8, vec![count], bytes)
    }

    /// Reads elements of the type of a tag.
    fn tagged(&mut self, count: usize) -> Result<Tensor> {
        let tag = self.take(4)?;
        if *tag == TAG_INT8 {
            let bytes = self.take(count.checked_next_multiple_of(4).ok_or_else(too_large)?)?.slice(..count);
            return Tensor::from_raw(DType::I8, vec![count], bytes);
        }
        if *tag == TAG_F16.to_le_bytes() {
            let len = count.checked_mul(2).ok_or_else(too_large)?;
            let bytes = self.take(len.checked_next_multiple_of(4).ok_or_else(too_large)?)?.slice(..len);
            return Tensor::from_raw(DType::F16, vec![count], bytes);
        }
        if *tag == TAG_SCALED || *tag == [0; 4] {
            return self.raw(count);
        }
        let table = self.raw(TABLE)?.load()?.float_list()?;
        let indices = self.take(count.checked_next_multiple_of(4).ok_or_else(too_large)?)?;
        let values = indices.iter().take(count).map(|index| table.get(usize::from(*index)).copied());
        Tensor::from_f32(&[count], values.map(Option::unwrap_or_default).collect())
    }
}

fn too_large() -> Error {
    Error::limit("a weight is too large")
}

fn element_count(sizes: &[i32]) -> Result<usize> {
    let mut count = 1_usize;
    for size in sizes {
        let size =
            usize::try_from(*size).map_err(|_| Error::invalid(format!("a weight of sizes {sizes:?}")))?;
        count = count.checked_mul(size).ok_or_else(too_large)?;
    }
    Ok(count)
}

/// Returns the weights that `load_model` of a layer reads, in its order.
fn expected(layer: &Layer, params: &StatedParams) -> Result<Vec<Expected>> {
    use Storage::{Raw, Tagged};
    let affine = |id, size: i32, names: &[&'static str]| -> Result<Vec<Expected>> {
        let present = params.int(id, 1)? != 0;
        Ok(names.iter().filter(|_| present).map(|name| (*name, Raw, vec![size])).collect())
    };
    if let Layer::Custom(custom) = layer {
        let weights = custom.weights();
        let sized = weights.iter().map(|weight| {
            let len = i32::try_from(weight.tensor.len()).map_err(|_| too_large())?;
            Ok((weight.name, weight.storage, vec![len]))
        });
        return sized.collect();
    }
    let size = |id| params.int(id, 0);
    // The weight and the bias of a convolution or a linear map, and the scales of int8.
    let linear = |outputs: i32, bias: i32, len: i32, scales: i32| -> Result<Vec<Expected>> {
        let mut all = vec![("weight_data", Tagged, vec![size(len)?])];
        all.extend((size(bias)? != 0).then(|| ("bias_data", Raw, vec![outputs])));
        let term = size(8)?;
        if scales > 0 && term != 0 {
            all.push(("weight_data_int8_scales", Raw, vec![scales]));
            all.push(("bottom_blob_int8_scales", Raw, vec![1]));
            all.extend((term > 100).then(|| ("top_blob_int8_scales", Raw, vec![1])));
        }
        Ok(all)
    };
    let unless_dynamic = |dynamic: i32, outputs: i32, scales: i32| match dynamic {
        0 => linear(outputs, 5, 6, scales),
        _ => Ok(Vec::new()),
    };
    let recurrent =
        |direction: i32, gates: i32, biases: i32, cell: i32, output: i32| -> Result<Vec<Expected>> {
            let directions = if direction == 2 { 2 } else { 1 };
            let rows = vec![directions, gates, cell];
            let mut all = vec![
                ("weight_xc_data", Tagged, vec![size(1)?]),
                ("bias_c_data", Tagged, vec![directions, biases, cell]),
                ("weight_hc_data", Tagged, vec![directions, gates, cell, output]),
            ];
            all.extend((cell != output).then(|| ("weight_hr_data", Tagged, vec![directions, cell, output])));
            if size(8)? != 0 {
                all.push(("weight_xc_data_int8_scales", Raw, rows.clone()));
                all.push(("weight_hc_data_int8_scales", Raw, rows));
            }
            Ok(all)
        };
    match layer {
        Layer::BatchNorm(_) => {
            let channels = size(0)?;
            Ok(["slope_data", "mean_data", "var_data", "bias_data"]
                .map(|name| (name, Raw, vec![channels]))
                .to_vec())
        }
        Layer::Bias(_) => Ok(vec![("bias_data", Raw, vec![size(0)?])]),
        Layer::Scale(_) => match size(0)? {
            -233 => Ok(Vec::new()),
            len => {
                let bias = (size(1)? != 0).then(|| ("bias_data", Raw, vec![len]));
                Ok([("scale_data", Raw, vec![len])].into_iter().chain(bias).collect())
            }
        },
        Layer::PReLU(_) => Ok(vec![("slope_data", Raw, vec![size(0)?])]),
        Layer::Normalize(_) => Ok(vec![("scale_data", Raw, vec![size(3)?])]),
        Layer::GroupNorm(layer) => affine(3, layer.channels, &["gamma_data", "beta_data"]),
        Layer::InstanceNorm(layer) => affine(2, layer.channels, &["gamma_data", "beta_data"]),
        Layer::LayerNorm(layer) => affine(2, layer.affine_size, &["gamma_data", "beta_data"]),
        Layer::RMSNorm(layer) => affine(2, layer.affine_size, &["gamma_data"]),
        Layer::Dequantize(_) => {
            let bias = Some(size(1)?).filter(|len| *len != 0).map(|len| ("bias_data", Raw, vec![len]));
            Ok([("scale_data", Raw, vec![params.int(0, 1)?])].into_iter().chain(bias).collect())
        }
        Layer::Quantize(_) => Ok(vec![("scale_data", Raw, vec![params.int(0, 1)?])]),
        Layer::Requantize(_) => {
            let bias = Some(size(2)?).filter(|len| *len != 0).map(|len| ("bias_data", Raw, vec![len]));
            let scales = [("scale_in_data", 0), ("scale_out_data", 1)];
            let scales = scales.map(|(name, id)| Ok((name, Raw, vec![params.int(id, 1)?])));
            scales.into_iter().chain(bias.map(Ok)).collect()
        }
        Layer::Padding(_) => {
            let len = size(6)?;
            Ok((len != 0).then(|| ("per_channel_pad_data", Raw, vec![len])).into_iter().collect())
        }
        Layer::MemoryData(layer) => {
            let sizes = [layer.w, layer.h, layer.d, layer.c];
            let sizes: Vec<i32> = sizes.into_iter().filter(|size| *size != 0).collect();
            let storage = if layer.load_type == 0 { Tagged } else { Raw };
            Ok((!sizes.is_empty()).then_some(("data", storage, sizes)).into_iter().collect())
        }
        Layer::Embed(layer) => {
            let mut all = linear(layer.num_output, 2, 3, 0)?;
            all.extend((size(18)? != 0).then(|| ("weight_data_int8_scale", Raw, vec![1])));
            Ok(all)
        }
        Layer::InnerProduct(layer) => linear(layer.num_output, 1, 2, layer.num_output),
        Layer::Convolution(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, layer.num_output),
        Layer::ConvolutionDepthWise(layer) => {
            unless_dynamic(layer.dynamic_weight, layer.num_output, layer.group)
        }
        Layer::Convolution1D(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::ConvolutionDepthWise1D(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::Deconvolution(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::Deconvolution1D(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::DeconvolutionDepthWise1D(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::DeconvolutionDepthWise(layer) => unless_dynamic(layer.dynamic_weight, layer.num_output, 0),
        Layer::Convolution3D(layer) => linear(layer.num_output, 5, 6, 0),
        Layer::ConvolutionDepthWise3D(layer) => linear(layer.num_output, 5, 6, 0),
        Layer::Deconvolution3D(layer) => linear(layer.num_output, 5, 6, 0),
        Layer::DeconvolutionDepthWise3D(layer) => linear(layer.num_output, 5, 6, 0),
        Layer::DeformableConv2D(layer) => linear(layer.num_output, 5, 6, 0),
        Layer::LSTM(layer) => recurrent(layer.direction, 4, 4, layer.hidden_size, layer.num_output),
        Layer::GRU(layer) => recurrent(layer.direction, 3, 4, layer.num_output, layer.num_output),
        Layer::RNN(layer) => recurrent(layer.direction, 1, 1, layer.num_output, layer.num_output),
        Layer::MultiHeadAttention(layer) => {
            let (embed, len) = (layer.embed_dim, size(2)?);
            let Some(width) = len.checked_div(embed) else { invalid!("an embed_dim of {embed}") };
            Ok(vec![
                ("q_weight_data", Tagged, vec![embed, width]),
                ("q_bias_data", Raw, vec![embed]),
                ("k_weight_data", Tagged, vec![embed, layer.kdim]),
                ("k_bias_data", Raw, vec![embed]),
                ("v_weight_data", Tagged, vec![embed, layer.vdim]),
                ("v_bias_data", Raw, vec![embed]),
                ("out_weight_data", Tagged, vec![width, embed]),
                ("out_bias_data", Raw, vec![width]),
            ])
        }
        Layer::Gemm(layer) => gemm(layer, params),
        _ => Ok(Vec::new()),
    }
}

fn gemm(layer: &Gemm, params: &StatedParams) -> Result<Vec<Expected>> {
    use Storage::{Raw, Tagged};
    let (m, n, k) = (layer.constantM, layer.constantN, layer.constantK);
    let (a, b) = (params.int(4, 0)? == 1, params.int(5, 0)? == 1);
    let blocks = BlockFormat::of_term(layer.quantize_term);
    let mut all = Vec::new();
    all.extend(a.then(|| ("A_data", Tagged, vec![m, k])));
    match blocks {
        Some(format) if b && layer.transB != 0 => {
            let bytes = i32::try_from(format.row_bytes(usize::try_from(k)?))?;
            all.push(("B_data", Tagged, vec![bytes, n]));
        }
        _ => all.extend(b.then(|| ("B_data", Tagged, vec![k, n]))),
    }
    if layer.constantC == 1 {
        let sizes = match layer.constant_broadcast_type_C {
            broadcast_type_c::SCALAR => Some(vec![1]),
            broadcast_type_c::M | broadcast_type_c::M_1 => Some(vec![m]),
            broadcast_type_c::M_N => Some(vec![m, n]),
            broadcast_type_c::ONE_N => Some(vec![n]),
            _ => None,
        };
        all.extend(sizes.map(|sizes| ("C_data", Tagged, sizes)));
    }
    match (layer.quantize_term, blocks) {
        (0, _) => {}
        (_, Some(format)) => {
            let blocks = i32::try_from(format.blocks(usize::try_from(k)?))?;
            all.push(("B_data_quantize_scales", Raw, vec![blocks, n]));
        }
        (Gemm::INT8_ROWS, None) if !b => all.extend(a.then(|| ("A_data_int8_scales", Raw, vec![m]))),
        (term, None) => unsupported!("a quantize_term of {term}"),
    }
    Ok(all)
}
