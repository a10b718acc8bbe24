//! Bounds of sizes, and minima and maxima.

use std::cell::Cell;
use std::collections::BTreeSet;

use super::{Atom, Dim, Operation};

/// The lower and upper bound of a size, if they are known.
pub(crate) type Bounds = (Option<i64>, Option<i64>);

/// The number of minima and maxima within a size whose operands are looked at one by one: each doubles the
/// work.
const MAX_SPLITS: u32 = 64;

fn both(a: Option<i64>, b: Option<i64>, f: impl Fn(i64, i64) -> Option<i64>) -> Option<i64> {
    a.zip(b).and_then(|(a, b)| f(a, b))
}

fn either(a: Option<i64>, b: Option<i64>, f: impl Fn(i64, i64) -> i64) -> Option<i64> {
    match (a, b) {
        (Some(a), Some(b)) => Some(f(a, b)),
        (a, b) => a.or(b),
    }
}

/// Returns the bounds of the minimum of two sizes.
fn least_of((al, am): Bounds, (bl, bm): Bounds) -> Bounds {
    (both(al, bl, |x, y| Some(x.min(y))), either(am, bm, i64::min))
}

/// Returns the bounds of the maximum of two sizes.
fn greatest_of((al, am): Bounds, (bl, bm): Bounds) -> Bounds {
    (either(al, bl, i64::max), both(am, bm, |x, y| Some(x.max(y))))
}

impl Atom {
    fn bounds(&self) -> Bounds {
        match self {
            Atom::Symbol(_) => (Some(1), None),
            Atom::Length(_) => (Some(0), None),
            Atom::Of(Operation::FloorDiv, a, b) => {
                let ((least, most), (Some(divisor), largest)) = (a.bounds(), b.bounds()) else {
                    return (None, None);
                };
                if divisor < 1 {
                    return (None, None);
                }
                // A larger divisor gives a quotient nearer to zero.
                let least = least.and_then(|n| match largest {
                    _ if n < 0 => n.checked_div_euclid(divisor),
                    Some(largest) => n.checked_div_euclid(largest),
                    None => Some(0),
                });
                let most = most.and_then(|n| if n < 0 { Some(-1) } else { n.checked_div_euclid(divisor) });
                (least, most)
            }
            Atom::Of(Operation::Mod, _, b) => match b.bounds() {
                (Some(1..), most) => (Some(0), most.map(|n| n - 1)),
                _ => (None, None),
            },
            Atom::Of(Operation::Min, a, b) => least_of(a.bounds(), b.bounds()),
            Atom::Of(Operation::Max, a, b) => greatest_of(a.bounds(), b.bounds()),
        }
    }

    /// Returns whether the atom is proved not to fall when symbols grow.
    fn is_rising(&self) -> bool {
        match self {
            Atom::Symbol(_) | Atom::Length(_) => true,
            Atom::Of(Operation::FloorDiv, a, Dim::Known(1..)) => a.is_rising(),
            Atom::Of(Operation::Min | Operation::Max, a, b) => a.is_rising() && b.is_rising(),
            Atom::Of(..) => false,
        }
    }
}

impl Dim {
    /// Returns the minimum.
    pub fn minimum(&self, other: impl Into<Dim>) -> Dim {
        let other = &other.into();
        if let Some(smaller) = self.of_extreme(other, Operation::Min) {
            return smaller;
        }
        match (self - other).bounds() {
            (_, Some(..=0)) => self.clone(),
            (Some(0..), _) => other.clone(),
            _ => Dim::of(Operation::Min, self, other),
        }
    }

    /// Returns the maximum.
    pub fn maximum(&self, other: impl Into<Dim>) -> Dim {
        let other = &other.into();
        if let Some(larger) = self.of_extreme(other, Operation::Max) {
            return larger;
        }
        match (self - other).bounds() {
            (Some(0..), _) => self.clone(),
            (_, Some(..=0)) => other.clone(),
            _ => self.greatest(other),
        }
    }

    /// Returns the maximum of all sizes of which both are maxima, in one order: equal sets have equal
    /// expressions.
    fn greatest(&self, other: &Dim) -> Dim {
        if let Some(undefined) = [self, other].into_iter().find(|size| matches!(size, Dim::Undefined(_))) {
            return undefined.clone();
        }
        let (mut sizes, mut number) = (BTreeSet::new(), None);
        let mut open = vec![self.clone(), other.clone()];
        while let Some(size) = open.pop() {
            match size.operation() {
                Some((Operation::Max, a, b)) => open.extend([a, b]),
                _ if size.known().is_some() => number = number.max(size.known()),
                _ => drop(sizes.insert(size)),
            }
        }
        let all = sizes.into_iter().chain(number.map(Dim::Known));
        let all = all.reduce(|a, b| Dim::from_atom(Atom::Of(Operation::Max, a, b)));
        all.unwrap_or_else(|| self.clone()).bounded()
    }

    /// Simplifies an extreme of `a` and an extreme of `a` and `b`: to `a` if one is a minimum and the other a
    /// maximum, otherwise to the inner extreme.
    fn of_extreme(&self, other: &Dim, operation: Operation) -> Option<Dim> {
        [(self, other), (other, self)].into_iter().find_map(|(size, extreme)| {
            let [Atom::Of(inner @ (Operation::Min | Operation::Max), a, b)] = extreme.only_product()? else {
                return None;
            };
            let simplified = if *inner == operation { extreme } else { size };
            (a == size || b == size).then(|| simplified.clone())
        })
    }

