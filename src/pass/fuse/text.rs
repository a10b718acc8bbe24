//! Patterns in text.
//!
//! `Add(Mul(x, cos), Mul(y, sin))` is a sum of two products. A word that begins with a small letter is a value, the same
//! one wherever it stands; a number is a constant of one element; `t = Atan(x)` names the value of a node. `a | b` is
//! `a` or `b`. After `&`, the value of a node may have readers outside of the pattern. Operators are those of ONNX's own
//! domain, with exactly these inputs, of which those of Add and Mul may be in either order.

use std::collections::{BTreeMap, BTreeSet};

use super::matcher::Matcher;
use crate::graph::ValueId;

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
        let found: Option<Vec<ValueId>> = names.iter().map(|name| self.values.get(name).copied()).collect();
        found?.try_into().ok()
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

    /// Returns the matches of a value. Its own value is not inside of the pattern.
    pub fn matches(&self, matcher: &Matcher, value: ValueId) -> Vec<Bound> {
        self.matches_with(matcher, value, &Bound::default())
    }

    /// Returns the matches of a value in which names that are bound keep their values.
    pub fn matches_with(&self, matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
        let mut found = any(&self.0, matcher, value, bound);
        for bound in &mut found {
            bound.inner.remove(&value);
        }
        found
    }
}

fn any(terms: &[Term], matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
    terms.iter().flat_map(|term| term.matches(matcher, value, bound)).collect()
}

impl Term {
    fn matches(&self, matcher: &Matcher, value: ValueId, bound: &Bound) -> Vec<Bound> {
        let mut bound = bound.clone();
        let (op_type, inputs) = match self {
            Term::Value(name) => return Vec::from_iter(bound.bind(name, value).then_some(bound)),
            Term::Scalar(scalar) => {
                return Vec::from_iter(matcher.is_scalar(value, *scalar).then_some(bound));
            }
            Term::Node { op_type, inputs, name, is_shared } => {
                if name.is_some_and(|name| !bound.bind(name, value)) {
                    return Vec::new();
                }
                if !is_shared {
                    bound.inner.insert(value);
                }
                (op_type, inputs)
            }
        };
        let Some(node) = matcher.made_by(value, op_type) else { return Vec::new() };
        let given: Option<Vec<ValueId>> = node.inputs.iter().copied().collect();
        let Some(mut given) = given.filter(|given| given.len() == inputs.len()) else { return Vec::new() };
        let in_order = |given: &[ValueId]| {
            inputs.iter().zip(given).fold(vec![bound.clone()], |found, (terms, value)| {
                found.iter().flat_map(|bound| any(terms, matcher, *value, bound)).collect()
            })
        };
        let mut found = in_order(&given);
        if ["Add", "Mul"].contains(op_type) {
            given.reverse();
            found.extend(in_order(&given));
        }
        found
    }
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
