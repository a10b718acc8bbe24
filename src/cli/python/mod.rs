//! Comparison with other runtimes through Python: onnxruntime, and ncnn for nets; and quantization by the
//! tool of onnxruntime.

mod quantize;
mod weights;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use clap::Args;
use onnx2ncnn::error::{Error, ErrorKind, Result};
use onnx2ncnn::report::{ComparisonPart, Distance};
use onnx2ncnn::{Conversion, HalfBlob, Port};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use quantize::QUANTIZE;
pub(in crate::cli) use quantize::{Quantize, Quantized};
pub use weights::WEIGHTS;
pub(in crate::cli) use weights::{Round, Rounded};

/// Sizes to try for free axes until a model runs: some models need more than a few elements.
pub const SIZES: [i64; 8] = [6, 16, 32, 64, 128, 224, 384, 1];

/// The script that compares models and nets, embedded so that versions match.
pub const COMPARE: &str = concat!(
    include_str!("session.py"),
    include_str!("samples.py"),
    include_str!("half.py"),
    include_str!("device.py"),
    include_str!("compare.py")
);
/// The tolerance for a net in float32, relative to the largest magnitude of an output.
const TOLERANCE: f64 = 1e-3;

/// The least cosine of the outputs of int8 networks, whose roundings are not those of onnxruntime.
pub const INT8_COSINE: f64 = 0.99;

/// The tolerance for two ONNX models, relative to the largest magnitude of an output.
pub const MODELS_TOLERANCE: f64 = 1e-4;

/// The Python to use.
#[derive(Debug, Args)]
pub(in crate::cli) struct PythonArguments {
    /// The Python that has onnxruntime [default: python3]
    ///
    /// Without the option, the variable ONNX2NCNN_PYTHON names it.
    #[arg(long, value_name = "PATH", help_heading = "Comparison")]
    pub python: Option<PathBuf>,
}

/// Parses a tolerance, or another part of one.
pub(in crate::cli) fn parse_part(text: &str) -> std::result::Result<f64, String> {
    match text.parse::<f64>() {
        Ok(part) if part > 0.0 && part.is_finite() => Ok(part),
        _ => Err("expected a positive number, such as 1e-3".to_owned()),
    }
}

/// The bound of losses: one minus the cosine of two outputs, which is 1 for outputs that have nothing in
/// common.
pub const MAX_LOSS: f64 = 1.0;

/// Parses the largest loss of outputs.
pub(in crate::cli) fn parse_loss(text: &str) -> std::result::Result<f64, String> {
    let loss = parse_part(text).ok().filter(|loss| *loss < MAX_LOSS);
    loss.ok_or_else(|| format!("expected a number between 0 and {MAX_LOSS}, such as 0.01"))
}

/// A comparison.
#[derive(Debug, Serialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub(in crate::cli) enum Request {
    /// Two ONNX models.
    Models { original: PathBuf, other: PathBuf, rounds: u32, sizes: [i64; 8], tolerance: f64 },
    /// An ONNX model and a net.
    Net(Box<NetRequest>),
}

/// An ONNX model and a net, and the pairs of values and blobs.
#[derive(Debug, Default, Serialize)]
pub(in crate::cli) struct NetRequest {
    pub model: PathBuf,
    pub param: PathBuf,
    pub bin: PathBuf,
    pub inputs: Vec<Pair>,
    /// Shapes of the inputs by their names, to try until the model runs.
    pub shapes: Vec<BTreeMap<String, Vec<i64>>>,
    /// The shapes of several calls in turn, for a net whose caches the runtime keeps.
    pub calls: Vec<Vec<BTreeMap<String, Vec<i64>>>>,
    pub outputs: Vec<Pair>,
    /// Whether the model sorts elements by their values.
    pub sorts: bool,
    /// Intermediate blobs in the order of layers; `model` has their values as outputs too.
    pub layers: Vec<Pair>,
    /// Blobs to measure, and the names under which their magnitudes are listed.
    pub measured: Vec<HalfBlob>,
    /// Arrays by the names of inputs, or samples of them in any form that a quantization reads.
    pub data: Option<PathBuf>,
    pub sampled: bool,
    /// The error in half precision for which a choice is wanted.
    pub half_error: Option<f64>,
    /// Whether the time of the net is measured.
    pub timed: bool,
    /// The modes of all layers to choose from.
    pub modes: Vec<&'static str>,
    /// The samples that a quantization read.
    pub samples: Option<PathBuf>,
    pub rounds: u32,
    /// The tolerance, relative to the largest magnitude of an output.
    pub tolerance: f64,
    /// The least cosine of outputs, if it decides instead of the tolerance.
    pub cosine: Option<f64>,
    /// The model without its rounding, if the net rounds in another way: no output is judged more finely than
    /// the rounding of the model changes it.
    pub unrounded: Option<PathBuf>,
    /// The precision and the device of the run.
    pub fp16: bool,
    pub bf16: bool,
    pub vulkan: bool,
    /// The command that starts the program on a device, and the number of threads there.
    pub device: Option<String>,
    pub threads: Option<u32>,
}

