//! Powers and roots of LpPool and GlobalLpPool.

use num_traits::AsPrimitive;

use super::{read_p, split_shape};
use crate::ncnn::layer::{Power, reduction_op};
use crate::ops::prelude::*;

/// The maximum exponent: a power is a product of as many factors.
const MAX_P: i64 = 8;

/// Returns `|x|^p`.
pub(super) fn power(x: Nd, p: i64) -> Result<Nd> {
    if p > MAX_P {
        unsupported!("exponent p = {p} (at most {MAX_P})");
    }
    let (factor, factors) =
        if p % 2 == 0 { (x.compute(|x| x.square()), p / 2) } else { (x.compute(|x| x.abs()), p) };
    Ok((1..factors).fold(factor, |y, _| y * factor))
}

/// Returns `x^(1/p)` for `x >= 0`.
pub(super) fn root(x: Nd, p: i64) -> Nd {
    match p {
        1 => x,
        2 => x.compute(|x| x.sqrt()),
        _ => {
            let p: f32 = p.as_();
            x.compute(|x| x.map(Power { power: 1.0 / p, ..Power::default() }))
        }
    }
}

pub(super) fn lower_global_lp(lower: &Lower) -> Result<()> {
    let p = read_p(lower)?;
    let (batch, channels, spatial) = split_shape(lower.shape(0)?)?;
    let planes = lower.input(0).reshape([batch * channels, Dim::product(spatial)]);
    lower.give(0, root(power(planes, p)?.reduce(reduction_op::SUM, &[1]), p))
}
