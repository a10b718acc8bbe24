//! A function that maps each row of a matrix to a row, read from its nodes, and applied to other rows.

use std::collections::BTreeMap;

use super::super::matcher::Matcher;
use super::viewed;
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Node, ValueId};
use crate::op::{self, Access, resolve_axis};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{int, is_set};
use crate::tensor::Dim;

/// The most nodes of a function.
const MAX_NODES: usize = 256;

/// A value of the function.
#[derive(Clone, Copy, Debug)]
pub(super) enum Part {
    /// The rows to which it is applied.
    Tokens,
    /// A result of a step.
    Made(Made),
    /// A constant with a row for each expert.
    Table(ValueId),
    /// A constant that all rows share.
    Constant(ValueId),
}

impl Part {
    /// Returns the value from the rows of `tokens` and the outputs of each step.
    fn value<'b>(
        self,
        made: &'b Builder<'b>,
        results: &[Vec<Expr<'b>>],
        tokens: Expr<'b>,
    ) -> Result<Expr<'b>> {
        match self {
            Part::Tokens => Ok(tokens),
            Part::Table(value) | Part::Constant(value) => Ok(made.value(value)),
            Part::Made(made) => made.among(results),
        }
    }
}

/// An output of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct Made {
    pub step: usize,
    output: usize,
}

impl Made {
    /// Returns the value among the outputs of each step.
    fn among<'b>(self, results: &[Vec<Expr<'b>>]) -> Result<Expr<'b>> {
        let result = results.get(self.step).and_then(|step| step.get(self.output)).copied();
        result.ok_or_else(|| Error::internal("a step that is not computed"))
    }
}

/// A node of the function.
pub(super) enum Step {
    /// A copy of a node.
    Copy { node: Node, inputs: Vec<Option<Part>> },
    /// A part of each row, between the bounds of Slice.
    Slice { rows: Part, bounds: [i64; 2], step: i64 },
    /// The products of each row of the tokens with the matrices of all experts, of shape `[experts, out,
    /// in]`, or `[experts, in, out]` if they are `transposed`.
    Products { matrices: ValueId, transposed: bool },
}

/// How the rows lie in the values of the pattern.
#[derive(Clone)]
pub(super) enum Layout {
    /// In matrices.
    Matrix,
    /// As a list of all choices of all tokens, `[tokens * choices, ..]`, or separate, as
    /// `[tokens, choices, ..]`. Of the other axes one may be longer than 1.
    Choices { tokens: Dim, choices: Dim, all: Dim },
}

impl Layout {
    /// Returns the number of elements of a row and, if it is not the only element, their axis.
    pub fn row(&self, matcher: &Matcher, value: ValueId) -> Option<(Dim, Option<usize>)> {
        let Layout::Choices { tokens, choices, all } = self else { return None };
        let shape = matcher.shape(value)?;
        let skipped = match shape {
            [first, ..] if first == all => 1,
            [first, second, ..] if first == tokens && second == choices => 2,
            _ => return None,
        };
        let mut long = shape.iter().enumerate().skip(skipped).filter(|(_, size)| !size.is(1));
        match (long.next(), long.next()) {
            (None, _) => Some((Dim::ONE, None)),
            (Some((axis, size)), None) => Some((size.clone(), Some(axis))),
            _ => None,
        }
    }

    /// Returns whether the elements of a row lie along `axis`.
    fn is_along(&self, matcher: &Matcher, value: ValueId, axis: i64) -> bool {
        match self {
            Layout::Matrix => axis == 1 || axis == -1,
            Layout::Choices { .. } => {
                let resolved = matcher.rank(value).and_then(|rank| resolve_axis(axis, rank).ok());
                resolved.is_some() && self.row(matcher, value).is_some_and(|(_, along)| along == resolved)
            }
        }
    }

    /// Returns the value of which `value` is a view with the same rows.
    pub fn source(&self, matcher: &Matcher, value: ValueId) -> Option<ValueId> {
        let from = viewed(matcher, value)?;
        (self.row(matcher, from)?.0 == self.row(matcher, value)?.0).then_some(from)
    }

    /// Returns the value of which `value` is a chain of views with the same rows.
    pub fn origin(&self, matcher: &Matcher, mut value: ValueId) -> ValueId {
        while let Some(from) = self.source(matcher, value) {
            value = from;
        }
        value
    }
}

