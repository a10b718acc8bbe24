//! Recurrent operators with lengths.

use ndarray::{Array2, ArrayView2, Axis, Ix2, Ix3, concatenate, stack};
use num_traits::AsPrimitive;

use super::typed;
use crate::error::{Error, Result, unsupported};
use crate::op::Call;
use crate::tensor::Array;

/// What a step of a recurrent operator reads: the parts of the sequence and of the state in each gate, each
/// with its bias, the state, and the weights of the state in the last gate with their bias.
pub(super) struct Step<'a> {
    x: Vec<Array2<f64>>,
    h: Vec<Array2<f64>>,
    state: &'a Array2<f64>,
    last: (ArrayView2<'a, f64>, ArrayView2<'a, f64>),
    resets_before: bool,
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

pub(super) fn rnn(step: &Step) -> Option<Array2<f64>> {
    Some((step.x.first()? + step.h.first()?).mapv(libm::tanh))
}

/// Gates in the order of update, reset, and the new state.
pub(super) fn gru(step: &Step) -> Option<Array2<f64>> {
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
pub(super) fn recurrent(call: &Call, compute: fn(&Step) -> Option<Array2<f64>>) -> Result<Vec<Array>> {
    let others = ["activation_alpha", "activation_beta", "clip"];
    if let Some(name) = others.iter().find(|name| call.node().attributes.get(**name).is_some()) {
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
