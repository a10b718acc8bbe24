//! What is known of each operator, for readers.

use crate::{op, ops};

/// An operator that is known by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Supported {
    /// The domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The versions of the operator set that changed it, as far as they are handled: it is handled from the first of them on.
    pub since: &'static [i64],
    /// The layers of ncnn, or the operators, that it becomes. Empty where it is always refused.
    pub lowers_to: &'static str,
    /// What is refused, or why it always is. Empty where there is nothing to say.
    pub limits: &'static str,
}

/// Every operator that is known, by domain and name. Those that fusions alone make are not among them.
pub fn supported() -> Vec<Supported> {
    let rows = ops::rows().map(|row| &row.op).filter(|op| op.domain != op::OWN_DOMAIN).map(|op| Supported {
        domain: op.domain,
        name: op.name,
        since: op.since,
        lowers_to: op.lowers_to,
        limits: op.limits,
    });
    let mut rows: Vec<Supported> = rows.collect();
    rows.sort();
    rows
}
