//! The result of a conversion.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::{Composition, Options, Pass, Port};
use crate::graph::{Graph, Unfused};
use crate::lower::Assumption;
use crate::ncnn::layer::EMPTY_BLOBS;
use crate::ncnn::{Net, Written};
use crate::onnx::{Model, Sources};
use crate::tensor::{Dim, SizeCondition};

/// A converted model, ready to be written.
#[derive(Debug)]
#[non_exhaustive]
pub struct Conversion {
    /// The inputs of the net.
    pub inputs: Vec<Port>,
    /// The outputs of the net.
    pub outputs: Vec<Port>,
    /// Choices that were made for the user, and changed names.
    pub warnings: Vec<String>,
    /// Facts of values on which the net relies, although they could not be proved. If one is not true, the
    /// net may compute something else.
    pub assumptions: Vec<Assumption>,
    /// The conditions on free sizes under which the net is valid. For other sizes the model is invalid, or a
    /// blob is empty.
    pub conditions: Vec<SizeCondition>,
    /// The number of nodes after reading and after each pass.
    pub passes: Vec<Pass>,
    /// What the layers of nodes cost, the most costly nodes first; without small layers and free
    /// sizes.
    pub compositions: Vec<Composition>,
    pub(crate) net: Net,
    /// The graph that was lowered.
    pub(crate) graph: Graph,
    /// The number of layers after lowering and after each pass.
    pub(crate) net_passes: Vec<(&'static str, usize)>,
    /// The simplified model, if the options ask for it.
    pub(crate) simplified: Option<Model>,
    /// The table of scales, if the options ask for it, and its path.
    pub(crate) table: Option<(String, PathBuf)>,
    /// The files of the model, those of external data among them.
    pub(crate) sources: Sources,
    pub(crate) options: Options,
    /// The summary of the files, once they have been written.
    pub(crate) written: OnceLock<Written>,
}

impl Conversion {
    /// The release of ncnn since which sizes may be 0.
    pub const ZERO_SIZES_SINCE: u32 = EMPTY_BLOBS;

    /// Returns the patterns that fusions did not replace.
    pub fn unfused(&self) -> &[Unfused] {
        &self.graph.unfused
    }

    /// Returns the free sizes that may be 0: the lengths of caches that may be empty. All others are at least
    /// 1.
    pub fn may_be_zero(&self) -> Vec<String> {
        let is_at_least = |name: &str, condition: &SizeCondition| match condition {
            SizeCondition::AtLeast(size, _) => size.symbol_name() == Some(name),
            _ => false,
        };
        let plain = self.inputs.iter().filter(|port| port.cache.is_none());
        let lengths = plain.flat_map(|port| &port.shape).filter(|size| size.has_length());
        let names: BTreeSet<&str> = lengths.filter_map(Dim::symbol_name).collect();
        let names = names.into_iter();
        names
            .filter(|name| !self.conditions.iter().any(|condition| is_at_least(name, condition)))
            .map(str::to_owned)
            .collect()
    }
}
