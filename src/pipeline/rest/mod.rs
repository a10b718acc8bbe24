//! The rest of a model behind the outputs of a part, as statements of a program.
//!
//! How many boxes, key points or samples a model selects depends on elements, so no net has that part: the
//! program computes it with functions named after operators, which each language has in a file.

mod operators;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use super::conversion::Conversion;
use super::inspect::infer_model;
use super::{Options, Port};
use crate::common::index::IndexSet;
use crate::common::int::Int;
use crate::graph::{Attribute, Graph, Node, NodeId, Value, ValueId};
use crate::pass::infer::infer_and_fold;
use crate::tensor::{Array, DType, Dim, Elements};

/// The maximum number of elements of a constant in the text of a program. The net has larger ones as outputs.
const MAX_ELEMENTS: usize = 64;

/// The maximum number of elements of a constant that is read to find out whether all of them are equal.
const MAX_LOADED: usize = 1 << 20;

/// The maximum number of statements of a program: more are too long for a method of Java.
const MAX_STATEMENTS: usize = 1500;

/// Words that cannot be names of variables in one of the languages, and names that programs use.
const RESERVED: &str = "Op abs all and any array as assert async auto await bool break by case catch char class \
                        companion const continue data def default del delete do double elif else enum except \
                        explicit export extern false finally float for friend from fun global goto if import \
                        in init inline int interface is it lambda len list long map max min mutable namespace \
                        ncnn net new None nonlocal not np null object op operator or out package pass \
                        private protected public raise range register results return short signed sizeof \
                        static std struct sum super switch template this throw true try type typealias \
                        typedef union unsigned using val values var vararg virtual void volatile when where \
                        while with xor yield";

/// What a model computes behind the outputs of a part.
#[derive(Clone, Debug)]
pub(crate) enum Rest {
    /// Statements that compute the outputs of the model.
    Computed(Computed),
    /// A program does not compute it.
    Omitted(Omitted),
}

/// Statements that compute the outputs of a model.
#[derive(Clone, Debug, Default)]
pub(crate) struct Computed {
    pub inputs: Vec<RestInput>,
    pub statements: Vec<Statement>,
    /// The outputs of the model.
    pub outputs: Vec<Port>,
    /// The variables that hold them.
    pub results: Vec<String>,
}

/// An output of the net that the statements read.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct RestInput {
    pub variable: String,
    /// The index of the output of the net.
    pub output: usize,
    /// The shape in the model, -1 for a free size.
    pub shape: Vec<i64>,
    /// The function that gives the elements their type in the model, unless they are floats.
    pub cast: Option<&'static str>,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) enum Statement {
    Call(FunctionCall),
    /// One of two branches: the variable of the condition, the variables of the results, and the branch of a
    /// true condition before the other one.
    If {
        condition: String,
        targets: Vec<Option<String>>,
        branches: [Branch; 2],
    },
}

/// Statements, and the variables of their results.
#[derive(Clone, Debug)]
pub(crate) struct Branch {
    pub statements: Vec<Statement>,
    pub results: Vec<String>,
}

/// A call of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FunctionCall {
    /// The variables of the results; `None` for a result without a reader.
    pub targets: Vec<Option<String>>,
    pub function: &'static str,
    pub arguments: Vec<Argument>,
}

impl FunctionCall {
    /// Returns whether the function returns a list of results.
    pub fn is_of_list(&self) -> bool {
        ["split", "top_k", "best_boxes"].contains(&self.function)
    }
}

/// An argument of a function.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Argument {
    Value(String),
    /// An input that may be omitted.
    Optional(Option<String>),
    Values(Vec<String>),
    /// Sizes, axes, or the elements of a constant.
    Integers(Vec<i64>),
    /// The elements of a constant.
    Floats(Vec<f32>),
    Integer(i64),
    Float(f32),
    Flag(bool),
}

/// Why a program does not compute the rest of a model.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Omitted {
    /// Operators without a function, or with attributes that it does not have.
    pub operators: BTreeSet<String>,
    /// Constants that are too large for the text of a program: as outputs of the net it can use them.
    pub constants: BTreeSet<String>,
    /// Inputs of the model, and values of the net with several free sizes.
    pub values: BTreeSet<String>,
}

impl Omitted {
    fn is_empty(&self) -> bool {
        self.operators.is_empty() && self.constants.is_empty() && self.values.is_empty()
    }
}

/// Returns what follows the outputs of a part. `None` if it ends at outputs of the model, or if other inputs
/// than its own decide the rest.
pub(crate) fn rest(part: &Conversion) -> Option<Rest> {
    let Conversion { sources, options, inputs, outputs, .. } = part;
    if options.outputs.is_empty() {
        return None;
    }
    let mut whole = Options { outputs: Vec::new(), ..options.clone() };
    if !options.chw {
        // The net has the sizes of a batch of 1.
        whole.input_shapes.retain(|(name, _)| inputs.iter().all(|port| port.name != *name));
        whole.input_shapes.extend(inputs.iter().map(|port| (port.name.clone(), port.shape.clone())));
    }
    let (_, graph) = infer_model(sources, &whole).ok()?;
    rest_of(&graph, &options.outputs, outputs)
}

