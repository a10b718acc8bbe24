//! Gemm, and the layers of a product with a constant operand.

use ndarray::IxDyn;

use super::product::matmul;
use crate::ncnn::layer::{Gemm, InnerProduct, broadcast_type_c};
use crate::ops::prelude::*;

struct GemmAttributes {
    alpha: f32,
    beta: f32,
    trans_a: bool,
    trans_b: bool,
    /// Whether C is broadcast: always since version 7.
    broadcast: bool,
}

fn read_gemm(call: &Call) -> Result<GemmAttributes> {
    Ok(GemmAttributes {
        alpha: call.float("alpha")?,
        beta: call.float("beta")?,
        trans_a: call.flag("transA")?,
        trans_b: call.flag("transB")?,
        // FusedGemm is the newer Gemm in another domain.
        broadcast: call.since() >= 7 || call.op_type() != "Gemm" || call.flag("broadcast")?,
    })
}

/// The sizes of `op(A) op(B)`: A is stored as `[K, M]` if `trans_a`, B as `[N, K]` if `trans_b`.
pub(super) struct Factors {
    pub m: Dim,
    /// The summed size in each operand.
    pub k: [Dim; 2],
    pub n: Dim,
    pub trans_a: bool,
    pub trans_b: bool,
}

fn factors(call: &Call, gemm: &GemmAttributes) -> Result<Factors> {
    let (a, b) = (call.shape(0)?, call.shape(1)?);
    let ([a0, a1], [b0, b1]) = (a, b) else {
        invalid!("the product of {} and {}: two axes each are needed", display_shape(a), display_shape(b));
    };
    let (m, k) = if gemm.trans_a { (a1, a0) } else { (a0, a1) };
    let (n, k_b) = if gemm.trans_b { (b0, b1) } else { (b1, b0) };
    if k.known().is_some() && k_b.known().is_some() && k != k_b {
        invalid!("the summed sizes {k} and {k_b} differ");
    }
    Ok(Factors {
        m: m.clone(),
        k: [k.clone(), k_b.clone()],
        n: n.clone(),
        trans_a: gemm.trans_a,
        trans_b: gemm.trans_b,
    })
}

pub(in crate::ops) fn multiply_adds(call: &Call) -> Option<u64> {
    let Factors { m, k: [k, _], n, .. } = factors(call, &read_gemm(call).ok()?).ok()?;
    element_count(&[m, k, n])
}

pub(in crate::ops) fn infer_gemm(call: &Call) -> Result<Vec<Fact>> {
    let gemm = read_gemm(call)?;
    let factors = factors(call, &gemm)?;
    let [k, k_b] = &factors.k;
    call.require_equal(k, k_b)?;
    let shape = vec![factors.m, factors.n];
    if call.has_input(2) {
        let c = call.shape(2)?;
        let fits = |c: &Dim, size: &Dim| {
            c == size || (gemm.broadcast && c.is(1)) || c.known().is_none() || size.known().is_none()
        };
        let all_fit = c.iter().rev().zip(shape.iter().rev()).all(|(c, size)| fits(c, size));
        if c.len() > 2 || (c.len() < 2 && !gemm.broadcast) || !all_fit {
            invalid!("C of shape {} added to {}", display_shape(c), display_shape(&shape));
        }
        call.check_broadcasts(2, &shape)?;
    }
    Ok(vec![Fact::new(call.dtype(0)?, shape)])
}

pub(super) fn fold_gemm(call: &Call) -> Result<Vec<Array>> {
    let gemm = read_gemm(call)?;
    let side = |index: usize, transposed: bool| -> Result<Array> {
        let array = call.array(index)?;
        if transposed { array.transpose(&[1, 0]) } else { Ok(array.clone()) }
    };
    let product = matmul(&side(0, gemm.trans_a)?, &side(1, gemm.trans_b)?)?;
    let c = call.optional_array(2)?.map(|c| c.broadcast(product.shape())).transpose()?;
    let elements = match product.elements() {
        Elements::F32(p) => Elements::F32(match c {
            Some(c) => p * gemm.alpha + c.to_f32()? * gemm.beta,
            None => p * gemm.alpha,
        }),
        Elements::F64(p) => {
            let (alpha, beta) = (f64::from(gemm.alpha), f64::from(gemm.beta));
            Elements::F64(match c {
                Some(c) => p * alpha + c.to_f64()? * beta,
                None => p * alpha,
            })
        }
        _ => unsupported!("Gemm of constant {}", product.dtype()),
    };
    Ok(vec![Array::new(product.dtype(), elements)])
}

