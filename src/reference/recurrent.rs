//! LSTM, GRU and RNN.

use std::array;

use ndarray::{Array1, Array2, ArrayView1, ArrayView2, ArrayViewMut1, Axis, concatenate};

use super::Mat;
use super::array::{bottom, shaped, size};
use super::product::{check_int8, divide_rows, in_order, matrices, product, round, two_axes};
use crate::error::{Error, Result, invalid, unsupported};
use crate::ncnn::Layer;
use crate::tensor::Tensor;

/// What the recurrent layers have in common. `G` is the number of gates.
struct Recurrent<'a, const G: usize> {
    num_output: i32,
    /// The size of the cell.
    hidden_size: i32,
    direction: i32,
    weight_xc: &'a Option<Tensor>,
    bias_c: &'a Option<Tensor>,
    weight_hc: &'a Option<Tensor>,
    /// The map of the output of the cell to the hidden state, if their sizes differ.
    weight_hr: &'a Option<Tensor>,
    weight_xc_scales: &'a Option<Tensor>,
    weight_hc_scales: &'a Option<Tensor>,
    /// The number of biases. One more than gates is a summand of the recurrent part of the last gate.
    biases: usize,
    /// The number of states: 2 with the state of the cell.
    states: usize,
    unit: Unit<G>,
}

/// Returns the output and the new cell for the gates of the input and of the hidden state, the previous
/// hidden state and the previous cell.
type Unit<const G: usize> = fn([f64; G], [f64; G], f64, f64) -> (f64, f64);

/// The weights of a direction.
struct Direction {
    /// `[G * hidden_size, inputs]`
    weight_xc: Array2<f64>,
    /// `[biases, hidden_size]`
    bias_c: Array2<f64>,
    /// `[G * hidden_size, num_output]`
    weight_hc: Array2<f64>,
    /// `[num_output, hidden_size]`
    weight_hr: Option<Array2<f64>>,
}

/// Computes a recurrent layer: the sequence, and the final states if they are asked for.
pub(super) fn compute(layer: &Layer, bottoms: &[&Mat], tops: usize) -> Result<Vec<Mat>> {
    macro_rules! recurrent {
        ( $layer:ident { $( $field:ident: $value:expr, )+ } ) => {
            Recurrent {
                num_output: $layer.num_output,
                direction: $layer.direction,
                weight_xc: &$layer.weight_xc_data,
                bias_c: &$layer.bias_c_data,
                weight_hc: &$layer.weight_hc_data,
                weight_xc_scales: &$layer.weight_xc_data_int8_scales,
                weight_hc_scales: &$layer.weight_hc_data_int8_scales,
                $( $field: $value, )+
            }
            .compute(bottoms, tops)
        };
    }
    match layer {
        Layer::LSTM(layer) => recurrent!(layer {
            hidden_size: layer.hidden_size,
            weight_hr: &layer.weight_hr_data,
            biases: 4,
            states: 2,
            unit: lstm,
        }),
        Layer::GRU(layer) => recurrent!(layer {
            hidden_size: layer.num_output,
            weight_hr: &None,
            biases: 4,
            states: 1,
            unit: gru,
        }),
        Layer::RNN(layer) => recurrent!(layer {
            hidden_size: layer.num_output,
            weight_hr: &None,
            biases: 1,
            states: 1,
            unit: |[x], [h], _, cell| (libm::tanh(x + h), cell),
        }),
        _ => unsupported!("{} has no reference", layer.type_name()),
    }
}

/// The logistic function.
fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + libm::exp(-x))
}

/// A cell of LSTM, with the gates I, F, O and G.
fn lstm(x: [f64; 4], h: [f64; 4], _: f64, cell: f64) -> (f64, f64) {
    let [xi, xf, xo, xg] = x;
    let [hi, hf, ho, hg] = h;
    let cell = sigmoid(xf + hf) * cell + sigmoid(xi + hi) * libm::tanh(xg + hg);
    (sigmoid(xo + ho) * libm::tanh(cell), cell)
}

/// A cell of GRU, with the gates R, U and N.
fn gru([xr, xu, xn]: [f64; 3], [hr, hu, hn]: [f64; 3], previous: f64, cell: f64) -> (f64, f64) {
    let update = sigmoid(xu + hu);
    let new = libm::tanh(xn + sigmoid(xr + hr) * hn);
    ((1.0 - update) * new + update * previous, cell)
}