/// A function of rows.
pub(super) struct Function {
    pub layout: Layout,
    pub steps: Vec<Step>,
    known: BTreeMap<ValueId, Part>,
}

impl Function {
    pub fn new(layout: Layout) -> Function {
        Function { layout, steps: Vec::new(), known: BTreeMap::new() }
    }

    /// Names a value of the function.
    pub fn set(&mut self, value: ValueId, part: Part) {
        self.known.insert(value, part);
    }

    /// Adds a step that computes a value.
    pub fn add(&mut self, value: ValueId, step: Step) -> Part {
        let part = Part::Made(Made { step: self.steps.len(), output: 0 });
        self.steps.push(step);
        self.set(value, part);
        part
    }

    /// Reads a value as one of the function; `leaf` knows those that are no function of others.
    pub fn read(
        &mut self,
        matcher: &Matcher,
        value: ValueId,
        leaf: &mut dyn FnMut(&mut Function, ValueId) -> Option<Part>,
    ) -> Option<Part> {
        if let Some(part) = self.known.get(&value) {
            return Some(*part);
        }
        if self.steps.len() >= MAX_NODES {
            return None;
        }
        if let Some(part) = leaf(self, value) {
            self.set(value, part);
            return Some(part);
        }
        if let Some(from) = self.layout.source(matcher, value) {
            return self.read(matcher, from, leaf);
        }
        let node = matcher.producer(value)?;
        let x = node.input(0)?;
        if node.is("Split") && self.layout.is_along(matcher, x, int(node, "axis").unwrap_or(0)) {
            let sizes = node.input(1).map(Part::Constant);
            let mut copy = node.clone();
            copy.attributes.insert("axis".into(), Attribute::Int(1));
            let inputs = vec![Some(self.read(matcher, x, leaf)?), sizes];
            return self.copy(value, copy, inputs);
        }
        if let Some((x, spans)) = op::taken(matcher.graph, value) {
            let [(axis, span)] = spans.as_slice() else { return None };
            let bounds = span.bounds(matcher.shape(x)?.get(*axis)?)?;
            let rows =
                self.read(matcher, x, leaf).filter(|_| self.layout.is_along(matcher, x, axis.int()))?;
            return Some(self.add(value, Step::Slice { rows, bounds, step: span.step }));
        }
        let inputs = self.elements(matcher, node, leaf)?;
        self.copy(value, node.clone(), inputs)
    }

    /// Reads the inputs of a node that maps each element, or adds rows.
    fn elements(
        &mut self,
        matcher: &Matcher,
        node: &Node,
        leaf: &mut dyn FnMut(&mut Function, ValueId) -> Option<Part>,
    ) -> Option<Vec<Option<Part>>> {
        let op = op::find_handled(node).ok()?;
        let matrix = matches!(self.layout, Layout::Matrix);
        let is_product = matrix && (node.is("MatMul") || node.is("Gemm") && !is_set(node, "transA"));
        if !matches!(op.access, Access::Elementwise | Access::Broadcast) && !is_product || op.random {
            return None;
        }
        let mut inputs = Vec::with_capacity(node.inputs.len());
        for (index, value) in node.inputs.iter().enumerate() {
            let Some(value) = *value else {
                inputs.push(None);
                continue;
            };
            let Some(constant) = matcher.constant(value) else {
                if index > 0 && (op.access == Access::Elementwise || is_product) {
                    return None;
                }
                inputs.push(Some(self.read(matcher, value, leaf)?));
                continue;
            };
            let shared = match constant.shape() {
                shape if is_product && index == 1 => shape.len() == 2,
                shape if shape.iter().all(|size| *size == 1) => shape.len() <= 2 || !matrix,
                [_] | [1, _] => matrix,
                _ => false,
            };
            if !shared {
                return None;
            }
            inputs.push(Some(Part::Constant(value)));
        }
        (matrix || self.is_by_row(matcher, node, &inputs)).then_some(inputs)
    }

