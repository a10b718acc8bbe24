//! Axis sizes: integers, or expressions over named symbols.
//!
//! An expression is a polynomial in canonical form (a sum of products of atoms), so that equal sizes compare
//! equal. Operations other than sums and products (division, remainder, minimum, maximum) are atoms.

mod bounds;
mod parts;
mod spell;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Arc;

use crate::common::limits;
use crate::error::{Error, Result};

pub(crate) use parts::{Operation, Sum};

/// The size of an axis, or an element of an integer tensor of sizes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dim {
    /// An integer. Sizes are not negative; elements of shape arithmetic may be.
    Known(i64),
    /// An expression with at least one symbol.
    Expr(Arc<Expr>),
}

/// A polynomial over atoms, with integer coefficients.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Expr {
    constant: i64,
    /// Products of sorted atoms with their coefficients; none is zero.
    terms: BTreeMap<Vec<Atom>, i64>,
    depth: u32,
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Atom {
    Symbol(Arc<str>),
    FloorDiv(Dim, Dim),
    Mod(Dim, Dim),
    Min(Dim, Dim),
    Max(Dim, Dim),
}

/// Returns the greatest common divisor.
fn greatest_divisor(mut a: i64, mut b: i64) -> i64 {
    while b != 0 {
        (a, b) = (b, a.wrapping_rem(b));
    }
    a.saturating_abs()
}

fn overflow() -> Error {
    Error::limit("the arithmetic of sizes overflows 64 bits")
}

impl Atom {
    fn depth(&self) -> u32 {
        match self {
            Atom::Symbol(_) => 0,
            Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                1 + a.depth().max(b.depth())
            }
        }
    }
}

