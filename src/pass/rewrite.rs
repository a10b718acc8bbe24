//! Named rewritings of the graph, which users can skip.

use std::collections::BTreeSet;

use crate::common::fixpoint::apply_to_fixpoint;
use crate::error::Result;
use crate::graph::{DeferredErrors, Graph, Symbol};
use crate::pass::infer;
use crate::pass::{dead, identity};

/// A rewriting of the whole graph.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// The name of the pass.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// Operators of which each pattern has one: a graph without them is skipped. Empty if the
    /// patterns share none.
    pub of: &'static [&'static str],
    /// The implementation.
    pub apply: Apply,
}

/// The implementation of a rewriting.
#[derive(Clone, Copy, Debug)]
pub enum Apply {
    /// Removes nodes of its operators that forward an input.
    Identity,
    /// Rewrites all matches and returns whether there were any. It may leave unread nodes, and new values
    /// without type and shape.
    By(fn(&mut Graph) -> Result<bool>),
}

/// A row of a list of rewritings: the function, which has the name of the pass, or only the name of a pass
/// that removes nodes that forward an input; the operators; the description.
macro_rules! pass {
    ($name:ident [$($op_type:ident)*] $about:literal) => {
        pass!($name [$($op_type)*] $about, $crate::pass::rewrite::Apply::Identity)
    };
    ($module:ident::$name:ident [$($op_type:ident)*] $about:literal) => {
        pass!($name [$($op_type)*] $about, $crate::pass::rewrite::Apply::By($module::$name))
    };
    ($name:ident [$($op_type:ident)*] $about:literal, $apply:expr) => {
        $crate::pass::rewrite::Rewrite {
            name: stringify!($name),
            about: $about,
            of: &[$(stringify!($op_type)),*],
            apply: $apply,
        }
    };
}
pub(crate) use pass;

impl Rewrite {
    fn is_for(&self, operators: &BTreeSet<Symbol>) -> bool {
        self.of.is_empty() || self.of.iter().any(|op_type| operators.contains(*op_type))
    }

    fn apply(&self, graph: &mut Graph, operators: &BTreeSet<Symbol>) -> Result<bool> {
        graph.unfused.retain(|unfused| unfused.pass != self.name);
        if !self.is_for(operators) {
            return Ok(false);
        }
        let changed = match self.apply {
            Apply::Identity => identity::remove_identities(graph, self.of)?,
            Apply::By(apply) => apply(graph)?,
        };
        let new = graph.unfused.iter_mut().filter(|unfused| unfused.pass.is_empty());
        new.for_each(|unfused| unfused.pass = self.name);
        Ok(changed)
    }
}

/// Applies rewritings up to a fixpoint. After each change unread nodes are removed, types, shapes and
/// constants are inferred, and `after` is called.
pub(crate) fn rewrite(
    graph: &mut Graph,
    rewritings: &[Rewrite],
    skip: &BTreeSet<String>,
    deferred: &mut DeferredErrors,
    mut after: impl FnMut(&'static str, &Graph) -> Result<()>,
) -> Result<()> {
    let tried: Vec<&Rewrite> = rewritings.iter().filter(|rewriting| !skip.contains(rewriting.name)).collect();
    let mut operators = graph.operators();
    apply_to_fixpoint(&tried, |rewriting| {
        let changed = rewriting.apply(graph, &operators)?;
        if changed {
            dead::remove_dead_nodes(graph);
            *deferred = infer::infer_and_fold(graph)?;
            after(rewriting.name, graph)?;
            operators = graph.operators();
        }
        Ok(changed)
    })
}
