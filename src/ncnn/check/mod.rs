//! The checks of a net before it is written. The runtime trusts its files: it reads beyond the end of a
//! weight, or runs a layer without its blobs, instead of reporting an error.

mod weight;

use std::collections::BTreeSet;

use super::layer::shape::{Size, Sizes, differ};
use super::layer::{Arity, Param, Trait};
use super::name::{Distinct, is_legal};
use super::text::is_readable;
use super::{Blob, BlobId, Element, Layer, Net, NetLayer};
use crate::common::index::IndexSet;
use crate::error::{Result, invalid, unsupported};
use crate::tensor::{DType, Dim, SizeCondition, display_shape};

/// The exclusive upper bound of param ids (`NCNN_MAX_PARAM_COUNT` in `paramdict.h`).
pub(super) const MAX_PARAMS: i32 = 32;

impl Net {
    /// Checks that the runtime loads the net as intended: names, arities, params, weights, shapes, that each
    /// blob is computed once, before its only reader, and that those without a reader are outputs. Returns
    /// the number of elements of all weights.
    pub(crate) fn check(&self) -> Result<u64> {
        if self.layers.is_empty() {
            invalid!("the net has no layers");
        }
        let (layers, blobs) = self.counts();
        i32::try_from(layers)?;
        i32::try_from(blobs)?;
        // A single pass over the layers: large nets exceed the caches.
        let (mut layer_names, mut blob_names) = (Distinct::default(), Distinct::default());
        let mut flow = Flow::default();
        let mut elements = 0_usize;
        for layer in &self.layers {
            layer_names.add(&layer.name);
            flow.pass(self, layer)?;
            for blob in layer.tops.iter().map(|top| self.blob(*top)) {
                blob_names.add(&blob.name);
                check_blob(blob)?;
            }
            check_name(&layer.name)
                .and_then(|()| check_layer(layer, self.release))
                .and_then(|()| self.check_axes(layer))
                .and_then(|()| self.check_weights(layer))
                .map(|count| elements = elements.saturating_add(count))
                .and_then(|()| self.check_elements(layer))
                .and_then(|()| self.check_shapes(layer))
                .map_err(|e| e.at_part(describe(layer)))?;
        }
        if let Some(name) = find_twice(layer_names, self.layers.iter().map(|layer| layer.name.as_str())) {
            invalid!("two layers have the name \"{name}\"");
        }
        if let Some(name) = find_twice(blob_names, self.tops().map(|blob| self.blob(blob).name.as_str())) {
            invalid!("two blobs have the name \"{name}\"");
        }
        flow.end(self)?;
        self.check_read()?;
        self.check_float32()?;
        Ok(u64::try_from(elements)?)
    }

    /// Returns the conditions under which no layer reads an empty blob that needs its elements. Releases
    /// before [`EMPTY_BLOBS`](super::layer::EMPTY_BLOBS) bear none.
    ///
    /// # Errors
    ///
    /// If a blob is always empty.
    pub(crate) fn conditions(&self, accepts_empty: bool) -> Result<Vec<SizeCondition>> {
        let mut producers: BTreeSet<BlobId> = BTreeSet::new();
        let mut read: BTreeSet<BlobId> = BTreeSet::new();
        for layer in &self.layers {
            if matches!(layer.layer, Layer::Input(_) | Layer::Split(_)) {
                producers.extend(&layer.tops);
            }
            let reads = layer.bottoms.iter().enumerate();
            read.extend(
                reads.filter(|(index, _)| !layer.layer.facts().accepts_empty(*index)).map(|(_, blob)| *blob),
            );
        }
        let is_borne = |top: &BlobId| accepts_empty && producers.contains(top) && !read.contains(top);
        let needed = self.tops().filter(|top| !is_borne(top));
        let free = needed.flat_map(|top| self.blob(top).shape.iter()).filter(|size| size.known().is_none());
        let sizes: BTreeSet<&Dim> = free.collect();
        sizes.into_iter().filter_map(|size| SizeCondition::at_least(size, 1).transpose()).collect()
    }

    /// Checks that each blob is computed once, before its only reader.
    #[cfg(test)]
    pub(super) fn check_flow(&self) -> Result<()> {
        let mut flow = Flow::default();
        self.layers.iter().try_for_each(|layer| flow.pass(self, layer))?;
        flow.end(self)
    }

