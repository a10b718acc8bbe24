//! Conditions on free sizes.

mod bound;
mod search;
mod strictest;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{Dim, Operation, Sum};
use crate::common::int::Int;
use crate::error::{Error, Result, invalid};
use bound::{greatest_symbol, least_symbol, only_symbol, value_at};
pub(crate) use search::Found;
use strictest::multiples;

/// A condition on free sizes, for other values of which a net is not valid.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum SizeCondition {
    /// Two sizes are equal.
    Equal(Dim, Dim),
    /// Two sizes are equal, or one of them is 1.
    Broadcast(Dim, Dim),
    /// A size is not less than a number.
    AtLeast(Dim, i64),
    /// A size is not greater than a number, or than another size.
    AtMost(Dim, Dim),
    /// A size is a multiple of a number.
    Multiple(Dim, i64),
}

impl SizeCondition {
    /// Creates the condition under which the first elements of an axis are elements of it; `None` if they
    /// always are.
    pub(crate) fn first_of(count: &Dim, size: &Dim) -> Result<Option<SizeCondition>> {
        SizeCondition::equal(count, &count.minimum(size))
    }

    /// Creates the simplest condition under which two sizes are equal; `None` if they always are.
    ///
    /// # Errors
    ///
    /// If they never are.
    pub(crate) fn equal(a: &Dim, b: &Dim) -> Result<Option<SizeCondition>> {
        let difference = (a - b).checked()?;
        if difference.is(0) {
            return Ok(None);
        }
        for (size, other) in [(a, b), (b, a)] {
            let Some((operation @ (Operation::Min | Operation::Max), x, y)) = other.operation() else {
                continue;
            };
            let bound = match (x == *size, y == *size) {
                (true, _) => y,
                (_, true) => x,
                _ => continue,
            };
            return match (operation, bound.known()) {
                (Operation::Max, Some(least)) => SizeCondition::at_least(size, least),
                (Operation::Max, None) => Ok(Some(SizeCondition::AtMost(bound, size.clone()))),
                (_, Some(most)) => SizeCondition::at_most(size, most),
                _ => Ok(Some(SizeCondition::AtMost(size.clone(), bound))),
            };
        }
        let never = || Error::invalid(format!("the sizes {a} and {b} are not equal"));
        if matches!(difference.bounds(), (Some(1..), _) | (_, Some(..0))) {
            return Err(never());
        }
        if let Some(line) = Line::of(&difference) {
            return line.zeros(a, b).ok_or_else(never).map(Some);
        }
        let solved = solve(&difference).map(|(symbol, size)| SizeCondition::Equal(size, symbol));
        Ok(Some(solved.unwrap_or_else(|| {
            let common = a.common_factor(b);
            let lowest = |size: &Dim| size.exact_div(common).unwrap_or_else(|| size.clone());
            let (a, b) = (lowest(a.min(b)), lowest(a.max(b)));
            match multiples(&a, &b).as_deref() {
                Some([(size, of)]) => SizeCondition::Multiple(size.clone(), *of),
                _ => SizeCondition::Equal(a, b),
            }
        })))
    }

    /// Creates the condition under which two sizes broadcast; `None` if they always do.
    ///
    /// # Errors
    ///
    /// If they never do.
    pub(crate) fn broadcast(a: &Dim, b: &Dim) -> Result<Option<SizeCondition>> {
        a.check().and_then(|()| b.check())?;
        if a.is(1) || b.is(1) || a == b {
            return Ok(None);
        }
        // The maximum of two sizes that broadcast is the broadcast size, which broadcasts with both.
        for (size, other) in [(a, b), (b, a)] {
            if let Some((Operation::Max, x, y)) = other.operation()
                && (x == *size || y == *size)
                && x.known().is_none()
                && y.known().is_none()
            {
                return SizeCondition::broadcast(&x, &y);
            }
        }
        let may_be_one = |size: &Dim| size.bounds().0.is_none_or(|least| least < 2);
        let reaches_one = |found: &Result<Option<SizeCondition>>| match found {
            Ok(Some(SizeCondition::AtMost(_, bound) | SizeCondition::AtLeast(bound, _))) => may_be_one(bound),
            _ => false,
        };
        match SizeCondition::equal(a, b) {
            found @ Ok(None | Some(SizeCondition::Multiple(..))) => found,
            // A minimum is 1 if its bound is, and a maximum meets a size of 1.
            found @ Ok(Some(SizeCondition::AtMost(..) | SizeCondition::AtLeast(..)))
                if !reaches_one(&found) =>
            {
                found
            }
            found if !may_be_one(a) && !may_be_one(b) => found,
            _ => Ok(Some(SizeCondition::Broadcast(a.min(b).clone(), a.max(b).clone()))),
        }
    }

