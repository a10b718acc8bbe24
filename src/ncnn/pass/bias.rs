//! Fusion of constant terms into Gemm and InnerProduct.

use super::super::layer::{binary_op, broadcast_type_c};
use super::super::{Layer, Net};
use super::Wiring;
use super::wiring::{fuse_into, known};
use crate::error::Result;
use crate::tensor::{Dim, Tensor};

pub(super) fn fuse_layer_bias(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    fuse_into(net, |net, index| Ok(find_sum(net, wiring, index)), set_bias)
}

/// A constant term of a product.
struct Bias {
    data: Tensor,
    rows: i32,
    columns: i32,
}

/// Returns the constant that the layer at `index` adds to a top without other readers, and the layer that
/// computes the top.
fn find_sum(net: &Net, wiring: &Wiring, index: usize) -> Option<(usize, Bias)> {
    let sum = net.layers.get(index)?;
    let (Layer::BinaryOp(binary), [a, b]) = (&sum.layer, sum.bottoms.as_slice()) else { return None };
    if binary.op_type != binary_op::ADD || binary.with_scalar != 0 {
        return None;
    }
    for (product, constant) in [(*a, *b), (*b, *a)] {
        let Layer::MemoryData(memory) = &net.layers.get(wiring.producer(constant)?)?.layer else { continue };
        let Some(data) = memory.data.clone() else { continue };
        let producer = wiring.producer(product)?;
        if wiring.only_reader(product) != Some(index) {
            return None;
        }
        let sizes = known(&net.blob(constant).shape)?;
        let fits = |size: &Dim, n: i32| n == 1 || size.is(n.into());
        let (rows, columns) = match (&*net.blob(product).shape, sizes.as_slice()) {
            ([n], &[columns]) if fits(n, columns) => (1, columns),
            // A single element may have fewer axes than the product.
            ([_, _], &[1]) => (1, 1),
            ([m, n], &[rows, columns]) if fits(m, rows) && fits(n, columns) => (rows, columns),
            _ => return None,
        };
        return Some((producer, Bias { data, rows, columns }));
    }
    None
}

/// Sets the bias of a layer without one; returns `false` if it cannot have this one.
fn set_bias(layer: &mut Layer, bias: Bias) -> Result<bool> {
    match layer {
        Layer::Gemm(layer) => {
            let has_no_bias =
                layer.constantC == 1 && layer.constant_broadcast_type_C == broadcast_type_c::NONE;
            if !has_no_bias || layer.alpha != 1.0 || (layer.A_data.is_none() && layer.B_data.is_none()) {
                return Ok(false);
            }
            let (m, n) = (bias.rows, bias.columns);
            let kind = match (m, n) {
                (1, 1) => broadcast_type_c::SCALAR,
                (1, _) => broadcast_type_c::ONE_N,
                (_, 1) => broadcast_type_c::M_1,
                _ => broadcast_type_c::M_N,
            };
            if m != 1 {
                layer.constantM = m;
            }
            if n != 1 {
                layer.constantN = n;
            }
            layer.beta = 1.0;
            layer.constant_broadcast_type_C = kind;
            layer.C_data = Some(bias.data.reshaped(&[usize::try_from(m)?, usize::try_from(n)?])?);
        }
        Layer::InnerProduct(layer) => {
            let fits = bias.rows == 1 && bias.columns == layer.num_output;
            if layer.bias_data.is_some() || layer.activation_type != 0 || !fits {
                return Ok(false);
            }
            layer.bias_data = Some(bias.data.reshaped(&[bias.data.len()])?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
