//! The arguments of a conversion.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use onnx2ncnn::Options;

use super::destination::{NetFiles, ultralytics_folder};
use super::message::{Format, Report};
use super::options::{Files, Net, Requested, Source};
use super::python::{PythonArguments, parse_loss, parse_part};

/// The arguments of a conversion.
#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Requested<Source>,

    #[command(flatten)]
    pub net: NetFiles,

    /// Write the folder that YOLO(DIR) of ultralytics reads: the net with the names in0 and out0, and
    /// metadata.yaml
    ///
    /// The name of the folder ends in _ncnn_model, by which ultralytics recognizes it.
    #[arg(long, value_name = "DIR", help_heading = "Result", conflicts_with_all = [
        "param", "bin", "out", "inputs", "outputs", "auto_cut",
    ])]
    pub ultralytics: Option<PathBuf>,

    #[command(flatten)]
    pub choices: Requested<Net>,

    #[command(flatten)]
    pub half: HalfPrecision,

    /// Convert a chain of nets: cut the model at these values, and again where the option is repeated
    ///
    /// The nets are model.ncnn.1.param and so on; a part that cannot be converted is written as
    /// model.ncnn.2.onnx. The list of them, with inputs and outputs, is model.ncnn.json.
    #[arg(long, value_name = "A,B", help_heading = "Model", hide_short_help = true, conflicts_with_all = [
        "inputs", "outputs", "auto_cut", "ultralytics", "rename", "scale", "mean", "norm", "bgr", "chw", "emit_onnx",
        "table", "param_bin", "id_header", "mem_header", "example", "metadata", "report", "html",
    ])]
    pub split_at: Vec<String>,

    /// Convert a net for these sizes, and another one where the option is repeated with another name: all
    /// read one .bin file
    ///
    /// The nets are model.ncnn.small.param and so on, and model.ncnn.small+large.bin. The same name with
    /// another input adds its shape: --variant small=x:1,8 --variant small=mask:1,8.
    #[arg(long, value_name = "NAME=[INPUT:]1,3,H,W", help_heading = "Model", hide_short_help = true, conflicts_with_all = [
        "split_at", "ultralytics", "emit_onnx", "table", "param_bin", "id_header", "mem_header", "example",
        "metadata", "report", "html", "data", "verify",
    ])]
    pub variant: Vec<String>,

    /// Convert without writing anything
    #[arg(long, help_heading = "Result")]
    pub dry_run: bool,

    /// Compare each layer with the model before the files are put in place
    ///
    /// The files are read back. If a layer differs, none is written.
    #[arg(long, help_heading = "Result", conflicts_with_all = ["dry_run", "split_at"])]
    pub verify: bool,

    #[command(flatten)]
    pub further: Requested<Files>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,

    /// The words of the options.
    #[arg(skip)]
    pub words: Vec<OsString>,
}

impl Arguments {
    /// Returns the model and the files of the net, as the user names them.
    pub fn named_files(&self) -> Vec<PathBuf> {
        let NetFiles { param, bin, .. } = &self.net;
        [Some(&self.model), param.as_ref(), bin.as_ref()].into_iter().flatten().cloned().collect()
    }

    /// Returns the files of the net, and the further ones.
    pub fn results(&self) -> (NetFiles, Options) {
        let mut further = Options::clone(&self.further);
        match &self.ultralytics {
            Some(folder) => {
                let folder = ultralytics_folder(folder);
                further.metadata.get_or_insert_with(|| folder.join("metadata.yaml"));
                (NetFiles::of_ultralytics(&folder), further)
            }
            None => (self.net.clone(), further),
        }
    }
}

/// The samples by which the precision of layers is chosen.
#[derive(Debug, Args)]
pub(super) struct HalfPrecision {
    /// Choose what computes in float32 on processors that compute in float16, and round weights, by samples:
    /// a file .npz of arrays by the names of the inputs, a .npy file or an image for a single input, or a
    /// folder of such files
    #[arg(long, value_name = "PATH", conflicts_with_all = ["kv_cache", "dequantize", "int8"], help_heading = "Half precision", hide_short_help = true)]
    pub data: Option<PathBuf>,

    /// The largest error in float16, relative to the largest magnitude of an output [default: 0.01; with
    /// --weights int8, int6 or int4, half precision is chosen only with this option]
    #[arg(long, value_name = "PART", requires = "data", value_parser = parse_part, help_heading = "Half precision", hide_short_help = true)]
    pub half_error: Option<f64>,

    /// With --weights int4 or int6, give matrices as many bits, or floats, as are needed until the loss of
    /// each output is at most this: one minus the cosine, on samples that are set aside
    #[arg(long, value_name = "PART", requires = "data", value_parser = parse_loss, help_heading = "Half precision", hide_short_help = true)]
    pub max_loss: Option<f64>,

    #[command(flatten)]
    pub python: PythonArguments,
}