fn rest_of(graph: &Graph, names: &[String], outputs: &[Port]) -> Option<Rest> {
    let ids: BTreeMap<&str, ValueId> =
        graph.value_ids().map(|id| (graph.value(id).name.as_str(), id)).collect();
    let seeds: BTreeMap<ValueId, usize> =
        (names.iter().enumerate()).filter_map(|(at, name)| Some((*ids.get(name.as_str())?, at))).collect();
    if graph.outputs.iter().all(|id| seeds.contains_key(id)) {
        return None;
    }
    let mut writer = Writer {
        graph,
        needed: IndexSet::default(),
        variables: BTreeMap::new(),
        used: RESERVED.split_whitespace().map(str::to_owned).collect(),
        statements: Vec::new(),
        omitted: Omitted::default(),
    };
    let inputs = writer.read(&seeds, outputs);
    let results = writer.write_all();
    if !writer.omitted.is_empty() || writer.statements.len() > MAX_STATEMENTS {
        return Some(Rest::Omitted(writer.omitted));
    }
    let outputs = graph.outputs.iter().map(|id| port(graph.value(*id))).collect();
    Some(Rest::Computed(Computed { inputs, statements: writer.statements, outputs, results }))
}

/// Returns an output of the model as if a net had it.
fn port(value: &Value) -> Port {
    let shape: Vec<Dim> = value.shape.iter().flatten().cloned().collect();
    Port {
        name: value.name.clone(),
        dtype: value.dtype.map_or("?", DType::name).to_owned(),
        blob: value.name.clone(),
        form: shape.clone(),
        shape,
        int32: false,
        cache: None,
    }
}

/// The statements of nodes, in order.
struct Writer<'a> {
    graph: &'a Graph,
    /// The values that the results depend on.
    needed: IndexSet<ValueId>,
    variables: BTreeMap<ValueId, String>,
    /// All names that are taken.
    used: BTreeSet<String>,
    statements: Vec<Statement>,
    omitted: Omitted,
}

impl<'a> Writer<'a> {
    /// Writes all nodes between the values that have variables and the outputs of the graph. Returns the
    /// variables of these.
    fn write_all(&mut self) -> Vec<String> {
        for node in self.nodes_behind() {
            if self.write(node).is_none() {
                self.omitted.operators.insert(node.qualified_op_type());
                // The message names this node, and no node that reads its results.
                node.outputs.iter().flatten().for_each(|id| drop(self.name(*id)));
            }
        }
        let outputs = self.graph.outputs.iter();
        outputs.filter_map(|id| self.variable(*id).map(str::to_owned)).collect()
    }

    /// Writes the branches of a node that computes one of them.
    fn write_branches(&mut self, node: &Node) -> Option<()> {
        let condition = self.variable(node.input(0)?)?.to_owned();
        let [first, second] = ["then_branch", "else_branch"].map(|name| match node.attributes.get(name) {
            Some(Attribute::Graph(body)) => self.branch(body),
            _ => None,
        });
        let targets = self.targets(node);
        self.statements.push(Statement::If { condition, targets, branches: [first?, second?] });
        Some(())
    }

    fn branch(&mut self, body: &Graph) -> Option<Branch> {
        let mut body = body.clone();
        body.budget = self.graph.budget.clone();
        self.graph.describe_captures(&mut body).ok()?;
        infer_and_fold(&mut body).ok()?;
        let mut variables = BTreeMap::new();
        for capture in &body.captures {
            if body.value(capture.inner).constant.is_none() {
                variables.insert(capture.inner, self.variable(capture.outer)?.to_owned());
            }
        }
        let mut writer = Writer {
            graph: &body,
            needed: IndexSet::default(),
            variables,
            used: std::mem::take(&mut self.used),
            statements: Vec::new(),
            omitted: std::mem::take(&mut self.omitted),
        };
        let results = writer.write_all();
        self.used = writer.used;
        self.omitted = writer.omitted;
        (results.len() == body.outputs.len()).then_some(Branch { statements: writer.statements, results })
    }

