//! Casts between element types.
//!
//! | ONNX | ncnn |
//! | --- | --- |
//! | Cast, CastLike to a float | no layer; BinaryOp rounds to bfloat16, and to floats of 8, 6 and 4 bits |
//! | to an integer | UnaryOp TRUNC from a float; types of up to 16 bits wrap around |
//! | to bool | Threshold on the magnitude |
//!
//! Float16 is treated as float32: they differ by less than 2^-11. Negative integers are cast to unsigned ones
//! of 32 and 64 bits as constants only: float32 cannot wrap around.
//! Spec: <https://onnx.ai/onnx/operators/onnx__Cast.html>.

mod narrow;
mod quotient;

use crate::graph::Attribute;
use crate::lower::AssumedFact;
use crate::op::range;
use crate::ops::prelude::*;
use crate::tensor::{Narrowing, Power, Steps, magnitudes, steps};

pub(in crate::ops) const OPS: &[Row] = &[
    Row::new("Cast", Access::Elementwise, infer_cast)
        .fold(fold_cast)
        // Casts of unknown values are mostly casts of ids and masks, which are integers.
        .expects(|_, _, result| Some(Fact::new(DType::I64, result()?.shape?)))
        .lower(lower_cast)
        .range(range_cast)
        .identity(keeps_type)
        .discontinuous(|graph, node| !is_to_float(graph, node) || is_to_small_float(graph, node))
        .transparent(|graph, node| is_to_float(graph, node) && !is_to_small_float(graph, node))
        .tolerates_rounding(|call, _| !wraps(call.graph(), call.node()))
        .lowers_to(
            "no layer to float; BinaryOp to bfloat16 and to floats of 8, 6 and 4 bits; \
            UnaryOp TRUNC to integers, which wrap around at 16 bits and fewer; Threshold to \
            bool",
        )
        .limits("negative numbers as unsigned ones of 32 and 64 bits, computed at run time"),
    Row::defined("", "CastLike", expand_cast_like)
        .access(Access::Elementwise)
        .fold(fold_cast_like)
        .identity(keeps_type)
        .lowers_to("Cast")
        .limits("as for Cast"),
];

/// 2^31: float32 beyond it has no bits that an integer of 16 bits keeps.
const FAR: f32 = 2_147_483_648.0;

/// 2^110: larger magnitudes overflow in the splitting product.
const BFLOAT16_LARGE: f32 = 1.298_074_2e33;

/// Returns the target type of Cast. Operator set 1 has its name.
fn read_cast(call: &Call) -> Result<DType> {
    let unknown = |what: &dyn std::fmt::Display| {
        Error::unsupported(format!("unknown element type {what}")).at_part("attribute to")
    };
    if call.since() < 6 {
        let name = call.string("to")?;
        return DType::from_name(&name.to_lowercase()).ok_or_else(|| unknown(&name));
    }
    let code = call.int("to")?;
    DType::from_onnx(i32::try_from(code)?).ok_or_else(|| unknown(&code))
}

/// Returns the rounding to floats of 8 and 4 bits.
fn read_narrowing(call: &Call) -> Result<Narrowing> {
    let powers = [("up", Power::Up), ("down", Power::Down), ("nearest", Power::Nearest)];
    let power = call.word("round_mode", &powers)?;
    Ok(Narrowing { saturate: call.flag("saturate")?, power })
}

/// Returns the types of input and output.
fn dtypes(graph: &Graph, node: &Node) -> (Option<DType>, Option<DType>) {
    let dtype = |id: Option<&Option<ValueId>>| id.copied().flatten().and_then(|id| graph.value(id).dtype);
    (dtype(node.inputs.first()), dtype(node.outputs.first()))
}

fn is_to_float(graph: &Graph, node: &Node) -> bool {
    dtypes(graph, node).1.is_some_and(DType::is_float)
}

fn is_to_small_float(graph: &Graph, node: &Node) -> bool {
    dtypes(graph, node).1.is_some_and(is_small)
}

