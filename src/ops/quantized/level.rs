//! Levels: quantized values less their zero point, which is what layers compute with. They are integers in floats.

use num_traits::AsPrimitive;

use super::cast;
use crate::error::{Error, Result};
use crate::graph::Attribute;
use crate::lower::Lower;
use crate::ncnn::layer::binary_op;
use crate::op::{Call, Fact, OWN_DOMAIN};
use crate::pass::expand::{Expand, Operand};
use crate::tensor::{Array, DType};

/// Most nodes between a value and the levels that it was made of: what expansion leaves are identities.
const MAX_IDENTITIES: usize = 4;

/// Most bits of quantized values, those of sums among them: levels are counted in 64.
const MAX_BITS: usize = 32;

/// The farthest zero point of such values.
const FARTHEST: i64 = 1 << 32;

/// Levels and the bounds that they have.
#[derive(Clone, Copy)]
pub(super) struct Levels {
    pub operand: Operand,
    pub low: i64,
    pub high: i64,
}

/// The type of quantized values, their zero point, and the bounds of the quantized values themselves.
#[derive(Clone, Copy)]
pub(super) struct Target {
    pub dtype: DType,
    pub zero: i64,
    pub low: i64,
    pub high: i64,
}

impl Target {
    /// All numbers of a type about a zero point.
    pub fn new(dtype: DType, zero: i64) -> Result<Target> {
        let bounds =
            dtype.int_range().and_then(|(low, high)| Some((low.try_into().ok()?, high.try_into().ok()?)));
        let Some((low, high)) = bounds.filter(|_| dtype.bits() <= MAX_BITS) else {
            return Err(Error::unsupported(format!("a quantized value of type {dtype}")));
        };
        Ok(Target { dtype, zero, low, high })
    }

    /// The same about another zero point.
    pub fn at_zero(self, zero: i64) -> Target {
        Target { zero, ..self }
    }

    /// What output 0 is, with the zero point at input `zero`; none where that is not a single constant. Nodes that passes make tell
    /// the bounds, where an activation has narrower ones than the type.
    pub fn of_output(x: &Expand, zero: usize) -> Result<Option<Target>> {
        let Some(zero) = constant_int(x, zero)? else { return Ok(None) };
        let mut target = Target::new(x.output_dtype(0)?, zero)?;
        if x.node().domain == OWN_DOMAIN {
            target.low = x.int_or("low", target.low)?;
            target.high = x.int_or("high", target.high)?;
        }
        Ok(Some(target))
    }
}

/// Reads the bounds that [`Target::of_output`] takes into account.
pub(super) fn read_bounds(call: &Call) -> Result<()> {
    if call.node().domain == OWN_DOMAIN {
        call.int("low")?;
        call.int("high")?;
    }
    Ok(())
}

/// The zero point that input `index` is, where it is one constant for all elements; 0 where it is left out.
pub(super) fn constant_int(x: &Call, index: usize) -> Result<Option<i64>> {
    if !x.has_input(index) {
        return Ok(Some(0));
    }
    let Some(constant) = x.constant(index).filter(|constant| constant.dtype().int_range().is_some()) else {
        return Ok(None);
    };
    let elements = constant.load_listed()?.int_list()?;
    let Some((first, rest)) = elements.split_first() else { return Ok(None) };
    if !(-FARTHEST..=FARTHEST).contains(first) {
        return Err(Error::unsupported(format!("a zero point of {first}")));
    }
    Ok(rest.iter().all(|element| element == first).then_some(*first))
}

/// A single of no axes.
pub(super) fn number(x: &mut Expand, value: f32) -> Result<Operand> {
    x.literal(&Array::f32(ndarray::ArrayD::from_elem(ndarray::IxDyn(&[]), value)))
}

/// A integer of no axes, as a float.
pub(super) fn whole(x: &mut Expand, value: i64) -> Result<Operand> {
    number(x, value.as_())
}

