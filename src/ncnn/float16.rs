//! Weights in float16, after a tag and padded to four bytes (`ModelBin::load`).

use std::io::Write;

use byteorder::{ByteOrder, LittleEndian};
use half::f16;
use half::slice::HalfFloatSliceExt;

use super::layer::{Storage, Weight};
use super::{Layer, Net};
use crate::common::output::Out;
use crate::error::{Error, Result};
use crate::tensor::{DType, Tensor};

/// The tag of a float16 weight.
pub(super) const TAG_F16: u32 = 0x0130_6B47;

/// The smallest normal float16.
const SMALLEST_NORMAL: f32 = 6.103_515_6e-5;

/// The number of products in a sum up to which weights stay in float32: that of a 3 by 3 kernel over one
/// channel.
const FEW_PRODUCTS: usize = 9;

/// The bits of infinity in float32, above those of all numbers.
const INFINITY: i32 = 0x7F80_0000;

/// The smallest magnitude that is rounded to infinity in float16.
const OVERFLOWING: f32 = 65520.0;

/// The loss of a weight in float16.
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// The largest finite magnitude of an element.
    largest: f32,
    /// Whether an element changes.
    lossy: bool,
    /// Whether all elements are integers.
    whole: bool,
}

impl Loss {
    fn none() -> Loss {
        Loss { largest: 0.0, lossy: false, whole: true }
    }

    /// Adds elements and their values in float16. In most weights one of the first elements changes, and one
    /// is not an integer. So only the search for the largest reads all elements, as integers: the compiler
    /// vectorizes it.
    fn add(&mut self, elements: &[f32], converted: &[f16]) {
        let mut pairs = elements.iter().zip(converted);
        self.lossy = self.lossy || pairs.any(|(element, value)| value.to_f32() != *element);
        self.whole = self.whole && elements.iter().all(|element| element.fract() == 0.0);
        let largest = elements.iter().fold(0, |largest: i32, element| {
            let magnitude = element.abs().to_bits().cast_signed();
            largest.max(if magnitude < INFINITY { magnitude } else { 0 })
        });
        self.largest = self.largest.max(f32::from_bits(largest.cast_unsigned()));
    }

    /// Returns the reason why the weight must stay in float32, if there is one.
    fn reason(&self) -> Option<&'static str> {
        if self.largest >= OVERFLOWING {
            Some("its largest elements exceed the range of float16")
        } else if self.lossy && self.largest < SMALLEST_NORMAL {
            Some("its elements are too small for float16")
        } else if self.lossy && self.whole {
            // They may be indices into a table, which are wrong if rounded.
            Some("float16 cannot represent its integers")
        } else {
            None
        }
    }
}

/// The minimum number of elements of a constant blob with a tag, which costs what two float16 elements save.
const MIN_TAGGED: usize = 16;

impl Net {
    /// Gives constant blobs a tag, so that those which float16 represents exactly are written as float16.
    pub(crate) fn tag_constants(&mut self) {
        for layer in &mut self.layers {
            if let Layer::MemoryData(layer) = &mut layer.layer
                && layer.data.as_ref().is_some_and(|data| data.len() >= MIN_TAGGED)
            {
                layer.load_type = 0;
            }
        }
    }
}

/// Returns whether a weight is written after a tag with its type.
pub(super) fn is_tagged(layer: &Layer, weight: &Weight<'_>) -> bool {
    let is_in_blocks = layer.block_weight().is_some_and(|(_, name)| name == weight.name);
    (weight.storage == Storage::Tagged && !is_in_blocks) || is_tagged_constant(layer)
}

/// Returns whether a layer is a constant blob with a tag. It is written as float16 only if no element
/// changes, since comparisons with it and differences from it may amplify rounding.
pub(super) fn is_tagged_constant(layer: &Layer) -> bool {
    matches!(layer, Layer::MemoryData(layer) if layer.load_type == 0)
}

/// Returns whether a weight may be written as float16: a factor with a tag. Biases stay in float32, and so do
/// small kernels of depth-wise convolutions: they are a few percent of the weights of a network but cause
/// most of the error, which sums of few products do not average out.
pub(super) fn may_be_float16(layer: &Layer, weight: &Weight<'_>) -> bool {
    let outputs = layer.facts().depthwise_outputs();
    let products =
        outputs.and_then(|outputs| weight.tensor.len().checked_div(usize::try_from(outputs).ok()?));
    is_tagged(layer, weight)
        && !matches!(weight.name, "bias_c_data" | "C_data")
        && products.is_none_or(|products| products > FEW_PRODUCTS)
}