/// Returns whether the result is the remainder by a power of two.
fn wraps(graph: &Graph, node: &Node) -> bool {
    dtypes(graph, node).1.is_some_and(DType::is_narrow_int)
}

/// Returns whether a type has so few digits that a cast to it must round.
fn is_small(dtype: DType) -> bool {
    dtype.is_float() && dtype.bits() <= 8
}

fn keeps_type(graph: &Graph, node: &Node) -> Option<ValueId> {
    let (from, to) = dtypes(graph, node);
    node.input(0).filter(|_| from.is_some() && from == to)
}

fn range_cast(call: &Call, inputs: &[Range]) -> Range {
    let x = range::first(call, inputs);
    match read_cast(call) {
        Ok(to) if to == DType::F32 || to == DType::F64 => x,
        Ok(to) if to.is_int() => x.map(f64::trunc),
        Ok(DType::Bool) => Range::UNIT,
        // Other floats round, and may overflow.
        _ => Range::ANY,
    }
}

fn infer_cast(call: &Call) -> Result<Vec<Fact>> {
    let to = read_cast(call)?;
    if let Some(sizes) = quotient::truncated(call, to)? {
        return Ok(vec![Fact::elements(sizes)]);
    }
    Ok(vec![call.like(0, to)?])
}

fn fold_cast(call: &Call) -> Result<Vec<Array>> {
    Ok(vec![call.array(0)?.cast_with(read_cast(call)?, read_narrowing(call)?)?])
}

fn fold_cast_like(call: &Call) -> Result<Vec<Array>> {
    let to = call.array(1)?.dtype();
    Ok(vec![call.array(0)?.cast_with(to, read_narrowing(call)?)?])
}

/// Expands CastLike to a Cast to the type of the other input.
fn expand_cast_like<'x>(expand: &'x Expand) -> Result<Expr<'x>> {
    let to = expand.dtype(1)?;
    let mut attributes = vec![("to", Attribute::Int(i64::from(to.to_onnx())))];
    if is_small(to) {
        attributes.push(("saturate", Attribute::Int(i64::from(expand.flag("saturate")?))));
        attributes
            .extend(expand.node().attributes.get("round_mode").map(|mode| ("round_mode", mode.clone())));
    }
    Ok(expand.make.op("Cast", [expand.operand(0)], attributes))
}

fn lower_cast(lower: &Lower) -> Result<()> {
    let to = read_cast(lower)?;
    let from = lower.dtype(0)?;
    let foreign = |dtype| matches!(dtype, DType::String | DType::C64 | DType::C128);
    if foreign(from) || foreign(to) {
        unsupported!("a cast from {from} to {to} at run time");
    }
    let is_negative = lower.range(0).least < 0.0;
    let change = change(from, to, is_negative)?;
    let x = lower.blob(0)?;
    let changed = match change {
        Change::CutOff if to.bits() <= 16 && !Range::of(to).contains(lower.range(0).map(f64::trunc)) => {
            // The specification leaves numbers out of range open; the result is a value of the type.
            lower.wrap(x.clip(-FAR, FAR).trunc(), to)?
        }
        Change::None => return lower.give(0, lower.input(0)),
        Change::Truth => lower.compute(x.nonzero())?,
        Change::CutOff => lower.compute(x.trunc())?,
        Change::Wrap if from.is_float() => lower.wrap(x.trunc(), to)?,
        Change::Wrap => lower.wrap(x, to)?,
        Change::Bfloat16 => round_to_bfloat16(lower)?,
        Change::Small(steps) => {
            // Floats of 6 bits have neither infinity nor NaN.
            let saturate = to.bits() < 8 || read_narrowing(lower)?.saturate;
            narrow::round_to(lower, x, steps, saturate)?
        }
        Change::Power => {
            lower.assume(0, AssumedFact::NotTiny);
            narrow::round_to_power(lower, x, read_narrowing(lower)?)?
        }
        Change::SmallList => narrow::count_steps(lower, x, &magnitudes(to))?,
    };
    lower.set(0, changed)
}