/// The levels of input `index` about a zero point.
pub(super) fn levels(x: &mut Expand, index: usize, zero: i64) -> Result<Levels> {
    if let Some(known) = known_levels(x, index, zero)? {
        return Ok(known);
    }
    let range = Target::new(x.dtype(index)?, zero)?;
    let operand = x.operand(index)?;
    let mut operand = cast(x, operand, DType::F32)?;
    if zero != 0 {
        let zero = whole(x, zero)?;
        operand = x.op("Sub", &[operand, zero], &[])?;
    }
    Ok(Levels { operand, low: range.low - zero, high: range.high - zero })
}

/// The levels that input `index` was made of, about this zero point.
fn known_levels(x: &mut Expand, index: usize, zero: i64) -> Result<Option<Levels>> {
    let Operand::Value(mut value) = x.operand(index)? else { return Ok(None) };
    for _ in 0..MAX_IDENTITIES {
        let Some(node) = x.graph().value(value).producer.and_then(|id| x.graph().node(id)) else { break };
        let Some(input) = node.inputs.first().copied().flatten() else { break };
        if node.is("Identity") {
            value = input;
            continue;
        }
        let int = |name: &str| match node.attributes.get(name) {
            Some(Attribute::Int(value)) => Some(*value),
            _ => None,
        };
        if node.domain == OWN_DOMAIN
            && node.op_type == "Levels"
            && let (Some(other), Some(low), Some(high)) = (int("zero"), int("low"), int("high"))
        {
            let by = zero.saturating_sub(other);
            let mut operand = Operand::Value(input);
            if by != 0 {
                let by = whole(x, by)?;
                operand = x.op("Sub", &[operand, by], &[])?;
            }
            return Ok(Some(Levels { operand, low: low.saturating_sub(by), high: high.saturating_sub(by) }));
        }
        break;
    }
    Ok(None)
}

/// Rounds numbers of levels, halves to even, holds them within the bounds, and makes quantized values of them.
pub(super) fn finalize(x: &mut Expand, scaled: Operand, target: Target) -> Result<Operand> {
    let levels = round(x, scaled, target)?;
    name_levels(x, levels, target)
}

/// Levels of numbers of them.
pub(super) fn round(x: &mut Expand, scaled: Operand, target: Target) -> Result<Operand> {
    let rounded = x.op("Round", &[scaled], &[])?;
    let (least, most) = (whole(x, target.low - target.zero)?, whole(x, target.high - target.zero)?);
    x.op("Clip", &[rounded, least, most], &[])
}

/// Quantised values of levels.
pub(super) fn name_levels(x: &mut Expand, levels: Operand, target: Target) -> Result<Operand> {
    x.own_op(
        "Levels",
        &[levels],
        &[
            ("zero", Attribute::Int(target.zero)),
            ("low", Attribute::Int(target.low - target.zero)),
            ("high", Attribute::Int(target.high - target.zero)),
            ("to", Attribute::Int(i64::from(target.dtype.to_onnx()))),
        ],
    )
}

pub(super) fn infer_levels(call: &Call) -> Result<Vec<Fact>> {
    for name in ["zero", "low", "high"] {
        call.int(name)?;
    }
    let code = call.int_or("to", 0)?;
    let dtype = i32::try_from(code).ok().and_then(DType::from_onnx);
    let dtype = dtype.ok_or_else(|| Error::invalid("levels of an unknown type"))?;
    Ok(vec![call.like(0, dtype)?])
}

/// The quantized values themselves.
pub(super) fn lower_levels(lower: &mut Lower) -> Result<()> {
    let zero = lower.int_or("zero", 0)?;
    if zero == 0 {
        return lower.alias();
    }
    let levels = lower.blob(0)?;
    let moved = lower.binary_scalar(binary_op::ADD, levels, zero.as_())?;
    lower.set(0, moved)
}