impl<const G: usize> Recurrent<'_, G> {
    /// Returns the sequence `[steps, directions * num_output]`, and the states `[directions, size]`.
    fn compute(&self, bottoms: &[&Mat], tops: usize) -> Result<Vec<Mat>> {
        // The runtime takes all states or none, and returns all or none.
        let all = 1 + self.states;
        if bottoms.len() != 1 && bottoms.len() != all || tops != 1 && tops != all {
            invalid!("{} bottoms and {tops} tops", bottoms.len());
        }
        let mut sequence = two_axes(bottom(bottoms, 0)?.view())?.to_owned();
        let is_reversed: &[bool] = match self.direction {
            0 => &[false],
            1 => &[true],
            2 => &[false, true],
            other => invalid!("direction {other}"),
        };
        let (output, hidden) = (size(self.num_output)?, size(self.hidden_size)?);
        let directions = self.directions(is_reversed.len(), sequence.ncols(), output, hidden)?;
        let state = |index: usize, width| match bottoms.get(index) {
            Some(state) => initial(state, is_reversed.len(), width),
            None => Ok(Array2::zeros((is_reversed.len(), width))),
        };
        let (mut outputs, mut cells) = (state(1, output)?, state(2, hidden)?);
        if self.weight_xc_scales.is_some() {
            sequence.outer_iter_mut().for_each(round);
        }
        let states = outputs.outer_iter_mut().zip(cells.outer_iter_mut());
        let mut sequences = Vec::new();
        for ((direction, is_reversed), state) in directions.iter().zip(is_reversed).zip(states) {
            sequences.push(self.run(direction, &sequence, *is_reversed, state)?);
        }
        let sequences: Vec<ArrayView2<'_, f64>> = sequences.iter().map(|part| part.view()).collect();
        let mut computed = vec![concatenate(Axis(1), &sequences)?.into_dyn()];
        for (index, state) in [outputs, cells].into_iter().enumerate().take(self.states) {
            // A final state has the form of the initial one.
            let shape = bottoms.get(index + 1).map_or(state.shape(), |bottom| bottom.shape()).to_vec();
            computed.push(shaped(&shape, state.into_iter().collect())?);
        }
        computed.truncate(tops);
        Ok(computed.into_iter().map(in_order).collect())
    }

    /// Returns the weights of each direction.
    fn directions(
        &self,
        count: usize,
        inputs: usize,
        output: usize,
        hidden: usize,
    ) -> Result<Vec<Direction>> {
        let Some(rows) = hidden.checked_mul(G) else { invalid!("a size of {hidden}") };
        let scaled = |tensor, scales: &Option<Tensor>, columns| {
            let mut weights = matrices(tensor, count, rows, columns)?;
            if self.weight_xc_scales.is_some() {
                check_int8(tensor)?;
                for (weight, scales) in weights.iter_mut().zip(matrices(scales, count, 1, rows)?) {
                    divide_rows(weight, scales.iter());
                }
            }
            Ok::<_, Error>(weights)
        };
        let projections = if hidden == output {
            vec![None; count]
        } else {
            matrices(self.weight_hr, count, output, hidden)?.into_iter().map(Some).collect()
        };
        let inputs = scaled(self.weight_xc, self.weight_xc_scales, inputs)?;
        let biases = matrices(self.bias_c, count, self.biases, hidden)?;
        let states = scaled(self.weight_hc, self.weight_hc_scales, output)?;
        let each = inputs.into_iter().zip(biases).zip(states).zip(projections);
        Ok(each
            .map(|(((weight_xc, bias_c), weight_hc), weight_hr)| Direction {
                weight_xc,
                bias_c,
                weight_hc,
                weight_hr,
            })
            .collect())
    }

    /// Computes a direction, and replaces the initial states by the final ones.
    fn run(
        &self,
        weights: &Direction,
        sequence: &Array2<f64>,
        is_reversed: bool,
        (mut state, mut cell): (ArrayViewMut1<'_, f64>, ArrayViewMut1<'_, f64>),
    ) -> Result<Array2<f64>> {
        let (of_inputs, of_state) = weights.bias_c.view().split_at(Axis(0), G.min(self.biases));
        let of_inputs: Array1<f64> = of_inputs.iter().copied().collect();
        let (of_state, hidden) = (of_state.sum_axis(Axis(0)), cell.len());
        let inputs = product(sequence.view(), weights.weight_xc.t())? + of_inputs;
        let mut top = Array2::zeros((sequence.nrows(), state.len()));
        let mut steps: Vec<_> = inputs.outer_iter().zip(top.outer_iter_mut()).collect();
        if is_reversed {
            steps.reverse();
        }
        for (x, mut top) in steps {
            let mut row = state.to_owned().insert_axis(Axis(0));
            if self.weight_xc_scales.is_some() {
                round(row.view_mut());
            }
            let h = product(row.view(), weights.weight_hc.t())?.remove_axis(Axis(0));
            let mut output = Array1::zeros(hidden);
            let elements = output.iter_mut().zip(&mut cell).zip(&of_state).enumerate();
            for (index, ((output, cell), of_state)) in elements {
                let gates = |values: &ArrayView1<'_, f64>| {
                    array::from_fn(|gate| values.get(gate * hidden + index).copied().unwrap_or_default())
                };
                let (x, mut h): ([f64; G], [f64; G]) = (gates(&x), gates(&h.view()));
                if let Some(last) = h.last_mut() {
                    *last += of_state;
                }
                // Only GRU has a use of the previous state, and its states are as large as its cells.
                let previous = state.get(index).copied().unwrap_or_default();
                (*output, *cell) = (self.unit)(x, h, previous, *cell);
            }
            let output = match &weights.weight_hr {
                Some(weight) => weight.dot(&output),
                None => output,
            };
            state.assign(&output);
            top.assign(&output);
        }
        Ok(top)
    }
}

/// Returns an initial state as `[directions, width]`: a state of one direction may have any number of axes.
fn initial(state: &Mat, directions: usize, width: usize) -> Result<Array2<f64>> {
    let fits = match state.shape() {
        [rows @ .., w] if directions == 1 => *w == width && rows.iter().all(|size| *size == 1),
        shape => shape == [directions, width],
    };
    if !fits {
        invalid!("a state of {:?} for {directions} directions of {width}", state.shape());
    }
    Ok(Array2::from_shape_vec((directions, width), state.iter().copied().collect())?)
}