    /// Returns the name of the first layer that reads a blob.
    fn reader(&self, blob: BlobId) -> &str {
        let reader = self.layers.iter().find(|layer| layer.bottoms.contains(&blob));
        reader.map_or("", |layer| &layer.name)
    }

    /// Checks that layers read the element type that the layers before compute.
    fn check_elements(&self, layer: &NetLayer) -> Result<()> {
        let integers = |blob: &BlobId| self.blob(*blob).element == Element::I32;
        let (reads, computes) = (layer.bottoms.iter().any(integers), layer.tops.iter().any(integers));
        let matches = match layer.layer.facts().reads_integers() {
            _ if matches!(layer.layer, Layer::Input(_)) => true,
            Some(true) => reads && !computes,
            Some(false) => reads == computes,
            None => !reads && !computes,
        };
        if !matches {
            invalid!("it reads or computes 32-bit integers as float32, or the reverse");
        }
        let bytes = |blob: &BlobId| self.blob(*blob).element == Element::I8;
        let (reads, computes) = (layer.bottoms.iter().any(bytes), layer.tops.iter().any(bytes));
        let (may_read, must_compute) = match &layer.layer {
            Layer::Split(_) => (true, reads),
            other => other.facts().bytes(),
        };
        if (reads && !may_read) || computes != must_compute {
            invalid!("it reads or computes 8-bit integers as float32, or the reverse");
        }
        let is_cache = |blob: &BlobId| self.blob(*blob).element == Element::Cache;
        let continued =
            layer.tops.iter().enumerate().filter(|(index, _)| layer.layer.computes_cache(*index)).count();
        let (plain, continues) = layer.bottoms.split_at(layer.bottoms.len().saturating_sub(continued));
        let computes = layer.tops.iter().skip(1).filter(|top| is_cache(top)).count();
        let is_input = matches!(layer.layer, Layer::Input(_));
        let matches = continues.iter().all(is_cache) && (is_input || computes == continued);
        if !matches || plain.iter().any(is_cache) || (!is_input && layer.tops.first().is_some_and(is_cache)) {
            invalid!("it reads or computes a cache of the runtime as numbers, or the reverse");
        }
        Ok(())
    }

    /// Checks that the shapes of the tops are those that the layer computes from its bottoms.
    fn check_shapes(&self, layer: &NetLayer) -> Result<()> {
        let sizes = |blob: &BlobId| self.blob(*blob).shape.iter().map(Size::from).collect::<Sizes>();
        let bottoms: Vec<Sizes> = layer.bottoms.iter().map(sizes).collect();
        let computed = layer.layer.facts().top_sizes(&bottoms, layer.tops.len())?.unwrap_or_default();
        for (top, computed) in layer.tops.iter().zip(computed) {
            if differ(&sizes(top), &computed) {
                let intended = display_shape(&self.blob(*top).shape);
                unsupported!("ncnn computes {computed:?} from {bottoms:?} instead of {intended}");
            }
        }
        Ok(())
    }
}

/// Returns the first repeated name.
fn find_twice<'n>(distinct: Distinct, mut names: impl Iterator<Item = &'n str>) -> Option<&'n str> {
    if distinct.all_differ() {
        return None;
    }
    let mut seen = BTreeSet::new();
    names.find(|name| !seen.insert(*name))
}

/// The state of the check that each blob is computed before its only reader.
#[derive(Default)]
struct Flow {
    computed: IndexSet<BlobId>,
    read: IndexSet<BlobId>,
    /// The tops of Input layers.
    inputs: BTreeSet<BlobId>,
}

impl Flow {
    /// Checks the next layer.
    fn pass(&mut self, net: &Net, layer: &NetLayer) -> Result<()> {
        let name = |blob: BlobId| &net.blob(blob).name;
        for bottom in &layer.bottoms {
            if !self.computed.contains(*bottom) {
                invalid!("{} reads \"{}\" before it is computed", describe(layer), name(*bottom));
            }
            if !self.read.insert(*bottom) {
                let (blob, other) = (name(*bottom), net.reader(*bottom));
                invalid!("{} reads \"{blob}\", which layer \"{other}\" already reads", describe(layer));
            }
        }
        for top in &layer.tops {
            if !self.computed.insert(*top) {
                invalid!("{} computes \"{}\" again", describe(layer), name(*top));
            }
        }
        if let Layer::Input(_) = layer.layer {
            self.inputs.extend(&layer.tops);
        }
        Ok(())
    }

