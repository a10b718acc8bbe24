//! Sizes of blobs, for the shape rules of layers.

use std::fmt;
use std::ops::{Add, Div, Mul, Sub};

use crate::common::int::Int;
use crate::error::{At, Result, unsupported};
use crate::tensor::Dim;

/// The size of an axis; unknown if it is free, or computed from a free size.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::ncnn) struct Size(Option<i64>);

/// The sizes of a blob, outermost first.
pub(in crate::ncnn) type Sizes = Vec<Size>;

/// The sizes of each top of a layer; `None` if they are not inferred.
pub(in crate::ncnn) type Tops = Option<Vec<Sizes>>;

/// Returns the tops for the bottoms and the number of tops.
pub(in crate::ncnn) type Rule<L> = fn(&L, &[Sizes], usize) -> Result<Tops>;

impl Size {
    /// Returns whether both sizes are known and not equal.
    pub fn differs(self, other: impl Into<Size>) -> bool {
        self.0.zip(other.into().0).is_some_and(|(a, b)| a != b)
    }

    /// Returns the number if it is known.
    pub fn known(self) -> Option<i64> {
        self.0
    }

    /// Returns the minimum of the size and `limit`.
    pub fn at_most(self, limit: i32) -> Size {
        Size(self.0.map(|n| n.min(limit.into())))
    }

    /// Returns the size of two axes broadcast against each other: equal, or one of them 1.
    pub fn broadcast(self, other: Size) -> Option<Size> {
        match (self.0, other.0) {
            (Some(1), _) => Some(other),
            (_, Some(1) | None) => Some(self),
            (None, _) => Some(other),
            (a, b) => (a == b).then_some(self),
        }
    }
}

impl From<i64> for Size {
    fn from(n: i64) -> Size {
        Size(Some(n))
    }
}

impl From<i32> for Size {
    fn from(n: i32) -> Size {
        Size(Some(n.into()))
    }
}

impl From<&Dim> for Size {
    fn from(dim: &Dim) -> Size {
        Size(dim.known())
    }
}

impl PartialEq<i64> for Size {
    fn eq(&self, other: &i64) -> bool {
        self.0 == Some(*other)
    }
}

impl PartialOrd<i64> for Size {
    fn partial_cmp(&self, other: &i64) -> Option<std::cmp::Ordering> {
        self.0.map(|n| n.cmp(other))
    }
}

impl fmt::Debug for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Some(n) => write!(f, "{n}"),
            None => f.write_str("?"),
        }
    }
}

/// Implements operators; the result is unknown if an operand is, or if there is none.
macro_rules! arithmetic {
    ( $( $operator:ident $method:ident $checked:ident, )* ) => { $(
        impl<N: Into<Size>> $operator<N> for Size {
            type Output = Size;

            fn $method(self, other: N) -> Size {
                Size(self.0.zip(other.into().0).and_then(|(a, b)| a.$checked(b)))
            }
        }
    )* };
}
arithmetic! {
    Add add checked_add,
    Sub sub checked_sub,
    Mul mul checked_mul,
    Div div checked_div,
}

/// Returns the tops of a layer with one top.
pub(super) fn one(sizes: impl Into<Sizes>) -> Result<Tops> {
    Ok(Some(vec![sizes.into()]))
}

/// The shape rule of a layer whose tops are not inferred.
pub(super) fn unknown<L>(_: &L, _: &[Sizes], _: usize) -> Result<Tops> {
    Ok(None)
}

/// Returns whether two shapes differ in the number of axes or in a known size.
pub(in crate::ncnn) fn differ(a: &[Size], b: &[Size]) -> bool {
    a.len() != b.len() || a.iter().zip(b).any(|(a, b)| a.differs(*b))
}

/// Returns the number of elements.
pub(super) fn product(sizes: &[Size]) -> Size {
    sizes.iter().fold(Size::from(1), |product, size| product * *size)
}

/// Returns the index of an axis of `axes`; a negative one counts from the end.
pub(crate) fn axis_index(axis: i32, axes: usize) -> Option<usize> {
    let index = if axis < 0 { i64::from(axis) + axes.int() } else { i64::from(axis) };
    usize::try_from(index).ok().filter(|index| *index < axes)
}

/// Returns the index of an axis of these sizes.
pub(super) fn axis_of(axis: i32, sizes: &[Size]) -> Result<usize> {
    match axis_index(axis, sizes.len()) {
        Some(index) => Ok(index),
        None => unsupported!("axis {axis} of {sizes:?}"),
    }
}

/// Returns the sizes with the size of an axis replaced.
pub(super) fn with_size(sizes: &[Size], axis: usize, size: Size) -> Sizes {
    let mut sizes = sizes.to_vec();
    sizes.put(axis, size);
    sizes
}

/// Returns the sizes extended to `rank` axes by outer axes of size 1.
pub(super) fn extended(sizes: &[Size], rank: usize) -> Sizes {
    let mut all = vec![Size::from(1); rank.saturating_sub(sizes.len())];
    all.extend(sizes);
    all
}

