//! Evaluations in float64 of operators that the engine has not, or not in all versions, from their
//! specification.

use ndarray::{Array1, Array2, ArrayD, ArrayView2, Axis, Ix2, Ix3, concatenate, stack};
use num_traits::AsPrimitive;

use crate::error::{At, Error, Result, unsupported};
use crate::graph::{Attribute, Node};
use crate::op::{Call, resolve_axis};
use crate::tensor::{Array, DType, Elements};

/// The version in which Softmax and LogSoftmax take one axis in place of all from one on.
const ONE_AXIS: i64 = 13;

/// The version in which GroupNormalization scales each channel in place of each group.
const OF_CHANNELS: i64 = 21;

/// The evaluation of a call.
type Evaluation = fn(&Call) -> Result<Vec<Array>>;

/// Returns the evaluation of a node; `None` for other operators.
pub(super) fn evaluation(node: &Node) -> Option<Evaluation> {
    let list: [(&str, Evaluation); 8] = [
        ("Softmax", |call| softmax(call, |x, sum| x / sum)),
        ("LogSoftmax", |call| softmax(call, |x, sum| libm::log(x / sum))),
        ("LRN", local_response),
        ("LayerNormalization", layer_normalization),
        ("GroupNormalization", group_normalization),
        ("BatchNormalization", training),
        ("GRU", |call| recurrent(call, gru)),
        ("RNN", |call| recurrent(call, rnn)),
    ];
    // The engine has the other BatchNormalization.
    let is_training = matches!(node.attributes.get("training_mode"), Some(Attribute::Int(1)));
    let is_ours = |op_type: &str| node.is(op_type) && (op_type != "BatchNormalization" || is_training);
    list.into_iter().find(|(op_type, _)| is_ours(op_type)).map(|(_, evaluation)| evaluation)
}

/// Returns an array of the type of the first input.
fn typed(call: &Call, elements: ArrayD<f64>) -> Result<Array> {
    let dtype = call.dtype(0)?;
    Ok(match dtype {
        DType::F64 => Array::new(dtype, Elements::F64(elements)),
        _ => Array::new(dtype, Elements::F32(elements.mapv(AsPrimitive::<f32>::as_))),
    })
}

/// Applies a function to the exponential of each element, relative to the largest one, and to their sum.
fn softmax(call: &Call, result: impl Fn(f64, f64) -> f64) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let is_old = call.since() < ONE_AXIS;
    let axis = call.int_or("axis", if is_old { 1 } else { -1 })?;
    let axis = resolve_axis(axis, x.ndim().max(1))?;
    let shape = x.raw_dim();
    // The elements of one sum are along the last axis.
    let mut rows = if is_old {
        let outer: usize = x.shape().iter().take(axis).product();
        let inner = x.len().checked_div(outer).unwrap_or_default();
        x.into_shape_with_order((outer, inner)).map_err(|_| Error::internal("no rows"))?.into_dyn()
    } else {
        x
    };
    let along = if is_old { Axis(1) } else { Axis(axis) };
    for mut lane in rows.lanes_mut(along) {
        let largest = lane.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        lane.mapv_inplace(|x| libm::exp(x - largest));
        let sum = lane.sum();
        lane.mapv_inplace(|x| result(x, sum));
    }
    let rows = rows.into_shape_with_order(shape).map_err(|_| Error::internal("no rows"))?;
    Ok(vec![typed(call, rows)?])
}

/// `x / (bias + alpha / size * sum of squares) ^ beta`, over the channels around each.
fn local_response(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let size = call.int("size")?;
    let (alpha, beta) = (f64::from(call.float_or("alpha", 1e-4)?), f64::from(call.float_or("beta", 0.75)?));
    let bias = f64::from(call.float_or("bias", 1.0)?);
    let (before, after) = (usize::try_from((size - 1) / 2)?, usize::try_from(size / 2)?);
    let squares = x.mapv(|x| x * x);
    let channels = x.len_of(Axis(1));
    let mut top = x.clone();
    for (channel, mut slice) in top.axis_iter_mut(Axis(1)).enumerate() {
        let (from, to) = (channel.saturating_sub(before), (channel + after + 1).min(channels));
        let around = squares.slice_axis(Axis(1), (from..to).into()).sum_axis(Axis(1));
        let factor: f64 = alpha / AsPrimitive::<f64>::as_(size);
        slice.zip_mut_with(&around, |x, sum| *x /= libm::pow(bias + factor * sum, beta));
    }
    Ok(vec![typed(call, top)?])
}

