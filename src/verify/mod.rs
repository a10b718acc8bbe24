//! The proof that a net computes its model: layer by layer, without a runtime.
//!
//! Blobs that have the elements of values of the model cut the net into windows. A window is computed from
//! the same elements twice: its layers by `reference/`, and the nodes of the model, as they were read, by
//! `engine.rs`. The conversion tells the names of blobs and values. Neither side uses a rewriting or a
//! lowering of it; an operator that only other operators define is computed by its definition, which a window
//! states.

mod compare;
mod cut;
mod draw;
mod engine;
mod evaluate;
mod flow;
mod noise;
mod proof;
mod reduce;
mod tolerance;
mod window;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use ndarray::IxDyn;

use crate::common::index::IndexMap;
use crate::error::{Error, Result};
use crate::graph::{Graph, NodeId, ValueId};
use crate::ncnn::{BlobId, Net};
use crate::onnx::Model;
use crate::reference::Mat;
use crate::tensor::{Array, DType, Elements, Tensor};
use cut::Cuts;
use engine::Engine;
pub use engine::Evaluator;
pub use proof::{Proof, State, WindowProof};
pub use reduce::Reduced;
use window::Window;

/// A value of the model and the blob that has its elements, in the same order.
#[derive(Clone, Debug)]
pub(crate) struct Pair {
    /// The name of the value.
    pub value: String,
    /// The name of the blob.
    pub blob: String,
    /// The sizes of the blob, outermost first.
    pub sizes: Vec<usize>,
    /// The axis of the value that each axis of the blob is, if the runtime moves them, as in caches.
    pub order: Option<[usize; 3]>,
    /// Whether the value is an output of the model.
    pub is_output: bool,
}

/// What numbers have to satisfy, and its description.
type Requirement = (fn(f64) -> bool, &'static str);

/// What a conversion assumes of the elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Assumed {
    /// They are integers that float32 represents.
    Exact,
    /// They are whole numbers.
    Whole,
    /// They are at least the smallest number that the runtime does not flush to 0.
    NotTiny,
}

impl Assumed {
    /// Returns the requirement on numbers; `None` for exact integers, which are judged when compared.
    fn requirement(self) -> Option<Requirement> {
        match self {
            Assumed::Exact => None,
            Assumed::Whole => Some((|x| x.fract() == 0.0, "whole numbers")),
            Assumed::NotTiny => Some((|x| x >= f64::from(f32::MIN_POSITIVE), "at least 2^-126")),
        }
    }
}

/// A model, and the net that is to compute it.
pub(crate) struct Subject<'a> {
    /// The model as it was read, with the values that options set.
    pub model: &'a Model,
    /// The net as its files state it.
    pub net: &'a Net,
    /// The values that are blobs.
    pub pairs: Vec<Pair>,
    /// The inputs that only the net has: the names of the blobs, whose elements are 1, and their sizes.
    pub lengths: Vec<(String, Vec<usize>)>,
    /// The names of the inputs that the net does not read, as the conversion assumes their elements.
    pub ignored: &'a [String],
    /// Whether the net rounds only in int8 layers, and not where the model does.
    pub drops_rounding: bool,
    /// What the conversion assumes of values, by their names.
    pub assumed: &'a BTreeMap<String, Assumed>,
    /// The shapes of the inputs of the model, by their names.
    pub shapes: BTreeMap<String, Vec<usize>>,
}

/// The sets of elements of whole inputs that are tried: they may be indices, or lengths.
const BOUNDS: [(u32, u32); 4] = [(0, 3), (0, 1), (0, 0), (1, 1)];

