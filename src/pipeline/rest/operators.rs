//! The functions by which programs compute nodes.

use super::{Argument, Writer, cast, integers};
use crate::common::int::Int;
use crate::graph::{Attribute, Node, ValueId};
use crate::op::{Call, resolve_axis};
use crate::tensor::DType;

/// Operators of two inputs, or of any number of them that are joined one after the other.
const BINARY: &[(&str, &str)] = &[
    ("Add", "add"),
    ("Sub", "subtract"),
    ("Mul", "multiply"),
    ("Div", "divide"),
    ("Pow", "power"),
    ("Min", "minimum"),
    ("Max", "maximum"),
    ("Sum", "add"),
    ("And", "logical_and"),
    ("Or", "logical_or"),
    ("Xor", "logical_xor"),
    ("Equal", "equal"),
    ("Greater", "greater"),
    ("GreaterOrEqual", "greater_or_equal"),
    ("Less", "less"),
    ("LessOrEqual", "less_or_equal"),
];

/// Operators whose inputs are the arguments.
const PLAIN: &[(&str, &str)] = &[
    ("Not", "logical_not"),
    ("IsNaN", "is_nan"),
    ("Where", "where"),
    ("Abs", "absolute"),
    ("Neg", "negative"),
    ("Sign", "sign"),
    ("Floor", "floor"),
    ("Ceil", "ceil"),
    ("Round", "round_to_even"),
    ("Sqrt", "sqrt"),
    ("Exp", "exp"),
    ("Log", "log"),
    ("Sin", "sin"),
    ("Cos", "cos"),
    ("Reciprocal", "reciprocal"),
    ("Sigmoid", "sigmoid"),
    ("Tanh", "tanh"),
    ("Relu", "relu"),
    ("Size", "size"),
    ("NonZero", "nonzero"),
    ("Tile", "tile"),
    ("Expand", "expand"),
    ("Range", "numbers"),
];

const REDUCTIONS: &[(&str, &str)] = &[
    ("ReduceMax", "reduce_max"),
    ("ReduceMin", "reduce_min"),
    ("ReduceSum", "reduce_sum"),
    ("ReduceMean", "reduce_mean"),
    ("ReduceProd", "reduce_prod"),
    ("ReduceL2", "reduce_l2"),
];

/// Operators whose inputs and axis are the arguments.
const ALONG: &[(&str, &str)] = &[
    ("Flatten", "flatten"),
    ("Gather", "gather"),
    ("GatherElements", "gather_elements"),
    ("Compress", "compress"),
];

