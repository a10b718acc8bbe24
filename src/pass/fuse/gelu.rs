//! Gelu: `x * (1 + erf(x / sqrt(2))) / 2`, and its approximation `x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715
//! * x^3))) / 2`.

use std::collections::BTreeSet;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::terms::{polynomial, product};
use super::{Build, Found, Look, first, fuse, near, orders};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};

/// The factor of the cube in the approximation.
const CUBE: f64 = 0.044_715;

/// `x`, and whether it is the approximation.
type Parts = (ValueId, bool);

pub(crate) fn fuse_gelu(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made: &mut Build, (x, tanh)| {
        let approximate = if tanh { "tanh" } else { "none" };
        made.last("Gelu", &[x], &[("approximate", Attribute::String(approximate.into()))]);
        Ok(())
    })
}

fn find(look: &Look, node: &Node) -> Option<Found<Parts>> {
    let result = node.outputs.first().copied().flatten()?;
    let product = product(look, node)?;
    let [a, b] = *product.values.as_slice() else { return None };
    [(a, b), (b, a)].into_iter().find_map(|(x, gate)| {
        if !look.alike(x, result) {
            return None;
        }
        let mut inner = product.inner.clone();
        let tanh = read_gate(look, gate, x, product.number, &mut inner)?;
        Some(Found { inner, parts: (x, tanh) })
    })
}

/// Returns whether `number * gate` is the second factor of Gelu, and if so, whether by tanh.
fn read_gate(
    look: &Look,
    gate: ValueId,
    x: ValueId,
    number: f64,
    inner: &mut BTreeSet<ValueId>,
) -> Option<bool> {
    inner.insert(gate);
    if let Some(node) = look.made_by(gate, "Sigmoid") {
        // (1 + tanh(z)) / 2 is the sigmoid of 2 z.
        let found = polynomial(look, first(node)?, x, inner)?;
        return (number == 1.0 && is_inner(look, x, found.map(|c| c / 2.0))).then_some(true);
    }
    let sum = look.made_by(gate, "Add")?;
    let curve = orders(sum).find_map(|(curve, one)| {
        let (scale, curve) = match look.number(one)? {
            1.0 => (1.0, curve),
            // The factor 1/2 may be multiplied into the sum.
            0.5 => {
                inner.insert(curve);
                let half = look.made_by(curve, "Mul")?;
                let curve = orders(half).find_map(|(c, half)| look.is_number(half, 0.5).then_some(c))?;
                (0.5, curve)
            }
            _ => return None,
        };
        (number * scale == 0.5).then_some(curve)
    })?;
    inner.insert(curve);
    if let Some(erf) = look.made_by(curve, "Erf") {
        let [c0, c1, c2, c3] = polynomial(look, first(erf)?, x, inner)?;
        let is_erf = near(c1, FRAC_1_SQRT_2, look.graph.value(x).dtype) && [c0, c2, c3] == [0.0; 3];
        return is_erf.then_some(false);
    }
    let tanh = look.made_by(curve, "Tanh")?;
    let found = polynomial(look, first(tanh)?, x, inner)?;
    is_inner(look, x, found).then_some(true)
}

/// Returns whether the polynomial is `sqrt(2 / pi) * (x + 0.044715 * x^3)`.
fn is_inner(look: &Look, x: ValueId, [c0, c1, c2, c3]: [f64; 4]) -> bool {
    let root = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let dtype = look.graph.value(x).dtype;
    c0 == 0.0 && c2 == 0.0 && near(c1, root, dtype) && near(c3, root * CUBE, dtype)
}
