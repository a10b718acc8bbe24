//! A random graph under construction.

use std::ops::RangeInclusive;

use bytes::Bytes;
use fastrand::Rng;
use onnx2ncnn::{Converter, Input, ModelBytes};
use prost::Message;

use super::pick;
use crate::proto::tensor_shape_proto::{Dimension, dimension::Value as Size};
use crate::proto::type_proto::{Tensor, Value as Kind};
use crate::proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto, TensorProto, TensorShapeProto,
    TypeProto, ValueInfoProto,
};

pub const FLOAT: i32 = 1;
pub const U8: i32 = 2;
pub const I8: i32 = 3;
pub const I32: i32 = 6;
pub const I64: i32 = 7;
pub const BOOL: i32 = 9;
pub const HALF: i32 = 10;

/// The element types of values, by the names that an inspection returns.
const TYPES: [(&str, i32); 7] = [
    ("float32", FLOAT),
    ("uint8", U8),
    ("int8", I8),
    ("int32", I32),
    ("int64", I64),
    ("bool", BOOL),
    ("float16", HALF),
];
/// The most elements and axes of a value.
const MOST: (i64, usize) = (4096, 6);
/// The versions of operators.
const VERSIONS: RangeInclusive<i64> = 8..=26;
/// Numbers of constants with which operations can be removed or merged.
const ROUND: [f64; 6] = [0.0, 1.0, -1.0, 0.5, 2.0, 6.0];
/// The bounds of integers that float32 or int32 represent.
const BOUNDS: [i64; 6] = [1 << 24, (1 << 24) + 1, -(1 << 24), (1 << 31) - 1, -(1 << 31), 1 << 30];

/// A value of the graph, or a constant.
#[derive(Clone, Debug, Default)]
pub struct Value {
    /// Empty for an omitted input.
    pub name: String,
    pub dtype: i32,
    pub shape: Vec<i64>,
}

impl Value {
    pub fn rank(&self) -> i64 {
        i64::try_from(self.shape.len()).unwrap()
    }

    pub fn size(&self, axis: i64) -> i64 {
        self.shape[usize::try_from(axis).unwrap()]
    }

    pub fn is_int(&self) -> bool {
        [I32, I64].contains(&self.dtype)
    }
}

/// An attribute.
#[derive(Clone, Debug)]
pub enum Attr {
    Int(i64),
    Float(f32),
    Text(&'static str),
    Ints(Vec<i64>),
}

/// Draws numbers, and adds nodes to a graph. What does not fit the graph is `None`.
pub struct Draw {
    pub rng: Rng,
    /// The version of the operators.
    pub version: i64,
    /// The type of all floats: float32, or else float16.
    pub float: i32,
    graph: GraphProto,
    values: Vec<Value>,
    names: usize,
}

impl Draw {
    pub fn new(mut rng: Rng) -> Draw {
        let version = rng.i64(VERSIONS);
        let float = if rng.u8(0..12) == 0 { HALF } else { FLOAT };
        let graph = GraphProto { name: Some("random".to_owned()), ..GraphProto::default() };
        let mut draw = Draw { rng, version, float, graph, values: Vec::new(), names: 0 };
        for _ in 0..draw.int(1, 2) {
            let shape = draw.shape();
            draw.input(float, shape);
        }
        for dtype in [I32, I64, BOOL] {
            if draw.chance(0.1) {
                let shape = if draw.chance(0.6) { draw.values[0].shape.clone() } else { draw.shape() };
                draw.input(dtype, shape);
            }
        }
        draw
    }

    pub fn chance(&mut self, part: f64) -> bool {
        self.rng.f64() < part
    }

    /// Returns an integer between two, both included.
    pub fn int(&mut self, low: i64, high: i64) -> i64 {
        self.rng.i64(low..=high.max(low))
    }

    pub fn one<T: Clone>(&mut self, list: &[T]) -> T {
        pick(list, &mut self.rng).unwrap().clone()
    }

    /// Returns a number between two.
    pub fn real(&mut self, low: f32, high: f32) -> Attr {
        Attr::Float(low + (high - low) * self.rng.f32())
    }

    pub fn flag(&mut self) -> Attr {
        Attr::Int(self.int(0, 1))
    }

