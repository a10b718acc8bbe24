//! The operators: a file a family, a row an operator. A row says which versions are handled, how shapes are inferred, constants
//! evaluated, and the node expressed in ncnn or in simpler operators.

mod activation;
mod arithmetic;
mod attention;
mod attributes;
mod bit_cast;
mod broadcast;
mod cache;
mod call;
mod cast;
mod causal_conv;
mod col2im;
mod compare;
mod concat;
mod constant;
mod contrib;
mod control;
mod conv;
mod cumulate;
mod determinant;
mod einsum;
mod feature;
mod flex_attention;
mod gated;
mod gather;
mod grid;
mod identity;
mod impossible;
mod linear_attention;
mod loss;
mod matmul;
mod multi_head;
mod n_gram;
mod norm;
mod one_hot;
mod pad;
mod pool;
mod quantize;
mod random;
mod rearrange;
mod recurrent;
mod reduce;
mod reshape;
mod resize;
mod reverse_sequence;
mod roi;
mod run_time;
mod scatter;
mod selection;
mod sequence;
mod slice;
mod softmax;
mod spectral;
mod tile;
mod top_k;
mod training;
mod transpose;
mod trees;
mod trilu;
mod unary;
mod unpool;
mod window;

use std::sync::LazyLock;

use hashbrown::HashMap;

use crate::error::{Error, Result};
use crate::graph::{Graph, Node, ValueId};
use crate::lower::Lower;
use crate::pass::expand::Expand;
use crate::tensor::{Array, Shape};

pub(crate) use attributes::{Attributes, required};
pub(crate) use call::{Call, Fact, given, resolve_axis};
pub(crate) use norm::inference_epsilon;
pub(crate) use pad::constant_padding;
use quantize::multiply_integers;
pub(crate) use quantize::whole_windows;

/// The newest version of ONNX's own operator set that the rows were read against. Newer models are refused.
pub(crate) const NEWEST_OPSET: i64 = 28;

/// The domain of operators that ncnn has a layer for and ONNX no word. Fusions alone make them.
pub(crate) const OWN_DOMAIN: &str = "ncnn";

/// The domain of operators that onnxruntime has beside ONNX's own.
pub(crate) const CONTRIB_DOMAIN: &str = "com.microsoft";

/// Infers type and shape of each output. `Unsupported` means that they cannot be known, and is reported only if the node is
/// still needed when the graph is lowered.
pub(crate) type Infer = fn(&Call) -> Result<Vec<Fact>>;
/// Evaluates the node on constants: an array an output.
pub(crate) type Fold = fn(&Attributes, &[Option<Array>]) -> Result<Vec<Array>>;
/// About how many elements of a sum could be computed in the time that evaluating the node takes, by the shapes of its inputs.
pub(crate) type Work = fn(&[&[usize]]) -> u64;
/// Expresses the node in ncnn layers.
pub(crate) type LowerNode = fn(&mut Lower) -> Result<()>;
/// Expresses the node in other operators of ONNX. `false` leaves it as it is.
pub(crate) type ExpandNode = fn(&mut Expand) -> Result<bool>;

