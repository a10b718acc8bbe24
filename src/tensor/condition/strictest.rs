//! The conditions of a list that no other one implies.

use std::collections::{BTreeMap, BTreeSet};

use super::{Line, MAX_PERIOD, SizeCondition};
use crate::common::int::Int;
use crate::tensor::{Bounds, Dim, Operation};

/// The deepest size whose bounds are sought under conditions.
const MAX_DEPTH: u32 = 2;

impl SizeCondition {
    /// Returns the conditions on single factors that are met if and only if this one is, if there are some.
    fn of_factors(&self) -> Option<Vec<SizeCondition>> {
        let SizeCondition::Equal(a, b) = self else { return None };
        let multiples = multiples(a, b)?.into_iter();
        multiples.map(|(size, of)| SizeCondition::multiple(&size, of).ok().flatten()).collect()
    }

    /// Returns the only symbol, and whether each of its values in the first period meets the condition;
    /// `None` if later periods differ.
    fn cycle(&self) -> Option<(String, Vec<bool>)> {
        let difference = match self {
            SizeCondition::Equal(a, b) => a - b,
            SizeCondition::Multiple(size, of) => size.modulo(*of),
            _ => return None,
        };
        let Line { name, values, .. } = Line::of(&difference).filter(|line| line.rise == 0)?;
        Some((name, values.into_iter().map(|value| value == 0).collect()))
    }

    /// Returns whether all values of the only symbol that meet this condition are known to meet `one`.
    fn implies_by_values(&self, one: &SizeCondition) -> bool {
        let symbols = self.symbols();
        let Some(name) = symbols.first().filter(|_| symbols.len() == 1 && one.symbols() == symbols) else {
            return false;
        };
        let is_met = |condition: &SizeCondition, n: i64| {
            condition.is_met(&BTreeMap::from([(name.clone(), Dim::from(n))]))
        };
        match (self, one) {
            (SizeCondition::Equal(..) | SizeCondition::Multiple(..), SizeCondition::AtLeast(_, least)) => {
                one.is_of_symbol() && *least <= MAX_PERIOD && (1..*least).all(|n| !is_met(self, n))
            }
            (
                SizeCondition::Broadcast(Dim::Known(other), size),
                SizeCondition::AtMost(_, Dim::Known(most)),
            ) => one.is_of_symbol() && size.symbol_name().is_some() && other <= most,
            (SizeCondition::Equal(..), SizeCondition::Equal(..)) => {
                let (Some((_, first)), Some((_, second))) = (self.cycle(), one.cycle()) else { return false };
                first.len().is_multiple_of(second.len())
                    && first.iter().zip(second.iter().cycle()).all(|(first, second)| *second || !*first)
            }
            _ => false,
        }
    }

    /// Returns `(name, most, n)` if the condition is that the size is at most `most` below a multiple of `n`.
    pub fn below_multiple(&self) -> Option<(String, i64, i64)> {
        let (name, met) = self.cycle().filter(|_| matches!(self, SizeCondition::Equal(..)))?;
        let last = met.iter().rev().take_while(|is_met| **is_met).count();
        let is_rest = last == met.iter().filter(|is_met| **is_met).count();
        is_rest.then_some((name, last.int().checked_sub(1)?, met.len().int()))
    }

    /// Returns the bounds of a size where all conditions are met, if they are known. Sizes of many divisions,
    /// minima and maxima are not looked at: their bounds take long.
    pub(crate) fn bounds(conditions: &BTreeSet<SizeCondition>, size: &Dim) -> Bounds {
        if size.depth() > MAX_DEPTH {
            return (None, None);
        }
        size.substitute(&valid_sizes(conditions)).bounds()
    }

    /// Returns the conditions that no other one implies.
    pub(crate) fn strictest(conditions: &BTreeSet<SizeCondition>) -> Vec<SizeCondition> {
        let of_factors = |one: &SizeCondition| one.of_factors().unwrap_or_else(|| vec![one.clone()]);
        let conditions: BTreeSet<SizeCondition> = conditions.iter().flat_map(of_factors).collect();
        let conditions = with_common_multiples(conditions);
        let implies = |other: &SizeCondition, one: &SizeCondition| match (other, one) {
            (SizeCondition::AtLeast(x, bound), SizeCondition::AtLeast(y, least)) => x == y && bound > least,
            (SizeCondition::AtMost(x, Dim::Known(bound)), SizeCondition::AtMost(y, Dim::Known(most))) => {
                x == y && bound < most
            }
            (SizeCondition::Multiple(x, of), SizeCondition::AtLeast(y, least)) => {
                x == y && of >= least || *least <= 1 && *y == x.floor_div(*of) && x.lower_bound() >= Some(1)
            }
            (SizeCondition::Multiple(x, of), SizeCondition::Multiple(y, part)) => {
                x == y && of > part && of.checked_rem(*part) == Some(0)
            }
            (_, SizeCondition::Broadcast(a, b)) => {
                SizeCondition::equal(a, b).is_ok_and(|equal| equal.as_ref() == Some(other))
            }
            _ => false,
        };
        let is_implied = |one: &&SizeCondition| conditions.iter().any(|other| implies(other, one));
        let listed: Vec<SizeCondition> = conditions.iter().filter(|one| !is_implied(one)).cloned().collect();
        let valid = valid_sizes(&listed);
        let follows = |one: &SizeCondition| {
            !one.is_of_symbol() && one.substitute(&valid).is_ok_and(|condition| condition.is_none())
        };
        // Sizes that are not 1 for valid ones broadcast if they are equal.
        let may_be_one = |size: &Dim| size.substitute(&valid).lower_bound().is_none_or(|least| least < 2);
        let left = listed.into_iter().filter(|one| !follows(one)).map(|one| match &one {
            SizeCondition::Broadcast(a, b) if !may_be_one(a) && !may_be_one(b) => {
                SizeCondition::equal(a, b).ok().flatten().unwrap_or(one)
            }
            _ => one,
        });
        let left: Vec<SizeCondition> = left.collect();
        // Of two that imply each other one stays.
        let implies = |other: &SizeCondition, one: &SizeCondition| {
            other.implies_by_values(one) && !(one < other && one.implies_by_values(other))
        };
        let is_implied = |one: &SizeCondition| left.iter().any(|other| other != one && implies(other, one));
        left.iter().filter(|one| !is_implied(one)).cloned().collect()
    }
}

