//! Constants that are added to a product with a constant: Gemm and InnerProduct add them themselves.

use smallvec::smallvec;

use super::super::layer::{BinaryOp, MemoryData, binary_op, broadcast_type_c};
use super::super::{Layer, Net};
use super::Wiring;
use super::wiring::{Edits, known};
use crate::error::Result;
use crate::tensor::Tensor;

pub(super) fn fuse_biases(net: &mut Net, wiring: &Wiring) -> Result<bool> {
    let mut edits = Edits::default();
    for index in 0..net.layers.len() {
        let Some((place, bias)) = find_sum(net, wiring, index) else { continue };
        if edits.removes(place) {
            continue;
        }
        let Some(top) = net.layers.get(index).and_then(|layer| layer.tops.first()).copied() else { continue };
        let Some(producer) = net.layers.get_mut(place) else { continue };
        if set_bias(&mut producer.layer, bias)? {
            producer.tops = smallvec![top];
            edits.remove(index, Some(place));
        }
    }
    Ok(edits.apply(net))
}

/// A constant beside the product of a layer, and the sizes of both as rows and columns.
struct Bias {
    data: Tensor,
    rows: (i32, i32),
    columns: (i32, i32),
}

/// The layer whose result alone is added to a constant by the layer at `index`.
fn find_sum(net: &Net, wiring: &Wiring, index: usize) -> Option<(usize, Bias)> {
    let sum = net.layers.get(index)?;
    match &sum.layer {
        Layer::BinaryOp(layer)
            if matches!(**layer, BinaryOp { op_type: binary_op::ADD, with_scalar: 0, .. }) => {}
        _ => return None,
    }
    let [a, b] = sum.bottoms.as_slice() else { return None };
    for (product, constant) in [(*a, *b), (*b, *a)] {
        let data = match &net.layers.get(wiring.producer(constant)?)?.layer {
            Layer::MemoryData(layer) => {
                let MemoryData { data: Some(data), .. } = &**layer else { continue };
                data.clone()
            }
            _ => continue,
        };
        let place = wiring.producer(product)?;
        if wiring.only_reader(product) != Some(index) {
            return None;
        }
        let (shape, own) = (known(&net.blob(product).shape)?, known(&net.blob(constant).shape)?);
        // One element goes with any number of axes; others have as many as the product.
        let (rows, columns) = match (shape.as_slice(), own.as_slice()) {
            (&[n], &[own]) => ((1, 1), (n, own)),
            (&[m, n], &[1]) => ((m, 1), (n, 1)),
            (&[m, n], &[own_m, own_n]) => ((m, own_m), (n, own_n)),
            _ => return None,
        };
        let fits = |(size, own): (i32, i32)| own == size || own == 1;
        return (fits(rows) && fits(columns)).then_some((place, Bias { data, rows, columns }));
    }
    None
}

/// Gives a layer that has none a bias; `false` where it cannot have this one.
fn set_bias(layer: &mut Layer, bias: Bias) -> Result<bool> {
    let len = bias.data.len();
    match layer {
        Layer::Gemm(layer) => {
            let has_none = layer.constantC == 1 && layer.constant_broadcast_type_C == broadcast_type_c::NONE;
            if !has_none || layer.alpha != 1.0 || (layer.A_data.is_none() && layer.B_data.is_none()) {
                return Ok(false);
            }
            let (m, n) = (bias.rows.1, bias.columns.1);
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
            if layer.bias_data.is_some() || layer.activation_type != 0 || bias.rows.1 != 1 {
                return Ok(false);
            }
            if bias.columns.1 != layer.num_output {
                return Ok(false);
            }
            layer.bias_data = Some(bias.data.reshaped(&[len])?);
        }
        _ => return Ok(false),
    }
    Ok(true)
}
