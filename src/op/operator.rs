//! An operator: its versions, its shape rule, its evaluation on constants, and the traits on which passes
//! depend.

use super::range::RangeRule;
use super::{Attributes, Call, Fact};
use crate::error::Result;
use crate::graph::{Graph, Node, ValueId};
use crate::tensor::Array;

/// Infers type and shape of each output. An `Unsupported` error means that they cannot be known; it is
/// reported only if the node is still needed when the graph is lowered.
pub(crate) type Infer = fn(&Call) -> Result<Vec<Fact>>;
/// Evaluates the node on constants and returns an array for each output.
pub(crate) type Fold = fn(&Attributes, &[Option<Array>]) -> Result<Vec<Array>>;
/// Returns the cost of the evaluation, in additions to a sum, from the shapes of the inputs.
pub(crate) type Work = fn(&[&[usize]]) -> u64;

/// Returns the input that a node forwards unchanged, if any.
pub(crate) type IdentityRule = fn(&Graph, &Node) -> Option<ValueId>;

/// Returns the inputs to which a node appends others, each with the axis along which it does.
pub(crate) type AppendRule = fn(&Graph, &Node) -> Vec<(usize, usize)>;

/// Returns the constant that a normalization with constant statistics adds to the variances.
pub(crate) type Epsilon = fn(&Call) -> Option<f32>;

/// Returns the constant that a node adds around its first input, and the number of elements before and after
/// each axis.
pub(crate) type Padding = fn(&Call) -> Option<(f64, Vec<(i64, i64)>)>;

/// Returns the index of an input of which some values give NaN, and a value that does not.
pub(crate) type NanRule = fn(&Graph, &Node) -> Option<(usize, f32)>;

/// Returns the number of multiply-adds, if the sizes are known.
pub(crate) type MultiplyAdds = fn(&Call) -> Option<u64>;

/// A property that depends on the node.
pub(crate) type Holds = fn(&Graph, &Node) -> bool;

/// A property of the input with an index.
pub(crate) type InputRule = fn(&Call, usize) -> bool;

/// The elements of the inputs on which an element of the first output depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any elements: no pass may assume more.
    Any,
    /// The element at its index in the first input; further inputs are parameters. The shape is that of the
    /// first input.
    Elementwise,
    /// The elements at its index in all inputs, broadcast as in numpy.
    Broadcast,
    /// The elements along the axes of the attribute or input `axes`.
    Reduction,
    /// The elements at its index but for the axis of the attribute `axis`.
    Lanes {
        /// The version from which that is so.
        since: i64,
        /// The axis of a node without the attribute.
        default: Option<i64>,
    },
    /// The element at its place in row-major order: the first input in another shape.
    View,
    /// It is an element of the first input, or the largest of several.
    Selection,
}

