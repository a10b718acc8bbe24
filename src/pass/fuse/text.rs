//! Patterns in text.
//!
//! `Add(Mul(x, cos), Mul(y, sin))` is a sum of two products. A word that begins with a small letter is a
//! value, the same one wherever it stands; a number is a constant of one element; `t = Atan(x)` names the
//! value of a node. `a | b` is `a` or `b`. After `&`, the value of a node may have readers outside of the
//! pattern. Operators are from ONNX's domain, with exactly these inputs; the inputs of Add, BitwiseOr and Mul
//! may be in either order. `Div(a, b)` is also `a * (1 / b)` and `a * Reciprocal(b)`. Reductions keep their
//! axes, which are not among the inputs.

use std::collections::{BTreeMap, BTreeSet};

use super::matcher::{Found, Matcher, orders, two};
use crate::graph::{Node, ValueId};
use crate::pass::pattern::int;

/// A pattern.
pub(super) struct Pattern(Vec<Term>);

enum Term {
    Value(&'static str),
    Scalar(f64),
    Node {
        op_type: &'static str,
        /// The alternatives of each input.
        inputs: Vec<Vec<Term>>,
        name: Option<&'static str>,
        is_shared: bool,
    },
}

/// The values of a match.
#[derive(Clone, Default)]
pub(super) struct Bound {
    values: BTreeMap<&'static str, ValueId>,
    /// The values of nodes inside of the pattern.
    pub inner: BTreeSet<ValueId>,
}

impl Bound {
    /// Returns the values of these names.
    pub fn values<const N: usize>(&self, names: [&str; N]) -> Option<[ValueId; N]> {
        let found: Option<Vec<ValueId>> = names.iter().map(|name| self.value(name)).collect();
        found?.try_into().ok()
    }

    /// Returns the value of a name.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.get(name).copied()
    }

    /// Returns whether a name stands for a value, which it does from now on.
    fn bind(&mut self, name: &'static str, value: ValueId) -> bool {
        *self.values.entry(name).or_insert(value) == value
    }
}

impl Pattern {
    /// Reads a pattern. One that cannot be read matches nothing, and the fusion that has it fails its test.
    pub fn of(text: &'static str) -> Pattern {
        let mut rest = text;
        Pattern(alternatives(&mut rest).filter(|_| rest.is_empty()).unwrap_or_default())
    }

    /// Returns the matches of a value. The value itself is not inside of the pattern.
    pub fn matches(&self, matcher: &Matcher, value: ValueId) -> Vec<Bound> {
        let mut found = any(&self.0, matcher, value, &Bound::default());
        for bound in &mut found {
            bound.inner.remove(&value);
        }
        found
    }

    /// Reads a node as a function of each element of the value `x`.
    pub fn function(&self, matcher: &Matcher, node: &Node) -> Option<Found<ValueId>> {
        let y = node.output(0)?;
        self.matches(matcher, y).into_iter().find_map(|found| {
            let [x] = found.values(["x"])?;
            matcher.alike(x, y).then_some(Found { inner: found.inner, parts: x })
        })
    }

    /// Continues a match at one of its values, which is inside of the pattern. Names that are bound keep
    /// their values.
    pub fn continued(&self, matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
        any(&self.0, matcher, value, bound)
    }
}

fn any(terms: &[Term], matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
    terms.iter().flat_map(|term| term.matches(matcher, value, bound)).collect()
}

impl Term {
    fn matches(&self, matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
        let (op_type, inputs, name, is_shared) = match self {
            Term::Value(name) => {
                let mut bound = bound.clone();
                return Vec::from_iter(bound.bind(name, value).then_some(bound));
            }
            Term::Scalar(scalar) => {
                return Vec::from_iter(matcher.is_scalar(value, *scalar).then(|| bound.clone()));
            }
            Term::Node { op_type, inputs, name, is_shared } => (op_type, inputs, name, is_shared),
        };
        let mut found = Vec::new();
        for (operands, inverse) in readings(matcher, value, op_type) {
            let mut bound = bound.clone();
            if operands.len() != inputs.len() || name.is_some_and(|name| !bound.bind(name, value)) {
                continue;
            }
            if !is_shared {
                bound.inner.extend([value].into_iter().chain(inverse));
            }
            found.extend(inputs.iter().zip(operands).fold(vec![bound], |found, (terms, operand)| {
                found.iter().flat_map(|bound| any(terms, matcher, operand, bound)).collect()
            }));
        }
        found
    }
}

