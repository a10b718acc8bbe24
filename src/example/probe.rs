//! What the numbers of boxes mean, by the layers that compute them.
//!
//! The layers after the last convolutions are computed for feature maps whose cells are equal. A coordinate
//! then differs between neighbouring cells by their distance, and a width or a height does not differ. Nor do
//! offsets from anchors, which the model leaves to its user.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use ndarray::{ArrayD, ArrayViewD, Axis, Dimension};

use super::purpose::Picture;
use super::subject::Subject;
use super::tail::Scale;
use crate::common::int::Int;
use crate::ncnn::{BlobId, Layer, Net, NetLayer};
use crate::reference::{self, Mat, fused};

/// The largest number of weights of a layer that only decodes: the sum over the bins of a distance, or of a
/// few coordinates.
const MAX_DECODING: usize = 64;

/// The most elements of the blobs that are computed.
const MAX_ELEMENTS: usize = 1 << 27;

/// The precision of comparisons, as a part of a cell or of a probability.
const PRECISION: f64 = 1e-3;

/// Strides of the feature maps of detectors.
const STRIDES: [&[i32]; 7] =
    [&[8, 16, 32], &[8, 16, 32, 64], &[4, 8, 16, 32], &[16, 32], &[8, 16, 32, 64, 128], &[32], &[16]];

/// The numbers of boxes in a cell.
const ANCHORS: [i32; 5] = [1, 3, 5, 6, 9];

/// The cells of the feature map whose boxes come first.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    /// The number of boxes in a cell.
    pub boxes: i32,
    /// Whether there are maps of several strides.
    pub are_of_pyramid: bool,
    in_row: i32,
    in_column: i32,
    /// The distance of cells in pixels.
    stride: i32,
    /// How many rows of the output lie between the boxes of neighbouring cells.
    step: i32,
}

impl Cells {
    /// Returns the cells that an output with so many boxes may have.
    pub fn of(picture: Picture, boxes: i64) -> Vec<Cells> {
        let along = |size: i64, stride: i32| {
            let stride = i64::from(stride);
            i32::try_from(size.div_euclid(stride) + i64::from(size.rem_euclid(stride) > 0)).ok()
        };
        let cells_of = |stride: i32| Some((along(picture.width, stride)?, along(picture.height, stride)?));
        let mut found = Vec::new();
        for (strides, each) in STRIDES.into_iter().flat_map(|strides| ANCHORS.map(|each| (strides, each))) {
            let counts =
                strides.iter().map(|stride| cells_of(*stride).map(|(w, h)| i64::from(w) * i64::from(h)));
            let count = counts.sum::<Option<i64>>().map(|count| count * i64::from(each));
            if count != Some(boxes) {
                continue;
            }
            // The first map is the largest or the smallest, and the boxes of a cell are together or not.
            for stride in [strides.first(), strides.last()].into_iter().flatten() {
                let Some((in_row, in_column)) = cells_of(*stride) else { continue };
                found.extend([1, each].map(|step| Cells {
                    boxes: each,
                    are_of_pyramid: strides.len() > 1,
                    in_row,
                    in_column,
                    stride: *stride,
                    step,
                }));
            }
        }
        found
    }
}

/// The form of a box.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BoxForm {
    /// Whether it is a centre and a size, and not two corners.
    pub is_centre: bool,
    /// Whether y comes before x.
    pub is_row_first: bool,
    /// Whether the numbers are parts of the picture, and not pixels.
    pub is_part: bool,
}

/// The numbers of an output for feature maps whose cells are equal: `[boxes, numbers]`.
pub(super) struct Probe {
    rows: Mat,
}

impl Probe {
    /// Computes an output with so many numbers for each box; `is_transposed` if it has a row for each number.
    ///
    /// Returns `None` if the layers after the last convolutions say nothing about that.
    pub fn of(subject: &Subject, output: usize, numbers: i64, is_transposed: bool) -> Option<Probe> {
        let name = &subject.outputs.get(output)?.blob;
        let blob = subject.net.outputs.iter().find(|output| output.name == *name)?.blob;
        let heads = heads(subject, blob)?;
        let [mat] = <[Mat; 1]>::try_from(reference::run(subject.net, heads, &[blob]).ok()?).ok()?;
        let numbers = usize::try_from(numbers).ok()?;
        let boxes = mat.len().checked_div(numbers)?;
        let sizes = if is_transposed { [numbers, boxes] } else { [boxes, numbers] };
        // The axes of a Mat that was computed may lie in another order.
        let rows = ArrayD::from_shape_vec(sizes.to_vec(), mat.iter().copied().collect()).ok()?;
        Some(Probe { rows: if is_transposed { rows.reversed_axes() } else { rows } })
    }

    /// Returns the form of the boxes if the first four numbers lie on such cells.
    pub fn form(&self, cells: &[Cells]) -> Option<BoxForm> {
        cells.iter().find_map(|cells| self.form_on(*cells))
    }

