//! The sums of an ensemble of trees as nodes of ONNX, in the form that takes less time.
//!
//! Each test is `feature <= number`; see [`super::split`]. In the form of paths, all tests of a tree are made
//! at once. A leaf is reached if all tests on its path have the required result: the number of required tests
//! that pass, minus the number of other tests that pass, has its maximum. In the form of steps, an index
//! in each tree moves from its root to a leaf, a level of all trees at a time.

use std::collections::{BTreeMap, BTreeSet};

use num_traits::AsPrimitive;

use super::matrix::matrix;
use super::trees::{End, Trees};
use crate::lower::Gathered;
use crate::ncnn::{Cost, USUAL_SIZE};
use crate::ops::prelude::*;

/// The tests on the way to a leaf, each with its required result.
struct Path {
    leaf: usize,
    tests: Vec<(usize, bool)>,
}

/// The paths of the trees, each tree with as many tests and leaves as the largest.
struct Paths {
    /// The splits of each tree.
    tests: Vec<Vec<usize>>,
    leaves: Vec<Vec<Path>>,
}

/// The most tests of a tree, and its most leaves.
type Sizes = [usize; 2];

impl Paths {
    /// Returns the paths, unless they are too many.
    fn of(trees: &Trees) -> Result<Option<Paths>> {
        let (mut tests, mut leaves) = (Vec::new(), Vec::new());
        let mut steps = 0_usize;
        for root in &trees.roots {
            let (mut numbers, mut paths) = (BTreeMap::new(), Vec::new());
            let mut left = vec![(*root, Vec::new())];
            while let Some(((is_leaf, index), way)) = left.pop() {
                if is_leaf {
                    paths.push(Path { leaf: index, tests: way });
                    continue;
                }
                let count = numbers.len();
                let test = *numbers.entry(index).or_insert(count);
                steps = steps.saturating_add(2 * (way.len() + 1));
                if steps > limits::MATRIX_ELEMENTS {
                    return Ok(None);
                }
                let [passes, fails] = trees.splits.at(index)?.branches;
                for (branch, result) in [(fails, false), (passes, true)] {
                    let way = way.iter().copied().chain([(test, result)]).collect();
                    left.push((branch, way));
                }
            }
            let mut splits = vec![0; numbers.len()];
            for (split, test) in numbers {
                splits.put(test, split);
            }
            tests.push(splits);
            leaves.push(paths);
        }
        Ok(Some(Paths { tests, leaves }))
    }

    fn sizes(&self) -> Sizes {
        let tests = self.tests.iter().map(Vec::len).max().unwrap_or(0).max(1);
        [tests, self.leaves.iter().map(Vec::len).max().unwrap_or(0)]
    }

    /// Returns the numbers of elements of both matrices.
    fn elements(&self, trees: &Trees) -> Result<[usize; 2]> {
        let [tests, leaves] = self.sizes();
        let all = self.leaves.len().saturating_mul(leaves);
        Ok([all.saturating_mul(tests), all.saturating_mul(usize::try_from(trees.target_count)?)])
    }

    fn cost(&self, trees: &Trees, rows: u64) -> Result<Cost> {
        let [tests, leaves] = self.sizes();
        let [ways, weights] = self.elements(trees)?.map(|count| u64::try_from(count).unwrap_or(u64::MAX));
        let (width, count) = (u64::try_from(tests)?, u64::try_from(self.leaves.len() * leaves)?);
        let sums = if rows == 1 { Cost::passes(1, ways) } else { Cost::product(rows * count, width) };
        let product = Cost::product(rows * u64::try_from(trees.target_count)?, count);
        Ok(Cost::constants(ways) + Cost::constants(weights) + sums + product + Cost::passes(8, rows * count))
    }