    /// Returns some of the axes of a value, in order, and at times from the end.
    pub fn axes(&mut self, x: &Value) -> Vec<i64> {
        let mut axes: Vec<i64> = (0..x.rank()).collect();
        self.rng.shuffle(&mut axes);
        axes.truncate(usize::try_from(self.int(1, x.rank())).unwrap());
        axes.sort_unstable();
        let from = if self.version >= 11 && self.chance(0.2) { x.rank() } else { 0 };
        axes.iter().map(|axis| axis - from).collect()
    }

    /// Returns a divisor of a number.
    pub fn divisor(&mut self, number: i64) -> i64 {
        let divisors: Vec<i64> = [1, 2, 3, 4, 5, 6, 8].into_iter().filter(|d| number % d == 0).collect();
        self.one(&divisors)
    }

    fn shape(&mut self) -> Vec<i64> {
        let rank = self.one(&[1, 2, 3, 3, 4, 4, 4, 5]);
        let mut shape: Vec<i64> = (0..rank).map(|_| self.one(&[1, 2, 3, 4, 5, 6, 7, 8])).collect();
        if rank > 1 && self.chance(0.7) {
            shape[0] = 1;
        }
        shape
    }

    fn name(&mut self, start: &str) -> String {
        self.names += 1;
        format!("{start}{}", self.names)
    }

    pub fn input(&mut self, dtype: i32, shape: Vec<i64>) -> Value {
        let value = Value { name: self.name("x"), dtype, shape };
        let dim = |size: &i64| Dimension { denotation: None, value: Some(Size::DimValue(*size)) };
        let shape = TensorShapeProto { dim: value.shape.iter().map(dim).collect() };
        let kind = Kind::TensorType(Tensor { elem_type: Some(dtype), shape: Some(shape) });
        let kind = TypeProto { denotation: None, value: Some(kind) };
        self.graph.input.push(info(&value.name, Some(kind)));
        self.values.push(value.clone());
        value
    }

    /// Returns a value, preferably a late one.
    pub fn value(&mut self, is_fit: impl Fn(&Value) -> bool) -> Option<Value> {
        let fit: Vec<Value> = self.values.iter().rev().filter(|value| is_fit(value)).cloned().collect();
        let mut place = 0;
        while place + 1 < fit.len() && self.chance(0.5) {
            place += 1;
        }
        fit.get(place).cloned()
    }

    /// Returns a value of floats with a number of axes.
    pub fn floats(&mut self, ranks: RangeInclusive<i64>) -> Option<Value> {
        let float = self.float;
        self.value(|value| value.dtype == float && ranks.contains(&value.rank()))
    }

    /// Returns a value of integers, by a cast if the graph has none.
    pub fn integers(&mut self) -> Option<Value> {
        match self.value(Value::is_int) {
            Some(value) => Some(value),
            None => {
                let (x, dtype) = (self.floats(0..=6)?, self.one(&[I32, I64]));
                self.op("Cast", &[&x], &[("to", Attr::Int(dtype.into()))])
            }
        }
    }

    /// Returns a constant of an element type. Some are results of nodes on constants.
    pub fn constant(&mut self, dtype: i32, shape: &[i64], elements: &[f64]) -> Value {
        let encode = |x: &f64| match dtype {
            FLOAT => (*x as f32).to_le_bytes().to_vec(),
            HALF => half::f16::from_f64(*x).to_le_bytes().to_vec(),
            I64 => (*x as i64).to_le_bytes().to_vec(),
            I32 => (*x as i32).to_le_bytes().to_vec(),
            _ => vec![*x as i64 as u8],
        };
        let name = self.name("c");
        self.graph.initializer.push(TensorProto {
            name: Some(name.clone()),
            dims: shape.to_vec(),
            data_type: Some(dtype),
            raw_data: Some(Bytes::from_iter(elements.iter().flat_map(encode))),
            ..TensorProto::default()
        });
        let constant = Value { name, dtype, shape: shape.to_vec() };
        if [FLOAT, I64].contains(&dtype) && self.chance(0.04) {
            let op = self.one(&["Identity", "Abs", "Neg"]);
            let op = if dtype == I64 { "Identity" } else { op };
            let name = self.name("c");
            self.graph.node.push(node(op, &[&constant], &[], vec![name.clone()]));
            return Value { name, ..constant };
        }
        constant
    }

