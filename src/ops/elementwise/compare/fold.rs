//! Comparisons and selections of constants, and of symbolic sizes if the result does not depend on the
//! symbols.

use ndarray::{ArrayD, IxDyn, Zip};

use super::super::broadcast::{Kernel, align_arrays, fold_comparison};
use crate::ops::prelude::*;
use crate::tensor::{broadcast_lens, try_zip_broadcast};

pub(super) type Comparison = Kernel<bool, bool, bool>;

pub(super) const EQUAL: Comparison = Kernel { float: |x, y| x == y, int: |x, y| Ok(x == y), dim: equal_dims };
pub(super) const GREATER: Comparison =
    Kernel { float: |x, y| x > y, int: |x, y| Ok(x > y), dim: greater_dims };
pub(super) const GREATER_OR_EQUAL: Comparison =
    Kernel { float: |x, y| x >= y, int: |x, y| Ok(x >= y), dim: |x, y| greater_dims(y, x).map(|less| !less) };
pub(super) const LESS: Comparison =
    Kernel { float: |x, y| x < y, int: |x, y| Ok(x < y), dim: |x, y| greater_dims(y, x) };
pub(super) const LESS_OR_EQUAL: Comparison =
    Kernel { float: |x, y| x <= y, int: |x, y| Ok(x <= y), dim: |x, y| greater_dims(x, y).map(|more| !more) };
pub(super) const AND: Comparison =
    Kernel { float: |_, _| false, int: |x, y| Ok(x != 0 && y != 0), dim: |_, _| Err(no_truth()) };
pub(super) const OR: Comparison =
    Kernel { float: |_, _| false, int: |x, y| Ok(x != 0 || y != 0), dim: |_, _| Err(no_truth()) };
pub(super) const XOR: Comparison =
    Kernel { float: |_, _| false, int: |x, y| Ok((x != 0) != (y != 0)), dim: |_, _| Err(no_truth()) };

fn no_truth() -> Error {
    Error::invalid("expected a boolean, found a size")
}

/// Returns whether a size is positive for all symbols, or for none.
fn is_positive(difference: &Dim) -> Option<bool> {
    if difference.lower_bound().is_some_and(|n| n > 0) {
        return Some(true);
    }
    let negated = 0 - difference;
    negated.lower_bound().filter(|n| *n >= 0).map(|_| false)
}

fn equal_dims(x: &Dim, y: &Dim) -> Result<bool> {
    if x == y {
        return Ok(true);
    }
    let is_other = is_positive(&(x - y)) == Some(true) || is_positive(&(y - x)) == Some(true);
    if is_other || compared_with_negative(x, y).is_some() {
        return Ok(false);
    }
    unsupported!("whether {x} equals {y} depends on sizes known only at run time")
}

/// Returns the size of which is asked whether it equals a negative number, if it may be positive.
fn compared_with_negative<'a>(x: &'a Dim, y: &'a Dim) -> Option<&'a Dim> {
    let sides = [(x, y), (y, x)].into_iter();
    let mut asked = sides.filter(|(size, number)| {
        let may_be_positive = size.bounds().1.is_none_or(|most| most > 0);
        may_be_positive && number.known().is_some_and(|number| number < 0)
    });
    asked.next().map(|(size, _)| size)
}

fn greater_dims(x: &Dim, y: &Dim) -> Result<bool> {
    match is_positive(&(x - y)) {
        Some(answer) => Ok(answer),
        None => unsupported!("whether {x} exceeds {y} depends on sizes known only at run time"),
    }
}

pub(super) fn fold_comparison_of(call: &Call, kernel: &Comparison) -> Result<Vec<Array>> {
    let arrays = align_arrays(call)?;
    Ok(vec![fold_comparison(arrays.at(0)?, arrays.at(1)?, kernel)?])
}

/// Folds Equal. PyTorch's exporter compares the sizes of an expansion with -1, which leaves a size
/// unchanged: a difference of sizes is required not to be negative.
pub(super) fn fold_equal(call: &Call) -> Result<Vec<Array>> {
    let arrays = align_arrays(call)?;
    let (x, y) = (arrays.at(0)?, arrays.at(1)?);
    if [x, y].iter().any(|side| matches!(side.elements(), Elements::Dim(_))) {
        let require = |x: &Dim, y: &Dim| match compared_with_negative(x, y) {
            Some(size) => call.require(SizeCondition::at_least(size, 0)),
            None => Ok(()),
        };
        try_zip_broadcast(&x.to_dims()?, &y.to_dims()?, require)?;
    }
    Ok(vec![fold_comparison(x, y, &EQUAL)?])
}

pub(super) fn fold_where(call: &Call) -> Result<Vec<Array>> {
    let condition = call.array(0)?;
    let choices = [call.array(1)?, call.array(2)?];
    let choices = Array::of_one_kind(&choices)?;
    let (x, y) = (choices.at(0)?, choices.at(1)?);
    let shape = broadcast_lens(&[condition.shape(), x.shape(), y.shape()])?;
    let condition = condition.broadcast(&shape)?.to_i64()?;
    let elements = match (x.elements(), y.elements()) {
        (Elements::F32(x), Elements::F32(y)) => Elements::F32(choose(&condition, x, y)?),
        (Elements::F64(x), Elements::F64(y)) => Elements::F64(choose(&condition, x, y)?),
        (Elements::I64(x), Elements::I64(y)) => Elements::I64(choose(&condition, x, y)?),
        (Elements::Dim(x), Elements::Dim(y)) => Elements::Dim(choose(&condition, x, y)?),
        _ => invalid!("a selection from {} and {}", x.dtype(), y.dtype()),
    };
    Ok(vec![Array::new(x.dtype(), elements)])
}

fn choose<T: Clone>(condition: &ArrayD<i64>, x: &ArrayD<T>, y: &ArrayD<T>) -> Result<ArrayD<T>> {
    let shape = IxDyn(condition.shape());
    let misfit = || Error::invalid("the operands do not broadcast");
    let x = x.broadcast(shape.clone()).ok_or_else(misfit)?;
    let y = y.broadcast(shape).ok_or_else(misfit)?;
    Ok(Zip::from(condition).and(x).and(y).map_collect(|c, x, y| if *c == 0 { y.clone() } else { x.clone() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbolic_sizes_compare_if_the_result_is_certain() {
        let h = Dim::symbol("H");
        let more = &h + 1;
        let minus_one = Dim::Known(-1);
        assert!(equal_dims(&h, &h).unwrap());
        assert!(!equal_dims(&h, &more).unwrap());
        assert!(!equal_dims(&h, &minus_one).unwrap());
        assert!(equal_dims(&h, &Dim::ONE).is_err());
        assert!(greater_dims(&more, &h).unwrap());
        assert!(!greater_dims(&h, &more).unwrap());
        assert!(greater_dims(&h, &minus_one).unwrap());
        assert!(!greater_dims(&minus_one, &h).unwrap());
        assert!(greater_dims(&h, &Dim::ONE).is_err());
    }
}
