//! Nodes of a model, evaluated one by one: by an engine for ONNX, or else by the evaluation of the operator.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;
use rten::{Model as Compiled, ModelOptions, Value as EngineValue, ValueOrView};
use rten_tensor::TensorView;
use rten_tensor::prelude::*;
use serde::Serialize;

use super::draw::Random;
use super::evaluate::{Evaluation, evaluation, further_evaluation, program_evaluation};
use super::{Passed, Values, all_floats};
use crate::error::{Error, Result, unsupported};
use crate::graph::{Attribute, Fact, Graph, Ids, Node, NodeId, Value};
use crate::onnx::{self, Model};
use crate::op::{self, Call, Inputs, Op, element_count};
use crate::ops;
use crate::pass::definition::add_definition;
use crate::tensor::{Array, DType, Dim, Elements, Tensor};

/// The most elements of an input whose elements the shape rule may read.
const FEW: usize = 4096;

/// The most elements of a result: the engine makes them all at once, and the check a copy in float64.
const MAX_ELEMENTS: u64 = 1 << 28;

/// What evaluates a node, the most independent of the conversion first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Evaluator {
    /// An engine for ONNX that shares nothing with the conversion, or the specification of the operator.
    Engine,
    /// The evaluation that also folds constants.
    Folding,
    /// The nodes that define the operator, which the conversion uses too; each of them is evaluated.
    Definition,
}

/// The engine adds the zero point to quotients up to this number.
const LEVELS: f64 = 1_073_741_824.0;

/// The evaluator of the nodes of a model.
pub(super) struct Engine<'a> {
    model: &'a Model,
    /// The nodes as separate models, by the ids of the nodes; `None` for those that the engine refuses.
    compiled: RefCell<BTreeMap<NodeId, Option<Compiled>>>,
}