    fn sums<'x>(&self, x: &'x Expand, trees: &Trees, rows: u64) -> Result<Expr<'x>> {
        let [width, most] = self.sizes();
        let count = self.tests.len();
        let (mut splits, mut ways, mut needed, mut weights) =
            (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for (tree, (tests, paths)) in self.tests.iter().zip(&self.leaves).enumerate() {
            // A missing test repeats one that no path needs.
            splits.extend(tests.iter().copied().chain(std::iter::repeat(0)).take(width));
            for (number, path) in paths.iter().enumerate() {
                let way = |(test, passes): &(usize, bool)| {
                    (tree * width + test, number, if *passes { 1.0 } else { -1.0 })
                };
                ways.extend(path.tests.iter().map(way));
                let required: f32 =
                    path.tests.iter().map(|(_, passes)| if *passes { 1.0 } else { 0.0 }).sum();
                needed.push(required);
                let leaf = trees.leaves.at(path.leaf)?;
                weights.extend(leaf.iter().map(|(target, weight)| (tree * most + number, *target, *weight)));
            }
            // A missing leaf is never reached.
            needed.extend(std::iter::repeat_n(-1.0, most - paths.len()));
        }
        let [count, width, most] = [count.int(), width.int(), most.int()];
        let data = trees.data(x)?;
        let (features, numbers) = trees.tests(&splits)?;
        let tests = data.gather(x.make.ints(&features), 1).less_or_equal(x.make.floats(&numbers));
        let tests = tests.cast(DType::F32);
        let ways =
            matrix(&x.make, splits.len(), usize::try_from(most)?, &ways)?.reshape(&[count, width, most]);
        let needed = x.make.floats(&needed);
        // Of one row the products of small matrices would take twice to five times the time of all elements.
        let reached = if rows == 1 {
            let sums = (tests.reshape(&[count, width, 1]) * ways).reduce("ReduceSum", &[1], false);
            sums.equal(needed.reshape(&[count, most]))
        } else {
            let tests = tests.reshape(&[-1, count, width]).transpose(&[1, 0, 2]);
            tests.matmul(ways).equal(needed.reshape(&[count, 1, most])).transpose(&[1, 0, 2])
        };
        let reached = reached.cast(DType::F32).reshape(&[-1, count * most]);
        let weights =
            matrix(&x.make, usize::try_from(count * most)?, usize::try_from(trees.target_count)?, &weights)?;
        Ok(reached.matmul(weights))
    }
}

/// The nodes of some trees, numbered in the order in which they are reached.
struct Steps<'t> {
    trees: &'t Trees,
    roots: &'t [End],
    indices: BTreeMap<End, i64>,
    /// The number of tests on the longest way.
    depth: usize,
}

impl Steps<'_> {
    fn of<'t>(trees: &'t Trees, roots: &'t [End]) -> Result<Steps<'t>> {
        let mut steps = Steps { trees, roots, indices: BTreeMap::new(), depth: 0 };
        let mut level: BTreeSet<End> = roots.iter().copied().collect();
        let mut visited = 0_usize;
        loop {
            for end in &level {
                let index = steps.indices.len().int();
                steps.indices.entry(*end).or_insert(index);
            }
            visited = visited.saturating_add(level.len());
            level.retain(|(is_leaf, _)| !is_leaf);
            if level.is_empty() {
                return Ok(steps);
            }
            steps.depth += 1;
            if steps.depth > trees.splits.len() || visited > limits::MATRIX_ELEMENTS {
                invalid!("the ways through the trees do not end");
            }
            let branches = level.iter().map(|(_, index)| Ok(trees.splits.at(*index)?.branches));
            level = branches.collect::<Result<Vec<[End; 2]>>>()?.into_iter().flatten().collect();
        }
    }

    fn cost(&self, rows: u64, features: i64) -> Result<Cost> {
        let [size, count] = [self.indices.len().int(), self.roots.len().int()].map(Dim::Known);
        let one = Dim::ONE;
        let rows_dim = Dim::from(i64::try_from(rows)?);
        let all = &count * &rows_dim;
        let looked_up =
            |channels: i64| Gathered::rows(Dim::from(channels), size.clone(), all.clone(), one.clone());
        let compared = Gathered {
            groups: rows_dim,
            ..Gathered::rows(one.clone(), Dim::from(features), count, one.clone())
        };
        let elements = all.known().and_then(|all| u64::try_from(all).ok()).unwrap_or(u64::MAX);
        let step = looked_up(3).cost() + looked_up(1).cost() + compared.cost() + Cost::passes(10, elements);
        Ok(step * u64::try_from(self.depth)?)
    }

    fn sums<'x>(&self, x: &'x Expand) -> Result<Expr<'x>> {
        let mut ends: Vec<(&End, &i64)> = self.indices.iter().collect();
        ends.sort_by_key(|(_, index)| **index);
        let index_of =
            |end: &End| self.indices.get(end).copied().ok_or_else(|| Error::internal("a lost node"));
        let (mut splits, mut others, mut changes) = (Vec::new(), Vec::new(), Vec::new());
        for (end, index) in &ends {
            let (is_leaf, at) = **end;
            splits.push(if is_leaf { 0 } else { at });
            // A leaf follows itself.
            let [passes, fails] = if is_leaf {
                [**index; 2]
            } else {
                let [passes, fails] = &self.trees.splits.at(at)?.branches;
                [index_of(passes)?, index_of(fails)?]
            };
            others.push(fails);
            changes.push(passes - fails);
        }
        let (features, numbers) = self.trees.tests(&splits)?;
        let roots = self.roots.iter().map(index_of).collect::<Result<Vec<i64>>>()?;
        let [size, width] = [ends.len().int(), self.trees.width()];
        let nodes = x.make.ints(&[features, others, changes].concat()).reshape(&[3, size]);
        let numbers = x.make.floats(&numbers);
        let data = self.trees.data(x)?;
        let mut at = x.make.ints(&roots);
        for step in 0..self.depth {
            let found = nodes.gather(at, 1);
            let [feature, other, change] = [0, 1, 2].map(|part| found.element(0, part));
            // The roots read the features of all rows. The bounds prove that indices are not
            // negative.
            let values = if step == 0 {
                data.gather(feature, 1)
            } else {
                let feature = feature.clip(0, width - 1);
                x.make.op("GatherElements", [data, feature], [("axis", 1.into())])
            };
            let passes = values.less_or_equal(numbers.gather(at, 0)).cast(DType::I64);
            at = (other + passes * change).clip(0, size - 1);
        }
        if self.depth == 0 {
            at = at
                .unsqueeze(&[0])
                .broadcast_to(x.make.concat(&[data.size(0).reshape(&[1]), x.make.ints(&[-1])], 0));
        }
        self.weights(x, at, &ends)
    }

    /// Returns the sums of the weights at indices of shape `[rows, trees]`.
    fn weights<'x>(&self, x: &'x Expand, at: Expr<'x>, ends: &[(&End, &i64)]) -> Result<Expr<'x>> {
        let none = Vec::new();
        let leaf = |end: &End| if end.0 { self.trees.leaves.get(end.1).unwrap_or(&none) } else { &none };
        let mut weights = Vec::new();
        for (index, (end, _)) in ends.iter().enumerate() {
            weights.extend(leaf(end).iter().map(|(target, weight)| (*target, index, *weight)));
        }
        let count = usize::try_from(self.trees.target_count)?;
        if count > 1
            && let Some(targets) = self.single_targets()?
        {
            let all: Vec<_> = weights.iter().map(|(_, index, weight)| (0, *index, *weight)).collect();
            let found = matrix(&x.make, 1, ends.len(), &all)?.reshape(&[-1]).gather(at, 0);
            let cells: Vec<_> =
                targets.iter().enumerate().map(|(tree, target)| (tree, *target, 1.0)).collect();
            return Ok(found.matmul(matrix(&x.make, targets.len(), count, &cells)?));
        }
        let table = matrix(&x.make, count, ends.len(), &weights)?;
        Ok(table.gather(at, 1).reduce("ReduceSum", &[2], false).transpose(&[1, 0]))
    }

    /// Returns the target of each tree, if none has several.
    fn single_targets(&self) -> Result<Option<Vec<usize>>> {
        let mut targets = Vec::with_capacity(self.roots.len());
        for root in self.roots {
            let (mut found, mut visited, mut left) = (BTreeSet::new(), BTreeSet::new(), vec![*root]);
            while let Some((is_leaf, index)) = left.pop() {
                if is_leaf {
                    found.extend(self.trees.leaves.at(index)?.iter().map(|(target, _)| *target));
                } else if visited.insert(index) {
                    left.extend(self.trees.splits.at(index)?.branches);
                }
            }
            let target = found.pop_first().unwrap_or(0);
            if !found.is_empty() {
                return Ok(None);
            }
            targets.push(target);
        }
        Ok(Some(targets))
    }
}