    /// Returns the nodes between the values that have variables and the outputs of the graph, in order.
    fn nodes_behind(&mut self) -> Vec<&'a Node> {
        let mut left: Vec<ValueId> = self.graph.outputs.clone();
        let mut found: BTreeSet<NodeId> = BTreeSet::new();
        while let Some(id) = left.pop() {
            let value = self.graph.value(id);
            if self.variables.contains_key(&id) || value.constant.is_some() || !self.needed.insert(id) {
                continue;
            }
            match value.producer {
                Some(producer) => {
                    found.insert(producer);
                    left.extend(self.graph.node(producer).into_iter().flat_map(Node::reads));
                }
                None => {
                    self.omitted.values.insert(value.name.clone());
                }
            }
        }
        self.graph.nodes().filter(|(id, _)| found.contains(id)).map(|(_, node)| node).collect()
    }

    /// Names the outputs of the net.
    fn read(&mut self, seeds: &BTreeMap<ValueId, usize>, outputs: &[Port]) -> Vec<RestInput> {
        let mut inputs = Vec::new();
        for (id, at) in seeds {
            let Some(port) = outputs.get(*at) else { continue };
            let free = port.shape.iter().filter(|size| size.known().is_none()).count();
            if free > 1 {
                self.omitted.values.insert(port.name.clone());
            }
            let dtype = DType::from_name(&port.dtype);
            inputs.push(RestInput {
                variable: self.name(*id),
                output: *at,
                shape: port.shape.iter().map(|size| size.known().unwrap_or(-1)).collect(),
                cast: dtype.and_then(cast),
            });
        }
        inputs
    }

    /// Returns the name of the variable of a value, a new one if it has none.
    fn name(&mut self, id: ValueId) -> String {
        if let Some(name) = self.variables.get(&id) {
            return name.clone();
        }
        let name = self.new_name(&self.graph.value(id).name);
        self.variables.insert(id, name.clone());
        name
    }

    /// Returns a name that no variable has.
    fn new_name(&mut self, name: &str) -> String {
        let letters = name.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let mut plain = String::new();
        for c in letters.chars() {
            match c.is_ascii_alphanumeric() {
                true => plain.push(c),
                false if !plain.ends_with('_') => plain.push('_'),
                false => {}
            }
        }
        if !plain.starts_with(|c: char| c.is_ascii_alphabetic()) {
            plain.insert(0, 'v');
        }
        let mut name = plain.clone();
        for number in 2_usize.. {
            if self.used.insert(name.clone()) {
                break;
            }
            name = format!("{plain}_{number}");
        }
        name
    }

    /// Returns the variable of a value, whose constant becomes a statement.
    fn variable(&mut self, id: ValueId) -> Option<&str> {
        if !self.variables.contains_key(&id) {
            let value = self.graph.value(id);
            let tensor = value.constant.as_ref()?;
            let array = if tensor.len() <= MAX_LOADED { Some(tensor.load().ok()?) } else { None };
            let Some(array) = array.filter(|array| array.len() <= MAX_ELEMENTS || is_uniform(array)) else {
                self.omitted.constants.insert(value.name.clone());
                return Some(self.variables.entry(id).or_default().as_str());
            };
            let name = self.name(id);
            self.declare(name, &array)?;
        }
        self.variables.get(&id).map(String::as_str)
    }

    /// Writes a constant, of which all elements are equal if there are many.
    fn declare(&mut self, name: String, array: &Array) -> Option<()> {
        let is_large = array.len() > MAX_ELEMENTS;
        let count = if is_large { 1 } else { array.len() };
        let (function, elements) = match array.elements() {
            Elements::I64(numbers) => {
                let function = if array.dtype() == DType::Bool { "truths" } else { "integers" };
                (function, integers(numbers.iter().copied().take(count)))
            }
            Elements::Dim(_) => return None,
            _ => {
                let mut numbers = array.float_list().ok()?;
                numbers.truncate(count);
                ("floats", Argument::Floats(numbers))
            }
        };
        let shape: Vec<i64> = array.shape().iter().map(Int::int).collect();
        if !is_large {
            self.call(vec![Some(name)], function, vec![Argument::Integers(shape), elements]);
            return Some(());
        }
        let element = self.new_value("element", function, vec![Argument::Integers(Vec::new()), elements]);
        let sizes = self.list(&shape);
        self.call(vec![Some(name)], "filled", vec![sizes, element]);
        Some(())
    }

    fn call(&mut self, targets: Vec<Option<String>>, function: &'static str, arguments: Vec<Argument>) {
        self.statements.push(Statement::Call(FunctionCall { targets, function, arguments }));
    }

    /// Calls a function whose result is no value of the model, and returns the variable, with a name like
    /// `name`.
    fn new_value(&mut self, name: &str, function: &'static str, arguments: Vec<Argument>) -> Argument {
        let name = self.new_name(name);
        self.call(vec![Some(name.clone())], function, arguments);
        Argument::Value(name)
    }
}

/// Returns whether all elements are equal.
fn is_uniform(array: &Array) -> bool {
    match array.elements() {
        Elements::F32(numbers) => numbers.iter().all(|number| Some(number) == numbers.first()),
        Elements::F64(numbers) => numbers.iter().all(|number| Some(number) == numbers.first()),
        Elements::I64(numbers) => numbers.iter().all(|number| Some(number) == numbers.first()),
        Elements::Dim(_) => false,
    }
}

/// Returns integers as elements of a constant. Programs hold them as float64; ends of slices may be larger.
fn integers(numbers: impl IntoIterator<Item = i64>) -> Argument {
    let most = 1 << f64::MANTISSA_DIGITS;
    Argument::Integers(numbers.into_iter().map(|number| number.clamp(-most, most)).collect())
}

/// Returns the function that casts to a type, unless its elements are floats.
fn cast(dtype: DType) -> Option<&'static str> {
    match dtype {
        DType::Bool => Some("as_truth"),
        dtype if dtype.is_int() => Some("as_integer"),
        _ => None,
    }
}
