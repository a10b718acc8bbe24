//! Cells of recurrent networks, found by their formulas.
//!
//! ```text
//! LSTM   c' = σ(f) * c + σ(i) * tanh(g), h' = σ(o) * tanh(c')
//! GRU    g = tanh(a + σ(r) * b), h' = σ(z) * h + (1 - σ(z)) * g
//! RNN    h' = tanh(a)
//! ```
//!
//! Each letter is a sum of products of x[t] and of h with matrices, and of biases, or columns of such a sum.

use super::body::{Body, Fixed, State};
use crate::op;
use crate::ops::prelude::*;
use crate::pass::pattern::{ints, is_plain_gemm, is_set};

/// Columns of a matrix or of a bias.
pub(super) struct Part {
    pub value: Fixed,
    pub is_transposed: bool,
    /// The first column, and the one after the last; all of them if there are none.
    pub columns: Option<(i64, i64)>,
}

/// A sum of products and biases.
#[derive(Default)]
pub(super) struct Sum {
    pub x: Vec<Part>,
    pub h: Vec<Part>,
    pub bias: Vec<Part>,
}

/// A mask, and the values between which it chooses.
#[derive(Clone, Copy)]
struct Choice {
    mask: ValueId,
    new: ValueId,
    old: ValueId,
}

pub(super) enum Kind {
    /// The sums i, o, f and g.
    Lstm([Sum; 4]),
    /// The sums z and r, and a and b.
    Gru([Sum; 4]),
    Rnn(Sum),
}

pub(super) struct Cell {
    pub kind: Kind,
    pub hidden: i64,
    pub sequence: ValueId,
    pub h: State,
    pub c: Option<State>,
    pub mask: Option<ValueId>,
    /// The outputs with an element for each step, and whether they are 0 where the mask is.
    pub results: Vec<(usize, bool)>,
    /// The state that is the last element of such an output.
    pub last: Option<(State, bool)>,
}

impl Body<'_> {
    /// Returns the cell, if it has all states and outputs.
    pub fn cell(&self) -> Option<Cell> {
        self.states.iter().find_map(|h| self.cell_of(*h))
    }

    /// Returns the length of the sequence, and of the mask.
    pub fn steps(&self, cell: &Cell) -> Option<&Dim> {
        let steps = self.length(cell.sequence)?;
        cell.mask.is_none_or(|mask| self.length(mask) == Some(steps)).then_some(steps)
    }

    fn cell_of(&self, h: State) -> Option<Cell> {
        let Some([batch, hidden]) = self.x.graph().value(h.start).shape.as_deref() else { return None };
        let hidden = hidden.known()?;
        let choice = self.choice(h.next);
        let new = choice.map_or(h.next, |choice| choice.new);
        if choice.is_some_and(|choice| self.root(choice.old) != h.input) {
            return None;
        }
        let mut reader = Reader { body: self, hidden, h: h.input, is_single: batch.is(1), sequence: None };
        let (kind, c) = reader.lstm(new).or_else(|| reader.gru(new)).or_else(|| reader.rnn(new))?;
        let mask = choice.map(|choice| choice.mask);
        let c = match c {
            Some([input, next]) => {
                let is_state = |state: &State| state.input == input && self.is_next(state, next, choice);
                Some(self.states.iter().copied().find(is_state)?)
            }
            None => None,
        };
        let mut cell =
            Cell { kind, hidden, sequence: reader.sequence?, h, c, mask, results: Vec::new(), last: None };
        // The values that the mask keeps are found again by their position, which the first state has not.
        if mask.is_some() && (self.is_reversed || !self.is_zero(h.start)) {
            return None;
        }
        for state in &self.states {
            if state.input == h.input || c.is_some_and(|c| state.input == c.input) {
                continue;
            }
            let masks_zero = self.result(state.next, new, choice, Some(*state))?;
            if cell.last.replace((*state, masks_zero)).is_some() {
                return None;
            }
        }
        for (output, value) in &self.scanned {
            let previous = cell.last.map(|(state, _)| state);
            cell.results.push((*output, self.result(*value, new, choice, previous)?));
        }
        Some(cell)
    }

    /// Returns whether a state becomes `next`, where the mask does not keep it.
    fn is_next(&self, state: &State, next: ValueId, choice: Option<Choice>) -> bool {
        match (choice, self.choice(state.next)) {
            (None, None) => self.root(state.next) == self.root(next),
            (Some(h), Some(other)) => {
                other.mask == h.mask
                    && self.root(other.new) == self.root(next)
                    && self.root(other.old) == state.input
            }
            _ => false,
        }
    }

    /// Returns whether a result is 0 where the mask is, or the one before it; `None` for other values.
    fn result(
        &self,
        value: ValueId,
        new: ValueId,
        choice: Option<Choice>,
        previous: Option<State>,
    ) -> Option<bool> {
        let Some(choice) = choice else { return (self.root(value) == self.root(new)).then_some(false) };
        let found = self.choice(value).filter(|found| found.mask == choice.mask)?;
        if self.root(found.new) != self.root(new) {
            return None;
        }
        let old = self.root(found.old);
        if old == self.root(choice.old) {
            return Some(false);
        }
        match self.fixed(old) {
            Some(Fixed::Outer(outer)) => self.is_zero(outer).then_some(true),
            Some(Fixed::Inner(_)) => self.floats(old)?.iter().all(|x| *x == 0.0).then_some(true),
            None => {
                let previous = previous.filter(|state| state.input == old && self.is_zero(state.start))?;
                (self.root(previous.next) == self.root(value)).then_some(false)
            }
        }
    }

    /// Returns the choice of a mask: by Where, or by products with the mask and with its opposite.
    fn choice(&self, id: ValueId) -> Option<Choice> {
        if let Some(node) = self.made_by(id, "Where") {
            let [condition, yes, no] = [node.input(0)?, node.input(1)?, node.input(2)?];
            let (mask, is_opposite) = self.mask(condition)?;
            let [new, old] = if is_opposite { [no, yes] } else { [yes, no] };
            return Some(Choice { mask, new, old });
        }
        both(self.operands(id, "Add"), |[a, b]| {
            let (mask, new) = self.masked(a, false)?;
            let (opposite, old) = self.masked(b, true)?;
            (mask == opposite).then_some(Choice { mask, new, old })
        })
    }

    /// Returns the mask and the other factor of a product with a mask, or with its opposite.
    fn masked(&self, id: ValueId, is_opposite: bool) -> Option<(ValueId, ValueId)> {
        both(self.operands(id, "Mul"), |[factor, other]| {
            let (mask, opposite) = self.mask(factor)?;
            (opposite == is_opposite).then_some((mask, other))
        })
    }

    /// Returns the sequence of booleans of which a value is the element, and whether it is its opposite.
    fn mask(&self, id: ValueId) -> Option<(ValueId, bool)> {
        if let Some(node) = self.made_by(id, "Cast") {
            return self.mask(node.input(0)?);
        }
        if let Some(node) = self.made_by(id, "Not") {
            return self.mask(node.input(0)?).map(|(mask, is_opposite)| (mask, !is_opposite));
        }
        let mask = self.sequence(id)?;
        let value = self.x.graph().value(mask);
        let is_mask = value.dtype == Some(DType::Bool);
        let is_column =
            value.shape.as_ref().is_some_and(|shape| matches!(&shape[..], [_, _, width] if width.is(1)));
        (is_mask && is_column).then_some((mask, false))
    }
}

