//! Division of sizes.

use std::collections::BTreeMap;

use super::arithmetic::{Computed, within};
use super::{Atom, Dim, Expr, Operation, Undefined};
use crate::common::limits;

/// Returns the greatest common divisor.
pub(in crate::tensor) fn greatest_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.saturating_abs()
}

/// Returns the leading product of a polynomial and its coefficient: of the highest degree, and of these the
/// last. A product of leading products leads the product of the polynomials.
fn leading(constant: i64, terms: &BTreeMap<Vec<Atom>, i64>) -> Option<(Vec<Atom>, i64)> {
    match terms.iter().max_by(|(a, _), (b, _)| (a.len(), a).cmp(&(b.len(), b))) {
        Some((product, coefficient)) => Some((product.clone(), *coefficient)),
        None => (constant != 0).then(|| (Vec::new(), constant)),
    }
}

impl Expr {
    /// Splits off the multiples of `n`: returns them divided by `n`, and the rest.
    fn split_multiple(&self, n: i64) -> Result<(Dim, Dim), Undefined> {
        let (mut whole, mut rest) = (BTreeMap::new(), BTreeMap::new());
        for (product, coefficient) in &self.terms {
            match (coefficient.checked_rem(n), coefficient.checked_div(n)) {
                (Some(0), Some(quotient)) => whole.insert(product.clone(), quotient),
                _ => rest.insert(product.clone(), *coefficient),
            };
        }
        let (quotient, remainder) = (self.constant.div_euclid(n), self.constant.rem_euclid(n));
        Ok((Dim::from_parts(quotient, whole)?, Dim::from_parts(remainder, rest)?))
    }
}

impl Expr {
    /// Returns the greatest common divisor of the coefficients.
    pub(super) fn factor(&self) -> i64 {
        self.terms.values().fold(0, |common, times| greatest_divisor(common, *times))
    }

    /// Returns the expression with coefficients from 0 up to `n`, which has the same remainder; from `-n / 2`
    /// up to 0, if all of them are: -1 instead of 7 for 8.
    fn reduced(&self, n: i64) -> Dim {
        let reduced = |times: &i64| times.checked_rem_euclid(n).unwrap_or(*times);
        let terms = self.terms.iter().map(|(product, times)| (product.clone(), reduced(times)));
        let mut terms: BTreeMap<_, _> = terms.filter(|(_, times)| *times != 0).collect();
        if terms.values().all(|times| *times > n / 2) {
            terms.values_mut().for_each(|times| *times -= n);
        }
        Dim::from_parts(reduced(&self.constant), terms).into()
    }
}

impl Atom {
    /// Returns a number by which symbols may be increased so that the size grows by a constant: the product
    /// of its nested divisors. `None` for products, minima, maxima and divisions by expressions.
    fn period(&self) -> Option<i64> {
        match self {
            Atom::Symbol(_) | Atom::Length(_) => Some(1),
            Atom::Of(Operation::FloorDiv, a, Dim::Known(n @ 1..)) => a.period()?.checked_mul(*n),
            _ => None,
        }
    }
}

impl Dim {
    /// Returns the greatest common divisor of all coefficients and constants of both sizes.
    pub(crate) fn common_factor(&self, other: &Dim) -> i64 {
        [self, other].into_iter().fold(0, |common, size| match size {
            Dim::Known(n) => greatest_divisor(common, *n),
            Dim::Expr(e) => greatest_divisor(greatest_divisor(common, e.constant), e.factor()),
            Dim::Undefined(_) => common,
        })
    }

    /// Returns the size divided by the greatest common divisor of its coefficients and its constant, and this
    /// divisor.
    pub(in crate::tensor) fn lowest_terms(&self) -> (Dim, i64) {
        let factor = self.common_factor(&Dim::ZERO).max(1);
        (self.exact_div(factor).unwrap_or_else(|| self.clone()), factor)
    }

    /// Returns a number by which the symbols may be increased so that the size grows by a constant; `None` if
    /// the size is not a sum of symbols and of their quotients by numbers.
    pub(crate) fn period(&self) -> Option<i64> {
        let Dim::Expr(e) = self else { return self.known().map(|_| 1) };
        e.terms.keys().try_fold(1_i64, |period, product| {
            let [atom] = product.as_slice() else { return None };
            let other = atom.period()?;
            period.checked_div(greatest_divisor(period, other))?.checked_mul(other)
        })
    }

    /// Returns `self / other` if that is exact for all values of the symbols.
    pub fn exact_div(&self, other: impl Into<Dim>) -> Option<Dim> {
        let other = &other.into();
        if let (Dim::Undefined(_), _) | (_, Dim::Undefined(_)) = (self, other) {
            return None;
        }
        if let Dim::Known(n) = other {
            let (constant, mut terms) = self.parts();
            if *n == 0 || constant.checked_rem(*n)? != 0 {
                return None;
            }
            for coefficient in terms.values_mut() {
                if coefficient.checked_rem(*n)? != 0 {
                    return None;
                }
                *coefficient = coefficient.checked_div(*n)?;
            }
            return Dim::from_parts(constant.checked_div(*n)?, terms).ok();
        }
        let Dim::Expr(divisor) = other else { return None };
        if self == other {
            return Some(Dim::ONE);
        }
        if self.is(0) {
            return Some(Dim::ZERO);
        }
        // Long division of polynomials.
        let leading = leading(divisor.constant, &divisor.terms)?;
        let (mut rest, mut quotient) = (self.clone(), Dim::ZERO);
        for _ in 0..limits::DIM_TERMS {
            if rest.is(0) {
                return Some(quotient);
            }
            let (constant, terms) = rest.parts();
            let (mut product, coefficient) = self::leading(constant, &terms)?;
            for atom in &leading.0 {
                let index = product.iter().position(|other| other == atom)?;
                product.remove(index);
            }
            if coefficient.checked_rem(leading.1)? != 0 {
                return None;
            }
            let coefficient = coefficient.checked_div(leading.1)?;
            let term = Dim::from_product(product, coefficient);
            rest -= &term * other;
            quotient += term;
        }
        None
    }

