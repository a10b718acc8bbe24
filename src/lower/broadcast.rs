//! Blobs of different shapes in forms of equal rank, so that arithmetic layers broadcast them as ONNX does.

use super::common_form::{express_all, merged_form};
use super::form::{extended, interface_form};
use super::{Lower, ScalarOrBlob};
use crate::common::limits;
use crate::error::{At, Error, Result};
use crate::ncnn::BlobId;
use crate::tensor::{Dim, Tensor, broadcast_shapes, display_shape, shape};

impl Lower<'_> {
    /// Returns inputs of these shapes with equal rank; each size is 1 or the size of the result.
    pub fn broadcast(&self, inputs: &[(usize, impl AsRef<[Dim]>)]) -> Result<Vec<ScalarOrBlob>> {
        let mut out = Vec::new();
        for (_, shape) in inputs {
            out = broadcast_shapes(&out, shape.as_ref())?;
        }
        let number = |(index, _): &(usize, _)| Ok(self.number(*index)?.map(ScalarOrBlob::Number));
        let mut sides = inputs.iter().map(number).collect::<Result<Vec<_>>>()?;
        let blobs: Vec<(usize, Vec<Dim>)> = (inputs.iter().zip(&sides))
            .filter(|(_, side)| side.is_none())
            .map(|((index, shape), _)| (*index, extended(shape.as_ref(), out.len())))
            .collect();
        let (form, forms) = self.common_form(&blobs, &out)?;
        let missing = sides.iter_mut().filter(|side| side.is_none());
        for (side, ((index, shape), target)) in missing.zip(blobs.iter().zip(&forms)) {
            let blob = match target {
                // One element broadcasts to any number of axes, also if the user passes the other operand in
                // another form.
                Some(target) if target.iter().all(|size| size.is(1)) => self.blob_as(*index, &[Dim::ONE])?,
                Some(target) => self.blob_as(*index, target)?,
                None => self.broadcast_as(*index, shape, &out, &form)?,
            };
            *side = Some(blob.into());
        }
        let sides: Option<Vec<ScalarOrBlob>> = sides.into_iter().collect();
        sides.ok_or_else(|| Error::internal("an operand without a blob"))
    }

    /// Returns the value of a constant input of one element, if a param can store it.
    fn number(&self, index: usize) -> Result<Option<f32>> {
        let Some(tensor) = self.call.constant(index).filter(|tensor| tensor.len() == 1) else {
            return Ok(None);
        };
        Ok(Some(tensor.load_listed()?.scalar_f32()?).filter(|x| x.is_finite()))
    }

    /// Returns a form of at most four axes for the result, and the form of each input in it; `None` for an
    /// input that must be broadcast first.
    #[allow(clippy::type_complexity)]
    fn common_form(
        &self,
        inputs: &[(usize, Vec<Dim>)],
        out: &[Dim],
    ) -> Result<(Vec<Dim>, Vec<Option<Vec<Dim>>>)> {
        let mut candidates = Vec::new();
        for (index, shape) in inputs {
            if shape == out && self.call.constant(*index).is_none() {
                self.blob(*index)?;
                let blobs = self.state().forms.get(self.input_id(*index)?).cloned().unwrap_or_default();
                candidates.extend(blobs.into_iter().map(|blob| self.form(blob)));
            }
        }
        candidates.push(interface_form(out));
        candidates.extend(merged_form(inputs, out));
        let mut best: Option<(usize, Vec<Dim>, Vec<Option<Vec<Dim>>>)> = None;
        for form in candidates {
            let Some(forms) = express_all(&form, inputs, out) else { continue };
            let mut reshapes = 0;
            for ((index, _), needed) in inputs.iter().zip(&forms) {
                if self.call.constant(*index).is_none() && !self.has_form(*index, needed)? {
                    reshapes += 1;
                }
            }
            if best.as_ref().is_none_or(|(count, _, _)| reshapes < *count) {
                best = Some((reshapes, form, forms.into_iter().map(Some).collect()));
            }
            if reshapes == 0 {
                break;
            }
        }
        if let Some((_, form, forms)) = best {
            return Ok((form, forms));
        }
        // More than four groups of axes: every smaller input is broadcast first.
        let form = interface_form(out);
        let forms = inputs.iter().map(|(_, shape)| (shape == out).then(|| form.clone())).collect();
        Ok((form, forms))
    }

    fn has_form(&self, index: usize, form: &[Dim]) -> Result<bool> {
        self.blob(index)?;
        let blobs = self.state().forms.get(self.input_id(index)?).cloned().unwrap_or_default();
        Ok(blobs.into_iter().any(|blob| self.form(blob) == form))
    }

    /// Returns input `index`, of the same rank as `out`, broadcast to `out` in `form`.
    fn broadcast_as(&self, index: usize, shape: &[Dim], out: &[Dim], form: &[Dim]) -> Result<BlobId> {
        let count = Dim::product(out).known().filter(|n| *n <= limits::STRETCHED);
        if let (Some(tensor), Some(_)) = (self.call.constant(index).cloned(), count) {
            let from: Option<Vec<usize>> = Dim::known_sizes(shape);
            let sizes: Option<Vec<usize>> = Dim::known_sizes(out);
            if let (Some(from), Some(sizes)) = (from, sizes) {
                let tensor = tensor.reshaped(&from)?;
                let stretched =
                    Tensor::deferred(tensor.dtype(), sizes.clone(), vec![tensor], move |inputs| {
                        inputs.at(0)?.broadcast(&sizes)
                    })?;
                return self.memory_data(&stretched, form);
            }
        }
        let blob = self.blob(index)?;
        let blob = self.multiply_to(blob, shape, out)?;
        self.reshape(blob, form)
    }

    /// Emits a blob of a value of shape `from`, broadcast to shape `to` of equal rank by products with 1.
    pub(super) fn multiply_to(&self, blob: BlobId, from: &[Dim], to: &[Dim]) -> Result<BlobId> {
        let mut sizes = from.to_vec();
        let mut blob = blob;
        let mut axis = 0;
        while axis < to.len() {
            if sizes.at(axis)? == to.at(axis)? {
                axis += 1;
                continue;
            }
            // Adjacent axes that are all broadcast are merged.
            let stretched = |axis: &usize| sizes.get(*axis).is_some_and(|d| d.is(1));
            let run: Vec<usize> = (axis..to.len()).take_while(stretched).collect();
            if run.is_empty() {
                // A free size may be the target size, or 1.
                let message =
                    format!("a blob of shape {} broadcast to {}", display_shape(from), display_shape(to));
                return Err(Error::unsupported(message));
            }
            let count = Dim::product(to.iter().skip(axis).take(run.len()));
            let before = Dim::product(sizes.iter().take(axis));
            let after = Dim::product(sizes.iter().skip(axis + run.len()));
            let input = self.reshape(blob, &shape![before, 1, after])?;
            let ones = self.ones(&shape![1, count, 1])?;
            blob = self.compute(input * ones)?;
            for axis in run {
                if let (Some(size), Some(target)) = (sizes.get_mut(axis), to.get(axis)) {
                    size.clone_from(target);
                }
            }
        }
        Ok(blob)
    }
}