/// The effect of a cast on float32 values.
#[derive(Debug, PartialEq)]
enum Change {
    None,
    Truth,
    CutOff,
    Wrap,
    Bfloat16,
    Small(Steps),
    SmallList,
    Power,
}

/// Returns the effect of a cast; `is_negative`: whether elements may be negative.
fn change(from: DType, to: DType, is_negative: bool) -> Result<Change> {
    if from == to {
        return Ok(Change::None);
    }
    // It has no 0, and a boolean may be 0.
    if to == DType::F8E8M0 {
        return Ok(Change::Power);
    }
    if from == DType::Bool {
        return Ok(Change::None);
    }
    if to == DType::Bool {
        return Ok(Change::Truth);
    }
    if let Some(steps) = steps(to) {
        return Ok(Change::Small(steps));
    }
    if to == DType::F4E2M1 {
        return Ok(Change::SmallList);
    }
    if to.is_float() {
        // Integers of 8 bits have no more digits than bfloat16.
        let exact = from.bits() <= 8 || to != DType::BF16;
        return Ok(if exact { Change::None } else { Change::Bfloat16 });
    }
    if from.is_float() {
        // Floats outside 8 and more bits are undefined; onnxruntime packs fewer bits from wider integers.
        return Ok(if to.bits() < 8 { Change::Wrap } else { Change::CutOff });
    }
    let (Some(from_range), Some(to_range)) = (from.int_range(), to.int_range()) else {
        unsupported!("a cast from {from} to {to} at run time");
    };
    if from_range.0 >= to_range.0 && from_range.1 <= to_range.1 {
        return Ok(Change::None);
    }
    if to.bits() <= 16 {
        return Ok(Change::Wrap);
    }
    if to.is_unsigned() && !from.is_unsigned() && is_negative {
        unsupported!("negative numbers of {from} as {to} at run time");
    }
    // Wider types are assumed to contain only integers that float32 represents exactly.
    Ok(Change::None)
}

/// Rounds to the nearest of 8 binary digits. Larger magnitudes, and infinities, are added after that.
fn round_to_bfloat16(lower: &Lower) -> Result<BlobId> {
    let x = lower.blob(0)?;
    let bounded = lower.compute(x.minimum(BFLOAT16_LARGE).maximum(-BFLOAT16_LARGE))?;
    let beyond = lower.compute(x - bounded)?;
    let rounded = lower.round_digits(bounded, 8)?;
    lower.compute(rounded + beyond)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn casts_that_keep_the_values_take_no_layer() {
        for (from, to, expected) in [
            (DType::F32, DType::F32, Change::None),
            (DType::F64, DType::F32, Change::None),
            (DType::F32, DType::F16, Change::None),
            (DType::F32, DType::BF16, Change::Bfloat16),
            (DType::U8, DType::BF16, Change::None),
            (DType::F32, DType::F8E5M2, Change::Small(steps(DType::F8E5M2).unwrap())),
            (DType::F32, DType::F4E2M1, Change::SmallList),
            (DType::F32, DType::F6E3M2, Change::Small(steps(DType::F6E3M2).unwrap())),
            (DType::F32, DType::F8E8M0, Change::Power),
            (DType::Bool, DType::F8E8M0, Change::Power),
            (DType::F8E5M2, DType::F32, Change::None),
            (DType::F32, DType::I64, Change::CutOff),
            (DType::F32, DType::I4, Change::Wrap),
            (DType::F32, DType::Bool, Change::Truth),
            (DType::I64, DType::Bool, Change::Truth),
            (DType::Bool, DType::F32, Change::None),
            (DType::I64, DType::F32, Change::None),
            (DType::I64, DType::I32, Change::None),
            (DType::I64, DType::I8, Change::Wrap),
            (DType::U8, DType::I8, Change::Wrap),
            (DType::U8, DType::I16, Change::None),
        ] {
            assert_eq!(change(from, to, true).unwrap(), expected, "{from} to {to}");
        }
        assert!(change(DType::I64, DType::U32, true).is_err());
        assert_eq!(change(DType::I64, DType::U32, false).unwrap(), Change::None);
    }
}
