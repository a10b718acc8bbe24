//! Bounds of single free sizes.

use std::collections::BTreeMap;

use super::{Line, symbols_of};
use crate::tensor::Dim;

/// The largest bound of a single free size that is searched.
const MAX_BOUND: i64 = 1 << 24;

/// The largest upper bound of a single free size that is searched: no axis of a blob is larger.
const MAX_LARGEST: i64 = 1 << 31;

/// The number of sizes above a bound that are tried one by one before the rest is proved.
const TRIED_SIZES: i64 = 64;

/// Returns the only symbol of an expression, and its least value from which on the expression is not
/// negative; `None` if no bound is found and proved.
pub(super) fn least_symbol(size: &Dim) -> Option<(String, i64)> {
    let name = only_symbol(size)?;
    let at = |n: i64| value_at(size, &name, n);
    let (mut below, mut above) = (0, 1);
    while at(above)? < 0 {
        (below, above) = (above, above.checked_mul(2).filter(|bound| *bound <= MAX_BOUND)?);
    }
    while above - below > 1 {
        let middle = i64::midpoint(below, above);
        if at(middle)? < 0 {
            below = middle;
        } else {
            above = middle;
        }
    }
    // Minima and maxima with numbers have one value from some size on. Up to there each size is tried.
    let tried = above.checked_add(TRIED_SIZES)?;
    if (above..=tried).any(|n| at(n).is_none_or(|value| value < 0)) {
        return None;
    }
    // Symbols are not less than 1.
    let larger = Dim::symbol(&name) + tried;
    let rest = size.substitute(&BTreeMap::from([(name.clone(), larger)]));
    let is_bound = rest.lower_bound().is_some_and(|least| least >= 0)
        || Line::of(&rest).is_some_and(|line| line.rise >= 0 && line.values.iter().all(|value| *value >= 0));
    is_bound.then_some((name, above))
}

/// Returns the only symbol of an expression that does not fall when the symbol grows, and its largest value
/// up to which the expression is at most 0; `None` if no bound is found.
pub(super) fn greatest_symbol(size: &Dim) -> Option<(String, i64)> {
    let name = only_symbol(size).filter(|_| size.is_rising())?;
    let (mut within, mut beyond) = (0, 1);
    while value_at(size, &name, beyond)? <= 0 {
        (within, beyond) = (beyond, beyond.checked_mul(2).filter(|bound| *bound <= MAX_LARGEST)?);
    }
    while beyond - within > 1 {
        let middle = i64::midpoint(within, beyond);
        if value_at(size, &name, middle)? <= 0 {
            within = middle;
        } else {
            beyond = middle;
        }
    }
    Some((name, within))
}

/// Returns the symbol of an expression that has one.
pub(super) fn only_symbol(size: &Dim) -> Option<String> {
    let mut names = symbols_of(size);
    let name = names.pop_first()?;
    names.is_empty().then_some(name)
}

pub(super) fn value_at(size: &Dim, name: &str, n: i64) -> Option<i64> {
    size.substitute(&BTreeMap::from([(name.to_owned(), Dim::from(n))])).known()
}
