//! Optimizers: one step, as plain arithmetic.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxpreviewtraining_Adam.html>,
//! `onnx_aionnxpreviewtraining_Momentum.html`.

use crate::ops::prelude::*;
use crate::pass::builder::Term;

const DOMAIN: &str = "ai.onnx.preview.training";

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(DOMAIN, "Adagrad", expand_adagrad).lowers_to("Mul, Add, Sub, Div, Sqrt"),
    Row::expanded(DOMAIN, "Adam", expand_adam)
        .lowers_to("Mul, Add, Sub, Div, Sqrt; Exp for powers of the step count"),
    Row::expanded(DOMAIN, "Momentum", expand_momentum).lowers_to("Mul, Add, Sub"),
];

/// Returns the number of optimized tensors: after rate and step count each has `lists` inputs, list after
/// list.
fn tensor_count(call: &Call, lists: usize) -> Result<usize> {
    let inputs = call.input_count().saturating_sub(2);
    if inputs == 0 || !inputs.is_multiple_of(lists) {
        invalid!("found {} inputs, expected 2 and {lists} for each tensor", call.input_count());
    }
    Ok(inputs / lists)
}

/// Returns inputs 0 and 1, rate and step count, as scalars, so that they broadcast.
fn rate_and_steps<'x>(x: &'x Expand) -> [Expr<'x>; 2] {
    [0, 1].map(|index| x.operand_as(index, DType::F32).scalar())
}

/// Returns the sum of the gradient and the gradient of the tensor's norm.
fn regularised<'x>(tensor: Expr<'x>, gradient: Expr<'x>, norm: f32) -> Expr<'x> {
    if norm == 0.0 { gradient } else { tensor * norm + gradient }
}

/// Returns `chosen` from the second step on, `first` before.
fn after_first<'x>(steps: Expr<'x>, chosen: impl Term<'x>, first: impl Term<'x>) -> Expr<'x> {
    steps.greater(0.0).select(chosen, first)
}

/// Makes tensors and states the outputs, list after list, as `step` computes them from the inputs of each
/// tensor.
fn each_tensor<'x, const INPUTS: usize, const OUTPUTS: usize>(
    x: &'x Expand,
    step: impl Fn([Expr<'x>; INPUTS]) -> [Expr<'x>; OUTPUTS],
) -> Result<bool> {
    let count = tensor_count(x, INPUTS)?;
    for index in 0..count {
        let inputs = std::array::from_fn(|list| x.operand(2 + list * count + index));
        for (list, part) in step(inputs).into_iter().enumerate() {
            // All inputs but the gradient, the second, are replaced.
            let replaced = if list == 0 { 0 } else { list + 1 };
            x.make.require_broadcast(part, *inputs.at(replaced)?);
            x.output(list * count + index, part);
        }
    }
    Ok(true)
}

/// ```text
/// gradient = gradient + norm * tensor
/// squares  = squares + gradient ^ 2
/// tensor   = tensor - rate / (1 + decay * steps) * gradient / (sqrt(squares) + epsilon)
/// ```
fn expand_adagrad(x: &Expand) -> Result<bool> {
    let (decay, norm) = (x.float("decay_factor")?, x.float("norm_coefficient")?);
    let epsilon = x.float("epsilon")?;
    let [rate, steps] = rate_and_steps(x);
    let rate = rate / (steps * decay + 1.0);
    each_tensor(x, |[tensor, gradient, squares]| {
        let gradient = regularised(tensor, gradient, norm);
        let squares = squares + gradient * gradient;
        [tensor - gradient * rate / (squares.sqrt() + epsilon), squares]
    })
}

/// Returns the rate of Adam: from the second step on it corrects the bias of averages that began with zero.
fn adam_rate<'x>(x: &'x Expand, alpha: f32, beta: f32) -> Result<Expr<'x>> {
    let [rate, steps] = rate_and_steps(x);
    if alpha <= 0.0 || beta <= 0.0 {
        return Err(Error::unsupported("a coefficient of an average is not positive"));
    }
    // base ^ steps
    let bias = |base: f32| 1.0 - (steps * libm::logf(base)).exp();
    let root = bias(beta).sqrt();
    // Zero before the second step: the quotient is not selected then, but must not be NaN.
    let mean = after_first(steps, bias(alpha), 1.0);
    Ok(after_first(steps, rate * (root / mean), rate))
}

/// Returns `keep * old + (1 - keep) * new`.
fn average<'x>(old: Expr<'x>, new: Expr<'x>, keep: f32) -> Expr<'x> {
    old * keep + new * (1.0 - keep)
}

/// ```text
/// gradient = gradient + norm * tensor
/// mean     = alpha * mean + (1 - alpha) * gradient
/// squares  = beta * squares + (1 - beta) * gradient ^ 2
/// tensor   = (tensor - rate * mean / (sqrt(squares) + epsilon)) * (1 - norm_post)
/// ```
fn expand_adam(x: &Expand) -> Result<bool> {
    let (alpha, beta, epsilon) = (x.float("alpha")?, x.float("beta")?, x.float("epsilon")?);
    let (norm, norm_post) = (x.float("norm_coefficient")?, x.float("norm_coefficient_post")?);
    let rate = adam_rate(x, alpha, beta)?;
    each_tensor(x, |[tensor, gradient, mean, squares]| {
        let gradient = regularised(tensor, gradient, norm);
        let square = gradient * gradient;
        let mean = average(mean, gradient, alpha);
        let squares = average(squares, square, beta);
        let result = tensor - mean / (squares.sqrt() + epsilon) * rate;
        [if norm_post == 0.0 { result } else { result * (1.0 - norm_post) }, mean, squares]
    })
}

/// ```text
/// gradient = gradient + norm * tensor
/// velocity = alpha * velocity + beta * gradient, with a beta of 1 in the first step
/// tensor   = tensor - rate * velocity, or tensor - rate * (gradient + alpha * velocity)
/// ```
fn expand_momentum(x: &Expand) -> Result<bool> {
    let (alpha, beta, norm) = (x.float("alpha")?, x.float("beta")?, x.float("norm_coefficient")?);
    let is_nesterov = x.word("mode", &[("standard", false), ("nesterov", true)])?;
    let [rate, steps] = rate_and_steps(x);
    let beta = after_first(steps, x.make.number(beta, DType::F32), 1.0);
    each_tensor(x, |[tensor, gradient, velocity]| {
        let gradient = regularised(tensor, gradient, norm);
        let velocity = velocity * alpha + gradient * beta;
        let step = if is_nesterov { gradient + velocity * alpha } else { velocity };
        [tensor - step * rate, velocity]
    })
}
