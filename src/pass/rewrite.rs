//! Named rewritings of the graph, which users can skip.

use std::collections::BTreeSet;

use crate::common::fixpoint::apply_to_fixpoint;
use crate::error::{Error, Result};
use crate::graph::{DeferredErrors, Graph, Symbol};
use crate::ncnn::pass::NET_PASSES;
use crate::pass::infer;
use crate::pass::{dead, identity};

pub use crate::pass::batch::BATCHING;
pub use crate::pass::fuse::{CACHE_FUSIONS, FUSIONS, NARROWING};
pub use crate::pass::share::SHARING;
pub use crate::pass::simplify::{MERGING, SIMPLIFICATIONS};

/// A rewriting of the whole graph.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// The name of the pass.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// Operators of which each pattern has one: a graph without them is skipped. Empty if there are no such
    /// operators.
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

/// A row of a list of rewritings: the function, which has the name of the pass, or the name alone of a pass that removes
/// nodes that forward an input; the operators; the description.
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

    fn apply(&self, graph: &mut Graph) -> Result<bool> {
        match self.apply {
            Apply::Identity => identity::remove_identities(graph, self.of),
            Apply::By(apply) => apply(graph),
        }
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
        let changed = rewriting.is_for(&operators) && rewriting.apply(graph)?;
        if changed {
            dead::remove_dead_nodes(graph);
            *deferred = infer::infer_and_fold(graph)?;
            after(rewriting.name, graph)?;
            operators = graph.operators();
        }
        Ok(changed)
    })
}

/// The stage of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassKind {
    /// Rewrites ONNX to ONNX; part of [`Converter::simplify`](crate::Converter::simplify), too.
    Simplification,
    /// Replaces a pattern by an operator for which ncnn has a layer.
    Fusion,
    /// Rewrites the net.
    Net,
    /// Cleans a simplified model of parts that a net never has.
    Tidying,
}

/// The names and descriptions of the passes that only [`Converter::simplify`](crate::Converter::simplify)
/// has.
const TIDYINGS: [(&str, &str); 4] = [
    (ELIMINATE_DEADEND, "simplified models: removes nodes whose outputs are not read"),
    (ELIMINATE_UNUSED_INITIALIZER, "simplified models: removes constants that are not read"),
    (EXTRACT_CONSTANT, "simplified models: replaces Constant nodes by initializers"),
    (FOLD_CAST, "simplified models: folds Cast of initializers, even to a wider type"),
];
pub(crate) const ELIMINATE_DEADEND: &str = "eliminate_deadend";
pub(crate) const ELIMINATE_UNUSED_INITIALIZER: &str = "eliminate_unused_initializer";
pub(crate) const EXTRACT_CONSTANT: &str = "extract_constant_to_initializer";
pub(crate) const FOLD_CAST: &str = "fold_cast_of_initializer";

/// A pass that can be skipped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassInfo {
    /// The name of the pass.
    pub name: &'static str,
    /// A description of one line.
    pub about: &'static str,
    /// The stage of the pass.
    pub kind: PassKind,
}

/// Returns every pass that can be skipped, in the order in which they are tried.
pub fn passes() -> impl Iterator<Item = PassInfo> {
    let of = |kind: PassKind| {
        move |rewriting: &Rewrite| PassInfo { name: rewriting.name, about: rewriting.about, kind }
    };
    let simplifications = SIMPLIFICATIONS.iter().map(of(PassKind::Simplification));
    let fusions = [BATCHING, NARROWING, FUSIONS, CACHE_FUSIONS, SHARING]
        .into_iter()
        .flatten()
        .map(of(PassKind::Fusion));
    let on_nets =
        NET_PASSES.iter().map(|pass| PassInfo { name: pass.name, about: pass.about, kind: PassKind::Net });
    let tidyings = TIDYINGS.iter().map(|(name, about)| PassInfo { name, about, kind: PassKind::Tidying });
    simplifications.chain(fusions).chain(on_nets).chain(tidyings)
}

/// Checks that passes of these names exist.
///
/// # Errors
///
/// If a name is unknown.
pub(crate) fn check_names(names: &BTreeSet<String>) -> Result<()> {
    let known: BTreeSet<&str> = passes().map(|pass| pass.name).collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => {
            Err(Error::usage(format!("unknown pass \"{name}\"")).help("--list-passes lists all passes"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_passes_are_unique() {
        let names: Vec<&str> = passes().map(|pass| pass.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
