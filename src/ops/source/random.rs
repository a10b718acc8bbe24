//! Random numbers. Shapes and types are inferred, and consumers that depend only on those are converted; the
//! numbers themselves are refused.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__RandomNormal.html>, `onnx__Bernoulli.html`,
//! `onnx__Multinomial.html`.

use crate::error::{At, Error, ErrorCode, Result};
use crate::lower::Lower;
use crate::op::{Access, Call, Fact, required};
use crate::ops::Row;
use crate::tensor::{DType, Dim, Shape};

const NO_RANDOM_NUMBERS: &str = "its output is random, and ncnn has no layer for random numbers";

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Bernoulli", &[15, 22], Access::Any, infer_like)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
    Row::new("Multinomial", &[7, 22], Access::Any, infer_multinomial)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
    Row::new("RandomNormal", &[1, 22], Access::Any, infer_shaped)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
    Row::new("RandomNormalLike", &[1, 22], Access::Any, infer_like)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
    Row::new("RandomUniform", &[1, 22], Access::Any, infer_shaped)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
    Row::new("RandomUniformLike", &[1, 22], Access::Any, infer_like)
        .lower(refuse_random)
        .random()
        .limits(NO_RANDOM_NUMBERS),
];

/// Checks the attributes of a distribution and returns its element type.
fn read_distribution(call: &Call) -> Result<Option<DType>> {
    for name in ["high", "low", "mean", "scale", "seed"] {
        call.float(name)?;
    }
    let Some(code) = call.int("dtype")? else { return Ok(None) };
    let dtype = i32::try_from(code).ok().and_then(DType::from_onnx);
    let unknown = || Error::invalid(format!("unknown element type {code}")).at_part("attribute dtype");
    dtype.map(Some).ok_or_else(unknown)
}

fn infer_shaped(call: &Call) -> Result<Vec<Fact>> {
    let dtype = read_distribution(call)?.unwrap_or(DType::F32);
    let shape = required(call.ints("shape")?, "shape")?;
    Ok(vec![Fact::new(dtype, shape.into_iter().map(Dim::Known).collect::<Shape>())])
}

fn infer_like(call: &Call) -> Result<Vec<Fact>> {
    let dtype = match read_distribution(call)? {
        Some(dtype) => dtype,
        None => call.dtype(0)?,
    };
    Ok(vec![call.like(0, dtype)?])
}

fn infer_multinomial(call: &Call) -> Result<Vec<Fact>> {
    let dtype = read_distribution(call)?.unwrap_or(DType::I32);
    let samples = call.int_or("sample_size", 1)?;
    Ok(vec![Fact::new(dtype, vec![call.shape(0)?.at(0)?.clone(), Dim::Known(samples)])])
}

fn refuse_random(_: &mut Lower) -> Result<()> {
    Err(Error::unsupported(NO_RANDOM_NUMBERS)
        .code_is(ErrorCode::RANDOM)
        .help("make it an input of the net with --random-as-input"))
}
