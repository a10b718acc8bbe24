//! Values with a batch as Mats with one, of which the runtime computes one element after the other.
//!
//! The pass of `src/pass/batch.rs` makes the nodes. Between them the first axis has size 1.

use crate::ncnn::layer::Reshape;
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(NCNN_DOMAIN, "JoinBatch", Access::Selection, infer_join)
        .lower(lower_join)
        .transparent(|_, _| true)
        .lowers_to("Reshape"),
    Row::of(NCNN_DOMAIN, "SplitBatch", Access::Selection, infer_split)
        .lower(lower_split)
        .transparent(|_, _| true)
        .lowers_to("Reshape"),
];

/// The axis of the batch between one element and all others: the runtime copies whole rows, and packs neither
/// side.
const BATCH_AXIS: i32 = 1;

fn infer_split(call: &Call) -> Result<Vec<Fact>> {
    with_batch(call, Dim::ONE)
}

fn infer_join(call: &Call) -> Result<Vec<Fact>> {
    with_batch(call, Dim::from(call.int("size")?))
}

/// Returns the shape of input 0 with a batch of another size.
fn with_batch(call: &Call, size: Dim) -> Result<Vec<Fact>> {
    let [_, rest @ ..] = call.shape(0)? else { invalid!("a value without a batch") };
    let shape: Vec<Dim> = std::iter::once(size).chain(rest.iter().cloned()).collect();
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// Returns the shapes of a value with its batch, `[1, N, elements]`, and of an element of it,
/// `[1, elements]`, and the Reshape to the former.
fn rows(shape: &[Dim]) -> Result<([Dim; 3], [Dim; 2], Reshape)> {
    let [batch, rest @ ..] = shape else { invalid!("a value without a batch") };
    let (one, elements) = (Dim::ONE, Dim::product(rest));
    let int = |size: &Dim| match size.known() {
        Some(size) => Ok(i32::try_from(size)?),
        None => Err(Error::unsupported("a batch of values of free sizes")),
    };
    let layer = Reshape { w: int(&elements)?, h: int(batch)?, c: 1, ..Reshape::default() };
    Ok(([one.clone(), batch.clone(), elements.clone()], [one, elements], layer))
}

fn lower_split(lower: &Lower) -> Result<()> {
    let (batch, element, layer) = rows(lower.shape(0)?)?;
    let layer = lower.newer(Reshape { output_batch_axis: BATCH_AXIS, ..layer });
    let element = lower.input(0).reshape(batch).layer(layer, element);
    let shape = lower.output_shape(0)?.get(1..).unwrap_or_default();
    lower.give(0, element.reshape(shape).isolated())
}

fn lower_join(lower: &Lower) -> Result<()> {
    let (batch, element, layer) = rows(lower.output_shape(0)?)?;
    let layer = lower.newer(Reshape { input_batch_axis: BATCH_AXIS, ..layer });
    lower.give(0, lower.input(0).reshape(element).layer(layer, batch))
}