/// The input that a node hands on as it is, where it does.
pub(crate) type HandsOn = fn(&Graph, &Node) -> Option<ValueId>;

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
    /// The way to ncnn.
    pub lower: Option<LowerNode>,
    /// The way to other operators, tried before `lower`.
    pub expand: Option<ExpandNode>,
    /// The way to other operators before the graph is written as ONNX: control flow that is known.
    pub inline: Option<ExpandNode>,
    /// Whether that way makes a body as often as it runs: more nodes, not fewer.
    pub unrolls: bool,
    /// The input that a node hands on as it is.
    pub identity: Option<HandsOn>,
    /// Whether the result jumps where an input moves by a rounding error: a quotient that it reads must be exact.
    pub jumps: Option<Holds>,
    /// Whether it may leave out elements of an input: those may be undefined, and must not spoil the others.
    pub chooses: bool,
    /// Whether its result always has the shape of its first input: what a model states of the one holds for the other.
    pub keeps_shape: bool,
    /// Whether its result is its first input as far as ncnn computes: what its readers need of the result, they need of the input.
    pub transparent: Option<Holds>,
    /// Whether it rounds to quantised steps, which later roundings may amplify.
    pub rounds: bool,
    /// Whether ncnn computes it to the last bit, if its inputs are right to the last bit.
    pub exact: bool,
    /// Whether it has all the outputs that the node names: none can be left out.
    pub variadic: bool,
    /// Whether two nodes that are alike may compute different things.
    pub random: bool,
    /// Attributes that change nothing here, each with a reason beside the row.
    pub waived: &'static [&'static str],
    /// For readers: the layers of ncnn, or the operators, that it becomes. Empty where it is always refused.
    pub becomes: &'static str,
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
            lower: None,
            expand: None,
            inline: None,
            unrolls: false,
            identity: None,
            jumps: None,
            chooses: false,
            keeps_shape: false,
            transparent: None,
            rounds: false,
            exact: false,
            variadic: false,
            random: false,
            waived: &[],
            becomes: "",
            limits: "",
        }
    }

    /// The domain, where it is not ONNX's own.
    pub const fn domain(mut self, domain: &'static str) -> Op {
        self.domain = domain;
        self
    }

    /// How constants are evaluated.
    pub const fn fold(mut self, fold: Fold) -> Op {
        self.fold = Some(fold);
        self
    }

    /// What evaluating takes.
    pub const fn work(mut self, work: Work) -> Op {
        self.work = Some(work);
        self
    }

    /// How it is expressed in ncnn.
    pub const fn lower(mut self, lower: LowerNode) -> Op {
        self.lower = Some(lower);
        self
    }

    /// How it is expressed in other operators.
    pub const fn expand(mut self, expand: ExpandNode) -> Op {
        self.expand = Some(expand);
        self
    }

    /// How known control flow is replaced by what it does.
    pub const fn inline(mut self, inline: ExpandNode) -> Op {
        self.inline = Some(inline);
        self
    }

    /// How it is replaced by its body as often as that runs.
    pub const fn unroll(mut self, unroll: ExpandNode) -> Op {
        self.inline = Some(unroll);
        self.unrolls = true;
        self
    }

    /// When it hands on an input as it is.
    pub const fn identity(mut self, hands_on: HandsOn) -> Op {
        self.identity = Some(hands_on);
        self
    }

    /// It rounds to quantised steps.
    pub const fn rounds(mut self) -> Op {
        self.rounds = true;
        self
    }

    /// The result is right to the last bit, if the inputs are.
    pub const fn exact(mut self) -> Op {
        self.exact = true;
        self
    }

    /// Two nodes that are alike may compute different things.
    pub const fn random(mut self) -> Op {
        self.random = true;
        self
    }

    /// It has as many outputs as the node names.
    pub const fn variadic(mut self) -> Op {
        self.variadic = true;
        self
    }

    /// When the result jumps where an input moves by a rounding error.
    pub const fn jumps(mut self, holds: Holds) -> Op {
        self.jumps = Some(holds);
        self
    }

    /// That its result always has the shape of its first input.
    pub const fn keeps_shape(mut self) -> Op {
        self.keeps_shape = true;
        self
    }

    /// That it may leave out elements of an input.
    pub const fn chooses(mut self) -> Op {
        self.chooses = true;
        self
    }

    /// When its result is its first input as far as ncnn computes.
    pub const fn transparent(mut self, holds: Holds) -> Op {
        self.transparent = Some(holds);
        self
    }

    /// Attributes that change nothing here.
    pub const fn waive(mut self, names: &'static [&'static str]) -> Op {
        self.waived = names;
        self
    }

    /// What it becomes, for readers: ncnn's layers by their names, or simpler operators by theirs.
    pub const fn becomes(mut self, becomes: &'static str) -> Op {
        self.becomes = becomes;
        self
    }

    /// What is refused, for readers.
    pub const fn limits(mut self, limits: &'static str) -> Op {
        self.limits = limits;
        self
    }

    /// The since-version that a node of this operator-set version follows.
    pub fn since_version(&self, opset: i64) -> Option<i64> {
        self.since.iter().copied().filter(|since| *since <= opset).max()
    }
}

/// The rows of ONNX's own operators, by name.
static OWN: LazyLock<HashMap<&'static str, &'static Op>> =
    LazyLock::new(|| all().filter(|op| op.domain.is_empty()).map(|op| (op.name, op)).collect());

