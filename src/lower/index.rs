//! Indices computed at run time: 32-bit integers if they are a graph input, otherwise float32.
//!
//! ncnn computes in float32; only Embed reads integers. If an Embed reads a graph input, all integer inputs
//! of the net are int32, to give users one rule; other readers get them through Dequantize.

use num_traits::AsPrimitive;

use super::state::{Label, reshape_layer};
use super::{Lower, Nd, Operand, State};
use crate::common::limits;
use crate::error::{Error, Result, unsupported};
use crate::ncnn::layer::{CumulativeSum, Dequantize};
use crate::ncnn::{BlobId, Element, Layer, NetLayer};
use crate::tensor::{Array, DType, Dim, Tensor};

/// The maximum size of an axis that is compared with a free number of indices: tables of relative positions
/// have 32 rows or a few more.
const MAX_OF_FREE: i64 = 1 << 10;

impl State {
    /// Called after all nodes are lowered: if Embed reads a graph input, all integer inputs are 32-bit
    /// integers, and other readers get them as float32.
    pub(super) fn finalize_integers(&mut self) -> Result<()> {
        if self.integers.indices.is_empty() {
            return Ok(());
        }
        for input in self.integers.inputs.values().copied().collect::<Vec<_>>() {
            if let Some(blob) = self.net.blob_mut(input) {
                blob.element = Element::I32;
            }
            self.dequantize_for_arithmetic(input)?;
        }
        Ok(())
    }

    fn dequantize_for_arithmetic(&mut self, input: BlobId) -> Result<()> {
        let net = &self.net;
        let as_integers = |layer: &NetLayer| {
            matches!(layer.layer, Layer::Embed(_))
                || layer.tops.iter().any(|top| net.blob(*top).element == Element::I32)
        };
        let computing = |layer: &NetLayer| layer.bottoms.contains(&input) && !as_integers(layer);
        let readers: Vec<bool> = net.layers.iter().map(computing).collect();
        if !readers.contains(&true) && !net.outputs.iter().any(|output| output.blob == input) {
            return Ok(());
        }
        let shape = net.blob(input).shape.to_vec();
        // Before 2024-08 Dequantize ignores the axis d.
        let blob_3d = match shape.as_slice() {
            [c, d, h, w] => vec![c.clone(), d * h, w.clone()],
            _ => shape.clone(),
        };
        let after = net.layers.iter().position(|layer| layer.tops.contains(&input)).map_or(0, |at| at + 1);
        let mut made = self.net.layers.split_off(after);
        let name = format!("{}_numbers", self.net.blob(input).name);
        let mut numbers = input;
        if blob_3d != shape {
            numbers = self.integer_reshape(Label::of(&name), input, &blob_3d)?;
        }
        let scale_data = Some(Tensor::from_f32(&[1], vec![1.0])?);
        let layer = Dequantize { scale_data, ..Dequantize::default() };
        numbers = self.emit_one(Label::of(&name), layer, &[numbers], &blob_3d)?;
        if blob_3d != shape {
            let layer = reshape_layer(&blob_3d, &shape)?;
            numbers = self.emit_one(Label::of(&name), layer, &[numbers], &shape)?;
        }
        for (layer, _) in made.iter_mut().zip(readers.into_iter().skip(after)).filter(|(_, reads)| *reads) {
            for bottom in layer.bottoms.iter_mut().filter(|bottom| **bottom == input) {
                *bottom = numbers;
            }
        }
        self.net.layers.append(&mut made);
        for output in self.net.outputs.iter_mut().filter(|output| output.blob == input) {
            output.blob = numbers;
        }
        Ok(())
    }

    /// Emits a Reshape of integers.
    fn integer_reshape(&mut self, label: Label, from: BlobId, form: &[Dim]) -> Result<BlobId> {
        let layer = reshape_layer(&self.net.blob(from).shape, form)?;
        let top = self.emit_one(label, layer, &[from], form)?;
        // Layers that read sizes do not read integers; readers of the input get float32.
        let shape = self.net.blob(from).shape.clone();
        self.axes.replace(top, from, &shape);
        if let Some(blob) = self.net.blob_mut(top) {
            blob.element = Element::I32;
        }
        Ok(top)
    }
}

impl<'l> Lower<'l> {
    /// Returns input `index` as one axis of 32-bit integers, if it is a reshaped graph input.
    pub fn integers(&'l self, index: usize) -> Result<Option<Nd<'l>>> {
        let count = Dim::product(self.call.shape(index)?);
        Ok(self.integer_blob(index)?.map(|blob| self.nd(blob, [count])))
    }

    fn integer_blob(&self, index: usize) -> Result<Option<BlobId>> {
        let Some(input) = self.state().integers.input(self.input_id(index)?) else { return Ok(None) };
        if let Some(indices) = self.state().integers.indices.get(&input) {
            return Ok(Some(*indices));
        }
        let form = self.form(input);
        let count = [Dim::product(&form)];
        let names = self.names();
        let indices = if form == count {
            input
        } else {
            self.state_mut().integer_reshape(names.label(), input, &count)?
        };
        if let Some(blob) = self.state_mut().net.blob_mut(indices) {
            blob.element = Element::I32;
        }
        self.state_mut().integers.indices.insert(input, indices);
        Ok(Some(indices))
    }

    /// Emits indices into an axis of `size`, with negative ones counted from its front.
    pub(super) fn counted_from_front(&self, indices: BlobId, size: i64) -> Result<BlobId> {
        self.compute(indices + indices.less(0.0) * float(size)?)
    }

    /// Emits a matrix with a row for each index and a column for each position of an axis of `size`: 1 where
    /// they are equal, otherwise 0. The indices are integers; a row of an index out of range is 0.
    pub(super) fn one_hot(&self, indices: BlobId, size: i64) -> Result<BlobId> {
        let count = Dim::product(&self.form(indices));
        let most =
            count.known().map_or(size <= MAX_OF_FREE, |count| count.saturating_mul(size) <= limits::COMPARED);
        if !most {
            unsupported!("{count} indices compared with each position of an axis of size {size}");
        }
        let (one, size) = (Dim::ONE, Dim::Known(size));
        let indices = self.reshape(indices, &[count, one.clone()])?;
        let positions = self.memory_data(&ramp(&size)?, &[one, size])?;
        self.compute((indices - positions).equals_zero())
    }

    /// Emits the positions of an axis of `size` elements, in this form.
    pub(super) fn positions_along(&self, size: &Dim, form: &[Dim]) -> Result<BlobId> {
        if size.known().is_some() {
            return self.memory_data(&ramp(size)?, form);
        }
        let ones = self.ones(std::slice::from_ref(size))?;
        self.reshape(ones.map(CumulativeSum::default()) - 1.0, form)
    }
}

/// Returns the positions of an axis: 0, 1, 2 and so on.
fn ramp(size: &Dim) -> Result<Tensor> {
    let Some(size) = size.known() else { unsupported!("the positions of an axis of size {size}") };
    float(size)?;
    Tensor::deferred(DType::F32, vec![usize::try_from(size)?], Vec::new(), move |_| {
        Ok(Array::f32(ndarray::Array1::from_iter((0..size).map(AsPrimitive::as_)).into_dyn()))
    })
}

fn float(size: i64) -> Result<f32> {
    if size > 1 << 24 {
        return Err(Error::unsupported(format!(
            "the positions of an axis of size {size}: float32 represents integers up to 2^24 exactly"
        )));
    }
    Ok(size.as_())
}
