//! A row of the table of operators: an operator, and how it is expressed in ncnn.

use crate::lower::LowerNode;
use crate::op::range::RangeRule;
use crate::op::{
    Access, AppendRule, Epsilon, Fold, Holds, IdentityRule, Infer, InputRule, MultiplyAdds, NanRule, Op,
    Padding, Work,
};
use crate::pass::expand::ExpandNode;

/// An operator and its conversions. Each method sets the trait of its name; [`Op`] documents them.
pub(crate) struct Row {
    /// The operator.
    pub op: Op,
    /// The conversion to ncnn layers.
    pub lower: Option<LowerNode>,
    /// The conversion to other operators, tried before `lower`.
    pub expand: Option<ExpandNode>,
    /// The conversion of constant control flow to other operators, before the graph is written as ONNX.
    pub inline: Option<ExpandNode>,
    /// Whether `inline` repeats a body for each iteration: more nodes, not fewer.
    pub unrolls: bool,
}

impl Row {
    /// A row of ONNX's own domain without conversions.
    pub const fn new(name: &'static str, since: &'static [i64], access: Access, infer: Infer) -> Row {
        Row {
            op: Op::new(name, since, access, infer),
            lower: None,
            expand: None,
            inline: None,
            unrolls: false,
        }
    }

    pub const fn domain(mut self, domain: &'static str) -> Row {
        self.op.domain = domain;
        self
    }

    /// Replaces the since-versions, for a row that is otherwise equal to another.
    pub const fn since(mut self, since: &'static [i64]) -> Row {
        self.op.since = since;
        self
    }

    pub const fn fold(mut self, fold: Fold) -> Row {
        self.op.fold = Some(fold);
        self
    }

    pub const fn folds(mut self, holds: Holds) -> Row {
        self.op.folds = Some(holds);
        self
    }

    pub const fn work(mut self, work: Work) -> Row {
        self.op.work = Some(work);
        self
    }

    pub const fn scratch(mut self, bytes: u64) -> Row {
        self.op.scratch = bytes;
        self
    }

    pub const fn lower(mut self, lower: LowerNode) -> Row {
        self.lower = Some(lower);
        self
    }

    pub const fn expand(mut self, expand: ExpandNode) -> Row {
        self.expand = Some(expand);
        self
    }

    pub const fn inline(mut self, inline: ExpandNode) -> Row {
        self.inline = Some(inline);
        self
    }

    pub const fn unroll(mut self, unroll: ExpandNode) -> Row {
        self.inline = Some(unroll);
        self.unrolls = true;
        self
    }

    pub const fn identity(mut self, identity: IdentityRule) -> Row {
        self.op.identity = Some(identity);
        self
    }

    pub const fn appends(mut self, appends: AppendRule) -> Row {
        self.op.appends = Some(appends);
        self
    }

    pub const fn caches(mut self, inputs: &'static [usize]) -> Row {
        self.op.caches = inputs;
        self
    }

    pub const fn epsilon(mut self, epsilon: Epsilon) -> Row {
        self.op.epsilon = Some(epsilon);
        self
    }

    pub const fn padding(mut self, padding: Padding) -> Row {
        self.op.padding = Some(padding);
        self
    }

    pub const fn multiply_adds(mut self, multiply_adds: MultiplyAdds) -> Row {
        self.op.multiply_adds = Some(multiply_adds);
        self
    }

    pub const fn rounds(mut self) -> Row {
        self.op.rounds = true;
        self
    }

    pub const fn exact(mut self) -> Row {
        self.op.exact = true;
        self
    }

    pub const fn averages(mut self) -> Row {
        self.op.averages = true;
        self
    }

    pub const fn random(mut self) -> Row {
        self.op.random = true;
        self
    }

    /// Sets the number of the first outputs that a node must name.
    pub const fn required_outputs(mut self, count: usize) -> Row {
        self.op.required_outputs = count;
        self
    }

    pub const fn jumps(mut self, holds: Holds) -> Row {
        self.op.jumps = Some(holds);
        self
    }

    pub const fn chooses(mut self) -> Row {
        self.op.chooses = true;
        self
    }

    pub const fn nan(mut self, nan: NanRule) -> Row {
        self.op.nan = Some(nan);
        self
    }

    pub const fn bears_rounding(mut self, rule: InputRule) -> Row {
        self.op.bears_rounding = Some(rule);
        self
    }

    pub const fn transparent(mut self, holds: Holds) -> Row {
        self.op.transparent = Some(holds);
        self
    }

    pub const fn range(mut self, rule: RangeRule) -> Row {
        self.op.range = Some(rule);
        self
    }

    pub const fn further_range(mut self, rule: RangeRule) -> Row {
        self.op.further_range = Some(rule);
        self
    }

    pub const fn ignore(mut self, names: &'static [&'static str]) -> Row {
        self.op.ignored = names;
        self
    }

    pub const fn lowers_to(mut self, lowers_to: &'static str) -> Row {
        self.op.lowers_to = lowers_to;
        self
    }

    pub const fn states_differences(mut self) -> Row {
        self.op.states_differences = true;
        self
    }

    pub const fn precise(mut self, precise: InputRule) -> Row {
        self.op.precise = Some(precise);
        self
    }

    pub const fn takes_angles(mut self) -> Row {
        self.op.takes_angles = true;
        self
    }

    pub const fn takes_energies(mut self) -> Row {
        self.op.takes_energies = true;
        self
    }

    pub const fn squares(mut self, holds: Holds) -> Row {
        self.op.squares = Some(holds);
        self
    }

    pub const fn keeps_magnitude(mut self) -> Row {
        self.op.keeps_magnitude = true;
        self
    }

    pub const fn differs(mut self, differs: &'static str) -> Row {
        self.op.differs = differs;
        self
    }

    pub const fn limits(mut self, limits: &'static str) -> Row {
        self.op.limits = limits;
        self
    }
}