    /// Returns the bounds: every symbol is at least 1, as the size of an axis with elements.
    pub fn bounds(&self) -> Bounds {
        match self {
            Dim::Expr(e) => *e.bounds.get_or_init(|| self.bounds_within(&Cell::new(MAX_SPLITS))),
            _ => self.bounds_within(&Cell::new(0)),
        }
    }

    /// Returns the bounds, after so many splits at most.
    fn bounds_within(&self, splits: &Cell<u32>) -> Bounds {
        let Dim::Expr(e) = self else { return (self.known(), self.known()) };
        let factor = e.factor();
        if factor > 1
            && let Some(part) = (self - e.constant).exact_div(factor)
        {
            let scaled = |bound: Option<i64>| bound?.checked_mul(factor)?.checked_add(e.constant);
            let (least, most) = part.bounds_within(splits);
            return (scaled(least), scaled(most));
        }
        if let Some((rest, most)) = self.without_remainder() {
            let (least, above) = rest.bounds_within(splits);
            return (least, both(above, Some(most), i64::checked_add));
        }
        let has_multiple = e.terms.iter().any(|(product, times)| {
            *times > 1 && matches!(product.as_slice(), [Atom::Of(Operation::FloorDiv, ..)])
        });
        if let Some((rest, most)) =
            has_multiple.then(|| -self).and_then(|opposite| opposite.without_remainder())
        {
            let ((least, above), negated) =
                (rest.bounds_within(splits), |n: Option<i64>| n.and_then(i64::checked_neg));
            return (negated(both(above, Some(most), i64::checked_add)), negated(least));
        }
        if let Some(bounds) = self.bounds_of_extreme(splits) {
            return bounds;
        }
        let mut sum = (Some(e.constant), Some(e.constant));
        for (product, coefficient) in &e.terms {
            let (mut least, mut most) = (Some(1_i64), Some(1_i64));
            for atom in product {
                let (l, m) = atom.bounds();
                // The product of bounds bounds the product only if no factor is negative.
                let factor = l.filter(|l| *l >= 0);
                most = factor.and_then(|_| both(most, m, i64::checked_mul));
                least = both(least, factor, i64::checked_mul);
            }
            let scaled = |bound: Option<i64>| bound.and_then(|b| b.checked_mul(*coefficient));
            let term =
                if *coefficient > 0 { (scaled(least), scaled(most)) } else { (scaled(most), scaled(least)) };
            sum = (both(sum.0, term.0, i64::checked_add), both(sum.1, term.1, i64::checked_add));
        }
        sum
    }

    /// Returns the bounds of a sum with a minimum or maximum: the bounds of the sums with either of its
    /// operands, since the operands and the other terms depend on the same symbols.
    fn bounds_of_extreme(&self, splits: &Cell<u32>) -> Option<Bounds> {
        let Dim::Expr(e) = self else { return None };
        if e.terms.len() == 1 && e.constant == 0 {
            return None;
        }
        let (product, times, a, b, is_min) =
            e.terms.iter().find_map(|(product, times)| match product.as_slice() {
                [Atom::Of(operation @ (Operation::Min | Operation::Max), a, b)] => {
                    Some((product, *times, a, b, *operation == Operation::Min))
                }
                _ => None,
            })?;
        splits.set(splits.get().checked_sub(1)?);
        let rest = self - Dim::from_product(product.clone(), times);
        let with = |operand: &Dim| (&rest + operand * times).bounds_within(splits);
        let (a, b) = (with(a), with(b));
        Some(if is_min == (times > 0) { least_of(a, b) } else { greatest_of(a, b) })
    }

    /// Returns the rest without the remainder of a division by `n`, `x - n * floor_div(x, n)`, and the upper
    /// bound of that remainder; its lower bound is 0. Nested quotients are merged, so `x` may be a quotient
    /// itself.
    fn without_remainder(&self) -> Option<(Dim, i64)> {
        let Dim::Expr(e) = self else { return None };
        e.terms.iter().find_map(|(product, coefficient)| {
            let [Atom::Of(Operation::FloorDiv, dividend, Dim::Known(divisor))] = product.as_slice() else {
                return None;
            };
            let n = coefficient.checked_neg().filter(|n| *n > 1 && divisor.checked_rem(*n) == Some(0))?;
            let whole = dividend.floor_div(divisor.checked_div(n)?);
            let rest = (self - whole + Dim::from_product(product.clone(), n)).checked().ok()?;
            let terms = |dim: &Dim| if let Dim::Expr(e) = dim { e.terms.len() } else { 0 };
            (terms(&rest) < e.terms.len()).then_some((rest, n - 1))
        })
    }

    /// Returns whether the size is proved not to fall when symbols grow.
    pub(crate) fn is_rising(&self) -> bool {
        let Dim::Expr(e) = self else { return self.known().is_some() };
        e.terms.iter().all(|(product, coefficient)| {
            *coefficient > 0 && matches!(product.as_slice(), [atom] if atom.is_rising())
        })
    }

    /// Returns the lower bound, if it is known.
    pub fn lower_bound(&self) -> Option<i64> {
        self.bounds().0
    }
}
