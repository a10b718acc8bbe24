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
mod prelude;
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
use crate::pass::expand::{Expansion, Stage};

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
    contributed::FAMILIES,
    quantized::FAMILIES,
    &[recurrent::OPS, spectral::OPS],
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
pub(crate) fn expansion(node: &Node, stage: Stage) -> Option<Expansion> {
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
    use std::path::{Path, PathBuf};

    use super::*;
    use crate::op::{FLAGS, NEWEST_OPSET, SCHEMAS, Schema};
    use crate::pass::passes::SIMPLIFICATIONS;
    use crate::pass::rewrite::Apply;

    #[test]
    fn every_operator_with_an_identity_rule_has_a_simplification_that_applies_it() {
        let removing = SIMPLIFICATIONS.iter().filter(|rewriting| matches!(rewriting.apply, Apply::Identity));
        let mut removed: Vec<&str> = removing.flat_map(|rewriting| rewriting.of).copied().collect();
        let ruled =
            rows().map(|row| &row.op).filter(|op| op.identity.is_some() && op.schema.domain.is_empty());
        let mut ruled: Vec<&str> = ruled.map(|op| op.schema.name).collect();
        removed.sort_unstable();
        ruled.sort_unstable();
        assert_eq!(removed, ruled);
    }

    /// Operators that others define, but whose types and shapes a rule infers, and why.
    const RULED: &[(&str, &str)] = &[
        (
            "DequantizeLinear",
            "it is evaluated for the weights of a model, and is one of its most frequent operators",
        ),
        ("If", "both branches have types and shapes; the expansion chooses between elements"),
        ("QuantizeLinear", "the zero point gives its type; the expansion computes integers as floats"),
        ("TopK", "the expansion of a long axis has as many nodes as the result has elements"),
    ];

    #[test]
    fn what_an_expansion_says_is_not_repeated_by_a_shape_rule() {
        let is_expanded = |row: &&&Row| row.expand.is_some() && row.lower.is_none();
        let ruled = ROWS.iter().filter(is_expanded).map(|row| &row.op).filter(|op| !op.defined);
        let ruled: BTreeSet<&str> = ruled.map(|op| op.schema.name).collect();
        assert_eq!(ruled, RULED.iter().map(|(name, _)| *name).collect());
    }

    /// Attributes that decide nothing in a net, and why.
    const IGNORED: &[(&str, &str)] = &[
        ("accuracy_level", "it permits rounding, and does not require it"),
        ("activation_gamma", "none of the activations has a third parameter"),
        ("cats_strings", "categories of text are refused"),
        ("chunk_size", "it affects only speed"),
        ("classes_strings", "labels of text are refused"),
        ("consumed_inputs", "a hint that inputs may be overwritten"),
        ("default_string", "values of text are refused"),
        ("fc3_expert_weight_bits", "third matrices of experts are refused"),
        ("im2col_step", "it affects only speed"),
        ("is_inner_broadcast", "the shape of the bias says it, too"),
        ("is_test", "of Dropout: exporters omit it even for inference"),
        ("keys_strings", "keys of text are refused"),
        ("kv_cache_bit_width", "quantized caches are refused"),
        ("mask_index_type", "a hint for shapes"),
        ("membership_values", "sets are refused"),
        ("multi_class", "post_transform says how scores become probabilities"),
        ("multiply_adds", "the work of all experts, for readers of the graph"),
        ("nodes_hitrates", "statistics of training"),
        ("nodes_hitrates_as_tensor", "statistics of training"),
        ("output_sequence", "the outputs of the node say whether all states are computed"),
        ("output_qk", "scores as an output are refused"),
        ("pool_strings", "n-grams of strings are refused"),
        ("prob_b", "probabilities of support vectors are refused by prob_a"),
        ("precision", "of the rounding of a quotient, which is done in float32"),
        ("qk_norm_epsilon", "norms of queries and keys are refused"),
        ("ratio", "of Dropout, for training"),
        ("seed", "results of random numbers are refused, or inputs of the net"),
        ("softmax_precision", "the softmax is computed in float32"),
        ("sorted", "the largest elements are always sorted"),
        ("stash_type", "means are computed in float32, ranges in float64"),
        ("storage_order", "it affects only the indices of MaxPool"),
        ("type", "of an empty optional value, which no layer reads"),
        ("values_strings", "values of text are refused"),
        ("weight_prepacked", "it concerns memory"),
    ];

    /// The texts of the files in a folder.
    fn sources(folder: &Path) -> String {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let text = |path: PathBuf| match path.is_dir() {
            true => sources(&path),
            false => std::fs::read_to_string(path).unwrap(),
        };
        entries.map(text).collect()
    }

    /// An attribute that is declared, but not read, would be lost without an error.
    #[test]
    fn each_attribute_is_read_or_ignored() {
        let folder = std::fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops")).unwrap();
        let shelves = folder.map(|entry| entry.unwrap().path()).filter(|path| path.is_dir());
        let source: String = shelves.map(|shelf| sources(&shelf)).collect();
        let converted = rows().map(|row| &row.op).filter(|op| !op.lowers_to.is_empty());
        let declared: BTreeSet<&str> = converted.flat_map(|op| op.schema.attribute_names()).collect();
        let is_read = |name: &str| source.contains(&format!("\"{name}\""));
        let is_ignored = |name: &str| IGNORED.iter().any(|(ignored, _)| *ignored == name);
        let lost: Vec<&str> =
            declared.into_iter().filter(|name| !is_read(name) && !is_ignored(name)).collect();
        assert!(lost.is_empty(), "{lost:#?}");
    }

    /// A flag that is not listed would be read as a number by whatever does not ask for a flag.
    #[test]
    fn each_flag_is_listed() {
        let source = sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ops"));
        let read = source.split("flag(\"").skip(1).filter_map(|rest| rest.split('"').next());
        let unlisted: BTreeSet<&str> = read.filter(|name| !FLAGS.contains(name)).collect();
        assert!(unlisted.is_empty(), "{unlisted:?}");
        let declared: BTreeSet<&str> = SCHEMAS.iter().flat_map(Schema::attribute_names).collect();
        assert!(FLAGS.iter().all(|name| declared.contains(name)));
        assert!(FLAGS.is_sorted());
    }

    #[test]
    fn each_schema_has_one_row_with_versions_in_order() {
        let names: BTreeSet<_> = rows().map(|row| (row.op.schema.domain, row.op.schema.name)).collect();
        assert_eq!(names.len(), ROWS.len(), "two families have a row for the same operator");
        let declared: BTreeSet<_> = SCHEMAS.iter().map(|schema| (schema.domain, schema.name)).collect();
        assert_eq!(names, declared);
        for Schema { domain, name, since, .. } in rows().map(|row| row.op.schema) {
            assert!(since.is_sorted_by(|a, b| a < b), "{name}");
            assert!(!domain.is_empty() || since.iter().all(|since| *since <= NEWEST_OPSET), "{name}");
        }
    }
}
