//! An operator: its versions, its shape rule, its evaluation on constants, and the traits on which passes
//! depend.

use std::sync::Arc;

use super::schema::Schema;
use super::{Call, Inputs, Moves};
use crate::error::{Error, Result};
use crate::graph::{Fact, Graph, Node, ValueId};
use crate::tensor::{Array, Range};

/// Infers type and shape of each output. An `Unsupported` error means that they cannot be known; it is
/// reported only if the node is still needed when the graph is lowered.
pub(crate) type Infer = fn(&Call) -> Result<Vec<Fact>>;
/// Evaluates the node on the elements of its inputs, and returns an array for each output.
pub(crate) type Fold = fn(&Call) -> Result<Vec<Array>>;
/// Returns the cost of the evaluation, in additions to a sum.
pub(crate) type Work = fn(&Call) -> Option<u64>;

/// Returns the range of the first output, from the ranges of the inputs; an omitted input has the range of
/// any float.
pub(crate) type RangeRule = fn(&Call, &[Range]) -> Range;

/// Returns the input that a node forwards unchanged, if any.
pub(crate) type IdentityRule = fn(&Graph, &Node) -> Option<ValueId>;

/// Returns the inputs to which a node appends others, each with the axis along which it does.
pub(crate) type AppendRule = fn(&Graph, &Node) -> Vec<(usize, usize)>;

/// Returns the index of an input of which some values give NaN, and a value that does not.
pub(crate) type NanRule = fn(&Graph, &Node) -> Option<(usize, f32)>;

/// Returns the number of multiply-adds, if the sizes are known.
pub(crate) type MultiplyAdds = fn(&Call) -> Option<u64>;

/// Returns the type and the shape that an input is expected to have, if they are not known; the function
/// returns the type and the shape that the readers of the result expect.
pub(crate) type Expects = fn(&Call, usize, &dyn Fn() -> Option<Fact>) -> Option<Fact>;

/// A property that depends on the node.
pub(crate) type Condition = fn(&Graph, &Node) -> bool;

/// A property of the input with an index.
pub(crate) type InputRule = fn(&Call, usize) -> bool;

/// The elements of the inputs on which an element of the first output depends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Any elements: no pass may assume more.
    Any,
    /// The element at its index in the first input; further inputs are parameters. The result has the
    /// shape of the first input.
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
    /// The element at its index in row-major order: the first input in another shape.
    View,
    /// It is an element of the first input, or the largest of several.
    Selection,
}

