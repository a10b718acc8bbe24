//! The supported operators, for documentation.

use crate::{op, ops};

/// An operator with a row in the table of operators.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub struct Supported {
    /// The domain; empty for ONNX's.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The versions of the operator set that changed it, as far as they are supported: the operator is
    /// supported from the first of them on.
    pub since: &'static [i64],
    /// The layers of ncnn, or the operators, to which it is lowered. Empty if it is always refused.
    pub lowers_to: &'static str,
    /// The nodes that are refused, or the reason why all are. Empty if there are none.
    pub limits: &'static str,
    /// The elements for which the result may differ from that of the specification. Empty if there are none.
    pub differs: &'static str,
}

/// Returns every operator, by domain and name, without those that only fusions create.
pub fn supported() -> Vec<Supported> {
    let rows =
        ops::rows().map(|row| &row.op).filter(|op| op.schema.domain != op::NCNN_DOMAIN).map(|op| Supported {
            domain: op.schema.domain,
            name: op.schema.name,
            since: op.schema.since,
            lowers_to: op.lowers_to,
            limits: op.limits,
            differs: if op.states.is_empty() { op.differs } else { op.states },
        });
    let mut rows: Vec<Supported> = rows.collect();
    rows.sort();
    rows
}
