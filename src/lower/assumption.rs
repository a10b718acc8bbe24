//! Facts of values on which the net relies without proof.

use std::collections::{BTreeSet, VecDeque};

use crate::error::{Error, ErrorCode, Errors, NodeAt};
use crate::graph::{Graph, ValueId};
use crate::op::{Call, range};
use crate::tensor::{DType, Range};

/// A fact of the elements of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum AssumedFact {
    /// Integers are between -2^24 and 2^24: float32 rounds larger ones.
    ExactInteger,
    /// Indices are not counted from the end.
    NotNegative,
    /// Arguments of sine, cosine and tangent are between -10000 and 10000, or -10^7 and 10^7 where the
    /// processor has fused multiply-adds.
    SmallAngle,
    /// Quotients of floats by their divisors are less than 2^24.
    ExactQuotient,
    /// Lengths are those of the whole sequence: none of its elements is padding.
    WholeLength,
    /// Sizes that depend on the elements are those of the net.
    FixedSizes,
    /// In each row of a mask a key is not hidden by minus infinity.
    SeesKey,
    /// Floats are at least 2^-126, the least that the runtime does not flush to 0.
    NotTiny,
    /// Floats by which integers are raised are whole numbers.
    WholeExponent,
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
            AssumedFact::FixedSizes => "fixed_sizes",
            AssumedFact::SeesKey => "sees_key",
            AssumedFact::NotTiny => "not_tiny",
            AssumedFact::WholeExponent => "whole_exponent",
            AssumedFact::Finite => "finite",
        }
    }

    /// Returns the fact as a predicate, with the reason why it matters.
    pub fn describe(self) -> &'static str {
        match self {
            AssumedFact::ExactInteger => "between -2^24 and 2^24: float32 rounds larger integers",
            AssumedFact::NotNegative => "not negative: Embed reads row 0 for a negative index",
            AssumedFact::SmallAngle => {
                "between -10000 and 10000, or -10^7 and 10^7 on ARM64 and x86 with fused multiply-adds: the \
                 sine and cosine of the runtime lose digits beyond"
            }
            AssumedFact::ExactQuotient => "less than 2^24 times the divisor: float32 rounds larger quotients",
            AssumedFact::WholeLength => "the length of the whole sequence: the net has no padding",
            AssumedFact::FixedSizes => {
                "such that results have the declared sizes, and slices end within their axis: the net has these \
                 sizes whatever the elements are"
            }
            AssumedFact::SeesKey => {
                "not all minus infinity in a row: a query that sees no key gets the mean of all values"
            }
            AssumedFact::NotTiny => {
                "at least 2^-126: the runtime flushes smaller floats to 0, also 2^-127, the least of float8e8m0"
            }
            AssumedFact::WholeExponent => {
                "whole numbers: the net rounds powers of integers, ONNX truncates them"
            }
            AssumedFact::Finite => {
                "finite, and so are the floats computed from them: sums and activations of the runtime do not \
                 keep NaN and infinities as in ONNX"
            }
        }
    }

    /// Returns whether `--strict` refuses nets that rely on the fact. Finite inputs are expected of every
    /// net: hardly any network is exact without them.
    pub fn is_refused_if_strict(self) -> bool {
        self != AssumedFact::Finite
    }

    /// Returns whether the ranges of the inputs prove the fact of input `index`.
    pub(super) fn is_proved(self, call: &Call, index: usize) -> bool {
        match self {
            AssumedFact::ExactInteger => {
                let id = call.node().input(index);
                !id.is_some_and(|id| may_round(call.graph(), id))
            }
            AssumedFact::NotNegative => call.range(index).least >= 0.0,
            AssumedFact::SmallAngle => Range { least: -1e4, most: 1e4 }.contains(call.range(index)),
            AssumedFact::ExactQuotient => {
                let (dividend, divisor) = (call.range(index).abs(), call.range(1).abs());
                dividend.most < divisor.least * Range::EXACT_INTEGERS.most
            }
            AssumedFact::NotTiny => call.range(index).least >= f64::from(f32::MIN_POSITIVE),
            AssumedFact::FixedSizes => call.constant(index).is_some(),
            AssumedFact::WholeLength | AssumedFact::SeesKey | AssumedFact::WholeExponent => false,
            AssumedFact::Finite => !matches!(call.may_be_infinite(index), Ok(true)),
        }
    }
}

/// A fact on which the layers of a node rely, although it could not be proved.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assumption {
    /// The name of the value; empty for integers that are computed from sizes alone.
    pub value: String,
    /// The fact of its elements.
    pub fact: AssumedFact,
    /// The first node that relies on it; none if the net hands on an input.
    pub node: Option<NodeAt>,
}

impl Assumption {
    /// Returns what the fact is about, as the subject of a sentence.
    pub fn subject(&self) -> String {
        match self.value.as_str() {
            "" => "integers that are computed from sizes".to_owned(),
            value => format!("the elements of \"{value}\""),
        }
    }

    /// Refuses the nodes that rely on assumptions, if there are any.
    pub(crate) fn refuse(assumptions: &[Assumption]) -> Result<(), Errors> {
        let error = |assumption @ Assumption { fact, node, .. }: &Assumption| {
            let message = format!("{} are not known to be {}", assumption.subject(), fact.describe());
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
    known: BTreeSet<(AssumedFact, Option<ValueId>)>,
    list: Vec<Assumption>,
    /// The first value that a layer needs to be finite and that is not proved to be so, and the node.
    pub(super) needs_finite: Option<(ValueId, NodeAt)>,
}

impl Assumptions {
    pub(super) fn add(&mut self, graph: &Graph, fact: AssumedFact, value: ValueId, node: Option<NodeAt>) {
        let value = named(graph, value);
        if self.known.insert((fact, value)) {
            let value = value.map(|id| graph.value(id).name.clone()).unwrap_or_default();
            self.list.push(Assumption { value, fact, node });
        }
    }

    pub(super) fn into_list(self) -> Vec<Assumption> {
        self.list
    }
}

/// Returns the value, or the nearest named one from whose elements it is computed; `None` if it is computed
/// from sizes alone.
pub(super) fn named(graph: &Graph, id: ValueId) -> Option<ValueId> {
    let (mut left, mut seen) = (VecDeque::from([id]), BTreeSet::from([id]));
    while let Some(id) = left.pop_front() {
        if graph.value(id).is_named() {
            return Some(id);
        }
        let inputs = graph.producer(id).into_iter().flat_map(|node| node.inputs.iter().flatten());
        let has_elements = |id: &&ValueId| {
            let value = graph.value(**id);
            value.constant.is_none() && value.elements.is_none()
        };
        left.extend(inputs.filter(has_elements).filter(|id| seen.insert(**id)));
    }
    None
}

/// Returns whether a value may have integers that float32 does not represent.
pub(super) fn may_round(graph: &Graph, id: ValueId) -> bool {
    let value = graph.value(id);
    value.dtype.is_some_and(DType::is_wide_int)
        && value.constant.is_none()
        && value.elements.is_none()
        && !Range::EXACT_INTEGERS.contains(range::range(graph, id))
}
