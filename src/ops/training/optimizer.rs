//! Optimizers: one step, as plain arithmetic.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html>,
//! `onnx_aionnxpreviewtraining_Momentum.html`.

use crate::error::{Error, Result, invalid};
use crate::op::{Access, Call, Fact};
use crate::ops::Row;
use crate::pass::builder::{Expr, Term};
use crate::pass::expand::Expand;
use crate::tensor::DType;

const DOMAIN: &str = "ai.onnx.preview.training";

pub(in crate::ops) const OPS: &[Row] = &[
    Row::of(DOMAIN, "Adagrad", Access::Any, infer_adagrad)
        .expand(expand_adagrad)
        .lowers_to("Mul, Add, Sub, Div, Sqrt"),
    Row::of(DOMAIN, "Adam", Access::Any, infer_adam)
        .expand(expand_adam)
        .lowers_to("Mul, Add, Sub, Div, Sqrt; Exp for powers of the step count"),
    Row::of(DOMAIN, "Momentum", Access::Any, infer_momentum)
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
        decay_factor: call.float("decay_factor")?,
        epsilon: call.float("epsilon")?,
        norm_coefficient: call.float("norm_coefficient")?,
    })
}

fn read_adam(call: &Call) -> Result<Adam> {
    Ok(Adam {
        alpha: call.float("alpha")?,
        beta: call.float("beta")?,
        epsilon: call.float("epsilon")?,
        norm_coefficient: call.float("norm_coefficient")?,
        norm_coefficient_post: call.float("norm_coefficient_post")?,
    })
}

fn read_momentum(call: &Call) -> Result<Momentum> {
    let nesterov = match call.string("mode")? {
        "standard" => false,
        "nesterov" => true,
        other => return Err(Error::invalid(format!("\"{other}\"")).at_part("attribute mode")),
    };
    Ok(Momentum {
        alpha: call.float("alpha")?,
        beta: call.float("beta")?,
        norm_coefficient: call.float("norm_coefficient")?,
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
    infer_step(call, 3)
}

fn infer_adam(call: &Call) -> Result<Vec<Fact>> {
    infer_step(call, 4)
}

fn infer_momentum(call: &Call) -> Result<Vec<Fact>> {
    infer_step(call, 3)
}

/// Returns inputs 0 and 1, rate and step count, as scalars, so that they broadcast.
fn rate_and_steps<'x>(x: &'x Expand) -> [Expr<'x>; 2] {
    [0, 1].map(|index| x.operand_as(index, DType::F32).reshape(&[]))
}

/// Returns the gradient plus that of the tensor's norm.
fn regularised<'x>(tensor: Expr<'x>, gradient: Expr<'x>, norm: f32) -> Expr<'x> {
    if norm == 0.0 { gradient } else { tensor * norm + gradient }
}

/// Returns `chosen` from the second step on, `first` before.
fn after_first<'x>(steps: Expr<'x>, chosen: impl Term<'x>, first: impl Term<'x>) -> Expr<'x> {
    steps.greater(0.0).select(chosen, first)
}

fn expand_adagrad(x: &Expand) -> Result<bool> {
    let Adagrad { decay_factor, epsilon, norm_coefficient } = read_adagrad(x)?;
    let count = tensor_count(x, 3)?;
    let [rate, steps] = rate_and_steps(x);
    let rate = rate / (steps * decay_factor + 1.0);
    for index in 0..count {
        let [tensor, gradient, squares] = [0, 1, 2].map(|list| x.operand(2 + list * count + index));
        let gradient = regularised(tensor, gradient, norm_coefficient);
        let squares = squares + gradient * gradient;
        x.output(index, tensor - gradient * rate / (squares.sqrt() + epsilon));
        x.output(count + index, squares);
    }
    Ok(true)
}

/// Returns the rate of Adam: from the second step on it corrects the bias of averages that began with zero.
fn adam_rate<'x>(x: &'x Expand, adam: &Adam) -> Result<Expr<'x>> {
    let [rate, steps] = rate_and_steps(x);
    if adam.alpha <= 0.0 || adam.beta <= 0.0 {
        return Err(Error::unsupported("a coefficient of an average is not positive"));
    }
    // base ^ steps
    let bias = |base: f32| 1.0 - (steps * libm::logf(base)).exp();
    let root = bias(adam.beta).sqrt();
    // Zero before the second step: the quotient is not selected then, but must not be NaN.
    let mean = after_first(steps, bias(adam.alpha), 1.0);
    Ok(after_first(steps, rate * (root / mean), rate))
}

/// Returns `keep * old + (1 - keep) * new`.
fn average<'x>(old: Expr<'x>, new: Expr<'x>, keep: f32) -> Expr<'x> {
    old * keep + new * (1.0 - keep)
}

fn expand_adam(x: &Expand) -> Result<bool> {
    let adam = read_adam(x)?;
    let count = tensor_count(x, 4)?;
    let rate = adam_rate(x, &adam)?;
    for index in 0..count {
        let [tensor, gradient, mean, squares] = [0, 1, 2, 3].map(|list| x.operand(2 + list * count + index));
        let gradient = regularised(tensor, gradient, adam.norm_coefficient);
        let square = gradient * gradient;
        let mean = average(mean, gradient, adam.alpha);
        let squares = average(squares, square, adam.beta);
        let mut result = tensor - mean / (squares.sqrt() + adam.epsilon) * rate;
        if adam.norm_coefficient_post != 0.0 {
            result = result * (1.0 - adam.norm_coefficient_post);
        }
        for (list, part) in [result, mean, squares].into_iter().enumerate() {
            x.output(list * count + index, part);
        }
    }
    Ok(true)
}

fn expand_momentum(x: &Expand) -> Result<bool> {
    let Momentum { alpha, beta, norm_coefficient, nesterov } = read_momentum(x)?;
    let count = tensor_count(x, 3)?;
    let [rate, steps] = rate_and_steps(x);
    let beta = steps.greater(0.0).select(x.make.number(beta, DType::F32), 1.0);
    for index in 0..count {
        let [tensor, gradient, velocity] = [0, 1, 2].map(|list| x.operand(2 + list * count + index));
        let gradient = regularised(tensor, gradient, norm_coefficient);
        let velocity = velocity * alpha + gradient * beta;
        let step = if nesterov { gradient + velocity * alpha } else { velocity };
        x.output(index, tensor - step * rate);
        x.output(count + index, velocity);
    }
    Ok(true)
}
