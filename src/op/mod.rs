//! Operators as the graph and its passes see them: versions, attributes, shape rules, evaluation on
//! constants, and traits. The families in `ops/` define them; this module depends on none of them.

mod attributes;
mod call;
mod element;
pub(crate) mod identity;
mod moves;
mod operator;
pub(crate) mod range;
mod reader;
mod registry;
mod schema;
mod window;

#[cfg(test)]
pub(crate) use attributes::FLAGS;
pub(crate) use attributes::{meaning, required};
pub(crate) use call::{
    Call, Inputs, axes_or_all, check_broadcasts, distinct_axes, element_count, index_from_front, infer_same,
    infer_test, resolve_axis, resolve_index,
};
pub(crate) use element::ElementSum;
pub(crate) use moves::{
    Move, Moved, Moves, fold_moves, infer_moves, moved, moves, moves_batch, taken, unmoved, viewed,
};
pub(crate) use operator::{
    Access, AppendRule, Condition, Expects, Fold, IdentityRule, Infer, InputRule, MultiplyAdds, NanRule, Op,
    RangeRule, Work, traits,
};
pub(crate) use registry::{
    CONTRIB_DOMAIN, NCNN_DOMAIN, NEWEST_OPSET, access, find, find_handled, index, infer_shape, register,
    since_version,
};
#[cfg(test)]
pub(crate) use schema::SCHEMAS;
pub(crate) use schema::{Kind, MANY, Schema};
pub(crate) use window::whole_windows;
