//! Element types of new nodes, before types are inferred: numbers in expressions take the type of the value
//! that they are combined with.

use super::Expr;
use crate::graph::{Attribute, AttributeMap};
use crate::tensor::DType;

/// Returns the element type of an output, from the type of the first.
pub(super) fn further_type(op_type: &str, index: usize, first: Option<DType>) -> Option<DType> {
    match (op_type, index) {
        ("MaxPool" | "TopK", 1) => Some(DType::I64),
        ("DynamicQuantizeLinear", 1) => Some(DType::F32),
        _ => first,
    }
}

/// Returns the element type of the first output of an operator, which gives its type to numbers that are
/// combined with it.
pub(super) fn result_type(
    op_type: &str,
    inputs: &[Option<Expr>],
    attributes: &AttributeMap,
) -> Option<DType> {
    let type_of = |index: usize| inputs.get(index).copied().flatten().and_then(|input| input.dtype);
    match op_type {
        "And" | "Equal" | "Greater" | "GreaterOrEqual" | "IsInf" | "IsNaN" | "Less" | "LessOrEqual"
        | "Not" | "Or" => Some(DType::Bool),
        "ArgMax" | "ArgMin" | "NonZero" | "Shape" | "Size" => Some(DType::I64),
        "ConvInteger" | "MatMulInteger" => Some(DType::I32),
        "Cast" | "Levels" => match attributes.get("to") {
            Some(Attribute::Int(to)) => i32::try_from(*to).ok().and_then(DType::from_onnx),
            _ => None,
        },
        "DynamicQuantizeLinear" => Some(DType::U8),
        "DequantizeLinear" | "Where" => type_of(1),
        "OneHot" | "QuantizeLinear" => type_of(2),
        "SequenceConstruct" => None,
        _ => type_of(0),
    }
}
