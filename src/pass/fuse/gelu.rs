//! `y = x * (1 + erf(x / sqrt(2))) / 2`
//!
//! becomes `Gelu(x)`.
//!
//! `y = x * (1 + tanh(z)) / 2` `y = x * sigmoid(2 * z)`
//!
//! with `z = sqrt(2 / pi) * (x + 0.044715 * x ^ 3)` becomes `Gelu(x)` with `approximate` "tanh". The factor 1
//! / 2 may be anywhere in the product, or in the sum: `1 / 2 + erf(x / sqrt(2)) / 2`.

use std::collections::BTreeSet;
use std::f64::consts::{FRAC_1_SQRT_2, FRAC_2_SQRT_PI};

use super::matcher::{Found, Matcher, first, fuse, near, orders, output};
use super::terms::{polynomial, product};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};

/// The factor of the cube in the approximation.
const CUBE: f64 = 0.044_715;

#[derive(Clone, Copy)]
enum Form {
    Erf,
    Tanh,
}

pub(crate) fn fuse_gelu(graph: &mut Graph) -> Result<bool> {
    fuse(graph, find, |made, (x, form)| {
        let approximate = match form {
            Form::Erf => "none",
            Form::Tanh => "tanh",
        };
        Ok(made.value(x).apply("Gelu", [("approximate", approximate.into())]))
    })
}

fn find(matcher: &Matcher, node: &Node) -> Option<Found<(ValueId, Form)>> {
    let y = output(node)?;
    let product = product(matcher, node)?;
    product.orders().filter(|(x, _)| matcher.alike(*x, y)).find_map(|(x, gate)| {
        let mut inner = product.inner.clone();
        let form = read_gate(matcher, gate, x, product.factor, &mut inner)?;
        Some(Found { inner, parts: (x, form) })
    })
}

/// Reads `factor * gate` as the factor of `x`.
fn read_gate(
    matcher: &Matcher,
    gate: ValueId,
    x: ValueId,
    factor: f64,
    inner: &mut BTreeSet<ValueId>,
) -> Option<Form> {
    inner.insert(gate);
    if let Some(sigmoid) = matcher.made_by(gate, "Sigmoid") {
        let z = polynomial(matcher, first(sigmoid)?, x, inner)?.map(|c| c / 2.0);
        return (factor == 1.0 && is_tanh_operand(matcher, x, z)).then_some(Form::Tanh);
    }
    let sum = matcher.made_by(gate, "Add")?;
    let curve = orders(sum).find_map(|(curve, constant)| {
        let (scale, curve) = match matcher.scalar(constant)? {
            1.0 => (1.0, curve),
            0.5 => {
                inner.insert(curve);
                (0.5, matcher.beside_scalar(matcher.made_by(curve, "Mul")?, 0.5)?)
            }
            _ => return None,
        };
        (factor * scale == 0.5).then_some(curve)
    })?;
    inner.insert(curve);
    if let Some(erf) = matcher.made_by(curve, "Erf") {
        let [c0, c1, c2, c3] = polynomial(matcher, first(erf)?, x, inner)?;
        let fits = near(c1, FRAC_1_SQRT_2, matcher.graph.value(x).dtype) && [c0, c2, c3] == [0.0; 3];
        return fits.then_some(Form::Erf);
    }
    let tanh = matcher.made_by(curve, "Tanh")?;
    let z = polynomial(matcher, first(tanh)?, x, inner)?;
    is_tanh_operand(matcher, x, z).then_some(Form::Tanh)
}

/// Whether these are the coefficients of `sqrt(2 / pi) * (x + 0.044715 * x ^ 3)`.
fn is_tanh_operand(matcher: &Matcher, x: ValueId, [c0, c1, c2, c3]: [f64; 4]) -> bool {
    let slope = FRAC_2_SQRT_PI * FRAC_1_SQRT_2;
    let dtype = matcher.graph.value(x).dtype;
    c0 == 0.0 && c2 == 0.0 && near(c1, slope, dtype) && near(c3, slope * CUBE, dtype)
}