impl<'a> Engine<'a> {
    pub fn new(model: &'a Model) -> Engine<'a> {
        Engine { model, compiled: RefCell::default() }
    }

    /// Returns whether a graph is the whole model, and not a body or a definition.
    fn is_whole(&self, graph: &Graph) -> bool {
        std::ptr::eq(graph, &raw const self.model.graph)
    }

    /// Evaluates a node of a graph on its inputs; `None` for omitted ones.
    ///
    /// # Errors
    ///
    /// `Unsupported` if nothing evaluates the node.
    pub fn evaluate(
        &self,
        graph: &Graph,
        id: NodeId,
        inputs: &[Option<Arc<Array>>],
        passed: Passed,
    ) -> Result<(Vec<Arc<Array>>, Evaluator)> {
        let Some(node) = graph.node(id) else { return Err(Error::internal("no node")) };
        if node.custom.is_some() {
            return Ok((self.any_outputs(node, inputs)?, Evaluator::Engine));
        }
        if divides_by_zero(node, inputs) {
            unsupported!("a quotient by a scale of 0 as an integer");
        }
        let known = op::find_handled(node).ok();
        let specified = |op: &Op, evaluation: Evaluation| -> Result<Vec<Arc<Array>>> {
            let (graph, inputs) = (Graph::default(), Inputs::of(inputs.iter().cloned()));
            Ok(shared(evaluation(&Call::evaluated(&graph, node, op, &inputs))?))
        };
        if let Some((op, evaluation)) = known.and_then(|op| Some((op, evaluation(node)?))) {
            return Ok((specified(op, evaluation)?, Evaluator::Engine));
        }
        if let Some((op, evaluation)) = known.and_then(|op| Some((op, program_evaluation(node)?))) {
            return Ok((specified(op, evaluation)?, Evaluator::Definition));
        }
        let fold = known.filter(|op| op.fold.is_some());
        let folded = |op: &Op| Ok((shared(op.evaluate(node, inputs.iter().cloned())?), Evaluator::Folding));
        // The engine approximates functions, and takes the last of equal maxima. But where the layers follow
        // from the moves of an operator, as its evaluation does, the engine is another witness.
        if let Some(op) = fold.filter(|op| op.moves.is_none()) {
            return folded(op);
        }
        let further = known.and_then(|op| Some((op, further_evaluation(node)?)));
        let key = self.is_whole(graph).then_some(id);
        match (self.run(key, node, inputs), fold) {
            (Ok(outputs), _) => Ok((shared(outputs), Evaluator::Engine)),
            (Err(_), Some(op)) => folded(op),
            (Err(_), None) if let Some((op, evaluation)) = further => {
                Ok((specified(op, evaluation)?, Evaluator::Engine))
            }
            (Err(reason), None) => match self.run_definition(graph, node, inputs, passed)? {
                Some(outputs) => Ok((outputs, Evaluator::Definition)),
                None => Err(Error::unsupported(format!("{} is not evaluated", node.qualified_op_type()))
                    .caused_by(reason)),
            },
        }
    }

    /// Returns any elements for the outputs of a node that a layer of the user computes: the windows after it
    /// are compared on them.
    fn any_outputs(&self, node: &Node, inputs: &[Option<Arc<Array>>]) -> Result<Vec<Arc<Array>>> {
        let (graph, single) = self.single_node(node, inputs, described)?;
        let op = op::find_handled(&single)?;
        let facts = (op.infer)(&Call::new(&graph, &single, op))?;
        let mut random = Random::new(0);
        let mut drawn = |fact: Fact| -> Result<Arc<Array>> {
            let shape = fact.shape.as_deref().unwrap_or_default();
            if element_count(shape).is_none_or(|count| count > MAX_ELEMENTS) {
                unsupported!("it computes too many elements");
            }
            let sizes: Option<Vec<usize>> = Dim::known_sizes(shape);
            let sizes = sizes.ok_or_else(|| Error::internal("a layer of unknown sizes"))?;
            Ok(Arc::new(random.input(fact.dtype, &sizes, (0, 1), None)?))
        };
        facts.into_iter().map(&mut drawn).collect()
    }

    /// Evaluates the nodes that define a node of a graph; `None` if none do.
    fn run_definition(
        &self,
        whole: &Graph,
        node: &Node,
        inputs: &[Option<Arc<Array>>],
        passed: Passed,
    ) -> Result<Option<Vec<Arc<Array>>>> {
        let (mut graph, mut single) = self.single_node(node, inputs, |index, input| {
            let constant = node.input(index).and_then(|id| whole.value(id).constant.clone());
            let value = described(index, input)?;
            Ok(Value { constant: value.constant.or(constant), ..value })
        })?;
        for output in single.outputs.iter_mut().flatten() {
            *output = graph.add_value(Value::default());
        }
        if !add_definition(&mut graph, &single, ops::expansion)? {
            return Ok(None);
        }
        let known = single.inputs.iter().zip(inputs).filter_map(|(id, input)| Some(((*id)?, input.clone()?)));
        let values = Values::computed(self, &graph, known, passed)?;
        let absent = || Ok(Arc::new(Array::f32(ArrayD::zeros(IxDyn(&[0])))));
        let outputs = single.outputs.iter().map(|output| output.map_or_else(absent, |id| values.get(id)));
        Ok(Some(outputs.collect::<Result<_>>()?))
    }

    /// Runs a node in the engine.
    fn run(&self, key: Option<NodeId>, node: &Node, inputs: &[Option<Arc<Array>>]) -> Result<Vec<Array>> {
        let types = self.output_types(node, inputs)?;
        let is_double = |dtype: DType| dtype == DType::F64;
        let reads_doubles = inputs.iter().flatten().any(|input| is_double(input.dtype()));
        if reads_doubles || types.iter().copied().any(is_double) {
            unsupported!("it computes in float64");
        }
        if is_misread(node, inputs) {
            unsupported!("the engine has another meaning");
        }
        let mut compiled = self.compiled.borrow_mut();
        let mut single = None;
        let compile = || self.compile(node, inputs).ok();
        let model = match key {
            Some(id) => compiled.entry(id).or_insert_with(compile),
            None => single.insert(compile()),
        };
        let Some(model) = model else { unsupported!("the engine has no such operator") };
        let mut fed = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            if let Some(input) = input {
                let id = model.node_id(&input_name(index)).map_err(engine_error)?;
                fed.push((id, to_engine(input)?));
            }
        }
        let present = node.outputs.iter().enumerate().filter(|(_, output)| output.is_some());
        let present: Vec<usize> = present.map(|(index, _)| index).collect();
        let wanted: Result<Vec<_>> =
            present.iter().map(|index| model.node_id(&output_name(*index)).map_err(engine_error)).collect();
        let outputs = model.run(fed, &wanted?, None).map_err(engine_error)?;
        let mut all = vec![Array::f32(ArrayD::zeros(IxDyn(&[0]))); node.outputs.len()];
        for (index, output) in present.into_iter().zip(outputs) {
            let dtype = types.get(index).copied();
            if let Some(array) = all.get_mut(index) {
                *array = from_engine(output, dtype)?;
            }
        }
        Ok(all)
    }