    /// Creates the simplest condition under which a size is at least a number; `None` if it always is.
    ///
    /// # Errors
    ///
    /// If it never is.
    pub(crate) fn at_least(size: &Dim, least: i64) -> Result<Option<SizeCondition>> {
        let missing = (size - least).checked()?;
        match missing.bounds() {
            (Some(0..), _) => return Ok(None),
            (_, Some(..0)) => invalid!("the size {size} is less than {least}"),
            _ => {}
        }
        let opposite = size * -1;
        if opposite.is_rising() && least > i64::MIN {
            return SizeCondition::at_most(&opposite, -least);
        }
        let Some((name, bound)) = least_symbol(&missing) else {
            let (part, factor) = size.lowest_terms();
            let least = -least.saturating_neg().div_euclid(factor);
            return Ok(Some(SizeCondition::AtLeast(part, least)));
        };
        let is_stricter = bound > 1 || size.has_length();
        Ok(is_stricter.then(|| SizeCondition::AtLeast(Dim::symbol(&name), bound)))
    }

    /// Creates the simplest condition under which a size is at most a number; `None` if it always is.
    ///
    /// # Errors
    ///
    /// If it never is.
    pub(crate) fn at_most(size: &Dim, most: i64) -> Result<Option<SizeCondition>> {
        let excess = (size - most).checked()?;
        match excess.bounds() {
            (_, Some(..=0)) => return Ok(None),
            (Some(1..), _) => invalid!("the size {size} is greater than {most}"),
            _ => {}
        }
        let (size, most) = match greatest_symbol(&excess) {
            Some((_, ..1)) if !size.has_length() => invalid!("the size {size} is greater than {most}"),
            Some((name, bound)) => (Dim::symbol(&name), bound),
            None => {
                let constant = excess.sum().constant;
                let (part, factor) = (excess - constant).lowest_terms();
                (part, constant.saturating_neg().div_euclid(factor))
            }
        };
        Ok(Some(SizeCondition::AtMost(size, Dim::from(most))))
    }

    /// Creates the condition under which a size is a multiple of a positive number; `None` if it always is.
    ///
    /// # Errors
    ///
    /// If it never is.
    pub(crate) fn multiple(size: &Dim, of: i64) -> Result<Option<SizeCondition>> {
        let of = Dim::from(of);
        SizeCondition::equal(size, &(size.floor_div(&of) * &of))
    }

    /// Returns a symbol and the size to which it must be equal, if there is one.
    pub(crate) fn fixed(&self) -> Option<(String, Dim)> {
        let SizeCondition::Equal(size, symbol) = self else { return None };
        let name = symbol.symbol_name().filter(|name| !symbols_of(size).contains(*name))?;
        Some((name.to_owned(), size.clone()))
    }

    /// Returns whether the condition is met by these values of all of its symbols.
    pub fn is_met(&self, values: &BTreeMap<String, Dim>) -> bool {
        self.substitute(values).is_ok_and(|condition| condition.is_none())
    }

    /// Returns the condition with symbols replaced; `None` if it is always met then.
    pub(crate) fn substitute(&self, values: &BTreeMap<String, Dim>) -> Result<Option<SizeCondition>> {
        match self {
            SizeCondition::Equal(a, b) => SizeCondition::equal(&a.substitute(values), &b.substitute(values)),
            SizeCondition::Broadcast(a, b) => {
                SizeCondition::broadcast(&a.substitute(values), &b.substitute(values))
            }
            SizeCondition::AtLeast(size, least) => SizeCondition::at_least(&size.substitute(values), *least),
            SizeCondition::AtMost(size, most) => {
                let (size, most) = (size.substitute(values), most.substitute(values));
                match most.known() {
                    Some(most) => SizeCondition::at_most(&size, most),
                    None => SizeCondition::equal(&size, &size.minimum(&most)),
                }
            }
            SizeCondition::Multiple(size, of) => SizeCondition::multiple(&size.substitute(values), *of),
        }
    }

    /// Returns the names of all free sizes of the condition.
    pub fn symbols(&self) -> BTreeSet<String> {
        let mut names = BTreeSet::new();
        self.visit(&mut |size| size.collect_symbols(&mut names));
        names
    }

    /// Calls `visit` with each size of the condition.
    pub(crate) fn visit(&self, visit: &mut dyn FnMut(&Dim)) {
        match self {
            SizeCondition::Equal(a, b) | SizeCondition::Broadcast(a, b) | SizeCondition::AtMost(a, b) => {
                visit(a);
                visit(b);
            }
            SizeCondition::AtLeast(size, _) | SizeCondition::Multiple(size, _) => visit(size),
        }
    }