/// A value of the model and its blob.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Pair {
    pub name: String,
    pub blob: String,
    pub int32: bool,
    /// The axes of the value that each axis of the blob merges; none for intermediate values.
    pub axes: Vec<Vec<usize>>,
    /// The blob of the other side of a cache that the runtime keeps.
    pub cache: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Answer {
    /// The reason why nothing was compared.
    failure: Option<String>,
    /// Whether the net is at fault: it does not load, or lacks an input.
    #[serde(default)]
    net: bool,
    /// What helps, if it is not the installation of packages.
    advice: Option<String>,
    #[serde(default)]
    outputs: Vec<Distance>,
    #[serde(default)]
    layers: Vec<Distance>,
    #[serde(default)]
    magnitudes: Vec<Magnitude>,
    #[serde(default)]
    recorded: Vec<Distance>,
    choice: Option<Choice>,
    seconds: Option<f64>,
}

/// The largest magnitude of measured blobs of one name, too large for float16.
#[derive(Debug, Deserialize, Serialize)]
pub(in crate::cli) struct Magnitude {
    pub name: String,
    pub magnitude: f64,
}

/// What computes in float32 on runtimes of half precision, so that the error of outputs is at most a wanted
/// one.
#[derive(Debug, Deserialize, Serialize)]
pub(in crate::cli) struct Choice {
    /// The mode of all layers.
    pub mode: String,
    /// The nodes in float32.
    pub float32: Vec<String>,
    /// The predicted error, and the error of the requested options.
    pub error: f64,
    pub default: f64,
    /// The number of samples.
    pub samples: usize,
}

/// The result of a comparison.
#[derive(Debug, Serialize)]
pub(in crate::cli) struct Comparison {
    /// The outputs of the model.
    pub outputs: Vec<Distance>,
    /// Intermediate values, in the order of layers.
    pub layers: Vec<Distance>,
    /// The magnitudes too large for float16, in the order of the measured blobs.
    pub magnitudes: Vec<Magnitude>,
    /// The outputs of the model in onnxruntime, as distances from those that the data have.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub recorded: Vec<Distance>,
    /// What is chosen for half precision, if a choice is wanted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub choice: Option<Choice>,
    /// The seconds of a run of the net, if they are measured.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
}

impl NetRequest {
    /// Creates a comparison of a net, which a conversion wrote, with its model. No sample is set for the
    /// inputs yet.
    pub fn new(conversion: &Conversion, model: PathBuf, param: PathBuf, bin: PathBuf) -> Result<NetRequest> {
        Ok(NetRequest {
            model,
            param,
            bin,
            inputs: conversion.inputs.iter().map(Pair::of).collect(),
            outputs: conversion.outputs.iter().map(Pair::of).collect(),
            sorts: conversion.sorts()?,
            tolerance: TOLERANCE,
            ..NetRequest::default()
        })
    }

    /// Runs the comparison.
    pub fn ask(self, arguments: &PythonArguments) -> Result<Comparison> {
        Request::Net(Box::new(self)).ask(arguments)
    }
}

impl Pair {
    fn of(port: &Port) -> Pair {
        Pair {
            name: port.name.clone(),
            blob: port.blob.clone(),
            int32: port.int32,
            axes: port.axes(),
            cache: port.cache.clone(),
        }
    }
}

impl Request {
    /// Creates a comparison of two models, on `rounds` random inputs.
    pub fn models(original: &Path, other: &Path, rounds: u32) -> Request {
        let (original, other) = (original.to_owned(), other.to_owned());
        Request::Models { original, other, rounds, sizes: SIZES, tolerance: MODELS_TOLERANCE }
    }

