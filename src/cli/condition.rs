//! Conditions on free sizes in words.

use std::collections::{BTreeMap, BTreeSet};

use onnx2ncnn::Conversion;
use onnx2ncnn::tensor::{Dim, SizeCondition};

use super::terminal::printable;
use crate::common::count::count;

/// The maximum number of clauses, without -v.
const MAX_CLAUSES: usize = 3;

/// The maximum length of a clause, without -v.
const MAX_CLAUSE: usize = 100;

/// Sizes that are tried as an example, for all free sizes.
const USUAL: [i64; 7] = [64, 128, 224, 256, 320, 512, 640];

/// The size from which on an example is looked for, if none of these is one.
const EXAMPLE: i64 = 64;

/// Returns the conditions on the free sizes of a net, exactly or as a few clauses with an example; `None` if
/// there are none.
pub(super) fn describe(conversion: &Conversion, exact: bool) -> Option<String> {
    let conditions = &conversion.conditions;
    if conditions.is_empty() {
        return None;
    }
    if exact {
        let conditions: Vec<String> = conditions.iter().map(|one| printable(&one.to_string())).collect();
        return Some(conditions.join("; "));
    }
    let clauses = clauses(conditions);
    let short = clauses.iter().filter(|clause| clause.len() <= MAX_CLAUSE);
    let mut parts: Vec<String> = short.take(MAX_CLAUSES).map(|clause| printable(clause)).collect();
    match (parts.len(), clauses.len() - parts.len()) {
        (_, 0) => {}
        (0, more) => parts.push(format!("{} of long expressions hold (-v)", count(more, "condition"))),
        (_, more) => parts.push(format!("and {more} more (-v)")),
    }
    let mut text = parts.join("; ");
    let names: BTreeSet<String> = conditions.iter().flat_map(SizeCondition::symbols).collect();
    let equal = |size| names.iter().map(|name| (name.clone(), Dim::from(size))).collect();
    let are_met = |sizes: &BTreeMap<String, Dim>| conditions.iter().all(|one| one.is_met(sizes));
    let usual = USUAL.into_iter().map(equal).find(are_met);
    let example = usual.or_else(|| conversion.sizes_at(EXAMPLE)).unwrap_or_default();
    let example = example.iter().filter(|(name, _)| names.contains(*name));
    let example: Vec<String> = example.map(|(name, size)| printable(&format!("{name} = {size}"))).collect();
    if !example.is_empty() {
        text.push_str(&format!(", for example {}", example.join(", ")));
    }
    Some(text)
}

/// What is required of a free size by itself.
#[derive(Default, PartialEq, Eq)]
struct Demand {
    factor: Option<i64>,
    /// The most by which it is below a multiple of the second number.
    below: Option<(i64, i64)>,
    least: Option<i64>,
    most: Option<i64>,
    /// The only value except 1.
    other: Option<i64>,
}

impl Demand {
    /// Returns whether `below` can be a multiple of this number.
    fn allows_below(&self, of: i64) -> bool {
        self.below.is_none_or(|(_, other)| other == of)
    }

    /// Returns the predicate: `multiples of 32 and at least 64`.
    fn words(&self, plural: bool) -> String {
        let factor = self.factor.map(|n| match plural {
            true => format!("multiples of {n}"),
            false => format!("a multiple of {n}"),
        });
        let below = self.below.map(|(most, n)| match plural {
            true => format!("at most {most} below multiples of {n}"),
            false => format!("at most {most} below a multiple of {n}"),
        });
        let bounds = match (self.least, self.most) {
            (Some(least), Some(most)) => Some(format!("from {least} to {most}")),
            (Some(least), None) => Some(format!("at least {least}")),
            (None, Some(most)) => Some(format!("at most {most}")),
            (None, None) => None,
        };
        let other = self.other.map(|n| format!("1 or {n}"));
        [factor, below, bounds, other].into_iter().flatten().collect::<Vec<_>>().join(" and ")
    }
}

/// Returns `(name, most, n)` if a condition is met by sizes that are at most `most` below a multiple of `n`.
fn below_multiple(condition: &SizeCondition) -> Option<(String, i64, i64)> {
    match condition {
        // A size of 1 is left out: the long expression is listed by -v.
        SizeCondition::Broadcast(a, b) => SizeCondition::Equal(a.clone(), b.clone()).below_multiple(),
        other => other.below_multiple(),
    }
}

