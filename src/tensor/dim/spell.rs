//! Sizes as expressions of ncnn: integer functions in prefix notation.

use super::{Atom, Dim, Operation};

/// The largest number of an expression. The runtime computes in 32 bits, and a sum with a size is larger.
const LARGEST: u64 = 1 << 30;

impl Dim {
    /// Returns the expression, if `leaf` has a notation for all of its parts; `leaf` is called for the whole
    /// first. Operands of divisions are not negative: the runtime rounds towards zero.
    pub(crate) fn spell(&self, leaf: &mut impl FnMut(&Dim) -> Option<String>) -> Option<String> {
        let e = match self {
            Dim::Known(n @ 0..) => return Some(n.to_string()),
            Dim::Known(_) | Dim::Undefined(_) => return None,
            Dim::Expr(e) => e,
        };
        if let Some(word) = leaf(self) {
            return Some(word);
        }
        let numbers = e.terms.values().chain([&e.constant]);
        if numbers.into_iter().any(|number| number.unsigned_abs() > LARGEST) {
            return None;
        }
        let (mut sum, mut less) = (None, None);
        for (product, coefficient) in &e.terms {
            let mut text = None;
            for atom in product {
                text = join("*", text, spell_atom(atom, leaf)?);
            }
            if coefficient.unsigned_abs() != 1 {
                text = join("*", text, coefficient.unsigned_abs().to_string());
            }
            let side = if *coefficient < 0 { &mut less } else { &mut sum };
            *side = join("+", side.take(), text?);
        }
        if e.constant != 0 {
            let side = if e.constant < 0 { &mut less } else { &mut sum };
            *side = join("+", side.take(), e.constant.unsigned_abs().to_string());
        }
        match less {
            Some(less) => join("-", sum, less),
            None => sum,
        }
    }
}

fn join(function: &str, a: Option<String>, b: String) -> Option<String> {
    Some(match a {
        Some(a) => format!("{function}({a},{b})"),
        None => b,
    })
}

fn spell_atom(atom: &Atom, leaf: &mut impl FnMut(&Dim) -> Option<String>) -> Option<String> {
    if let Some(word) = leaf(&Dim::from_atom(atom.clone())) {
        return Some(word);
    }
    let Atom::Of(operation, a, b) = atom else { return None };
    let whole = |dim: &Dim, least| dim.lower_bound().is_some_and(|bound| bound >= least);
    let divides = matches!(operation, Operation::FloorDiv | Operation::Mod);
    if divides && !(whole(a, 0) && whole(b, 1)) {
        return None;
    }
    let (a, b) = (a.spell(leaf)?, b.spell(leaf)?);
    Some(match operation {
        Operation::FloorDiv => format!("//({a},{b})"),
        Operation::Mod => format!("-({a},*(//({a},{b}),{b}))"),
        Operation::Min | Operation::Max => format!("{}({a},{b})", operation.name()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spelled(dim: &Dim) -> Option<String> {
        dim.spell(&mut |part| match part.to_string().as_str() {
            "H" => Some("0h".to_owned()),
            "2*W" => Some("1w".to_owned()),
            _ => None,
        })
    }

    #[test]
    fn expressions_are_in_prefix_notation() {
        let (h, w) = (Dim::symbol("H"), Dim::symbol("W"));
        let half = (&h + 1).floor_div(2);
        for (dim, text) in [
            (Dim::from(3), Some("3")),
            (h.clone(), Some("0h")),
            (half.clone(), Some("//(+(0h,1),2)")),
            (half * 2 - 1, Some("-(*(//(+(0h,1),2),2),1)")),
            (&w * 2, Some("1w")),
            (h.minimum(9), Some("min(0h,9)")),
            (h.modulo(2), Some("-(0h,*(//(0h,2),2))")),
            // No blob has the size, or the dividend may be negative.
            (w.clone(), None),
            (&h + (1 << 30), Some("+(0h,1073741824)")),
            (&h + i64::from(i32::MAX), None),
            ((&h - w * 2).floor_div(3), None),
            ((4 - &h).floor_div(3), Some("-(1,//(+(0h,1),3))")),
            ((-h).modulo(2), Some("-(0h,*(//(0h,2),2))")),
        ] {
            assert_eq!(spelled(&dim).as_deref(), text, "{dim}");
        }
    }
}