/// Returns the top of a layer with its sizes as params, which are 0 for absent axes; `None` if all are 0.
pub(super) fn stated(w: i32, h: i32, d: i32, c: i32) -> Tops {
    let sizes = match (w, h, d, c) {
        (0, ..) => return None,
        (w, 0, 0, 0) => vec![w],
        (w, h, 0, 0) => vec![h, w],
        (w, h, 0, c) => vec![c, h, w],
        (w, h, d, c) => vec![c, d, h, w],
    };
    Some(vec![sizes.into_iter().map(Size::from).collect()])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ncnn::layer::*;
    use crate::tensor::Tensor;

    fn sizes(numbers: &[i64]) -> Sizes {
        // -1 is a free size.
        numbers.iter().map(|n| Size((*n >= 0).then_some(*n))).collect()
    }

    /// Returns the sizes of the top of a layer over bottoms of these sizes, as text.
    fn top(layer: impl Into<Layer>, bottoms: &[&[i64]]) -> String {
        let bottoms: Vec<Sizes> = bottoms.iter().map(|bottom| sizes(bottom)).collect();
        match layer.into().facts().top_sizes(&bottoms, 1) {
            Ok(Some(tops)) => format!("{:?}", tops[0]),
            Ok(None) => "?".into(),
            Err(error) => error.message().to_owned(),
        }
    }

    #[test]
    fn elementwise_layers_and_products() {
        let weights = |n: usize| Some(Tensor::from_f32(&[n], vec![0.0; n]).unwrap());
        let linear = || InnerProduct { num_output: 2, weight_data: weights(8), ..InnerProduct::default() };
        let gemm = Gemm { transB: 1, B_data: weights(15), constantN: 3, constantK: 5, ..Gemm::default() };
        let binary = BinaryOp::default;
        for (found, expected) in [
            (top(binary(), &[&[2, 1, 4], &[1, 3, 4]]), "[2, 3, 4]"),
            (top(binary(), &[&[1], &[2, 3, 4]]), "[2, 3, 4]"),
            (top(binary(), &[&[3, 4], &[4]]), "bottoms of [3, 4] and [4]: ncnn aligns the outermost axes"),
            (top(binary(), &[&[3, 4], &[3, 5]]), "bottoms of [3, 4] and [3, 5]"),
            (top(MatMul { transB: 1 }, &[&[8, 5, 6], &[7, 6]]), "[8, 5, 7]"),
            (top(MatMul { transB: 0 }, &[&[5, 6], &[7, 6]]), "a product of [5, 6] and [7, 6]"),
            (top(linear(), &[&[3, 4]]), "[3, 2]"),
            (top(linear(), &[&[4, 1, 1]]), "[2]"),
            (top(gemm, &[&[7, 5]]), "[7, 3]"),
            (top(Gemm { transA: 1, ..Gemm::default() }, &[&[5, 7], &[5, 3], &[3]]), "[7, 3]"),
            (top(Embed { num_output: 9, ..Embed::default() }, &[&[2, 3]]), "indices of [2, 3]"),
        ] {
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn windowed_layers() {
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
        for (found, expected) in [
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
            assert_eq!(found, expected);
        }
    }

    #[test]
    fn layers_that_move_elements() {
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
        for (found, expected) in [
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
            assert_eq!(found, expected);
        }
        let slices = Slice { slices: vec![1, -233, -233], axis: 1, ..Slice::default() };
        let parts = Layer::from(slices).facts().top_sizes(&[sizes(&[2, 8])], 3).unwrap().unwrap();
        assert_eq!(parts, [[2, 1], [2, 3], [2, 4]]);
    }

    #[test]
    fn free_sizes() {
        let conv = Convolution { num_output: 8, kernel_w: 3, kernel_h: 3, ..Convolution::default() };
        let reshape = |w, h| Reshape { w, h, ..Reshape::default() };
        let crop = Crop { starts: vec![1], ends: vec![-1], axes: vec![0], ..Crop::default() };
        let gemm = Gemm { transB: 1, ..Gemm::default() };
        for (found, expected) in [
            (top(conv.clone(), &[&[3, -1, 7]]), "[8, ?, 5]"),
            (top(conv, &[&[3, -1, 2]]), "a window of 3 over 2"),
            (top(BinaryOp::default(), &[&[-1, 1, 4], &[2, -1, -1]]), "[2, ?, 4]"),
            (top(BinaryOp::default(), &[&[-1, 3], &[2, 4]]), "bottoms of [?, 3] and [2, 4]"),
            (top(BinaryOp::default(), &[&[-1], &[2, 4]]), "[2, 4]"),
            (top(MatMul { transB: 1 }, &[&[-1, 6], &[7, -1]]), "[?, 7]"),
            (top(gemm, &[&[-1, 5], &[3, 4]]), "a product of [?, 5] and [4, 3]"),
            (top(InnerProduct { num_output: 2, ..InnerProduct::default() }, &[&[3, -1]]), "?"),
            (top(reshape(-1, 6), &[&[-1, 4]]), "[6, ?]"),
            (top(reshape(0, 6), &[&[-1, 4]]), "[6, 4]"),
            (top(crop, &[&[-1, 7]]), "[?, 7]"),
            (top(Concat { axis: 0 }, &[&[-1, 5], &[4, 5]]), "[?, 5]"),
            (top(Concat { axis: 0 }, &[&[-1, 5], &[4, 6]]), "[[?, 5], [4, 6]] along axis 0"),
        ] {
            assert_eq!(found, expected);
        }
    }
}
