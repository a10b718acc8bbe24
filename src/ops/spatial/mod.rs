//! Operators over spatial axes: sliding windows, grids, regions of interest, resizing.

pub(in crate::ops) mod causal_conv;
pub(in crate::ops) mod col2im;
pub(in crate::ops) mod conv;
pub(in crate::ops) mod frames;
pub(in crate::ops) mod grid;
mod layout;
pub(in crate::ops) mod pool;
pub(in crate::ops) mod rearrange;
pub(in crate::ops) mod resize;
pub(in crate::ops) mod roi;
pub(in crate::ops) mod unpool;
pub(in crate::ops) mod window;

use crate::ops::prelude::*;

/// The families of this shelf.
pub(super) const FAMILIES: &[&[Row]] = &[
    causal_conv::OPS,
    col2im::OPS,
    conv::OPS,
    frames::OPS,
    grid::OPS,
    pool::OPS,
    rearrange::OPS,
    resize::OPS,
    roi::OPS,
    unpool::OPS,
];

/// Returns a shape with the batch merged into the channels.
fn batch_as_channels(shape: &[Dim]) -> Vec<Dim> {
    let channels = Dim::product(shape.iter().take(2));
    std::iter::once(channels).chain(shape.iter().skip(2).cloned()).collect()
}

/// Returns one image of a batch, without the batch axis.
fn image_of(x: Nd, image: i64) -> Result<Nd> {
    let (batch, shape) = (x.size(0), x.shape());
    if image < 0 || batch.known().is_some_and(|batch| image >= batch) {
        invalid!("batch index {image} is out of range for a batch of {batch}");
    }
    Ok(x.slice(0, image, 1).reshape(shape.get(1..).unwrap_or_default()))
}
