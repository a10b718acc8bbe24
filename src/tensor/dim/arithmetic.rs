//! Sums and products of sizes.

use std::collections::BTreeMap;
use std::iter::Sum;
use std::ops::{Add, AddAssign, Mul, MulAssign, Neg, Sub, SubAssign};
use std::sync::{Arc, OnceLock};

use super::{Atom, Dim, Expr, Operation, Terms, Undefined};

/// A size, or the reason why there is none.
pub(super) type Computed = Result<Dim, Undefined>;

/// Returns a number that did not overflow.
pub(super) fn within(number: Option<i64>) -> Result<i64, Undefined> {
    number.ok_or(Undefined::Overflow)
}

impl From<i64> for Dim {
    fn from(n: i64) -> Dim {
        Dim::Known(n)
    }
}

impl From<i32> for Dim {
    fn from(n: i32) -> Dim {
        Dim::Known(n.into())
    }
}

impl From<usize> for Dim {
    fn from(n: usize) -> Dim {
        i64::try_from(n).map_or(Dim::Undefined(Undefined::Overflow), Dim::Known)
    }
}

impl From<&Dim> for Dim {
    fn from(size: &Dim) -> Dim {
        size.clone()
    }
}

impl From<Computed> for Dim {
    fn from(computed: Computed) -> Dim {
        computed.unwrap_or_else(Dim::Undefined)
    }
}

/// Implements an operator for sizes, and for integers on either side of them.
macro_rules! operators {
    ( $( $operator:ident $method:ident $assign:ident $assigning:ident $compute:ident, )* ) => { $(
        operators! { $operator $method $compute: Dim, &Dim }
        operators! { $operator $method: i64 of Dim, &Dim }

        impl<T: Into<Dim>> $assign<T> for Dim {
            fn $assigning(&mut self, other: T) {
                *self = self.$compute(&other.into()).into();
            }
        }
    )* };
    ( $operator:ident $method:ident $compute:ident: $( $left:ty ),* ) => { $(
        impl<T: Into<Dim>> $operator<T> for $left {
            type Output = Dim;

            fn $method(self, other: T) -> Dim {
                self.$compute(&other.into()).into()
            }
        }
    )* };
    ( $operator:ident $method:ident: i64 of $( $right:ty ),* ) => { $(
        impl $operator<$right> for i64 {
            type Output = Dim;

            fn $method(self, other: $right) -> Dim {
                Dim::Known(self).$method(other)
            }
        }
    )* };
}

operators! {
    Add add AddAssign add_assign sum_with,
    Sub sub SubAssign sub_assign difference_to,
    Mul mul MulAssign mul_assign product_with,
}

impl<T: Into<Dim>> Sum<T> for Dim {
    fn sum<I: Iterator<Item = T>>(sizes: I) -> Dim {
        sizes.fold(Dim::ZERO, |sum, size| sum + size)
    }
}

impl Neg for Dim {
    type Output = Dim;

    fn neg(self) -> Dim {
        -&self
    }
}

impl Neg for &Dim {
    type Output = Dim;

    fn neg(self) -> Dim {
        self * -1
    }
}

/// Arithmetic with an integer, which leaves the number and the depth of the terms as they are.
impl Expr {
    fn plus(self: &Arc<Expr>, number: i64) -> Computed {
        if number == 0 {
            return Ok(Dim::Expr(Arc::clone(self)));
        }
        let constant = within(self.constant.checked_add(number))?;
        Ok(Dim::Expr(Arc::new(self.with(constant, self.terms.clone()))))
    }

    fn times(self: &Arc<Expr>, number: i64) -> Computed {
        match number {
            0 => return Ok(Dim::ZERO),
            1 => return Ok(Dim::Expr(Arc::clone(self))),
            _ => {}
        }
        let (mut constant, mut terms) = (self.constant, self.terms.clone());
        for part in terms.values_mut().chain([&mut constant]) {
            *part = within(part.checked_mul(number))?;
        }
        Ok(Dim::Expr(Arc::new(self.with(constant, terms))))
    }

    /// Returns the expression of the same atoms with other numbers.
    fn with(&self, constant: i64, terms: Terms) -> Expr {
        Expr { constant, terms, depth: self.depth, atoms: self.atoms, bounds: OnceLock::new() }
    }
}

