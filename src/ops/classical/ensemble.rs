//! TreeEnsembleClassifier and TreeEnsembleRegressor: the trees of TreeEnsemble in the form of older versions,
//! with numbers added to the sums, and the classes of the largest.
//!
//! The specification does not define the class of equal scores: it is the class of onnxruntime
//! (`tree_ensemble_aggregator.h`).
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsembleClassifier.html>,
//! `onnx_aionnxml_TreeEnsembleRegressor.html`.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::AsPrimitive;

use super::DOMAIN;
use super::classes::{Labels, exceeds, first_largest, refuse_transform, transformed, transformed_pair};
use super::forest::sums;
use super::split::{Comparison, Condition, threshold};
use super::trees::{End, LOWERS_TO, Trees, numbers, to_indices};
use crate::ops::prelude::*;

pub(in crate::ops) const OPS: &[Row] = &[
    Row::expanded(DOMAIN, "TreeEnsembleClassifier", expand_classifier)
        .lowers_to(LOWERS_TO)
        .limits(
            "classes that are text, unless nothing reads the class; one class; a class that some leaves of each \
            tree lack; the transforms SOFTMAX_ZERO and PROBIT, and SOFTMAX of one sum for two classes; a tree with \
            more than 2^20 nodes",
        ),
    Row::defined(DOMAIN, "TreeEnsembleRegressor", expand_regressor)
        .lowers_to(LOWERS_TO)
        .limits(
            "aggregations other than sum and mean; base values of several targets of which some leaves of each tree \
            lack one; a transform of one target, SOFTMAX_ZERO and PROBIT; a tree with more than 2^20 nodes",
        ),
];

/// The modes of nodes, in the order of [`Comparison::ALL`].
const MODES: [&str; Comparison::ALL.len()] =
    ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"];

/// The names of the attributes of the leaves.
struct Leaves {
    trees: &'static str,
    nodes: &'static str,
    targets: &'static str,
    weights: [&'static str; 2],
}

const CLASSES: Leaves = Leaves {
    trees: "class_treeids",
    nodes: "class_nodeids",
    targets: "class_ids",
    weights: ["class_weights", "class_weights_as_tensor"],
};

const TARGETS: Leaves = Leaves {
    trees: "target_treeids",
    nodes: "target_nodeids",
    targets: "target_ids",
    weights: ["target_weights", "target_weights_as_tensor"],
};

/// Returns a list of numbers, which since version 3 may be a tensor.
fn number_list(call: &Call, [list, tensor]: [&'static str; 2]) -> Result<Vec<f64>> {
    if call.since() >= 3
        && let Some(found) = numbers(call, tensor)?
    {
        return Ok(found);
    }
    Ok(call.optional_floats(list)?.unwrap_or_default().into_iter().map(f64::from).collect())
}

/// Returns a list of numbers, rounded to float32.
fn float_list(call: &Call, names: [&'static str; 2]) -> Result<Vec<f32>> {
    Ok(number_list(call, names)?.into_iter().map(AsPrimitive::as_).collect())
}

/// The nodes of all trees. Conditions and leaves are numbered separately.
#[derive(Default)]
struct Numbers {
    /// By tree and node.
    ends: BTreeMap<(i64, i64), End>,
    /// The first node of each tree.
    roots: Vec<End>,
    leaf_count: usize,
}

fn number_nodes(trees: &[i64], nodes: &[i64], modes: &[&str]) -> Result<Numbers> {
    if trees.len() != modes.len() || nodes.len() != modes.len() {
        invalid!("{} trees, {} numbers and {} modes of nodes", trees.len(), nodes.len(), modes.len());
    }
    let (mut numbers, mut condition_count, mut seen) = (Numbers::default(), 0_usize, BTreeSet::new());
    for ((tree, node), mode) in trees.iter().zip(nodes).zip(modes) {
        let is_leaf = *mode == "LEAF";
        let count = if is_leaf { &mut numbers.leaf_count } else { &mut condition_count };
        let end = (is_leaf, *count);
        *count += 1;
        if numbers.ends.insert((*tree, *node), end).is_some() {
            invalid!("tree {tree} has two nodes {node}");
        }
        if seen.insert(*tree) {
            numbers.roots.push(end);
        }
    }
    Ok(numbers)
}

fn read_trees(call: &Call, names: &Leaves, target_count: i64, is_mean: bool) -> Result<Trees> {
    let ints = |name| call.ints(name);
    let trees = ints("nodes_treeids")?;
    let modes = call.optional_strings("nodes_modes")?.unwrap_or_default();
    let Numbers { ends, roots, leaf_count } = number_nodes(&trees, &ints("nodes_nodeids")?, &modes)?;
    let leaves = read_leaves(call, names, &ends, leaf_count, target_count)?;
    let splits = number_list(call, ["nodes_values", "nodes_values_as_tensor"])?;
    let features = ints("nodes_featureids")?;
    let missing = call.optional_ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let successors = [ints("nodes_truenodeids")?, ints("nodes_falsenodeids")?];
    let (dtype, mut conditions) = (call.dtype(0)?, Vec::new());
    for (index, mode) in modes.iter().enumerate().filter(|(_, mode)| **mode != "LEAF") {
        let known = MODES.iter().zip(Comparison::ALL).find(|(known, _)| *known == mode);
        let Some((_, comparison)) = known else {
            invalid!("unknown mode \"{mode}\" of node {index}");
        };
        let tree = *trees.at(index)?;
        let end = |list: &[i64]| {
            let node = *list.at(index)?;
            let missing = || Error::invalid(format!("tree {tree} has no node {node}"));
            ends.get(&(tree, node)).copied().ok_or_else(missing)
        };
        let [passes, fails] = &successors;
        conditions.push(Condition {
            feature: *features.at(index)?,
            comparison,
            number: threshold(dtype, *splits.at(index)?),
            tracks_missing: missing.get(index).is_some_and(|tracks| *tracks != 0),
            branches: [end(passes)?, end(fails)?],
        });
    }
    Trees::new(conditions, roots, leaves, target_count, is_mean)
}

/// Returns the weights of each leaf, with their targets.
fn read_leaves(
    call: &Call,
    names: &Leaves,
    ends: &BTreeMap<(i64, i64), End>,
    leaf_count: usize,
    target_count: i64,
) -> Result<Vec<Vec<(usize, f32)>>> {
    let mut leaves = vec![Vec::new(); leaf_count];
    let weights = float_list(call, names.weights)?;
    let targets = to_indices(call.ints(names.targets)?)?;
    let owners = call.ints(names.trees)?.into_iter().zip(call.ints(names.nodes)?);
    if targets.len() != weights.len() || owners.len() != weights.len() {
        invalid!("{} weights of {} targets of {} leaves", weights.len(), targets.len(), owners.len());
    }
    for ((owner, target), weight) in owners.zip(targets).zip(weights) {
        let leaf = ends.get(&owner).filter(|(is_leaf, _)| *is_leaf);
        let Some(leaf) = leaf.and_then(|(_, leaf)| leaves.get_mut(*leaf)) else {
            invalid!("node {} of tree {} is not a leaf", owner.1, owner.0);
        };
        if target.int() >= target_count {
            invalid!("target {target} of {target_count}");
        }
        leaf.push((target, weight));
    }
    Ok(leaves)
}

const BASE: [&str; 2] = ["base_values", "base_values_as_tensor"];

fn has_base(call: &Call) -> Result<bool> {
    Ok(!number_list(call, BASE)?.is_empty())
}

/// Returns the sums plus the base values.
fn with_base<'x>(x: &'x Expand, trees: &Trees) -> Result<Expr<'x>> {
    let base = float_list(x, BASE)?;
    let sums = sums(x, trees)?;
    match base.len() {
        0 => Ok(sums),
        count if count.int() == trees.target_count => Ok(sums + x.make.floats(&base)),
        count => unsupported!("{count} base values for {} targets", trees.target_count),
    }
}

fn read_regressor(call: &Call) -> Result<Trees> {
    let is_mean = match call.string("aggregate_function")? {
        "SUM" => false,
        "AVERAGE" => true,
        other => unsupported!("aggregate_function \"{other}\" (only sum and mean are supported)"),
    };
    read_trees(call, &TARGETS, call.int("n_targets")?, is_mean)
}

fn expand_regressor<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    let trees = read_regressor(x)?;
    if trees.target_count == 1 {
        refuse_transform(x)?;
    } else if has_base(x)? && always_reached(x, &trees)?.len().int() < trees.target_count {
        // The specification adds them to each sum, onnxruntime to the sums of the leaves that are reached.
        unsupported!("base values of a target that some leaves of each tree lack");
    }
    transformed(x, with_base(x, &trees)?)
}

