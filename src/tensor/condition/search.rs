//! Values of free sizes that meet all conditions.

use std::collections::{BTreeMap, BTreeSet};

use super::bound::greatest_symbol;
use super::{SizeCondition, symbols_of};
use crate::error::{Error, ErrorCode, ErrorKind, Result};
use crate::tensor::Dim;
use crate::tensor::dim::greatest_divisor;

/// The maximum number of values of one size that are tried in a direction.
const MAX_TRIED: usize = 1 << 9;

/// The maximum number of values that are tried in all.
const MAX_STEPS: usize = 1 << 11;

/// The result of a search.
#[derive(Debug)]
pub(crate) enum Found {
    /// Sizes that meet all conditions.
    Sizes(BTreeMap<String, Dim>),
    /// A proof that there are none.
    Nothing,
    /// Neither.
    Unknown,
}

impl SizeCondition {
    /// Returns values of `names` that meet the conditions, each from `start` on if there is one.
    pub(crate) fn sizes_from(conditions: &[SizeCondition], names: &BTreeSet<String>, start: i64) -> Found {
        let mut names = names.clone();
        names.extend(conditions.iter().flat_map(SizeCondition::symbols));
        // Sizes with bounds come first: if none of their values is valid, nothing else has to be tried.
        // Bounds of other sizes come last: a mask has the length of the cache and the prompt together.
        let rank = |name: &String| {
            let is_bound = |condition: &SizeCondition| match condition {
                SizeCondition::AtMost(_, bound) => bound.symbol_name() == Some(name),
                _ => false,
            };
            (conditions.iter().any(is_bound), Domain::of(name, conditions).most.is_none())
        };
        let mut order: Vec<String> = names.into_iter().collect();
        order.sort_by_cached_key(rank);
        let mut search = Search { start, steps: 0, complete: true };
        match search.values(&order, conditions.to_vec()) {
            Some(sizes) => Found::Sizes(sizes),
            None if search.complete => Found::Nothing,
            None => Found::Unknown,
        }
    }

    /// Returns a size that has one valid value, and the value, if there is one.
    ///
    /// # Errors
    ///
    /// No sizes meet all conditions.
    pub(crate) fn determined(conditions: &BTreeSet<SizeCondition>) -> Result<Option<(String, Dim)>> {
        let conditions: Vec<SizeCondition> = conditions.iter().cloned().collect();
        let names: BTreeSet<String> = conditions.iter().flat_map(SizeCondition::symbols).collect();
        for name in &names {
            let domain = Domain::of(name, &conditions);
            let Some(values) = domain.values(domain.least) else { continue };
            // Sizes whose conditions cannot be computed may be valid.
            let may_be_valid = |value: &i64| match left(&conditions, name, *value) {
                Ok(_) => true,
                Err(error) => error.kind() != ErrorKind::Invalid,
            };
            let mut valid = values.into_iter().filter(may_be_valid);
            match (valid.next(), valid.next()) {
                (None, _) => return Err(never(&conditions)),
                (Some(only), None) => return Ok(Some((name.clone(), Dim::from(only)))),
                _ => {}
            }
        }
        match SizeCondition::sizes_from(&conditions, &names, 1) {
            Found::Nothing => Err(never(&conditions)),
            Found::Sizes(_) | Found::Unknown => Ok(None),
        }
    }
}

fn never(conditions: &[SizeCondition]) -> Error {
    let listed: Vec<String> = conditions.iter().map(SizeCondition::to_string).collect();
    Error::unsupported(format!("no free sizes are valid: none meet \"{}\"", listed.join("; ")))
        .code_is(ErrorCode::NO_SIZES)
}

/// Returns the conditions that are left if a size has this value.
///
/// # Errors
///
/// `Invalid` if one of them is never met then.
fn left(conditions: &[SizeCondition], name: &str, value: i64) -> Result<Vec<SizeCondition>> {
    let values = BTreeMap::from([(name.to_owned(), Dim::from(value))]);
    conditions.iter().filter_map(|condition| condition.substitute(&values).transpose()).collect()
}

struct Search {
    start: i64,
    /// The number of values that were tried.
    steps: usize,
    /// Whether all values were tried.
    complete: bool,
}

impl Search {
    fn values(&mut self, names: &[String], conditions: Vec<SizeCondition>) -> Option<BTreeMap<String, Dim>> {
        let Some((name, rest)) = names.split_first() else {
            return conditions.is_empty().then(BTreeMap::new);
        };
        let domain = Domain::of(name, &conditions);
        let values = domain.values(self.start);
        self.complete &= values.is_some();
        for value in values.unwrap_or_else(|| domain.some_values(self.start)) {
            if self.steps >= MAX_STEPS {
                self.complete = false;
                return None;
            }
            self.steps += 1;
            match left(&conditions, name, value) {
                Ok(left) => {
                    if let Some(mut found) = self.values(rest, left) {
                        found.insert(name.clone(), Dim::from(value));
                        return Some(found);
                    }
                }
                Err(error) => self.complete &= error.kind() == ErrorKind::Invalid,
            }
        }
        None
    }
}