/// The elements of rows without their mean and in units of their deviation, and both, each as a column.
struct Normalized {
    rows: Array2<f64>,
    mean: Array2<f64>,
    variance: Array2<f64>,
    inverse: Array2<f64>,
}

fn normalized(x: ArrayD<f64>, rows: usize, epsilon: f64) -> Result<Normalized> {
    let inner = x.len().checked_div(rows).unwrap_or_default();
    let rows = x.into_shape_with_order((rows, inner)).map_err(|_| Error::internal("no rows"))?;
    let count: f64 = inner.as_();
    let column = |sums: Array1<f64>| (sums / count).insert_axis(Axis(1));
    let mean = column(rows.sum_axis(Axis(1)));
    let centred = &rows - &mean;
    let variance = column((&centred * &centred).sum_axis(Axis(1)));
    let inverse = variance.mapv(|variance| 1.0 / (variance + epsilon).sqrt());
    Ok(Normalized { rows: centred * &inverse, mean, variance, inverse })
}

fn in_shape(elements: Array2<f64>, shape: &[usize]) -> Result<ArrayD<f64>> {
    elements.into_shape_with_order(shape).map_err(|_| Error::internal("another number of elements"))
}

/// Returns a parameter that is multiplied or added along the axis of the channels, with each element
/// `repeated` times.
fn of_channels(call: &Call, index: usize, rank: usize, repeated: usize) -> Result<ArrayD<f64>> {
    let each = call.array(index)?.to_f64()?;
    let all: Vec<f64> = each.iter().flat_map(|x| std::iter::repeat_n(*x, repeated)).collect();
    let mut shape = vec![1; rank];
    if let Some(channels) = shape.get_mut(1) {
        *channels = all.len();
    }
    ArrayD::from_shape_vec(shape, all).map_err(|_| Error::internal("an input without channels"))
}

/// Returns the broadcast product and sum.
fn scaled(x: &ArrayD<f64>, scale: &ArrayD<f64>, bias: Option<&ArrayD<f64>>) -> Result<ArrayD<f64>> {
    let fitted = |array: &ArrayD<f64>| {
        let fitted = array.broadcast(x.raw_dim()).map(|view| view.to_owned());
        fitted.ok_or_else(|| Error::invalid("a scale or a bias of another shape"))
    };
    let product = x * &fitted(scale)?;
    Ok(match bias {
        Some(bias) => product + &fitted(bias)?,
        None => product,
    })
}

fn layer_normalization(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let axis = resolve_axis(call.int_or("axis", -1)?, rank)?;
    let outer: Vec<usize> = shape.iter().copied().take(axis).collect();
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, mean, inverse, .. } = normalized(x, outer.iter().product(), epsilon)?;
    let bias = if call.has_input(2) { Some(call.array(2)?.to_f64()?) } else { None };
    let top = scaled(&in_shape(rows, &shape)?, &call.array(1)?.to_f64()?, bias.as_ref())?;
    let reduced: Vec<usize> = outer.into_iter().chain(vec![1; rank - axis]).collect();
    Ok(vec![
        typed(call, top)?,
        typed(call, in_shape(mean, &reduced)?)?,
        typed(call, in_shape(inverse, &reduced)?)?,
    ])
}

fn group_normalization(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let groups = usize::try_from(call.int("num_groups")?)?;
    let [batch, channels, ..] = shape[..] else { unsupported!("an input without channels") };
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, .. } = normalized(x, batch * groups, epsilon)?;
    // Scale and bias have an element for each group in its first version.
    let is_by_group = call.since() < OF_CHANNELS;
    let repeated = if is_by_group { channels.checked_div(groups).unwrap_or_default() } else { 1 };
    let (scale, bias) = (of_channels(call, 1, rank, repeated)?, of_channels(call, 2, rank, repeated)?);
    Ok(vec![typed(call, scaled(&in_shape(rows, &shape)?, &scale, Some(&bias))?)?])
}

