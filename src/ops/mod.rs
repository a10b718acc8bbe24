//! The operators: a shelf for each kind, a file for each family, a row for each operator. A row gives the
//! operator and its conversions: to ncnn layers, or to simpler operators.

pub(crate) mod attention;
mod classical;
mod contributed;
mod control;
mod elementwise;
mod indexing;
mod linear;
pub(crate) mod normalization;
mod quantized;
mod recurrent;
mod reduction;
mod row;
mod shape;
mod source;
mod spatial;
mod spectral;
mod training;

use std::sync::LazyLock;

use crate::graph::Node;
use crate::lower::LowerNode;
use crate::op;
use crate::pass::expand::{ExpandNode, Stage};

pub(crate) use row::Row;

const SHELVES: &[&[&[Row]]] = &[
    attention::FAMILIES,
    classical::FAMILIES,
    control::FAMILIES,
    elementwise::FAMILIES,
    indexing::FAMILIES,
    linear::FAMILIES,
    normalization::FAMILIES,
    reduction::FAMILIES,
    shape::FAMILIES,
    source::FAMILIES,
    spatial::FAMILIES,
    training::FAMILIES,
    &[
        contributed::OPS,
        contributed::experts::OPS,
        contributed::group_query::OPS,
        quantized::OPS,
        quantized::BLOCKS,
        quantized::CONTRIB,
        quantized::MIXED,
        quantized::PACKED,
        recurrent::OPS,
        spectral::OPS,
    ],
];

/// The rows in the order of their registration.
static ROWS: LazyLock<Vec<&'static Row>> = LazyLock::new(|| rows().collect());

/// Every row, shelf by shelf.
pub(crate) fn rows() -> impl Iterator<Item = &'static Row> {
    SHELVES.iter().flat_map(|shelf| shelf.iter()).flat_map(|family| family.iter())
}

/// Registers the operators of all rows, so that graphs can be read and inferred.
pub(crate) fn register() {
    op::register(rows().map(|row| &row.op));
}

fn row(node: &Node) -> Option<&'static Row> {
    ROWS.get(op::index(node)?).copied()
}

/// The lowering of a node's operator.
pub(crate) fn lowering(node: &Node) -> Option<LowerNode> {
    row(node)?.lower
}

/// The expansion of a node's operator at a stage.
pub(crate) fn expansion(node: &Node, stage: Stage) -> Option<ExpandNode> {
    let row = row(node)?;
    match stage {
        Stage::Inline => row.inline,
        Stage::Branch => row.inline.filter(|_| !row.unrolls),
        Stage::Expand { .. } => row.expand,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::op::{NEWEST_OPSET, Op};
    use crate::pass::rewrite::{Apply, SIMPLIFICATIONS};

    #[test]
    fn every_operator_with_an_identity_rule_has_a_simplification_that_applies_it() {
        let removing = SIMPLIFICATIONS.iter().filter(|rewriting| matches!(rewriting.apply, Apply::Identity));
        let mut removed: Vec<&str> = removing.flat_map(|rewriting| rewriting.of).copied().collect();
        let ruled = rows().map(|row| &row.op).filter(|op| op.identity.is_some());
        let mut ruled: Vec<&str> = ruled.map(|op| op.name).collect();
        removed.sort_unstable();
        ruled.sort_unstable();
        assert_eq!(removed, ruled);
    }

    #[test]
    fn each_operator_has_one_row_with_versions_in_order() {
        let names: BTreeSet<_> = rows().map(|row| (row.op.domain, row.op.name)).collect();
        assert_eq!(names.len(), ROWS.len(), "two families have a row for the same operator");
        for Op { domain, name, since, .. } in rows().map(|row| &row.op) {
            assert!(since.is_sorted_by(|a, b| a < b), "{name}");
            assert!(!domain.is_empty() || since.iter().all(|since| *since <= NEWEST_OPSET), "{name}");
        }
    }
}
