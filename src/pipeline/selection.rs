//! The selection of boxes that follows the outputs of a part of a model.
//!
//! The number of selected boxes depends on the elements, so no net has it: a program selects instead, with
//! the thresholds of the nodes that were cut off.

use std::collections::{BTreeMap, BTreeSet};

use super::inspect::infer_model;
use super::{Options, Port};
use crate::error::Result;
use crate::graph::{Attribute, Graph, Node, ValueId};
use crate::onnx::Sources;
use crate::tensor::Dim;

/// Operators that move elements of their first input.
const MOVES: &[&str] = &[
    "Identity",
    "Cast",
    "Unsqueeze",
    "Squeeze",
    "Reshape",
    "Flatten",
    "Transpose",
    "Slice",
    "Split",
    "Gather",
    "GatherND",
    "GatherElements",
    "Expand",
    "Tile",
    "Pad",
    "Compress",
    "TopK",
];

/// Operators whose results are no elements of their inputs.
const OTHERS: &[&str] = &[
    "Shape",
    "Size",
    "NonZero",
    "Equal",
    "Greater",
    "GreaterOrEqual",
    "Less",
    "LessOrEqual",
    "And",
    "Or",
    "Not",
];

/// A bound of a node that is none: exporters write the largest integer.
const NO_BOUND: i64 = 1 << 20;

/// How a model selects boxes behind the outputs of a part.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Selection {
    /// The indices of the outputs that hold the boxes, their scores, and their classes, if these are not
    /// those of the best scores.
    pub boxes: Option<usize>,
    pub scores: Option<usize>,
    pub classes: Option<usize>,
    /// The number of classes, if the classes are indices of both a box and a class.
    pub class_count: Option<i64>,
    /// Whether a box is a centre and a size.
    pub are_centres: bool,
    /// Whether only boxes of the same class hide each other.
    pub is_by_class: bool,
    /// Whether a box counts once for each class whose score is above the threshold.
    pub is_of_all_classes: bool,
    /// The scores above which boxes are kept, if the model has such a bound.
    pub threshold: Option<f32>,
    /// The shared part of two areas above which the box with the lower score is hidden.
    pub overlap: f32,
    /// The maximum number of selected boxes.
    pub most: Option<i64>,
}

/// The outputs of the part from which the elements of a value come.
#[derive(Clone, Debug, Default)]
struct Trace {
    outputs: BTreeSet<usize>,
    /// Whether sums of elements of one output are among them, as of a centre and half of a size.
    is_mixed: bool,
    /// Whether they are the largest along an axis.
    is_best: bool,
    /// Whether they follow the selection.
    is_selected: bool,
}

/// Returns the selection behind `outputs`, if the model has one. `sizes` are values of the free sizes.
///
/// # Errors
///
/// The model cannot be read again.
pub(crate) fn selection(
    sources: &Sources,
    options: &Options,
    outputs: &[Port],
    sizes: &BTreeMap<String, Dim>,
) -> Result<Option<Selection>> {
    if options.outputs.is_empty() {
        return Ok(None);
    }
    let whole = Options { outputs: Vec::new(), ..options.clone() };
    let (_, graph) = infer_model(sources, &whole)?;
    let ids: BTreeMap<&str, ValueId> =
        graph.value_ids().map(|id| (graph.value(id).name.as_str(), id)).collect();
    let ids: Vec<Option<ValueId>> =
        options.outputs.iter().map(|name| ids.get(name.as_str()).copied()).collect();
    Ok(Walk::over(&graph, &ids).and_then(|walk| walk.selection(outputs, sizes)))
}

/// The facts that a walk over the nodes behind a part collects.
struct Walk<'a> {
    graph: &'a Graph,
    traces: BTreeMap<ValueId, Trace>,
    /// The first node that selects.
    node: Option<&'a Node>,
    /// The values that are compared with a constant, and the constant.
    bounds: Vec<(Trace, f32)>,
    /// The outputs whose elements are indices of boxes and classes, and the number of classes.
    divisors: Vec<(BTreeSet<usize>, i64)>,
    most: Option<i64>,
}

