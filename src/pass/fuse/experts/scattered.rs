//! Experts of which each is applied to the tokens that choose it, and scattered to their rows in a sum.

use std::sync::LazyLock;

use super::super::matcher::{Found, Matcher, fuse, orders, two};
use super::super::text::Pattern;
use super::rows::{Function, Layout, Made, Part, Step};
use super::{Choices, viewed};
use crate::common::int::Int;
use crate::error::{Error, Result};
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::op;
use crate::pass::builder::{Builder, Expr};
use crate::pass::pattern::{axis, int, ints, text};
use crate::tensor::{Span, Tensor};

/// The most nodes between the positions of an expert and the node that reads them.
const MAX_VIEWS: usize = 8;

/// The weight of an expert for its tokens, at their rows and columns in the list of all weights.
static WEIGHT: LazyLock<Pattern> =
    LazyLock::new(|| Pattern::of("Gather(list, Add(index, Mul(row, factor)))"));
/// Where an expert is chosen.
static MARKS: LazyLock<Pattern> = LazyLock::new(|| {
    Pattern::of("Gather(turned = Transpose(marks = OneHot(indices, depth, values)), number)")
});

/// The pattern.
struct Sum {
    choices: Choices,
    /// The multiply-adds of all experts for a token.
    multiply_adds: i64,
    tokens: ValueId,
    /// The number of elements of a token.
    width: i64,
    terms: Vec<Term>,
    /// What the sum begins with, if not with zeros.
    start: Option<ValueId>,
}

/// An expert, its function and the result of that.
struct Term {
    expert: i64,
    function: Function,
    result: Made,
    /// The number of elements of a row of the result.
    width: usize,
}

pub(crate) fn fuse_scattered_experts(graph: &mut Graph) -> Result<bool> {
    fuse(graph, |matcher, node| find(matcher, node).map(Found::open), build)
}

fn build<'b>(made: &'b Builder<'b>, found: Sum) -> Result<Expr<'b>> {
    let weights = found.choices.expert_weights(made, found.multiply_adds);
    let tokens = made.value(found.tokens).reshape(&[-1, found.width]);
    let mut sum = found.start.map(|start| made.value(start));
    for Term { expert, function, result, .. } in found.terms {
        let term = function.apply(made, tokens, None, result)? * weights.slice(1, expert, expert + 1);
        sum = Some(sum.map_or(term, |sum| sum + term));
    }
    sum.ok_or_else(|| Error::internal("a sum without terms"))
}

/// Reads the last addition of a sum over experts.
fn find(matcher: &Matcher, node: &Node) -> Option<Sum> {
    let mut reader = Reader::new(matcher);
    let (mut start, term) = reader.addend(node)?;
    let mut terms = vec![term];
    while let Some((before, term)) = matcher.producer(start).and_then(|node| reader.addend(node)) {
        terms.push(term);
        start = before;
    }
    terms.reverse();
    let choices = reader.choices?;
    let (tokens, width) = reader.tokens?;
    let multiply_adds = reader.sizes.int();
    let mut numbers: Vec<i64> = terms.iter().map(|term| term.expert).collect();
    numbers.sort_unstable();
    let [count, columns] = matcher.shape(start)? else { return None };
    let columns = usize::try_from(columns.known()?).ok()?;
    if !numbers.into_iter().eq(0..choices.experts)
        || terms.iter().any(|term| term.width != columns)
        || matcher.shape(choices.weights)?.first() != Some(count)
    {
        return None;
    }
    let start = (!is_zeros(matcher, start)).then_some(start);
    Some(Sum { choices, multiply_adds, tokens, width, terms, start })
}

/// Whether all elements of a value are 0.
fn is_zeros(matcher: &Matcher, value: ValueId) -> bool {
    let zeros = |tensor: &Tensor| tensor.load_listed().is_ok_and(|array| array.all_numbers(|x| x == 0.0));
    match matcher.made_by(value, "ConstantOfShape") {
        Some(fill) => match fill.attributes.get("value") {
            Some(Attribute::Tensor(element)) => zeros(element),
            other => other.is_none(),
        },
        None => matcher.constant(value).is_some_and(zeros),
    }
}