    /// Returns a constant of random floats.
    pub fn normal(&mut self, shape: &[i64], scale: f64) -> Value {
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
        let round = if self.chance(0.12) { Some(self.one(&ROUND)) } else { None };
        let mut normal = || 2.0 * scale * (self.rng.f64() + self.rng.f64() + self.rng.f64() - 1.5);
        let elements: Vec<f64> = (0..count).map(|_| round.unwrap_or_else(&mut normal)).collect();
        self.constant(self.float, shape, &elements)
    }

    /// Returns a constant of random integers, most of them small.
    pub fn whole(&mut self, dtype: i32, shape: &[i64]) -> Value {
        let count = usize::try_from(shape.iter().product::<i64>()).unwrap();
        let is_large = self.chance(0.1);
        let integer = |draw: &mut Draw| {
            if is_large && draw.chance(0.3) { draw.one(&BOUNDS) } else { draw.int(-5, 9) }
        };
        let elements: Vec<f64> = (0..count).map(|_| integer(self) as f64).collect();
        self.constant(dtype, shape, &elements)
    }

    pub fn scalar(&mut self, number: f64) -> Value {
        let shape: &[i64] = if self.chance(0.3) { &[1] } else { &[] };
        self.constant(self.float, shape, &[number])
    }

    pub fn ints(&mut self, list: &[i64]) -> Value {
        let elements: Vec<f64> = list.iter().map(|x| *x as f64).collect();
        self.constant(I64, &[i64::try_from(list.len()).unwrap()], &elements)
    }

    /// Returns a constant that broadcasts with a value.
    pub fn operand(&mut self, x: &Value) -> Value {
        let mut shape: Vec<i64> = Vec::new();
        for size in &x.shape {
            shape.push(if self.chance(0.6) { *size } else { 1 });
        }
        if self.chance(0.4) {
            shape.drain(..self.rng.usize(0..=shape.len()));
        }
        match x.dtype {
            FLOAT | HALF => self.normal(&shape, 1.0),
            dtype => self.whole(dtype, &shape),
        }
    }

    /// Adds a node with one output.
    pub fn op(&mut self, op_type: &str, inputs: &[&Value], attributes: &[(&str, Attr)]) -> Option<Value> {
        self.node(op_type, inputs, attributes, 1)?.pop()
    }

    /// Adds a node of a value and a number.
    pub fn by(&mut self, op_type: &str, x: &Value, number: f64) -> Option<Value> {
        let number = self.scalar(number);
        self.op(op_type, &[x, &number], &[])
    }

    /// Adds a node with a list that is an input from a version on, and an attribute before.
    pub fn listed(
        &mut self,
        op_type: &str,
        x: &Value,
        (name, since, list): (&str, i64, &[i64]),
        attributes: &[(&str, Attr)],
        outputs: usize,
    ) -> Option<Vec<Value>> {
        if self.version >= since {
            let list = self.ints(list);
            return self.node(op_type, &[x, &list], attributes, outputs);
        }
        let list = (name, Attr::Ints(list.to_vec()));
        self.node(op_type, &[x], &[attributes, &[list]].concat(), outputs)
    }

    /// Adds a node, if the library infers the shapes of its outputs and they are small.
    pub fn node(
        &mut self,
        op_type: &str,
        inputs: &[&Value],
        attributes: &[(&str, Attr)],
        outputs: usize,
    ) -> Option<Vec<Value>> {
        let names: Vec<String> = (0..outputs).map(|_| self.name("v")).collect();
        self.graph.node.push(node(op_type, inputs, attributes, names.clone()));
        let inferred = self.inferred(&names);
        match &inferred {
            Some(values) => self.values.extend(values.iter().cloned()),
            None => drop(self.graph.node.pop()),
        }
        inferred
    }