fn expand_classifier(x: &Expand) -> Result<bool> {
    let labels = Labels::read(x, "classlabels_int64s")?;
    let mut trees = read_trees(x, &CLASSES, labels.count, false)?;
    let used: BTreeSet<usize> = trees.leaves.iter().flatten().map(|(target, _)| *target).collect();
    let count = trees.target_count;
    if count < 2 {
        unsupported!("{count} classes");
    }
    // The sum of one target decides between two classes.
    let is_single = count == 2 && used.len() == 1;
    if is_single && !used.contains(&0) {
        unsupported!("two classes of which the first has no weight");
    }
    let has_base = has_base(x)?;
    if !is_single && count == 2 && has_base {
        unsupported!("base values of two sums for two classes");
    }
    if !is_single && !has_base && always_reached(x, &trees)?.len().int() < count {
        unsupported!("a class that some leaves of each tree lack");
    }
    let is_positive = trees.leaves.iter().flatten().all(|(_, weight)| *weight >= 0.0);
    let (scores, class) = if is_single {
        trees.target_count = 1;
        let sum = with_base(x, &trees)?;
        let first = if is_positive { 1.0 - sum } else { -sum };
        (transformed_pair(x, || first, sum)?, exceeds(x, sum, if is_positive { 0.5 } else { 0.0 }))
    } else {
        let sums = with_base(x, &trees)?;
        let class = (count > 2).then(|| first_largest(sums));
        (transformed(x, sums)?, class.unwrap_or_else(|| exceeds(x, sums.slice(1, 1, 2), 0.0)))
    };
    x.output(1, scores);
    // onnxruntime gives the numbers of two classes with a sum each, not their labels.
    if count == 2 && !is_single {
        labels.give_number(x, class);
    } else {
        labels.give(x, class);
    }
    Ok(true)
}

/// Returns the targets of which each row has a score: the targets that all leaves of a tree have.
fn always_reached(call: &Call, trees: &Trees) -> Result<BTreeSet<usize>> {
    let modes = call.optional_strings("nodes_modes")?.unwrap_or_default();
    let owners = call.ints("nodes_treeids")?.into_iter().zip(modes);
    let owners = owners.filter(|(_, mode)| *mode == "LEAF").map(|(tree, _)| tree);
    let mut of_trees: BTreeMap<i64, BTreeSet<usize>> = BTreeMap::new();
    for (tree, leaf) in owners.zip(&trees.leaves) {
        let targets: BTreeSet<usize> = leaf.iter().map(|(target, _)| *target).collect();
        let common = of_trees.entry(tree).or_insert_with(|| targets.clone());
        common.retain(|target| targets.contains(target));
    }
    Ok(of_trees.into_values().flatten().collect())
}
