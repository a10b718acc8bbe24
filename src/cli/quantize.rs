//! The command `quantize`: quantizes a float model by samples, and converts it with int8 layers.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use onnx2ncnn::Refusal;
use onnx2ncnn::error::Error;
use onnx2ncnn::{Conversion, Converter, Input, Quantization, Storage};

use super::arguments::{Format, MessageFormat, Report, STANDARD_INPUT, input};
use super::destination::{Destination, NetFiles};
use super::options::{Given, Source};
use super::python::{Comparison, NetRequest, PythonArguments, Quantize as QuantizeRequest, Quantized};
use super::summary::{self, Files, Stream, Summary};
use super::terminal::{STRONG, count, labelled, list, printable};
use super::verify::INT8_COSINE;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn quantize model.onnx --data samples.npz
      an array for each input, with a first axis of samples
  onnx2ncnn quantize model.onnx out.param --data samples --keep /head/Conv
      on all .npz and .npy files of a folder; one layer stays in float
  onnx2ncnn quantize model.onnx out.param --data photos \\
      --mean 123.7,116.3,103.5 --norm 0.0171,0.0175,0.0174
      on all images of a folder, in the size of the input, as (pixel - mean) * norm
  onnx2ncnn quantize model.onnx --data samples.npz --emit-onnx quantized.onnx
      then `onnx2ncnn quantized.onnx --int8` converts again, with other options

Quantization is that of onnxruntime's own tool; Python needs onnx, onnxruntime and ncnn, and pillow for images.";

/// Quantize a float model by samples, and convert it with int8 layers
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Quantize {
    /// The ONNX model
    pub model: PathBuf,

    /// Samples: a file .npz of arrays by the names of the inputs, a .npy file or an image for a single input, or a folder of such files
    #[arg(long, value_name = "PATH", help_heading = "Quantization")]
    pub data: PathBuf,

    /// Subtract this from pixels from 0 to 255: a number, or one for each channel [default: 0]
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', value_parser = parse_number, allow_hyphen_values = true, help_heading = "Quantization")]
    pub mean: Vec<f64>,

    /// Then multiply pixels by this [default: 1/255 for inputs of floats, 1 for inputs of integers]
    #[arg(long, value_name = "R,G,B", value_delimiter = ',', value_parser = parse_number, allow_hyphen_values = true, help_heading = "Quantization")]
    pub norm: Vec<f64>,

    /// Read the channels of images as blue, green, red
    #[arg(long, help_heading = "Quantization")]
    pub bgr: bool,

    /// How ranges of values follow from the samples
    #[arg(long, value_name = "METHOD", default_value = "min-max", value_parser = PossibleValuesParser::new(["min-max", "percentile"]), help_heading = "Quantization")]
    pub method: String,

    /// Keep these nodes in float, by their names or those of their outputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', help_heading = "Quantization")]
    pub keep: Vec<String>,

    /// Also write the quantized model as ONNX
    #[arg(long, value_name = "FILE", help_heading = "Quantization")]
    pub emit_onnx: Option<PathBuf>,

    #[command(flatten)]
    pub source: Given<Source>,

    #[command(flatten)]
    pub net: NetFiles,

    #[command(flatten)]
    pub python: PythonArguments,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

fn parse_number(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite());
    number.ok_or_else(|| "expected a number, such as 123.7".to_owned())
}

/// Types of layers that have variants in int8.
const INT8: [&str; 4] = ["Convolution", "ConvolutionDepthWise", "Gemm", "InnerProduct"];