    /// Returns whether elements of the inputs that meet belong to the same row. Rows of a table have all
    /// elements of the result.
    fn is_by_row(&self, matcher: &Matcher, node: &Node, inputs: &[Option<Part>]) -> bool {
        let Some(result) = node.output(0) else { return false };
        let (Some(shape), Some(row)) = (matcher.shape(result), self.layout.row(matcher, result)) else {
            return false;
        };
        let has_table = inputs.iter().any(|part| matches!(part, Some(Part::Table(_))));
        let fits = |value: &ValueId| {
            let (Some(of), Some(other)) = (matcher.shape(*value), self.layout.row(matcher, *value)) else {
                return false;
            };
            let is_one = other.1.is_none() && !has_table;
            of.len() == shape.len() && of.first() == shape.first() && (is_one || other == row)
        };
        node.inputs.iter().flatten().filter(|value| matcher.constant(**value).is_none()).all(fits)
    }

    fn copy(&mut self, value: ValueId, node: Node, inputs: Vec<Option<Part>>) -> Option<Part> {
        let step = self.steps.len();
        for (output, made) in node.outputs.iter().enumerate() {
            self.known.insert((*made)?, Part::Made(Made { step, output }));
        }
        self.steps.push(Step::Copy { node, inputs });
        self.known.get(&value).copied()
    }

    /// Applies the function to the rows of `tokens`: a matrix of rows, or, with `experts`, of the results of
    /// all experts for each row in turn.
    pub fn apply<'b>(
        self,
        made: &'b Builder<'b>,
        tokens: Expr<'b>,
        experts: Option<i64>,
        result: Made,
    ) -> Result<Expr<'b>> {
        let mut results: Vec<Vec<Expr>> = Vec::with_capacity(self.steps.len());
        for step in self.steps {
            let outputs = match step {
                Step::Products { matrices, transposed } => {
                    vec![products(tokens, made.value(matrices), transposed)?]
                }
                Step::Slice { rows, bounds: [start, end], step } => {
                    let rows = rows.value(made, &results, tokens)?;
                    vec![rows.slice_by(1, start, end, step)]
                }
                Step::Copy { node, inputs } => copy(made, &results, tokens, experts, &node, &inputs)?,
            };
            results.push(outputs);
        }
        result.among(&results)
    }
}

fn copy<'b>(
    made: &'b Builder<'b>,
    results: &[Vec<Expr<'b>>],
    tokens: Expr<'b>,
    experts: Option<i64>,
    node: &Node,
    inputs: &[Option<Part>],
) -> Result<Vec<Expr<'b>>> {
    // A row for each expert is added to the rows of each token.
    let width = inputs.iter().flatten().find_map(|part| match part {
        Part::Table(table) => made.value(*table).constant_shape().last().copied(),
        _ => None,
    });
    let rows = experts.zip(width.map(i64::try_from).transpose()?);
    let mut values = Vec::with_capacity(inputs.len());
    for part in inputs {
        let value = part.map(|part| part.value(made, results, tokens)).transpose()?;
        let for_all = |value: Expr<'b>| match (part, rows) {
            (Some(Part::Made(_)), Some((experts, width))) => value.reshape(&[-1, experts, width]),
            _ => value,
        };
        values.push(value.map(for_all));
    }
    let outputs = made.copy_of(node, &values);
    match (rows, outputs.first()) {
        (Some((_, width)), Some(sum)) => Ok(vec![sum.reshape(&[-1, width])]),
        _ => Ok(outputs),
    }
}

fn products<'b>(tokens: Expr<'b>, matrices: Expr<'b>, transposed: bool) -> Result<Expr<'b>> {
    let [experts, rows, columns] = sizes(matrices, transposed)?;
    let perm = if transposed { [1, 0, 2] } else { [2, 0, 1] };
    let all = matrices.transpose(&perm).reshape(&[rows, experts * columns]);
    Ok(tokens.matmul(all).reshape(&[-1, columns]))
}

/// Returns the numbers of experts, and of inputs and outputs of the matrix of each.
pub(super) fn sizes(matrices: Expr, transposed: bool) -> Result<[i64; 3]> {
    let &[experts, a, b] = matrices.constant_shape() else {
        return Err(Error::internal("the matrices of the experts have other axes"));
    };
    let (rows, columns) = if transposed { (a, b) } else { (b, a) };
    Ok([experts.int(), rows.int(), columns.int()])
}
