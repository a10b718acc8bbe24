//! Builders of small nets for tests.

use smallvec::smallvec;

use super::layer::{Input, UnaryOp, unary_op};
use super::{Blob, BlobId, Element, Layer, Net, NetLayer, Output, Provenance};
use crate::tensor::{Dim, Shape};

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
        let top = self.add_blob(Blob { name: name.to_owned(), shape, element: Element::F32, float32: false });
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

/// Returns sizes such as `4`, `N` and `2*N + 3`.
pub(super) fn sizes(texts: &[&str]) -> Shape {
    let product = |text: &str| {
        let factors = text.split('*').map(|factor| factor.trim().parse::<Dim>().unwrap());
        factors.reduce(|a, b| a.mul(&b).unwrap()).unwrap()
    };
    let sum = |text: &&str| text.split('+').map(product).reduce(|a, b| a.add(&b).unwrap()).unwrap();
    texts.iter().map(sum).collect()
}