/// Quantizes, converts and writes a model, and returns the summary.
pub(super) fn quantize_files(arguments: &Quantize) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let further = arguments.emit_onnx.iter().fold(Converter::new(), Converter::emit_onnx);
    let destination = Destination::of(&arguments.model, &arguments.net, further.options())?;
    if arguments.model == Path::new(STANDARD_INPUT) {
        return Err(
            Error::usage("a model from standard input cannot be read again for the comparison").into()
        );
    }
    let room = tempfile::tempdir().map_err(|e| Error::io("the folder cannot be created", e))?;
    let in_room = |name: &str| room.path().join(name);
    let (float, quantized) = (in_room("float.onnx"), in_room("quantized.onnx"));
    let simplified = arguments.source.converter()?.simplify(&input(&arguments.model)?)?;
    simplified.write(&float, &Storage::AsNeeded)?;
    let unquantized = arguments.source.skip.iter().fold(Converter::new(), Converter::skip);
    let request = QuantizeRequest {
        model: float.clone(),
        data: arguments.data.clone(),
        mean: arguments.mean.clone(),
        norm: arguments.norm.clone(),
        bgr: arguments.bgr,
        samples: in_room("samples.npz"),
        method: arguments.method.clone(),
        keep: arguments.keep.clone(),
        candidates: candidates(&unquantized.convert(&Input::Path(float.clone()))?)?,
        quantized: quantized.clone(),
    };
    let told = request.ask(&arguments.python)?;
    let converter = unquantized.quantization(Quantization::Int8);
    let quantized = Input::Path(quantized);
    let conversion = converter.convert(&quantized)?;
    let (param, bin) = (in_room("net.param"), in_room("net.bin"));
    let create = |path: &Path| {
        File::create(path).map_err(|e| Error::io("the file cannot be created", e).in_file(path))
    };
    conversion.write_to(create(&param)?, create(&bin)?)?;
    let comparison = NetRequest {
        samples: Some(request.samples),
        cosine: Some(INT8_COSINE),
        ..NetRequest::new(&conversion, float, param, bin)?
    };
    let comparison = comparison.ask(&arguments.python)?;
    let conversion = match destination.file("emit_onnx") {
        Some(path) => converter.emit_onnx(path).convert(&quantized)?,
        None => conversion,
    };
    let written = destination.places.write(|| conversion.write(&destination.param, &destination.bin))?;
    let verbose = arguments.report.verbose;
    let files = Files { destination: &destination, written: &written, dry_run: false };
    if arguments.format.message_format == MessageFormat::Json {
        return Ok(summary::to_json(&conversion, &files)?);
    }
    let mut summary = summary::describe(&conversion, &files, start.elapsed(), verbose);
    let mut text = String::new();
    describe(&mut text, &told, &comparison, verbose);
    summary.add(Stream::Error, text);
    Ok(summary)
}

/// Returns the outputs of the nodes of a float model of which layers with variants in int8 do the work.
///
/// # Errors
///
/// Fails as [`Conversion::write_to`].
pub fn candidates(conversion: &Conversion) -> Result<Vec<String>, Error> {
    let written = conversion.write_to(io::sink(), io::sink())?;
    let report = conversion.report(&written)?;
    let layers = conversion.net().layers.iter().filter(|layer| INT8.contains(&layer.layer.type_name()));
    let layers: BTreeSet<&str> = layers.map(|layer| layer.name.as_str()).collect();
    let nodes =
        report.nodes.iter().filter(|node| node.layers.iter().any(|layer| layers.contains(layer.as_str())));
    Ok(nodes.flat_map(|node| node.outputs.iter().cloned()).collect())
}

/// The maximum number of listed layers, without -v.
const MAX_ROWS: usize = 40;

/// Adds the error of each layer and the cosine of each output.
fn describe(text: &mut String, told: &Quantized, comparison: &Comparison, verbose: bool) {
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    let mut layers: Vec<_> = told.layers.iter().collect();
    layers.sort_by(|a, b| b.error.total_cmp(&a.error));
    let samples = count(told.samples, "sample");
    labelled(
        text,
        STRONG,
        "errors",
        &format!("of {}, with those before them, the largest first", count(layers.len(), "node")),
    );
    list(text, "  ", &layers, most, |text, layer| {
        let _ = writeln!(text, "  {:.4}  {}", layer.error, printable(&layer.name));
    });
    for output in &comparison.outputs {
        let cosine = output.cosine.map_or_else(|| output.why.clone(), |cosine| format!("cosine {cosine:.5}"));
        let _ = writeln!(
            text,
            "output \"{}\": {} or more, on {samples}",
            printable(&output.name),
            printable(&cosine)
        );
    }
}