/// Returns expressions that replace symbols, whose values are those that satisfy the bounds and factors of
/// single symbols.
fn valid_sizes<'a>(conditions: impl IntoIterator<Item = &'a SizeCondition>) -> BTreeMap<String, Dim> {
    let mut found: BTreeMap<&str, (i64, i64)> = BTreeMap::new();
    for condition in conditions {
        match condition {
            SizeCondition::AtLeast(size, bound) => {
                if let Some(name) = size.symbol_name() {
                    let (least, _) = found.entry(name).or_insert((1, 1));
                    *least = (*bound).max(*least);
                }
            }
            SizeCondition::Multiple(size, of) => {
                if let Some(name) = size.symbol_name() {
                    found.entry(name).or_insert((1, 1)).1 = *of;
                }
            }
            SizeCondition::Equal(..) | SizeCondition::Broadcast(..) | SizeCondition::AtMost(..) => {}
        }
    }
    let valid = found.into_iter().map(|(name, (least, of))| {
        let below = Dim::from(least).ceil_div(of) - 1;
        (name.to_owned(), (Dim::symbol(name) + below) * of)
    });
    valid.collect()
}

/// Returns the sizes that must be multiples of numbers for `a` and `b` to be equal, and these numbers. One
/// side is the product of the sizes; the other one has `n * floor_div(x, n)` for each size `x`, which is
/// never larger.
pub(super) fn multiples(a: &Dim, b: &Dim) -> Option<Vec<(Dim, i64)>> {
    let product = |size: &Dim| match <[_; 1]>::try_from(size.sum().terms) {
        Ok([(atoms, times)]) if size.sum().constant == 0 => Some((atoms, times)),
        _ => None,
    };
    let ((a, times), (b, others)) = (product(a)?, product(b)?);
    let (atoms, mut whole, times) = match (times, others) {
        (times, 1) => (a, b, times),
        (1, times) => (b, a, times),
        _ => return None,
    };
    let (mut multiples, mut divisors) = (Vec::new(), 1_i64);
    for atom in atoms {
        match atom.operation() {
            Some((Operation::FloorDiv, dividend, Dim::Known(of @ 1..))) => {
                divisors = divisors.checked_mul(of)?;
                multiples.push((dividend, of));
            }
            _ if atom.lower_bound() >= Some(1) => {
                whole.remove(whole.iter().position(|other| *other == atom)?);
            }
            _ => return None,
        }
    }
    let is_whole = Dim::product(multiples.iter().map(|(size, _)| size)) == Dim::product(&whole);
    let is_positive = multiples.iter().all(|(size, _)| size.lower_bound() >= Some(1));
    (!multiples.is_empty() && divisors == times && is_whole && is_positive).then_some(multiples)
}

/// Replaces conditions on one symbol that hold together for the multiples of a number by this one.
fn with_common_multiples(mut conditions: BTreeSet<SizeCondition>) -> BTreeSet<SizeCondition> {
    let mut cycles: BTreeMap<String, Vec<(SizeCondition, Vec<bool>)>> = BTreeMap::new();
    for condition in &conditions {
        if let Some((name, met)) = condition.cycle() {
            cycles.entry(name).or_default().push((condition.clone(), met));
        }
    }
    for (name, cycles) in cycles.into_iter().filter(|(_, cycles)| cycles.len() > 1) {
        let period = cycles.iter().map(|(_, met)| met.len()).max().unwrap_or(1);
        if !cycles.iter().all(|(_, met)| period.is_multiple_of(met.len())) {
            continue;
        }
        let mut all = vec![true; period];
        for (_, met) in &cycles {
            all.iter_mut().zip(met.iter().cycle()).for_each(|(all, is_met)| *all &= is_met);
        }
        let values = all.into_iter().map(|is_met| i64::from(!is_met)).collect();
        let joined = Line { name, values, rise: 0 }.zeros(&Dim::ZERO, &Dim::ONE);
        if let Some(joined @ SizeCondition::Multiple(..)) = joined {
            conditions.retain(|condition| cycles.iter().all(|(other, _)| other != condition));
            conditions.insert(joined);
        }
    }
    conditions
}
