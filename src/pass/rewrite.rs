//! Rewritings of the graph that users know by name, and can switch off by it.

use std::collections::BTreeSet;

use crate::common::fixpoint::apply_to_fixpoint;
use crate::error::{Error, Result};
use crate::graph::{DeferredErrors, Graph, Symbol};
use crate::ncnn::pass::NET_PASSES;
use crate::pass::infer;
use crate::pass::{dead, identity};

pub use crate::pass::fuse::FUSIONS;
pub use crate::pass::simplify::SIMPLIFICATIONS;

/// A rewriting of the whole graph.
#[derive(Clone, Copy, Debug)]
pub struct Rewrite {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Operators of ONNX of which all that it finds has one; a graph without any of them is not looked at. None where there are no such
    /// operators.
    pub of: &'static [&'static str],
    /// How it is done.
    pub apply: Apply,
}

/// How a rewriting is done.
#[derive(Clone, Copy, Debug)]
pub enum Apply {
    /// Nodes of its operators that hand on an input as it is are removed.
    Identity,
    /// Does it wherever it can; the answer is whether anything changed. Nodes that nobody reads any more may be left behind, and
    /// values that are made need neither types nor shapes.
    By(fn(&mut Graph) -> Result<bool>),
}

impl Rewrite {
    /// One that is done by a function.
    pub(crate) const fn by(
        name: &'static str,
        about: &'static str,
        of: &'static [&'static str],
        apply: fn(&mut Graph) -> Result<bool>,
    ) -> Rewrite {
        Rewrite { name, about, of, apply: Apply::By(apply) }
    }

    /// One that removes nodes which hand on an input.
    pub(crate) const fn forward(
        name: &'static str,
        about: &'static str,
        of: &'static [&'static str],
    ) -> Rewrite {
        Rewrite { name, about, of, apply: Apply::Identity }
    }

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

/// Applies rewritings until none finds anything to do. Types, shapes and constants are inferred after each change, and nodes that
/// nobody reads are removed. `after` is told of each change.
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

/// Where on the way a pass stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PassKind {
    /// It makes ONNX of ONNX: [`Converter::simplify`](crate::Converter::simplify) has it too.
    Simplification,
    /// It makes operators of patterns that ncnn has layers for.
    Fusion,
    /// It changes the net.
    Net,
    /// It leaves out of a simplified model what a net has no place for anyway.
    Tidying,
}

/// What [`Converter::simplify`](crate::Converter::simplify) leaves out: names, and what each is about.
const TIDYINGS: [(&str, &str); 4] = [
    (ELIMINATE_DEADEND, "simplified models: leaves out nodes whose outputs nobody reads"),
    (ELIMINATE_UNUSED_INITIALIZER, "simplified models: leaves out constants that nobody reads"),
    (EXTRACT_CONSTANT, "simplified models: makes initializers of Constant nodes"),
    (FOLD_CAST, "simplified models: casts initializers, though the wider type takes more bytes"),
];
pub(crate) const ELIMINATE_DEADEND: &str = "eliminate_deadend";
pub(crate) const ELIMINATE_UNUSED_INITIALIZER: &str = "eliminate_unused_initializer";
pub(crate) const EXTRACT_CONSTANT: &str = "extract_constant_to_initializer";
pub(crate) const FOLD_CAST: &str = "fold_cast_of_initializer";

/// A pass that can be left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct PassInfo {
    /// What users call it.
    pub name: &'static str,
    /// What it does, in a line.
    pub about: &'static str,
    /// Where it stands.
    pub kind: PassKind,
}

/// Every pass that can be left out, in the order in which it is tried.
pub fn passes() -> impl Iterator<Item = PassInfo> {
    let of = |kind: PassKind| {
        move |rewriting: &Rewrite| PassInfo { name: rewriting.name, about: rewriting.about, kind }
    };
    let simplifications = SIMPLIFICATIONS.iter().map(of(PassKind::Simplification));
    let fusions = FUSIONS.iter().map(of(PassKind::Fusion));
    let on_nets =
        NET_PASSES.iter().map(|pass| PassInfo { name: pass.name, about: pass.about, kind: PassKind::Net });
    let tidyings = TIDYINGS.iter().map(|(name, about)| PassInfo { name, about, kind: PassKind::Tidying });
    simplifications.chain(fusions).chain(on_nets).chain(tidyings)
}

/// Checks that rewritings of these names exist.
pub(crate) fn check_names(names: &BTreeSet<String>) -> Result<()> {
    let known: BTreeSet<&str> = passes().map(|pass| pass.name).collect();
    match names.iter().find(|name| !known.contains(name.as_str())) {
        Some(name) => {
            Err(Error::usage(format!("there is no pass \"{name}\""))
                .help("--list-passes lists those there are"))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_passes_have_one_name() {
        let names: Vec<&str> = passes().map(|pass| pass.name).collect();
        assert_eq!(names.iter().collect::<BTreeSet<_>>().len(), names.len());
    }
}
