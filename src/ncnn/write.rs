//! Writing of the `.param` and `.bin` files, or of their bytes to writers.

use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use super::layer::Weight;
use super::{BlockFormat, Embedding, Layer, Net, NetLayer, float16};
use crate::common::output::{self, Out, PIECE, Staged, Target};
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{DType, Tensor};

/// The tag of a float32 weight (`ModelBinFromDataReader::load`).
const TAG_F32: [u8; 4] = [0; 4];

/// The tag of an int8 weight.
pub(super) const TAG_INT8: [u8; 4] = 0x000D_4B38_u32.to_le_bytes();

/// A summary of a written net.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Written {
    /// The number of layers.
    pub layers: usize,
    /// The number of blobs.
    pub blobs: usize,
    /// The size of the `.param` file in bytes.
    pub param_bytes: u64,
    /// The size of the `.bin` file in bytes.
    pub bin_bytes: u64,
    /// The weights in the order of the `.bin` file.
    pub weights: Vec<Stored>,
    /// Warnings about weights that are not stored in the requested type.
    pub warnings: Vec<String>,
    /// The file of functions that a program of the net reads, if it computes the rest of a model.
    pub operators: Option<PathBuf>,
}

/// A stored weight.
#[derive(Clone, Copy, Debug, PartialEq)]
#[non_exhaustive]
pub struct Stored {
    /// The type of the elements; `I8` for integers of fewer bits, too.
    pub dtype: DType,
    /// The bits of an element.
    pub bits: usize,
    /// The number of elements.
    pub elements: usize,
    /// The size in the file in bytes, with tag and padding.
    pub bytes: u64,
    /// The error of a weight that `--weights` rounded: the root mean square of the differences, relative to
    /// that of the elements.
    pub error: Option<f32>,
}

/// What is called after each weight, with the number of elements so far, and that of all weights.
pub(crate) type Watch<'a> = &'a mut dyn FnMut(u64, u64);

impl Net {
    /// Checks the net and writes both files. After an error neither file has changed.
    pub fn write(&self, param: &Path, bin: &Path) -> Result<Written> {
        self.check()?;
        let (files, written) = self.stage(param, bin, &Embedding::default(), None)?;
        output::put_all(files)?;
        Ok(written)
    }

    /// Checks the net and writes it to a writer of the `.param` text and a writer of the `.bin` bytes.
    /// Weights are streamed. After an error the writers may have received some of the bytes.
    ///
    /// # Errors
    ///
    /// `Io` if a writer fails or a file of weights cannot be read.
    pub fn write_to(&self, param: impl Write, bin: impl Write) -> Result<Written> {
        self.check()?;
        self.stream(param, bin)
    }

    /// [`Net::write_to`] for a checked net.
    pub(crate) fn stream(&self, param: impl Write, bin: impl Write) -> Result<Written> {
        let failed = |error: io::Error| Error::io("writing failed", error);
        let (mut param, mut bin) =
            (BufWriter::with_capacity(PIECE, param), BufWriter::with_capacity(PIECE, bin));
        let (mut lines, mut out) = (Out::writer(&mut param), Out::writer(&mut bin));
        let (weights, warnings) =
            self.write_layers(|line| lines.write_all(line.as_bytes()).map_err(failed), &mut out, None)?;
        lines.flush().and_then(|()| out.flush()).map_err(failed)?;
        let param_bytes = lines.position().map_err(failed)?;
        let bin_bytes = out.position().map_err(failed)?;
        let (layers, blobs) = self.counts();
        Ok(Written { layers, blobs, param_bytes, bin_bytes, weights, warnings, operators: None })
    }

    /// Returns the size of the `.bin` file in bytes, if it does not depend on the elements of the weights, as
    /// it does for a net with float16 weights.
    ///
    /// # Errors
    ///
    /// The size is out of range.
    pub fn bin_bytes(&self) -> Result<Option<u64>> {
        let mut bytes = 0_u64;
        for layer in &self.layers {
            for weight in layer.layer.weights() {
                if self.may_be_float16(layer, &weight) {
                    return Ok(None);
                }
                let stored = Stored::of(dtype_of(&layer.layer, &weight), &layer.layer, &weight)?;
                bytes = bytes.saturating_add(stored.bytes);
            }
        }
        Ok(Some(bytes))
    }

