//! Broadcasting of arrays by the rules of numpy.
//!
//! Spec: <https://github.com/onnx/onnx/blob/main/docs/Broadcasting.md>.

use ndarray::{ArrayD, IxDyn, Zip};

use crate::error::{Error, Result};

/// Returns the shape to which arrays of these shapes broadcast.
pub(crate) fn broadcast_lens(shapes: &[&[usize]]) -> Result<Vec<usize>> {
    let rank = shapes.iter().map(|shape| shape.len()).max().unwrap_or(0);
    let mut out = vec![1; rank];
    for shape in shapes {
        for (size, other) in out.iter_mut().rev().zip(shape.iter().rev()) {
            if *size == 1 {
                *size = *other;
            } else if *other != 1 && other != size {
                return Err(Error::invalid(format!("{shapes:?} do not broadcast")));
            }
        }
    }
    Ok(out)
}

/// Combines two arrays element by element.
pub(crate) fn zip_broadcast<A, B, C>(
    a: &ArrayD<A>,
    b: &ArrayD<B>,
    combine: impl Fn(&A, &B) -> C,
) -> Result<ArrayD<C>> {
    if a.shape() == b.shape() {
        return Ok(Zip::from(a).and(b).map_collect(combine));
    }
    let shape = broadcast_lens(&[a.shape(), b.shape()])?;
    let (mut a, mut b) = (a.view(), b.view());
    if a.is_standard_layout() && b.is_standard_layout() {
        // A loop along the last axis takes less for each element if the axis is long: weights of a
        // convolution, scaled by channel, have windows of nine elements.
        let axes = merged_axes(a.shape(), b.shape(), &1, |x, y| x * y);
        let (of_a, of_b): (Vec<usize>, Vec<usize>) = axes.into_iter().map(<(usize, usize)>::from).unzip();
        (a, b) = (a.into_shape_with_order(of_a)?, b.into_shape_with_order(of_b)?);
    }
    let merged = broadcast_lens(&[a.shape(), b.shape()])?;
    let misfit = || Error::invalid("arrays do not broadcast");
    let (a, b) = (a.broadcast(IxDyn(&merged)), b.broadcast(IxDyn(&merged)));
    let combined = Zip::from(a.ok_or_else(misfit)?).and(b.ok_or_else(misfit)?).map_collect(combine);
    if merged == shape {
        return Ok(combined);
    }
    // Both operands are in order, and so is the result.
    Ok(combined.into_shape_with_order(shape)?)
}

/// Returns the sizes of two shapes that broadcast, aligned at their last axes, with adjacent axes merged that
/// both have, or that the same one repeats. Axes of size 1 in both are left out.
pub(crate) fn merged_axes<T: Clone + PartialEq>(
    a: &[T],
    b: &[T],
    one: &T,
    times: impl Fn(&T, &T) -> T,
) -> Vec<[T; 2]> {
    let rank = a.len().max(b.len());
    let aligned = |shape: &[T]| {
        let ones = std::iter::repeat_n(one.clone(), rank - shape.len());
        ones.chain(shape.iter().cloned()).collect::<Vec<T>>()
    };
    let repeats = |[a, b]: &[T; 2]| (a == one, b == one);
    let mut axes: Vec<[T; 2]> = Vec::new();
    for next in aligned(a).into_iter().zip(aligned(b)).map(|(a, b)| [a, b]) {
        match axes.last_mut() {
            _ if repeats(&next) == (true, true) => {}
            Some(last) if repeats(last) == repeats(&next) => {
                *last = [times(&last[0], &next[0]), times(&last[1], &next[1])];
            }
            _ => axes.push(next),
        }
    }
    axes
}

/// Combines two arrays element by element by a fallible function.
pub(crate) fn try_zip_broadcast<A, B, C>(
    a: &ArrayD<A>,
    b: &ArrayD<B>,
    combine: impl Fn(&A, &B) -> Result<C>,
) -> Result<ArrayD<C>> {
    let shape = broadcast_lens(&[a.shape(), b.shape()])?;
    let results = zip_broadcast(a, b, combine)?;
    let elements: Result<Vec<C>> = results.into_iter().collect();
    Ok(ArrayD::from_shape_vec(IxDyn(&shape), elements?)?)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn axes_that_both_have_or_one_repeats_are_merged() {
        for (a, b, expected) in [
            (&[8, 4, 3, 3][..], &[8, 1, 1, 1][..], &[[8, 8], [36, 1]][..]),
            (&[2, 3, 4], &[3, 4], &[[2, 1], [12, 12]]),
            (&[2, 1, 4, 5], &[1, 3, 1, 5], &[[2, 1], [1, 3], [4, 1], [5, 5]]),
            (&[1, 1], &[], &[]),
            (&[2, 0, 3], &[1, 1, 3], &[[0, 1], [3, 3]]),
        ] {
            let found = merged_axes(a, b, &1, |x: &usize, y| x * y);
            assert_eq!(found, expected, "{a:?} {b:?}");
        }
    }

    proptest! {
        #[test]
        fn every_element_meets_its_partner(
            sizes in proptest::collection::vec(1_usize..4, 0..5),
            ones in proptest::collection::vec((any::<bool>(), any::<bool>()), 5),
            dropped in (0_usize..5, 0_usize..5),
        ) {
            let shape = |pick: &dyn Fn(&(bool, bool)) -> bool, drop: usize| -> Vec<usize> {
                let whole: Vec<usize> =
                    sizes.iter().zip(&ones).map(|(n, one)| if pick(one) { 1 } else { *n }).collect();
                // Leading axes of size 1 may be dropped.
                let front = whole.iter().take_while(|n| **n == 1).count().min(drop);
                whole[front..].to_vec()
            };
            let (sa, sb) = (shape(&|one| one.0, dropped.0), shape(&|one| one.1 && !one.0, dropped.1));
            let count = |s: &[usize]| s.iter().product::<usize>();
            let a = ArrayD::from_shape_vec(sa.clone(), (0..count(&sa)).collect()).unwrap();
            let b = ArrayD::from_shape_vec(sb.clone(), (0..count(&sb)).collect()).unwrap();
            let both = zip_broadcast(&a, &b, |x, y| (*x, *y)).unwrap();
            let pick = |s: &[usize], index: &[usize]| -> Vec<usize> {
                let index = &index[index.len() - s.len()..];
                index.iter().zip(s).map(|(i, n)| if *n == 1 { 0 } else { *i }).collect()
            };
            for (index, (x, y)) in both.indexed_iter() {
                let index = ndarray::Dimension::slice(&index).to_vec();
                prop_assert_eq!(*x, a[pick(&sa, &index).as_slice()]);
                prop_assert_eq!(*y, b[pick(&sb, &index).as_slice()]);
            }
        }
    }
}
