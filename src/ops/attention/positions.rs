//! Positions of queries and keys of free number, as ranges.

use crate::error::Result;
use crate::pass::expand::{Expand, Operand};

/// An axis of an input: the index of the input, and the axis.
pub(in crate::ops) type InputAxis = (usize, i64);

/// The positions of the queries, which follow the cache, and of all keys: lists of integers.
pub(in crate::ops) struct Positions {
    pub queries: Operand,
    pub keys: Operand,
}

impl Positions {
    /// Emits the positions, from the lengths of queries, new keys and cache.
    pub fn of(x: &Expand, queries: InputAxis, keys: InputAxis, past: InputAxis) -> Result<Positions> {
        let (zero, one) = (x.raw_scalar(0)?, x.raw_scalar(1)?);
        let size = |x: &Expand, (index, axis): InputAxis| -> Result<Operand> {
            let operand = x.raw_operand(index)?;
            x.raw_size(operand, axis)
        };
        let first = if x.has_input(past.0) { size(x, past)? } else { zero };
        let after = |x: &Expand, axis: InputAxis| -> Result<Operand> {
            let count = size(x, axis)?;
            x.raw_op("Add", &[first, count], &[])
        };
        let (end, all) = (after(x, queries)?, after(x, keys)?);
        let queries = x.raw_op("Range", &[first, end, one], &[])?;
        let keys = x.raw_op("Range", &[zero, all, one], &[])?;
        Ok(Positions { queries, keys })
    }

    /// Emits booleans, `[queries, keys]`: whether a key is at most `after` positions after its query, and at most
    /// `before` before it. `None` without a bound.
    pub fn near(&self, x: &Expand, before: Option<i64>, after: Option<i64>) -> Result<Option<Operand>> {
        let axis = x.raw_ints(&[1])?;
        let queries = x.raw_op("Unsqueeze", &[self.queries, axis], &[])?;
        let mut near = None;
        for (compare, offset) in [("LessOrEqual", after), ("GreaterOrEqual", before.map(|count| -count))] {
            let Some(offset) = offset else { continue };
            let mut bound = queries;
            if offset != 0 {
                let offset = x.raw_scalar(offset)?;
                bound = x.raw_op("Add", &[queries, offset], &[])?;
            }
            let holds = x.raw_op(compare, &[self.keys, bound], &[])?;
            near = Some(match near {
                Some(near) => x.raw_op("And", &[near, holds], &[])?,
                None => holds,
            });
        }
        Ok(near)
    }
}
