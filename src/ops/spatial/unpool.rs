//! MaxUnpool: elements back to the places that a pooling took them from.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__MaxUnpool.html>.

use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::op::{Call, Fact, required};
use crate::ops::Row;
use crate::pass::expand::Expand;
use crate::tensor::{Array, Dim};

pub(in crate::ops) const OPS: &[Row] = &[Row::new("MaxUnpool", &[9, 11, 22], infer_unpool)
    .expand(expand_unpool)
    .lowers_to("Gather of the elements and of a zero; ScatterElements for places computed at run time")
    .limits("many elements at places computed at run time; an output larger than what was pooled, where onnxruntime and the specification count places differently")];

/// Most elements of an output, for each of which a place is listed.
const MAX_ELEMENTS: i64 = 1 << 22;

const DISAGREEMENT: &str =
    "an output larger than what was pooled: onnxruntime and the specification count its places differently";

fn unpooled_shape(call: &Call) -> Result<Vec<Dim>> {
    let mut shape = call.shape(0)?.to_vec();
    let kernel = required(call.ints("kernel_shape")?, "kernel_shape")?;
    let rank = kernel.len();
    let strides = call.ints("strides")?.unwrap_or_else(|| vec![1; rank]);
    let pads = call.ints("pads")?.unwrap_or_else(|| vec![0; 2 * rank]);
    if shape.len() != rank + 2 || strides.len() != rank || pads.len() != 2 * rank {
        invalid!("a kernel of {rank} axes for an input of {}", shape.len());
    }
    for axis in 0..rank {
        let taken = kernel.at(axis)?.saturating_sub(*pads.at(axis)?).saturating_sub(*pads.at(axis + rank)?);
        if let Some(size) = shape.get_mut(axis + 2) {
            let steps = size.sub(&Dim::Known(1))?.mul(&Dim::Known(*strides.at(axis)?))?;
            *size = steps.add(&Dim::Known(taken))?;
        }
    }
    Ok(shape)
}

fn infer_unpool(call: &Call) -> Result<Vec<Fact>> {
    let natural = unpooled_shape(call)?;
    let shape = if call.has_input(2) {
        let given = call.dims(2);
        given.or_else(|error| call.stated_instead_of(2).map(<[Dim]>::to_vec).ok_or(error))?
    } else {
        natural.clone()
    };
    if shape.len() != natural.len() {
        invalid!("output_shape has {} sizes where {} are needed", shape.len(), natural.len());
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

/// The place in an output of `sizes` of what has this place in one of `natural` sizes: both begin at the same corner.
fn moved(place: i64, natural: &[i64], sizes: &[i64]) -> i64 {
    let (mut rest, mut moved, mut step) = (place, 0_i64, 1_i64);
    for (from, to) in natural.iter().zip(sizes).rev() {
        let from = (*from).max(1);
        moved = moved.saturating_add((rest % from).saturating_mul(step));
        rest /= from;
        step = step.saturating_mul(*to);
    }
    moved
}

fn fixed(shape: &[Dim]) -> Result<Vec<i64>> {
    let sizes: Option<Vec<i64>> = shape.iter().map(Dim::known).collect();
    sizes.ok_or_else(|| Error::unsupported("an output whose size is not fixed"))
}

fn expand_unpool(x: &mut Expand) -> Result<bool> {
    let (natural, sizes) = (fixed(&unpooled_shape(x)?)?, fixed(x.output_shape(0)?)?);
    if natural.iter().zip(&sizes).any(|(natural, size)| size < natural) {
        unsupported!("an output of {sizes:?}, smaller than what was pooled");
    }
    let elements: i64 = sizes.iter().product();
    if elements > MAX_ELEMENTS {
        return Err(Error::limit(format!("{elements} elements, each with a place of its own")));
    }
    let Some(places) = x.constant(1) else { return scatter(x, &natural, &sizes) };
    let places = places.load_listed()?.int_list()?;
    // The spec counts in what was pooled, onnxruntime in the output.
    if places.iter().any(|place| moved(*place, &natural, &sizes) != *place) {
        unsupported!("{DISAGREEMENT}");
    }
    let none = i64::try_from(places.len())?;
    let mut sources = vec![none; usize::try_from(elements)?];
    for (source, place) in places.iter().enumerate() {
        let count = sources.len();
        match usize::try_from(*place).ok().and_then(|place| sources.get_mut(place)) {
            Some(slot) => *slot = i64::try_from(source)?,
            None => invalid!("place {place} of {count}"),
        }
    }
    let (operand, along) = (x.operand(0)?, [("axis", Attribute::Int(0))]);
    let elements = x.reshape(operand, &[-1])?;
    let zero = Array::i64(ndarray::ArrayD::zeros(vec![1])).cast(x.dtype(0)?)?;
    let zero = x.literal(&zero)?;
    let elements = x.op("Concat", &[elements, zero], &along)?;
    let sources = x.ints(&sources)?;
    let spread = x.op("Gather", &[elements, sources], &along)?;
    let result = x.reshape(spread, &sizes)?;
    x.output(0, result)?;
    Ok(true)
}

/// Places that are computed at run time.
fn scatter(x: &mut Expand, natural: &[i64], sizes: &[i64]) -> Result<bool> {
    // Where the last axes are those of what was pooled, a place is the same in both.
    if natural.iter().zip(sizes).skip_while(|(natural, _)| **natural == 1).skip(1).any(|(n, size)| n != size)
    {
        unsupported!("{DISAGREEMENT}");
    }
    let elements: i64 = sizes.iter().product();
    let zeros = ndarray::ArrayD::zeros(vec![usize::try_from(elements)?]);
    let zeros = x.literal(&Array::i64(zeros).cast(x.dtype(0)?)?)?;
    let (data, places) = (x.operand(0)?, x.operand(1)?);
    let (data, places) = (x.reshape(data, &[-1])?, x.reshape(places, &[-1])?);
    let spread = x.op("ScatterElements", &[zeros, places, data], &[("axis", Attribute::Int(0))])?;
    let result = x.reshape(spread, sizes)?;
    x.output(0, result)?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_move_where_inner_axes_grow() {
        for (place, sizes, expected) in
            [(5, [1, 1, 4, 4], 5), (5, [1, 1, 6, 4], 5), (5, [1, 1, 4, 5], 6), (3, [2, 1, 5, 5], 3)]
        {
            assert_eq!(moved(place, &[1, 1, 4, 4], &sizes), expected, "{place} in {sizes:?}");
        }
    }
}