    fn form_on(&self, cells: Cells) -> Option<BoxForm> {
        let Cells { in_row, in_column, stride, step, .. } = cells;
        let forms = [false, true].into_iter().flat_map(|is_part| {
            let bools = [(true, false), (true, true), (false, false), (false, true)];
            bools.map(|(is_centre, is_row_first)| BoxForm { is_centre, is_row_first, is_part })
        });
        let is_of_form = |form: &BoxForm| {
            let [along, down] = match form.is_part {
                true => [1.0 / f64::from(in_row), 1.0 / f64::from(in_column)],
                false => [f64::from(stride); 2],
            };
            let [first, second] = match form.is_row_first {
                true => [(0.0, down), (along, 0.0)],
                false => [(along, 0.0), (0.0, down)],
            };
            let still = (0.0, 0.0);
            let expected = match form.is_centre {
                true => [first, second, still, still],
                false => [first, second, first, second],
            };
            let is_near = |difference: Option<f64>, expected: f64, unit: f64| {
                difference.is_some_and(|difference| (difference - expected).abs() <= PRECISION * unit)
            };
            expected.into_iter().enumerate().all(|(number, (right, below))| {
                is_near(self.difference(step, number), right, along)
                    && is_near(self.difference(in_row * step, number), below, down)
            })
        };
        forms.into_iter().find(is_of_form)
    }

    /// Returns by how much a number of a row differs from the same number of the first row.
    fn difference(&self, row: i32, number: usize) -> Option<f64> {
        let row = usize::try_from(row).ok()?;
        Some(self.rows.get([row, number].as_slice())? - self.rows.get([0, number].as_slice())?)
    }

    /// Returns what these scores are: probabilities if they lie between 0 and 1.
    pub fn scale(&self, scores: Range<i64>) -> Scale {
        let is_probability = |number: &f64| (-PRECISION..=1.0 + PRECISION).contains(number);
        let are = |(at, column): (usize, ArrayViewD<f64>)| {
            !scores.contains(&at.int()) || column.iter().all(is_probability)
        };
        match self.rows.axis_iter(Axis(1)).enumerate().all(are) {
            true => Scale::Probabilities,
            false => Scale::Independent,
        }
    }
}

/// Returns the blobs from which a blob is computed without the weights of the network, with elements that are
/// equal in all cells.
fn heads(subject: &Subject, blob: BlobId) -> Option<BTreeMap<BlobId, Mat>> {
    let net = subject.net;
    let producers = reference::producers(net);
    let (mut heads, mut seen, mut elements) = (BTreeMap::new(), BTreeSet::new(), 0);
    let mut has_head = false;
    let mut left = vec![blob];
    while let Some(blob) = left.pop() {
        if !seen.insert(blob) {
            continue;
        }
        let layer = producers.get(blob).and_then(|index| net.layers.get(*index))?;
        let sizes = sizes(subject, net, blob)?;
        elements += sizes.iter().product::<usize>();
        if elements > MAX_ELEMENTS {
            return None;
        }
        if matches!(layer.layer, Layer::Input(_)) {
            heads.insert(blob, ArrayD::zeros(sizes));
        } else if decodes(layer) {
            left.extend(&layer.bottoms);
        } else {
            has_head = true;
            heads.insert(blob, equal_cells(sizes, &layer.layer)?);
        }
    }
    has_head.then_some(heads)
}

fn sizes(subject: &Subject, net: &Net, blob: BlobId) -> Option<Vec<usize>> {
    let blob = net.blob(blob);
    let sizes = blob.shape.iter().map(|size| usize::try_from(size.substitute(subject.sizes).known()?).ok());
    sizes.collect::<Option<Vec<usize>>>().filter(|_| blob.batch == 1)
}

/// Returns whether a layer has no weights of the network.
fn decodes(layer: &NetLayer) -> bool {
    let weights = layer.layer.weights();
    let count: usize = weights.iter().map(|weight| weight.tensor.len()).sum();
    count <= MAX_DECODING || matches!(layer.layer, Layer::MemoryData(_))
}

/// Returns whether the axis of features is the outermost one.
fn is_of_maps(layer: &Layer) -> bool {
    matches!(
        layer,
        Layer::Convolution(_)
            | Layer::ConvolutionDepthWise(_)
            | Layer::Deconvolution(_)
            | Layer::DeconvolutionDepthWise(_)
            | Layer::BatchNorm(_)
            | Layer::Scale(_)
            | Layer::Bias(_)
            | Layer::PReLU(_)
    )
}

/// Returns features that are equal in all cells, as a layer computes them.
fn equal_cells(sizes: Vec<usize>, layer: &Layer) -> Option<Mat> {
    let axis = if is_of_maps(layer) { 0 } else { sizes.len().checked_sub(1)? };
    // A vector has no cells.
    (sizes.len() > 1).then_some(())?;
    let activation = match layer {
        Layer::Convolution(l) => fused(l.activation_type, &l.activation_params),
        Layer::ConvolutionDepthWise(l) => fused(l.activation_type, &l.activation_params),
        Layer::InnerProduct(l) => fused(l.activation_type, &l.activation_params),
        _ => fused(0, &[]),
    };
    let activation = activation.ok()?;
    let feature = |index: usize| f64::from(u8::try_from(index * 37 % 17).unwrap_or_default()) / 2.0 - 4.0;
    Some(ArrayD::from_shape_fn(sizes, |at| {
        activation(feature(at.slice().get(axis).copied().unwrap_or_default()))
    }))
}
