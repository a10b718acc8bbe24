//! The sizes of what a layer computes, by the arithmetic of its `forward`: where they are not those that the net says, the layer would
//! compute something else than is meant.

mod layout;
mod product;
mod window;

use crate::error::{At, Result, unsupported};
use crate::ncnn::layer::{BinaryOp, Interp};
use crate::ncnn::{Layer, Net, NetLayer};
use crate::tensor::Dim;
pub(in crate::ncnn) use layout::permuted;
use product::{of_gemm, of_inner_product, of_matmul, of_recurrent};

/// Sizes of a Mat, outermost first.
type Sizes = Vec<i64>;

impl Net {
    /// Compares the sizes of the tops with what the layer makes of its bottoms, where these are fixed.
    pub(super) fn check_shapes(&self, layer: &NetLayer) -> Result<()> {
        let known = |blob| self.blob(blob).shape.iter().map(Dim::known).collect::<Option<Sizes>>();
        let Some(bottoms) = layer.bottoms.iter().map(|b| known(*b)).collect::<Option<Vec<_>>>() else {
            return Ok(());
        };
        let Some(computed) = top_sizes(&layer.layer, &bottoms, layer.tops.len())? else { return Ok(()) };
        for (top, computed) in layer.tops.iter().zip(computed) {
            if known(*top).is_some_and(|meant| meant != computed) {
                let meant = &self.blob(*top).shape;
                unsupported!(
                    "of {bottoms:?} ncnn computes {computed:?} where {} is meant",
                    crate::tensor::display_shape(meant)
                );
            }
        }
        Ok(())
    }
}

/// The sizes of each top; `None` where no rule is known.
fn top_sizes(layer: &Layer, bottoms: &[Sizes], tops: usize) -> Result<Option<Vec<Sizes>>> {
    let first = || bottoms.at(0);
    let one = match layer {
        Layer::AbsVal(_)
        | Layer::BatchNorm(_)
        | Layer::Bias(_)
        | Layer::BNLL(_)
        | Layer::Cast(_)
        | Layer::Dequantize(_)
        | Layer::CELU(_)
        | Layer::Clip(_)
        | Layer::CumulativeSum(_)
        | Layer::DeepCopy(_)
        | Layer::Dropout(_)
        | Layer::ELU(_)
        | Layer::Erf(_)
        | Layer::Exp(_)
        | Layer::Flip(_)
        | Layer::GELU(_)
        | Layer::GroupNorm(_)
        | Layer::HardSigmoid(_)
        | Layer::HardSwish(_)
        | Layer::LayerNorm(_)
        | Layer::Log(_)
        | Layer::Mish(_)
        | Layer::Noop(_)
        | Layer::Normalize(_)
        | Layer::Power(_)
        | Layer::PReLU(_)
        | Layer::ReLU(_)
        | Layer::RMSNorm(_)
        | Layer::Scale(_)
        | Layer::SELU(_)
        | Layer::Shrink(_)
        | Layer::Sigmoid(_)
        | Layer::Softplus(_)
        | Layer::Swish(_)
        | Layer::TanH(_)
        | Layer::Threshold(_)
        | Layer::UnaryOp(_) => first()?.clone(),
        Layer::InstanceNorm(_) | Layer::LRN(_) | Layer::MVN(_) => match first()?.len() {
            // Channels are those of a Mat of three or four axes.
            3 | 4 => first()?.clone(),
            axes => unsupported!("a bottom of {axes} axes"),
        },
        Layer::Softmax(l) => {
            axis_of(l.axis, first()?)?;
            if l.axis != 0 && l.fixbug0 == 0 {
                unsupported!("an axis without fixbug0");
            }
            first()?.clone()
        }
        Layer::Split(_) => return Ok(Some(vec![first()?.clone(); tops])),
        Layer::BinaryOp(l) => of_binary(l, bottoms)?,
        Layer::Eltwise(_) if bottoms.iter().all(|sizes| Some(sizes) == bottoms.first()) => first()?.clone(),
        Layer::Eltwise(_) => unsupported!("bottoms of {bottoms:?}"),
        Layer::InnerProduct(l) => of_inner_product(l, first()?),
        Layer::MatMul(l) => match of_matmul(l, first()?, bottoms.at(1)?)? {
            Some(sizes) => sizes,
            None => return Ok(None),
        },
        Layer::Gemm(l) => of_gemm(l, bottoms)?,
        Layer::Interp(l) => match of_interp(l, bottoms)? {
            Some(sizes) => sizes,
            None => return Ok(None),
        },
        Layer::Embed(l) => match first()?.as_slice() {
            [words] => vec![*words, i64::from(l.num_output)],
            other => unsupported!("indices of {other:?}"),
        },
        Layer::LSTM(l) => return of_recurrent(bottoms, l.direction, l.num_output, l.hidden_size, tops),
        Layer::GRU(l) => return of_recurrent(bottoms, l.direction, l.num_output, l.num_output, tops),
        Layer::RNN(l) => return of_recurrent(bottoms, l.direction, l.num_output, l.num_output, tops),
        _ => match window::top_sizes(layer, bottoms)? {
            Some(sizes) => sizes,
            None => return layout::top_sizes(layer, bottoms, tops),
        },
    };
    Ok(Some(vec![one]))
}