/// Writes the tag, and the elements as float16, rounded to nearest even. If they do not fit, or change
/// although `exact` is set, writes nothing and returns the reason.
pub(super) fn write_float16(tensor: &Tensor, exact: bool, out: &mut Out) -> Result<Option<&'static str>> {
    let failed = |error| Error::io("writing failed", error);
    let reason = |loss: Loss| {
        // A float16 tensor is read as float32 and written back unchanged.
        let changes = (exact && loss.lossy).then_some("its elements change");
        loss.reason().or(changes).filter(|_| tensor.dtype() != DType::F16)
    };
    if out.goes_back() {
        let start = out.position().map_err(failed)?;
        out.write_all(&TAG_F16.to_le_bytes()).map_err(failed)?;
        let loss = for_each_part(tensor, &mut |bytes| out.write_all(bytes).map_err(failed))?;
        out.write_all(padding(tensor)).map_err(failed)?;
        let reason = reason(loss);
        if reason.is_some() {
            // The float32 values, which are larger, overwrite all of these bytes.
            out.go_back(start).map_err(failed)?;
        }
        return Ok(reason);
    }
    // A tensor that can be read again is converted twice instead of kept; a deferred one is computed once.
    let (again, mut computed) = (!tensor.is_deferred(), Vec::new());
    let loss = for_each_part(tensor, &mut |bytes| {
        if !again {
            computed.extend_from_slice(bytes);
        }
        Ok(())
    })?;
    let reason = reason(loss);
    if reason.is_none() {
        out.write_all(&TAG_F16.to_le_bytes()).map_err(failed)?;
        out.write_all(&computed).map_err(failed)?;
        if again {
            for_each_part(tensor, &mut |bytes| out.write_all(bytes).map_err(failed))?;
        }
        out.write_all(padding(tensor)).map_err(failed)?;
    }
    Ok(reason)
}

/// Returns the padding of the elements to a multiple of four bytes.
fn padding(tensor: &Tensor) -> &'static [u8] {
    if tensor.len() % 2 == 1 { &[0; 2] } else { &[] }
}