/// Compares each window of a net with the model.
///
/// # Errors
///
/// Those of reading the weights of the model; what differs or is not covered is part of the proof.
pub(crate) fn prove(subject: &Subject) -> Result<Proof> {
    let graph = &subject.model.graph;
    let blobs = names(subject.net.blob_ids().map(|blob| (subject.net.blob(blob).name.as_str(), blob)));
    let values = names(graph.value_ids().map(|value| (graph.value(value).name.as_str(), value)));
    let mut proofs = Vec::new();
    let mut paired: BTreeMap<BlobId, (ValueId, &Pair)> = BTreeMap::new();
    for pair in &subject.pairs {
        match (blobs.get(pair.blob.as_str()), values.get(pair.value.as_str())) {
            (Some(blob), Some(value)) => {
                paired.insert(*blob, (*value, pair));
            }
            (None, _) => proofs.push(WindowProof::missing(pair)),
            (_, None) if pair.is_output => proofs.push(WindowProof::unknown(pair)),
            (_, None) => {}
        }
    }
    let lengths = subject.lengths.iter();
    let lengths = lengths.filter_map(|(name, sizes)| Some((*blobs.get(name.as_str())?, sizes.clone())));
    let windows = Cuts::new(subject, paired, lengths.collect(), varying(graph)).windows();
    let engine = Engine::new(subject.model);
    let sets =
        if graph.inputs.iter().any(|input| is_integer(graph, *input)) { &BOUNDS[..] } else { &BOUNDS[..1] };
    let mut checked: Option<Vec<WindowProof>> = None;
    for bounds in sets {
        let found = Run::new(subject, &engine, *bounds)?.check(&windows);
        let best = match checked.take() {
            Some(before) if open(&before) <= open(&found) => before,
            _ => found,
        };
        let is_covered = open(&best) == 0;
        checked = Some(best);
        if is_covered {
            break;
        }
    }
    let checked = checked.unwrap_or_default();
    let mut differing = windows.iter().zip(&checked).filter_map(|(window, proof)| {
        proof.example.as_ref().map(|example| Reduced::of(subject, window, example))
    });
    let reduced = differing.next().transpose()?.flatten();
    proofs.extend(checked);
    Ok(Proof::new(subject.net, proofs, reduced))
}

/// Returns the values that depend on inputs of the model.
fn varying(graph: &Graph) -> BTreeSet<ValueId> {
    let mut varying: BTreeSet<ValueId> = graph.inputs.iter().copied().collect();
    for (_, node) in graph.nodes() {
        if node.reads().any(|value| varying.contains(&value)) {
            varying.extend(node.outputs.iter().flatten());
        }
    }
    varying
}

/// Returns the number of windows that are not covered.
fn open(proofs: &[WindowProof]) -> usize {
    proofs.iter().filter(|proof| proof.state == State::NotCovered).count()
}

fn is_integer(graph: &Graph, value: ValueId) -> bool {
    graph.value(value).dtype.is_some_and(|dtype| dtype.is_int())
}

fn names<'a, Id>(all: impl Iterator<Item = (&'a str, Id)>) -> BTreeMap<&'a str, Id> {
    all.filter(|(name, _)| !name.is_empty()).collect()
}

/// What is done with each array that is computed, such as rounding.
type Passed<'p> = &'p mut dyn FnMut(Array) -> Array;

/// The elements of values of a model.
struct Values<'a> {
    graph: &'a Graph,
    arrays: IndexMap<ValueId, Arc<Array>>,
    /// Why values are not computed.
    reasons: BTreeMap<ValueId, String>,
}

impl<'a> Values<'a> {
    fn new(graph: &'a Graph, known: impl IntoIterator<Item = (ValueId, Arc<Array>)>) -> Values<'a> {
        Values { graph, arrays: known.into_iter().collect(), reasons: BTreeMap::new() }
    }

    /// Computes all nodes of a graph from values that are known.
    fn computed(
        engine: &Engine,
        graph: &'a Graph,
        known: impl IntoIterator<Item = (ValueId, Arc<Array>)>,
        passed: Passed,
    ) -> Result<Values<'a>> {
        let mut values = Values::new(graph, known);
        for (id, _) in graph.nodes() {
            values.compute(engine, id, passed)?;
        }
        Ok(values)
    }