    /// Checks inputs and outputs after the last layer.
    fn end(&self, net: &Net) -> Result<()> {
        for output in &net.outputs {
            let name = &output.name;
            if !self.computed.contains(output.blob) {
                invalid!("output \"{name}\" is not computed");
            }
            if self.read.contains(output.blob) {
                invalid!("output \"{name}\" is read by layer \"{}\"", net.reader(output.blob));
            }
            if *name != net.blob(output.blob).name {
                invalid!("output \"{name}\" differs from the name of its blob");
            }
        }
        if self.inputs != net.inputs.iter().copied().collect() {
            invalid!("the inputs are not the tops of the Input layers");
        }
        Ok(())
    }
}

fn describe(layer: &NetLayer) -> String {
    format!("{} layer \"{}\"", layer.layer.type_name(), layer.name)
}

/// Checks that the runtime reads a name as one word.
pub(super) fn check_name(name: &str) -> Result<()> {
    if name.is_empty() || !is_legal(name) {
        invalid!("ncnn cannot read the name {name:?}");
    }
    Ok(())
}

fn check_blob(blob: &Blob) -> Result<()> {
    check_name(&blob.name).map_err(|e| e.at_part(format!("blob \"{}\"", blob.name)))?;
    if blob.shape.is_empty() || blob.shape.len() > 4 {
        invalid!("blob \"{}\" has {} axes: ncnn supports one to four", blob.name, blob.shape.len());
    }
    for size in blob.shape.iter().filter_map(|size| size.known()) {
        if i32::try_from(size).is_err() || size < 1 {
            unsupported!("blob \"{}\" has an axis of size {size}", blob.name);
        }
    }
    Ok(())
}

impl Net {
    /// Refuses blobs of four axes for layers of which old releases compute only the first slice of each
    /// channel.
    fn check_axes(&self, layer: &NetLayer) -> Result<()> {
        let has_depth = || layer.bottoms.iter().any(|bottom| self.blob(*bottom).shape.len() > 3);
        if layer.layer.has(Trait::NoDepth) && has_depth() {
            invalid!("four axes, of which old releases ignore one");
        }
        Ok(())
    }
}

fn check_layer(layer: &NetLayer, release: u32) -> Result<()> {
    layer.layer.check_since(release)?;
    let within = |arity: Arity, n: usize| (arity.min..=arity.max).contains(&n);
    if !within(layer.layer.bottoms(), layer.bottoms.len()) {
        invalid!("{} bottoms", layer.bottoms.len());
    }
    if !within(layer.layer.tops(), layer.tops.len()) {
        invalid!("{} tops", layer.tops.len());
    }
    for (id, param) in layer.layer.params() {
        check_param(id, &param)?;
    }
    Ok(())
}

fn check_param(id: i32, param: &Param) -> Result<()> {
    if !(0..MAX_PARAMS).contains(&id) {
        invalid!("param {id}");
    }
    let finite = |value: &f32| {
        if value.is_finite() {
            Ok(())
        } else {
            unsupported!("{value} as param {id}: ncnn reads only finite values")
        }
    };
    match param {
        Param::Float(value) => finite(value),
        Param::Floats(values) => values.iter().try_for_each(finite),
        Param::Text(text) if !is_readable(text) => {
            invalid!("param {id} is {text:?}, which ncnn cannot read")
        }
        Param::Int(_) | Param::Ints(_) | Param::Text(_) => Ok(()),
    }
}

