//! Einsum, as sums and products of its operands two at a time.
//!
//! | ONNX | expands to |
//! | --- | --- |
//! | a repeated label in one operand | Transpose, Reshape and a Slice along the diagonal |
//! | a summed label | MatMul if both operands have it, otherwise ReduceSum |
//! | any other label | Mul over axes of size 1 |
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx__Einsum.html>.

mod contract;

use std::collections::BTreeMap;

use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[Row::defined("", "Einsum", contract::expand_einsum)
    .multiply_adds(multiply_adds)
    .lowers_to("Transpose, MatMul, ReduceSum, Mul of two operands at a time")];

/// The label of an axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Label {
    /// An axis of the ellipsis, counted from its end, at which operands are aligned.
    Ellipsis(usize),
    Letter(char),
}

/// A term of the equation: letters, and at most one ellipsis.
#[derive(Clone, Debug, PartialEq)]
struct Term {
    before: Vec<char>,
    ellipsis: bool,
    after: Vec<char>,
}

fn read_term(text: &str) -> Result<Term> {
    let (before, ellipsis, after) = match text.split_once("...") {
        Some((before, after)) => (before, true, after),
        None => (text, false, ""),
    };
    let letters = |text: &str| -> Result<Vec<char>> {
        match text.chars().find(|c| !c.is_ascii_alphabetic()) {
            Some(other) => Err(Error::invalid(format!("unexpected \"{other}\" in the equation"))
                .at_part("attribute equation")),
            None => Ok(text.chars().collect()),
        }
    };
    Ok(Term { before: letters(before)?, ellipsis, after: letters(after)? })
}

impl Term {
    fn letters(&self) -> impl Iterator<Item = char> {
        self.before.iter().chain(&self.after).copied()
    }

    /// Returns the labels of the axes, with `rank` axes for the ellipsis.
    fn labels(&self, rank: usize) -> Vec<Label> {
        let ellipsis = (0..if self.ellipsis { rank } else { 0 }).rev().map(Label::Ellipsis);
        let letter = |c: &char| Label::Letter(*c);
        self.before.iter().map(letter).chain(ellipsis).chain(self.after.iter().map(letter)).collect()
    }
}

/// The equation: the labels of each operand and of the output.
struct Equation {
    operands: Vec<Vec<Label>>,
    output: Vec<Label>,
}

fn read_equation(call: &Call, ranks: &[usize]) -> Result<Equation> {
    let text = call.string("equation")?;
    parse(&text.replace(' ', ""), ranks).map_err(|e| e.at_part("attribute equation"))
}

fn parse(text: &str, ranks: &[usize]) -> Result<Equation> {
    let (left, right) = match text.split_once("->") {
        Some((left, right)) => (left, Some(right)),
        None => (text, None),
    };
    let terms: Vec<Term> = left.split(',').map(read_term).collect::<Result<_>>()?;
    if terms.len() != ranks.len() {
        invalid!("an equation of {} operands for {}", terms.len(), ranks.len());
    }
    let mut operands = Vec::with_capacity(terms.len());
    let mut ellipsis = 0;
    for (term, rank) in terms.iter().zip(ranks) {
        let letters = term.letters().count();
        match (rank.checked_sub(letters), term.ellipsis) {
            (Some(0), false) => operands.push(term.labels(0)),
            (Some(rest), true) => {
                ellipsis = ellipsis.max(rest);
                operands.push(term.labels(rest));
            }
            _ => invalid!("{letters} letters for an operand of {rank} axes"),
        }
    }
    let output = match right {
        Some(right) => read_term(right)?.labels(ellipsis),
        None => {
            // Letters that occur once, in the order of their codes, after the ellipsis.
            let mut count: BTreeMap<char, usize> = BTreeMap::new();
            for letter in terms.iter().flat_map(Term::letters) {
                *count.entry(letter).or_default() += 1;
            }
            let once =
                count.into_iter().filter(|(_, count)| *count == 1).map(|(letter, _)| Label::Letter(letter));
            (0..ellipsis).rev().map(Label::Ellipsis).chain(once).collect()
        }
    };
    for (i, label) in output.iter().enumerate() {
        if output.iter().skip(i + 1).any(|other| other == label) {
            invalid!("a label occurs twice in the output");
        }
        if !operands.iter().flatten().any(|other| other == label) {
            invalid!("a label of the output occurs in no operand");
        }
    }
    Ok(Equation { operands, output })
}

/// Returns the equation of a node whose operands have a known rank.
fn equation(call: &Call) -> Result<Equation> {
    let ranks: Result<Vec<usize>> = (0..call.input_count()).map(|i| Ok(call.shape(i)?.len())).collect();
    read_equation(call, &ranks?)
}

/// Each product of an element of each operand is one, for all values of the labels.
fn multiply_adds(call: &Call) -> Option<u64> {
    let sizes: BTreeMap<Label, Dim> = equation(call)
        .ok()?
        .operands
        .into_iter()
        .enumerate()
        .map(|(i, labels)| Some(labels.into_iter().zip(call.shape(i).ok()?.iter().cloned())))
        .collect::<Option<Vec<_>>>()?
        .into_iter()
        .flatten()
        .filter(|(_, size)| !size.is(1))
        .collect();
    element_count(&sizes.into_values().collect::<Vec<_>>())
}

/// Returns the index of a label.
fn index_of(labels: &[Label], label: Label) -> Option<usize> {
    labels.iter().position(|other| *other == label)
}

fn size_of<'a>(labels: &[Label], sizes: &'a [Dim], label: Label) -> Result<&'a Dim> {
    let index = index_of(labels, label).ok_or_else(|| Error::invalid("an operand lacks the label"))?;
    sizes.at(index)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equations_are_parsed() {
        let l = Label::Letter;
        let e = Label::Ellipsis;
        for (text, ranks, operands, output) in [
            (
                "ij,jk->ik",
                &[2, 2][..],
                vec![vec![l('i'), l('j')], vec![l('j'), l('k')]],
                vec![l('i'), l('k')],
            ),
            ("ba", &[2], vec![vec![l('b'), l('a')]], vec![l('a'), l('b')]),
            ("ij,jk", &[2, 2], vec![vec![l('i'), l('j')], vec![l('j'), l('k')]], vec![l('i'), l('k')]),
            ("...ii->...i", &[4], vec![vec![e(1), e(0), l('i'), l('i')]], vec![e(1), e(0), l('i')]),
            ("a...,...", &[1, 2], vec![vec![l('a')], vec![e(1), e(0)]], vec![e(1), e(0), l('a')]),
            ("->", &[0], vec![vec![]], vec![]),
        ] {
            let equation = parse(text, ranks).unwrap();
            assert_eq!((equation.operands, equation.output), (operands, output), "{text}");
        }
        for (text, ranks) in
            [("ij->ii", &[2][..]), ("ij->k", &[2]), ("ij", &[3]), ("i,j", &[1]), ("i1", &[2])]
        {
            assert!(parse(text, ranks).is_err(), "{text}");
        }
    }
}
