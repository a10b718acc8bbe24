//! The structure of expressions, for consumers.

use super::{Atom, Dim};
/// A sum of products with coefficients, and a constant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Sum {
    pub terms: Vec<(Vec<Dim>, i64)>,
    pub constant: i64,
}

/// An operation other than a sum or product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Operation {
    FloorDiv,
    Mod,
    Min,
    Max,
}

impl Operation {
    /// Returns the name in messages.
    pub(super) fn name(self) -> &'static str {
        match self {
            Operation::FloorDiv => "floor_div",
            Operation::Mod => "mod",
            Operation::Min => "min",
            Operation::Max => "max",
        }
    }

    /// Returns the result.
    pub(super) fn apply(self, a: &Dim, b: &Dim) -> Dim {
        match self {
            Operation::FloorDiv => a.floor_div(b),
            Operation::Mod => a.modulo(b),
            Operation::Min => a.minimum(b),
            Operation::Max => a.maximum(b),
        }
    }
}

impl Dim {
    /// Returns the size as a sum.
    pub(crate) fn sum(&self) -> Sum {
        if let Dim::Undefined(_) = self {
            return Sum { terms: vec![(vec![self.clone()], 1)], constant: 0 };
        }
        let (constant, terms) = self.parts();
        let atoms = |product: Vec<Atom>| product.into_iter().map(Dim::from_atom).collect();
        let terms = terms.into_iter().map(|(product, coefficient)| (atoms(product), coefficient)).collect();
        Sum { terms, constant }
    }

    /// Returns the operation and its operands, if the size is a single one.
    pub(crate) fn operation(&self) -> Option<(Operation, Dim, Dim)> {
        let [Atom::Of(operation, a, b)] = self.only_product()? else { return None };
        Some((*operation, a.clone(), b.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_have_parts() {
        let (h, w, two) = (Dim::symbol("H"), Dim::symbol("W"), Dim::from(2));
        let sum = &h * w.clone() * 2 - 3;
        assert_eq!(sum.sum(), Sum { terms: vec![(vec![h.clone(), w], 2)], constant: -3 });
        assert_eq!(sum.operation(), None);
        let half = h.floor_div(2);
        assert_eq!(half.operation(), Some((Operation::FloorDiv, h.clone(), two)));
        assert_eq!(h.operation(), None);
    }
}