/// The axis that a number means, which may count from after.
fn axis_of(axis: i32, sizes: &[i64]) -> Result<usize> {
    let index = if axis < 0 { i64::from(axis) + i64::try_from(sizes.len())? } else { i64::from(axis) };
    match usize::try_from(index) {
        Ok(index) if index < sizes.len() => Ok(index),
        _ => unsupported!("axis {axis} of {sizes:?}"),
    }
}

fn of_binary(layer: &BinaryOp, bottoms: &[Sizes]) -> Result<Sizes> {
    let a = bottoms.at(0)?;
    if layer.with_scalar != 0 {
        if bottoms.len() != 1 {
            unsupported!("a number and {} bottoms", bottoms.len());
        }
        return Ok(a.clone());
    }
    let b = bottoms.at(1)?;
    let (short, long) = if a.len() < b.len() { (a, b) } else { (b, a) };
    if short.len() != long.len() {
        // `BinaryOp::forward` lines up the outermost axes, except for one element.
        let one_axis = matches!((short.as_slice(), long.first()), ([n], Some(c)) if n == c);
        if one_axis || short.iter().product::<i64>() == 1 {
            return Ok(long.clone());
        }
        unsupported!("bottoms of {a:?} and {b:?}: ncnn lines up the outermost axes");
    }
    if a.iter().zip(b).any(|(x, y)| x != y && *x != 1 && *y != 1) {
        unsupported!("bottoms of {a:?} and {b:?}");
    }
    Ok(a.iter().zip(b).map(|(x, y)| *x.max(y)).collect())
}