/// The traits of an operator, each stated once: as a field of [`Op`], and as a method of a row that sets it.
/// A rule depends on the node; a fact applies to all nodes; a value has a default.
macro_rules! traits {
    ($declare:ident) => {
        $declare! {
            rules {
                /// The evaluation on constants.
                fold: Fold;
                /// Where the elements of the outputs come from, if they are elements of inputs.
                moves: Moves;
                /// The cost of the evaluation in addition to a step for each element; `None` if it is
                /// not defined for the node. Without a rule it is, and has no further cost. A deferred
                /// evaluation must not fail.
                work: Work;
                /// The input that a node forwards unchanged.
                identity: IdentityRule;
                /// The inputs to which the node appends others, each with the axis along which it does. A
                /// network may have such an input without elements: a cache of nothing.
                appends: AppendRule;
                /// Whether a rounding error of an input can change the result by a whole step: a quotient
                /// that it reads must be exact.
                discontinuous: Condition;
                /// The input values for which the result is NaN.
                nan: NanRule;
                /// Whether the rounding of an integer input to float32 changes the result by no more than
                /// that rounding. Without a rule, that is so for moves and functions of one operand.
                tolerates_rounding: InputRule;
                /// Whether ncnn computes the result as its first input: requirements on the result apply to
                /// the input.
                transparent: Condition;
                /// The range of the first output. Without a rule, it is the range of the first input if the
                /// result consists of elements of it, otherwise the range of the type.
                range: RangeRule;
                /// The range of the further outputs, such as indices.
                further_range: RangeRule;
                /// The inputs whose digits matter beyond half precision, such as coordinates.
                precise: InputRule;
                /// Whether the first axis of an input is a batch axis: the node computes each element of
                /// the batch only from this element of its inputs. Without a rule it follows from the access.
                batched: InputRule;
                /// The number of multiply-adds of convolutions and products.
                multiply_adds: MultiplyAdds;
                /// The type and the shape of an input that follow from the weights that are read with it,
                /// with usual free sizes where they leave a choice, or from the type and shape of the result.
                expects: Expects;
            }
            facts {
                /// A large element of an input may be an element of the result. It is so for moves.
                keeps_magnitude;
                /// It rounds to quantized steps, which later roundings may amplify.
                rounds;
                /// ncnn's result is exact if its inputs are.
                exact;
                /// Two equal nodes may have different results.
                random;
            }
            values {
                /// The bytes that the evaluation takes for each element of its inputs, without inputs and
                /// outputs.
                scratch: u64 = 0;
                /// The layers of ncnn, or the operators, to which it is lowered, for readers. Empty if it is
                /// always refused.
                lowers_to: &'static str = "";
                /// The nodes that are refused, for readers.
                limits: &'static str = "";
                /// The elements for which the result may differ from the specification, for readers.
                differs: &'static str = "";
                /// The differences that a conversion states itself, by the values that may have them.
                states: &'static str = "";
            }
        }
    };
}
pub(crate) use traits;

macro_rules! declare_op {
    (
        rules { $($(#[$about_rule:meta])* $rule:ident: $rule_type:ty;)* }
        facts { $($(#[$about_fact:meta])* $fact:ident;)* }
        values { $($(#[$about_value:meta])* $value:ident: $value_type:ty = $default:expr;)* }
    ) => {
        /// An operator.
        pub(crate) struct Op {
            /// Its declaration in the specification.
            pub schema: &'static Schema,
            /// The elements on which an element of the result depends.
            pub access: Access,
            /// The shape rule.
            pub infer: Infer,
            /// Whether other operators define it: its shape rule infers its expansion.
            pub defined: bool,
            $($(#[$about_rule])* pub $rule: Option<$rule_type>,)*
            $($(#[$about_fact])* pub $fact: bool,)*
            $($(#[$about_value])* pub $value: $value_type,)*
        }

        impl Op {
            /// An operator without further traits.
            pub const fn new(schema: &'static Schema, access: Access, infer: Infer) -> Op {
                Op { schema, access, infer, defined: false, $($rule: None,)* $($fact: false,)* $($value: $default,)* }
            }
        }
    };
}
traits!(declare_op);

impl Op {
    /// Returns whether the result may differ from the specification if an element is NaN or infinite, or
    /// if a sum overflows.
    pub fn needs_finite(&self) -> bool {
        let combines_elements = matches!(self.access, Access::Any | Access::Lanes { .. } | Access::Reduction);
        combines_elements || !self.differs.is_empty()
    }

    /// Evaluates a node on the elements of its inputs; `None` for an omitted one.
    ///
    /// # Errors
    ///
    /// If the operator has no evaluation, or that fails.
    pub fn evaluate(
        &self,
        node: &Node,
        inputs: impl IntoIterator<Item = Option<impl Into<Arc<Array>>>>,
    ) -> Result<Vec<Array>> {
        let fold = self.fold.ok_or_else(|| Error::internal("an operator without an evaluation"))?;
        let (graph, inputs) = (Graph::default(), Inputs::of(inputs));
        fold(&Call::evaluated(&graph, node, self, &inputs))
    }

    /// Returns the since-version that a node of version `opset` of the operator set follows.
    pub fn since_version(&self, opset: i64) -> Option<i64> {
        self.schema.since_version(opset)
    }
}