    /// Writes the files of [`Net::write`] next to their targets, for a checked net.
    pub(crate) fn stage(
        &self,
        param_path: &Path,
        bin_path: &Path,
        embedding: &Embedding,
        mut watch: Option<Watch>,
    ) -> Result<(Staged, Written)> {
        let (param, bin) = (Target::new(param_path)?, Target::new(bin_path)?);
        if param.is(&bin) {
            return Err(Error::new(ErrorKind::Io, "the .param and .bin files would be the same file")
                .in_file(bin_path));
        }
        let (mut weights, mut warnings) = (Vec::new(), Vec::new());
        let mut new_bin = None;
        let new_param = param.write(|lines| {
            let new = bin.write(|out| {
                let failed = |error| Error::io("writing failed", error).in_file(param_path);
                (weights, warnings) = self.write_layers(
                    |line| lines.write_all(line.as_bytes()).map_err(failed),
                    out,
                    watch.take(),
                )?;
                Ok(())
            });
            new_bin = Some(new?);
            Ok(())
        })?;
        let new_bin = new_bin.ok_or_else(|| Error::internal("no .bin file"))?;
        let (layers, blobs) = self.counts();
        let (param_bytes, bin_bytes) = (new_param.len, new_bin.len);
        let written = Written { layers, blobs, param_bytes, bin_bytes, weights, warnings, operators: None };
        let bin = (bin, new_bin);
        let mut files = embedding.stage(self, param_path, &bin)?;
        files.extend([bin, (param, new_param)]);
        Ok((files, written))
    }

    /// Writes both files in one pass over the layers; returns the stored weights and warnings about them.
    fn write_layers(
        &self,
        mut write_line: impl FnMut(&str) -> Result<()>,
        bin: &mut Out,
        mut watch: Option<Watch>,
    ) -> Result<(Vec<Stored>, Vec<String>)> {
        let elements = |weight: &Weight| u64::try_from(weight.tensor.len()).unwrap_or(u64::MAX);
        let weights = self.layers.iter().filter(|_| watch.is_some()).flat_map(|layer| layer.layer.weights());
        let (mut done, all) = (0_u64, weights.map(|weight| elements(&weight)).fold(0, u64::saturating_add));
        let (mut stored, mut warnings) = (Vec::new(), Vec::new());
        let mut text = self.head();
        let hints = self.has_shape_hints();
        for layer in &self.layers {
            self.push_line(&mut text, layer, hints);
            write_line(&text)?;
            text.clear();
            for weight in layer.layer.weights() {
                let describe = || format!("{} of layer \"{}\"", weight.name, layer.name);
                let (dtype, kept) =
                    self.write_weight(layer, &weight, bin).map_err(|error| error.at_part(describe()))?;
                stored.push(Stored::of(dtype, &layer.layer, &weight)?);
                warnings.extend(kept.map(|reason| format!("{} stays in float32: {reason}", describe())));
                if let Some(watch) = &mut watch {
                    done = done.saturating_add(elements(&weight));
                    watch(done, all);
                }
            }
        }
        Ok((stored, warnings))
    }

    /// Writes the weights of a layer as they are in the `.bin` file.
    pub(super) fn write_weights(&self, layer: &NetLayer, bin: &mut dyn Write) -> Result<()> {
        let mut out = Out::writer(bin);
        layer
            .layer
            .weights()
            .iter()
            .try_for_each(|weight| self.write_weight(layer, weight, &mut out).map(drop))
    }

    /// Returns whether a weight is written as float16, if its elements fit. Layers that must compute in
    /// float32 keep the digits of their weights, such as the frequencies of positions.
    fn may_be_float16(&self, layer: &NetLayer, weight: &Weight<'_>) -> bool {
        self.half && float16::may_be_float16(&layer.layer, weight) && !self.is_float32(layer)
    }

