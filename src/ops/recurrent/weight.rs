//! Weights and biases in ncnn's order of gates.

use super::node::Cell;
use crate::ops::prelude::*;

/// Returns the ONNX index of each of ncnn's gates: LSTM has I F O G for `iofc`, GRU has R U N for `zrh`.
fn order(cell: Cell) -> &'static [usize] {
    match cell {
        Cell::Gru => &[1, 0, 2],
        Cell::Lstm => &[0, 2, 1, 3],
        Cell::Rnn => &[0],
    }
}

/// Returns W or R, `[directions, gates * hidden, columns]`, with the gates in ncnn's order.
pub(super) fn matrix(cell: Cell, weight: &Tensor) -> Result<Tensor> {
    if order(cell).is_sorted() {
        return Ok(weight.clone());
    }
    let shape = weight.shape().to_vec();
    let split = [*shape.at(0)?, cell.gates(), weight.len() / (shape.at(0)? * cell.gates()).max(1)];
    Tensor::deferred(DType::F32, shape.clone(), vec![weight.clone()], move |inputs| {
        inputs.at(0)?.cast(DType::F32)?.reshape(&split)?.gather(1, order(cell))?.reshape(&shape)
    })
}

/// The largest magnitude of an integer in ncnn's int8 layers.
const LARGEST: f32 = 127.0;

/// Returns the elements of W or R as integers, and the factor of each row, whose largest magnitude becomes
/// 127.
pub(super) fn int8_rows(weight: &Tensor) -> Result<[Tensor; 2]> {
    let shape = weight.shape().to_vec();
    let columns = shape.last().copied().unwrap_or(1).max(1);
    let factors = move |list: &[f32]| -> Vec<f32> {
        let largest = list.chunks(columns).map(|row| row.iter().fold(0.0_f32, |most, x| most.max(x.abs())));
        // A row of zeros has any factor.
        largest.map(|most| Some(LARGEST / most).filter(|factor| factor.is_normal()).unwrap_or(1.0)).collect()
    };
    let sizes = shape.clone();
    let levels = Tensor::deferred(DType::I8, shape.clone(), vec![weight.clone()], move |inputs| {
        let mut list = inputs.at(0)?.float_list()?;
        let factors = factors(&list);
        for (row, factor) in list.chunks_mut(columns).zip(factors) {
            row.iter_mut().for_each(|x| *x = (*x * factor).round().clamp(-LARGEST, LARGEST));
        }
        Array::f32(ndarray::ArrayD::from_shape_vec(sizes.as_slice(), list)?).cast(DType::I8)
    })?;
    let rows = vec![weight.len() / columns];
    let scales = Tensor::deferred(DType::F32, rows.clone(), vec![weight.clone()], move |inputs| {
        let list = factors(&inputs.at(0)?.float_list()?);
        Ok(Array::f32(ndarray::ArrayD::from_shape_vec(rows.as_slice(), list)?))
    })?;
    Ok([levels, scales])
}

/// Returns the biases of a layer, the sums of the biases of W and R, except for GRU's N, which keeps both.
/// They are 0 if `bias` is omitted.
pub(super) fn bias(cell: Cell, bias: Option<&Tensor>, directions: usize, hidden: usize) -> Result<Tensor> {
    let rows = if cell == Cell::Rnn { 1 } else { 4 };
    let shape = vec![directions, rows, hidden];
    let Some(bias) = bias else {
        return Tensor::all(0.0, shape);
    };
    Tensor::deferred(DType::F32, shape, vec![bias.clone()], move |inputs| {
        let gates = cell.gates();
        let both = inputs.at(0)?.cast(DType::F32)?.reshape(&[directions, 2 * gates, hidden])?;
        let of_w: Vec<usize> = order(cell).to_vec();
        let of_r: Vec<usize> = of_w.iter().map(|gate| gate + gates).collect();
        if cell != Cell::Gru {
            let sum = both.gather(1, &of_w)?.to_f32()? + both.gather(1, &of_r)?.to_f32()?;
            return Ok(Array::f32(sum));
        }
        let (Some((last_w, of_w)), Some((last_r, of_r))) = (of_w.split_last(), of_r.split_last()) else {
            return Ok(both);
        };
        let sum = both.gather(1, of_w)?.to_f32()? + both.gather(1, of_r)?.to_f32()?;
        Array::concat(&[Array::f32(sum), both.gather(1, &[*last_w, *last_r])?], 1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_are_reordered_in_each_direction() {
        let weight = Tensor::from_f32(&[2, 4, 2], (0_u8..16).map(f32::from).collect()).unwrap();
        let ordered = matrix(Cell::Lstm, &weight).unwrap().load().unwrap().float_list().unwrap();
        assert_eq!(ordered, [0., 1., 4., 5., 2., 3., 6., 7., 8., 9., 12., 13., 10., 11., 14., 15.]);
    }

    #[test]
    fn steps_of_int8_are_read_again() {
        let rows = [0.5, -127.0 * 0.25, 3.0 * 0.25, 0.0, 0.0, 0.0, 0.0, 127.0, -126.0];
        let weight = Tensor::from_f32(&[1, 3, 3], rows.to_vec()).unwrap();
        let [levels, scales] = int8_rows(&weight).unwrap();
        assert_eq!(levels.load().unwrap().int_list().unwrap(), [2, -127, 3, 0, 0, 0, 0, 127, -126]);
        assert_eq!(scales.load().unwrap().float_list().unwrap(), [4.0, 1.0, 1.0]);
    }

    #[test]
    fn biases_are_summed_except_those_of_the_hidden_gate_of_gru() {
        let b = Tensor::from_f32(&[1, 6], vec![1., 2., 3., 10., 20., 30.]).unwrap();
        let found = bias(Cell::Gru, Some(&b), 1, 1).unwrap().load().unwrap().float_list().unwrap();
        assert_eq!(found, [22., 11., 3., 30.]);
        let b = Tensor::from_f32(&[1, 2], vec![1., 2.]).unwrap();
        let found = bias(Cell::Rnn, Some(&b), 1, 1).unwrap().load().unwrap().float_list().unwrap();
        assert_eq!(found, [3.]);
    }
}
