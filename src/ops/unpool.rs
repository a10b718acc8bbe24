//! MaxUnpool: elements back to the places that a pooling took them from.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__MaxUnpool.html>.

use super::{Call, Fact, Op, required};
use crate::error::{At, Error, Result, invalid, unsupported};
use crate::graph::Attribute;
use crate::pass::expand::Expand;
use crate::tensor::{Array, Dim};

pub(super) const OPS: &[Op] = &[Op::new("MaxUnpool", &[9, 11, 22], infer_unpool)
    .expand(expand_unpool)
    .becomes("Gather of the elements and of a zero")
    .limits("places computed at run time; an output that is larger than what was pooled")];

/// Most elements of an output, for each of which a place is listed.
const MAX_ELEMENTS: i64 = 1 << 22;

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
    let shape = unpooled_shape(call)?;
    if call.has_input(2) && call.dims(2)? != shape {
        // The spec and its runtimes do not agree on what the places count in then.
        unsupported!(
            "an output larger than what was pooled: onnxruntime and the specification count its places differently"
        );
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

fn expand_unpool(x: &mut Expand) -> Result<bool> {
    let places = x.required_constant(1)?.load()?.int_list()?;
    let mut sizes = Vec::new();
    for size in unpooled_shape(x)? {
        sizes.push(size.known().ok_or_else(|| Error::unsupported("an output whose size is not fixed"))?);
    }
    let none = i64::try_from(places.len())?;
    let elements: i64 = sizes.iter().product();
    if elements > MAX_ELEMENTS {
        return Err(Error::limit(format!("{elements} elements, each with a place of its own")));
    }
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
