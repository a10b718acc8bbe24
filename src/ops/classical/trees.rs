//! TreeEnsemble, and the trees that it shares with the operators of older versions.
//!
//! Spec: <https://onnx.ai/onnx/operators/onnx_aionnxml_TreeEnsemble.html>.

use std::collections::BTreeSet;

use num_traits::AsPrimitive;

use super::DOMAIN;
use super::forest::sums;
use super::split::{BOUND, Comparison, Condition, Split, Splits, threshold};
use crate::op::required;
use crate::ops::prelude::*;

pub(super) const LOWERS_TO: &str =
    "comparisons, and products with the paths to all leaves, or samples of the nodes along the paths";

pub(in crate::ops) const OPS: &[Row] =
    &[Row::defined(DOMAIN, "TreeEnsemble", expand_trees).lowers_to(LOWERS_TO).limits(
        "members of sets; aggregations other than sum and mean; a post_transform; a tree with \
            more than 2^20 nodes",
    )];

/// The code of BRANCH_MEMBER.
const MEMBER: usize = Comparison::ALL.len();

/// A node or, if the first is true, a leaf, and its index.
pub(super) type End = (bool, usize);

pub(super) struct Trees {
    pub splits: Vec<Split>,
    is_bounded: bool,
    pub roots: Vec<End>,
    /// The targets of each leaf, and the weights that it adds to them.
    pub leaves: Vec<Vec<(usize, f32)>>,
    pub target_count: i64,
    pub is_mean: bool,
}

pub(super) fn to_indices(list: Vec<i64>) -> Result<Vec<usize>> {
    Ok(list.into_iter().map(usize::try_from).collect::<std::result::Result<_, _>>()?)
}

pub(super) fn numbers(call: &Call, name: &str) -> Result<Option<Vec<f64>>> {
    let tensor = call.optional_tensor(name)?;
    tensor.map(|tensor| Ok(tensor.load()?.to_f64()?.iter().copied().collect())).transpose()
}

fn read_conditions(call: &Call) -> Result<Vec<Condition>> {
    let modes = call.tensor("nodes_modes")?.load()?.int_list()?;
    let modes = to_indices(modes)?;
    let splits = required(numbers(call, "nodes_splits")?, "nodes_splits")?;
    let features = call.ints("nodes_featureids")?;
    let missing = call.optional_ints("nodes_missing_value_tracks_true")?.unwrap_or_default();
    let [true_leafs, false_leafs] = [call.ints("nodes_trueleafs")?, call.ints("nodes_falseleafs")?];
    let [true_ids, false_ids] =
        [to_indices(call.ints("nodes_truenodeids")?)?, to_indices(call.ints("nodes_falsenodeids")?)?];
    let (dtype, mut conditions) = (call.dtype(0)?, Vec::new());
    for (index, mode) in modes.into_iter().enumerate() {
        if mode == MEMBER {
            unsupported!(
                "nodes that test whether a set has the element: onnxruntime truncates fractions there"
            );
        }
        let Some(comparison) = Comparison::ALL.get(mode).copied() else {
            invalid!("unknown mode {mode} of node {index}");
        };
        conditions.push(Condition {
            feature: *features.at(index)?,
            comparison,
            number: threshold(dtype, *splits.at(index)?),
            tracks_missing: missing.get(index).is_some_and(|tracks| *tracks != 0),
            branches: [
                (*true_leafs.at(index)? != 0, *true_ids.at(index)?),
                (*false_leafs.at(index)? != 0, *false_ids.at(index)?),
            ],
        });
    }
    Ok(conditions)
}

fn read_trees(call: &Call) -> Result<Trees> {
    let is_mean = match call.int("aggregate_function")? {
        0 => true,
        1 => false,
        other => unsupported!("aggregate_function {other} (only sum and mean are supported)"),
    };
    match call.int("post_transform")? {
        0 => {}
        other => unsupported!("post_transform {other}"),
    }
    let conditions = read_conditions(call)?;
    let weights = required(numbers(call, "leaf_weights")?, "leaf_weights")?;
    let targets = to_indices(call.ints("leaf_targetids")?)?;
    let most = targets.iter().max().map_or(0, |target| target.saturating_add(1));
    let target_count = call.optional_int("n_targets")?.unwrap_or(most.int());
    if targets.len() != weights.len() || most.int() > target_count {
        invalid!("{} leaves with {} weights for {target_count} targets", targets.len(), weights.len());
    }
    let roots = to_indices(call.ints("tree_roots")?)?.into_iter().map(|root| (false, root)).collect();
    let leaves =
        targets.into_iter().zip(weights).map(|(target, weight)| vec![(target, weight.as_())]).collect();
    Trees::new(conditions, roots, leaves, target_count, is_mean)
}

