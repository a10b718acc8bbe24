//! The structure of expressions, for consumers.

use std::collections::BTreeMap;

use super::{Atom, Dim};

/// A sum of products with coefficients, and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub terms: Vec<(Vec<Dim>, i64)>,
    pub constant: i64,
}

/// An operation other than a sum or product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Operation {
    FloorDiv,
    Mod,
    Min,
    Max,
}

impl Dim {
    /// Returns the size as a sum.
    pub(crate) fn sum(&self) -> Sum {
        let (constant, terms) = self.parts();
        let atoms = |product: Vec<Atom>| product.into_iter().map(Dim::from_atom).collect();
        let terms = terms.into_iter().map(|(product, coefficient)| (atoms(product), coefficient)).collect();
        Sum { terms, constant }
    }

    /// Returns the operation and its operands, if the size is a single one.
    pub(crate) fn operation(&self) -> Option<(Operation, Dim, Dim)> {
        let Dim::Expr(e) = self else { return None };
        let mut terms: BTreeMap<_, _> = e.terms.clone();
        let (product, 1) = terms.pop_first()? else { return None };
        if e.constant != 0 || !terms.is_empty() {
            return None;
        }
        let [atom] = product.as_slice() else { return None };
        match atom {
            Atom::Symbol(_) | Atom::Length(_) => None,
            Atom::FloorDiv(a, b) => Some((Operation::FloorDiv, a.clone(), b.clone())),
            Atom::Mod(a, b) => Some((Operation::Mod, a.clone(), b.clone())),
            Atom::Min(a, b) => Some((Operation::Min, a.clone(), b.clone())),
            Atom::Max(a, b) => Some((Operation::Max, a.clone(), b.clone())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_parts() {
        let (h, w, two) = (Dim::symbol("H"), Dim::symbol("W"), Dim::Known(2));
        let sum = h.mul(&w).unwrap().mul(&two).unwrap().sub(&Dim::Known(3)).unwrap();
        assert_eq!(sum.sum(), Sum { terms: vec![(vec![h.clone(), w], 2)], constant: -3 });
        assert_eq!(sum.operation(), None);
        let half = h.floor_div(&two).unwrap();
        assert_eq!(half.operation(), Some((Operation::FloorDiv, h.clone(), two)));
        assert_eq!(h.operation(), None);
    }
}
