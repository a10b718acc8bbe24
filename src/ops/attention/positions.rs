//! Positions of queries and keys of free number, as ranges.

use crate::ops::prelude::*;

/// An axis of an input: the index of the input, and the axis.
pub(in crate::ops) type InputAxis = (usize, i64);

/// The positions of the queries, which follow the cache, and of all keys: lists of integers.
pub(in crate::ops) struct Positions<'x> {
    pub queries: Expr<'x>,
    pub keys: Expr<'x>,
}

impl<'x> Positions<'x> {
    /// Returns the positions, from the lengths of queries, new keys and cache.
    pub fn of(x: &'x Expand, queries: InputAxis, keys: InputAxis, past: InputAxis) -> Positions<'x> {
        let zero = x.make.int(0);
        let size = |(index, axis): InputAxis| x.operand(index).size(axis);
        let first = if x.has_input(past.0) { size(past) } else { zero };
        let (end, all) = (first + size(queries), first + size(keys));
        Positions { queries: x.make.range(first, end), keys: x.make.range(zero, all) }
    }

    /// Returns booleans, `[queries, keys]`: whether a key is at most `after` positions after its query, and
    /// at most `before` before it. `None` without a bound.
    pub fn near(&self, before: Option<i64>, after: Option<i64>) -> Option<Expr<'x>> {
        let queries = self.queries.unsqueeze(&[1]);
        let shifted = |offset: i64| if offset == 0 { queries } else { queries + offset };
        let last = after.map(|count| self.keys.less_or_equal(shifted(count)));
        let first = before.map(|count| self.keys.greater_or_equal(shifted(-count)));
        last.zip(first).map(|(last, first)| last & first).or(last).or(first)
    }
}
