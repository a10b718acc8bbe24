//! An operator: its versions, its shape rule, its evaluation on constants, and the traits that passes ask for.

use super::{Attributes, Call, Fact};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::Array;

/// Infers type and shape of each output. `Unsupported` means that they cannot be known, and is reported only if the node is
/// still needed when the graph is lowered.
pub(crate) type Infer = fn(&Call) -> Result<Vec<Fact>>;
/// Evaluates the node on constants: an array an output.
pub(crate) type Fold = fn(&Attributes, &[Option<Array>]) -> Result<Vec<Array>>;
/// About how many elements of a sum could be computed in the time that evaluating the node takes, by the shapes of its inputs.
pub(crate) type Work = fn(&[&[usize]]) -> u64;

/// The input that a node hands on as it is, where it does.
pub(crate) type IdentityRule = fn(&Graph, &Node) -> Option<ValueId>;

/// The constant that a node of inference adds to the variances of its channels.
pub(crate) type Epsilon = fn(&Call) -> Option<f32>;

/// The constant that a node adds around its first input, and how much of it before and after each axis.
pub(crate) type Padding = fn(&Call) -> Option<(f64, Vec<(i64, i64)>)>;

/// Whether something is so for a node.
pub(crate) type Holds = fn(&Graph, &Node) -> bool;

/// An operator.
pub(crate) struct Op {
    /// The domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The since-versions that are handled.
    pub since: &'static [i64],
    /// The shape rule.
    pub infer: Infer,
    /// The evaluation of constants.
    pub fold: Option<Fold>,
    /// What the evaluation takes, where that is more than a step for each element.
    pub work: Option<Work>,
    /// The input that a node hands on as it is.
    pub identity: Option<IdentityRule>,
    /// Whether the result jumps where an input moves by a rounding error: a quotient that it reads must be exact.
    pub jumps: Option<Holds>,
    /// Whether it may leave out elements of an input: those may be undefined, and must not spoil the others.
    pub chooses: bool,
    /// Whether its result always has the shape of its first input: what a model states of the one holds for the other.
    pub keeps_shape: bool,
    /// Whether its result is its first input as far as ncnn computes: what its readers need of the result, they need of the input.
    pub transparent: Option<Holds>,
    /// The epsilon of a normalization with constant statistics.
    pub epsilon: Option<Epsilon>,
    /// The padding of a node that pads with a constant.
    pub padding: Option<Padding>,
    /// Whether it rounds to quantized steps, which later roundings may amplify.
    pub rounds: bool,
    /// Whether ncnn computes it to the last bit, if its inputs are right to the last bit.
    pub exact: bool,
    /// Whether it has all the outputs that the node names: none can be left out.
    pub variadic: bool,
    /// Whether two nodes that are alike may compute different things.
    pub random: bool,
    /// Attributes that change nothing here, each with a reason beside the row.
    pub ignored: &'static [&'static str],
    /// For readers: the layers of ncnn, or the operators, that it becomes. Empty where it is always refused.
    pub lowers_to: &'static str,
    /// For readers: what is refused.
    pub limits: &'static str,
}

impl Op {
    /// A row of ONNX's own domain.
    pub const fn new(name: &'static str, since: &'static [i64], infer: Infer) -> Op {
        Op {
            domain: "",
            name,
            since,
            infer,
            fold: None,
            work: None,
            identity: None,
            jumps: None,
            chooses: false,
            keeps_shape: false,
            transparent: None,
            epsilon: None,
            padding: None,
            rounds: false,
            exact: false,
            variadic: false,
            random: false,
            ignored: &[],
            lowers_to: "",
            limits: "",
        }
    }

    /// The since-version that a node of this operator-set version follows.
    pub fn since_version(&self, opset: i64) -> Option<i64> {
        self.since.iter().copied().filter(|since| *since <= opset).max()
    }
}