fn function(table: &[(&str, &'static str)], op_type: &str) -> Option<&'static str> {
    table.iter().find(|(name, _)| *name == op_type).map(|(_, function)| *function)
}

impl Writer<'_> {
    /// Writes the statements of a node. Returns `None` if no function computes it.
    pub(super) fn write(&mut self, node: &Node) -> Option<()> {
        if let Some(arguments) = self.plugin(node) {
            return self.emit(node, "best_boxes", arguments?);
        }
        let graph = self.graph;
        let (_, call) = Call::of(graph, node)?;
        if !node.domain.is_empty() {
            return None;
        }
        let op_type = node.op_type.as_str();
        if let Some(function) = function(BINARY, op_type) {
            return self.joined(node, function);
        }
        if let Some(function) = function(PLAIN, op_type) {
            let arguments = self.inputs(node)?;
            return self.emit(node, function, arguments);
        }
        if let Some(function) = function(REDUCTIONS, op_type) {
            let axes = axes(&call)?;
            if axes.is_empty() && call.flag("noop_with_empty_axes").unwrap_or(false) {
                return self.alias(node);
            }
            let arguments = vec![self.input(node, 0)?, Argument::Integers(axes), flag(&call, "keepdims")?];
            return self.emit(node, function, arguments);
        }
        if let Some(function) = function(ALONG, op_type) {
            let arguments = self.inputs_and_axis(node, &call)?;
            return self.emit(node, function, arguments);
        }
        let (function, arguments) = match op_type {
            "Identity" => return self.alias(node),
            "If" => return self.write_branches(node),
            "Cast" => return self.cast(node, call.element_type("to").ok()?),
            "Mod" => ("modulo", vec![self.input(node, 0)?, self.input(node, 1)?, flag(&call, "fmod")?]),
            "Clip" if call.since() >= 11 => {
                ("clip", vec![self.input(node, 0)?, self.optional(node, 1)?, self.optional(node, 2)?])
            }
            "IsInf" if call.flag("detect_negative").ok()? && call.flag("detect_positive").ok()? => {
                ("is_infinite", vec![self.input(node, 0)?])
            }
            "Softmax" => {
                let axis = call.int("axis").ok()?;
                let rank = call.shape(0).ok()?.len();
                let is_last = axis == -1 || usize::try_from(axis).is_ok_and(|axis| axis + 1 == rank);
                // Before version 13, all axes from this one on are normalized together.
                if call.since() < 13 && !is_last {
                    return None;
                }
                ("softmax", vec![self.input(node, 0)?, Argument::Integer(axis)])
            }
            "Shape" => return self.shape(node, &call),
            "Reshape" => {
                let keeps_zero = call.flag("allowzero").unwrap_or(false);
                ("reshape", vec![self.input(node, 0)?, self.input(node, 1)?, Argument::Flag(keeps_zero)])
            }
            "Concat" => {
                let parts: Option<_> = node.reads().map(|id| Some(self.variable(id)?.to_owned())).collect();
                ("concat", vec![Argument::Values(parts?), axis(&call)?])
            }
            "Squeeze" => ("squeeze", vec![self.input(node, 0)?, Argument::Integers(axes(&call)?)]),
            "Unsqueeze" => ("unsqueeze", vec![self.input(node, 0)?, Argument::Integers(axes(&call)?)]),
            "Transpose" => {
                let order = call.optional_ints("perm").ok()?.unwrap_or_default();
                ("transpose", vec![self.input(node, 0)?, Argument::Integers(order)])
            }
            "Split" => {
                let x = self.input(node, 0)?;
                ("split", vec![x, self.split_sizes(node, &call)?, axis(&call)?])
            }
            "Trilu" => ("trilu", vec![self.input(node, 0)?, self.optional(node, 1)?, flag(&call, "upper")?]),
            "Slice" => return self.slice(node, &call),
            "GatherND" => {
                let batch = call.int_or("batch_dims", 0).ok()?;
                ("gather_nd", vec![self.input(node, 0)?, self.input(node, 1)?, Argument::Integer(batch)])
            }
            "ScatterND" if replaces(&call) => ("scatter_nd", self.inputs(node)?),
            "ScatterElements" if replaces(&call) => ("scatter_elements", self.inputs_and_axis(node, &call)?),
            "TopK" => {
                let largest = Argument::Flag(call.since() < 11 || call.flag("largest").ok()?);
                ("top_k", vec![self.input(node, 0)?, self.count(node, &call)?, axis(&call)?, largest])
            }
            "ArgMax" | "ArgMin" => {
                let is_last = Argument::Flag(call.flag("select_last_index").unwrap_or(false));
                let function = if op_type == "ArgMax" { "arg_max" } else { "arg_min" };
                (function, vec![self.input(node, 0)?, axis(&call)?, flag(&call, "keepdims")?, is_last])
            }
            "CumSum" => {
                let mut arguments = self.inputs(node)?;
                arguments.extend([flag(&call, "exclusive")?, flag(&call, "reverse")?]);
                ("cum_sum", arguments)
            }
            "ConstantOfShape" => ("filled", vec![self.input(node, 0)?, self.element(node)?]),
            "Pad" => return self.pad(node, &call),
            "GridSample" if samples_between(&call) => (
                "grid_sample",
                vec![self.input(node, 0)?, self.input(node, 1)?, flag(&call, "align_corners")?],
            ),
            "NonMaxSuppression" => {
                let centres = Argument::Flag(call.int("center_point_box").ok()? == 1);
                let mut arguments = vec![self.input(node, 0)?, self.input(node, 1)?];
                for index in 2..5 {
                    arguments.push(self.optional(node, index)?);
                }
                arguments.push(centres);
                ("non_max_suppression", arguments)
            }
            _ => return None,
        };
        self.emit(node, function, arguments)
    }

    fn emit(&mut self, node: &Node, function: &'static str, arguments: Vec<Argument>) -> Option<()> {
        let targets = self.targets(node);
        self.call(targets, function, arguments);
        Some(())
    }

    /// Returns the variables of the outputs that have readers.
    pub(super) fn targets(&mut self, node: &Node) -> Vec<Option<String>> {
        let outputs = node.outputs.iter().map(|id| id.filter(|id| self.needed.contains(*id)));
        let outputs: Vec<Option<ValueId>> = outputs.collect();
        outputs.into_iter().map(|id| Some(self.name(id?))).collect()
    }

    /// The output is the input.
    fn alias(&mut self, node: &Node) -> Option<()> {
        let (from, to) = (node.input(0)?, node.output(0)?);
        let name = self.variable(from)?.to_owned();
        self.variables.insert(to, name);
        Some(())
    }

    fn cast(&mut self, node: &Node, to: DType) -> Option<()> {
        let from = self.graph.value(node.input(0)?).dtype;
        let kind = |dtype: DType| cast(dtype).unwrap_or("as_float");
        let is_narrow = to.is_int() && to != DType::Bool && to.bits() < 32;
        if is_narrow || !(to.is_int() || to.is_float() || to == DType::Bool) {
            return None;
        }
        match from {
            Some(from) if kind(from) == kind(to) => self.alias(node),
            _ => {
                let arguments = self.inputs(node)?;
                self.emit(node, kind(to), arguments)
            }
        }
    }

    fn input(&mut self, node: &Node, index: usize) -> Option<Argument> {
        Some(Argument::Value(self.variable(node.input(index)?)?.to_owned()))
    }

    fn inputs(&mut self, node: &Node) -> Option<Vec<Argument>> {
        (0..node.inputs.len()).map(|index| self.input(node, index)).collect()
    }

    fn optional(&mut self, node: &Node, index: usize) -> Option<Argument> {
        let Some(id) = node.input(index) else { return Some(Argument::Optional(None)) };
        Some(Argument::Optional(Some(self.variable(id)?.to_owned())))
    }

    /// A list of integers of an older version, as an input of later ones.
    pub(super) fn list(&mut self, numbers: &[i64]) -> Argument {
        let arguments =
            vec![Argument::Integers(vec![numbers.len().int()]), integers(numbers.iter().copied())];
        self.new_value("list", "integers", arguments)
    }

    /// Joins the inputs from the first one on.
    fn joined(&mut self, node: &Node, function: &'static str) -> Option<()> {
        let mut inputs = self.inputs(node)?;
        let last = inputs.pop()?;
        let joined =
            inputs.into_iter().reduce(|sum, next| self.new_value(function, function, vec![sum, next]));
        match joined {
            Some(joined) => self.emit(node, function, vec![joined, last]),
            None => self.alias(node),
        }
    }

    fn inputs_and_axis(&mut self, node: &Node, call: &Call) -> Option<Vec<Argument>> {
        let mut arguments = self.inputs(node)?;
        arguments.push(axis(call)?);
        Some(arguments)
    }

    fn split_sizes(&mut self, node: &Node, call: &Call) -> Option<Argument> {
        if node.input(1).is_some() {
            return self.input(node, 1);
        }
        if let Some(sizes) = call.optional_ints("split").ok()? {
            return Some(self.list(&sizes));
        }
        let (shape, axis) = (call.shape(0).ok()?, call.int("axis").ok()?);
        let axis = resolve_axis(axis, shape.len()).ok()?;
        let (size, count) = (shape.get(axis)?.known()?, node.outputs.len().int());
        let part = (size + count - 1) / count;
        let sizes: Vec<i64> = (0..count).map(|at| part.min(size - at * part)).collect();
        sizes.iter().all(|size| *size >= 0).then(|| self.list(&sizes))
    }

    fn slice(&mut self, node: &Node, call: &Call) -> Option<()> {
        // Earlier versions have attributes instead of inputs.
        if call.since() < 10 {
            return None;
        }
        let count = self.graph.value(node.input(1)?).shape.as_ref()?.first()?.known()?;
        let count = usize::try_from(count).ok()?;
        let axes = if call.has_input(3) { call.axes(3).ok()? } else { range(count) };
        let [x, starts, ends] = [0, 1, 2].map(|index| self.input(node, index));
        let (x, starts, ends) = (x?, starts?, ends?);
        let steps = if call.has_input(4) { self.input(node, 4)? } else { self.list(&vec![1; count]) };
        self.emit(node, "slice_of", vec![x, starts, ends, Argument::Integers(axes), steps])
    }

    fn shape(&mut self, node: &Node, call: &Call) -> Option<()> {
        let x = self.input(node, 0)?;
        let [start, end] = ["start", "end"].map(|name| call.optional_int(name).ok().flatten());
        if start.is_none() && end.is_none() {
            return self.emit(node, "shape", vec![x]);
        }
        let shape = self.new_value("shape", "shape", vec![x]);
        let [start, end] = [start.unwrap_or(0), end.unwrap_or(i64::MAX)].map(|index| self.list(&[index]));
        let (axes, step) = (Argument::Integers(vec![0]), self.list(&[1]));
        self.emit(node, "slice_of", vec![shape, start, end, axes, step])
    }

    fn pad(&mut self, node: &Node, call: &Call) -> Option<()> {
        call.word("mode", &[("constant", ())]).ok()?;
        let rank = call.shape(0).ok()?.len();
        let axes = if call.has_input(3) { call.axes(3).ok()? } else { range(rank) };
        let (amounts, element);
        if call.since() < 11 {
            amounts = self.list(&call.optional_ints("pads").ok()??);
            element = self.number(call.float_or("value", 0.0).ok()?);
        } else {
            amounts = self.input(node, 1)?;
            element = if call.has_input(2) { self.input(node, 2)? } else { self.number(0.0) };
        }
        let x = self.input(node, 0)?;
        self.emit(node, "pad", vec![x, amounts, element, Argument::Integers(axes)])
    }

    /// The number of elements of a TopK.
    fn count(&mut self, node: &Node, call: &Call) -> Option<Argument> {
        match call.since() {
            ..10 => Some(self.list(&[call.optional_int("k").ok()??])),
            _ => self.input(node, 1),
        }
    }

    fn number(&mut self, number: f32) -> Argument {
        let arguments = vec![Argument::Integers(Vec::new()), Argument::Floats(vec![number])];
        self.new_value("number", "floats", arguments)
    }

    /// The element of a ConstantOfShape.
    fn element(&mut self, node: &Node) -> Option<Argument> {
        match node.attributes.get("value") {
            None => Some(self.number(0.0)),
            Some(Attribute::Tensor(tensor)) => {
                let (array, name) = (tensor.load().ok()?, self.new_name("element"));
                self.declare(name.clone(), &array)?;
                Some(Argument::Value(name))
            }
            Some(_) => None,
        }
    }

    /// Returns the arguments of one of TensorRT's nodes that select boxes, which exporters write into ONNX
    /// models; `None` for another node.
    fn plugin(&mut self, node: &Node) -> Option<Option<Vec<Argument>>> {
        let names = ["EfficientNMS_TRT", "BatchedNMS_TRT", "BatchedNMSDynamic_TRT"];
        names.contains(&node.op_type.as_str()).then(|| {
            let attribute = |names: &[&str]| names.iter().find_map(|name| node.attributes.get(*name));
            let int = |names: &[&str], default| match attribute(names) {
                Some(Attribute::Int(number)) => *number,
                _ => default,
            };
            let float = |names: &[&str]| match attribute(names) {
                Some(Attribute::Float(number)) => *number,
                _ => 0.0,
            };
            // Other values change what is selected or returned.
            let is_efficient = node.op_type == "EfficientNMS_TRT";
            let expected: &[(&str, i64, i64)] = match is_efficient {
                true => &[("score_activation", 0, 0), ("class_agnostic", 0, 0)],
                false => &[("isNormalized", 1, 1), ("clipBoxes", 1, 0)],
            };
            let is_other = expected.iter().any(|(name, default, known)| int(&[*name], *default) != *known);
            let most = int(&["max_output_boxes", "keepTopK"], 100);
            if is_other || node.inputs.len() != 2 {
                return None;
            }
            Some(vec![
                self.input(node, 0)?,
                self.input(node, 1)?,
                Argument::Float(float(&["score_threshold", "scoreThreshold"])),
                Argument::Float(float(&["iou_threshold", "iouThreshold"])),
                Argument::Integer(most),
                Argument::Integer(int(&["topK"], 0).max(0)),
                Argument::Integer(int(&["background_class", "backgroundLabelId"], -1)),
                Argument::Flag(int(&["box_coding"], 0) == 1),
            ])
        })
    }
}

/// Returns the axes of a node: an attribute, or a constant input; empty for all.
fn axes(call: &Call) -> Option<Vec<i64>> {
    match call.node().attributes.contains_key("axes") {
        true => call.optional_ints("axes").ok()?,
        false if call.has_input(1) => call.axes(1).ok(),
        false => Some(Vec::new()),
    }
}

fn axis(call: &Call) -> Option<Argument> {
    call.int("axis").ok().map(Argument::Integer)
}

fn flag(call: &Call, name: &str) -> Option<Argument> {
    call.flag(name).ok().map(Argument::Flag)
}

fn range(count: usize) -> Vec<i64> {
    (0..count.int()).collect()
}

/// Returns whether a GridSample takes elements between the four next ones of a plane, and 0 outside of it.
fn samples_between(call: &Call) -> bool {
    let is_linear = call.word("mode", &[("bilinear", ()), ("linear", ())]).is_ok();
    is_linear && call.word("padding_mode", &[("zeros", ())]).is_ok()
}

/// Returns whether elements replace others, and are not added to them. Early versions have no other meaning.
fn replaces(call: &Call) -> bool {
    call.word_or("reduction", "none", &[("none", ())]).is_ok()
}
