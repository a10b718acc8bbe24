//! Evaluation of reductions of constants.

use ndarray::{ArrayD, Axis, IxDyn};
use num_traits::AsPrimitive;

use super::node::{Kind, read_reduce, reduced_shape};
use crate::ops::prelude::*;

/// The bytes of an element that is reduced: up to four copies in float64.
pub(super) const COPIES: u64 = 32;

pub(super) fn fold_reduce(kind: Kind, call: &Call) -> Result<Vec<Array>> {
    let reduce = read_reduce(call)?;
    let data = call.array(0)?;
    let axes = call.optional_array(1)?.map(Array::int_list).transpose()?;
    let reduced = reduce.reduced(axes, data.shape().len())?;
    let elements = match data.elements() {
        Elements::F32(a) => {
            Elements::F32(reduce_floats(&a.mapv(f64::from), kind, &reduced).mapv(|x| x.as_()))
        }
        Elements::F64(a) => Elements::F64(reduce_floats(a, kind, &reduced)),
        Elements::I64(a) => Elements::I64(reduce_integers(a, data.dtype(), kind, &reduced)),
        Elements::Dim(a) => Elements::Dim(reduce_sizes(a, kind, &reduced)?),
    };
    let array = Array::new(data.dtype(), elements);
    let shape = reduced_shape(data.shape(), &reduced, reduce.keepdims.then_some(1));
    Ok(vec![array.reshape(&shape)?])
}

/// Folds all reduced axes, which disappear.
fn fold_axes<T: Clone>(a: &ArrayD<T>, reduced: &[bool], start: T, f: impl Fn(&T, &T) -> T) -> ArrayD<T> {
    if a.is_empty() {
        return ArrayD::from_elem(reduced_shape(a.shape(), reduced, None), start);
    }
    let mut a = a.clone();
    for (axis, _) in reduced.iter().enumerate().rev().filter(|(_, reduced)| **reduced) {
        a = a.fold_axis(Axis(axis), start.clone(), |x, y| f(x, y));
    }
    a
}

fn count(a: &[usize], reduced: &[bool]) -> usize {
    a.iter().zip(reduced).filter(|(_, reduced)| **reduced).map(|(size, _)| size).product()
}

fn reduce_floats(a: &ArrayD<f64>, kind: Kind, reduced: &[bool]) -> ArrayD<f64> {
    let sum = |a: &ArrayD<f64>| fold_axes(a, reduced, 0.0, |x, y| x + y);
    // NaN stays, as in onnxruntime.
    let larger = |x: &f64, y: &f64| if x.is_nan() || x > y { *x } else { *y };
    let smaller = |x: &f64, y: &f64| if x.is_nan() || x < y { *x } else { *y };
    match kind {
        Kind::Sum => sum(a),
        Kind::Mean => {
            // The mean of no elements is 0, as in onnxruntime.
            let count: f64 = count(a.shape(), reduced).max(1).as_();
            sum(a) / count
        }
        Kind::L1 => sum(&a.mapv(f64::abs)),
        Kind::L2 => sum(&a.mapv(|x| x * x)).mapv(f64::sqrt),
        Kind::SumSquare => sum(&a.mapv(|x| x * x)),
        Kind::LogSum => sum(a).mapv(libm::log),
        Kind::LogSumExp => {
            let max = fold_axes(a, reduced, f64::NEG_INFINITY, larger);
            let max = max.mapv(|x| if x.is_finite() { x } else { 0.0 });
            let mut shifted = a.clone();
            let keep = reduced_shape(a.shape(), reduced, Some(1));
            // The maximum has the elements of its shape with unit axes, so the reshape cannot fail.
            if let Ok(max) = max.to_shape(IxDyn(&keep)) {
                shifted -= &max;
            }
            sum(&shifted.mapv(libm::exp)).mapv(libm::log) + max
        }
        Kind::Max => fold_axes(a, reduced, f64::NEG_INFINITY, larger),
        Kind::Min => fold_axes(a, reduced, f64::INFINITY, smaller),
        Kind::Prod => fold_axes(a, reduced, 1.0, |x, y| x * y),
    }
}

