//! Facts of values on which the net relies without proof.

use std::collections::BTreeSet;

use super::{Lower, State};
use crate::error::{Error, ErrorCode, Errors, NodeAt};
use crate::graph::{Graph, Node, ValueId};
use crate::op::{Access, Call, Op, range};
use crate::tensor::{DType, Range};

/// A fact of the elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AssumedFact {
    /// Integers are between -2^24 and 2^24: float32 rounds larger ones.
    ExactInteger,
    /// Indices are not counted from the end.
    NotNegative,
    /// Arguments of sine, cosine and tangent are between -10000 and 10000.
    SmallAngle,
    /// Quotients of floats by their divisors are less than 2^24.
    ExactQuotient,
    /// Lengths are those of the whole sequence: none of its elements is padding.
    WholeLength,
    /// In each row of a mask a key is not hidden by minus infinity.
    SeesKey,
    /// Floats are at least 2^-126, the least that the runtime does not flush to 0.
    NotTiny,
    /// Elements of an input are finite, and so is each float that is computed from them.
    Finite,
}

impl AssumedFact {
    /// Returns a short name, which is stable across versions of the program.
    pub fn name(self) -> &'static str {
        match self {
            AssumedFact::ExactInteger => "exact_integer",
            AssumedFact::NotNegative => "not_negative",
            AssumedFact::SmallAngle => "small_angle",
            AssumedFact::ExactQuotient => "exact_quotient",
            AssumedFact::WholeLength => "whole_length",
            AssumedFact::SeesKey => "sees_key",
            AssumedFact::NotTiny => "not_tiny",
            AssumedFact::Finite => "finite",
        }
    }

    /// Returns the fact as a predicate, with the reason why it matters.
    pub fn describe(self) -> &'static str {
        match self {
            AssumedFact::ExactInteger => "between -2^24 and 2^24: float32 rounds larger integers",
            AssumedFact::NotNegative => "not negative: Embed reads row 0 for a negative index",
            AssumedFact::SmallAngle => {
                "between -10000 and 10000: the sine and cosine of the runtime lose digits beyond"
            }
            AssumedFact::ExactQuotient => "less than 2^24 divisors: float32 rounds larger quotients",
            AssumedFact::WholeLength => "the length of the whole sequence: the net has no padding",
            AssumedFact::SeesKey => {
                "not all minus infinity in a row: a query that sees no key gets the mean of all values"
            }
            AssumedFact::NotTiny => {
                "at least 2^-126: the runtime flushes smaller floats to 0, also 2^-127, the least of float8e8m0"
            }
            AssumedFact::Finite => {
                "finite, and so are the floats computed from them: sums and activations of the runtime do not \
                 keep NaN and infinities as in ONNX"
            }
        }
    }

    /// Returns whether `--strict` refuses nets that rely on the fact. Finite inputs are expected of every net: hardly
    /// any network is exact without them.
    pub fn is_refused_if_strict(self) -> bool {
        self != AssumedFact::Finite
    }

    /// Returns whether the ranges of the inputs prove the fact of input `index`.
    fn is_proved(self, call: &Call, index: usize) -> bool {
        match self {
            AssumedFact::ExactInteger => {
                let id = call.node().inputs.get(index).copied().flatten();
                !id.is_some_and(|id| may_round(call.graph(), id))
            }
            AssumedFact::NotNegative => call.range(index).least >= 0.0,
            AssumedFact::SmallAngle => Range { least: -1e4, most: 1e4 }.contains(call.range(index)),
            AssumedFact::ExactQuotient => {
                let (dividend, divisor) = (call.range(index).magnitude(), call.range(1).magnitude());
                dividend.most < divisor.least * Range::EXACT_INTEGERS.most
            }
            AssumedFact::NotTiny => call.range(index).least >= f64::from(f32::MIN_POSITIVE),
            AssumedFact::WholeLength | AssumedFact::SeesKey => false,
            AssumedFact::Finite => !matches!(call.may_be_infinite(index), Ok(true)),
        }
    }
}

/// A fact on which the layers of a node rely, although it could not be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assumption {
    /// The name of the value.
    pub value: String,
    /// The fact of its elements.
    pub fact: AssumedFact,
    /// The first node that relies on it; none if the net hands on an input.
    pub node: Option<NodeAt>,
}

impl Assumption {
    /// Refuses the nodes that rely on assumptions, if there are any.
    pub(crate) fn refuse(assumptions: &[Assumption]) -> Result<(), Errors> {
        let error = |Assumption { value, fact, node }: &Assumption| {
            let message = format!("the elements of \"{value}\" are not known to be {}", fact.describe());
            let error = Error::unsupported(message)
                .code_is(ErrorCode::ASSUMED)
                .help("without --strict this is assumed");
            match node {
                Some(node) => error.at_node(|| node.clone()),
                None => error,
            }
        };
        let refused = assumptions.iter().filter(|assumption| assumption.fact.is_refused_if_strict());
        Errors::check(refused.map(error).collect())
    }
}