    /// Runs the comparison.
    pub fn ask(&self, arguments: &PythonArguments) -> Result<Comparison> {
        let packages = match self {
            Request::Models { .. } => "onnxruntime",
            Request::Net(request) if request.device.is_some() => "onnxruntime",
            Request::Net(_) => "onnxruntime ncnn",
        };
        match run::<Answer>(COMPARE, self, "compared", packages, arguments)? {
            Answer { failure: None, outputs, layers, magnitudes, recorded, choice, seconds, .. } => {
                Ok(Comparison { outputs, layers, magnitudes, recorded, choice, seconds })
            }
            Answer { failure: Some(failure), net: true, .. } => Err(Error::new(ErrorKind::Mismatch, failure)),
            Answer { failure: Some(failure), advice, .. } => {
                Err(not_done("compared", &failure, advice, packages))
            }
        }
    }
}

/// Runs a script, and returns its answer. `done` is what the script does, `packages` are those that it needs.
fn run<A: DeserializeOwned>(
    script: &str,
    request: &impl Serialize,
    done: &str,
    packages: &str,
    arguments: &PythonArguments,
) -> Result<A> {
    // Clap would take the variable for an option of the command line, which excludes others.
    let variable = || std::env::var_os("ONNX2NCNN_PYTHON").filter(|path| !path.is_empty());
    let python = arguments.python.clone().or_else(|| variable().map(PathBuf::from));
    let python = python.unwrap_or_else(|| PathBuf::from("python3"));
    let failed = |e| Error::io("a file for Python cannot be created", e);
    let folder = tempfile::tempdir().map_err(failed)?;
    let (file, input) = (folder.path().join("script.py"), folder.path().join("request.json"));
    std::fs::write(&file, script).map_err(failed)?;
    let text = serde_json::to_string(request).map_err(|e| Error::internal("no request").caused_by(e))?;
    std::fs::write(&input, text).map_err(failed)?;
    let run = Command::new(&python)
        .arg(&file)
        .arg(&input)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| advise(Error::io("Python cannot be started", e).in_file(&python), packages))?;
    let output = String::from_utf8_lossy(&run.stdout);
    let answer = output.lines().last().and_then(|line| serde_json::from_str(line).ok());
    answer.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&run.stderr);
        let last = errors.lines().last().unwrap_or_default();
        Error::usage(format!("nothing could be {done}: Python ended with {}: {last}", run.status))
    })
}

/// What a script answers that does one thing.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Done<A> {
    /// The reason why it was not done, and what helps, if it is not the installation of packages.
    Not {
        failure: String,
        advice: Option<String>,
    },
    Done(A),
}

/// Runs a script that does one thing, and returns its result.
fn run_to_end<A: DeserializeOwned>(
    script: &str,
    request: &impl Serialize,
    done: &str,
    packages: &str,
    arguments: &PythonArguments,
) -> Result<A> {
    match run(script, request, done, packages, arguments)? {
        Done::Done(result) => Ok(result),
        Done::Not { failure, advice } => Err(not_done(done, &failure, advice, packages)),
    }
}

/// Returns the error of a script that failed, with what helps: packages, unless it says otherwise.
fn not_done(done: &str, failure: &str, advice: Option<String>, packages: &str) -> Error {
    let error = Error::usage(format!("nothing could be {done}: {failure}"));
    match advice {
        Some(advice) if advice.is_empty() => error,
        Some(advice) => error.help(advice),
        None => advise(error, packages),
    }
}

fn advise(error: Error, packages: &str) -> Error {
    error.help(format!(
        "install them with `python3 -m pip install {packages}`, or select the Python that has them with --python"
    ))
}

impl Comparison {
    /// Returns the part of a report.
    pub fn part(&self) -> ComparisonPart {
        ComparisonPart::new(self.outputs.clone(), self.layers.clone(), self.seconds)
    }

    /// Returns the outputs, each with its loss: one minus its cosine, if it has one.
    pub fn losses(&self) -> impl Iterator<Item = (&str, Option<f64>)> {
        self.outputs.iter().map(|output| {
            let loss = output.cosine.map(|cosine| (1.0 - cosine).max(0.0));
            (output.name.as_str(), loss)
        })
    }

    /// Returns whether all outputs are equal within the tolerance, and equal those that the data have.
    pub fn is_same(&self) -> bool {
        self.outputs.iter().chain(&self.recorded).all(|output| output.same)
    }
}
