//! A window of a net, and its comparison with the nodes of the model.

use std::collections::BTreeMap;
use std::sync::Arc;

use ndarray::ArrayD;

use super::compare::compare;
use super::cut::{Reached, positions};
use super::draw::{Law, Random};
use super::noise::{overflows, rounds};
use super::proof::{State, WindowProof};
use super::reduce::Example;
use super::tolerance::Stored;
use super::{Assumed, Passed, Run, Values, all_floats, as_mat};
use crate::error::{Error, ErrorKind, Result, unsupported};
use crate::graph::{Graph, Node, NodeId, ValueId};
use crate::ncnn::layer::Trait;
use crate::ncnn::{BlobId, Layer, Net, NetLayer};
use crate::op;
use crate::reference::{self, Mat, Precision};
use crate::tensor::{Array, Elements, Range};

/// The most multiply-adds, or elements, of a window that is computed on further random elements.
const WORK: u64 = 2_000_000;
/// The relative error from which a difference counts even if the rounding of the model is unknown.
const UNKNOWN: f64 = 0.05;
/// Labels are exact in float32 up to this number.
const LABELS: usize = 1 << 24;

/// A blob and its value, and what lies between it and the blobs before.
pub(super) struct Window {
    pub value: ValueId,
    pub blob: BlobId,
    pub name: String,
    pub sizes: Vec<usize>,
    /// See [`Pair::order`](super::Pair::order).
    pub order: Option<[usize; 3]>,
    pub is_output: bool,
    /// The blobs from which its layers compute.
    pub inputs: Vec<WindowInput>,
    /// Further blobs that they read, which are ones, with their sizes.
    pub lengths: Vec<(BlobId, Vec<usize>)>,
    pub layers: Vec<usize>,
    /// The nodes that compute the same from the inputs; `None` if they read other values, or not all of
    /// those that vary.
    pub nodes: Option<Vec<NodeId>>,
    /// An input that the nodes read and the net does not: the net assumes its elements.
    pub ignored: Option<String>,
    /// Whether two inputs have the same elements, perhaps moved: the net may read either.
    pub shares_elements: bool,
}

/// A blob from which the layers of a window compute.
pub(super) struct WindowInput {
    pub blob: BlobId,
    pub value: ValueId,
    pub sizes: Vec<usize>,
    /// See [`Window::order`].
    pub order: Option<[usize; 3]>,
    /// Whether the value depends on inputs of the model.
    pub varies: bool,
    /// What is known of its elements.
    pub range: Range,
}

/// One comparison.
struct Outcome {
    error: f64,
    /// What differs.
    difference: Option<String>,
}

impl Outcome {
    /// The net does not compute elements that could be compared.
    fn wrong(difference: String) -> Outcome {
        Outcome { error: f64::INFINITY, difference: Some(difference) }
    }

    /// Adds the outcome for these elements to a proof.
    fn add_to(self, proof: &mut WindowProof, inputs: Vec<Arc<Array>>, expected: Arc<Array>) {
        proof.error = Some(proof.error.unwrap_or(0.0).max(self.error));
        if let Some(difference) = self.difference
            && proof.state != State::Differs
        {
            proof.state = State::Differs;
            proof.reason = difference;
            proof.example = Some(Example { inputs, expected });
        }
    }
}