/// The assumptions of a net: each fact of a value once.
#[derive(Default)]
pub(super) struct Assumptions {
    known: BTreeSet<(AssumedFact, ValueId)>,
    list: Vec<Assumption>,
    /// The first value that a layer needs to be finite and that is not proved to be so, and the node.
    needs_finite: Option<(ValueId, NodeAt)>,
}

impl Assumptions {
    fn add(&mut self, graph: &Graph, fact: AssumedFact, value: ValueId, node: Option<NodeAt>) {
        let value = named(graph, value);
        if self.known.insert((fact, value)) {
            self.list.push(Assumption { value: graph.value(value).name.clone(), fact, node });
        }
    }

    pub(super) fn into_list(self) -> Vec<Assumption> {
        self.list
    }
}

impl Lower<'_> {
    /// States that the layers of the node rely on a fact of input `index`, unless it is proved.
    pub fn assume(&mut self, index: usize, fact: AssumedFact) {
        if !fact.is_proved(self, index) {
            self.add_assumption(index, fact);
        }
    }

    /// States that the integers which the node reads are exact, unless their rounding changes its result by
    /// no more than a rounding.
    pub(super) fn assume_exact_integers(&mut self, op: &Op) {
        let fact = AssumedFact::ExactInteger;
        for index in 0..self.input_count() {
            if !fact.is_proved(self, index) && !bears_rounding(self, op, index) {
                self.add_assumption(index, fact);
            }
        }
    }

    /// States that the floats of the net are finite, if the node needs finite ones.
    pub(super) fn assume_finite(&mut self, op: &Op) {
        if self.state.assumptions.needs_finite.is_none() && op.needs_finite() {
            let unproved = (0..self.input_count()).find(|index| !AssumedFact::Finite.is_proved(self, *index));
            let value = unproved.and_then(|index| self.input_id(index).ok());
            self.state.assumptions.needs_finite = value.map(|value| (value, self.call.node().at()));
        }
    }

    /// States that the floats of the net are finite, because the layers of the node need finite elements of input
    /// `index`.
    pub(super) fn need_finite(&mut self, index: usize) {
        if let Ok(value) = self.input_id(index) {
            let node = self.call.node().at();
            self.state.assumptions.needs_finite.get_or_insert((value, node));
        }
    }

    fn add_assumption(&mut self, index: usize, fact: AssumedFact) {
        if let Ok(value) = self.input_id(index) {
            self.state.assumptions.add(self.call.graph(), fact, value, Some(self.call.node().at()));
        }
    }
}

impl State {
    /// States that the inputs of the net are finite, if a node needs finite floats; if no input is a float, that
    /// the first value is finite that a node needs to be so: constants may have made it infinite.
    pub(super) fn assume_finite_inputs(&mut self, graph: &Graph) {
        let Some((value, node)) = self.assumptions.needs_finite.take() else { return };
        let is_float = |id: &ValueId| graph.value(*id).dtype.is_some_and(DType::is_float);
        let inputs: Vec<ValueId> = graph.given_inputs().into_iter().filter(is_float).collect();
        if inputs.is_empty() {
            self.assumptions.add(graph, AssumedFact::Finite, value, Some(node));
        }
        for input in inputs {
            self.assumptions.add(graph, AssumedFact::Finite, input, None);
        }
    }

    /// States that the integers of an output of the net are exact.
    pub(super) fn assume_exact_output(&mut self, graph: &Graph, id: ValueId) {
        if may_round(graph, id) {
            let producer = graph.value(id).producer.and_then(|node| graph.node(node));
            self.assumptions.add(graph, AssumedFact::ExactInteger, id, producer.map(Node::at));
        }
    }
}

/// Returns the value, or the nearest named one from which it is computed.
fn named(graph: &Graph, mut id: ValueId) -> ValueId {
    while graph.value(id).name.is_empty()
        && let Some(node) = graph.value(id).producer.and_then(|node| graph.node(node))
        && let Some(input) = node.inputs.iter().flatten().find(|id| graph.value(**id).constant.is_none())
    {
        id = *input;
    }
    id
}

/// Returns whether a value may have integers that float32 does not represent.
fn may_round(graph: &Graph, id: ValueId) -> bool {
    let value = graph.value(id);
    value.dtype.is_some_and(DType::is_wide_int)
        && value.constant.is_none()
        && value.elements.is_none()
        && !Range::EXACT_INTEGERS.contains(range::range(graph, id))
}

/// Returns whether an integer that is rounded to float32 changes the result of a node by no more than that:
/// the result is an element of an input, or rises with it.
fn bears_rounding(call: &Call, op: &Op, index: usize) -> bool {
    let moves = matches!(op.access, Access::View | Access::Selection | Access::Elementwise);
    let is_transparent = || op.transparent.is_some_and(|holds| holds(call.graph(), call.node()));
    op.bears_rounding.map_or_else(|| moves || is_transparent(), |rule| rule(call, index))
}
