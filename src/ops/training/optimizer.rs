//! Optimizers: one step, as plain arithmetic.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html>,
//! `onnx_aionnxpreviewtraining_Momentum.html`.

use ndarray::{ArrayD, IxDyn};

use crate::error::{Error, Result, invalid};
use crate::op::{Access, Call, Fact, required};
use crate::ops::Row;
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

const DOMAIN: &str = "ai.onnx.preview.training";

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Adagrad", &[1], Access::Any, infer_adagrad)
        .domain(DOMAIN)
        .expand(expand_adagrad)
        .lowers_to("Mul, Add, Sub, Div, Sqrt"),
    Row::new("Adam", &[1], Access::Any, infer_adam)
        .domain(DOMAIN)
        .expand(expand_adam)
        .lowers_to("Mul, Add, Sub, Div, Sqrt; Exp for powers of the step count"),
    Row::new("Momentum", &[1], Access::Any, infer_momentum)
        .domain(DOMAIN)
        .expand(expand_momentum)
        .lowers_to("Mul, Add, Sub"),
];

struct Adagrad {
    decay_factor: f32,
    epsilon: f32,
    norm_coefficient: f32,
}

struct Adam {
    alpha: f32,
    beta: f32,
    epsilon: f32,
    norm_coefficient: f32,
    norm_coefficient_post: f32,
}

struct Momentum {
    alpha: f32,
    beta: f32,
    norm_coefficient: f32,
    nesterov: bool,
}

fn read_adagrad(call: &Call) -> Result<Adagrad> {
    Ok(Adagrad {
        decay_factor: call.float_or("decay_factor", 0.0)?,
        epsilon: call.float_or("epsilon", 1e-6)?,
        norm_coefficient: call.float_or("norm_coefficient", 0.0)?,
    })
}

fn read_adam(call: &Call) -> Result<Adam> {
    Ok(Adam {
        alpha: call.float_or("alpha", 0.9)?,
        beta: call.float_or("beta", 0.999)?,
        epsilon: call.float_or("epsilon", 1e-6)?,
        norm_coefficient: call.float_or("norm_coefficient", 0.0)?,
        norm_coefficient_post: call.float_or("norm_coefficient_post", 0.0)?,
    })
}

fn read_momentum(call: &Call) -> Result<Momentum> {
    let nesterov = match required(call.string("mode")?, "mode")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(Error::invalid(format!("\"{other}\"")).at_part("attribute mode")),
    };
    Ok(Momentum {
        alpha: required(call.float("alpha")?, "alpha")?,
        beta: required(call.float("beta")?, "beta")?,
        norm_coefficient: required(call.float("norm_coefficient")?, "norm_coefficient")?,
        nesterov,
    })
}

/// Returns the number of optimized tensors: after rate and step count each has `lists` inputs, list after
/// list.
fn tensor_count(call: &Call, lists: usize) -> Result<usize> {
    let given = call.input_count().saturating_sub(2);
    if given == 0 || !given.is_multiple_of(lists) {
        invalid!("found {} inputs, expected 2 and {lists} for each tensor", call.input_count());
    }
    Ok(given / lists)
}

/// The outputs are the tensors and their states: all inputs but the gradients, which are the second list.
fn infer_step(call: &Call, lists: usize) -> Result<Vec<Fact>> {
    let count = tensor_count(call, lists)?;
    let inputs = (2..call.input_count()).filter(|index| (index - 2) / count != 1);
    inputs.map(|index| call.like(index, call.dtype(index)?)).collect()
}

fn infer_adagrad(call: &Call) -> Result<Vec<Fact>> {
    read_adagrad(call)?;
    infer_step(call, 3)
}

fn infer_adam(call: &Call) -> Result<Vec<Fact>> {
    read_adam(call)?;
    infer_step(call, 4)
}

fn infer_momentum(call: &Call) -> Result<Vec<Fact>> {
    read_momentum(call)?;
    infer_step(call, 3)
}

fn scalar(x: &mut Expand, value: f32) -> Result<Operand> {
    x.literal(&Array::f32(ArrayD::from_elem(IxDyn(&[]), value)))
}

/// Emits `factor * operand`.
fn scaled(x: &mut Expand, operand: Operand, factor: f32) -> Result<Operand> {
    let factor = scalar(x, factor)?;
    x.op("Mul", &[operand, factor], &[])
}

/// Emits inputs 0 and 1, rate and step count, as scalars, so that they broadcast.
fn rate_and_steps(x: &mut Expand) -> Result<[Operand; 2]> {
    let (rate, steps) = (x.operand_as(0, DType::F32)?, x.operand_as(1, DType::F32)?);
    Ok([x.reshape(rate, &[])?, x.reshape(steps, &[])?])
}

/// Emits the gradient plus that of the tensor's norm.
fn regularised(x: &mut Expand, tensor: Operand, gradient: Operand, norm: f32) -> Result<Operand> {
    if norm == 0.0 {
        return Ok(gradient);
    }
    let decay = scaled(x, tensor, norm)?;
    x.op("Add", &[decay, gradient], &[])
}

/// Emits `chosen` from the second step on, `first` before.
fn after_first(x: &mut Expand, steps: Operand, chosen: Operand, first: Operand) -> Result<Operand> {
    let zero = scalar(x, 0.0)?;
    let later = x.op("Greater", &[steps, zero], &[])?;
    x.op("Where", &[later, chosen, first], &[])
}