/// Returns whether elements of a type convert to float32.
fn is_numeric(dtype: DType) -> bool {
    dtype.bits() > 0 && !matches!(dtype, DType::C64 | DType::C128 | DType::String)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::{BatchNorm, BinaryOp, Clip, Convolution, Gemm, LayerNorm, MemoryData, Reshape};
    use crate::tensor::Tensor;

    fn tensor(len: usize) -> Option<Tensor> {
        Some(Tensor::from_f32(&[len], vec![0.0; len]).unwrap())
    }

    /// Returns the error of a net of one layer over bottoms `[2, 3, 4]`; empty if there is none.
    fn refusal(layer: impl Into<Layer>, bottoms: usize) -> String {
        let mut net = Net::default();
        let inputs: Vec<BlobId> =
            (0..bottoms).map(|i| net.push_input(&format!("x{i}"), &[2, 3, 4])).collect();
        let y = net.push("y", layer, &inputs, &[2, 3, 4]);
        net.push_output("y", y);
        net.check().err().map_or_else(String::new, |e| e.to_string())
    }

    #[test]
    fn params_and_arities_are_checked() {
        let reshape = |text: &str| Reshape { shape_expr: text.into(), ..Reshape::default() };
        let param = |text: &str| check_param(6, &Param::Text(text.into())).unwrap_err().to_string();
        for (refusal, expected) in [
            (refusal(Clip { min: f32::NEG_INFINITY, max: 1.0 }, 1), "Clip layer \"y\": -inf as param 0"),
            (refusal(BinaryOp::default(), 3), "BinaryOp layer \"y\": 3 bottoms"),
            (param(" 0w"), "param 6 is \" 0w\""),
            (param("0w\""), "param 6 is"),
            (param(&"0w,".repeat(100)), "param 6 is"),
            (refusal(reshape("0w,0h,0c"), 1), "requires ncnn 20250428, and the net is for 20240410"),
        ] {
            assert!(
                refusal.contains(expected) && refusal.is_empty() == expected.is_empty(),
                "{refusal}: {expected}"
            );
        }
    }

    #[test]
    fn sizes_of_weights_are_checked() {
        let conv = |weight, bias| Convolution {
            num_output: 2,
            kernel_w: 3,
            kernel_h: 1,
            pad_left: 1,
            pad_right: 1,
            weight_data: weight,
            bias_data: bias,
            ..Convolution::default()
        };
        let gemm =
            Gemm { constantN: 4, constantK: 4, B_data: tensor(16), C_data: tensor(4), ..Gemm::default() };
        let norm = LayerNorm { affine_size: 4, gamma_data: tensor(4), ..LayerNorm::default() };
        let memory = MemoryData { w: 4, h: 2, data: tensor(7), ..MemoryData::default() };
        let batch = BatchNorm {
            slope_data: tensor(2),
            mean_data: tensor(2),
            var_data: tensor(2),
            bias_data: tensor(3),
            ..BatchNorm::default()
        };
        for (refusal, expected) in [
            (refusal(conv(tensor(12), tensor(2)), 1), ""),
            (refusal(conv(tensor(6), None), 1), "weight_data has 6 elements instead of 12"),
            (refusal(conv(tensor(12), tensor(4)), 1), "bias_data has 4 elements instead of 2"),
            (refusal(conv(None, None), 1), "weight_data is missing"),
            (refusal(gemm, 1), "ncnn does not read C_data with these params"),
            (refusal(norm, 1), "beta_data is missing"),
            (refusal(memory, 0), "data has 7 elements instead of 8"),
            (refusal(batch, 1), "bias_data has 3 elements instead of 2"),
        ] {
            assert!(
                refusal.contains(expected) && refusal.is_empty() == expected.is_empty(),
                "{refusal}: {expected}"
            );
        }
    }

    #[test]
    fn order_and_names_of_blobs_are_checked() {
        let base = || {
            let mut net = Net::default();
            let x = net.push_input("x", &[4]);
            let y = net.push_abs("y", x);
            net.push_output("y", y);
            (net, x, y)
        };
        let (net, ..) = base();
        net.check().unwrap();
        let refused = |net: Net, expected: &str| {
            let error = net.check().unwrap_err().to_string();
            assert!(error.contains(expected), "{error}: {expected}");
        };
        refused(Net::default(), "no layers");
        let (mut net, x, _) = base();
        net.push_abs("z", x);
        refused(net, "reads \"x\", which layer \"y\" already reads");
        let (mut net, ..) = base();
        net.layers.reverse();
        refused(net, "reads \"x\" before it is computed");
        let (mut net, _, y) = base();
        net.push_abs("z", y);
        refused(net, "output \"y\" is read by layer \"z\"");
        let (mut net, _, y) = base();
        net.push_output("other", y);
        refused(net, "output \"other\" differs from the name of its blob");
        let (mut net, ..) = base();
        net.inputs.clear();
        refused(net, "the inputs are not");
        let (mut net, ..) = base();
        net.push_input("y", &[4]);
        refused(net, "two layers have the name \"y\"");
        let (mut net, _, y) = base();
        net.blob_mut(y).unwrap().name = "x".into();
        refused(net, "two blobs have the name \"x\"");
        let (mut net, _, y) = base();
        net.blob_mut(y).unwrap().name = "a b".into();
        refused(net, "cannot read the name");
        let (mut net, _, y) = base();
        net.blob_mut(y).unwrap().shape = vec![crate::tensor::Dim::ZERO].into();
        refused(net, "has an axis of size 0");
    }
}