    /// Returns the constant that a value is, by itself or through nodes that change nothing: so models read
    /// weights that several nodes share.
    fn constant_of(&self, mut id: ValueId) -> Option<&'a Tensor> {
        loop {
            let value = self.graph.value(id);
            if let Some(constant) = &value.constant {
                return Some(constant);
            }
            let node = self.graph.node(value.producer?).filter(|node| node.is("Identity"))?;
            id = node.input(0)?;
        }
    }

    /// Returns the elements of a value that is computed or constant.
    fn get(&self, id: ValueId) -> Result<Arc<Array>> {
        if let Some(array) = self.arrays.get(id) {
            return Ok(Arc::clone(array));
        }
        let value = self.graph.value(id);
        match (self.constant_of(id), self.reasons.get(&id)) {
            (Some(constant), _) => constant.load().map(Arc::new),
            (None, Some(reason)) => Err(Error::unsupported(reason.clone())),
            (None, None) => Err(Error::unsupported(format!("\"{}\" is not computed", value.name))),
        }
    }

    /// Evaluates a node; what it computes, and what the nodes inside of it compute, is passed through a
    /// function.
    fn compute(&mut self, engine: &Engine, id: NodeId, passed: Passed) -> Result<Evaluator> {
        let Some(node) = self.graph.node(id) else { return Err(Error::internal("no node")) };
        if node.outputs.iter().flatten().all(|output| self.constant_of(*output).is_some()) {
            // It is read where it is used: as many copies would be in memory.
            return Ok(Evaluator::Engine);
        }
        let inputs = node.inputs.iter().map(|id| id.map(|id| self.get(id)).transpose());
        let inputs: Vec<_> = inputs.collect::<Result<_>>()?;
        let (outputs, evaluator) = match node.bodies().next() {
            // The nodes of a body have separate evaluators.
            Some(_) => (flow::evaluate(engine, node, &inputs, self, passed)?, Evaluator::Definition),
            None => engine.evaluate(self.graph, id, &inputs, passed)?,
        };
        let outputs = outputs.into_iter().map(|array| Arc::new(passed(Arc::unwrap_or_clone(array))));
        self.arrays.extend(node.outputs.iter().zip(outputs).filter_map(|(id, array)| Some(((*id)?, array))));
        Ok(evaluator)
    }
}

/// A run of the whole model on random inputs.
struct Run<'a> {
    subject: &'a Subject<'a>,
    engine: &'a Engine<'a>,
    values: Values<'a>,
    /// The elements of the inputs of the model.
    inputs: Vec<(ValueId, Arc<Array>)>,
    /// The types of all values that were computed.
    types: BTreeMap<ValueId, DType>,
    /// What evaluated each node.
    evaluators: BTreeMap<NodeId, Evaluator>,
}