    fn inferred(&mut self, names: &[String]) -> Option<Vec<Value>> {
        self.graph.output = names.iter().map(|name| info(name, None)).collect();
        let bytes = self.model().encode_to_vec();
        let outputs = Converter::new().inspect(&Input::Memory(ModelBytes::new(bytes))).ok()?.outputs;
        let value = |output: onnx2ncnn::Described| {
            let (_, dtype) = TYPES.iter().find(|(name, _)| *name == output.dtype)?;
            let shape = output.shape?.iter().map(|size| size.known()).collect::<Option<Vec<i64>>>()?;
            let count: i64 = shape.iter().product();
            let is_fit = (1..=MOST.0).contains(&count) && shape.len() <= MOST.1;
            is_fit.then_some(Value { name: output.name, dtype: *dtype, shape })
        };
        outputs.into_iter().map(value).collect()
    }

    fn model(&self) -> ModelProto {
        let opset = |domain: &str, version: i64| OperatorSetIdProto {
            domain: Some(domain.to_owned()),
            version: Some(version),
        };
        ModelProto {
            ir_version: Some(10),
            opset_import: vec![opset("", self.version), opset("com.microsoft", 1)],
            graph: Some(self.graph.clone()),
            ..ModelProto::default()
        }
    }

    /// Returns the model, with the values that nothing reads, and some others, as outputs. Some models have
    /// free sizes.
    pub fn finish(mut self) -> Option<ModelProto> {
        let is_read = |graph: &GraphProto, name: &str| {
            graph.node.iter().any(|node| node.input.iter().any(|input| input == name))
        };
        let computed: Vec<String> = self.graph.node.iter().flat_map(|node| node.output.clone()).collect();
        let mut ends = Vec::new();
        for name in computed.iter().filter(|name| self.values.iter().any(|value| value.name == **name)) {
            if !is_read(&self.graph, name) || self.rng.u8(0..20) == 0 {
                ends.push(name.clone());
            }
        }
        let ends = ends.split_off(ends.len().saturating_sub(4));
        self.graph.output = ends.iter().map(|name| info(name, None)).collect();
        let read: Vec<String> = self.graph.node.iter().flat_map(|node| node.input.clone()).collect();
        self.graph.initializer.retain(|constant| read.contains(constant.name.as_ref().unwrap()));
        self.graph.input.retain(|input| read.contains(input.name.as_ref().unwrap()));
        if self.chance(0.3) {
            let share = self.rng.bool();
            let rng = &mut self.rng;
            for (index, input) in self.graph.input.iter_mut().enumerate() {
                let Some(Kind::TensorType(tensor)) = &mut input.r#type.as_mut()?.value else { continue };
                for (axis, dim) in tensor.shape.iter_mut().flat_map(|shape| &mut shape.dim).enumerate() {
                    let Some(Size::DimValue(size)) = dim.value else { continue };
                    if size > 1 && rng.bool() {
                        let name = if share { format!("S{size}") } else { format!("S{index}_{axis}") };
                        dim.value = Some(Size::DimParam(name));
                    }
                }
            }
        }
        (!ends.is_empty()).then(|| self.model())
    }
}

fn info(name: &str, kind: Option<TypeProto>) -> ValueInfoProto {
    ValueInfoProto { name: Some(name.to_owned()), r#type: kind, ..ValueInfoProto::default() }
}

/// Operators of the domain `com.microsoft` are named with it.
fn node(op_type: &str, inputs: &[&Value], attributes: &[(&str, Attr)], outputs: Vec<String>) -> NodeProto {
    let attribute = |(name, value): &(&str, Attr)| {
        let mut attribute = AttributeProto { name: Some((*name).to_owned()), ..AttributeProto::default() };
        let kind = match value {
            Attr::Int(x) => (attribute.i = Some(*x), 2).1,
            Attr::Float(x) => (attribute.f = Some(*x), 1).1,
            Attr::Text(x) => (attribute.s = Some(Bytes::from_static(x.as_bytes())), 3).1,
            Attr::Ints(x) => (attribute.ints.clone_from(x), 7).1,
        };
        attribute.r#type = Some(kind);
        attribute
    };
    let (domain, op_type) = op_type.split_once(':').unwrap_or(("", op_type));
    NodeProto {
        name: Some(format!("{op_type}_{}", outputs[0])),
        op_type: Some(op_type.to_owned()),
        domain: Some(domain.to_owned()),
        input: inputs.iter().map(|input| input.name.clone()).collect(),
        output: outputs,
        attribute: attributes.iter().map(attribute).collect(),
        ..NodeProto::default()
    }
}