/// The positions of an expert among the choices: a list of tokens, and one of the indices of its number.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Position {
    /// The NonZero.
    positions: ValueId,
    /// Its row.
    row: usize,
}

struct Reader<'a, 'g> {
    matcher: &'a Matcher<'g>,
    /// The choices that all experts share.
    choices: Option<Choices>,
    tokens: Option<(ValueId, i64)>,
    /// The number of elements of all matrices.
    sizes: usize,
}

impl<'a, 'g> Reader<'a, 'g> {
    fn new(matcher: &'a Matcher<'g>) -> Reader<'a, 'g> {
        Reader { matcher, choices: None, tokens: None, sizes: 0 }
    }

    /// Reads the addition of an expert: the other addend, and the expert.
    fn addend(&mut self, node: &Node) -> Option<(ValueId, Term)> {
        let matcher = self.matcher;
        if node.is("Add") {
            return orders(node).find_map(|(before, term)| {
                let scatter = matcher.made_by(term, "ScatterElements")?;
                let into_zeros = is_zeros(matcher, scatter.input(0)?);
                Some((before, self.term(scatter, before).filter(|_| into_zeros)?))
            });
        }
        let before = node.input(0).filter(|_| node.is("ScatterElements"))?;
        // The first expert may be added to zeros, which simplification removes.
        let adds = text(node, "reduction") == Some("add") || is_zeros(matcher, before);
        adds.then_some(())?;
        Some((before, self.term(node, before)?))
    }

    /// Reads what is scattered to the tokens of an expert. The tokens differ, because the choices of a token
    /// do.
    fn term(&mut self, scatter: &Node, before: ValueId) -> Option<Term> {
        let matcher = self.matcher;
        let replaces =
            text(scatter, "reduction").is_none_or(|reduction| ["none", "add"].contains(&reduction));
        if !replaces || axis(scatter, 0, 2)? != 0 {
            return None;
        }
        let column = matcher.made_by(scatter.input(1)?, "Expand")?.input(0)?;
        let token = self.position(matcher.producer(column)?.input(0)?).filter(|_| self.is_column(column))?;
        let mut updates = scatter.input(2)?;
        let mut columns = None;
        if let Some(expand) = matcher.made_by(updates, "Expand") {
            let shape = expand.input(1)?;
            match matcher.ints(shape).as_deref() {
                Some([1, width]) => columns = Some(*width),
                None if self.is_row_of(matcher.made_by(shape, "Shape")?.input(0)?, before) => {}
                _ => return None,
            }
            updates = expand.input(0)?;
        }
        while let Some(cast) = matcher.made_by(updates, "Cast") {
            updates = cast.input(0)?;
        }
        let weighted = matcher.made_by(updates, "Mul")?;
        orders(weighted).find_map(|(value, weight)| {
            let (weights, choices, choice) = self.weight(weight, token)?;
            let (expert, choices) = self.choices_of(token, choice, weights, choices)?;
            if self.choices.is_some_and(|known| known != choices) {
                return None;
            }
            let mut function = Function::new(Layout::Matrix);
            let mut tokens = None;
            let part = function.read(matcher, value, &mut |_, value| {
                let found = self.gathered(value, token, weights)?;
                (*tokens.get_or_insert(found) == found).then_some(Part::Tokens)
            });
            let Part::Made(result) = part? else { return None };
            let is_known = self.tokens.is_none_or(|known| Some(known) == tokens);
            let sizes = function
                .steps
                .iter()
                .map(|step| matrix(matcher, step).map_or(0, |[rows, columns]| rows * columns));
            let sizes: usize = sizes.sum();
            let [_, width] = function.steps.get(result.step).and_then(|step| matrix(matcher, step))?;
            let fits =
                columns.is_none_or(|columns| usize::try_from(columns).is_ok_and(|columns| columns == width));
            if !is_known || !fits {
                return None;
            }
            (self.choices, self.tokens) = (Some(choices), tokens);
            self.sizes = self.sizes.checked_add(sizes)?;
            Some(Term { expert, function, result, width })
        })
    }