/// Returns the conditions as sentences: those on single sizes first, one for all sizes with the same.
fn clauses(conditions: &[SizeCondition]) -> Vec<String> {
    let mut demands: BTreeMap<String, Demand> = BTreeMap::new();
    let mut others = Vec::new();
    for condition in conditions {
        let mut demand = |name: String, set: &dyn Fn(&mut Demand)| set(demands.entry(name).or_default());
        match condition {
            SizeCondition::AtLeast(size, n) => demand(size.to_string(), &|one| one.least = Some(*n)),
            SizeCondition::Multiple(size, n) => demand(size.to_string(), &|one| one.factor = Some(*n)),
            SizeCondition::AtMost(size, Dim::Known(n)) => {
                demand(size.to_string(), &|one| one.most = Some(*n))
            }
            SizeCondition::Broadcast(Dim::Known(n), size) => {
                demand(size.to_string(), &|one| one.other = Some(*n));
            }
            SizeCondition::AtMost(size, bound) => others.push(format!("{size} is at most {bound}")),
            other => match below_multiple(other) {
                Some((name, most, of)) if demands.get(&name).is_none_or(|one| one.allows_below(of)) => {
                    let below = &mut demands.entry(name).or_default().below;
                    *below = Some((below.map_or(most, |(other, _)| most.min(other)), of));
                }
                Some((name, most, of)) => {
                    others.push(format!("{name} is at most {most} below a multiple of {of}"))
                }
                None => others.push(match other {
                    SizeCondition::Broadcast(a, b) => format!("{a} and {b} are equal, or one of them is 1"),
                    other => other.to_string(),
                }),
            },
        }
    }
    let mut groups: Vec<(Vec<String>, Demand)> = Vec::new();
    for (name, demand) in demands {
        match groups.iter_mut().find(|(_, other)| *other == demand) {
            Some((names, _)) => names.push(name),
            None => groups.push((vec![name], demand)),
        }
    }
    let sentence = |(names, demand): &(Vec<String>, Demand)| match names.as_slice() {
        [only] => format!("{only} is {}", demand.words(false)),
        [first @ .., last] => format!("{} and {last} are {}", first.join(", "), demand.words(true)),
        [] => String::new(),
    };
    groups.iter().map(sentence).chain(others).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_sentences() {
        let [h, w, s] = ["H", "W", "S"].map(Dim::symbol);
        let least = |size: &Dim, n| SizeCondition::AtLeast(size.clone(), n);
        let multiple = |size: &Dim, n| SizeCondition::Multiple(size.clone(), n);
        let most = |size: &Dim, n: i64| SizeCondition::AtMost(size.clone(), n.into());
        for (conditions, expected) in [
            (vec![multiple(&h, 32), multiple(&w, 32)], &["H and W are multiples of 32"][..]),
            (vec![least(&h, 7), least(&w, 7), least(&s, 7)], &["H, S and W are at least 7"]),
            (
                vec![least(&h, 6), multiple(&h, 2), most(&w, 9)],
                &["H is a multiple of 2 and at least 6", "W is at most 9"],
            ),
            (vec![least(&h, 6), most(&h, 9)], &["H is from 6 to 9"]),
            (
                vec![SizeCondition::Equal((&h + 7).floor_div(8), (&h + 31).floor_div(32) * 4)],
                &["H is at most 7 below a multiple of 32"],
            ),
            (
                [4, 8, 16]
                    .map(|n| SizeCondition::Broadcast(h.ceil_div(n), h.ceil_div(32) * (32 / n)))
                    .to_vec(),
                &["H is at most 3 below a multiple of 32"],
            ),
            (vec![SizeCondition::Broadcast(Dim::from(5), h.clone())], &["H is 1 or 5"]),
            (vec![SizeCondition::AtMost(&h + &w, s.clone())], &["H+W is at most S"]),
            (
                vec![SizeCondition::Broadcast(h.clone(), w.clone())],
                &["H and W are equal, or one of them is 1"],
            ),
            (vec![SizeCondition::Equal(h.clone(), w.clone())], &["W = H"]),
        ] {
            assert_eq!(clauses(&conditions), expected);
        }
    }
}