/// BatchNormalization by mean and variance of the batch; the running ones are outputs.
fn training(call: &Call) -> Result<Vec<Array>> {
    let x = call.array(0)?.to_f64()?;
    let (shape, rank) = (x.shape().to_vec(), x.ndim());
    let channels = *shape.at(1)?;
    let (scale, bias) = (of_channels(call, 1, rank, 1)?, of_channels(call, 2, rank, 1)?);
    let mut by_channel = x.view();
    by_channel.swap_axes(0, 1);
    let swapped = by_channel.shape().to_vec();
    let by_channel = by_channel.as_standard_layout().into_owned();
    let epsilon = f64::from(call.float_or("epsilon", 1e-5)?);
    let Normalized { rows, mean, variance, .. } = normalized(by_channel, channels, epsilon)?;
    let mut top = in_shape(rows, &swapped)?;
    top.swap_axes(0, 1);
    let momentum = f64::from(call.float_or("momentum", 0.9)?);
    let running = |index: usize, of_batch: Array2<f64>| {
        let old = call.array(index)?.to_f64()?;
        typed(call, old * momentum + in_shape(of_batch, &[channels])? * (1.0 - momentum))
    };
    let top = typed(call, scaled(&top, &scale, Some(&bias))?)?;
    Ok(vec![top, running(3, mean)?, running(4, variance)?])
}

/// What a step of a recurrent operator reads: the parts of the sequence and of the state in each gate, each
/// with its bias, the state, and the weights of the state in the last gate with their bias.
struct Step<'a> {
    x: Vec<Array2<f64>>,
    h: Vec<Array2<f64>>,
    state: &'a Array2<f64>,
    last: (ArrayView2<'a, f64>, ArrayView2<'a, f64>),
    resets_before: bool,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

fn rnn(step: &Step) -> Option<Array2<f64>> {
    Some((step.x.first()? + step.h.first()?).mapv(libm::tanh))
}

/// Gates in the order of update, reset, and the new state.
fn gru(step: &Step) -> Option<Array2<f64>> {
    let gate = |index: usize| Some((step.x.get(index)? + step.h.get(index)?).mapv(sigmoid));
    let (update, reset) = (gate(0)?, gate(1)?);
    let (weight, bias) = &step.last;
    let of_state = match step.resets_before {
        true => (&reset * step.state).dot(&weight.t()) + bias,
        false => &reset * step.h.get(2)?,
    };
    let new = (step.x.get(2)? + &of_state).mapv(libm::tanh);
    Some(&new - &(&update * &new) + &update * step.state)
}