    /// Whether a value is the first row of a sum.
    fn is_row_of(&self, value: ValueId, sum: ValueId) -> bool {
        let Some((whole, spans)) = op::taken(self.matcher.graph, value) else { return false };
        let shape = self.matcher.shape(whole).unwrap_or_default();
        let is_first = |(axis, span): &(usize, Span)| match axis {
            0 => *span == Span::of(0, 1),
            _ => shape.get(*axis).is_some_and(|size| span.is_whole(size)),
        };
        whole == sum && spans.first().is_some_and(|(axis, _)| *axis == 0) && spans.iter().all(is_first)
    }

    /// Reads the weight of an expert for each of its tokens: all weights, the number of choices of a token,
    /// and the position among them.
    fn weight(&self, value: ValueId, token: Position) -> Option<(ValueId, i64, Position)> {
        let matcher = self.matcher;
        if !self.is_column(value) {
            return None;
        }
        let mut source = value;
        for _ in 0..MAX_VIEWS {
            let Some(view) = viewed(self.matcher, source) else { break };
            source = view;
        }
        is_along_first(matcher.producer(source)?).then_some(())?;
        WEIGHT.matches(matcher, source).into_iter().find_map(|found| {
            let [list, choice, row, factor] = found.values(["list", "index", "row", "factor"])?;
            if matcher.shape(list)?.iter().skip(1).any(|size| !size.is(1)) {
                return None;
            }
            let mut weights = viewed(matcher, list)?;
            while matcher.rank(weights)? != 2 {
                weights = viewed(matcher, weights)?;
            }
            let choices = matcher.shape(weights)?.last()?.known()?;
            (matcher.int(factor)? == choices && self.position(row)? == token).then_some(())?;
            Some((weights, choices, self.position(choice)?))
        })
    }

    /// Reads the expert to which positions belong, and the choices.
    fn choices_of(
        &self,
        token: Position,
        choice: Position,
        weights: ValueId,
        choices: i64,
    ) -> Option<(i64, Choices)> {
        let matcher = self.matcher;
        if token.positions != choice.positions {
            return None;
        }
        let mut mask = matcher.made_by(token.positions, "NonZero")?.input(0)?;
        while let Some(cast) = matcher.made_by(mask, "Cast") {
            mask = cast.input(0)?;
        }
        is_along_first(matcher.producer(mask)?).then_some(())?;
        let found = MARKS.matches(matcher, mask).pop()?;
        let [turned, marks, number] = found.values(["turned", "marks", "number"])?;
        let [indices, depth, values] = found.values(["indices", "depth", "values"])?;
        let (expert, experts) = (matcher.int(number)?, matcher.int(depth)?);
        if !matcher.constant(number)?.shape().is_empty() {
            return None;
        }
        let rows = match ints(matcher.producer(turned)?, "perm")? {
            [2, 1, 0] => (1, 0),
            [2, 0, 1] => (0, 1),
            _ => return None,
        };
        if (token.row, choice.row) != rows {
            return None;
        }
        let top = matcher.made_by(indices, "TopK")?;
        let is_last = axis(matcher.producer(marks)?, -1, 3)? == 2;
        let of_rows = matcher.rank(indices)? == 2 && axis(top, -1, 2)? == 1;
        let fits = matcher.ints(values)? == [0, 1] && is_last && of_rows && top.output(1) == Some(indices);
        if !fits || matcher.shape(indices)? != matcher.shape(weights)? {
            return None;
        }
        Some((expert, Choices { indices, weights, choices, experts }))
    }

