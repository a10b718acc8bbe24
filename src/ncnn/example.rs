//! Builders of small nets for tests.

use std::collections::{BTreeMap, BTreeSet};

use smallvec::smallvec;

use super::layer::shape::{Size, Sizes};
use super::layer::{Input, UnaryOp, unary_op};
use super::read::read_params;
use super::{Blob, BlobId, BlobIds, Element, Layer, Net, NetLayer, Output, Provenance};
use crate::tensor::{Dim, Shape, Tensor};

impl Net {
    /// Adds a layer with one top of these sizes.
    pub(super) fn push(
        &mut self,
        name: &str,
        layer: impl Into<Layer>,
        bottoms: &[BlobId],
        sizes: &[i64],
    ) -> BlobId {
        let shape = sizes.iter().copied().map(Dim::Known).collect();
        let top = self.add_blob(Blob {
            name: name.to_owned(),
            is_value: true,
            shape,
            element: Element::F32,
            batch: 1,
            float32: false,
        });
        let layer = NetLayer {
            name: name.to_owned(),
            layer: layer.into(),
            bottoms: bottoms.into(),
            tops: smallvec![top],
            float32: false,
            provenance: Provenance::from_iter([self.layers.len()]),
        };
        self.layers.push(layer);
        top
    }

    pub(super) fn push_input(&mut self, name: &str, sizes: &[i64]) -> BlobId {
        let top = self.push(name, Input::default(), &[], sizes);
        self.inputs.push(top);
        top
    }

    pub(super) fn push_abs(&mut self, name: &str, bottom: BlobId) -> BlobId {
        self.push(name, UnaryOp { op_type: unary_op::ABS }, &[bottom], &[4])
    }

    pub(super) fn push_output(&mut self, name: &str, blob: BlobId) {
        self.outputs.push(Output { blob, name: name.to_owned() });
    }

    /// Returns the names of the bottoms, `>` and the names of the tops of each layer.
    pub(super) fn wiring(&self) -> Vec<String> {
        let names =
            |blobs: &[BlobId]| blobs.iter().map(|b| self.blob(*b).name.clone()).collect::<Vec<_>>().join(" ");
        let wires = |l: &NetLayer| format!("{} > {}", names(&l.bottoms), names(&l.tops));
        self.layers.iter().map(wires).collect()
    }
}

impl Net {
    /// Reads a `.param` file of fixed sizes, of which each blob that no layer reads is an output. The sizes
    /// of inputs are their params, those of other blobs follow from the rules of their layers. A weight is
    /// `name=sizes*element`.
    pub(super) fn read_param(text: &str) -> Net {
        let mut net = Net::default();
        let mut blobs: BTreeMap<String, BlobId> = BTreeMap::new();
        for line in text.lines().skip(2) {
            let mut words = line.split_whitespace();
            let [type_name, name] = [(); 2].map(|()| words.next().unwrap());
            let [bottoms, tops] = [(); 2].map(|()| words.next().unwrap().parse::<usize>().unwrap());
            let mut layer = Layer::named(type_name).unwrap();
            let names: Vec<&str> = words.by_ref().take(bottoms + tops).collect();
            let is_weight = |word: &&str| word.starts_with(|first: char| first.is_alphabetic());
            let (weights, params): (Vec<&str>, Vec<&str>) = words.partition(is_weight);
            layer.settable().set(&read_params(&params.join(" ")).unwrap()).unwrap();
            for (name, weight) in weights.into_iter().map(|word| word.split_once('=').unwrap()) {
                layer.settable().set_weight(name, equal_elements(weight)).unwrap();
            }
            let bottoms: BlobIds = names[..bottoms].iter().map(|name| blobs[*name]).collect();
            let sizes = |blob: &BlobId| net.blob(*blob).shape.iter().map(Size::from).collect();
            let shapes: Vec<Sizes> = bottoms.iter().map(sizes).collect();
            let shapes = layer.facts().top_sizes(&shapes, tops).unwrap();
            let shapes = shapes.unwrap_or_else(|| panic!("{line}: the sizes are not inferred"));
            let tops: BlobIds = names[bottoms.len()..]
                .iter()
                .zip(shapes)
                .map(|(name, sizes)| {
                    let shape = sizes.iter().map(|size| Dim::from(size.known().unwrap())).collect();
                    let name = (*name).to_owned();
                    net.add_blob(Blob {
                        name,
                        is_value: true,
                        shape,
                        element: Element::F32,
                        batch: 1,
                        float32: false,
                    })
                })
                .collect();
            blobs.extend(tops.iter().map(|top| (net.blob(*top).name.clone(), *top)));
            if matches!(layer, Layer::Input(_)) {
                net.inputs.extend(&tops);
            }
            let provenance = Provenance::from_iter([net.layers.len()]);
            let name = name.to_owned();
            net.layers.push(NetLayer { name, layer, bottoms, tops, float32: false, provenance });
        }
        let read: BTreeSet<BlobId> =
            net.layers.iter().flat_map(|layer| layer.bottoms.iter().copied()).collect();
        for (name, blob) in blobs.into_iter().filter(|(_, blob)| !read.contains(blob)) {
            net.push_output(&name, blob);
        }
        net
    }
}

/// Returns a weight of equal elements, `sizes*element` with `x` between the sizes.
fn equal_elements(text: &str) -> Tensor {
    let (sizes, element) = text.split_once('*').unwrap();
    let sizes: Vec<usize> = sizes.split('x').map(|size| size.parse().unwrap()).collect();
    Tensor::from_f32(&sizes, vec![element.parse().unwrap(); sizes.iter().product()]).unwrap()
}

/// Returns sizes such as `4`, `N` and `2*N + 3`.
pub(super) fn sizes(texts: &[&str]) -> Shape {
    let product = |text: &str| {
        let factors = text.split('*').map(|factor| factor.trim().parse::<Dim>().unwrap());
        factors.reduce(|a, b| a * &b).unwrap()
    };
    let sum = |text: &&str| text.split('+').map(product).reduce(|a, b| a + &b).unwrap();
    texts.iter().map(sum).collect()
}
