//! Experts whose matrices are gathered for each choice of a token.

use super::super::matcher::{Found, Matcher, fuse, orders, two};
use super::rows::{Function, Layout, Made, Part, Step, sizes};
use super::{Choices, viewed};
use crate::common::int::Int;
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axes, int, is_set};
use crate::tensor::Dim;

/// The pattern.
struct Experts {
    /// The rows, whatever their shape.
    tokens: ValueId,
    /// The number of elements of a row.
    width: i64,
    choices: Choices,
    expert: Expert,
    /// The multiply-adds of all experts for a token.
    multiply_adds: i64,
    /// The shape of the result.
    shape: Vec<i64>,
}

/// An expert: a function, and products of its result.
struct Expert {
    function: Function,
    /// The result of the function.
    inner: Made,
    /// The last matrices, and whether they are of shape `[experts, in, out]`.
    last: (ValueId, bool),
    /// The addends of the last products, if any.
    bias: Option<ValueId>,
}

pub(crate) fn fuse_gathered_experts(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |matcher, node| find(matcher, node).map(Found::open), build)
}

fn build<'b>(made: &'b Builder<'b>, found: Experts) -> Result<Expr<'b>> {
    let Experts { tokens, width, choices, expert, multiply_adds, shape } = found;
    let Expert { function, inner, last: (matrices, transposed), bias } = expert;
    let tokens = made.value(tokens).reshape(&[-1, width]);
    let weights = choices.expert_weights(made, multiply_adds);
    let result = function.apply(made, tokens, Some(choices.experts), inner)?;
    let matrices = made.value(matrices);
    let [experts, rows, columns] = sizes(matrices, transposed)?;
    let weighted = result.reshape(&[-1, experts, rows]) * weights.reshape(&[-1, experts, 1]);
    let weighted = weighted.reshape(&[-1, experts * rows]);
    let ordered = if transposed { matrices } else { matrices.transpose(&[0, 2, 1]) };
    let mut sum = weighted.matmul(ordered.reshape(&[experts * rows, columns]));
    if let Some(bias) = bias {
        sum = sum + weights.matmul(made.value(bias));
    }
    Ok(sum.reshape(&shape))
}

/// Reads a sum over the choices of each token.
fn find(matcher: &Matcher, node: &Node) -> Option<Experts> {
    let x = node.input(0).filter(|_| node.is("ReduceSum"))?;
    let [tokens, choices, width] = matcher.shape(x)? else { return None };
    if axes(matcher.graph, node)? != [1] {
        return None;
    }
    let (count, width) = (choices.known()?, width.known()?);
    let all = tokens * choices;
    let keeps = int(node, "keepdims").is_none_or(|keeps| keeps != 0);
    let shape = if keeps { vec![-1, 1, width] } else { vec![-1, width] };
    let layout = Layout::Choices { tokens: tokens.clone(), choices: choices.clone(), all };
    let weighted = matcher.made_by(layout.origin(matcher, x), "Mul")?;
    orders(weighted).find_map(|(value, weights)| {
        let is_weight = layout.row(matcher, weights)?.0.is(1) && matcher.is_float(weights);
        let mut reader =
            Reader { matcher, layout: layout.clone(), indices: None, experts: None, tokens: None, sizes: 0 };
        let expert = reader.expert(value).filter(|_| is_weight)?;
        let (tokens, width) = reader.tokens?;
        let choices =
            Choices { indices: reader.indices?, weights, choices: count, experts: reader.experts?.int() };
        let multiply_adds = reader.sizes.int();
        Some(Experts { tokens, width, choices, expert, multiply_adds, shape: shape.clone() })
    })
}

struct Reader<'a, 'g> {
    matcher: &'a Matcher<'g>,
    layout: Layout,
    indices: Option<ValueId>,
    experts: Option<usize>,
    /// The tokens, and the number of elements of each.
    tokens: Option<(ValueId, i64)>,
    /// The number of elements of all matrices.
    sizes: usize,
}