impl Expr {
    /// Splits off the multiples of `n`: returns them divided by `n`, and the rest.
    fn split_multiple(&self, n: i64) -> Result<(Dim, Dim)> {
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

impl Dim {
    /// Creates a free size with this name.
    pub fn symbol(name: &str) -> Dim {
        Dim::from_atom(Atom::Symbol(Arc::from(name)))
    }

    /// Returns the integer, unless the size is symbolic.
    pub fn known(&self) -> Option<i64> {
        match self {
            Dim::Known(n) => Some(*n),
            Dim::Expr(_) => None,
        }
    }

    /// Returns whether the size is `n`.
    pub fn is(&self, n: i64) -> bool {
        self.known() == Some(n)
    }

    fn depth(&self) -> u32 {
        match self {
            Dim::Known(_) => 0,
            Dim::Expr(e) => e.depth,
        }
    }

    fn from_atom(atom: Atom) -> Dim {
        let depth = atom.depth();
        Dim::Expr(Arc::new(Expr { constant: 0, terms: BTreeMap::from([(vec![atom], 1)]), depth }))
    }

    fn from_parts(constant: i64, mut terms: BTreeMap<Vec<Atom>, i64>) -> Result<Dim> {
        terms.retain(|_, coefficient| *coefficient != 0);
        if terms.is_empty() {
            return Ok(Dim::Known(constant));
        }
        let depth = terms.keys().flatten().map(Atom::depth).max().unwrap_or(0);
        if terms.len() > limits::DIM_TERMS || depth > limits::DIM_DEPTH {
            return Err(Error::limit("the expression of a size is too complex"));
        }
        Ok(Dim::Expr(Arc::new(Expr { constant, terms, depth })))
    }

    fn parts(&self) -> (i64, BTreeMap<Vec<Atom>, i64>) {
        match self {
            Dim::Known(n) => (*n, BTreeMap::new()),
            Dim::Expr(e) => (e.constant, e.terms.clone()),
        }
    }

    /// Returns `self + other`.
    pub fn add(&self, other: &Dim) -> Result<Dim> {
        if let (Dim::Known(a), Dim::Known(b)) = (self, other) {
            return Ok(Dim::Known(a.checked_add(*b).ok_or_else(overflow)?));
        }
        let (mut constant, mut terms) = self.parts();
        let (c, t) = other.parts();
        constant = constant.checked_add(c).ok_or_else(overflow)?;
        for (product, coefficient) in t {
            let sum = terms.entry(product).or_insert(0);
            *sum = sum.checked_add(coefficient).ok_or_else(overflow)?;
        }
        Dim::from_parts(constant, terms)
    }

    /// Returns `self - other`.
    pub fn sub(&self, other: &Dim) -> Result<Dim> {
        self.add(&other.mul(&Dim::Known(-1))?)
    }

    /// Returns `self * other`.
    pub fn mul(&self, other: &Dim) -> Result<Dim> {
        if let (Dim::Known(a), Dim::Known(b)) = (self, other) {
            return Ok(Dim::Known(a.checked_mul(*b).ok_or_else(overflow)?));
        }
        let (ca, ta) = self.parts();
        let (cb, tb) = other.parts();
        let constant = ca.checked_mul(cb).ok_or_else(overflow)?;
        let mut terms: BTreeMap<Vec<Atom>, i64> = BTreeMap::new();
        let with_constant = |c: i64, t: BTreeMap<Vec<Atom>, i64>| t.into_iter().chain([(Vec::new(), c)]);
        for (pa, a) in with_constant(ca, ta) {
            for (pb, b) in with_constant(cb, tb.clone()) {
                if pa.is_empty() && pb.is_empty() {
                    continue;
                }
                let mut product = pa.clone();
                product.extend(pb);
                product.sort();
                let sum = terms.entry(product).or_insert(0);
                *sum = a.checked_mul(b).and_then(|ab| sum.checked_add(ab)).ok_or_else(overflow)?;
            }
        }
        Dim::from_parts(constant, terms)
    }

    /// Returns `self / other` if that is exact for all values of the symbols.
    pub fn exact_div(&self, other: &Dim) -> Option<Dim> {
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
            return Some(Dim::Known(1));
        }
        if self.is(0) {
            return Some(Dim::Known(0));
        }
        let (constant, terms) = self.parts();
        // A multiple of the divisor.
        if let (Some((_, a)), Some((_, b))) = (terms.first_key_value(), divisor.terms.first_key_value())
            && let Some(times) = a.checked_div(*b).map(Dim::Known)
            && other.mul(&times).is_ok_and(|multiple| multiple == *self)
        {
            return Some(times);
        }
        // A divisor of one product: its atoms are removed from every product of the dividend.
        if divisor.constant != 0 || divisor.terms.len() != 1 || constant != 0 {
            return None;
        }
        let (atoms, scale) = divisor.terms.first_key_value()?;
        let mut quotient = Dim::Known(0);
        for (mut product, coefficient) in terms {
            for atom in atoms {
                let place = product.iter().position(|a| a == atom)?;
                product.remove(place);
            }
            if coefficient.checked_rem(*scale)? != 0 {
                return None;
            }
            let coefficient = coefficient.checked_div(*scale)?;
            let term = if product.is_empty() {
                Dim::Known(coefficient)
            } else {
                Dim::from_parts(0, BTreeMap::from([(product, coefficient)])).ok()?
            };
            quotient = quotient.add(&term).ok()?;
        }
        Some(quotient)
    }

    /// Returns the largest integer not above `self / other`.
    pub fn floor_div(&self, other: &Dim) -> Result<Dim> {
        if let Some(exact) = self.exact_div(other) {
            return Ok(exact);
        }
        if let Some((dividend, divisor)) = self.without_common_atoms(other) {
            return dividend.floor_div(&divisor);
        }
        match (self, other) {
            (_, Dim::Known(0)) => Err(Error::invalid("a size is divided by zero")),
            (Dim::Known(a), Dim::Known(b)) => {
                let (q, r) =
                    (a.checked_div(*b).ok_or_else(overflow)?, a.checked_rem(*b).ok_or_else(overflow)?);
                let below = r != 0 && ((r < 0) != (*b < 0));
                Ok(Dim::Known(if below { q.checked_sub(1).ok_or_else(overflow)? } else { q }))
            }
            (Dim::Expr(e), Dim::Known(n)) if *n > 0 => {
                let (whole, rest) = e.split_multiple(*n)?;
                if let Some(known) = rest.known() {
                    return whole.add(&Dim::Known(known.div_euclid(*n)));
                }
                whole.add(&rest.quotient(*n)?)
            }
            _ => Dim::from_atom(Atom::FloorDiv(self.clone(), other.clone())).bounded(),
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
                Some(place) => {
                    kept.remove(place);
                }
                None => left.push(atom.clone()),
            }
        }
        let product = |atoms: Vec<Atom>, times: i64| {
            if atoms.is_empty() {
                return Some(Dim::Known(times));
            }
            Dim::from_parts(0, BTreeMap::from([(atoms, times)])).ok()
        };
        (kept.len() < from.len()).then_some(())?;
        Some((product(kept, *a)?, product(left, *b)?))
    }

