//! The record of a run: the size of the graph after each pass, and warnings.

use super::Options;
use crate::error::{Error, Result};
use crate::graph::{DeferredErrors, Graph};
use crate::pass::rewrite::{self, Rewrite};

/// The number of nodes after a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Pass {
    /// The name of the pass.
    pub name: &'static str,
    /// The number of nodes after it.
    pub nodes: usize,
}

/// The record of a run.
pub(super) struct Progress<'a> {
    pub options: &'a Options,
    pub passes: Vec<Pass>,
    pub warnings: Vec<String>,
}

impl<'a> Progress<'a> {
    /// Starts a record.
    pub fn new(options: &'a Options) -> Progress<'a> {
        Progress { options, passes: Vec::new(), warnings: Vec::new() }
    }

    /// Applies those of `rewritings` that the options do not skip.
    pub fn rewrite(
        &mut self,
        graph: &mut Graph,
        rewritings: &[Rewrite],
        deferred: &mut DeferredErrors,
    ) -> Result<()> {
        let skip = &self.options.skip;
        rewrite::rewrite(graph, rewritings, skip, deferred, |name, graph| self.after(name, graph))
    }

    /// Records a pass, and checks the graph if the options ask for it.
    pub fn after(&mut self, name: &'static str, graph: &Graph) -> Result<()> {
        self.passes.push(Pass { name, nodes: graph.node_count() });
        if !self.options.check {
            return Ok(());
        }
        let broken = |error| {
            Error::internal(format!("after the pass \"{name}\" the graph is broken")).caused_by(error)
        };
        graph.check().map_err(broken)
    }
}