/// The third operand: `beta * C`, broadcast to `[M, N]`.
pub(super) struct Addend<'a> {
    beta: f32,
    /// Its two sizes, each 1 or the size of the product.
    shape: [Dim; 2],
    constant: Option<&'a Tensor>,
}

pub(super) fn lower_gemm(lower: &Lower) -> Result<()> {
    let attributes = read_gemm(lower)?;
    let factors = factors(lower, &attributes)?;
    let addend = match lower.has_input(2) {
        true => {
            let shape = match lower.shape(2)? {
                [] => [Dim::ONE, Dim::ONE],
                [n] => [Dim::ONE, n.clone()],
                [m, n] => [m.clone(), n.clone()],
                other => invalid!("C of shape {}", display_shape(other)),
            };
            Some(Addend { beta: attributes.beta, shape, constant: lower.constant(2) })
        }
        false => None,
    };
    lower.give(0, gemm(lower, &factors, attributes.alpha, addend.as_ref())?)
}

/// Returns `alpha * A B + addend` of inputs 0 and 1, of shape `[M, N]`, or `[N]` if M is 1.
pub(super) fn gemm<'l>(
    lower: &'l Lower<'l>,
    factors: &Factors,
    alpha: f32,
    addend: Option<&Addend>,
) -> Result<Nd<'l>> {
    if let Some(product) = inner_product(lower, factors, alpha, addend)? {
        return Ok(product);
    }
    let Factors { m, k: [k_a, k_b], n, .. } = factors;
    let stored = |rows: &Dim, columns: &Dim, transposed: bool| {
        if transposed { [columns.clone(), rows.clone()] } else { [rows.clone(), columns.clone()] }
    };
    let a = stored(m, k_a, factors.trans_a);
    let b = stored(k_b, n, factors.trans_b);
    let mut layer = Gemm {
        alpha,
        transA: i32::from(factors.trans_a),
        transB: i32::from(factors.trans_b),
        constantC: 1,
        constant_broadcast_type_C: broadcast_type_c::NONE,
        ..Gemm::default()
    };
    let mut bottoms = Vec::new();
    if let Some(tensor) = lower.constant(0).filter(|_| lower.constant(1).is_none()) {
        layer.A_data = Some(tensor.reshaped(&known_sizes(&a)?)?);
        (layer.constantM, layer.constantK) = (known(m)?, known(k_a)?);
    } else {
        bottoms.push(lower.input(0).reshape(a));
    }
    if let Some(tensor) = lower.constant(1) {
        layer.B_data = Some(tensor.reshaped(&known_sizes(&b)?)?);
        (layer.constantN, layer.constantK) = (known(n)?, known(k_b)?);
    } else {
        bottoms.push(lower.input(1).reshape(b));
    }
    let separate = match addend {
        Some(addend) if !add_constant(&mut layer, factors, addend)? => Some(addend),
        _ => None,
    };
    let product = lower.layer(layer, &bottoms, [m.clone(), n.clone()]);
    let Some(addend) = separate else { return Ok(product) };
    if addend.shape.iter().zip([m, n]).any(|(c, size)| !c.is(1) && c != size) {
        unsupported!("C of shape {} added to [{m}, {n}]", display_shape(&addend.shape));
    }
    let c = lower.input(2).reshape(addend.shape.clone()).isolated();
    Ok(product + if addend.beta == 1.0 { c } else { c * addend.beta })
}