/// The values that bounds and factors leave to a size; other conditions may exclude some of them.
#[derive(Debug)]
struct Domain {
    least: i64,
    most: Option<i64>,
    factor: i64,
}

impl Domain {
    fn of(name: &str, conditions: &[SizeCondition]) -> Domain {
        let mut domain = Domain { least: 1, most: None, factor: 1 };
        let mut leasts: BTreeMap<String, Dim> = BTreeMap::new();
        for condition in conditions {
            condition.visit(&mut |size| {
                size.visit_symbols(&mut |name, least| {
                    leasts.insert(name.to_owned(), Dim::from(least));
                });
            });
        }
        if let Some(Dim::Known(least)) = leasts.remove(name) {
            domain.least = least;
        }
        for condition in conditions {
            domain.restrict(name, condition, &leasts);
        }
        domain
    }

    fn restrict(&mut self, name: &str, condition: &SizeCondition, others: &BTreeMap<String, Dim>) {
        let is_it = |size: &Dim| size.symbol_name() == Some(name);
        match condition {
            SizeCondition::AtLeast(size, least) if is_it(size) => self.least = self.least.max(*least),
            SizeCondition::AtMost(size, Dim::Known(most)) if is_it(size) => self.lower_most(*most),
            SizeCondition::Multiple(size, of) if is_it(size) => {
                let common = greatest_divisor(self.factor, *of);
                let multiple = self.factor.checked_div(common).and_then(|part| part.checked_mul(*of));
                self.factor = multiple.unwrap_or(self.factor);
            }
            SizeCondition::Equal(Dim::Known(value), size) if is_it(size) => {
                self.least = self.least.max(*value);
                self.lower_most(*value);
            }
            SizeCondition::Broadcast(Dim::Known(size), other) if is_it(other) => self.lower_most(*size),
            SizeCondition::AtMost(size, bound) => self.bound_excess(name, size, bound, others),
            SizeCondition::Equal(a, b) => {
                self.bound_excess(name, a, b, others);
                self.bound_excess(name, b, a, others);
            }
            SizeCondition::AtLeast(..) | SizeCondition::Multiple(..) | SizeCondition::Broadcast(..) => {}
        }
    }

    /// Applies the condition that `size` is at most `bound`. The bound of this size is largest where the
    /// other sizes are least, if the excess rises with all of them.
    fn bound_excess(&mut self, name: &str, size: &Dim, bound: &Dim, others: &BTreeMap<String, Dim>) {
        let (excess, left) = (size - bound, bound - size);
        if symbols_of(&left).len() == 1
            && let Ok(Some(SizeCondition::AtLeast(size, least))) = SizeCondition::at_least(&left, 0)
            && size.symbol_name() == Some(name)
        {
            self.least = self.least.max(least);
        }
        if !excess.is_rising() {
            return;
        }
        let most = greatest_symbol(&excess.substitute(others)).filter(|(found, _)| found == name);
        if let Some((_, most)) = most {
            self.lower_most(most);
        }
    }

    fn lower_most(&mut self, most: i64) {
        self.most = Some(self.most.map_or(most, |other| other.min(most)));
    }

    /// Returns all values, those from `start` on first; `None` if there are too many.
    fn values(&self, start: i64) -> Option<Vec<i64>> {
        let range = self.most?.checked_sub(self.least)?;
        let count = usize::try_from(range.checked_div(self.factor)?).unwrap_or(0);
        (count < MAX_TRIED).then(|| self.some_values(start))
    }

    /// Returns the first values from `start` on, and the last ones below it.
    fn some_values(&self, start: i64) -> Vec<i64> {
        let most = self.most.unwrap_or(i64::MAX);
        let from = start.max(self.least);
        let first = from.checked_add(self.factor - 1).and_then(|n| Some(n - n.checked_rem(self.factor)?));
        let above = first.into_iter().flat_map(|first| {
            std::iter::successors(Some(first), |n| n.checked_add(self.factor)).take_while(|n| *n <= most)
        });
        let below = first.into_iter().flat_map(|first| {
            let next = |n: &i64| n.checked_sub(self.factor);
            std::iter::successors(next(&first), next).take_while(|n| *n >= self.least)
        });
        let below = below.skip_while(|n| *n > most);
        above.take(MAX_TRIED).chain(below.take(MAX_TRIED)).collect()
    }
}