    /// Returns the largest integer not above `self / other`.
    pub fn floor_div(&self, other: impl Into<Dim>) -> Dim {
        self.floor_quotient(&other.into()).into()
    }

    fn floor_quotient(&self, other: &Dim) -> Computed {
        match (self, other) {
            (_, Dim::Known(0)) => return Err(Undefined::DivisionByZero),
            (Dim::Known(a), Dim::Known(b)) => {
                let (q, r) = (within(a.checked_div(*b))?, within(a.checked_rem(*b))?);
                let below = r != 0 && ((r < 0) != (*b < 0));
                return Ok(Dim::Known(if below { within(q.checked_sub(1))? } else { q }));
            }
            _ => {}
        }
        if let Some(exact) = self.exact_div(other) {
            return Ok(exact);
        }
        if let Some((dividend, divisor)) = self.without_common_atoms(other) {
            return dividend.floor_quotient(&divisor);
        }
        match (self, other) {
            (Dim::Expr(e), Dim::Known(n)) if *n > 0 => {
                let (whole, rest) = e.split_multiple(*n)?;
                if let Some(known) = rest.known() {
                    return Ok(whole + known.div_euclid(*n));
                }
                if rest.parts().1.values().all(|times| *times < 0) {
                    // The runtime divides numbers that are not negative.
                    let opposite = n.saturating_sub(1) - rest;
                    return Ok(whole - opposite.floor_quotient(other)?);
                }
                Ok(whole + rest.quotient(*n)?)
            }
            _ => Ok(Dim::of(Operation::FloorDiv, self, other)),
        }
    }

    /// Returns dividend and divisor without common symbolic factors.
    fn without_common_atoms(&self, other: &Dim) -> Option<(Dim, Dim)> {
        let (Dim::Expr(dividend), Dim::Expr(divisor)) = (self, other) else { return None };
        let one_product = |e: &Expr| e.constant == 0 && e.terms.len() == 1;
        if !one_product(dividend) || !one_product(divisor) {
            return None;
        }
        let ((from, a), (by, b)) = (dividend.terms.first_key_value()?, divisor.terms.first_key_value()?);
        let (mut kept, mut left) = (from.clone(), Vec::new());
        for atom in by {
            match kept.iter().position(|other| other == atom) {
                Some(index) => {
                    kept.remove(index);
                }
                None => left.push(atom.clone()),
            }
        }
        (kept.len() < from.len()).then_some(())?;
        Some((Dim::from_product(kept, *a), Dim::from_product(left, *b)))
    }

    /// Returns the quotient by a positive integer, rounded down, in lowest terms; nested quotients are
    /// merged.
    fn quotient(&self, divisor: i64) -> Computed {
        let (constant, mut terms) = self.parts();
        let common = terms.values().fold(divisor, |common, times| greatest_divisor(common, *times));
        if common > 1 {
            terms.values_mut().for_each(|times| *times = times.div_euclid(common));
            let lowest = Dim::from_parts(constant.div_euclid(common), terms)?;
            return lowest.floor_quotient(&Dim::Known(divisor.div_euclid(common)));
        }
        if let Dim::Expr(e) = self
            && let Some((product, 1)) = e.terms.first_key_value()
            && e.terms.len() == 1
            && let [Atom::Of(Operation::FloorDiv, dividend, Dim::Known(inner @ 1..))] = product.as_slice()
            && let (Some(both), Some(more)) = (inner.checked_mul(divisor), inner.checked_mul(e.constant))
        {
            return (dividend + more).floor_quotient(&Dim::Known(both));
        }
        Ok(Dim::of(Operation::FloorDiv, self, &Dim::Known(divisor)))
    }

    /// Returns the smallest integer not below `self / other`, for a positive `other`.
    pub fn ceil_div(&self, other: impl Into<Dim>) -> Dim {
        let other = other.into();
        self.exact_div(&other).unwrap_or_else(|| (self + &other - 1).floor_div(other))
    }

    /// Returns the remainder of [`Dim::floor_div`].
    pub fn modulo(&self, other: impl Into<Dim>) -> Dim {
        let other = &other.into();
        if self.exact_div(other).is_some() {
            return Dim::ZERO;
        }
        let dividend = match (self, other) {
            (_, Dim::Known(0)) => return Dim::Undefined(Undefined::DivisionByZero),
            (Dim::Known(_), Dim::Known(_)) => self.clone(),
            (Dim::Expr(e), Dim::Known(n @ 1..)) => e.reduced(*n),
            _ => return Dim::of(Operation::Mod, self, other),
        };
        &dividend - dividend.floor_div(other) * other
    }
}