/// The operands of an operator that computes a value, in each order, and the inverse of the divisor that is
/// between.
fn readings(matcher: &Matcher, value: ValueId, op_type: &str) -> Vec<(Vec<ValueId>, Option<ValueId>)> {
    let Some(node) = matcher.producer(value) else { return Vec::new() };
    if op_type == "Div" {
        return quotients(matcher, node).map(|(operands, inverse)| (operands.to_vec(), inverse)).collect();
    }
    let is_reduction = op_type.starts_with("Reduce");
    if !node.is(op_type) || is_reduction && int(node, "keepdims") == Some(0) {
        return Vec::new();
    }
    let count = if is_reduction { 1 } else { node.inputs.len() };
    let operands: Option<Vec<ValueId>> = node.inputs.iter().take(count).copied().collect();
    let Some(operands) = operands else { return Vec::new() };
    let reversed =
        ["Add", "BitwiseOr", "Mul"].contains(&op_type).then(|| operands.iter().rev().copied().collect());
    [Some(operands), reversed].into_iter().flatten().map(|operands| (operands, None)).collect()
}

/// The dividend and the divisor of a node as a quotient, and the inverse of the divisor if that is a factor.
fn quotients(matcher: &Matcher, node: &Node) -> impl Iterator<Item = ([ValueId; 2], Option<ValueId>)> {
    let divided = two(node).filter(|_| node.is("Div")).map(|operands| (operands, None));
    let inverted = |inverse: ValueId| {
        if let Some(reciprocal) = matcher.made_by(inverse, "Reciprocal") {
            return reciprocal.input(0);
        }
        let [one, divisor] = two(matcher.made_by(inverse, "Div")?)?;
        matcher.is_scalar(one, 1.0).then_some(divisor)
    };
    let multiplied = orders(node).filter(|_| node.is("Mul"));
    let multiplied = multiplied
        .filter_map(move |(dividend, inverse)| Some(([dividend, inverted(inverse)?], Some(inverse))));
    divided.into_iter().chain(multiplied)
}

fn alternatives(rest: &mut &'static str) -> Option<Vec<Term>> {
    let mut terms = vec![term(rest)?];
    while skip(rest, '|') {
        terms.push(term(rest)?);
    }
    Some(terms)
}

fn term(rest: &mut &'static str) -> Option<Term> {
    let is_shared = skip(rest, '&');
    let mut word = word(rest);
    if let Ok(scalar) = word.parse() {
        return Some(Term::Scalar(scalar));
    }
    let name = skip(rest, '=').then_some(word);
    if name.is_some() {
        word = self::word(rest);
    }
    if word.starts_with(|c: char| c.is_ascii_lowercase()) {
        return Some(Term::Value(word));
    }
    if !skip(rest, '(') {
        return None;
    }
    let mut inputs = vec![alternatives(rest)?];
    while skip(rest, ',') {
        inputs.push(alternatives(rest)?);
    }
    skip(rest, ')').then_some(Term::Node { op_type: word, inputs, name, is_shared })
}

/// Takes a word or a number.
fn word(rest: &mut &'static str) -> &'static str {
    let text = rest.trim_start();
    let end = text.find(|c: char| !c.is_ascii_alphanumeric() && !"_.-".contains(c)).unwrap_or(text.len());
    let (word, after) = text.split_at(end);
    *rest = after.trim_start();
    word
}

fn skip(rest: &mut &'static str, sign: char) -> bool {
    match rest.trim_start().strip_prefix(sign) {
        Some(after) => {
            *rest = after.trim_start();
            true
        }
        None => false,
    }
}