fn of_interp(layer: &Interp, bottoms: &[Sizes]) -> Result<Option<Sizes>> {
    if bottoms.len() != 1 || !layer.size_expr.is_empty() || layer.output_width == 0 {
        return Ok(None);
    }
    let (height, width) = (i64::from(layer.output_height), i64::from(layer.output_width));
    Ok(Some(match *bottoms.at(0)?.as_slice() {
        [w] => vec![w, height, width],
        [h, _] => vec![h, width],
        [c, ..] if bottoms.at(0)?.len() == 3 => vec![c, height, width],
        _ => unsupported!("a bottom of {bottoms:?}"),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::*;
    use crate::tensor::Tensor;

    /// The sizes of the top of a layer over bottoms of these sizes, as text.
    fn top(layer: impl Into<Layer>, bottoms: &[&[i64]]) -> String {
        let bottoms: Vec<Sizes> = bottoms.iter().map(|sizes| sizes.to_vec()).collect();
        match top_sizes(&layer.into(), &bottoms, 1) {
            Ok(Some(tops)) => format!("{:?}", tops[0]),
            Ok(None) => "?".into(),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn arithmetic() {
        let weights = |n: usize| Some(Tensor::from_f32(&[n], vec![0.0; n]).unwrap());
        let linear = || InnerProduct { num_output: 2, weight_data: weights(8), ..InnerProduct::default() };
        let gemm = Gemm { transB: 1, B_data: weights(15), constantN: 3, constantK: 5, ..Gemm::default() };
        let binary = BinaryOp::default;
        for (found, sizes) in [
            (top(binary(), &[&[2, 1, 4], &[1, 3, 4]]), "[2, 3, 4]"),
            (top(binary(), &[&[1], &[2, 3, 4]]), "[2, 3, 4]"),
            (top(binary(), &[&[3, 4], &[4]]), "bottoms of [3, 4] and [4]: ncnn lines up the outermost axes"),
            (top(binary(), &[&[3, 4], &[3, 5]]), "bottoms of [3, 4] and [3, 5]"),
            (top(MatMul { transB: 1 }, &[&[8, 5, 6], &[7, 6]]), "[8, 5, 7]"),
            (top(MatMul { transB: 0 }, &[&[5, 6], &[7, 6]]), "a product of [5, 6] and [7, 6]"),
            (top(linear(), &[&[3, 4]]), "[3, 2]"),
            (top(linear(), &[&[4, 1, 1]]), "[2]"),
            (top(gemm, &[&[7, 5]]), "[7, 3]"),
            (top(Gemm { transA: 1, ..Gemm::default() }, &[&[5, 7], &[5, 3], &[3]]), "[7, 3]"),
            (top(Embed { num_output: 9, ..Embed::default() }, &[&[2, 3]]), "indices of [2, 3]"),
        ] {
            assert_eq!(found, sizes);
        }
    }

    #[test]
    fn windows() {
        let conv = |pads: [i32; 4]| Convolution {
            num_output: 8,
            kernel_w: 3,
            kernel_h: 3,
            stride_w: 2,
            stride_h: 2,
            pad_left: pads[0],
            pad_right: pads[1],
            pad_top: pads[2],
            pad_bottom: pads[3],
            ..Convolution::default()
        };
        let pool = |pad_mode, adaptive_pooling| Pooling {
            kernel_w: 2,
            kernel_h: 3,
            stride_w: 2,
            stride_h: 2,
            pad_mode,
            adaptive_pooling,
            out_w: 5,
            out_h: -233,
            ..Pooling::default()
        };
        let transposed = Deconvolution1D {
            num_output: 4,
            kernel_w: 3,
            stride_w: 2,
            pad_left: 1,
            pad_right: 1,
            output_pad_right: 1,
            ..Deconvolution1D::default()
        };
        for (found, sizes) in [
            (top(conv([1, 0, 1, 1]), &[&[3, 7, 8]]), "[8, 4, 4]"),
            (top(conv([-233; 4]), &[&[3, 7, 8]]), "[8, 4, 4]"),
            (top(conv([0; 4]), &[&[3, 7, 2]]), "a window of 3 over 2"),
            (top(conv([0; 4]), &[&[3, 7]]), "a bottom of [3, 7] under 2 axes of a window"),
            (top(pool(0, 0), &[&[3, 6, 7]]), "[3, 3, 4]"),
            (top(pool(1, 0), &[&[3, 6, 7]]), "[3, 2, 3]"),
            (top(pool(2, 0), &[&[3, 6, 7]]), "[3, 3, 4]"),
            (top(pool(0, 1), &[&[3, 6, 7]]), "[3, 6, 5]"),
            (top(transposed, &[&[2, 4]]), "[4, 8]"),
        ] {
            assert_eq!(found, sizes);
        }
    }

    #[test]
    fn layouts() {
        let reshape = |w, h, c, d| Reshape { w, h, c, d, ..Reshape::default() };
        let crop = Crop { starts: vec![1, -2], ends: vec![-233, -1], axes: vec![0, -1], ..Crop::default() };
        let permute = |order_type| Permute { order_type };
        let reduce = |axes: &[i32], keepdims| Reduction {
            reduce_all: 0,
            axes: axes.to_vec(),
            keepdims,
            fixbug0: 1,
            ..Reduction::default()
        };
        for (found, sizes) in [
            (top(reshape(-1, 6, -233, -233), &[&[2, 3, 4]]), "[6, 4]"),
            (top(reshape(0, -1, 2, -233), &[&[2, 3, 4]]), "[2, 3, 4]"),
            (top(reshape(4, 3, 1, 2), &[&[2, 3, 4]]), "[1, 2, 3, 4]"),
            (top(reshape(5, -1, -233, -233), &[&[2, 3, 4]]), "[2, 3, 4] as [4, 5]"),
            (top(crop, &[&[5, 6, 7]]), "[4, 6, 1]"),
            (top(Crop { woffset: 1, outw: -233, outh: 2, ..Crop::default() }, &[&[3, 4]]), "[2, 3]"),
            (top(permute(1), &[&[5, 6]]), "[6, 5]"),
            (top(permute(3), &[&[5, 6, 7]]), "[6, 7, 5]"),
            (top(permute(6), &[&[5, 6, 7, 8]]), "[6, 5, 7, 8]"),
            (top(permute(24), &[&[5, 6, 7, 8]]), "order_type 24 of 4 axes"),
            (top(reduce(&[0, -1], 0), &[&[5, 6, 7]]), "[6]"),
            (top(reduce(&[0, -1], 1), &[&[5, 6, 7]]), "[1, 6, 1]"),
            (top(reduce(&[3], 1), &[&[5, 6, 7]]), "axis 3 of [5, 6, 7]"),
            (top(Tile { repeats: vec![2, 3], ..Tile::default() }, &[&[4, 5, 6]]), "[4, 10, 18]"),
            (top(Padding { front: 1, left: 2, ..Padding::default() }, &[&[4, 5, 6]]), "[5, 5, 8]"),
            (
                top(Padding { front: 1, ..Padding::default() }, &[&[4, 5]]),
                "a bottom of [4, 5] with these paddings",
            ),
            (top(Concat { axis: -1 }, &[&[4, 5], &[4, 7]]), "[4, 12]"),
            (top(Concat { axis: 0 }, &[&[4, 5], &[4, 7]]), "[[4, 5], [4, 7]] along axis 0"),
            (top(PixelShuffle { upscale_factor: 2, mode: 0 }, &[&[8, 3, 4]]), "[2, 6, 8]"),
        ] {
            assert_eq!(found, sizes);
        }
        let slices = Slice { slices: vec![1, -233, -233], axis: 1, ..Slice::default() };
        let parts = top_sizes(&slices.into(), &[vec![2, 8]], 3).unwrap().unwrap();
        assert_eq!(parts, [[2, 1], [2, 3], [2, 4]]);
    }
}