    /// Writes a weight; returns the type written, and the reason if a weight that could be float16 is not.
    fn write_weight(
        &self,
        net_layer: &NetLayer,
        weight: &Weight<'_>,
        out: &mut Out,
    ) -> Result<(DType, Option<&'static str>)> {
        let layer = &net_layer.layer;
        let mut kept = None;
        if dtype_of(layer, weight) == DType::I8 {
            write_integers(weight.tensor, float16::is_tagged(layer, weight), out)?;
            return Ok((DType::I8, None));
        }
        if self.may_be_float16(net_layer, weight) {
            let constant = float16::is_tagged_constant(layer);
            kept = float16::write_float16(weight.tensor, constant, out)?;
            if kept.is_none() {
                return Ok((DType::F16, None));
            }
            // Constant blobs that float16 would change stay in float32 without a warning.
            kept = kept.filter(|_| !constant);
        }
        if float16::is_tagged(layer, weight) {
            out.write_all(&TAG_F32).map_err(|error| Error::io("writing failed", error))?;
        }
        weight.tensor.write_f32(out)?;
        Ok((DType::F32, kept))
    }
}

/// Returns the type of a weight that is not written as float16.
fn dtype_of(layer: &Layer, weight: &Weight<'_>) -> DType {
    let is_int8 = layer.int8_weights().contains(&weight.name) || format_of(layer, weight).is_some();
    if is_int8 { DType::I8 } else { DType::F32 }
}

/// Returns the format of a weight in blocks.
fn format_of(layer: &Layer, weight: &Weight<'_>) -> Option<BlockFormat> {
    layer.block_weight().filter(|(_, name)| *name == weight.name).map(|(format, _)| format)
}

impl Stored {
    /// Returns the size of a weight: the elements padded to four bytes, after the tag if it has one.
    fn of(dtype: DType, layer: &Layer, weight: &Weight<'_>) -> Result<Stored> {
        let mut elements = weight.tensor.len();
        let tag = if float16::is_tagged(layer, weight) { 4 } else { 0 };
        let bytes = u64::try_from(elements)?.saturating_mul(u64::try_from(dtype.bits() / 8)?);
        let mut bits = dtype.bits();
        if let (Some(format), Layer::Gemm(gemm)) = (format_of(layer, weight), layer) {
            bits = format.bits;
            elements = usize::try_from(gemm.constantN)?.saturating_mul(usize::try_from(gemm.constantK)?);
        }
        let bytes = bytes.next_multiple_of(4).saturating_add(tag);
        Ok(Stored { dtype, bits, elements, bytes, error: weight.tensor.loss() })
    }
}