impl<'a> Run<'a> {
    fn new(subject: &'a Subject<'a>, engine: &'a Engine<'a>, bounds: (u32, u32)) -> Result<Run<'a>> {
        let graph = &subject.model.graph;
        let mut random = draw::Random::new(0);
        let mut inputs = Vec::new();
        for input in &graph.inputs {
            let value = graph.value(*input);
            // The net lacks inputs without elements, and those that nothing reads.
            let Some(shape) = subject.shapes.get(&value.name) else { continue };
            let dtype = value.dtype.ok_or_else(|| Error::invalid("an input without a type"))?;
            let assumed = subject.assumed.get(&value.name).copied();
            inputs.push((*input, Arc::new(random.input(dtype, shape, bounds, assumed)?)));
        }
        Ok(Run {
            subject,
            engine,
            values: Values::new(graph, inputs.iter().cloned()),
            inputs,
            types: BTreeMap::new(),
            evaluators: BTreeMap::new(),
        })
    }

    /// Evaluates the nodes in their order, and checks each window as soon as its values are known.
    fn check(mut self, windows: &[Window]) -> Vec<WindowProof> {
        let graph = &self.subject.model.graph;
        let mut uses: BTreeMap<ValueId, usize> = BTreeMap::new();
        let readers = graph.nodes().flat_map(|(_, node)| node.reads());
        for value in readers.chain(windows.iter().flat_map(|window| window.values())) {
            *uses.entry(value).or_default() += 1;
        }
        // A layer with several tops may compute one of them from values that come after it in the model.
        let positions = cut::positions(graph);
        let position =
            |value: &ValueId| graph.value(*value).producer.and_then(|id| positions.get(id).copied());
        let mut at: BTreeMap<ValueId, Vec<usize>> = BTreeMap::new();
        for (index, window) in windows.iter().enumerate() {
            let last = window.values().max_by_key(position);
            at.entry(last.unwrap_or(window.value)).or_default().push(index);
        }
        let mut proofs: Vec<Option<WindowProof>> = windows.iter().map(|_| None).collect();
        let mut release = |run: &mut Run, values: &mut dyn Iterator<Item = ValueId>| {
            for value in values {
                let left = uses.entry(value).or_default();
                *left = left.saturating_sub(1);
                if *left == 0 {
                    run.values.arrays.remove(value);
                }
            }
        };
        let mut differs = false;
        for (id, node) in graph.nodes() {
            self.compute(id);
            for value in node.outputs.iter().flatten() {
                for index in at.remove(value).unwrap_or_default() {
                    if let (Some(window), Some(proof)) = (windows.get(index), proofs.get_mut(index)) {
                        let mut found = window.check(&self);
                        // The first one suffices.
                        if differs {
                            found.example = None;
                        }
                        differs |= found.example.is_some();
                        *proof = Some(found);
                        release(&mut self, &mut window.values());
                    }
                }
            }
            release(&mut self, &mut node.reads());
        }
        // Windows at inputs of the model.
        for (window, proof) in windows.iter().zip(&mut proofs) {
            if proof.is_none() {
                *proof = Some(window.check(&self));
            }
        }
        proofs.into_iter().flatten().collect()
    }

    fn compute(&mut self, id: NodeId) {
        let outcome = self.values.compute(self.engine, id, &mut |array| array);
        if let Ok(evaluator) = outcome {
            self.evaluators.insert(id, evaluator);
        }
        let outputs =
            self.subject.model.graph.node(id).into_iter().flat_map(|node| node.outputs.iter().flatten());
        for output in outputs {
            match (&outcome, self.values.arrays.get(*output)) {
                (Err(error), _) => drop(self.values.reasons.insert(*output, format!("{error:#}"))),
                (Ok(_), Some(array)) => drop(self.types.insert(*output, array.dtype())),
                (Ok(_), None) => {}
            }
        }
    }
}

/// Returns whether all floats have a property.
fn all_floats(array: &Array, is: impl Fn(f32) -> bool) -> bool {
    !matches!(array.elements(), Elements::F32(elements) if elements.iter().any(|x| !is(*x)))
}

/// Returns the elements of a value as the blob of these sizes, with its axes in an order.
fn as_mat(array: &Array, sizes: &[usize], order: Option<[usize; 3]>) -> Result<Mat> {
    let elements = array.to_f64()?;
    let count = elements.len();
    let misfit = || Error::invalid(format!("{count} elements as a blob of {sizes:?}"));
    let Some(order) = order else { return elements.into_shape_clone(IxDyn(sizes)).map_err(|_| misfit()) };
    // The index of each axis of the value in the blob.
    let mut shape = [0; 3];
    for (axis, size) in order.into_iter().zip(sizes) {
        *shape.get_mut(axis).ok_or_else(misfit)? = *size;
    }
    let elements = elements.into_shape_clone(shape).map_err(|_| misfit())?;
    Ok(elements.permuted_axes(order).as_standard_layout().into_owned().into_dyn())
}
