//! The words in which rows, shape rules, folds, expansions and lowerings are written.

pub(in crate::ops) use super::Row;
pub(in crate::ops) use crate::common::int::Int;
pub(in crate::ops) use crate::common::limits;
pub(in crate::ops) use crate::error::{At, Error, Result, invalid, unsupported};
pub(in crate::ops) use crate::graph::{Fact, Graph, Node, ValueId};
pub(in crate::ops) use crate::lower::{Lower, Nd, Operand};
pub(in crate::ops) use crate::ncnn::BlobId;
pub(in crate::ops) use crate::op::{Access, Call, NCNN_DOMAIN, element_count, infer_same, resolve_axis};
pub(in crate::ops) use crate::pass::builder::Expr;
pub(in crate::ops) use crate::pass::expand::Expand;
pub(in crate::ops) use crate::tensor::{
    Array, DType, Dim, Elements, Range, Shape, SizeCondition, Tensor, display_shape, shape,
};
