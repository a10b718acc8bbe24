//! The recurrent operator of a cell, and the operators around it that apply masks.
//!
//! Steps that the mask skips change no state. So the others are moved to the front, where the operator reads
//! them, and its results back: `last[t, j]` is 1 where the step j of the operator is the last one at t that
//! is not skipped.

use super::body::{Body, Fixed};
use super::cell::{Cell, Kind, Part, Sum};
use crate::graph::Attribute;
use crate::ops::prelude::*;
use crate::pass::pattern::Readers;

impl<'a> Body<'a> {
    /// Replaces the loop; `false` if sizes or unknown states do not allow it.
    pub fn replace(&self, cell: &Cell) -> Result<bool> {
        if !self.fits(cell) {
            return Ok(false);
        }
        let x = self.x.make.value(cell.sequence);
        let steps = cell.mask.map(|mask| Steps::new(self.x.make.value(mask)));
        let read = steps.as_ref().map_or(x, |steps| steps.gather(x));
        let [y, h, c] = self.operator(cell, read);
        let y = y.squeeze(&[1]);
        let result = |is_zero| steps.as_ref().map_or(y, |steps| steps.scatter(y, is_zero));
        let last = |y: Expr<'a>| y.slice(0, -1, i64::MAX).squeeze(&[0]);
        let h = if steps.is_some() { last(result(false)) } else { h.squeeze(&[0]) };
        self.x.output(cell.h.output, h);
        if let Some(state) = cell.c {
            self.x.output(state.output, c.squeeze(&[0]));
        }
        if let Some((state, is_zero)) = cell.last {
            self.x.output(state.output, if is_zero { last(result(true)) } else { h });
        }
        for (output, is_zero) in &cell.results {
            self.x.output(*output, result(*is_zero));
        }
        for state in &self.plain {
            let dtype = self.x.graph().value(state.start).dtype.unwrap_or(DType::I64);
            let is_counter = self.counters.contains(&state.input);
            let count = || x.size(0).typed(DType::I64).to_type(dtype);
            self.x.output(state.output, if is_counter { count() } else { self.x.make.value(state.start) });
        }
        Ok(true)
    }

    /// Returns whether a cell may have these shapes, and the operator has all outputs.
    fn fits(&self, cell: &Cell) -> bool {
        let graph = self.x.graph();
        let x = graph.value(cell.sequence);
        let Some([_, batch, width]) = x.shape.as_deref() else { return false };
        let state = |id| graph.value(id).shape.as_deref() == Some(&shape![batch, cell.hidden]);
        if !state(cell.h.start) || cell.c.is_some_and(|c| !state(c.start)) {
            return false;
        }
        // Masks are products in float32.
        let fits_type = x.dtype == Some(DType::F32) || (x.dtype == Some(DType::F16) && cell.mask.is_none());
        let of_type = |id| graph.value(id).dtype == x.dtype;
        if !fits_type || !of_type(cell.h.start) || cell.c.is_some_and(|c| !of_type(c.start)) {
            return false;
        }
        let Some(width) = width.known() else { return false };
        let is_used = |output: usize| {
            let value = self.x.node().output(output);
            let readers = Readers::of(graph);
            value.is_some_and(|value| readers.is_output(value) || !readers.all(value).is_empty())
        };
        // The operator's last cell state is that after the zeros.
        if cell.mask.is_some() && cell.c.is_some_and(|c| is_used(c.output)) {
            return false;
        }
        let sums = match &cell.kind {
            Kind::Lstm(sums) | Kind::Gru(sums) => sums.as_slice(),
            Kind::Rnn(sum) => std::slice::from_ref(sum),
        };
        let fits = |part: &Part, rows: Option<i64>| {
            let shape = self.shape_of(&part.value);
            let sizes = shape.and_then(|shape| Dim::known_sizes::<i64>(&shape));
            let Some(mut shape) = sizes else { return false };
            if part.is_transposed {
                shape.reverse();
            }
            let columns = shape.pop().filter(|_| match rows {
                Some(rows) => shape == [rows],
                None => shape.iter().all(|size| *size == 1),
            });
            let end = part.columns.map(|(_, end)| end);
            columns.is_some_and(|columns| end.map_or(columns == cell.hidden, |end| end <= columns))
        };
        sums.iter().all(|sum| {
            sum.x.iter().all(|part| fits(part, Some(width)))
                && sum.h.iter().all(|part| fits(part, Some(cell.hidden)))
                && sum.bias.iter().all(|part| fits(part, None))
        })
    }

