//! A row of the table of operators: an operator, and how it is expressed in ncnn.

use crate::lower::LowerNode;
use crate::op::{Epsilon, Fold, Holds, IdentityRule, Infer, Op, Padding, Work};
use crate::pass::expand::ExpandNode;

/// An operator and its conversions.
pub(crate) struct Row {
    /// The operator.
    pub op: Op,
    /// The conversion to ncnn layers.
    pub lower: Option<LowerNode>,
    /// The conversion to other operators, tried before `lower`.
    pub expand: Option<ExpandNode>,
    /// The conversion to other operators before the graph is written as ONNX: control flow that is known.
    pub inline: Option<ExpandNode>,
    /// Whether `inline` repeats a body for each iteration: more nodes, not fewer.
    pub unrolls: bool,
}

impl Row {
    /// A row of ONNX's own domain.
    pub const fn new(name: &'static str, since: &'static [i64], infer: Infer) -> Row {
        Row { op: Op::new(name, since, infer), lower: None, expand: None, inline: None, unrolls: false }
    }

    /// The domain, where it is not ONNX's own.
    pub const fn domain(mut self, domain: &'static str) -> Row {
        self.op.domain = domain;
        self
    }

    /// The since-versions, where another row has all else.
    pub const fn since(mut self, since: &'static [i64]) -> Row {
        self.op.since = since;
        self
    }

    /// How constants are evaluated.
    pub const fn fold(mut self, fold: Fold) -> Row {
        self.op.fold = Some(fold);
        self
    }

    /// What evaluating takes.
    pub const fn work(mut self, work: Work) -> Row {
        self.op.work = Some(work);
        self
    }

    /// How it is expressed in ncnn.
    pub const fn lower(mut self, lower: LowerNode) -> Row {
        self.lower = Some(lower);
        self
    }

    /// How it is expressed in other operators.
    pub const fn expand(mut self, expand: ExpandNode) -> Row {
        self.expand = Some(expand);
        self
    }

    /// How known control flow is replaced by what it does.
    pub const fn inline(mut self, inline: ExpandNode) -> Row {
        self.inline = Some(inline);
        self
    }

    /// How it is replaced by its body as often as that runs.
    pub const fn unroll(mut self, unroll: ExpandNode) -> Row {
        self.inline = Some(unroll);
        self.unrolls = true;
        self
    }

    /// When it hands on an input as it is.
    pub const fn identity(mut self, hands_on: IdentityRule) -> Row {
        self.op.identity = Some(hands_on);
        self
    }

    /// The epsilon of a normalization with constant statistics.
    pub const fn epsilon(mut self, epsilon: Epsilon) -> Row {
        self.op.epsilon = Some(epsilon);
        self
    }

    /// The padding of a node that pads with a constant.
    pub const fn padding(mut self, padding: Padding) -> Row {
        self.op.padding = Some(padding);
        self
    }

    /// It rounds to quantized steps.
    pub const fn rounds(mut self) -> Row {
        self.op.rounds = true;
        self
    }

    /// The result is right to the last bit, if the inputs are.
    pub const fn exact(mut self) -> Row {
        self.op.exact = true;
        self
    }

    /// Two nodes that are alike may compute different things.
    pub const fn random(mut self) -> Row {
        self.op.random = true;
        self
    }

    /// It has as many outputs as the node names.
    pub const fn variadic(mut self) -> Row {
        self.op.variadic = true;
        self
    }

    /// When the result jumps where an input moves by a rounding error.
    pub const fn jumps(mut self, holds: Holds) -> Row {
        self.op.jumps = Some(holds);
        self
    }

    /// That its result always has the shape of its first input.
    pub const fn keeps_shape(mut self) -> Row {
        self.op.keeps_shape = true;
        self
    }

    /// That it may leave out elements of an input.
    pub const fn chooses(mut self) -> Row {
        self.op.chooses = true;
        self
    }

    /// When its result is its first input as far as ncnn computes.
    pub const fn transparent(mut self, holds: Holds) -> Row {
        self.op.transparent = Some(holds);
        self
    }

    /// Attributes that change nothing here.
    pub const fn ignore(mut self, names: &'static [&'static str]) -> Row {
        self.op.ignored = names;
        self
    }

    /// What it becomes, for readers: ncnn's layers by their names, or simpler operators by theirs.
    pub const fn lowers_to(mut self, lowers_to: &'static str) -> Row {
        self.op.lowers_to = lowers_to;
        self
    }

    /// What is refused, for readers.
    pub const fn limits(mut self, limits: &'static str) -> Row {
        self.op.limits = limits;
        self
    }
}