/// Adds a constant C to the layer, which computes `alpha * (A B + beta * C)`; returns `false` if it cannot.
fn add_constant(layer: &mut Gemm, factors: &Factors, addend: &Addend) -> Result<bool> {
    let Some(tensor) = addend.constant else { return Ok(false) };
    let beta = addend.beta / layer.alpha;
    if !beta.is_finite() {
        return Ok(false);
    }
    let [m, n] = &addend.shape;
    let (kind, shape): (i32, Vec<usize>) = match (m.is(1), n.is(1)) {
        (true, true) => (broadcast_type_c::SCALAR, vec![1]),
        (true, false) => (broadcast_type_c::ONE_N, vec![1, tensor.len()]),
        (false, true) => (broadcast_type_c::M_1, vec![tensor.len(), 1]),
        (false, false) => (broadcast_type_c::M_N, known_sizes(&addend.shape)?),
    };
    if !m.is(1) {
        layer.constantM = known(m)?;
    }
    if !n.is(1) {
        layer.constantN = known(&factors.n)?;
    }
    layer.beta = beta;
    layer.constant_broadcast_type_C = kind;
    layer.C_data = Some(tensor.reshaped(&shape)?);
    Ok(true)
}

/// The maximum number of elements of a B that is transposed for an InnerProduct: larger ones are copied.
const MAX_TRANSPOSED: usize = 1 << 24;

/// Returns one row times B, which InnerProduct stores as `[N, K]`; `None` if Gemm is better.
fn inner_product<'l>(
    lower: &'l Lower<'l>,
    factors: &Factors,
    alpha: f32,
    addend: Option<&Addend>,
) -> Result<Option<Nd<'l>>> {
    let Factors { m, k: [k_a, k_b], n, .. } = factors;
    let Some(weight) = lower.constant(1) else { return Ok(None) };
    // A single column has the same layout when transposed.
    let is_stored_so = factors.trans_b || n.is(1);
    if !m.is(1) || alpha != 1.0 || !(is_stored_so || weight.len() <= MAX_TRANSPOSED) {
        return Ok(None);
    }
    let num_output = known(n)?;
    let bias_data = match addend {
        None => None,
        Some(Addend { constant: None, .. }) => return Ok(None),
        Some(Addend { constant: Some(c), beta, .. }) => Some(bias(c, *beta, usize::try_from(num_output)?)?),
    };
    let weight_data = Some(if is_stored_so {
        weight.reshaped(&known_sizes(&[n.clone(), k_b.clone()])?)?
    } else {
        let matrix = weight.reshaped(&known_sizes(&[k_b.clone(), n.clone()])?)?;
        Tensor::deferred(matrix.dtype(), known_sizes(&[n.clone(), k_b.clone()])?, vec![matrix], |inputs| {
            inputs.at(0)?.transpose(&[1, 0])
        })?
    });
    let layer = InnerProduct { num_output, weight_data, bias_data, ..InnerProduct::default() };
    Ok(Some(lower.input(0).reshape([k_a.clone()]).layer(layer, [n.clone()])))
}

/// Returns `beta * C`, with an element for each of the `len` outputs.
fn bias(c: &Tensor, beta: f32, len: usize) -> Result<Tensor> {
    if beta == 1.0 && c.len() == len {
        return c.reshaped(&[len]);
    }
    let flat = c.reshaped(&[c.len()])?;
    Tensor::deferred(DType::F32, vec![len], vec![flat], move |inputs| {
        let c = inputs.at(0)?.to_f32()?;
        let Some(full) = c.broadcast(IxDyn(&[len])) else {
            invalid!("C of {} elements added to {len}", c.len());
        };
        Ok(Array::f32(full.mapv(|x| x * beta)))
    })
}

fn known(size: &Dim) -> Result<i32> {
    match size.known() {
        Some(n) => Ok(i32::try_from(n)?),
        None => Err(Error::unsupported(format!("a constant with the free size {size}"))),
    }
}

fn known_sizes(sizes: &[Dim]) -> Result<Vec<usize>> {
    sizes.iter().map(|size| Ok(usize::try_from(known(size)?)?)).collect()
}
