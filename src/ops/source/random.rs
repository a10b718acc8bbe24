//! Random numbers. Shapes and types are inferred, and consumers that read only them are converted; the
//! numbers themselves are refused.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__RandomNormal.html>, `onnx__Bernoulli.html`,
//! `onnx__Multinomial.html`.

use crate::error::ErrorCode;
use crate::op::Infer;
use crate::ops::prelude::*;
use crate::tensor::Shape;

const NO_RANDOM_NUMBERS: &str = "its output is random, and ncnn has no layer for random numbers";

pub(in crate::ops) const OPS: &[Row] = &[
    random("Bernoulli", infer_like),
    random("Multinomial", infer_multinomial),
    random("RandomNormal", infer_shaped),
    random("RandomNormalLike", infer_like),
    random("RandomUniform", infer_shaped),
    random("RandomUniformLike", infer_like),
];

const fn random(name: &'static str, infer: Infer) -> Row {
    Row::new(name, Access::Any, infer)
        .lower(|_| Err(Error::unsupported(NO_RANDOM_NUMBERS).code_is(ErrorCode::RANDOM)))
        .random()
        .limits(NO_RANDOM_NUMBERS)
}

fn infer_shaped(call: &Call) -> Result<Vec<Fact>> {
    let dtype = call.optional_element_type("dtype")?.unwrap_or(DType::F32);
    let shape = call.ints("shape")?;
    Ok(vec![Fact::new(dtype, shape.into_iter().map(Dim::Known).collect::<Shape>())])
}

fn infer_like(call: &Call) -> Result<Vec<Fact>> {
    let dtype = call.optional_element_type("dtype")?.map_or_else(|| call.dtype(0), Ok)?;
    Ok(vec![call.like(0, dtype)?])
}

fn infer_multinomial(call: &Call) -> Result<Vec<Fact>> {
    let dtype = call.optional_element_type("dtype")?.unwrap_or(DType::I32);
    let samples = call.int("sample_size")?;
    Ok(vec![Fact::new(dtype, vec![call.shape(0)?.at(0)?.clone(), Dim::from(samples)])])
}