/// Passes the bytes of the elements as float16 to `take`, a part at a time.
fn for_each_part(tensor: &Tensor, take: &mut dyn FnMut(&[u8]) -> Result<()>) -> Result<Loss> {
    let mut loss = Loss::none();
    let (mut converted, mut bytes) = (Vec::new(), Vec::new());
    tensor.for_each_f32(&mut |elements| {
        converted.resize(elements.len(), f16::ZERO);
        converted.convert_from_f32_slice(elements);
        loss.add(elements, &converted);
        bytes.resize(size_of_val(converted.as_slice()), 0);
        LittleEndian::write_u16_into(converted.reinterpret_cast(), &mut bytes);
        take(&bytes)
    })?;
    Ok(loss)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::{BufWriter, Seek, SeekFrom};

    use super::*;
    use crate::ncnn::layer::{ConvolutionDepthWise, Gemm, InnerProduct, LSTM, MemoryData};

    /// Returns the bytes of a tensor as float16, or the reason why it stays in float32; the same in a file
    /// and through a writer.
    fn written(tensor: &Tensor) -> (Vec<u8>, Option<&'static str>) {
        let mut file = BufWriter::new(tempfile::tempfile().unwrap());
        file.write_all(b"head").unwrap();
        let reason = write_float16(tensor, false, &mut Out::File(&mut file)).unwrap();
        assert_eq!(file.stream_position().unwrap() == 4, reason.is_some());
        let mut file = file.into_inner().unwrap();
        let mut bytes = Vec::new();
        file.seek(SeekFrom::Start(4)).unwrap();
        std::io::Read::read_to_end(&mut file, &mut bytes).unwrap();
        let mut streamed = Vec::new();
        assert_eq!(write_float16(tensor, false, &mut Out::writer(&mut streamed)).unwrap(), reason);
        assert_eq!(streamed, if reason.is_some() { &[] } else { bytes.as_slice() });
        (bytes, reason)
    }

    fn floats(elements: &[f32]) -> Tensor {
        Tensor::from_f32(&[elements.len()], elements.to_vec()).unwrap()
    }

    #[test]
    fn elements_are_rounded_to_even_and_padded() {
        // Ties: 1 + 2^-11, 1 + 3 * 2^-11, and 2^-25, half of the smallest float16. 65519.996 is just finite.
        let tie = 2.0_f32.powi(-11);
        let elements = [1.0 + tie, 1.0 + 3.0 * tie, -2.0_f32.powi(-25), 65519.996, f32::NEG_INFINITY];
        let (bytes, reason) = written(&floats(&elements));
        assert_eq!(reason, None);
        let values: [u16; 6] = [0x3c00, 0x3c02, 0x8000, 0x7bff, 0xfc00, 0];
        let expected: Vec<u8> = TAG_F16
            .to_le_bytes()
            .into_iter()
            .chain(values.iter().flat_map(|value| value.to_le_bytes()))
            .collect();
        assert_eq!(bytes, expected);
    }

    #[test]
    fn lossy_weights_stay_in_float32() {
        for (elements, expected) in [
            (&[1.5, -65520.0][..], "range"),
            (&[1e-6, -3e-8], "too small"),
            (&[0.0, 1.0, 2049.0], "integers"),
        ] {
            let (_, reason) = written(&floats(elements));
            assert!(reason.is_some_and(|reason| reason.contains(expected)), "{elements:?}: {reason:?}");
        }
        for elements in [&[0.0, 0.0][..], &[1e-6, 1.0], &[2048.0, 0.0], &[2048.5, 3.0], &[f32::INFINITY, 0.1]]
        {
            assert_eq!(written(&floats(elements)).1, None, "{elements:?}");
        }
        let tiny = Tensor::from_raw(DType::F16, vec![1], vec![1, 0].into()).unwrap();
        let computed = Tensor::deferred(DType::F16, vec![1], vec![tiny.clone()], |inputs| {
            inputs.first().cloned().ok_or_else(|| Error::invalid("no input"))
        });
        assert_eq!(written(&computed.unwrap()), written(&tiny));
        assert_eq!(written(&tiny), ([&TAG_F16.to_le_bytes()[..], &[1, 0, 0, 0]].concat(), None));
    }

    #[test]
    fn long_weights_are_streamed() {
        let elements: Vec<f32> =
            (0..100_001_u32).map(|i| f32::from(u16::try_from(i % 2048).unwrap()) / 64.0).collect();
        let (bytes, reason) = written(&floats(&elements));
        assert_eq!((bytes.len(), reason), (4 + 2 * 100_002, None));
        let last = f16::from_le_bytes([bytes[4 + 200_000], bytes[4 + 200_001]]);
        assert_eq!(last, f16::from_f32(elements[100_000]));
    }

    #[test]
    fn exact_constants_are_float16() {
        let constant = |element: f32, len: usize| MemoryData {
            w: i32::try_from(len).unwrap(),
            data: Some(floats(&vec![element; len])),
            ..MemoryData::default()
        };
        for (element, len, bytes) in [(-100.0, 31, 4 + 64), (0.1, 31, 4 + 124), (-100.0, 4, 16)] {
            let mut net = Net { half: true, ..Net::default() };
            let y = net.push("constant", constant(element, len), &[], &[i64::try_from(len).unwrap()]);
            net.push_output("y", y);
            net.tag_constants();
            net.split();
            net.name(&[], std::iter::empty()).unwrap();
            let folder = tempfile::tempdir().unwrap();
            let (param, bin) = (folder.path().join("p"), folder.path().join("b"));
            let written = net.write(&param, &bin).unwrap();
            assert_eq!((written.bin_bytes, written.warnings.len()), (bytes, 0), "{element} {len}");
            assert_eq!(fs::read_to_string(param).unwrap().contains(" 21=0"), len > 4);
            assert_eq!(written.weights.iter().map(|weight| weight.bytes).sum::<u64>(), bytes);
        }
    }

    #[test]
    fn biases_and_depth_wise_kernels_stay_in_float32() {
        let some = |len: usize| Some(floats(&vec![0.5; len]));
        let depth_wise = |len| ConvolutionDepthWise {
            num_output: 8,
            weight_data: some(len),
            bias_data: some(8),
            ..ConvolutionDepthWise::default()
        };
        let linear = InnerProduct { weight_data: some(6), bias_data: some(2), ..InnerProduct::default() };
        let gemm = Gemm { B_data: some(6), C_data: some(2), ..Gemm::default() };
        let lstm = LSTM {
            weight_xc_data: some(6),
            bias_c_data: some(2),
            weight_hc_data: some(4),
            ..LSTM::default()
        };
        for (layer, expected) in [
            (depth_wise(72).into(), &[][..]),
            (depth_wise(8 * 16 * 9).into(), &["weight_data"]),
            (linear.into(), &["weight_data"]),
            (gemm.into(), &["B_data"]),
            (lstm.into(), &["weight_xc_data", "weight_hc_data"]),
        ] {
            let layer: Layer = layer;
            let weights = layer.weights();
            let found: Vec<&str> = weights
                .iter()
                .filter(|weight| may_be_float16(&layer, weight))
                .map(|weight| weight.name)
                .collect();
            assert_eq!(found, expected, "{}", layer.type_name());
        }
    }

    #[test]
    fn weight_beyond_float16_is_reported_and_stays_in_float32() {
        let mut net = Net { half: true, ..Net::default() };
        let x = net.push_input("x", &[1]);
        for (name, element) in [("large", 1e6), ("fits", 1.5)] {
            let layer = InnerProduct {
                num_output: 1,
                weight_data: Some(floats(&[element])),
                ..InnerProduct::default()
            };
            let bottom = if name == "large" { x } else { net.layers.last().unwrap().tops[0] };
            net.push(name, layer, &[bottom], &[1]);
        }
        let y = net.layers.last().unwrap().tops[0];
        net.push_output("y", y);
        net.name(&[], std::iter::empty()).unwrap();
        let folder = tempfile::tempdir().unwrap();
        let (param, bin) = (folder.path().join("p"), folder.path().join("b"));
        let written = net.write(&param, &bin).unwrap();
        assert_eq!(written.warnings.len(), 1);
        assert!(written.warnings[0].starts_with("weight_data of layer \"large\""), "{:?}", written.warnings);
        let expected =
            [&[0; 4][..], &1e6_f32.to_le_bytes(), &TAG_F16.to_le_bytes(), &[0x00, 0x3e, 0, 0]].concat();
        assert_eq!(fs::read(bin).unwrap(), expected);
    }
}
