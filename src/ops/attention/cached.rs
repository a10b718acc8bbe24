//! CachedAttention and RotaryEmbed of ncnn's domain, as ncnn's layers compute them.
//!
//! CachedAttention appends keys and values to a cache, and attends to all of them. Its inputs are queries,
//! keys and values, `[1, heads, positions, elements]`; the cached keys and values, in the shapes of the
//! model; the mask, which is added to the scores. The outputs are the result and the grown caches.
//!
//! RotaryEmbed turns pairs of elements at a distance of half the last axis by an angle for each position, the
//! last axis but one. The inputs are the elements, and the cosine and sine for each position and pair.

use super::plain::operands;
use crate::lower::{AssumedFact, interface_form};
use crate::ncnn::layer::{RotaryEmbed, SDPA};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(NCNN_DOMAIN, "CachedAttention", Access::Any, infer_cached).lower(lower_cached).lowers_to("SDPA"),
    Row::of(NCNN_DOMAIN, "RotaryEmbed", Access::Any, infer_same).lower(lower_rotary).lowers_to("RotaryEmbed"),
];

/// The indices of the inputs of CachedAttention.
mod input {
    pub const Q: usize = 0;
    pub const K: usize = 1;
    pub const V: usize = 2;
    pub const PAST_KEY: usize = 3;
    pub const PAST_VALUE: usize = 4;
    pub const MASK: usize = 5;
}

/// The attributes of CachedAttention.
struct Cached {
    /// The factor of the scores.
    scale: f32,
    /// The axes of the caches along which they grow.
    axes: [i64; 2],
    /// Whether the mask may hide all keys of a query by minus infinity.
    hides_all: bool,
}

fn read_cached(call: &Call) -> Result<Cached> {
    Ok(Cached {
        scale: call.float("scale")?,
        axes: [call.int("key_axis")?, call.int("value_axis")?],
        hides_all: call.flag("hides_all")?,
    })
}

fn infer_cached(call: &Call) -> Result<Vec<Fact>> {
    let Cached { axes: [key_axis, value_axis], .. } = read_cached(call)?;
    let (q, v) = (call.shape(input::Q)?, call.shape(input::V)?);
    let ([batch, heads, positions, _], [.., width]) = (q, v) else { invalid!("queries without four axes") };
    let grown = |past: usize, axis: i64| -> Result<Fact> {
        let mut shape = call.shape(past)?.to_vec();
        let axis = resolve_axis(axis, shape.len())?;
        let length = shape.at(axis)? + positions;
        shape.put(axis, length);
        Ok(Fact::new(call.dtype(past)?, shape))
    };
    let y = vec![batch.clone(), heads.clone(), positions.clone(), width.clone()];
    let (keys, values) = (grown(input::PAST_KEY, key_axis)?, grown(input::PAST_VALUE, value_axis)?);
    Ok(vec![Fact::new(call.dtype(input::Q)?, y), keys, values])
}

fn lower_cached(lower: &Lower) -> Result<()> {
    let Cached { scale, hides_all, .. } = read_cached(lower)?;
    let mut bottoms = operands(lower, [input::Q, input::K, input::V], input::MASK);
    let attn_mask = i32::from(lower.has_input(input::MASK));
    if attn_mask == 1 && hides_all {
        lower.assume(input::MASK, AssumedFact::SeesKey);
    }
    // The caches of the runtime have the form of an interface.
    for index in [input::PAST_KEY, input::PAST_VALUE] {
        let past = lower.input(index);
        bottoms.push(past.reshape(interface_form(&past.shape())));
    }
    let y = lower.output_shape(0)?.get(1..).unwrap_or_default().into();
    let cache = |index: usize| Ok::<_, Error>(interface_form(lower.output_shape(index)?).into());
    let shapes: [Shape; 3] = [y, cache(1)?, cache(2)?];
    let tops = lower.layer_n(SDPA { attn_mask, scale, kv_cache: 1 }, &bottoms, &shapes);
    tops.into_iter().enumerate().try_for_each(|(index, top)| lower.give(index, top))
}

fn lower_rotary(lower: &Lower) -> Result<()> {
    let shape = lower.shape(0)?.to_vec();
    let [outer @ .., positions, elements] = shape.as_slice() else { invalid!("an input without positions") };
    let pairs = elements.known().map(|elements| Dim::Known(elements / 2));
    let pairs = pairs.ok_or_else(|| Error::unsupported("elements of free number"))?;
    let form = [Dim::product(outer), positions.clone(), elements.clone()];
    let angles = [positions.clone(), pairs];
    let [cos, sin] = [1, 2].map(|index| lower.input(index).reshape(angles.clone()));
    let x = lower.input(0).reshape(form.clone());
    lower.give(0, lower.layer(RotaryEmbed::default(), &[x, cos, sin], form))
}