impl Window {
    /// Returns the values of the inputs, and the one that is compared.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.inputs.iter().map(|input| input.value).chain([self.value])
    }

    /// Compares both sides: on the values of a run, on labels if all layers move elements, and otherwise on
    /// further random elements.
    pub fn check(&self, run: &Run) -> WindowProof {
        let net = run.subject.net;
        let mut proof = WindowProof {
            value: self.name.clone(),
            blob: net.blob(self.blob).name.clone(),
            layers: self.net_layers(net).map(|layer| layer.name.clone()).collect(),
            nodes: self.node_names(&run.subject.model.graph),
            state: State::Tested,
            evaluator: self.nodes.iter().flatten().filter_map(|node| run.evaluators.get(node).copied()).max(),
            error: None,
            reason: String::new(),
            example: None,
        };
        let outcome = self.on_run(run, &mut proof).and_then(|()| self.on_drawn(run, &mut proof));
        if let Err(error) = outcome
            && proof.state != State::Differs
        {
            proof.state = State::NotCovered;
            proof.reason = format!("{error:#}");
        }
        // The net has other elements of it, by which its sizes were chosen.
        if let Some(input) = self.ignored.as_ref().filter(|_| proof.state == State::Differs) {
            proof.state = State::NotCovered;
            proof.reason = format!("the net does not read the input \"{input}\": {}", proof.reason);
            proof.example = None;
        }
        proof
    }

    pub(super) fn net_layers<'n>(&'n self, net: &'n Net) -> impl Iterator<Item = &'n NetLayer> + 'n {
        self.layers.iter().filter_map(|index| net.layers.get(*index))
    }

    pub(super) fn graph_nodes<'g>(&'g self, graph: &'g Graph) -> impl Iterator<Item = &'g Node> + 'g {
        self.nodes.iter().flatten().filter_map(|id| graph.node(*id))
    }

    fn node_names(&self, graph: &Graph) -> Vec<String> {
        self.graph_nodes(graph)
            .map(|node| if node.name.is_empty() { node.at().to_string() } else { node.name.clone() })
            .collect()
    }

    /// Compares on the values of a run of the whole model.
    fn on_run(&self, run: &Run, proof: &mut WindowProof) -> Result<()> {
        let graph = &run.subject.model.graph;
        for value in self.graph_nodes(graph).flat_map(Node::reads) {
            let name = &graph.value(value).name;
            let assumed = run.subject.assumed.get(name).and_then(|assumed| assumed.requirement());
            let Some((holds, description)) = assumed else { continue };
            if !run.values.get(value).is_ok_and(|array| array.all_numbers(holds)) {
                unsupported!("the net assumes that the elements of \"{name}\" are {description}");
            }
        }
        let (inputs, expected) = (self.elements(run)?, run.values.get(self.value)?);
        let outcome = self.compare(run, &inputs, &expected)?;
        let (Some(nodes), Some(_)) = (&self.nodes, &outcome.difference) else {
            outcome.add_to(proof, inputs, expected);
            return Ok(());
        };
        // Nets are right for finite floats.
        let mut random = Random::new(0);
        let finite = self.drawn(&inputs, |input, array| random.finite(array, input.range));
        let expected = self.evaluate(run, nodes, &finite, &mut |array| array)?;
        self.compare(run, &finite, &expected)?.add_to(proof, finite, expected);
        Ok(())
    }

    /// Compares on labels or random elements, if the nodes need only the inputs.
    fn on_drawn(&self, run: &Run, proof: &mut WindowProof) -> Result<()> {
        let Some(nodes) = &self.nodes else { return Ok(()) };
        let inputs = self.elements(run)?;
        if self.inputs.iter().all(|input| !input.varies) {
            if proof.state == State::Tested && proof.error == Some(0.0) {
                proof.state = State::Proved;
            }
            return Ok(());
        }
        if self.moves(run) && inputs.iter().map(|array| array.len()).sum::<usize>() < LABELS {
            let mut labels = labels();
            let labels = self.drawn(&inputs, |_, array| labels(array));
            let expected = self.evaluate(run, nodes, &labels, &mut |array| array)?;
            let outcome = self.compare(run, &labels, &expected)?;
            if outcome.difference.is_some() && self.consistent(run, &labels)?.is_none() {
                return Ok(());
            }
            let is_exact = outcome.error == 0.0;
            outcome.add_to(proof, labels, expected);
            if proof.state == State::Tested && is_exact {
                proof.state = State::Proved;
            }
            return Ok(());
        }
        // A net without the rounding of the model may lack bounds that hold in the model.
        // Its int8 layers round their inputs to levels, which drawn elements are not on.
        let is_rounded = |id: &NodeId| run.subject.model.graph.node(*id).is_some_and(rounds);
        let has_int8 = self.net_layers(run.subject.net).any(|layer| layer.layer.is_int8());
        let rounds_otherwise = run.subject.drops_rounding && (has_int8 || nodes.iter().any(is_rounded));
        if self.work(run) > WORK || rounds_otherwise {
            return Ok(());
        }
        for (seed, law) in (1..).zip(Law::ALL) {
            let mut random = Random::new(seed);
            let mut drawn = self.drawn(&inputs, |input, array| random.like(array, law, input.range));
            // Elements that the operators do not permit say nothing.
            let Ok(mut expected) = self.evaluate(run, nodes, &drawn, &mut |array| array) else { continue };
            let Ok(mut outcome) = self.compare(run, &drawn, &expected) else { continue };
            if outcome.difference.is_some() {
                let Ok(Some(consistent)) = self.consistent(run, &drawn) else { continue };
                drawn = consistent;
                let Ok(value) = self.evaluate(run, nodes, &drawn, &mut |array| array) else { continue };
                expected = value;
                outcome = self.compare(run, &drawn, &expected)?;
            }
            outcome.add_to(proof, drawn, expected);
        }
        Ok(())
    }

    /// Returns drawn elements, with those of values that depend on other inputs computed from these: the
    /// net may compute them, too. `None` if that is not possible.
    fn consistent(&self, run: &Run, drawn: &[Arc<Array>]) -> Result<Option<Vec<Arc<Array>>>> {
        if self.shares_elements {
            return Ok(None);
        }
        let graph = &run.subject.model.graph;
        let positions = positions(graph);
        let position = |value: ValueId| graph.value(value).producer.and_then(|id| positions.get(id).copied());
        let mut order: Vec<(usize, &WindowInput)> = self.inputs.iter().enumerate().collect();
        order.sort_by_key(|(_, input)| position(input.value));
        let (mut before, mut consistent) = (Vec::new(), drawn.to_vec());
        for (index, input) in order {
            let reached = Reached::of(graph, |value| before.contains(&value), input.value);
            let varies = |value: &ValueId| {
                self.inputs.iter().any(|input| input.varies && input.value == *value)
                    && before.contains(value)
            };
            if input.varies && reached.values.iter().any(varies) {
                if !reached.inputs.is_empty() {
                    return Ok(None);
                }
                let mut values = self.input_values(graph, &consistent);
                values.arrays.remove(input.value);
                for id in reached.in_order(&positions) {
                    values.compute(run.engine, id, &mut |array| array)?;
                }
                if let Some(elements) = consistent.get_mut(index) {
                    *elements = values.get(input.value)?;
                }
            }
            before.push(input.value);
        }
        Ok(Some(consistent))
    }

    /// Returns the elements of the inputs in a run.
    fn elements(&self, run: &Run) -> Result<Vec<Arc<Array>>> {
        self.inputs.iter().map(|input| run.values.get(input.value)).collect()
    }

    /// Returns the elements of the inputs, with drawn ones for those that vary.
    fn drawn(
        &self,
        inputs: &[Arc<Array>],
        mut draw: impl FnMut(&WindowInput, &Array) -> Array,
    ) -> Vec<Arc<Array>> {
        let pairs = self.inputs.iter().zip(inputs);
        let drawn = pairs.map(|(input, array)| match input.varies {
            true => Arc::new(draw(input, array)),
            false => Arc::clone(array),
        });
        drawn.collect()
    }

    /// Returns whether integers of inputs are beyond those that the net is assumed to have.
    fn is_inexact(&self, run: &Run, inputs: &[Arc<Array>]) -> bool {
        let (graph, exact) = (&run.subject.model.graph, Range::EXACT_INTEGERS);
        let is_assumed = |input: &WindowInput| {
            run.subject.assumed.get(&graph.value(input.value).name) == Some(&Assumed::Exact)
        };
        let mut pairs = self.inputs.iter().zip(inputs).filter(|(input, _)| is_assumed(input));
        pairs.any(|(_, array)| !array.all_numbers(|x| (exact.least..=exact.most).contains(&x)))
    }

    /// Returns whether all layers and nodes only move elements.
    fn moves(&self, run: &Run) -> bool {
        let graph = &run.subject.model.graph;
        let is_move = |node: &NodeId| graph.node(*node).is_some_and(is_move);
        let mut layers = self.net_layers(run.subject.net);
        layers.all(|layer| {
            layer.layer.has(Trait::Move)
                && !is_pooling(&layer.layer)
                && !matches!(layer.layer, Layer::Dequantize(_))
        }) && self.nodes.iter().flatten().all(is_move)
    }

    /// Returns the multiply-adds of the layers, and the elements that they read.
    fn work(&self, run: &Run) -> u64 {
        let count = |sizes: &[usize]| {
            sizes.iter().fold(1_u64, |all, size| all.saturating_mul(u64::try_from(*size).unwrap_or(u64::MAX)))
        };
        let elements =
            self.inputs.iter().map(|input| count(&input.sizes)).fold(count(&self.sizes), u64::saturating_add);
        let weights = self.net_layers(run.subject.net).flat_map(|layer| layer.layer.weights());
        let weights = weights.map(|weight| u64::try_from(weight.tensor.len()).unwrap_or(u64::MAX));
        let positions = self.sizes.split_first().map_or(1, |(_, inner)| count(inner));
        elements.saturating_add(weights.fold(0, u64::saturating_add).saturating_mul(positions))
    }

    /// Evaluates the nodes on elements of the inputs; what they compute is passed through a function.
    fn evaluate(
        &self,
        run: &Run,
        nodes: &[NodeId],
        inputs: &[Arc<Array>],
        passed: Passed,
    ) -> Result<Arc<Array>> {
        let mut values = self.input_values(&run.subject.model.graph, inputs);
        for id in nodes {
            values.compute(run.engine, *id, passed)?;
        }
        values.get(self.value)
    }

    /// Returns the values of the inputs with these elements.
    pub(super) fn input_values<'g>(&self, graph: &'g Graph, inputs: &[Arc<Array>]) -> Values<'g> {
        let pairs = self.inputs.iter().zip(inputs);
        Values::new(graph, pairs.map(|(input, array)| (input.value, Arc::clone(array))))
    }

    /// Compares what the layers compute from elements of the inputs with the expected elements.
    fn compare(&self, run: &Run, inputs: &[Arc<Array>], expected: &Array) -> Result<Outcome> {
        let tolerance = self.tolerance(run, expected.dtype());
        let value = as_mat(expected, &self.sizes, self.order)?;
        let compared = |got: &Mat, noise: Option<&ArrayD<f64>>| {
            if got.shape() != value.shape() {
                return Outcome::wrong(format!("the net computes a blob of {:?}", got.shape()));
            }
            let (error, difference) = compare(got, &value, tolerance, noise);
            Outcome { error, difference }
        };
        let mut found = None;
        for precision in [Precision::Double, Precision::Single] {
            match self.compute(run.subject.net, precision, inputs, value.shape())? {
                Ok(got) => {
                    let outcome = compared(&got, None);
                    if outcome.difference.is_none() {
                        return Ok(outcome);
                    }
                    found.get_or_insert((got, outcome));
                }
                Err(fault) => return Ok(Outcome::wrong(fault.to_string())),
            }
        }
        let Some((got, mut outcome)) = found else { return Err(Error::internal("no elements")) };
        if got.shape() != value.shape() {
            return Ok(outcome);
        }
        let is_beyond = overflows(&got, expected.dtype(), run.subject.assumed.get(&self.name).copied());
        if is_beyond || self.is_inexact(run, inputs) {
            unsupported!("numbers beyond the range of {}", expected.dtype());
        }
        match &self.nodes {
            Some(nodes) => self.check_finite(run, nodes, inputs)?,
            None if matches!(self.stored(run.subject.net), Stored::Integers(_)) => {
                unsupported!("weights in integers, whose rounding is known only where the nodes are")
            }
            None if !inputs.iter().all(|array| all_floats(array, f32::is_finite)) => {
                unsupported!("an input that is not finite, which is replaced only where the nodes are known")
            }
            None => {}
        }
        let (origin, mut noise) = (self.origin(run, inputs), ArrayD::zeros(value.raw_dim()));
        for seed in 0..origin.changes {
            if outcome.difference.is_none() {
                break;
            }
            match self.add_noise(run, (&origin, &value), seed, &mut noise) {
                Ok(()) => {}
                // Rounded numbers may decide sizes.
                Err(error) if outcome.error < UNKNOWN => {
                    unsupported!("the rounding of the model is not known: {error}")
                }
                Err(_) => break,
            }
            outcome = compared(&got, Some(&noise));
        }
        Ok(outcome)
    }

    /// Computes the blob from elements of the inputs, in the shape of the value; the inner error is a layer
    /// that does not fit its bottoms.
    fn compute(
        &self,
        net: &Net,
        precision: Precision,
        inputs: &[Arc<Array>],
        shape: &[usize],
    ) -> Result<std::result::Result<Mat, Error>> {
        let mut known = BTreeMap::new();
        for (WindowInput { blob, sizes, order, .. }, array) in self.inputs.iter().zip(inputs) {
            known.insert(*blob, as_mat(array, sizes, *order)?);
        }
        known.extend(self.lengths.iter().map(|(blob, sizes)| (*blob, Mat::ones(sizes.as_slice()))));
        match reference::run_layers(net, &self.layers, known, &[self.blob], precision) {
            Ok(tops) => {
                let top = tops.into_iter().next().ok_or_else(|| Error::internal("no top"))?;
                // Programs see the axes of outputs. A pooling of everything has tops of one axis, and no
                // param that keeps the others.
                let axes =
                    |shape: &[usize]| shape.iter().copied().filter(|size| *size != 1).collect::<Vec<_>>();
                let is_pooled = self.net_layers(net).any(|layer| is_pooling(&layer.layer));
                let is_equal = (!self.is_output || is_pooled) && axes(top.shape()) == axes(shape);
                Ok(Ok(if is_equal { shaped(top, shape)? } else { top }))
            }
            Err(error) if error.kind() == ErrorKind::Invalid => Ok(Err(error)),
            Err(error) => Err(error),
        }
    }
}

/// Returns whether a node only moves elements.
pub(super) fn is_move(node: &Node) -> bool {
    op::find(node).is_some_and(|op| op.moves.is_some() || op.access == op::Access::View)
}

/// Returns whether the layer computes an element from each window of its bottom.
fn is_pooling(layer: &Layer) -> bool {
    matches!(layer, Layer::Pooling(_) | Layer::Pooling1D(_) | Layer::Pooling3D(_))
}

/// Returns the elements in another shape.
fn shaped(elements: Mat, shape: &[usize]) -> Result<Mat> {
    Ok(elements.to_shape(shape).map_err(|_| Error::internal("another number of elements"))?.to_owned())
}

/// Returns a function that makes arrays of the same shape, whose elements all differ.
fn labels() -> impl FnMut(&Array) -> Array {
    let mut last = 0.0_f32;
    move |array| match array.elements() {
        Elements::F32(elements) => {
            let labels = elements.map(|_| {
                last += 1.0;
                last
            });
            Array::new(array.dtype(), Elements::F32(labels))
        }
        _ => array.clone(),
    }
}
