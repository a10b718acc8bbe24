//! The proof that the files of a conversion compute its model.

use std::collections::{BTreeMap, BTreeSet};

use super::{Conversion, Converter};
use crate::error::{Error, Result};
use crate::ncnn::Net;
use crate::onnx::Input;
use crate::tensor::Dim;
use crate::verify::{Pair, Proof, Subject, prove};

impl Conversion {
    /// Compares a net, as its files state it, with the model of this conversion. Each part between blobs with
    /// names of values of the model is computed twice from the same elements. Neither a runtime nor a step of
    /// the conversion is used. Free sizes are the smallest ones from `size` on for which the net is valid.
    ///
    /// # Errors
    ///
    /// `Usage` if no sizes are found for which the net is valid; `Io` if the model cannot be read again.
    pub fn prove(&self, converter: &Converter, input: &Input, net: &Net, size: i64) -> Result<Proof> {
        let missing = || Error::usage("no sizes are found for which the net is valid");
        let sizes = self.sizes_at(size).ok_or_else(missing)?;
        let shapes = self.shapes_at(size)?.ok_or_else(missing)?;
        let known = |shape: &[Dim]| -> Result<Vec<usize>> {
            let size = |size: &Dim| size.substitute(&sizes).checked().map(|size| size.known());
            let sizes = shape.iter().map(size).collect::<Result<Option<Vec<i64>>>>()?.unwrap_or_default();
            Ok(sizes.into_iter().map(usize::try_from).collect::<std::result::Result<_, _>>()?)
        };
        let forms: BTreeMap<&str, &[Dim]> = self
            .net
            .blob_ids()
            .map(|id| self.net.blob(id))
            .map(|blob| (blob.name.as_str(), &*blob.shape))
            .collect();
        let ports = self.inputs.iter().map(|port| (port.name.as_str(), port.blob.as_str(), false));
        let outputs = self.outputs.iter().map(|port| (port.name.as_str(), port.blob.as_str(), true));
        let inner = self.inner_blobs();
        let inner = inner.iter().map(|inner| (inner.value.as_str(), inner.blob.as_str(), false));
        let mut pairs = Vec::new();
        for (value, blob, is_output) in ports.chain(outputs).chain(inner) {
            let sizes = known(forms.get(blob).copied().unwrap_or_default())?;
            pairs.push(Pair { value: value.to_owned(), blob: blob.to_owned(), sizes, is_output });
        }
        let shapes = shapes.into_iter().map(|(name, shape)| {
            let sizes: std::result::Result<Vec<usize>, _> = shape.into_iter().map(usize::try_from).collect();
            Ok((name, sizes?))
        });
        let read: BTreeSet<&str> = self
            .net
            .layers
            .iter()
            .flat_map(|layer| &layer.bottoms)
            .map(|blob| self.net.blob(*blob).name.as_str())
            .collect();
        let unread = self.inputs.iter().filter(|port| !read.contains(port.blob.as_str()));
        let ignored = unread.map(|port| port.name.clone()).collect();
        let model = converter.requested(input)?;
        prove(&Subject { model: &model, net, pairs, ignored, shapes: shapes.collect::<Result<_>>()? })
    }
}