    /// Makes a model of one node, whose inputs and outputs are named by their indices.
    fn compile(&self, node: &Node, inputs: &[Option<Arc<Array>>]) -> Result<Compiled> {
        let (mut graph, mut single) = self.single_node(node, inputs, |index, input| {
            let dtype = Some(engine_type(input.dtype()));
            Ok(Value { name: input_name(index), dtype, ..Value::default() })
        })?;
        graph.inputs.extend(single.inputs.iter().flatten());
        single.outputs = Ids::new();
        for (index, output) in node.outputs.iter().enumerate() {
            single.outputs.push(output.map(|_| {
                let value = graph.add_value(Value { name: output_name(index), ..Value::default() });
                graph.outputs.push(value);
                value
            }));
        }
        if node.is_one_of(&["Conv", "ConvTranspose"])
            && !inputs.iter().skip(1).flatten().all(|input| all_floats(input, f32::is_finite))
        {
            unsupported!("the engine skips products with paddings, which may be NaN");
        }
        if state_window(&mut single, inputs).is_none() {
            unsupported!("its paddings are not known");
        }
        graph.add_node(single);
        let mut bytes = Vec::new();
        let model = Model { graph, ..self.model.clone() };
        onnx::stream(&model, &mut bytes, &op::since_version)?;
        let mut options = ModelOptions::with_all_ops();
        options.enable_optimization(false);
        options.load(bytes).map_err(engine_error)
    }

    /// Returns the types of the outputs, if the shape rule knows them.
    ///
    /// # Errors
    ///
    /// An output has too many elements.
    fn output_types(&self, node: &Node, inputs: &[Option<Arc<Array>>]) -> Result<Vec<DType>> {
        let Ok(op) = op::find_handled(node) else { return Ok(Vec::new()) };
        let (graph, single) = self.single_node(node, inputs, described)?;
        let facts = (op.infer)(&Call::new(&graph, &single, op)).unwrap_or_default();
        let count = |fact: &Fact| element_count(fact.shape.as_deref()?);
        let is_large = |fact: &Fact| count(fact).is_some_and(|count| count > MAX_ELEMENTS);
        if facts.iter().any(is_large) {
            unsupported!("it computes too many elements");
        }
        Ok(facts.into_iter().map(|fact| fact.dtype).collect())
    }

    /// Returns a graph for a single node, which is not in it, with a value for each input that is present.
    fn single_node(
        &self,
        node: &Node,
        inputs: &[Option<Arc<Array>>],
        value: impl Fn(usize, &Array) -> Result<Value>,
    ) -> Result<(Graph, Node)> {
        let mut graph = Graph::default();
        graph.opsets.clone_from(&self.model.graph.opsets);
        let mut single = node.clone();
        single.inputs = Ids::new();
        for (index, input) in inputs.iter().enumerate() {
            let value = input.as_ref().map(|input| value(index, input)).transpose()?;
            single.inputs.push(value.map(|value| graph.add_value(value)));
        }
        Ok((graph, single))
    }
}

fn shared(outputs: Vec<Array>) -> Vec<Arc<Array>> {
    outputs.into_iter().map(Arc::new).collect()
}

/// Returns a value of the type and the shape of an input; few elements are constant, as rules may read them.
fn described(_: usize, input: &Array) -> Result<Value> {
    let constant = if input.len() <= FEW { Some(Tensor::from_array(input)?) } else { None };
    let shape = input.shape().iter().map(|size| Dim::from(*size)).collect();
    Ok(Value { dtype: Some(input.dtype()), shape: Some(shape), constant, ..Value::default() })
}

/// Returns whether a node makes integers of quotients by a scale that is 0.
fn divides_by_zero(node: &Node, inputs: &[Option<Arc<Array>>]) -> bool {
    let is_zero = |array: &Arc<Array>| !all_floats(array, |x| x != 0.0);
    let quantizes = node.op_type == "QuantizeLinear" || node.op_type.starts_with("QLinear");
    quantizes && inputs.iter().skip(1).flatten().any(is_zero)
}