fn reduce_integers(a: &ArrayD<i64>, dtype: DType, kind: Kind, reduced: &[bool]) -> ArrayD<i64> {
    let sum = |a: &ArrayD<i64>| fold_axes(a, reduced, 0, |x, y| x.wrapping_add(*y));
    let bound = |of: fn((i128, i128)) -> i128, none: i64| {
        dtype.int_range().map_or(none, |range| i64::try_from(of(range)).unwrap_or(none))
    };
    match kind {
        Kind::Sum => sum(a),
        Kind::L1 => sum(&a.mapv(i64::wrapping_abs)),
        Kind::SumSquare => sum(&a.mapv(|x| x.wrapping_mul(x))),
        Kind::Mean => {
            let count: i64 = count(a.shape(), reduced).as_();
            sum(a).mapv(|x| x.checked_div(count).unwrap_or(0))
        }
        Kind::Max => fold_axes(a, reduced, bound(|range| range.0, i64::MIN), |x, y| *x.max(y)),
        Kind::Min => fold_axes(a, reduced, bound(|range| range.1, i64::MAX), |x, y| *x.min(y)),
        Kind::Prod => fold_axes(a, reduced, 1, |x, y| x.wrapping_mul(*y)),
        Kind::L2 | Kind::LogSum | Kind::LogSumExp => {
            reduce_floats(&a.mapv(|x| x.as_()), kind, reduced).mapv(|x| x.as_())
        }
    }
}

fn reduce_sizes(a: &ArrayD<Dim>, kind: Kind, reduced: &[bool]) -> Result<ArrayD<Dim>> {
    type Step = fn(&Dim, &Dim) -> Dim;
    let (start, f): (i64, Step) = match kind {
        Kind::Sum => (0, |x, y| x + y),
        Kind::Prod => (1, |x, y| x * y),
        Kind::Max => (i64::MIN, |x, y| x.maximum(y)),
        Kind::Min => (i64::MAX, |x, y| x.minimum(y)),
        _ => unsupported!("this reduction of sizes known only at run time"),
    };
    let extreme = matches!(kind, Kind::Max | Kind::Min);
    // The initial value of an extreme is not a size: the difference to it would overflow.
    let step = |x: &Dim, y: &Dim| if extreme && x.is(start) { y.clone() } else { f(x, y) };
    Ok(fold_axes(a, reduced, Dim::Known(start), step))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reductions_match_the_specification() {
        let a = ArrayD::from_shape_vec(IxDyn(&[2, 2]), vec![1.0, -2.0, 3.0, 4.0]).unwrap();
        for (kind, expected) in [
            (Kind::Sum, [-1.0, 7.0]),
            (Kind::Mean, [-0.5, 3.5]),
            (Kind::L1, [3.0, 7.0]),
            (Kind::L2, [5_f64.sqrt(), 5.0]),
            (Kind::SumSquare, [5.0, 25.0]),
            (Kind::Max, [1.0, 4.0]),
            (Kind::Min, [-2.0, 3.0]),
            (Kind::Prod, [-2.0, 12.0]),
            (Kind::LogSumExp, [(1.0, -2.0), (3.0, 4.0)].map(|(x, y)| libm::log(libm::exp(x) + libm::exp(y)))),
        ] {
            let found = reduce_floats(&a, kind, &[false, true]);
            let near = found.iter().zip(expected).all(|(x, y)| (x - y).abs() < 1e-12);
            assert!(near, "{kind:?} {found}");
        }
    }

    #[test]
    fn empty_axes_reduce_to_the_neutral_element() {
        let none = ArrayD::<f64>::zeros(IxDyn(&[0]));
        let reduce = |kind| reduce_floats(&none, kind, &[true]).first().copied().unwrap();
        assert_eq!(reduce(Kind::Sum), 0.0);
        assert_eq!(reduce(Kind::Mean), 0.0);
        assert_eq!(reduce(Kind::Prod), 1.0);
        assert_eq!(reduce(Kind::Max), f64::NEG_INFINITY);
        assert_eq!(reduce(Kind::LogSumExp), f64::NEG_INFINITY);
        let none = ArrayD::<i64>::zeros(IxDyn(&[0]));
        assert_eq!(reduce_integers(&none, DType::I8, Kind::Max, &[true]).first(), Some(&-128));
    }

    #[test]
    fn symbolic_sizes_are_reduced() {
        let h = Dim::symbol("H");
        let a = ArrayD::from_shape_vec(IxDyn(&[2]), shape![&h, 3].to_vec()).unwrap();
        let product = reduce_sizes(&a, Kind::Prod, &[true]).unwrap();
        assert_eq!(product.first(), Some(&(h * 3)));
        assert!(reduce_sizes(&a, Kind::Max, &[true]).is_ok());
        assert!(reduce_sizes(&a, Kind::Mean, &[true]).is_err());
    }
}
