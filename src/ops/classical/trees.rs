//! Ensembles of trees: the conditions of all trees at once, and their effect on each leaf as a matrix product.
//!
//! A leaf is reached if all conditions on its path have the required value: the number of true conditions
//! that must be true, minus that of true conditions that must be false, has its maximum.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html>.

use std::collections::BTreeSet;

use num_traits::AsPrimitive;

use super::matrix::matrix;
use crate::op::required;
use crate::ops::prelude::*;

pub(super) const LOWERS_TO: &str = "Gather, comparisons, and MatMul with the paths to all leaves";

pub(in crate::ops) const OPS: &[Row] = &[Row::of("ai.onnx.ml", "TreeEnsemble", Access::Any, infer_trees)
    .formula(expand_trees)
    .lowers_to(LOWERS_TO)
    .limits(
        "members of sets; aggregations other than sum and mean; a post_transform; trees \
            with more than 2^24 pairs of nodes and leaves",
    )];

/// The comparison of each mode: the name of ONNX's operator, and whether the result is negated.
pub(super) const COMPARISONS: [(&str, bool); 6] = [
    ("LessOrEqual", false),
    ("Less", false),
    ("GreaterOrEqual", false),
    ("Greater", false),
    ("Equal", false),
    ("Equal", true),
];

/// The code of BRANCH_MEMBER.
const MEMBER: usize = 6;

/// A column of booleans, the results of a comparison. The sum of the columns of a node is its condition.
struct Column {
    /// An index into [`COMPARISONS`]; beyond the last, the test for a missing feature.
    comparison: usize,
    feature: i64,
    number: f32,
}

struct Node {
    columns: Vec<usize>,
    /// The successors if the condition is true and false.
    branches: [End; 2],
}

/// A leaf and the nodes on its path, each with the required value of its condition.
struct Path {
    leaf: usize,
    nodes: Vec<(usize, bool)>,
}

/// A leaf or a node, and the nodes on its path.
struct Way {
    end: End,
    nodes: Vec<(usize, bool)>,
}

/// A node or, if the first is true, a leaf, and its index.
pub(super) type End = (bool, usize);

pub(super) struct Trees {
    columns: Vec<Column>,
    nodes: Vec<Node>,
    pub roots: Vec<End>,
    /// The targets of each leaf, and what it adds to them.
    pub leaves: Vec<Vec<(usize, f32)>>,
    pub target_count: i64,
    pub is_mean: bool,
}

/// A condition, as the model states it.
pub(super) struct Condition {
    pub feature: i64,
    /// An index into [`COMPARISONS`].
    pub comparison: usize,
    pub number: f32,
    /// Whether it is true for a missing feature.
    pub tracks_missing: bool,
    /// The successors if it is true and false.
    pub branches: [End; 2],
}

pub(super) fn places(list: Vec<i64>) -> Result<Vec<usize>> {
    Ok(list.into_iter().map(usize::try_from).collect::<std::result::Result<_, _>>()?)
}

fn int_list(attributes: &Attributes, name: &'static str) -> Result<Vec<i64>> {
    attributes.ints(name)
}

pub(super) fn numbers(attributes: &Attributes, name: &str) -> Result<Option<Vec<f32>>> {
    let tensor = attributes.given_tensor(name)?;
    tensor.map(|tensor| Ok(tensor.load()?.to_f64()?.iter().map(|number| number.as_()).collect())).transpose()
}

fn read_conditions(attributes: &Attributes) -> Result<Vec<Condition>> {
    let modes = attributes.tensor("nodes_modes")?.load()?.int_list()?;
    let modes = places(modes)?;
    let splits = required(numbers(attributes, "nodes_splits")?, "nodes_splits")?;
    let features = int_list(attributes, "nodes_featureids")?;
    let missing = attributes.given_ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let [true_leafs, false_leafs] =
        [int_list(attributes, "nodes_trueleafs")?, int_list(attributes, "nodes_falseleafs")?];
    let [true_ids, false_ids] = [
        places(int_list(attributes, "nodes_truenodeids")?)?,
        places(int_list(attributes, "nodes_falsenodeids")?)?,
    ];
    let mut conditions = Vec::new();
    for (place, mode) in modes.into_iter().enumerate() {
        if mode == MEMBER {
            unsupported!("members of a set: onnxruntime truncates some fractions");
        }
        if mode > MEMBER {
            invalid!("unknown mode {mode} of node {place}");
        }
        conditions.push(Condition {
            feature: *features.at(place)?,
            comparison: mode,
            number: *splits.at(place)?,
            tracks_missing: missing.get(place).is_some_and(|tracks| *tracks != 0),
            branches: [
                (*true_leafs.at(place)? != 0, *true_ids.at(place)?),
                (*false_leafs.at(place)? != 0, *false_ids.at(place)?),
            ],
        });
    }
    Ok(conditions)
}

