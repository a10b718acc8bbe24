//! The passes that users can skip.

use std::collections::BTreeSet;

use crate::error::{Error, Result};
use crate::ncnn::pass::NET_PASSES;
use crate::pass::rewrite::Rewrite;

pub use crate::pass::batch::BATCHING;
pub use crate::pass::fuse::{ATTENTION_FUSIONS, CACHE_FUSIONS, FUSIONS, NARROWING};
pub use crate::pass::share::SHARING;
pub use crate::pass::simplify::{MERGING, SIMPLIFICATIONS};

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
    let fusions = [BATCHING, NARROWING, FUSIONS, CACHE_FUSIONS, ATTENTION_FUSIONS, SHARING]
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
