//! A model as a chain of nets.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};

use super::{Conversion, Converter, Refusal, Simplified};
use crate::common::output;
use crate::error::{self, Error, ErrorKind};
use crate::onnx::{Input, Sources, Storage};
use crate::pipeline::{self, Link, Port};
use crate::tensor::display_shape;

/// The parts of a model between cuts, in order: each reads inputs of the model, and outputs of earlier parts.
#[derive(Debug)]
#[non_exhaustive]
pub struct Chain {
    /// The parts; at least one is a net.
    pub steps: Vec<Step>,
    sources: Sources,
}

/// A part of a model.
#[derive(Debug)]
#[non_exhaustive]
pub struct Step {
    /// The names of the inputs in the model.
    pub inputs: Vec<String>,
    /// The names of the outputs in the model.
    pub outputs: Vec<String>,
    /// A converter of only the part.
    pub converter: Converter,
    /// What became of the part.
    pub part: Part,
}

/// What became of a part of a model.
#[derive(Clone, Debug)]
pub enum Part {
    /// It is a net.
    Net(Arc<Conversion>),
    /// It cannot be converted, and is written as ONNX.
    Rest {
        /// The reasons.
        refusal: Arc<Refusal>,
        /// The part itself.
        model: Arc<Simplified>,
    },
}

impl Converter {
    /// Converts a model as a chain of nets, which is cut at these values: the values of a cut are computed
    /// before it and read after it; others that later parts read are added. A value of which the model states
    /// no type has one after its name, such as `ids:int64[1,S]`.
    ///
    /// # Errors
    ///
    /// The model cannot be read, a value is unknown, a cut needs results of a later one, or no part can be
    /// converted.
    pub fn convert_chain(&self, input: &Input, cuts: &[Vec<String>]) -> Result<Chain, Refusal> {
        let sources = Sources::open(input, &self.options().read())?;
        let links = pipeline::links(&sources, self.options(), cuts)?;
        let steps = links.into_iter().map(|link| self.step(input, link));
        let steps = steps.collect::<Result<Vec<_>, _>>()?;
        match steps.iter().any(|step| matches!(step.part, Part::Net(_))) {
            true => Ok(Chain { steps, sources }),
            // The whole model is refused for the same reasons.
            false => Err(self
                .convert(input)
                .err()
                .unwrap_or_else(|| Error::internal("a chain without nets").into())),
        }
    }

    fn step(&self, input: &Input, link: Link) -> Result<Step, Refusal> {
        let converter = self.part(&link);
        let part = match converter.convert(input) {
            Ok(conversion) => Part::Net(Arc::new(conversion)),
            Err(refusal) => {
                let is_of_part =
                    |error: &Error| matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Limit);
                if !refusal.iter().all(is_of_part) {
                    return Err(refusal);
                }
                let model = converter.expose(input, &BTreeSet::new())?;
                Part::Rest { refusal: Arc::new(refusal), model: Arc::new(model) }
            }
        };
        Ok(Step { inputs: link.inputs, outputs: link.outputs, converter, part })
    }
}

impl Step {
    /// Returns the reasons why the part is left to onnxruntime, each once.
    pub fn reasons(&self) -> Vec<String> {
        let Part::Rest { refusal, .. } = &self.part else { return Vec::new() };
        let reasons: BTreeSet<String> = refusal.iter().map(|error| error.message().to_owned()).collect();
        reasons.into_iter().collect()
    }

    /// Returns the files of the part, for those of a net: the name of `net.param` becomes `net.2.param`, or
    /// `net.2.onnx`.
    fn files(&self, index: usize, param: &Path, bin: &Path) -> BTreeMap<&'static str, PathBuf> {
        let file = |path: &Path, ending: &str| path.with_extension(format!("{}.{ending}", index + 1));
        match &self.part {
            Part::Net(_) => BTreeMap::from([("param", file(param, "param")), ("bin", file(bin, "bin"))]),
            Part::Rest { .. } => BTreeMap::from([("onnx", file(param, "onnx"))]),
        }
    }

    fn to_json(&self, files: &BTreeMap<&str, PathBuf>) -> Value {
        let port = |port: &Port| {
            json!({
                "name": port.name, "blob": port.blob, "type": port.dtype, "shape": display_shape(&port.shape),
                "form": display_shape(&port.form), "int32": port.int32,
            })
        };
        let plain = |names: &[String]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
        let mut step = match &self.part {
            Part::Net(conversion) => json!({
                "inputs": conversion.inputs.iter().map(port).collect::<Vec<_>>(),
                "outputs": conversion.outputs.iter().map(port).collect::<Vec<_>>(),
            }),
            Part::Rest { .. } => json!({
                "reasons": self.reasons(), "inputs": plain(&self.inputs), "outputs": plain(&self.outputs),
            }),
        };
        if let Some(step) = step.as_object_mut() {
            for (kind, path) in files {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                step.insert((*kind).to_owned(), json!(name));
            }
        }
        step
    }
}

impl Chain {
    /// Returns the files of each step, for those of a net, and the list of all.
    pub fn files(&self, param: &Path, bin: &Path) -> (Vec<Vec<PathBuf>>, PathBuf) {
        let steps = self.steps.iter().enumerate();
        let files = steps.map(|(index, step)| step.files(index, param, bin).into_values().rev().collect());
        (files.collect(), param.with_extension("json"))
    }

    /// Returns the list of the steps as JSON: their files, and their inputs and outputs.
    pub fn list(&self, param: &Path, bin: &Path) -> String {
        let steps = self.steps.iter().enumerate();
        let steps: Vec<Value> =
            steps.map(|(index, step)| step.to_json(&step.files(index, param, bin))).collect();
        serde_json::to_string_pretty(&json!({ "steps": steps })).unwrap_or_default() + "\n"
    }

    /// Writes the files of all steps, and the list: all are written, or none is changed. The names are those
    /// of a net, with a number before their ending. The files of the model are not overwritten.
    pub fn write(&self, param: impl AsRef<Path>, bin: impl AsRef<Path>) -> error::Result<()> {
        let (param, bin) = (param.as_ref(), bin.as_ref());
        let mut staged = output::Staged::new();
        for (index, step) in self.steps.iter().enumerate() {
            let files = step.files(index, param, bin);
            match (&step.part, files.get("param"), files.get("bin"), files.get("onnx")) {
                (Part::Net(conversion), Some(param), Some(bin), _) => {
                    staged.extend(conversion.stage(param, bin, None, |_| Ok(None))?.0);
                }
                (Part::Rest { model, .. }, _, _, Some(onnx)) => {
                    staged.extend(model.stage(onnx, &Storage::AsNeeded)?);
                }
                _ => return Err(Error::internal("a step without files")),
            }
        }
        staged.push(output::stage_text(&param.with_extension("json"), &self.list(param, bin))?);
        self.sources.move_results(staged)
    }
}