    /// Returns the quotient by a positive integer, rounded down, in lowest terms; nested quotients are
    /// merged.
    fn quotient(&self, divisor: i64) -> Result<Dim> {
        let (constant, mut terms) = self.parts();
        let common = terms.values().fold(divisor, |common, times| greatest_divisor(common, *times));
        if common > 1 {
            terms.values_mut().for_each(|times| *times = times.div_euclid(common));
            let lowest = Dim::from_parts(constant.div_euclid(common), terms)?;
            return lowest.floor_div(&Dim::Known(divisor.div_euclid(common)));
        }
        if let Dim::Expr(e) = self
            && let Some((product, 1)) = e.terms.first_key_value()
            && e.terms.len() == 1
            && let [Atom::FloorDiv(dividend, Dim::Known(inner @ 1..))] = product.as_slice()
            && let (Some(both), Some(more)) = (inner.checked_mul(divisor), inner.checked_mul(e.constant))
        {
            return dividend.add(&Dim::Known(more))?.floor_div(&Dim::Known(both));
        }
        Dim::from_atom(Atom::FloorDiv(self.clone(), Dim::Known(divisor))).bounded()
    }

    /// Returns the smallest integer not below `self / other`, for a positive `other`.
    pub fn ceil_div(&self, other: &Dim) -> Result<Dim> {
        match self.exact_div(other) {
            Some(exact) => Ok(exact),
            None => self.add(other)?.sub(&Dim::Known(1))?.floor_div(other),
        }
    }

    /// Returns the remainder of [`Dim::floor_div`].
    pub fn modulo(&self, other: &Dim) -> Result<Dim> {
        if self.exact_div(other).is_some() {
            return Ok(Dim::Known(0));
        }
        match (self, other) {
            (_, Dim::Known(0)) => Err(Error::invalid("a size is divided by zero")),
            (Dim::Known(_), Dim::Known(_)) => self.sub(&self.floor_div(other)?.mul(other)?),
            _ => Ok(Dim::from_atom(Atom::Mod(self.clone(), other.clone()))).and_then(Dim::bounded),
        }
    }

    /// Returns the size of two broadcast axes: equal, or one of them 1.
    pub fn broadcast(&self, other: &Dim) -> Result<Dim> {
        match (self, other) {
            (a, b) if a == b || b.is(1) => Ok(a.clone()),
            (a, b) if a.is(1) => Ok(b.clone()),
            (Dim::Known(_), Dim::Known(_)) => {
                Err(Error::invalid(format!("sizes {self} and {other} do not broadcast")))
            }
            // The free size is 1 or the integer: the result is the integer in both cases.
            (Dim::Known(_), Dim::Expr(_)) => Ok(self.clone()),
            (Dim::Expr(_), Dim::Known(_)) => Ok(other.clone()),
            // One is 1, or both are equal: the result is the larger one in both cases.
            (Dim::Expr(_), Dim::Expr(_)) => self.larger(other),
        }
    }

    fn bounded(self) -> Result<Dim> {
        if self.depth() > limits::DIM_DEPTH {
            return Err(Error::limit("the expression of a size is too complex"));
        }
        Ok(self)
    }

    /// Returns the product of sizes; 1 for none.
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Result<Dim> {
        dims.into_iter().try_fold(Dim::Known(1), |product, dim| product.mul(dim))
    }