impl Dim {
    /// Returns the product of sizes; 1 for none.
    pub fn product<'a>(dims: impl IntoIterator<Item = &'a Dim>) -> Dim {
        dims.into_iter().fold(Dim::ONE, |product, dim| match (&product, dim) {
            (Dim::Known(a), Dim::Known(b)) => a.checked_mul(*b).map_or_else(|| product * dim, Dim::Known),
            _ => product * dim,
        })
    }

    fn sum_with(&self, other: &Dim) -> Computed {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => return within(a.checked_add(*b)).map(Dim::Known),
            (Dim::Expr(e), Dim::Known(n)) | (Dim::Known(n), Dim::Expr(e)) => return e.plus(*n),
            _ => {}
        }
        let (constant, mut terms) = self.defined_parts()?;
        let (c, t) = other.defined_parts()?;
        for (product, coefficient) in t {
            let sum = terms.entry(product).or_insert(0);
            *sum = within(sum.checked_add(coefficient))?;
        }
        Dim::from_parts(within(constant.checked_add(c))?, terms)
    }

    fn difference_to(&self, other: &Dim) -> Computed {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => within(a.checked_sub(*b)).map(Dim::Known),
            _ => self.sum_with(&other.product_with(&Dim::Known(-1))?),
        }
    }

    fn product_with(&self, other: &Dim) -> Computed {
        match (self, other) {
            (Dim::Known(a), Dim::Known(b)) => return within(a.checked_mul(*b)).map(Dim::Known),
            (Dim::Expr(e), Dim::Known(n)) | (Dim::Known(n), Dim::Expr(e)) => return e.times(*n),
            _ => {}
        }
        let (ca, ta) = self.defined_parts()?;
        let (cb, tb) = other.defined_parts()?;
        let constant = within(ca.checked_mul(cb))?;
        let mut terms = Terms::new();
        let with_constant = |c: i64, t: Terms| t.into_iter().chain([(Vec::new(), c)]);
        for (pa, a) in with_constant(ca, ta) {
            for (pb, b) in with_constant(cb, tb.clone()) {
                if pa.is_empty() && pb.is_empty() {
                    continue;
                }
                let mut product = pa.clone();
                product.extend(pb);
                product.sort();
                let sum = terms.entry(product).or_insert(0);
                *sum = within(a.checked_mul(b).and_then(|ab| sum.checked_add(ab)))?;
            }
        }
        Dim::from_parts(constant, terms)
    }

    fn defined_parts(&self) -> Result<(i64, Terms), Undefined> {
        match self {
            Dim::Undefined(reason) => Err(*reason),
            size => Ok(size.parts()),
        }
    }

    /// Returns the constant and the terms; no terms for an undefined size.
    pub(super) fn parts(&self) -> (i64, Terms) {
        match self {
            Dim::Known(n) => (*n, Terms::new()),
            Dim::Expr(e) => (e.constant, e.terms.clone()),
            Dim::Undefined(_) => (0, Terms::new()),
        }
    }

    pub(super) fn from_parts(constant: i64, mut terms: Terms) -> Computed {
        terms.retain(|_, coefficient| *coefficient != 0);
        if terms.is_empty() {
            return Ok(Dim::Known(constant));
        }
        let expression = Expr::new(constant, terms);
        if !expression.is_within_limits() {
            return Err(Undefined::Complexity);
        }
        Ok(Dim::Expr(Arc::new(expression)))
    }

    /// Creates a product of atoms and a number.
    pub(super) fn from_product(product: Vec<Atom>, times: i64) -> Dim {
        if product.is_empty() {
            return Dim::Known(times);
        }
        Dim::from_parts(0, BTreeMap::from([(product, times)])).into()
    }

    /// Creates the result of an operation that is not simplified.
    pub(super) fn of(operation: Operation, a: &Dim, b: &Dim) -> Dim {
        match [a, b] {
            [Dim::Undefined(_), _] => a.clone(),
            [_, Dim::Undefined(_)] => b.clone(),
            _ => Dim::from_atom(Atom::Of(operation, a.clone(), b.clone())).bounded(),
        }
    }

    /// Returns the size, undefined if its expression exceeds a limit.
    pub(super) fn bounded(self) -> Dim {
        match self {
            Dim::Expr(e) if !e.is_within_limits() => Dim::Undefined(Undefined::Complexity),
            size => size,
        }
    }
}