/// Reads the formulas of a cell.
struct Reader<'r, 'a> {
    body: &'r Body<'a>,
    hidden: i64,
    h: ValueId,
    /// Whether the batch has one sequence.
    is_single: bool,
    sequence: Option<ValueId>,
}

impl Reader<'_, '_> {
    /// Returns the cell, and the state c before and after the step.
    fn lstm(&mut self, new: ValueId) -> Option<(Kind, Option<[ValueId; 2]>)> {
        let body = self.body;
        both(body.operands(new, "Mul"), |[o, squashed]| {
            let next = body.made_by(squashed, "Tanh")?.input(0)?;
            let o = self.gate(o, "Sigmoid")?;
            let (f, i, g, state) = both(body.operands(next, "Add"), |[kept, added]| {
                let (f, state) = both(body.operands(kept, "Mul"), |[f, state]| {
                    let state = body.root(state);
                    body.states.iter().any(|other| other.input == state).then_some(())?;
                    Some((self.gate(f, "Sigmoid")?, state))
                })?;
                let pair = |[i, g]: [ValueId; 2]| Some((self.gate(i, "Sigmoid")?, self.gate(g, "Tanh")?));
                let (i, g) = both(body.operands(added, "Mul"), pair)?;
                Some((f, i, g, state))
            })?;
            Some((Kind::Lstm([i, o, f, g]), Some([state, next])))
        })
    }

    fn gru(&mut self, new: ValueId) -> Option<(Kind, Option<[ValueId; 2]>)> {
        let body = self.body;
        both(body.operands(new, "Add"), |[kept, added]| {
            let (gate, z) = both(body.operands(kept, "Mul"), |[z, state]| {
                (body.root(state) == self.h).then_some(())?;
                Some((body.root(z), self.gate(z, "Sigmoid")?))
            })?;
            let (r, a, b) = both(body.operands(added, "Mul"), |[rest, g]| {
                let rest = body.made_by(rest, "Sub")?;
                let is_rest = self.is_one(rest.input(0)?) && body.root(rest.input(1)?) == gate;
                let g = body.made_by(g, "Tanh").filter(|_| is_rest)?.input(0)?;
                both(body.operands(g, "Add"), |[a, product]| {
                    both(body.operands(product, "Mul"), |[r, b]| {
                        let (r, a, b) = (self.gate(r, "Sigmoid")?, self.sum(a, None)?, self.sum(b, None)?);
                        (a.h.is_empty() && b.x.is_empty()).then_some((r, a, b))
                    })
                })
            })?;
            Some((Kind::Gru([z, r, a, b]), None))
        })
    }

