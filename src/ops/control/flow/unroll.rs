//! Conditions of control flow, and limits of unrolling.

use crate::ops::prelude::*;

/// The most nodes from a comparison to a condition, and from a size to a number.
pub(in crate::ops::control) const MAX_VIEWS: usize = 4;

pub(in crate::ops::control) fn is_true(condition: &Tensor) -> Result<bool> {
    Ok(condition.load_listed()?.scalar_i64()? != 0)
}

/// Refuses to unroll a body into too many nodes.
pub(in crate::ops::control) fn check_unrolled(count: i64, body: &Graph) -> Result<()> {
    let most = limits::UNROLLED_NODES / body.node_count().max(1);
    if usize::try_from(count).is_ok_and(|count| count <= most) || count < 0 {
        return Ok(());
    }
    Err(Error::limit(format!("{count} iterations unroll to more than {} nodes", limits::UNROLLED_NODES)))
}

pub(in crate::ops::control) fn undecided() -> Error {
    Error::unsupported("the condition of the loop is computed at run time")
}

/// Returns the elements of a sequence, joined along a new axis.
pub(in crate::ops::control) fn stack<'x>(x: &'x Expand, list: &[Expr<'x>], axis: i64) -> Result<Expr<'x>> {
    if list.is_empty() {
        unsupported!("the sequence is empty");
    }
    Ok(x.make.stack(list, axis))
}

/// Returns a number as a size.
pub(in crate::ops::control) fn whole(number: f64) -> Option<Dim> {
    let is_whole = number.fract() == 0.0 && (0.0..=f64::from(i32::MAX)).contains(&number);
    num_traits::cast(number).filter(|_| is_whole).map(Dim::Known)
}
