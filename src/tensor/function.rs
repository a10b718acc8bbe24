//! Functions of elements.

use ndarray::ArrayD;
use num_traits::AsPrimitive;

use super::{Array, Elements};
use crate::error::{Result, unsupported};

impl Array {
    /// Applies a function to each element, in float64, and rounds once to the type; integers are truncated.
    pub fn map(&self, function: impl Fn(f64) -> f64) -> Result<Array> {
        let elements = match self.elements() {
            Elements::F32(a) => Elements::F32(a.mapv(|x| function(f64::from(x)).as_())),
            Elements::F64(a) => Elements::F64(a.mapv(&function)),
            Elements::I64(a) => Elements::I64(a.mapv(|x| {
                let x: f64 = x.as_();
                function(x).as_()
            })),
            Elements::Dim(_) => unsupported!("a function of a size known only at run time"),
        };
        Ok(Array::new(self.dtype(), elements))
    }

    /// Returns booleans: whether each element has a property.
    pub fn test(&self, property: impl Fn(f64) -> bool) -> Result<Array> {
        let truth: ArrayD<bool> = self.to_f64()?.mapv(property);
        Ok(Array::bool(truth))
    }
}

/// Returns the error function, by its series of positive terms (<https://dlmf.nist.gov/7.6.E2>).
pub(crate) fn erf(x: f64) -> f64 {
    // Beyond this `1 - erf(x)` is below the precision of float64.
    if x.is_nan() || x.abs() > 6.0 {
        return x.signum();
    }
    let (mut term, mut sum, mut n) = (x, x, 1.0);
    while term.abs() > sum.abs() * f64::EPSILON {
        term *= 2.0 * x * x / (2.0 * n + 1.0);
        sum += term;
        n += 1.0;
    }
    std::f64::consts::FRAC_2_SQRT_PI * libm::exp(-x * x) * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erf_matches_the_tables() {
        for (x, y) in [
            (0.0, 0.0),
            (1e-9, 1.128_379_167_095_512_6e-9),
            (0.5, 0.520_499_877_813_046_5),
            (-1.0, -0.842_700_792_949_714_9),
            (3.0, 0.999_977_909_503_001_4),
            (5.9, 1.0),
            (9.0, 1.0),
        ] {
            assert!((erf(x) - y).abs() <= 1e-14 * y.abs(), "erf({x}) = {}", erf(x));
        }
        assert!(erf(f64::NAN).is_nan());
    }
}
