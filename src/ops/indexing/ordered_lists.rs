//! The first elements in order, without their indices: ordered lists of K elements, merged by pairs.
//!
//! An element is a row of all lanes, so each layer compares many of them. The first K elements
//! of two lists are, index by index, the earlier element of the first list and of the reversed second one.

use crate::ncnn::Cost;
use crate::ops::prelude::*;

/// The most elements of a list: each pair of them is compared by separate layers.
const MAX_LIST: i64 = 8;

/// Returns the cost of finding the first `k` of `n` elements in each of so many lanes; `None` if lists would
/// be too long, or too few.
pub(super) fn cost(lanes: u64, n: i64, k: i64) -> Option<Cost> {
    let lists = n.checked_div(k).filter(|lists| *lists > 1 && (2..=MAX_LIST).contains(&k))?;
    let [k, n, lists] = [k, n, lists].map(i64::unsigned_abs);
    let merges = u64::from(lists.ilog2() + lists.count_ones()) + 1;
    let layers = Cost { layers: 3 * k * k * merges, ..Cost::default() };
    Some(layers + Cost::passes(2 * k, n.saturating_mul(lanes)))
}

/// Returns the first `k` of `n` elements `[n, lanes]` in order: `[k, lanes]`.
pub(super) fn first_in_order<'x>(
    expand: &'x Expand,
    rows: Expr<'x>,
    [n, k]: [i64; 2],
    direction: Direction,
) -> Result<Expr<'x>> {
    let mut count = n / k;
    let sizes: Vec<i64> = (0..k).map(|_| count).chain((k * count..n).map(|_| 1)).collect();
    let mut list = rows.split_list(0, &sizes);
    let mut rest = list.split_off(usize::try_from(k)?);
    direction.sort(&mut list);
    direction.sort(&mut rest);
    let mut others = vec![rest];
    while count > 1 {
        let half = count / 2;
        let part = |start: i64, end: i64| -> Vec<Expr> {
            list.iter().map(|elements| elements.slice(0, start, end)).collect()
        };
        if count % 2 == 1 {
            others.push(part(2 * half, count));
        }
        list = direction.merged(&part(0, half), &part(half, 2 * half));
        count = half;
    }
    let whole = others.iter().fold(list, |list, other| direction.merged(&list, other));
    Ok(expand.make.concat(&whole, 0))
}

/// The direction of the elements of a list.
#[derive(Clone, Copy)]
pub(super) enum Direction {
    Ascending,
    Descending,
}

impl Direction {
    /// Returns the element of two that comes first.
    fn first<'x>(self, a: Expr<'x>, b: Expr<'x>) -> Expr<'x> {
        match self {
            Direction::Ascending => a.minimum(b),
            Direction::Descending => a.maximum(b),
        }
    }

    /// Returns the element of two that comes last.
    fn last<'x>(self, a: Expr<'x>, b: Expr<'x>) -> Expr<'x> {
        match self {
            Direction::Ascending => a.maximum(b),
            Direction::Descending => a.minimum(b),
        }
    }

    /// Orders the elements of a list by comparing neighbours.
    fn sort(self, list: &mut [Expr]) {
        for end in (1..list.len()).rev() {
            for index in 0..end {
                if let Some([a, b]) = list.get_mut(index..index + 2) {
                    (*a, *b) = (self.first(*a, *b), self.last(*a, *b));
                }
            }
        }
    }

    /// Returns the first elements of two ordered lists, as many as the first list has.
    fn merged<'x>(self, a: &[Expr<'x>], b: &[Expr<'x>]) -> Vec<Expr<'x>> {
        let pairs = a.iter().zip((0..a.len()).rev());
        let first = |(a, other): (&Expr<'x>, usize)| b.get(other).map_or(*a, |b| self.first(*a, *b));
        let mut list: Vec<Expr> = pairs.map(first).collect();
        self.sort(&mut list);
        list
    }
}
