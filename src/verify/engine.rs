//! Nodes of a model, evaluated one by one: by an engine for ONNX, or else by the evaluation of the operator.

use std::cell::RefCell;
use std::collections::BTreeMap;

use bytes::Bytes;
use ndarray::{ArrayD, IxDyn};
use num_traits::AsPrimitive;
use rten::{Model as Compiled, ModelOptions, Value as EngineValue};
use rten_tensor::prelude::*;

use super::evaluate::evaluation;
use crate::error::{Error, Result, unsupported};
use crate::graph::{Attribute, Graph, Ids, Node, NodeId, Value};
use crate::onnx::{self, Model};
use crate::op::{self, Call, Inputs};
use crate::tensor::{Array, DType, Dim, Elements, Tensor};

/// The most elements of an input whose elements the shape rule may read.
const FEW: usize = 4096;

/// The engine adds the zero point to quotients up to this number.
const LEVELS: f64 = 1_073_741_824.0;

/// The evaluator of the nodes of a model.
pub(super) struct Engine<'a> {
    model: &'a Model,
    /// The nodes as models of their own, by the ids of the nodes; `None` for those that the engine refuses.
    compiled: RefCell<BTreeMap<NodeId, Option<Compiled>>>,
}

impl<'a> Engine<'a> {
    pub fn new(model: &'a Model) -> Engine<'a> {
        Engine { model, compiled: RefCell::default() }
    }

    /// Evaluates a node on its inputs; `None` for omitted ones.
    ///
    /// # Errors
    ///
    /// `Unsupported` if neither evaluates the node.
    pub fn evaluate(&self, id: NodeId, inputs: Vec<Option<Array>>) -> Result<Vec<Array>> {
        let Some(node) = self.model.graph.node(id) else { return Err(Error::internal("no node")) };
        let known = op::find_handled(node).ok();
        if let Some((op, evaluation)) = known.and_then(|op| Some((op, evaluation(node)?))) {
            let (graph, inputs) = (Graph::default(), Inputs::of(inputs));
            return evaluation(&Call::evaluated(&graph, node, op, &inputs));
        }
        let op = known.filter(|op| op.fold.is_some());
        // The engine approximates functions, and takes the last of equal maxima. But where the layers follow
        // from the moves of an operator, as its evaluation does, the engine is another witness.
        if let Some(op) = op.filter(|op| op.moves.is_none()) {
            return op.evaluate(node, inputs);
        }
        match (self.run(id, node, &inputs), op) {
            (Ok(outputs), _) => Ok(outputs),
            (Err(_), Some(op)) => op.evaluate(node, inputs),
            (Err(reason), None) => {
                Err(Error::unsupported(format!("{} is not evaluated", node.qualified_op_type()))
                    .caused_by(reason))
            }
        }
    }

    /// Runs a node in the engine.
    fn run(&self, id: NodeId, node: &Node, inputs: &[Option<Array>]) -> Result<Vec<Array>> {
        let types = self.output_types(node, inputs)?;
        let is_double = |dtype: DType| dtype == DType::F64;
        let given_doubles = inputs.iter().flatten().any(|input| is_double(input.dtype()));
        if given_doubles || types.iter().copied().any(is_double) || node.bodies().next().is_some() {
            unsupported!("it computes in float64, or has a body");
        }
        if is_misread(node, inputs) {
            unsupported!("the engine has another meaning");
        }
        let mut compiled = self.compiled.borrow_mut();
        let model = compiled.entry(id).or_insert_with(|| self.compile(node, inputs).ok());
        let Some(model) = model else { unsupported!("the engine has no such operator") };
        let mut given = Vec::new();
        for (index, input) in inputs.iter().enumerate() {
            if let Some(input) = input {
                let id = model.node_id(&input_name(index)).map_err(engine_error)?;
                given.push((id, to_engine(input)?.into()));
            }
        }
        let present = node.outputs.iter().enumerate().filter(|(_, output)| output.is_some());
        let present: Vec<usize> = present.map(|(index, _)| index).collect();
        let wanted: Result<Vec<_>> =
            present.iter().map(|index| model.node_id(&output_name(*index)).map_err(engine_error)).collect();
        let outputs = model.run(given, &wanted?, None).map_err(engine_error)?;
        let mut all = vec![Array::f32(ArrayD::zeros(IxDyn(&[0]))); node.outputs.len()];
        for (index, output) in present.into_iter().zip(outputs) {
            let dtype = types.get(index).copied();
            if let Some(place) = all.get_mut(index) {
                *place = from_engine(output, dtype)?;
            }
        }
        Ok(all)
    }

    /// Makes a model of one node, whose inputs and outputs are named by their indices.
    fn compile(&self, node: &Node, inputs: &[Option<Array>]) -> Result<Compiled> {
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
        if node.is_one_of(&["Conv", "ConvTranspose"]) && inputs.iter().skip(1).flatten().any(is_infinite) {
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
    fn output_types(&self, node: &Node, inputs: &[Option<Array>]) -> Result<Vec<DType>> {
        let Ok(op) = op::find_handled(node) else { return Ok(Vec::new()) };
        let (graph, single) = self.single_node(node, inputs, |_, input| {
            let constant = if input.len() <= FEW { Some(Tensor::from_array(input)?) } else { None };
            let shape = input.shape().iter().map(|size| Dim::from(*size)).collect();
            Ok(Value { dtype: Some(input.dtype()), shape: Some(shape), constant, ..Value::default() })
        })?;
        let facts = (op.infer)(&Call::new(&graph, &single, op)).unwrap_or_default();
        Ok(facts.into_iter().map(|fact| fact.dtype).collect())
    }

    /// Returns a graph for a single node, which is not in it, with a value for each input that is present.
    fn single_node(
        &self,
        node: &Node,
        inputs: &[Option<Array>],
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

/// Returns whether the engine computes something else than the specification, or panics.
fn is_misread(node: &Node, inputs: &[Option<Array>]) -> bool {
    let has_lengths = node.is_one_of(&["LSTM", "GRU", "RNN"]) && inputs.get(4).is_some_and(Option::is_some);
    let is_volume = inputs.first().and_then(Option::as_ref).is_some_and(|input| input.shape().len() > 4);
    let is_empty = inputs.iter().flatten().any(Array::is_empty);
    let numbers = |index: usize| {
        let input = inputs.get(index).and_then(Option::as_ref).and_then(|input| input.to_f64().ok());
        input.into_iter().flatten()
    };
    let is_backward = node.is("Slice") && numbers(4).any(|step| step < 0.0);
    let is_overflow = node.is("QuantizeLinear") && {
        let largest = numbers(0).map(f64::abs).fold(0.0, f64::max);
        numbers(1).any(|scale| largest >= LEVELS * scale.abs())
    };
    // It pads integers with 0 in place of the zero point, ignores the lengths of sequences, adds the zero
    // point to the largest int32, and ends by a panic where it takes five axes in reverse order.
    node.is("ConvInteger")
        || has_lengths
        || is_empty
        || is_overflow
        || (is_volume && (node.is("ConvTranspose") || is_backward))
}

fn is_infinite(array: &Array) -> bool {
    matches!(array.elements(), Elements::F32(elements) if elements.iter().any(|x| !x.is_finite()))
}

/// States the attributes of windows that have defaults, and paddings in place of their mode: the engine takes
/// the defaults of two axes, and pads SAME_LOWER as SAME_UPPER. The conversion, which is checked, has no
/// part in it.
fn state_window(node: &mut Node, inputs: &[Option<Array>]) -> Option<()> {
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

/// Returns the type in which the engine is given elements: it has no half precision.
fn engine_type(dtype: DType) -> DType {
    if dtype.is_float() { DType::F32 } else { dtype }
}

fn to_engine(array: &Array) -> Result<EngineValue> {
    fn value<T>(array: &Array, list: Vec<T>) -> Result<EngineValue>
    where
        EngineValue: From<rten_tensor::Tensor<T>>,
    {
        EngineValue::from_shape(array.shape(), list).map_err(engine_error)
    }
    match (array.dtype(), array.elements()) {
        (_, Elements::F32(list)) => value(array, list.iter().copied().collect::<Vec<f32>>()),
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
    fn elements<T: Clone, U>(shape: &[usize], list: Vec<T>, convert: impl Fn(T) -> U) -> Result<ArrayD<U>> {
        let list = list.into_iter().map(convert).collect();
        ArrayD::from_shape_vec(IxDyn(shape), list).map_err(|_| Error::internal("elements of another shape"))
    }
    let (found, all) = match value {
        EngineValue::FloatTensor(tensor) => {
            (DType::F32, Elements::F32(elements(tensor.shape(), tensor.to_vec(), |value| value)?))
        }
        EngineValue::Int32Tensor(tensor) => {
            (DType::I64, Elements::I64(elements(tensor.shape(), tensor.to_vec(), i64::from)?))
        }
        EngineValue::Int8Tensor(tensor) => {
            (DType::I8, Elements::I64(elements(tensor.shape(), tensor.to_vec(), i64::from)?))
        }
        EngineValue::UInt8Tensor(tensor) => {
            (DType::U8, Elements::I64(elements(tensor.shape(), tensor.to_vec(), i64::from)?))
        }
        _ => unsupported!("a sequence"),
    };
    let dtype = dtype.unwrap_or(found);
    if dtype.is_float() != found.is_float() {
        unsupported!("elements of type {found} in place of {dtype}");
    }
    Ok(Array::new(dtype, all))
}
