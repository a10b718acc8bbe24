//! Algorithms over the whole graph. None of them knows an operator by name.

pub mod dead;
pub(crate) mod expand;
pub mod infer;