impl Reader<'_, '_> {
    fn expert(&mut self, value: ValueId) -> Option<Expert> {
        let matcher = self.matcher;
        let mut last = self.layout.origin(matcher, value);
        let mut bias = None;
        if let Some(add) = matcher.made_by(last, "Add") {
            let (sum, table) = orders(add).find_map(|(sum, table)| Some((sum, self.table(table, 2)?)))?;
            bias = Some(table);
            last = self.layout.origin(matcher, sum);
        }
        let (matrices, transposed, x) = self.product(matcher.made_by(last, "MatMul")?)?;
        let mut function = Function::new(self.layout.clone());
        let part = function.read(matcher, x, &mut |function, value| self.leaf(function, value))?;
        let Part::Made(inner) = part else { return None };
        Some(Expert { function, inner, last: (matrices, transposed), bias })
    }

    /// Reads a product of the rows with gathered matrices: the constant, whether its matrices are of shape
    /// `[in, out]`, and the rows.
    fn product(&mut self, node: &Node) -> Option<(ValueId, bool, ValueId)> {
        let [a, b] = two(node)?;
        let (table, transposed, x) = match self.table(a, 3) {
            Some(table) => (table, false, b),
            None => (self.table(b, 3)?, true, a),
        };
        // The rows are columns, or rows, of matrices.
        let along = self.layout.row(self.matcher, x)?.1;
        let rank = self.matcher.rank(x)?;
        let row_axis = if transposed { 2 } else { 1 };
        if rank != 3 || along.is_some_and(|axis| axis != row_axis) {
            return None;
        }
        self.sizes = self.sizes.checked_add(self.matcher.constant(table)?.shape().iter().product())?;
        Some((table, transposed, x))
    }

    /// Reads a constant with an element of `rank - 1` axes for each expert, gathered for each choice.
    fn table(&mut self, value: ValueId, rank: usize) -> Option<ValueId> {
        let matcher = self.matcher;
        let node = matcher.producer(value)?;
        let [table, mut indices] = two(node)?;
        let shape = matcher.constant(table)?.shape();
        let gathers = node.is("Gather") && int(node, "axis").is_none_or(|axis| axis == 0);
        let of = matcher.shape(indices)?;
        let gathers_rows =
            node.is("GatherND") && !is_set(node, "batch_dims") && of.last().is_some_and(|size| size.is(1));
        let Layout::Choices { all, .. } = &self.layout else { return None };
        if !(gathers || gathers_rows)
            || shape.len() != rank
            || matcher.rank(value)? != rank
            || Dim::product(of) != *all
        {
            return None;
        }
        while let Some(list) = viewed(matcher, indices) {
            indices = list;
        }
        let experts = *shape.first()?;
        if self.indices.is_some_and(|known| known != indices)
            || self.experts.is_some_and(|known| known != experts)
        {
            return None;
        }
        (self.indices, self.experts) = (Some(indices), Some(experts));
        Some(table)
    }

    fn leaf(&mut self, function: &mut Function, value: ValueId) -> Option<Part> {
        let matcher = self.matcher;
        if let Some(table) = self.table(value, 2) {
            return Some(Part::Table(table));
        }
        let node = matcher.made_by(value, "MatMul")?;
        let (matrices, transposed, x) = self.product(node)?;
        let (source, width) = self.repeated(x)?;
        if self.tokens.is_some_and(|known| known != (source, width)) {
            return None;
        }
        self.tokens = Some((source, width));
        Some(function.add(value, Step::Products { matrices, transposed }))
    }

    /// Reads rows that repeat each token for each of its choices.
    fn repeated(&self, value: ValueId) -> Option<(ValueId, i64)> {
        let matcher = self.matcher;
        let Layout::Choices { tokens, choices, .. } = &self.layout else { return None };
        let value = self.layout.origin(matcher, value);
        let width = self.layout.row(matcher, value)?.0.known()?;
        if choices.is(1) {
            return Some((value, width));
        }
        let source = matcher.made_by(value, "Expand")?.input(0)?;
        let repeats = match (matcher.shape(source)?, matcher.shape(value)?) {
            ([a, one, ..], [b, count, ..]) => a == tokens && b == tokens && one.is(1) && count == choices,
            _ => false,
        };
        repeats.then_some((source, width))
    }
}