/// The rows of the others, by domain and name.
static OTHERS: LazyLock<HashMap<(&'static str, &'static str), &'static Op>> =
    LazyLock::new(|| all().filter(|op| !op.domain.is_empty()).map(|op| ((op.domain, op.name), op)).collect());

/// The row of ONNX's own operator of this name.
pub(crate) fn own(name: &str) -> Option<&'static Op> {
    OWN.get(name).copied()
}

/// The row of a node.
pub(crate) fn find(node: &Node) -> Option<&'static Op> {
    if node.domain.is_empty() {
        return node.op_type.op();
    }
    // The key's lifetime is that of the look-up, not 'static: the map finds it through the shorter borrow.
    let others: &HashMap<(&str, &str), &'static Op> = &OTHERS;
    others.get(&(node.domain.as_str(), node.op_type.as_str())).copied()
}

/// The way out for operators that have none to ncnn.
pub(crate) const CUT: &str = "cut the graph before it with --outputs";

/// The row of a node, in a version that is handled.
pub(crate) fn find_handled(node: &Node) -> Result<&'static Op> {
    let name = || node.qualified_op_type();
    let Some(op) = find(node) else {
        return Err(Error::unsupported(format!("the operator {} is not known", name())).help(CUT));
    };
    if node.domain.is_empty() && node.version > NEWEST_OPSET {
        return Err(Error::unsupported(format!(
            "operator set {} is newer than {NEWEST_OPSET}, the newest that is known",
            node.version
        )));
    }
    if op.since_version(node.version).is_none() {
        let message = format!("{} of operator set {} is not handled", name(), node.version);
        return Err(Error::unsupported(message));
    }
    Ok(op)
}

/// The shape of the first output of a node that need not be in the graph, where it can be known.
pub(crate) fn infer_shape(graph: &Graph, node: &Node) -> Option<Shape> {
    let op = find_handled(node).ok()?;
    (op.infer)(&Call::new(graph, node, op)).ok()?.into_iter().next()?.shape
}

/// Every row, family by family.
pub(crate) fn all() -> impl Iterator<Item = &'static Op> {
    FAMILIES.iter().flat_map(|family| family.iter())
}

const FAMILIES: &[&[Op]] = &[
    activation::OPS,
    arithmetic::OPS,
    attention::OPS,
    bit_cast::OPS,
    cache::OPS,
    cast::OPS,
    causal_conv::OPS,
    col2im::OPS,
    compare::OPS,
    concat::OPS,
    constant::OPS,
    contrib::OPS,
    control::OPS,
    conv::OPS,
    cumulate::OPS,
    determinant::OPS,
    einsum::OPS,
    feature::OPS,
    flex_attention::OPS,
    gated::OPS,
    gather::OPS,
    grid::OPS,
    impossible::OPS,
    linear_attention::OPS,
    loss::OPS,
    matmul::OPS,
    multi_head::OPS,
    n_gram::OPS,
    norm::OPS,
    one_hot::OPS,
    pad::OPS,
    pool::OPS,
    quantize::OPS,
    quantize::CONTRIB,
    quantize::MIXED,
    quantize::PACKED,
    random::OPS,
    rearrange::OPS,
    recurrent::OPS,
    reduce::OPS,
    reshape::OPS,
    resize::OPS,
    reverse_sequence::OPS,
    roi::OPS,
    scatter::OPS,
    selection::OPS,
    sequence::OPS,
    slice::OPS,
    softmax::OPS,
    spectral::OPS,
    tile::OPS,
    top_k::OPS,
    training::OPS,
    transpose::OPS,
    trees::OPS,
    trilu::OPS,
    unary::OPS,
    unpool::OPS,
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operator_has_one_row_with_versions_in_order() {
        assert_eq!(all().count(), OWN.len() + OTHERS.len(), "an operator stands in two families");
        for op in all() {
            assert!(op.since.is_sorted_by(|a, b| a < b), "{}", op.name);
            assert!(
                !op.domain.is_empty() || op.since.iter().all(|since| *since <= NEWEST_OPSET),
                "{}",
                op.name
            );
        }
    }
}