/// Evaluates a recurrent operator without clips, with the usual activations.
fn recurrent(call: &Call, compute: fn(&Step) -> Option<Array2<f64>>) -> Result<Vec<Array>> {
    let is_plain = ["activations", "activation_alpha", "activation_beta", "clip"];
    let set =
        is_plain.iter().find(|name| call.node().attributes.get(**name).is_some() && **name != "activations");
    if let Some(name) = set {
        unsupported!("the attribute {name}");
    }
    let usual: &[&str] = if call.op_type() == "GRU" { &["Sigmoid", "Tanh"] } else { &["Tanh"] };
    let activations = call.optional_strings("activations")?.unwrap_or_default();
    if activations.iter().zip(usual.iter().cycle()).any(|(name, usual)| name != usual) {
        unsupported!("other activations");
    }
    if call.int_or("layout", 0)? != 0 {
        unsupported!("a batch in front");
    }
    let lengths = if call.has_input(4) { Some(call.array(4)?.int_list()?) } else { None };
    let three = |index: usize| -> Result<ndarray::Array3<f64>> {
        let array = call.array(index)?.to_f64()?;
        array.into_dimensionality::<Ix3>().map_err(|_| Error::invalid("an input of other than three axes"))
    };
    let (x, w, r) = (three(0)?, three(1)?, three(2)?);
    let (directions, hidden) = (w.len_of(Axis(0)), r.len_of(Axis(2)));
    let gates = w.len_of(Axis(1)).checked_div(hidden).unwrap_or_default();
    let direction = call.string_or("direction", "forward")?;
    let resets_before = call.op_type() == "GRU" && call.int_or("linear_before_reset", 0)? == 0;
    let biases = if call.has_input(3) {
        let biases = call.array(3)?.to_f64()?;
        biases.into_dimensionality::<Ix2>().map_err(|_| Error::invalid("biases of other than two axes"))?
    } else {
        Array2::zeros((directions, 2 * gates * hidden))
    };
    let first = if call.has_input(5) { Some(three(5)?) } else { None };
    let steps: i64 = x.len_of(Axis(0)).as_();
    if lengths.iter().flatten().any(|length| !(1..=steps).contains(length)) {
        unsupported!("a length that is not between 1 and {steps}");
    }
    let (mut sequences, mut states) = (Vec::new(), Vec::new());
    let missing = || Error::internal("no direction");
    for index in 0..directions {
        let (w, r, b) =
            (w.index_axis(Axis(0), index), r.index_axis(Axis(0), index), biases.index_axis(Axis(0), index));
        let b = b.to_shape((2 * gates, 1, hidden)).map_err(|_| Error::invalid("too few biases"))?;
        let part = |weight: &ArrayView2<f64>, gate: usize| {
            weight.slice(ndarray::s![gate * hidden..(gate + 1) * hidden, ..]).to_owned()
        };
        let mut state = match &first {
            Some(first) => first.index_axis(Axis(0), index).to_owned(),
            None => Array2::zeros((x.len_of(Axis(1)), hidden)),
        };
        let is_back = direction == "reverse" || index == 1;
        let mut steps: Vec<Array2<f64>> = Vec::new();
        for step in 0..x.len_of(Axis(0)) {
            let at = if is_back { x.len_of(Axis(0)) - 1 - step } else { step };
            let now = x.index_axis(Axis(0), at);
            let each =
                |input: &ArrayView2<f64>, weight: &ArrayView2<f64>, first: usize| -> Vec<Array2<f64>> {
                    let gate = |gate: usize| {
                        input.dot(&part(weight, gate).t()) + b.index_axis(Axis(0), first + gate)
                    };
                    (0..gates).map(gate).collect()
                };
            let last = part(&r, gates.saturating_sub(1));
            let last_bias = b.index_axis(Axis(0), 2 * gates - 1);
            let view = Step {
                x: each(&now, &w, 0),
                h: each(&state.view(), &r, gates),
                state: &state,
                last: (last.view(), last_bias),
                resets_before,
            };
            let mut next = compute(&view).ok_or_else(missing)?;
            let mut top = next.clone();
            // After its end, a sequence has the last state, and outputs of 0.
            let rows = next.rows_mut().into_iter().zip(top.rows_mut()).zip(state.rows());
            for (((mut next, mut top), state), length) in rows.zip(lengths.iter().flatten()) {
                if usize::try_from(*length)? <= at {
                    next.assign(&state);
                    top.fill(0.0);
                }
            }
            state = next;
            steps.push(top);
        }
        if is_back {
            steps.reverse();
        }
        let views: Vec<_> = steps.iter().map(|step| step.view()).collect();
        sequences.push(stack(Axis(0), &views).map_err(|_| Error::invalid("a sequence without steps"))?);
        states.push(state);
    }
    let sequences: Vec<_> = sequences.iter().map(|sequence| sequence.view().insert_axis(Axis(1))).collect();
    let states: Vec<_> = states.iter().map(|state| state.view().insert_axis(Axis(0))).collect();
    let joined = concatenate(Axis(1), &sequences).map_err(|_| missing())?;
    let last = concatenate(Axis(0), &states).map_err(|_| missing())?;
    Ok(vec![typed(call, joined.into_dyn())?, typed(call, last.into_dyn())?])
}