    /// Returns the value of which another one has these columns.
    fn columns(&self, id: ValueId) -> Option<(ValueId, (i64, i64))> {
        let (source, spans) = op::taken(&self.body.graph, self.body.root(id))?;
        let shape = self.body.graph.value(source).shape.as_ref()?;
        let mut cut =
            spans.iter().filter(|(axis, span)| !shape.get(*axis).is_some_and(|size| span.is_whole(size)));
        let ((axis, span), None) = (cut.next()?, cut.next()) else { return None };
        let (start, end) = (span.start.known()?, span.end().known()?);
        let are_columns = axis + 1 == shape.len() && span.step == 1 && end - start == self.hidden;
        are_columns.then_some((source, (start, end)))
    }

    /// Returns a matrix, or columns of one if the product has all of them.
    fn matrix(&self, id: ValueId, columns: Option<(i64, i64)>) -> Option<(Fixed, Option<(i64, i64)>)> {
        if let Some(value) = self.body.fixed(id) {
            return Some((value, columns));
        }
        let (source, part) = self.columns(id).filter(|_| columns.is_none())?;
        Some((self.body.fixed(source)?, Some(part)))
    }

    fn rnn(&mut self, new: ValueId) -> Option<(Kind, Option<[ValueId; 2]>)> {
        Some((Kind::Rnn(self.gate(new, "Tanh")?), None))
    }

    fn is_one(&self, id: ValueId) -> bool {
        self.body.floats(id).is_some_and(|list| list == [1.0])
    }

    /// Returns the sum of which an activation is taken.
    fn gate(&mut self, id: ValueId, activation: &str) -> Option<Sum> {
        let node = self.body.made_by(id, activation)?;
        self.sum(node.input(0)?, None)
    }

    fn sum(&mut self, id: ValueId, columns: Option<(i64, i64)>) -> Option<Sum> {
        let mut sum = Sum::default();
        self.collect(id, columns, &mut sum)?;
        Some(sum)
    }

    fn collect(&mut self, id: ValueId, columns: Option<(i64, i64)>, sum: &mut Sum) -> Option<()> {
        let body = self.body;
        if let [Some([a, b]), _] = body.operands(id, "Add") {
            self.collect(a, columns, sum)?;
            return self.collect(b, columns, sum);
        }
        if let Some((source, part)) = self.columns(id) {
            return if columns.is_none() { self.collect(source, Some(part), sum) } else { None };
        }
        if let Some(node) = body.made_by(id, "Squeeze").filter(|_| self.is_single) {
            // The only row of a batch, to which it is broadcast again.
            let axes = node
                .input(1)
                .map(|axes| body.ints(axes))
                .or(ints(node, "axes").map(|list| Some(list.to_vec())));
            let is_row = axes.is_none_or(|axes| axes.as_deref() == Some(&[0]));
            return if is_row { self.collect(node.input(0)?, columns, sum) } else { None };
        }
        if let Some(node) = body.made_by(id, "MatMul").or_else(|| body.made_by(id, "Gemm")) {
            let rows = node.input(0).filter(|_| node.is("MatMul") || is_plain_gemm(node))?;
            let is_transposed = is_set(node, "transB");
            let (value, part_columns) = self.matrix(node.input(1)?, columns)?;
            // Columns of a transposed matrix are rows of it.
            if is_transposed && part_columns != columns {
                return None;
            }
            let part = Part { value, is_transposed, columns: part_columns };
            if body.root(rows) == self.h {
                sum.h.push(part);
            } else {
                let sequence = body.sequence(rows)?;
                if *self.sequence.get_or_insert(sequence) != sequence {
                    return None;
                }
                sum.x.push(part);
            }
            return match node.input(2) {
                Some(bias) => self.collect(bias, columns, sum),
                None => Some(()),
            };
        }
        sum.bias.push(Part { value: body.fixed(id)?, is_transposed: false, columns });
        Some(())
    }
}

/// Returns the result of a formula for the operands of a node, in one of both orders.
fn both<T>(orders: [Option<[ValueId; 2]>; 2], find: impl FnMut([ValueId; 2]) -> Option<T>) -> Option<T> {
    orders.into_iter().flatten().find_map(find)
}