/// Returns whether the engine computes something else than the specification, or panics.
fn is_misread(node: &Node, inputs: &[Option<Arc<Array>>]) -> bool {
    let has_lengths = node.is_one_of(&["LSTM", "GRU", "RNN"]) && inputs.get(4).is_some_and(Option::is_some);
    let is_volume = inputs.first().and_then(Option::as_ref).is_some_and(|input| input.shape().len() > 4);
    let is_empty = inputs.iter().flatten().any(|array| array.is_empty());
    let has_nan = inputs.iter().flatten().any(|array| !all_floats(array, |x| !x.is_nan()));
    let numbers = |index: usize| {
        let input = inputs.get(index).and_then(Option::as_ref).and_then(|input| input.to_f64().ok());
        input.into_iter().flatten()
    };
    let is_far = node.is("EyeLike") && {
        let offset = node.attributes.get("k");
        matches!(offset, Some(Attribute::Int(k)) if i16::try_from(*k).is_err())
    };
    // Any mode counts: the folding evaluates all of them.
    let is_reflected_twice = node.is("Pad") && {
        let sizes = inputs.first().and_then(Option::as_ref).map(|input| input.shape());
        let shortest: f64 = sizes.and_then(|sizes| sizes.iter().min().copied()).unwrap_or_default().as_();
        numbers(1).any(|pad| pad >= shortest)
    };
    let is_backward = node.is("Slice") && numbers(4).any(|step| step < 0.0);
    let is_overflow = node.is("QuantizeLinear") && {
        let largest = numbers(0).map(f64::abs).fold(0.0, f64::max);
        numbers(1).any(|scale| largest >= LEVELS * scale.abs())
    };
    // Nets assume that there is none.
    let is_padded = node.op_type == "GroupQueryAttention" && {
        let length = |index: usize, axis: usize| {
            inputs.get(index).and_then(Option::as_ref).and_then(|input| input.shape().get(axis)).copied()
        };
        let last: f64 = (length(0, 1).unwrap_or_default() + length(3, 2).unwrap_or_default()).as_();
        numbers(5).any(|index| index + 1.0 != last)
    };
    // It pads integers with 0 instead of the zero point, and subtracts none in stacks of matrices. On
    // processors without VNNI, it adds products of integers in pairs of 16 bits, which saturate. It ignores
    // the lengths of sequences, drops NaN in attention, adds the zero point to the largest int32 and the
    // offset of a diagonal to an index, reflects once, and ends by a panic where it takes five axes in
    // reverse order.
    node.is("ConvInteger")
        || node.is("MatMulInteger")
        || has_lengths
        || is_empty
        || has_nan
        || is_far
        || is_reflected_twice
        || is_overflow
        || is_padded
        || (is_volume && (node.is("ConvTranspose") || is_backward))
}