fn read_trees(attributes: &Attributes) -> Result<Trees> {
    let is_mean = match attributes.int("aggregate_function")? {
        0 => true,
        1 => false,
        other => unsupported!("aggregate_function {other} (only sum and mean are supported)"),
    };
    match attributes.int("post_transform")? {
        0 => {}
        other => unsupported!("post_transform {other}"),
    }
    let conditions = read_conditions(attributes)?;
    let weights = required(numbers(attributes, "leaf_weights")?, "leaf_weights")?;
    let targets = places(int_list(attributes, "leaf_targetids")?)?;
    let most = targets.iter().max().map_or(0, |target| target.saturating_add(1));
    let target_count = attributes.given_int("n_targets")?.unwrap_or(i64::try_from(most)?);
    if targets.len() != weights.len() || i64::try_from(most)? > target_count {
        invalid!("{} leaves with {} weights for {target_count} targets", targets.len(), weights.len());
    }
    let roots = places(int_list(attributes, "tree_roots")?)?.into_iter().map(|root| (false, root)).collect();
    let leaves = targets.into_iter().zip(weights).map(|leaf| vec![leaf]).collect();
    Trees::new(conditions, roots, leaves, target_count, is_mean)
}

fn infer_trees(call: &Call) -> Result<Vec<Fact>> {
    Ok(vec![Fact::new(call.dtype(0)?, read_trees(call)?.shape(call)?)])
}

impl Trees {
    pub fn new(
        conditions: Vec<Condition>,
        roots: Vec<End>,
        leaves: Vec<Vec<(usize, f32)>>,
        target_count: i64,
        is_mean: bool,
    ) -> Result<Trees> {
        let (mut columns, mut nodes) = (Vec::new(), Vec::new());
        for Condition { feature, comparison, number, tracks_missing, branches } in conditions {
            let start = columns.len();
            columns.push(Column { comparison, feature, number });
            // A missing feature is NaN: only "not equal" is true for it.
            if tracks_missing || COMPARISONS.get(comparison).is_some_and(|(_, reversed)| *reversed) {
                columns.push(Column { comparison: COMPARISONS.len(), feature, number: 0.0 });
            }
            nodes.push(Node { columns: (start..columns.len()).collect(), branches });
        }
        if columns.iter().any(|column| !column.number.is_finite()) {
            unsupported!("a threshold is not finite");
        }
        if leaves.iter().flatten().any(|(_, weight)| !weight.is_finite()) {
            unsupported!("a leaf weight is not finite");
        }
        Ok(Trees { columns, nodes, roots, leaves, target_count, is_mean })
    }

    /// Returns the shape of the sums, and checks the features.
    pub fn shape(&self, call: &Call) -> Result<Vec<Dim>> {
        let [rows, features] = call.shape(0)? else { invalid!("the features are not a matrix") };
        let outside = |column: &&Column| {
            !(0..features.known().unwrap_or(limits::EXPANDED_AXIS)).contains(&column.feature)
        };
        if let Some(column) = self.columns.iter().find(outside) {
            invalid!("feature {} is out of range for {features} features", column.feature);
        }
        Ok(vec![rows.clone(), Dim::Known(self.target_count)])
    }

