//! A row of the table of operators: an operator, and how it is expressed in ncnn.

use crate::error::Result;
use crate::graph::Fact;
use crate::lower::{LowerNode, lower_moves};
use crate::op::{
    Access, AppendRule, Call, Condition, Expects, Fold, IdentityRule, Infer, InputRule, Moves, MultiplyAdds,
    NanRule, Op, RangeRule, Schema, Work, fold_moves, infer_moves, moves_batch, traits, unmoved,
};
use crate::pass::definition;
use crate::pass::expand::{ExpandNode, Expansion, Formula};

/// An operator and its conversions.
pub(crate) struct Row {
    /// The operator.
    pub op: Op,
    /// The conversion to ncnn layers.
    pub lower: Option<LowerNode>,
    /// The conversion to other operators, tried before `lower`.
    pub expand: Option<Expansion>,
    /// The conversion of constant control flow to other operators, before the graph is written as ONNX.
    pub inline: Option<Expansion>,
    /// Whether `inline` repeats a body for each iteration: more nodes, not fewer.
    pub unrolls: bool,
}

impl Row {
    /// A row of the domain of ONNX without conversions.
    pub const fn new(name: &'static str, access: Access, infer: Infer) -> Row {
        Row::of("", name, access, infer)
    }

    /// A row of a domain without conversions.
    pub const fn of(domain: &'static str, name: &'static str, access: Access, infer: Infer) -> Row {
        let op = Op::new(Schema::of(domain, name), access, infer);
        Row { op, lower: None, expand: None, inline: None, unrolls: false }
    }

    /// A row that an expression of the inputs defines: the expression gives types and shapes.
    pub const fn defined(domain: &'static str, name: &'static str, formula: Formula) -> Row {
        Row::of(domain, name, Access::Any, infer_by_expansion).defined_by(Expansion::Formula(formula))
    }

    /// A row that other operators define, for several outputs.
    pub const fn expanded(domain: &'static str, name: &'static str, expand: ExpandNode) -> Row {
        Row::of(domain, name, Access::Any, infer_by_expansion).defined_by(Expansion::Nodes(expand))
    }

    const fn defined_by(mut self, expansion: Expansion) -> Row {
        self.op.defined = true;
        self.expand = Some(expansion);
        self
    }

    /// States on which elements of the inputs an element of the result depends.
    pub const fn access(mut self, access: Access) -> Row {
        self.op.access = access;
        self
    }

    /// A row of an operator that only moves elements. All else follows from the moves.
    pub const fn moving(domain: &'static str, name: &'static str, access: Access, moves: Moves) -> Row {
        let row = Row::of(domain, name, access, infer_moves).moves(moves);
        let row = row.fold(fold_moves).lower(lower_moves);
        row.identity(unmoved).batched(moves_batch).transparent(|_, _| true)
    }

    /// Replaces the domain, for a row that is otherwise equal to another.
    pub const fn domain(mut self, domain: &'static str) -> Row {
        self.op.schema = Schema::of(domain, self.op.schema.name);
        self
    }

    /// Replaces the shape rule.
    pub const fn infer(mut self, infer: Infer) -> Row {
        self.op.infer = infer;
        self
    }

    pub const fn lower(mut self, lower: LowerNode) -> Row {
        self.lower = Some(lower);
        self
    }

    pub const fn expand(mut self, expand: ExpandNode) -> Row {
        self.expand = Some(Expansion::Nodes(expand));
        self
    }

    /// The conversion to an expression of the inputs.
    pub const fn formula(mut self, formula: Formula) -> Row {
        self.expand = Some(Expansion::Formula(formula));
        self
    }

    pub const fn inline(mut self, inline: ExpandNode) -> Row {
        self.inline = Some(Expansion::Nodes(inline));
        self
    }

    pub const fn unroll(mut self, unroll: ExpandNode) -> Row {
        self.inline = Some(Expansion::Nodes(unroll));
        self.unrolls = true;
        self
    }
}

fn infer_by_expansion(call: &Call) -> Result<Vec<Fact>> {
    definition::infer_by_expansion(call, super::expansion)
}

macro_rules! declare_setters {
    (
        rules { $($(#[$about_rule:meta])* $rule:ident: $rule_type:ty;)* }
        facts { $($(#[$about_fact:meta])* $fact:ident;)* }
        values { $($(#[$about_value:meta])* $value:ident: $value_type:ty = $default:expr;)* }
    ) => {
        impl Row {
            $($(#[$about_rule])* pub const fn $rule(mut self, rule: $rule_type) -> Row {
                self.op.$rule = Some(rule);
                self
            })*
            $($(#[$about_fact])* pub const fn $fact(mut self) -> Row {
                self.op.$fact = true;
                self
            })*
            $($(#[$about_value])* pub const fn $value(mut self, value: $value_type) -> Row {
                self.op.$value = value;
                self
            })*
        }
    };
}
traits!(declare_setters);