/// An operator.
pub(crate) struct Op {
    /// The domain; empty for ONNX's own.
    pub domain: &'static str,
    /// The name.
    pub name: &'static str,
    /// The since-versions that are handled.
    pub since: &'static [i64],
    /// The elements on which an element of the result depends.
    pub access: Access,
    /// The shape rule.
    pub infer: Infer,
    /// The evaluation on constants.
    pub fold: Option<Fold>,
    /// Whether the evaluation is defined for a node; without a rule, it is. An evaluation that is deferred must not fail.
    pub folds: Option<Holds>,
    /// The cost of the evaluation, if it is more than a step for each element.
    pub work: Option<Work>,
    /// The bytes that the evaluation takes for each element of its inputs, beside inputs and outputs.
    pub scratch: u64,
    /// The input that a node forwards unchanged.
    pub identity: Option<IdentityRule>,
    /// The inputs to which the node appends others, each with the axis along which it does. A network may be given
    /// such an input without elements: a cache of nothing.
    pub appends: Option<AppendRule>,
    /// The inputs that only the runtime reads: caches that it made itself, in a layout of its own.
    pub caches: &'static [usize],
    /// Whether a rounding error of an input can change the result by a whole step: a quotient that it reads
    /// must be exact.
    pub jumps: Option<Holds>,
    /// Whether it may drop elements of an input: a NaN among those must not change the others.
    pub chooses: bool,
    /// The input values for which the result is NaN.
    pub nan: Option<NanRule>,
    /// Whether the rounding of an integer input to float32 changes the result by no more than that rounding.
    /// Without a rule, that is so for moves and functions of one operand.
    pub bears_rounding: Option<InputRule>,
    /// Whether ncnn computes the result as its first input: requirements on the result hold for the input.
    pub transparent: Option<Holds>,
    /// The range of the first output. Without a rule, it is that of the first input if the result consists of
    /// elements of it, otherwise that of the type.
    pub range: Option<RangeRule>,
    /// The range of the further outputs, such as indices.
    pub further_range: Option<RangeRule>,
    /// The inputs whose digits matter beyond half precision, such as coordinates.
    pub precise: Option<InputRule>,
    /// Whether the elements of the input are angles.
    pub takes_angles: bool,
    /// Whether the result is of ordinary magnitude even for sums of squares that half precision does not represent.
    pub takes_energies: bool,
    /// Whether the result is the square of an input.
    pub squares: Option<Holds>,
    /// Whether a large element of an input may be an element of the result. It is so for moves.
    pub keeps_magnitude: bool,
    /// The epsilon of a normalization with constant statistics.
    pub epsilon: Option<Epsilon>,
    /// The padding of a node that pads with a constant.
    pub padding: Option<Padding>,
    /// The number of multiply-adds of convolutions and products.
    pub multiply_adds: Option<MultiplyAdds>,
    /// Whether it rounds to quantized steps, which later roundings may amplify.
    pub rounds: bool,
    /// Whether ncnn's result is exact if its inputs are.
    pub exact: bool,
    /// Whether it computes means, which lie halfway between two quantized steps as often as not.
    pub averages: bool,
    /// The number of the first outputs that a node must name, even if nothing reads them.
    pub required_outputs: usize,
    /// Whether two equal nodes may have different results.
    pub random: bool,
    /// Attributes without effect, each with a reason beside the row.
    pub ignored: &'static [&'static str],
    /// The layers of ncnn, or the operators, to which it is lowered, for readers. Empty if it is always
    /// refused.
    pub lowers_to: &'static str,
    /// The nodes that are refused, for readers.
    pub limits: &'static str,
    /// The elements for which the result may differ from that of the specification, for readers.
    pub differs: &'static str,
    /// Whether a conversion states the values whose elements may be such.
    pub states_differences: bool,
}

impl Op {
    /// An operator of ONNX's own domain without further traits.
    pub const fn new(name: &'static str, since: &'static [i64], access: Access, infer: Infer) -> Op {
        Op {
            domain: "",
            name,
            since,
            access,
            infer,
            fold: None,
            folds: None,
            work: None,
            scratch: 0,
            identity: None,
            appends: None,
            caches: &[],
            jumps: None,
            chooses: false,
            nan: None,
            bears_rounding: None,
            transparent: None,
            range: None,
            further_range: None,
            precise: None,
            takes_angles: false,
            takes_energies: false,
            squares: None,
            keeps_magnitude: false,
            epsilon: None,
            padding: None,
            multiply_adds: None,
            rounds: false,
            exact: false,
            averages: false,
            required_outputs: 1,
            random: false,
            ignored: &[],
            lowers_to: "",
            limits: "",
            differs: "",
            states_differences: false,
        }
    }

    /// Returns whether the result may not be that of the specification if an element is NaN or infinite, or
    /// if a sum overflows.
    pub fn needs_finite(&self) -> bool {
        let combines_elements = matches!(self.access, Access::Any | Access::Lanes { .. } | Access::Reduction);
        combines_elements || !(self.differs.is_empty() || self.states_differences)
    }

    /// The since-version that a node of version `opset` of the operator set follows.
    pub fn since_version(&self, opset: i64) -> Option<i64> {
        self.since.iter().copied().filter(|since| *since <= opset).max()
    }
}