/// Emits `operand / (Sqrt(squares) + epsilon)`.
fn over_root(x: &mut Expand, operand: Operand, squares: Operand, epsilon: f32) -> Result<Operand> {
    let root = x.op("Sqrt", &[squares], &[])?;
    let epsilon = scalar(x, epsilon)?;
    let root = x.op("Add", &[root, epsilon], &[])?;
    x.op("Div", &[operand, root], &[])
}

fn expand_adagrad(x: &mut Expand) -> Result<bool> {
    let Adagrad { decay_factor, epsilon, norm_coefficient } = read_adagrad(x)?;
    let count = tensor_count(x, 3)?;
    let [rate, steps] = rate_and_steps(x)?;
    let one = scalar(x, 1.0)?;
    let decay = scaled(x, steps, decay_factor)?;
    let decay = x.op("Add", &[decay, one], &[])?;
    let rate = x.op("Div", &[rate, decay], &[])?;
    for index in 0..count {
        let [tensor, gradient, squares] = [0, 1, 2].map(|list| x.operand(2 + list * count + index));
        let (tensor, squares) = (tensor?, squares?);
        let gradient = regularised(x, tensor, gradient?, norm_coefficient)?;
        let square = x.op("Mul", &[gradient, gradient], &[])?;
        let squares = x.op("Add", &[squares, square], &[])?;
        let step = x.op("Mul", &[gradient, rate], &[])?;
        let step = over_root(x, step, squares, epsilon)?;
        let tensor = x.op("Sub", &[tensor, step], &[])?;
        x.output(index, tensor)?;
        x.output(count + index, squares)?;
    }
    Ok(true)
}

/// Emits `1 - base ^ steps`.
fn bias(x: &mut Expand, base: f32, steps: Operand) -> Result<Operand> {
    let one = scalar(x, 1.0)?;
    let exponent = scaled(x, steps, base.ln())?;
    let power = x.op("Exp", &[exponent], &[])?;
    x.op("Sub", &[one, power], &[])
}

/// Emits the rate of Adam: from the second step on it corrects the bias of averages that began with zero.
fn adam_rate(x: &mut Expand, adam: &Adam) -> Result<Operand> {
    let [rate, steps] = rate_and_steps(x)?;
    if adam.alpha <= 0.0 || adam.beta <= 0.0 {
        return Err(Error::unsupported("a coefficient of an average is not positive"));
    }
    let squares = bias(x, adam.beta, steps)?;
    let root = x.op("Sqrt", &[squares], &[])?;
    let mean = bias(x, adam.alpha, steps)?;
    // Zero before the second step: the quotient is not selected then, but must not be NaN.
    let one = scalar(x, 1.0)?;
    let mean = after_first(x, steps, mean, one)?;
    let factor = x.op("Div", &[root, mean], &[])?;
    let corrected = x.op("Mul", &[rate, factor], &[])?;
    after_first(x, steps, corrected, rate)
}

/// Emits `keep * old + (1 - keep) * new`.
fn average(x: &mut Expand, old: Operand, new: Operand, keep: f32) -> Result<Operand> {
    let (old, new) = (scaled(x, old, keep)?, scaled(x, new, 1.0 - keep)?);
    x.op("Add", &[old, new], &[])
}

fn expand_adam(x: &mut Expand) -> Result<bool> {
    let adam = read_adam(x)?;
    let count = tensor_count(x, 4)?;
    let rate = adam_rate(x, &adam)?;
    for index in 0..count {
        let [tensor, gradient, mean, squares] = [0, 1, 2, 3].map(|list| x.operand(2 + list * count + index));
        let tensor = tensor?;
        let gradient = regularised(x, tensor, gradient?, adam.norm_coefficient)?;
        let square = x.op("Mul", &[gradient, gradient], &[])?;
        let mean = average(x, mean?, gradient, adam.alpha)?;
        let squares = average(x, squares?, square, adam.beta)?;
        let step = over_root(x, mean, squares, adam.epsilon)?;
        let step = x.op("Mul", &[step, rate], &[])?;
        let mut result = x.op("Sub", &[tensor, step], &[])?;
        if adam.norm_coefficient_post != 0.0 {
            result = scaled(x, result, 1.0 - adam.norm_coefficient_post)?;
        }
        for (list, operand) in [result, mean, squares].into_iter().enumerate() {
            x.output(list * count + index, operand)?;
        }
    }
    Ok(true)
}

fn expand_momentum(x: &mut Expand) -> Result<bool> {
    let Momentum { alpha, beta, norm_coefficient, nesterov } = read_momentum(x)?;
    let count = tensor_count(x, 3)?;
    let [rate, steps] = rate_and_steps(x)?;
    let (later, first) = (scalar(x, beta)?, scalar(x, 1.0)?);
    let beta = after_first(x, steps, later, first)?;
    for index in 0..count {
        let [tensor, gradient, velocity] = [0, 1, 2].map(|list| x.operand(2 + list * count + index));
        let tensor = tensor?;
        let gradient = regularised(x, tensor, gradient?, norm_coefficient)?;
        let kept = scaled(x, velocity?, alpha)?;
        let added = x.op("Mul", &[gradient, beta], &[])?;
        let velocity = x.op("Add", &[kept, added], &[])?;
        let mut step = velocity;
        if nesterov {
            let ahead = scaled(x, velocity, alpha)?;
            step = x.op("Add", &[gradient, ahead], &[])?;
        }
        let step = x.op("Mul", &[step, rate], &[])?;
        let tensor = x.op("Sub", &[tensor, step], &[])?;
        x.output(index, tensor)?;
        x.output(count + index, velocity)?;
    }
    Ok(true)
}
