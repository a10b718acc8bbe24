//! Nets of one model for several sizes, over one `.bin` file.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::{Conversion, Converter, Refusal};
use crate::common::output::{self, PIECE, Whole};
use crate::error::{Error, Result};
use crate::ncnn::{Net, share};
use crate::onnx::{Input, Sources};
use crate::tensor::Dim;

/// Shapes by the names of inputs; an empty name is the only input.
pub type InputShapes = Vec<(String, Vec<Dim>)>;

/// Nets of one model for several sizes, which read the same `.bin` file.
#[derive(Debug)]
#[non_exhaustive]
pub struct Variants {
    /// The nets, in the order in which they were asked for.
    pub nets: Vec<Variant>,
    sources: Sources,
}

/// A net for some sizes.
#[derive(Debug)]
#[non_exhaustive]
pub struct Variant {
    /// The name, which is a part of the name of the `.param` file.
    pub name: String,
    /// A converter for its sizes.
    pub converter: Converter,
    /// The net. It loads weights of other variants as constant blobs that nothing needs.
    pub conversion: Arc<Conversion>,
    /// The bytes of these weights.
    pub skipped: u64,
}

impl Converter {
    /// Converts a model for several sizes: names of nets with the shapes of inputs, as
    /// [`Converter::input_shape`] takes them. The nets have the same `.bin` file: equal weights are stored
    /// once, and a net skips those that only others have.
    ///
    /// # Errors
    ///
    /// Those of each conversion. `Unsupported` if a net would skip many weights; `Usage` for a name twice, or
    /// one with other characters than letters, digits, `-` and `_`.
    pub fn convert_variants(
        &self,
        input: &Input,
        variants: &[(String, InputShapes)],
    ) -> std::result::Result<Variants, Refusal> {
        let is_plain = |name: &str| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        };
        let mut made: Vec<(&str, Converter, Conversion)> = Vec::with_capacity(variants.len());
        for (name, shapes) in variants {
            if !is_plain(name) || made.iter().any(|(other, ..)| other == name) {
                let rule = "names of variants differ, and have letters, digits, - and _";
                return Err(Error::usage(format!("\"{name}\": {rule}")).into());
            }
            let converter = shapes.iter().fold(self.clone(), |converter, (input, shape)| {
                converter.input_shape(input.as_str(), shape.iter().cloned())
            });
            let conversion = converter
                .convert(input)
                .map_err(|refusal| refusal.in_part(&format!("variant \"{name}\"")))?;
            made.push((name, converter, conversion));
        }
        let mut parts: Vec<(&str, &mut Net)> =
            made.iter_mut().map(|(name, _, conversion)| (*name, &mut conversion.net)).collect();
        let others = share(&mut parts)?;
        let mut nets = Vec::with_capacity(made.len());
        for ((name, converter, conversion), skipped) in made.into_iter().zip(others) {
            conversion.net.check()?;
            nets.push(Variant {
                name: name.to_owned(),
                converter,
                conversion: Arc::new(conversion),
                skipped,
            });
        }
        Ok(Variants { nets, sources: Sources::open(input, &self.options().read())? })
    }
}

impl Variants {
    /// Returns the `.bin` file for `net.param`, by the names of the nets that load it, such as
    /// `net.small+large.bin`: files of other nets keep theirs.
    pub fn bin(&self, param: &Path) -> PathBuf {
        let names: Vec<&str> = self.nets.iter().map(|net| net.name.as_str()).collect();
        param.with_extension(format!("{}.bin", names.join("+")))
    }

    /// Returns the `.param` file of each net: `net.param` becomes `net.small.param`.
    pub fn params(&self, param: &Path) -> Vec<PathBuf> {
        self.nets.iter().map(|net| param.with_extension(format!("{}.param", net.name))).collect()
    }

    /// Writes the `.param` file of each net, and the `.bin` file: all are written, or none is changed. The
    /// files of the model are not overwritten. Returns the size of the `.bin` file in bytes.
    ///
    /// # Errors
    ///
    /// `Io` if a file cannot be written, or the model cannot be read or has changed.
    pub fn write(&self, param: impl AsRef<Path>, bin: impl AsRef<Path>) -> Result<u64> {
        let bin = bin.as_ref();
        let mut staged = output::Staged::new();
        let mut first: Option<(output::Target, Whole)> = None;
        for (net, param) in self.nets.iter().zip(self.params(param.as_ref())) {
            for (target, whole) in net.conversion.stage(&param, bin, None, |_| Ok(None))?.0 {
                match &first {
                    _ if target.named() != bin => staged.push((target, whole)),
                    None => first = Some((target, whole)),
                    Some((_, other)) if same(other, &whole)? => {}
                    Some(_) => return Err(Error::internal("the weights of two variants differ")),
                }
            }
        }
        let bytes = first.as_ref().map_or(0, |(_, whole)| whole.len);
        staged.extend(first);
        self.sources.move_results(staged)?;
        Ok(bytes)
    }
}

/// Returns whether two files have the same bytes.
fn same(one: &Whole, other: &Whole) -> Result<bool> {
    let failed = |error| Error::io("a new file cannot be read", error);
    let read = |file: &mut File, buffer: &mut Vec<u8>| {
        buffer.clear();
        let limit = u64::try_from(PIECE).unwrap_or(u64::MAX);
        Read::by_ref(file).take(limit).read_to_end(buffer).map_err(failed)
    };
    let (mut one, mut other) = (one.open()?, other.open()?);
    let (mut left, mut right) = (Vec::new(), Vec::new());
    loop {
        let count = read(&mut one, &mut left)?;
        read(&mut other, &mut right)?;
        if left != right || count == 0 {
            return Ok(left == right);
        }
    }
}