impl Trees {
    pub fn new(
        conditions: Vec<Condition>,
        roots: Vec<End>,
        leaves: Vec<Vec<(usize, f32)>>,
        target_count: i64,
        is_mean: bool,
    ) -> Result<Trees> {
        let Splits { list: splits, is_bounded } = Splits::of(conditions)?;
        let is_there = |(is_leaf, index): &End| *index < if *is_leaf { leaves.len() } else { splits.len() };
        if !roots.iter().chain(splits.iter().flat_map(|split| &split.branches)).all(is_there) {
            invalid!("a node has a successor that is missing");
        }
        if leaves.iter().flatten().any(|(_, weight)| !weight.is_finite()) {
            unsupported!("a leaf weight is not finite");
        }
        if splits.is_empty() {
            unsupported!("the trees have no conditions");
        }
        Ok(Trees { splits, is_bounded, roots, leaves, target_count, is_mean })
    }

    /// Checks that the rows have the features.
    pub fn check(&self, features: &Dim) -> Result<()> {
        let all = 0..features.known().unwrap_or(limits::EXPANDED_AXIS);
        match self.splits.iter().find(|split| !all.contains(&split.feature)) {
            Some(split) => invalid!("feature {} is out of range for {features} features", split.feature),
            None => Ok(()),
        }
    }

    /// Returns the number of features that are read, and whether a missing one has both results.
    fn features(&self) -> (i64, bool) {
        let most = self.splits.iter().map(|split| split.feature).max().unwrap_or(0);
        let results: BTreeSet<bool> = self.splits.iter().map(|split| split.missing).collect();
        (most + 1, results.len() > 1)
    }

    /// Returns the number of columns of [`Trees::data`].
    pub fn width(&self) -> i64 {
        let (count, has_copies) = self.features();
        if has_copies { 2 * count } else { count }
    }

    /// Returns the features of which [`Trees::tests`] gives the numbers. A missing one is NaN, which the
    /// comparisons of ncnn do not support: it is replaced by the infinity that gives the result, and by both
    /// in two copies if the result differs.
    pub fn data<'x>(&self, x: &'x Expand) -> Result<Expr<'x>> {
        let (count, has_copies) = self.features();
        let all = x.operand_as(0, DType::F32);
        let data =
            if x.shape(0)?.get(1).is_some_and(|size| size.is(count)) { all } else { all.slice(1, 0, count) };
        let missing = data.is_nan();
        let data = if self.is_bounded { data.clip(-BOUND, BOUND) } else { data };
        let fails = missing.select(f32::INFINITY, data);
        let passes = missing.select(f32::NEG_INFINITY, data);
        Ok(match (has_copies, self.splits.iter().any(|split| split.missing)) {
            (true, _) => x.make.concat(&[fails, passes], 1),
            (_, true) => passes,
            _ => fails,
        })
    }

    /// Returns the features and numbers of some splits.
    pub fn tests(&self, indices: &[usize]) -> Result<(Vec<i64>, Vec<f32>)> {
        let (count, has_copies) = self.features();
        let (mut features, mut numbers) =
            (Vec::with_capacity(indices.len()), Vec::with_capacity(indices.len()));
        for index in indices {
            let split = self.splits.at(*index)?;
            features.push(split.feature + if has_copies && split.missing { count } else { 0 });
            numbers.push(split.number);
        }
        Ok((features, numbers))
    }
}

fn expand_trees<'x>(x: &'x Expand) -> Result<Expr<'x>> {
    Ok(sums(x, &read_trees(x)?)?.to_type(x.dtype(0)?))
}