    /// Returns whether the condition is a bound or a factor of a single symbol.
    fn is_of_symbol(&self) -> bool {
        match self {
            SizeCondition::AtLeast(size, _)
            | SizeCondition::AtMost(size, _)
            | SizeCondition::Multiple(size, _) => size.symbol_name().is_some(),
            SizeCondition::Equal(..) | SizeCondition::Broadcast(..) => false,
        }
    }
}

impl fmt::Display for SizeCondition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SizeCondition::Equal(a, b) => write!(f, "{b} = {a}"),
            SizeCondition::Broadcast(Dim::Known(n), size) => write!(f, "{size} is 1 or {n}"),
            SizeCondition::Broadcast(a, b) => write!(f, "{a} = {b}, or one of them is 1"),
            SizeCondition::AtLeast(size, least) => write!(f, "{size} >= {least}"),
            SizeCondition::AtMost(size, most) => write!(f, "{size} <= {most}"),
            SizeCondition::Multiple(size, of) => write!(f, "{size} is a multiple of {of}"),
        }
    }
}

/// Returns a symbol, and the size at which the expression is 0: one without subtractions, if there is one.
fn solve(size: &Dim) -> Option<(Dim, Dim)> {
    let Sum { terms, .. } = size.sum();
    let mut found = None;
    // Of two symbols the later one is replaced.
    for (product, coefficient) in terms.into_iter().rev() {
        let [symbol] = product.as_slice() else { continue };
        let Some(name) = symbol.symbol_name() else { continue };
        let term = symbol * coefficient;
        let rest = term - size;
        let is_separate = !symbols_of(&rest).contains(name);
        let Some(value) = rest.exact_div(coefficient).filter(|_| is_separate) else { continue };
        if value.lower_bound().is_some_and(|least| least > 0) {
            return Some((symbol.clone(), value));
        }
        found.get_or_insert((symbol.clone(), value));
    }
    found
}

fn symbols_of(size: &Dim) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    size.collect_symbols(&mut names);
    names
}

/// An expression of one symbol that grows by the same number in each period: a sum of the symbol and of its
/// quotients by numbers.
struct Line {
    name: String,
    /// The values for a symbol from 1 up to the period.
    values: Vec<i64>,
    /// The growth in a period.
    rise: i64,
}

/// The longest period of which all values are computed.
const MAX_PERIOD: i64 = 1 << 10;

impl Line {
    fn of(size: &Dim) -> Option<Line> {
        let name = only_symbol(size)?;
        let period = size.period().filter(|period| *period <= MAX_PERIOD)?;
        let values: Option<Vec<i64>> = (1..=period).map(|n| value_at(size, &name, n)).collect();
        let rise = value_at(size, &name, period + 1)?.checked_sub(value_at(size, &name, 1)?)?;
        Some(Line { name, values: values?, rise })
    }

    /// Returns the condition under which the expression, the difference of `a` and `b`, is 0; `None` if it
    /// never is.
    fn zeros(&self, a: &Dim, b: &Dim) -> Option<SizeCondition> {
        let symbol = Dim::symbol(&self.name);
        let general = SizeCondition::Equal(a.min(b).clone(), a.max(b).clone());
        let entries = || (1_i64..).zip(&self.values);
        let period = self.values.len().int();
        if self.rise == 0 {
            let zeros: Vec<i64> = entries().filter(|(_, value)| **value == 0).map(|(n, _)| n).collect();
            let first = *zeros.first()?;
            let step = zeros.get(1).map_or(Some(period), |second| second.checked_sub(first))?;
            let is_multiple = |n: i64| n.checked_sub(first).and_then(|n| n.checked_rem(step)) == Some(0);
            let is_met = entries().all(|(n, value)| (*value == 0) == is_multiple(n));
            // The zeros of the next period follow those of this one.
            let is_met = is_met && period.checked_rem(step) == Some(0);
            return Some(if is_met && first == step {
                SizeCondition::Multiple(symbol, step)
            } else if is_met && step > 1 {
                SizeCondition::Multiple(symbol - first, step)
            } else {
                general
            });
        }
        let zeros = entries().filter_map(|(n, value)| {
            let exact = value.checked_rem(self.rise) == Some(0);
            let periods =
                value.checked_div(self.rise)?.checked_neg().filter(|periods| exact && *periods >= 0)?;
            n.checked_add(periods.checked_mul(period)?)
        });
        let zeros: Vec<i64> = zeros.collect();
        match zeros.as_slice() {
            [] => None,
            [only] => Some(SizeCondition::Equal(Dim::from(*only), symbol)),
            _ => Some(general),
        }
    }
}

#[cfg(test)]
mod tests;
