//! Levels: quantized values minus their zero point. Layers compute with them as integers in float32.

use num_traits::AsPrimitive;

use crate::graph::Attribute;
use crate::ops::prelude::*;

/// The maximum number of Identity nodes, which expansion leaves, between the node `Levels` and a reader.
const MAX_IDENTITIES: usize = 4;

/// The maximum width of quantized values, sums included: levels are `i64`.
const MAX_BITS: usize = 32;

/// The largest magnitude of a zero point.
const MAX_ZERO: i64 = 1 << 32;

/// Levels with their bounds.
#[derive(Clone, Copy)]
pub(super) struct Levels<'x> {
    pub value: Expr<'x>,
    pub low: i64,
    pub high: i64,
}

/// The type of quantized values, their zero point, and their bounds.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub dtype: DType,
    pub zero: i64,
    pub low: i64,
    pub high: i64,
}

impl Target {
    /// Returns the target with all values of a type.
    pub fn new(dtype: DType, zero: i64) -> Result<Target> {
        let bounds =
            dtype.int_range().and_then(|(low, high)| Some((low.try_into().ok()?, high.try_into().ok()?)));
        let Some((low, high)) = bounds.filter(|_| dtype.bits() <= MAX_BITS) else {
            return Err(Error::unsupported(format!("a quantized value of type {dtype}")));
        };
        Ok(Target { dtype, zero, low, high })
    }

    /// Returns the target with another zero point.
    pub fn at_zero(self, zero: i64) -> Target {
        Target { zero, ..self }
    }

    /// Returns the target of the zero point in input `index`, or `None` unless that is a single constant.
    pub fn of_zero(x: &Expand, index: usize, dtype: DType) -> Result<Option<Target>> {
        let Some(zero) = constant_int(x, index)? else { return Ok(None) };
        Target::new(dtype, zero).map(Some)
    }
}

/// Returns the zero point at input `index` if it is one constant for all elements; 0 if it is omitted.
pub(super) fn constant_int(x: &Call, index: usize) -> Result<Option<i64>> {
    if !x.has_input(index) {
        return Ok(Some(0));
    }
    let Some(constant) = x.constant(index).filter(|constant| constant.dtype().int_range().is_some()) else {
        return Ok(None);
    };
    let elements = constant.load_listed()?.int_list()?;
    let Some((first, rest)) = elements.split_first() else { return Ok(None) };
    if !(-MAX_ZERO..=MAX_ZERO).contains(first) {
        return Err(Error::unsupported(format!("a zero point of {first}")));
    }
    Ok(rest.iter().all(|element| element == first).then_some(*first))
}

/// Returns the difference of a value and an integer.
pub(super) fn minus(value: Expr, by: i64) -> Expr {
    if by == 0 { value } else { value - by }
}

/// Returns the levels of input `index` for a zero point.
pub(super) fn levels<'x>(x: &'x Expand, index: usize, zero: i64) -> Result<Levels<'x>> {
    if let Some(levels) = source_levels(x, index, zero) {
        return Ok(levels);
    }
    let range = Target::new(x.dtype(index)?, zero)?;
    let value = minus(x.operand_as(index, DType::F32), zero);
    Ok(Levels { value, low: range.low - zero, high: range.high - zero })
}

/// Returns the operand of the node `Levels` that computes input `index`, shifted to a zero point.
fn source_levels<'x>(x: &'x Expand, index: usize, zero: i64) -> Option<Levels<'x>> {
    let mut value = x.node().input(index)?;
    for _ in 0..MAX_IDENTITIES {
        let node = x.graph().producer(value)?;
        let input = node.input(0)?;
        if node.is("Identity") {
            value = input;
            continue;
        }
        if node.domain != NCNN_DOMAIN || node.op_type != "Levels" {
            break;
        }
        let int = |name: &str| match node.attributes.get(name) {
            Some(Attribute::Int(value)) => Some(*value),
            _ => None,
        };
        let (other, low, high) = (int("zero")?, int("low")?, int("high")?);
        let by = zero.saturating_sub(other);
        return Some(Levels {
            value: minus(x.make.value(input).typed(DType::F32), by),
            low: low.saturating_sub(by),
            high: high.saturating_sub(by),
        });
    }
    None
}

/// Returns quantized values of scaled levels, which are rounded half to even and clipped to the bounds.
pub(super) fn requantize(scaled: Expr, target: Target) -> Expr {
    from_levels(round_levels(scaled, target), target)
}

/// Returns scaled levels rounded half to even and clipped to the bounds.
pub(super) fn round_levels(scaled: Expr, target: Target) -> Expr {
    scaled.round().clip(target.low - target.zero, target.high - target.zero)
}

/// Returns the quantized values of levels.
pub(super) fn from_levels(levels: Expr, target: Target) -> Expr {
    let attributes = [
        ("zero", target.zero),
        ("low", target.low - target.zero),
        ("high", target.high - target.zero),
        ("to", i64::from(target.dtype.to_onnx())),
    ];
    levels.builder.op("ncnn.Levels", [levels], attributes.map(|(name, int)| (name, int.into())))
}

pub(super) fn infer_levels(call: &Call) -> Result<Vec<Fact>> {
    let dtype = call.element_type("to").map_err(|_| Error::invalid("levels of an unknown type"))?;
    Ok(vec![call.like(0, dtype)?])
}

/// Adds the zero point.
pub(super) fn lower_levels(lower: &Lower) -> Result<()> {
    let zero = lower.int("zero")?;
    if zero == 0 {
        return lower.give(0, lower.input(0));
    }
    let levels = lower.blob(0)?;
    let zero: f32 = zero.as_();
    lower.set(0, levels + zero)
}