/// Writes a weight of integers: the tag, if it has one, and the bytes padded to a multiple of four.
fn write_integers(tensor: &Tensor, tagged: bool, out: &mut Out) -> Result<()> {
    let failed = |error| Error::io("writing failed", error);
    if tagged {
        out.write_all(&TAG_INT8).map_err(failed)?;
    }
    tensor.write_raw(out)?;
    let padding = tensor.len().next_multiple_of(4) - tensor.len();
    out.write_all([0; 4].get(..padding).unwrap_or_default()).map_err(failed)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;
    use crate::ncnn::layer::{InnerProduct, Softmax};
    use crate::tensor::DType;

    /// Input `x`, an InnerProduct with float16 weights, and a Softmax.
    fn small_net() -> Net {
        let mut net = Net::default();
        let x = net.push_input("x", &[2]);
        let weight: Vec<u8> =
            [1.0, -2.0, 0.5, 4.0].iter().flat_map(|w| half::f16::from_f32(*w).to_le_bytes()).collect();
        let linear = InnerProduct {
            num_output: 2,
            weight_data: Some(Tensor::from_raw(DType::F16, vec![2, 2], weight.into()).unwrap()),
            bias_data: Some(Tensor::from_f32(&[2], vec![0.25, -1.0]).unwrap()),
            ..InnerProduct::default()
        };
        let hidden = net.push("fc", linear, &[x], &[2]);
        let y = net.push("softmax", Softmax { axis: 0, fixbug0: 1 }, &[hidden], &[2]);
        net.push_output("y", y);
        net.split();
        net.name(&[], std::iter::empty()).unwrap();
        net
    }

    fn names(folder: &Path) -> Vec<String> {
        let mut names: Vec<_> =
            fs::read_dir(folder).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn net_is_written_to_two_files() {
        let folder = tempfile::tempdir().unwrap();
        let (param, bin) = (folder.path().join("a.param"), folder.path().join("a.bin"));
        let written = small_net().write(&param, &bin).unwrap();
        let text = fs::read_to_string(&param).unwrap();
        assert_eq!(
            text,
            "7767517\n3 3\n\
             Input                    x                        0 1 x -23330=4,1,2,1,1\n\
             InnerProduct             fc                       1 1 x fc 0=2 1=1 2=4 -23330=4,1,2,1,1\n\
             Softmax                  softmax                  1 1 fc y 1=1 -23330=4,1,2,1,1\n"
        );
        let bytes = fs::read(&bin).unwrap();
        let mut expected = vec![0; 4];
        expected.extend([1.0_f32, -2.0, 0.5, 4.0, 0.25, -1.0].iter().flat_map(|w| w.to_le_bytes()));
        assert_eq!(bytes, expected);
        let (param_bytes, bin_bytes) = (u64::try_from(text.len()).unwrap(), 28);
        let weight = |elements, bytes| Stored { dtype: DType::F32, bits: 32, elements, bytes, error: None };
        let weights = vec![weight(4, 20), weight(2, 8)];
        let warnings = Vec::new();
        assert_eq!(
            written,
            Written { layers: 3, blobs: 3, param_bytes, bin_bytes, weights, warnings, operators: None }
        );
        assert_eq!(names(folder.path()), ["a.bin", "a.param"]);
    }

    #[test]
    fn existing_files_are_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let (param, bin) = (folder.path().join("a.param"), folder.path().join("a.bin"));
        fs::write(&param, "old").unwrap();
        fs::write(&bin, "old").unwrap();
        small_net().write(&param, &bin).unwrap();
        assert_eq!(fs::read(&bin).unwrap().len(), 28);
        assert!(fs::read_to_string(&param).unwrap().starts_with("7767517"));
    }

    #[test]
    fn failure_changes_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("folder")).unwrap();
        fs::write(at("old.param"), "old").unwrap();
        let net = small_net();
        for (param, bin) in [
            ("a.param", "folder"),
            ("folder", "a.bin"),
            ("old.param", "none/a.bin"),
            ("none/a.param", "a.bin"),
            ("old.param", "old.param"),
            ("a.param", "folder/../a.param"),
        ] {
            let error = net.write(&at(param), &at(bin)).unwrap_err();
            assert_eq!(error.kind(), crate::error::ErrorKind::Io, "{error}");
            assert!(error.at().file.is_some(), "{error}");
            assert_eq!(names(folder.path()), ["folder", "old.param"], "{error}");
            assert_eq!(fs::read_to_string(at("old.param")).unwrap(), "old");
        }
    }

    #[test]
    fn failed_weight_leaves_no_files() {
        let folder = tempfile::tempdir().unwrap();
        let mut net = small_net();
        let broken =
            Tensor::deferred(DType::F32, vec![2], Vec::new(), |_| Err(Error::unsupported("no"))).unwrap();
        let Some(crate::ncnn::Layer::InnerProduct(linear)) = net.layers.get_mut(1).map(|l| &mut l.layer)
        else {
            panic!()
        };
        linear.bias_data = Some(broken);
        let error = net.write(&folder.path().join("a.param"), &folder.path().join("a.bin")).unwrap_err();
        assert!(error.to_string().ends_with("a.bin: bias_data of layer \"fc\": no"), "{error}");
        assert!(names(folder.path()).is_empty());
    }
}
