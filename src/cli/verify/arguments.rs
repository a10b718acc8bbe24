//! The arguments of `verify`.

use std::path::PathBuf;

use clap::{Arg, Args};
use onnx2ncnn::{OptionInfo, Purpose};

use crate::cli::destination::default_files;
use crate::cli::message::{Format, Report};
use crate::cli::net::{bin_next_to, only_param_in};
use crate::cli::options::{Chosen, Requested, Source, arg};
use crate::cli::python::{PythonArguments, parse_part};

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn verify model.onnx
      compares each layer of model.ncnn.param and model.ncnn.bin with the model, without Python
  onnx2ncnn verify model.onnx --reduce smallest
      writes the layers that differ, and their nodes, alone: a case to report
  onnx2ncnn verify model.onnx --runtime
      compares the outputs in onnxruntime and ncnn
  onnx2ncnn verify model.onnx out.param out.bin --data inputs.npz --layers
      on arrays by the names of the inputs; names the first blob that differs
  onnx2ncnn verify model.onnx --html model.html
      writes a page that colours the graph of the net by the error of each layer
  onnx2ncnn verify model.onnx --report report.json
      with the options of the conversion that wrote this report
  onnx2ncnn verify model.onnx --data inputs.npz --magnitudes
      names the nodes whose results float16 does not hold, and prints the option that keeps them
      in float32
  onnx2ncnn verify model.onnx --fp16 --device 'adb shell /data/local/tmp/runner'
      on a phone, by the program whose source `onnx2ncnn runner` prints

The options of the conversion are those of its report, if one lies next to the net or is named by
--report. Otherwise repeat --set, --input-shape, --inputs, --outputs and the further options under
Model. An option on the command line replaces the same one in the report. With --dequantize the net is
compared with the model without its rounding; with --int8 or rounded weights the cosine of each
output decides, unless there is a --tolerance.

Exit codes:
  0  nothing differs
  1  the model is refused
  2  nothing could be compared
  4  a layer or an output differs, or the net does not load";