    fn paths(&self) -> Result<Vec<Path>> {
        let mut visited = BTreeSet::new();
        let mut paths = Vec::new();
        let mut steps = 0_usize;
        let mut left: Vec<Way> =
            self.roots.iter().map(|root| Way { end: *root, nodes: Vec::new() }).collect();
        while let Some(Way { end: (is_leaf, place), nodes }) = left.pop() {
            if is_leaf {
                self.leaves.at(place)?;
                paths.push(Path { leaf: place, nodes });
                continue;
            }
            if !visited.insert(place) {
                invalid!("two paths to node {place}");
            }
            let [holds, fails] = self.nodes.at(place)?.branches;
            if holds.0 && holds == fails {
                // A tree that is one leaf.
                paths.push(Path { leaf: holds.1, nodes });
                self.leaves.at(holds.1)?;
                continue;
            }
            steps = steps.saturating_add(2 * (nodes.len() + 1));
            if steps > limits::MATRIX_ELEMENTS {
                return Err(Error::limit("the trees have too many nodes"));
            }
            for (branch, way) in [(fails, false), (holds, true)] {
                let mut nodes = nodes.clone();
                nodes.push((place, way));
                left.push(Way { end: branch, nodes });
            }
        }
        Ok(paths)
    }
}

/// Returns all columns in the order of their comparisons, and the position of each.
fn compared<'x>(x: &'x Expand, trees: &Trees) -> Result<(Expr<'x>, Vec<usize>)> {
    let data = x.operand_as(0, DType::F32);
    // Missing features are compared as zero, and the result is dropped: ncnn's comparisons do not support
    // NaN.
    let missing = data.is_nan();
    let data = missing.select(0.0, data);
    let missing = missing.cast(DType::F32);
    let present = 1.0 - missing;
    let (mut parts, mut order) = (Vec::new(), Vec::new());
    for comparison in 0..=COMPARISONS.len() {
        let own = trees.columns.iter().enumerate().filter(|(_, column)| column.comparison == comparison);
        let (mut features, mut splits) = (Vec::new(), Vec::new());
        for (place, column) in own {
            order.push(place);
            features.push(column.feature);
            splits.push(column.number);
        }
        if features.is_empty() {
            continue;
        }
        let features = x.make.ints(&features);
        parts.push(match COMPARISONS.get(comparison) {
            Some((op_type, reversed)) => {
                let truth = data.gather(features, 1).with(op_type, x.make.floats(&splits));
                let truth = if *reversed { !truth } else { truth };
                truth.cast(DType::F32) * present.gather(features, 1)
            }
            None => missing.gather(features, 1),
        });
    }
    if parts.is_empty() {
        unsupported!("the trees have no conditions");
    }
    let mut places = vec![0; order.len()];
    for (place, column) in order.into_iter().enumerate() {
        places.put(column, place);
    }
    Ok((x.make.concat(&parts, 1), places))
}

fn expand_trees<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    Ok(sums(x, &read_trees(x)?)?.to_type(x.dtype(0)?))
}

/// Returns the sums of the weights of the leaves that the trees reach, or their means, in float32.
pub(super) fn sums<'x>(x: &'x Expand, trees: &Trees) -> Result<Expr<'x>> {
    let paths = trees.paths()?;
    let (columns, places) = compared(x, trees)?;
    let (mut ways, mut needed, mut leaves) = (Vec::new(), Vec::new(), Vec::new());
    for (number, path) in paths.iter().enumerate() {
        let mut hold = 0.0;
        for (node, holds) in &path.nodes {
            hold += if *holds { 1.0 } else { 0.0 };
            for column in &trees.nodes.at(*node)?.columns {
                ways.push((*places.at(*column)?, number, if *holds { 1.0 } else { -1.0 }));
            }
        }
        needed.push(hold);
        let leaf = trees.leaves.at(path.leaf)?;
        leaves.extend(leaf.iter().map(|(target, weight)| (number, *target, *weight)));
    }
    let ways = matrix(&x.make, places.len(), paths.len(), &ways)?;
    let reached = columns.matmul(ways).equal(x.make.floats(&needed)).cast(DType::F32);
    let leaves = matrix(&x.make, paths.len(), usize::try_from(trees.target_count)?, &leaves)?;
    let sums = reached.matmul(leaves);
    let count: f32 = trees.roots.len().as_();
    Ok(if trees.is_mean { sums / count } else { sums })
}