impl<'a> Walk<'a> {
    /// Returns `None` if no node selects.
    fn over(graph: &'a Graph, outputs: &[Option<ValueId>]) -> Option<Walk<'a>> {
        let seeds: BTreeMap<ValueId, Trace> = (outputs.iter().enumerate())
            .filter_map(|(at, id)| {
                Some(((*id)?, Trace { outputs: BTreeSet::from([at]), ..Trace::default() }))
            })
            .collect();
        let mut walk = Walk {
            graph,
            traces: seeds.clone(),
            node: None,
            bounds: Vec::new(),
            divisors: Vec::new(),
            most: None,
        };
        for (_, node) in graph.nodes() {
            if node.outputs.iter().flatten().any(|id| seeds.contains_key(id)) {
                continue;
            }
            let trace = walk.step(node);
            if trace.is_selected || !trace.outputs.is_empty() {
                walk.traces.extend(node.outputs.iter().flatten().map(|id| (*id, trace.clone())));
            }
        }
        (walk.node.is_some() || walk.overlap().is_some()).then_some(walk)
    }

    /// Returns the bound of the overlaps of a selection by a matrix: of sums of all boxes.
    fn overlap(&self) -> Option<f32> {
        let is_overlap = |bound: &&(Trace, f32)| bound.0.is_mixed && (0.0..1.0).contains(&bound.1);
        self.bounds.iter().find(is_overlap).map(|(_, bound)| *bound)
    }

    fn trace(&self, node: &Node, index: usize) -> Trace {
        node.input(index).and_then(|id| self.traces.get(&id)).cloned().unwrap_or_default()
    }

    /// Returns the first element of a constant input.
    fn number(&self, node: &Node, index: usize) -> Option<f32> {
        let constant = self.graph.value(node.input(index)?).constant.as_ref()?;
        constant.load().ok()?.float_list().ok()?.first().copied()
    }

    fn integer(&self, node: &Node, index: usize) -> Option<i64> {
        let constant = self.graph.value(node.input(index)?).constant.as_ref()?;
        constant.load().ok()?.int_list().ok()?.first().copied().filter(|n| (1..NO_BOUND).contains(n))
    }

    /// Returns whether a Slice keeps the first items of a list, whose length the selection decides.
    fn begins(&self, node: &Node) -> bool {
        let shape = node.input(0).and_then(|id| self.graph.value(id).shape.as_deref());
        let is_list = shape.is_none_or(|shape| shape.first().is_some_and(|size| size.known().is_none()));
        let is_first = shape.is_some_and(|shape| shape.len() == 1) || self.number(node, 3) == Some(0.0);
        is_list && is_first && self.number(node, 1) == Some(0.0)
    }

    fn bound(&mut self, most: Option<i64>) {
        self.most = self.most.into_iter().chain(most).min();
    }

    /// Returns the trace of the outputs of a node, and keeps what it says about the selection.
    fn step(&mut self, node: &'a Node) -> Trace {
        let inputs: Vec<Trace> = (0..node.inputs.len()).map(|index| self.trace(node, index)).collect();
        let is_selected = inputs.iter().any(|trace| trace.is_selected);
        if selects(node) {
            self.node.get_or_insert(node);
            return Trace { is_selected: true, ..Trace::default() };
        }
        let first = || inputs.first().cloned().unwrap_or_default();
        match node.op_type.as_str() {
            "Greater" | "GreaterOrEqual" => {
                let constant = self.number(node, 1);
                self.bounds.extend(constant.map(|constant| (first(), constant)));
            }
            "Slice" if is_selected && self.begins(node) => self.bound(self.integer(node, 2)),
            "Mod" => self.divisors.extend(self.integer(node, 1).map(|divisor| (first().outputs, divisor))),
            "TopK" if is_selected => self.bound(self.integer(node, 1)),
            "Min" if is_selected => {
                self.bound((0..node.inputs.len()).filter_map(|index| self.integer(node, index)).min());
            }
            _ => {}
        }
        match node.op_type.as_str() {
            "NonZero" if self.overlap().is_some() => Trace { is_selected: true, ..Trace::default() },
            op if OTHERS.contains(&op) => Trace { is_selected, ..Trace::default() },
            op if MOVES.contains(&op) => Trace { is_selected, ..first() },
            "ReduceMax" | "ArgMax" => Trace { is_best: true, ..first() },
            op => {
                let values = if op == "Where" { inputs.get(1..).unwrap_or_default() } else { &inputs };
                let plain = || values.iter().filter(|trace| !trace.is_best);
                let sum: usize = plain().map(|trace| trace.outputs.len()).sum();
                let distinct: BTreeSet<usize> =
                    plain().flat_map(|trace| trace.outputs.iter().copied()).collect();
                let is_sum = matches!(op, "Add" | "Sub") && sum > distinct.len();
                Trace {
                    outputs: values.iter().flat_map(|trace| trace.outputs.iter().copied()).collect(),
                    is_mixed: is_sum || values.iter().any(|trace| trace.is_mixed),
                    is_best: values.iter().all(|trace| trace.is_best || trace.outputs.is_empty()),
                    is_selected,
                }
            }
        }
    }

    fn selection(&self, ports: &[Port], sizes: &BTreeMap<String, Dim>) -> Option<Selection> {
        let input = |index| self.node.map(|node| self.trace(node, index)).unwrap_or_default();
        let [boxes_trace, scores_trace] = [0, 1].map(input);
        let results = self.graph.outputs.iter().filter_map(|id| self.traces.get(id));
        let shown: BTreeSet<usize> = results.flat_map(|trace| trace.outputs.iter().copied()).collect();
        let are_boxes = |at: &usize| ports.get(*at).is_some_and(is_boxes);
        let only = |set: &BTreeSet<usize>, is: &dyn Fn(&usize) -> bool| {
            let mut found = set.iter().copied().filter(is);
            found.next().filter(|_| found.next().is_none())
        };
        let compared = &boxes_trace.outputs;
        let boxes = only(&shown, &are_boxes).or_else(|| only(compared, &are_boxes));
        let scores = only(&scores_trace.outputs, &|at| Some(*at) != boxes);
        let count = |at: Option<usize>| at.and_then(|at| elements(ports.get(at)?, sizes));
        let has_classes = count(scores) > count(boxes).map(|n| n / 4);
        let classes = (0..ports.len()).filter(|at| shown.contains(at) || compared.contains(at));
        let mut classes = classes.filter(|at| Some(*at) != boxes && Some(*at) != scores);
        let classes = classes.find(|at| !has_classes && count(Some(*at)) == count(scores));
        let is_of_classes = |outputs: &BTreeSet<usize>| outputs.iter().copied().eq(classes);
        let divisor = self.divisors.iter().find(|(outputs, _)| is_of_classes(outputs));
        let is_of_scores = |trace: &Trace| match scores {
            Some(_) => trace.outputs.iter().copied().eq(scores),
            None => trace.is_best && !trace.is_mixed,
        };
        let bounds = self.bounds.iter().filter(|(trace, _)| is_of_scores(trace)).map(|(_, bound)| *bound);
        let settings = Settings::of(self);
        let is_of_all_classes = has_classes && !scores_trace.is_best;
        let most = settings.most.filter(|_| !is_of_all_classes || settings.is_of_all);
        Some(Selection {
            boxes,
            scores: scores.filter(|_| boxes.is_some()),
            classes,
            class_count: divisor.map(|(_, count)| *count),
            are_centres: settings.are_centres || boxes_trace.is_mixed,
            is_by_class: is_of_all_classes || boxes.is_none() || !compared.iter().copied().eq(boxes),
            is_of_all_classes,
            threshold: bounds.chain(settings.threshold).reduce(f32::max),
            overlap: settings.overlap,
            most: self.most.into_iter().chain(most).min(),
        })
    }
}

/// Returns whether a node selects boxes.
fn selects(node: &Node) -> bool {
    node.is("NonMaxSuppression") || plugin(node)
}

/// Returns whether it is one of TensorRT's, which exporters write into ONNX models.
fn plugin(node: &Node) -> bool {
    ["EfficientNMS_TRT", "BatchedNMS_TRT", "BatchedNMSDynamic_TRT", "TRTBatchedNMS"]
        .contains(&node.op_type.as_str())
}

/// What a node that selects states about itself.
struct Settings {
    threshold: Option<f32>,
    overlap: f32,
    most: Option<i64>,
    /// Whether the maximum holds for all classes together.
    is_of_all: bool,
    are_centres: bool,
}

impl Settings {
    fn of(walk: &Walk) -> Settings {
        let Some(node) = walk.node else {
            let overlap = walk.overlap().unwrap_or_default();
            return Settings { threshold: None, overlap, most: None, is_of_all: true, are_centres: true };
        };
        let float = |names: &[&str]| {
            names.iter().find_map(|name| match node.attributes.get(*name) {
                Some(Attribute::Float(number)) => Some(*number),
                _ => None,
            })
        };
        let int = |names: &[&str]| {
            names.iter().find_map(|name| match node.attributes.get(*name) {
                Some(Attribute::Int(number)) => Some(*number),
                _ => None,
            })
        };
        match plugin(node) {
            true => Settings {
                threshold: float(&["score_threshold", "scoreThreshold"]),
                overlap: float(&["iou_threshold", "iouThreshold"]).unwrap_or(0.0),
                most: int(&["max_output_boxes", "keepTopK", "keep_topk", "keep_top_k"]),
                is_of_all: true,
                are_centres: int(&["box_coding"]) == Some(1),
            },
            false => Settings {
                threshold: walk.number(node, 4),
                overlap: walk.number(node, 3).unwrap_or(0.0),
                most: walk.integer(node, 2),
                is_of_all: false,
                are_centres: int(&["center_point_box"]) == Some(1),
            },
        }
    }
}

/// Returns whether an output may hold boxes: four floats in each row.
fn is_boxes(port: &Port) -> bool {
    port.dtype.contains("float") && port.shape.len() >= 2 && port.shape.last().is_some_and(|size| size.is(4))
}

/// Returns the number of elements of an output, if it is known.
fn elements(port: &Port, sizes: &BTreeMap<String, Dim>) -> Option<i64> {
    port.shape.iter().map(|size| size.substitute(sizes).known()).product()
}