    /// Reads a row of positions.
    fn position(&self, mut value: ValueId) -> Option<Position> {
        let matcher = self.matcher;
        let mut row = None;
        for _ in 0..MAX_VIEWS {
            let node = matcher.producer(value)?;
            if node.is("NonZero") {
                return Some(Position { positions: value, row: row? });
            }
            if node.is("Split") && int(node, "axis").is_some_and(|axis| axis == 1) {
                let sizes = matcher.ints(node.input(1)?)?;
                row = node.outputs.iter().position(|output| *output == Some(value));
                if row.is_none() || sizes != [1, 1] {
                    return None;
                }
                // The columns are the rows of the transposed matrix.
                let transpose = matcher.made_by(node.input(0)?, "Transpose")?;
                value = transpose
                    .input(0)
                    .filter(|_| ints(transpose, "perm").is_none_or(|perm| perm == [1, 0]))?;
                continue;
            }
            value = viewed(self.matcher, value)?;
        }
        None
    }

    /// Reads the tokens of an expert: all tokens, and the number of elements of each.
    fn gathered(&self, value: ValueId, token: Position, weights: ValueId) -> Option<(ValueId, i64)> {
        let matcher = self.matcher;
        let mut source = value;
        let mut columns = None;
        if let Some(reshape) = matcher.made_by(value, "Reshape") {
            let [-1, width] = *matcher.ints(reshape.input(1)?)?.as_slice() else { return None };
            (source, columns) = (reshape.input(0)?, Some(width));
        }
        let [all, rows] = two(matcher.made_by(source, "Gather")?)?;
        let shape = matcher.shape(all)?;
        let (width, outer) = shape.split_last()?;
        let (count, outer) = outer.split_last()?;
        let along = axis(matcher.made_by(source, "Gather")?, 0, shape.len())?;
        let is_plain = columns.is_some() || shape.len() == 2;
        let fits = is_plain
            && along + 2 == shape.len()
            && outer.iter().all(|size| size.is(1))
            && matcher.shape(weights)?.first() == Some(count)
            && columns.is_none_or(|columns| width.is(columns))
            && self.position(rows)? == token;
        Some((all, width.known().filter(|_| fits)?))
    }

    /// Whether a value is a list as a column.
    fn is_column(&self, value: ValueId) -> bool {
        let matcher = self.matcher;
        let is = |op_type, test: &dyn Fn(&Node) -> Option<bool>| {
            matcher.made_by(value, op_type).and_then(test).unwrap_or(false)
        };
        let adds_last = |node: &Node| {
            Some(matches!(matcher.ints(node.input(1)?)?.as_slice(), [axis] if [1, -1].contains(axis)))
        };
        let has_one_column = |node: &Node| {
            let shape = node.input(1)?;
            if let Some(shape) = matcher.ints(shape) {
                return Some(shape == [-1, 1]);
            }
            let [Some(length), Some(one)] = *matcher.made_by(shape, "Concat")?.inputs.as_slice() else {
                return None;
            };
            Some(matcher.made_by(length, "Shape").is_some() && matcher.ints(one)? == [1])
        };
        is("Unsqueeze", &adds_last) || is("Reshape", &has_one_column)
    }
}

fn is_along_first(gather: &Node) -> bool {
    int(gather, "axis").is_none_or(|axis| axis == 0)
}

/// The numbers of rows and columns of the matrix of a product.
fn matrix(matcher: &Matcher, step: &Step) -> Option<[usize; 2]> {
    let Step::Copy { node, inputs } = step else { return None };
    let Some(Some(Part::Constant(matrix))) = inputs.get(1) else { return None };
    let [rows, columns] = <[usize; 2]>::try_from(matcher.constant(*matrix)?.shape()).ok()?;
    match int(node, "transB") {
        _ if node.is("MatMul") => Some([rows, columns]),
        Some(1) if node.is("Gemm") => Some([columns, rows]),
        _ if node.is("Gemm") => Some([rows, columns]),
        _ => None,
    }
}