/// Returns the sums in the form of steps, of parts of the trees if they are large.
fn stepped<'x>(x: &'x Expand, trees: &Trees, steps: Steps) -> Result<Expr<'x>> {
    let (first, second) = steps.roots.split_at(steps.roots.len() / 2);
    if steps.indices.len().int() <= Gathered::MAX_POSITIONS || first.is_empty() {
        return steps.sums(x);
    }
    let [first, second] = [first, second].map(|roots| stepped(x, trees, Steps::of(trees, roots)?));
    Ok(first? + second?)
}

/// Returns the sums of the weights of the leaves that the trees reach, or their means, in float32.
pub(super) fn sums<'x>(x: &'x Expand, trees: &Trees) -> Result<Expr<'x>> {
    let [rows, features] = x.shape(0)? else { invalid!("the features are not a matrix") };
    trees.check(features)?;
    let rows = u64::try_from(rows.known().unwrap_or(USUAL_SIZE))?;
    let steps = Steps::of(trees, &trees.roots)?;
    let paths = Paths::of(trees)?;
    let cost = steps.cost(rows, features.known().unwrap_or(USUAL_SIZE))?.nanoseconds();
    let mut sums = None;
    if let Some(paths) = paths
        && paths.elements(trees)?.iter().all(|count| *count <= limits::MATRIX_ELEMENTS)
        && paths.cost(trees, rows)?.nanoseconds() <= cost
    {
        sums = Some(paths.sums(x, trees, rows)?);
    }
    let sums = sums.map_or_else(|| stepped(x, trees, steps), Ok)?;
    let count = x.make.number(trees.roots.len().as_(), DType::F32);
    Ok(if trees.is_mean { sums / count } else { sums })
}
