//! Affine steps: changes of each channel by constants, and their composition.

use crate::graph::{Graph, NodeId, ValueId};
use crate::op::Call;
use crate::tensor::{DType, Tensor};

use super::super::only_output;
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::MODERATE;

/// The channels of a value, its axis 1.
#[derive(Clone, Copy, Debug)]
pub(super) struct Channels {
    pub count: usize,
    /// The number of axes.
    pub rank: usize,
    pub dtype: DType,
}

/// A scale or shift of each channel.
#[derive(Clone, Copy, Debug)]
pub(super) enum Step {
    Scale { by: ValueId, divides: bool },
    Shift { by: ValueId, negated: bool },
    Normalize { scale: ValueId, bias: ValueId, mean: ValueId, variance: ValueId, epsilon: f32 },
}

impl Step {
    /// The scale and the shift of this step composed with earlier ones; each has one element, or one for each
    /// channel.
    pub fn after<'b>(
        self,
        made: &'b Builder<'b>,
        dtype: DType,
        scale: Option<Expr<'b>>,
        shift: Option<Expr<'b>>,
    ) -> (Option<Expr<'b>>, Option<Expr<'b>>) {
        match self {
            Step::Scale { by, divides } => {
                let by = made.value(by).reshape(&[-1]);
                let op = if divides { "Div" } else { "Mul" };
                let one = made.number(1.0, dtype);
                {
                    let scaled = |value| made.op(op, [value, by], []);
                    (Some(scaled(scale.unwrap_or(one))), shift.map(scaled))
                }
            }
            Step::Shift { by, negated } => {
                let by = made.value(by).reshape(&[-1]);
                let shift = match (shift, negated) {
                    (Some(shift), false) => shift + by,
                    (Some(shift), true) => shift - by,
                    (None, false) => by,
                    (None, true) => -by,
                };
                (scale, Some(shift))
            }
            Step::Normalize { scale: gamma, bias, mean, variance, epsilon } => {
                let [gamma, bias, mean, variance] = [gamma, bias, mean, variance].map(|id| made.value(id));
                let epsilon = made.number(epsilon, dtype);
                let by = gamma / (variance + epsilon).sqrt();
                let centered = shift.map_or_else(|| -mean, |shift| shift - mean);
                (Some(scale.map_or(by, |scale| scale * by)), Some(centered * by + bias))
            }
        }
    }
}

/// Reads `reader` as a step on `value`; returns the node, the step and its output.
pub(super) fn read_step(
    graph: &Graph,
    reader: NodeId,
    value: ValueId,
    channels: Channels,
    kinds: &[&str],
) -> Option<(NodeId, Step, ValueId)> {
    let node = graph.node(reader).filter(|node| node.is_one_of(kinds))?;
    let output = only_output(node)?;
    let (first, second) = (node.input(0)?, node.input(1)?);
    let finite = |by: ValueId| all_elements(graph, by, f64::is_finite);
    let step = if node.is("BatchNormalization") {
        let (op, call) = Call::of(graph, node)?;
        // In training, the statistics are those of the batch.
        let epsilon = op.batched.filter(|rule| rule(&call, 0)).and_then(|_| call.float("epsilon").ok())?;
        let list: Option<Vec<ValueId>> = (1..5).map(|index| node.input(index)).collect();
        let [scale, bias, mean, variance] = *list?.as_slice() else { return None };
        let fits = |by: ValueId| {
            let value = graph.value(by);
            let sizes = value.constant.as_ref().map(Tensor::shape);
            sizes == Some(&[channels.count]) && value.dtype == Some(channels.dtype) && finite(by)
        };
        let positive = all_elements(graph, variance, |variance| variance + f64::from(epsilon) > 0.0);
        if first != value || ![scale, bias, mean, variance].into_iter().all(fits) || !positive {
            return None;
        }
        Step::Normalize { scale, bias, mean, variance, epsilon }
    } else {
        let (by, commuted) = if first == value { (second, false) } else { (first, true) };
        let one_per_channel = node.version >= 7 && is_one_per_channel(graph, by, channels);
        // Scaled weights must not overflow.
        let is_moderate = |x: f64| MODERATE.contains(&x.abs());
        let fits = match node.op_type.as_str() {
            "Div" => all_elements(graph, by, is_moderate),
            "Mul" => all_elements(graph, by, |x| x == 0.0 || is_moderate(x)),
            _ => finite(by),
        };
        if !one_per_channel || !fits {
            return None;
        }
        match (node.op_type.as_str(), commuted) {
            ("Mul", _) => Step::Scale { by, divides: false },
            ("Div", false) => Step::Scale { by, divides: true },
            ("Add", _) => Step::Shift { by, negated: false },
            ("Sub", false) => Step::Shift { by, negated: true },
            _ => return None,
        }
    };
    Some((reader, step, output))
}

/// The smallest permitted maximum of the magnitudes of a scaled weight. Float16 has fewer digits below 2^-14,
/// and the runtime may replace such elements by 0.
const LEAST_SCALED_WEIGHT: f64 = 1.0 / 256.0;

/// Larger scales are not worth reading the weight.
const SMALL_SCALE: f64 = 1.0 / 16.0;

/// Whether a weight keeps its elements in half precision if it is multiplied by the scales of some steps.
pub(super) fn keeps_weight(graph: &Graph, weight: ValueId, steps: &[Step]) -> bool {
    let mut scale = 1.0;
    for step in steps {
        let Step::Scale { by, divides } = *step else { continue };
        let Some(factor) = largest(graph, by, |x| if divides { x.recip() } else { x }) else { return false };
        scale *= factor;
    }
    scale >= SMALL_SCALE
        || largest(graph, weight, |x| x * scale).is_some_and(|most| most >= LEAST_SCALED_WEIGHT)
}

/// The largest magnitude of a function of the elements of a constant.
pub(super) fn largest(graph: &Graph, id: ValueId, function: impl Fn(f64) -> f64) -> Option<f64> {
    let list = graph.value(id).constant.as_ref()?.load().ok()?.to_f64().ok()?;
    Some(list.into_iter().fold(0.0, |most, x| function(x).abs().max(most)))
}

/// Whether a constant has one element, or one for each channel, and does not broadcast the value.
fn is_one_per_channel(graph: &Graph, by: ValueId, channels: Channels) -> bool {
    let Some(tensor) = &graph.value(by).constant else { return false };
    let sizes = tensor.shape();
    let Some(missing) = channels.rank.checked_sub(sizes.len()) else { return false };
    let fits = |(at, size): (usize, &usize)| *size == 1 || (at + missing == 1 && *size == channels.count);
    sizes.iter().enumerate().all(fits)
}

/// Whether a value is a constant all of whose elements pass a test.
pub(super) fn all_elements(graph: &Graph, by: ValueId, test: impl Fn(f64) -> bool) -> bool {
    let Some(tensor) = &graph.value(by).constant else { return false };
    tensor.load_listed().is_ok_and(|array| array.all_numbers(test))
}
