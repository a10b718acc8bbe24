//! The steps of a conversion over the net, from the layers of each node to what is written.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::OnceLock;

use super::composition::{Operators, costly};
use super::float32::KeptNodes;
use super::warning::{changed_names, custom_layers, deep_net, weights_in_blocks, without_scales};
use super::{Conversion, Options, Pass, Port};
use crate::error::{Error, Result};
use crate::graph::Graph;
use crate::lower::Assumption;
use crate::ncnn::Embedding;
use crate::ncnn::layer::EMPTY_BLOBS;
use crate::ncnn::pass::OTHER_CONVOLUTIONS;
use crate::ncnn::{Net, Scales};
use crate::onnx::{Model, Sources};
use crate::pass::quantized::Quantization;
use crate::tensor::SizeCondition;

/// The net of a model between two steps.
pub(super) struct NetSteps<'a> {
    pub options: &'a Options,
    /// The graph that was lowered.
    pub graph: Graph,
    pub sources: Sources,
    pub kept: KeptNodes<'a>,
    pub asked: Option<u32>,
    pub simplified: Option<Model>,
    pub scales: Vec<Scales>,
    pub operators: Operators,
    pub passes: Vec<Pass>,
    pub warnings: Vec<String>,
    pub net: Net,
    pub assumptions: Vec<Assumption>,
    pub conditions: BTreeSet<SizeCondition>,
    /// The number of layers after each pass.
    pub net_passes: Vec<(&'static str, usize)>,
    /// The table of scales, and its path.
    pub table: Option<(String, PathBuf)>,
}

impl NetSteps<'_> {
    /// Merges neighbouring layers, and sets the precision of the others.
    pub fn optimise(&mut self) -> Result<()> {
        let Self { options, net, .. } = self;
        (net.half, net.precise, net.careful) = (options.fp16, options.precise, options.careful);
        self.net_passes.push(("lower", net.layers.len()));
        let mut skip = options.skip.clone();
        if options.table.is_some() {
            // ncnn2int8 quantizes the convolutions of the table, each with a scale for each of its outputs.
            skip.extend(OTHER_CONVOLUTIONS.map(str::to_owned));
        }
        self.net_passes.extend(net.optimise(&skip)?);
        net.drop_unread_tops();
        net.unpack_reshapes();
        self.warnings.extend(self.kept.mark(net, &self.graph));
        if net.half {
            net.tag_constants();
        }
        Ok(())
    }

    /// Gives each reader of a blob a separate top.
    pub fn split(&mut self) -> Result<()> {
        let net = &mut self.net;
        net.split();
        net.isolate_float32();
        net.find_small_weights()?;
        self.net_passes.push(("split", net.layers.len()));
        Ok(())
    }

    /// Names the blobs and layers. A table of scales has the new names.
    pub fn name(&mut self) -> Result<()> {
        let (options, net) = (self.options, &mut self.net);
        let scaled = net.layers_of_scales(&self.scales);
        let graph = &self.graph;
        let values =
            graph.value_ids().map(|id| graph.value(id).name.as_str()).filter(|name| !name.is_empty());
        self.warnings.extend(changed_names(&net.name(&renames(net, options), values)?));
        if let Some(path) = &options.table {
            let table = net.table(&scaled);
            self.warnings.extend(without_scales(&table.left_out));
            self.table = Some((table.text, path.clone()));
        }
        Ok(())
    }

    /// Checks the net, and collects the conditions on free sizes under which it is valid.
    pub fn check(&mut self) -> Result<()> {
        let (options, net) = (self.options, &self.net);
        if options.quantization() == Quantization::Int8
            && !net.layers.iter().any(|layer| layer.layer.is_int8())
        {
            self.warnings.push("no node of the model can be an int8 layer; the command quantize makes int8 layers of floats, by samples".to_owned());
        }
        let custom = custom_layers(net);
        if custom.is_some() && options.embedding() != Embedding::default() {
            let message =
                "the binary form of the .param file has numbers for types, and layers of your own have names";
            return Err(Error::usage(message));
        }
        self.warnings.extend(custom);
        self.warnings.extend(weights_in_blocks(net, options));
        self.warnings.extend(deep_net(net)?);
        let weight_elements = net.check().map_err(Error::into_internal)?;
        self.graph.budget.check_written(weight_elements)?;
        self.conditions.append(&mut self.graph.conditions);
        let accepts_empty = self.asked.is_none_or(|asked| asked >= EMPTY_BLOBS);
        self.conditions.extend(net.conditions(accepts_empty)?);
        Ok(())
    }

    /// Describes the net and what it relies on.
    pub fn finish(self) -> Conversion {
        let Self { options, graph, net, mut warnings, .. } = self;
        let compositions = self.operators.compositions(&graph, &net);
        warnings.extend(costly(&compositions));
        let inputs = Port::list(&graph, &net, &graph.variable_inputs(), net.inputs.clone());
        let outputs = net.outputs.iter().map(|output| output.blob).collect();
        let outputs = Port::list(&graph, &net, &graph.outputs, outputs);
        Conversion {
            inputs,
            outputs,
            warnings,
            assumptions: self.assumptions,
            conditions: SizeCondition::strictest(&self.conditions),
            passes: self.passes,
            compositions,
            net,
            graph,
            net_passes: self.net_passes,
            simplified: self.simplified,
            table: self.table,
            sources: self.sources,
            options: options.clone(),
            written: OnceLock::new(),
        }
    }
}

/// Returns the new names of blobs: those that the user gives, and numbers for other inputs and outputs on
/// request.
fn renames(net: &Net, options: &Options) -> Vec<(String, String)> {
    let mut renames = options.rename.clone();
    if options.numbered {
        let inputs = net.inputs.iter().map(|blob| net.blob(*blob).name.as_str()).enumerate();
        let outputs = net.outputs.iter().map(|end| end.name.as_str()).enumerate();
        let inputs = inputs.map(|(at, name)| (name, format!("in{at}")));
        for (name, number) in inputs.chain(outputs.map(|(at, name)| (name, format!("out{at}")))) {
            if renames.iter().all(|(old, _)| old != name) {
                renames.push((name.to_owned(), number));
            }
        }
    }
    renames
}