/// States the attributes of windows that have defaults, and paddings instead of their mode: the engine takes
/// the defaults of two axes, and pads SAME_LOWER as SAME_UPPER. The conversion, which is checked, has no
/// part in it.
fn state_window(node: &mut Node, inputs: &[Option<Arc<Array>>]) -> Option<()> {
    if !node.is_one_of(&["Conv", "ConvTranspose", "MaxPool", "AveragePool"]) {
        return Some(());
    }
    let sizes: Vec<i64> = inputs.first()?.as_ref()?.shape().iter().skip(2).map(|size| size.as_()).collect();
    let ints = |node: &Node, name: &str| match node.attributes.get(name) {
        Some(Attribute::Ints(list)) => Some(list.clone()),
        _ => None,
    };
    let weight = inputs.get(1).and_then(Option::as_ref);
    let of_weight = || weight.map(|weight| weight.shape().iter().skip(2).map(|size| size.as_()).collect());
    let kernel: Vec<i64> = ints(node, "kernel_shape").or_else(of_weight)?;
    let is_pool = node.is_one_of(&["MaxPool", "AveragePool"]);
    let strides = ints(node, "strides").unwrap_or_else(|| vec![1; sizes.len()]);
    let dilations = ints(node, "dilations").unwrap_or_else(|| vec![1; sizes.len()]);
    let mut pads = ints(node, "pads").unwrap_or_else(|| vec![0; 2 * sizes.len()]);
    let mode = match node.attributes.get("auto_pad") {
        Some(Attribute::String(mode)) => mode.clone(),
        _ => Bytes::from_static(b"NOTSET"),
    };
    if mode.starts_with(b"SAME") {
        if node.is("ConvTranspose") {
            return None;
        }
        let windows = sizes.iter().zip(&kernel).zip(strides.iter().zip(&dilations));
        let totals = windows.map(|((size, kernel), (stride, dilation))| {
            let steps = (size + stride - 1).checked_div(*stride)?;
            Some(((steps - 1) * stride + (kernel - 1) * dilation + 1 - size).max(0))
        });
        let totals: Vec<i64> = totals.collect::<Option<_>>()?;
        let is_lower = *mode == *b"SAME_LOWER";
        let before = totals.iter().map(|total| if is_lower { total - total / 2 } else { total / 2 });
        let before: Vec<i64> = before.collect();
        let after = totals.iter().zip(&before).map(|(total, before)| total - before);
        pads = before.iter().copied().chain(after).collect();
    }
    node.attributes.remove("auto_pad");
    node.attributes.insert("strides".into(), Attribute::Ints(strides));
    node.attributes.insert("pads".into(), Attribute::Ints(pads));
    if !is_pool {
        node.attributes.insert("dilations".into(), Attribute::Ints(dilations));
    }
    Some(())
}

fn input_name(index: usize) -> String {
    format!("input{index}")
}

fn output_name(index: usize) -> String {
    format!("output{index}")
}

fn engine_error(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::unsupported("the engine does not compute it").caused_by(error)
}

/// Returns the type in which the engine takes elements: it has no half precision.
fn engine_type(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype }
}

fn to_engine(array: &Array) -> Result<ValueOrView<'_>> {
    fn value<T>(array: &Array, list: Vec<T>) -> Result<ValueOrView<'static>>
    where
        EngineValue: From<rten_tensor::Tensor<T>>,
    {
        Ok(EngineValue::from_shape(array.shape(), list).map_err(engine_error)?.into())
    }
    match (array.dtype(), array.elements()) {
        (_, Elements::F32(list)) => match list.as_slice() {
            Some(slice) => Ok(TensorView::from_data(array.shape(), slice).into()),
            None => value(array, list.iter().copied().collect::<Vec<f32>>()),
        },
        (DType::U8, Elements::I64(list)) => value::<u8>(array, list.iter().map(|x| (*x).as_()).collect()),
        (DType::I8, Elements::I64(list)) => value::<i8>(array, list.iter().map(|x| (*x).as_()).collect()),
        (_, Elements::I64(list)) => {
            let list = list.iter().map(|x| i32::try_from(*x));
            value::<i32>(array, list.collect::<std::result::Result<_, _>>()?)
        }
        (dtype, _) => unsupported!("elements of type {dtype}"),
    }
}

fn from_engine(value: EngineValue, dtype: Option<DType>) -> Result<Array> {
    fn elements<T: Clone, U>(tensor: rten_tensor::Tensor<T>, convert: impl Fn(T) -> U) -> Result<ArrayD<U>> {
        let shape = IxDyn(tensor.shape());
        let list = tensor.into_data().into_iter().map(convert).collect();
        ArrayD::from_shape_vec(shape, list).map_err(|_| Error::internal("elements of another shape"))
    }
    let (found, all) = match value {
        EngineValue::FloatTensor(tensor) => (DType::F32, Elements::F32(elements(tensor, |value| value)?)),
        EngineValue::Int32Tensor(tensor) => (DType::I64, Elements::I64(elements(tensor, i64::from)?)),
        EngineValue::Int8Tensor(tensor) => (DType::I8, Elements::I64(elements(tensor, i64::from)?)),
        EngineValue::UInt8Tensor(tensor) => (DType::U8, Elements::I64(elements(tensor, i64::from)?)),
        _ => unsupported!("a sequence"),
    };
    let dtype = dtype.unwrap_or(found);
    if dtype.is_float() != found.is_float() {
        unsupported!("elements of type {found} instead of {dtype}");
    }
    Ok(Array::new(dtype, all))
}