    /// Replaces symbols.
    pub fn substitute(&self, values: &BTreeMap<String, Dim>) -> Result<Dim> {
        let Dim::Expr(e) = self else { return Ok(self.clone()) };
        let mut sum = Dim::Known(e.constant);
        for (product, coefficient) in &e.terms {
            let mut term = Dim::Known(*coefficient);
            for atom in product {
                let factor = match atom {
                    Atom::Symbol(name) => {
                        values.get(name.as_ref()).cloned().unwrap_or_else(|| Dim::from_atom(atom.clone()))
                    }
                    Atom::FloorDiv(a, b) => a.substitute(values)?.floor_div(&b.substitute(values)?)?,
                    Atom::Mod(a, b) => a.substitute(values)?.modulo(&b.substitute(values)?)?,
                    Atom::Min(a, b) => a.substitute(values)?.smaller(&b.substitute(values)?)?,
                    Atom::Max(a, b) => a.substitute(values)?.larger(&b.substitute(values)?)?,
                };
                term = term.mul(&factor)?;
            }
            sum = sum.add(&term)?;
        }
        Ok(sum)
    }

    /// Adds the names of all symbols to `names`.
    pub fn collect_symbols(&self, names: &mut BTreeSet<String>) {
        let Dim::Expr(e) = self else { return };
        for atom in e.terms.keys().flatten() {
            match atom {
                Atom::Symbol(name) => {
                    names.insert(name.to_string());
                }
                Atom::FloorDiv(a, b) | Atom::Mod(a, b) | Atom::Min(a, b) | Atom::Max(a, b) => {
                    a.collect_symbols(names);
                    b.collect_symbols(names);
                }
            }
        }
    }
}

impl From<i64> for Dim {
    fn from(n: i64) -> Self {
        Dim::Known(n)
    }
}

impl TryFrom<usize> for Dim {
    type Error = Error;

    fn try_from(n: usize) -> Result<Self> {
        Ok(Dim::Known(i64::try_from(n)?))
    }
}

impl fmt::Display for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let e = match self {
            Dim::Known(n) => return write!(f, "{n}"),
            Dim::Expr(e) => e,
        };
        for (i, (product, coefficient)) in e.terms.iter().enumerate() {
            if *coefficient < 0 {
                f.write_str("-")?;
            } else if i > 0 {
                f.write_str("+")?;
            }
            if coefficient.unsigned_abs() != 1 {
                write!(f, "{}*", coefficient.unsigned_abs())?;
            }
            for (j, atom) in product.iter().enumerate() {
                if j > 0 {
                    f.write_str("*")?;
                }
                match atom {
                    Atom::Symbol(name) => f.write_str(name)?,
                    Atom::FloorDiv(a, b) => write!(f, "floor_div({a}, {b})")?,
                    Atom::Mod(a, b) => write!(f, "mod({a}, {b})")?,
                    Atom::Min(a, b) => write!(f, "min({a}, {b})")?,
                    Atom::Max(a, b) => write!(f, "max({a}, {b})")?,
                }
            }
        }
        match e.constant {
            0 => Ok(()),
            c if c > 0 => write!(f, "+{c}"),
            c => write!(f, "{c}"),
        }
    }
}

impl fmt::Debug for Dim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Returns the shape of two values that are broadcast, aligned at their last axes.
pub fn broadcast_shapes(a: &[Dim], b: &[Dim]) -> Result<Vec<Dim>> {
    let (long, short) = if a.len() >= b.len() { (a, b) } else { (b, a) };
    let (free, aligned) = long.split_at(long.len() - short.len());
    let mut shape = free.to_vec();
    for (x, y) in aligned.iter().zip(short) {
        shape.push(x.broadcast(y)?);
    }
    Ok(shape)
}

/// Formats a shape as `[1, 3, H, W]`.
pub fn display_shape(shape: &[Dim]) -> String {
    let axes: Vec<String> = shape.iter().map(Dim::to_string).collect();
    format!("[{}]", axes.join(", "))
}