    /// Returns the results of the operator that reads `x`: of all steps, and the last states.
    fn operator(&self, cell: &Cell, x: Expr<'a>) -> [Expr<'a>; 3] {
        let hidden = cell.hidden;
        let dtype = self.x.graph().value(cell.sequence).dtype.unwrap_or(DType::F32);
        let typed = |weights: Expr<'a>| if dtype == DType::F32 { weights } else { weights.cast(dtype) };
        let matrices = |sums: &[&[Part]], rows: i64| {
            let gates: Vec<Expr> = sums.iter().map(|parts| self.matrix(parts, hidden, rows)).collect();
            typed(self.x.make.concat(&gates, 0).unsqueeze(&[0]))
        };
        let width = self.x.make.value(cell.sequence).sizes().last().copied().flatten().unwrap_or(0);
        let bias = |parts: &[&[Part]]| -> Vec<Expr<'a>> {
            parts.iter().map(|parts| self.bias(parts, hidden)).collect()
        };
        let (op_type, sums): (&'static str, Vec<&Sum>) = match &cell.kind {
            Kind::Lstm(sums) => ("LSTM", sums.iter().collect()),
            Kind::Gru([z, r, a, _]) => ("GRU", vec![z, r, a]),
            Kind::Rnn(sum) => ("RNN", vec![sum]),
        };
        // The gates read x and h; the last one of GRU reads h in the sum that r scales.
        let from_x: Vec<&[Part]> = sums.iter().map(|sum| sum.x.as_slice()).collect();
        let mut from_h: Vec<&[Part]> = sums.iter().map(|sum| sum.h.as_slice()).collect();
        let unscaled: Vec<&[Part]> = sums.iter().map(|sum| sum.bias.as_slice()).collect();
        let mut scaled: Vec<&[Part]> = vec![&[]; sums.len()];
        if let Kind::Gru([.., b]) = &cell.kind {
            from_h.pop();
            from_h.push(&b.h);
            scaled.pop();
            scaled.push(&b.bias);
        }
        let b = [bias(&unscaled), bias(&scaled)].concat();
        let b = typed(self.x.make.concat(&b, 0).unsqueeze(&[0]));
        let state = |start| Some(self.x.make.value(start).unsqueeze(&[0]));
        let mut inputs =
            vec![Some(x), Some(matrices(&from_x, width)), Some(matrices(&from_h, hidden)), Some(b)];
        inputs.extend([None, state(cell.h.start)]);
        inputs.extend(cell.c.map(|c| state(c.start)));
        let mut attributes: Vec<(&str, Attribute)> = vec![("hidden_size", hidden.into())];
        if self.is_reversed {
            attributes.push(("direction", Attribute::String("reverse".into())));
        }
        if op_type == "GRU" {
            attributes.push(("linear_before_reset", 1.into()));
        }
        let outputs = if op_type == "LSTM" { 3 } else { 2 };
        let y = self.x.make.op(op_type, inputs, attributes);
        std::array::from_fn(|index| y.output(index.min(outputs - 1)))
    }

    /// Returns the sum of matrices, transposed as recurrent operators have them.
    fn matrix(&self, parts: &[Part], hidden: i64, rows: i64) -> Expr<'a> {
        let sum = parts.iter().map(|part| {
            let matrix = self.in_float32(&part.value);
            let matrix = if part.is_transposed { matrix } else { matrix.transpose(&[1, 0]) };
            part.columns.map_or(matrix, |(start, end)| matrix.slice(0, start, end))
        });
        sum.reduce(|a, b| a + b).unwrap_or_else(|| self.zeros(&[hidden, rows]))
    }

    fn bias(&self, parts: &[Part], hidden: i64) -> Expr<'a> {
        let sum = parts.iter().map(|part| {
            let bias = self.in_float32(&part.value).reshape(&[-1]);
            part.columns.map_or(bias, |(start, end)| bias.slice(0, start, end))
        });
        sum.reduce(|a, b| a + b).unwrap_or_else(|| self.zeros(&[hidden]))
    }

    /// Returns weights in float32, in which their parts are added.
    fn in_float32(&self, fixed: &Fixed) -> Expr<'a> {
        let weights = self.expr(fixed);
        if self.dtype_of(fixed) == Some(DType::F32) { weights } else { weights.cast(DType::F32) }
    }

    fn zeros(&self, shape: &[i64]) -> Expr<'a> {
        self.x.make.number(0.0, DType::F32).filled(0.0, shape)
    }
}

/// The steps that a mask does not skip.
struct Steps<'a> {
    /// `last[batch, t, j]`, as the description of this file has it.
    last: Expr<'a>,
    /// The same without the steps that are skipped.
    kept: Expr<'a>,
}

impl<'a> Steps<'a> {
    fn new(mask: Expr<'a>) -> Steps<'a> {
        let mask = mask.squeeze(&[2]).transpose(&[1, 0]).cast(DType::F32);
        let axis = mask.builder.int(1);
        let count =
            mask.builder.op("CumSum", [mask, axis], []).typed(DType::F32).unsqueeze(&[2]).typed(DType::F32);
        let steps = (mask.positions(1).cast(DType::F32).typed(DType::F32) + 1.0).reshape(&[1, 1, -1]);
        let last = count.equal(steps).cast(DType::F32);
        Steps { last, kept: last * mask.unsqueeze(&[2]) }
    }

    /// Returns the steps of a sequence that are not skipped, before zeros.
    fn gather(&self, x: Expr<'a>) -> Expr<'a> {
        self.kept.transpose(&[0, 2, 1]).matmul(x.transpose(&[1, 0, 2])).transpose(&[1, 0, 2])
    }

    /// Returns the results at all steps: 0 at skipped ones, or the result before.
    fn scatter(&self, y: Expr<'a>, is_zero: bool) -> Expr<'a> {
        let matrix = if is_zero { self.kept } else { self.last };
        matrix.matmul(y.transpose(&[1, 0, 2])).transpose(&[1, 0, 2])
    }
}