/// Compare each layer of a net with its model, or run both in the runtimes
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Verify {
    /// The ONNX model
    pub model: PathBuf,

    /// The .param file of the net, or its folder [default: model.ncnn.param next to model.onnx]
    pub param: Option<PathBuf>,

    /// The .bin file of the net [default: next to the .param file, by its name]
    pub bin: Option<PathBuf>,

    /// If a layer differs, write the smallest model and net that still differ, with the elements of inputs
    /// and output, to a new folder
    #[arg(long, value_name = "DIR", conflicts_with = "runtime", help_heading = "Comparison")]
    pub reduce: Option<PathBuf>,

    /// Run the model in onnxruntime and the net in ncnn, by Python; the options below imply it
    #[arg(long, help_heading = "Comparison")]
    pub runtime: bool,

    /// Inputs: arrays by the names of the model's inputs [default: random ones]; arrays by the names of
    /// outputs are compared with onnxruntime's
    #[arg(long, value_name = "FILE.npz", help_heading = "Comparison")]
    pub data: Option<PathBuf>,

    /// The number of random inputs [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000), help_heading = "Comparison")]
    pub rounds: Option<u32>,

    /// The tolerance, relative to the largest magnitude of an output [default: 1e-3; 0.02 with half
    /// precision or float16 weights; with --int8 or rounded weights, a cosine of 0.99]
    #[arg(long, value_name = "PART", value_parser = parse_part, help_heading = "Comparison")]
    pub tolerance: Option<f64>,

    /// Run the net in float16, as on phones: on ARM64, or on a GPU with --vulkan
    #[arg(long, conflicts_with = "bf16", help_heading = "Comparison")]
    pub fp16: bool,

    /// Run the net with blobs in bfloat16
    #[arg(long, help_heading = "Comparison")]
    pub bf16: bool,

    /// Run the net on a GPU, with Vulkan
    #[arg(long, conflicts_with = "bf16", help_heading = "Comparison")]
    pub vulkan: bool,

    /// Also compare intermediate blobs: print the error of each, the error of only its layers, and the first
    /// blob that differs
    #[arg(long, help_heading = "Comparison")]
    pub layers: bool,

    /// Measure all blobs in float32, and print the nodes whose results exceed a quarter of the largest
    /// float16, with their largest magnitudes
    #[arg(long, conflicts_with_all = ["fp16", "bf16", "vulkan", "kv_cache"], help_heading = "Comparison")]
    pub magnitudes: bool,

    /// Run the net on a device: the command that starts there the program of `onnx2ncnn runner`, such as "ssh
    /// board ./runner"
    #[arg(long, value_name = "COMMAND", conflicts_with = "magnitudes", help_heading = "Comparison")]
    pub device: Option<String>,

    /// The number of threads on the device [default: its large cores]
    #[arg(long, value_name = "N", requires = "device", value_parser = clap::value_parser!(u32).range(1..=1024), help_heading = "Comparison")]
    pub threads: Option<u32>,

    /// Write the page of the net with the result, whose graph is coloured by the errors; with --runtime, by
    /// those of --layers, and by the times on a device
    #[arg(long, value_name = "FILE.html", help_heading = "Comparison")]
    pub html: Option<PathBuf>,

    #[command(flatten)]
    pub python: PythonArguments,

    /// The report of the conversion, whose options are repeated [default: the report next to the net, such as
    /// model.report.json for model.ncnn.param]
    #[arg(long = "report", value_name = "FILE.json", help_heading = "Model")]
    pub conversion: Option<PathBuf>,

    #[command(flatten)]
    pub choices: Requested<Compared>,

    #[command(flatten)]
    pub source: Requested<Source>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

/// The options of the net with which it is compared, and what they change besides.
const COMPARED: [(&str, &str); 14] = [
    ("scale", ""),
    ("mean", ""),
    ("norm", ""),
    ("bgr", ""),
    ("chw", ""),
    ("double_as_float", ""),
    ("float32", ""),
    ("int8", ""),
    ("kv_cache", ": both are called twice, and the second reads the caches of the first"),
    ("dequantize", ": the model is run without its rounding"),
    ("weights", ""),
    ("custom_layers", ": the windows after these layers are compared, and they are not"),
    ("rename", ""),
    ("numbered", ""),
];

/// See [`COMPARED`].
pub(in crate::cli) enum Compared {}

impl Chosen for Compared {
    const PURPOSE: Purpose = Purpose::Net;

    fn args() -> Vec<Arg> {
        let infos = COMPARED.iter().filter_map(|(name, also)| {
            let info = OptionInfo::named(name)?;
            Some((info, format!("As for the conversion{also}")))
        });
        let args = infos.map(|(info, help)| {
            let arg = arg(info).help(help).long_help(None).help_heading("Model");
            arg.hide_short_help(info.heading == "Model")
        });
        args.map(|arg| match arg.get_id() == "kv_cache" {
            true => arg.conflicts_with_all(["data", "layers"]),
            false => arg,
        })
        .collect()
    }
}

impl Verify {
    /// Returns whether an option asks for the runtimes.
    pub fn needs_runtime(&self) -> bool {
        let Verify { data, tolerance, fp16, bf16, vulkan, layers, magnitudes, device, .. } = self;
        let asked = [
            self.runtime,
            self.python.python.is_some(),
            *fp16,
            *bf16,
            *vulkan,
            *layers,
            *magnitudes,
            self.rounds.is_some(),
        ];
        asked.contains(&true) || data.is_some() || tolerance.is_some() || device.is_some()
    }

    /// Returns the files of the net.
    pub fn net_files(&self) -> (PathBuf, PathBuf) {
        match (&self.param, &self.bin) {
            (Some(folder), None) if folder.is_dir() => {
                let (param, bin) = default_files(&self.model);
                let in_folder = |path: PathBuf| folder.join(path.file_name().unwrap_or_default());
                let (param, bin) = (in_folder(param), in_folder(bin));
                match only_param_in(folder).filter(|_| !param.exists()) {
                    Some(only) => (only.clone(), bin_next_to(&only)),
                    None => (param, bin),
                }
            }
            (Some(param), Some(bin)) => (param.clone(), bin.clone()),
            (Some(param), None) => (param.clone(), bin_next_to(param)),
            (None, _) => default_files(&self.model),
        }
    }
}
