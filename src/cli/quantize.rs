//! The command `quantize`: quantizes a float model by samples, and converts it with int8 layers.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Instant;

use clap::Args;
use clap::builder::PossibleValuesParser;
use onnx2ncnn::Refusal;
use onnx2ncnn::error::Error;
use onnx2ncnn::{Conversion, Converter, Input, Quantization};

use super::destination::{Destination, NetFiles};
use super::location::{input, path_to_read_again, temporary_folder, write_net};
use super::loss::{self, Figures, Trial};
use super::message::{Format, MessageFormat, Report};
use super::options::{Requested, Source};
use super::python::{
    Comparison, INT8_COSINE, NetRequest, PythonArguments, Quantize as QuantizeRequest, Quantized, parse_loss,
};
use super::summary::{self, Files, Stream, Summary};
use super::terminal::{STRONG, Waiting, labelled, list, printable};
use crate::common::count::count;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn quantize model.onnx --data samples.npz
      an array for each input, with a first axis of samples
  onnx2ncnn quantize model.onnx out.param --data samples --keep /head/Conv
      on all .npz and .npy files of a folder; one layer stays in float
  onnx2ncnn quantize model.onnx out.param --data photos \\
      --mean 123.7,116.3,103.5 --norm 0.0171,0.0175,0.0174
      on all images of a folder, in the size of the input, as (pixel - mean) * norm
  onnx2ncnn quantize model.onnx --data samples.npz --max-loss 0.01
      keeps the most sensitive layers in float, and prints a table of the nets that were tried
  onnx2ncnn quantize model.onnx --data samples.npz --emit-onnx quantized.onnx
      then `onnx2ncnn quantized.onnx --int8` converts again, with other options

Quantization is that of onnxruntime's own tool; Python needs onnx, onnxruntime and ncnn, and pillow for images.";

/// Quantize a float model by samples, and convert it with int8 layers
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Quantize {
    /// The ONNX model
    pub model: PathBuf,

    /// Samples: a file .npz of arrays by the names of the inputs, a .npy file or an image for a single input,
    /// or a folder of such files
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

    /// Also quantize depthwise convolutions, which lose most in int8, have few weights, and are slower than
    /// in float on x86
    #[arg(long, help_heading = "Quantization")]
    pub depthwise: bool,

    /// Keep the nodes in float that lose most, as few as are needed until the loss of each output is at most
    /// this: one minus the cosine, on samples that are set aside
    #[arg(long, value_name = "PART", value_parser = parse_loss, help_heading = "Quantization")]
    pub max_loss: Option<f64>,

    /// Also write the quantized model as ONNX
    #[arg(long, value_name = "FILE", help_heading = "Quantization")]
    pub emit_onnx: Option<PathBuf>,

    #[command(flatten)]
    pub source: Requested<Source>,

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

/// The types of layers that have variants in int8, but for [`DEPTHWISE`].
const INT8: [&str; 5] = ["Convolution", "GRU", "Gemm", "InnerProduct", "LSTM"];
/// The type of depthwise convolutions, which are quantized only on request.
const DEPTHWISE: &str = "ConvolutionDepthWise";

/// Quantizes, converts and writes a model, and returns the summary.
pub(super) fn quantize_files(arguments: &Quantize) -> Result<Summary, Refusal> {
    let start = Instant::now();
    let further = arguments.emit_onnx.iter().fold(Converter::new(), Converter::emit_onnx);
    let destination = Destination::of(&arguments.model, &arguments.net, further.options())?;
    let model = input(path_to_read_again(&arguments.model)?)?;
    let room = temporary_folder()?;
    let in_room = |name: &str| room.path().join(name);
    let float = in_room("float.onnx");
    arguments.source.write_simplified(&model, &float)?;
    let unquantized = arguments.source.converter_of_simplified();
    let request = QuantizeRequest {
        model: float.clone(),
        data: arguments.data.clone(),
        mean: arguments.mean.clone(),
        norm: arguments.norm.clone(),
        bgr: arguments.bgr,
        samples: in_room("samples.npz"),
        method: arguments.method.clone(),
        keep: arguments.keep.clone(),
        candidates: candidates(&unquantized.convert(&Input::Path(float))?, arguments.depthwise)?,
        quantized: in_room("quantized.onnx"),
        max_loss: arguments.max_loss,
    };
    let waiting = Waiting::for_work("onnxruntime runs the samples", arguments.report);
    let answer = request.ask(&arguments.python)?;
    let converter = unquantized.clone().quantization(Quantization::Int8);
    let tried = Cell::new(0);
    let attempt = |kept: &[String]| {
        tried.set(tried.get() + 1);
        waiting.say(format!("net {} runs on the samples", tried.get()));
        try_net(&converter, &request, kept, &tried.get().to_string(), arguments)
    };
    let mut layers: Vec<_> = answer.layers.iter().collect();
    layers.sort_by(|a, b| b.effect.total_cmp(&a.effect));
    let nodes: Vec<String> = layers.iter().map(|layer| layer.output.clone()).collect();
    let (trials, whole) = match arguments.max_loss {
        Some(most) => {
            let float = Input::Path(request.model.clone());
            let (whole, _) = measure(&unquantized.convert(&float)?, &request, "whole", arguments)?;
            (loss::search(&nodes, most, attempt)?, Some(whole))
        }
        None => (vec![attempt(&[])?], None),
    };
    drop(waiting);
    let Some(Trial { figures: Figures { loss, .. }, net: (quantized, comparison), .. }) = trials.last()
    else {
        return Err(Error::internal("no net was tried").into());
    };
    if let Some(most) = arguments.max_loss.filter(|most| loss > most) {
        let message = format!(
            "no net with int8 layers has a loss of at most {most}: the last one tried has {loss:.2e}"
        );
        return Err(Error::usage(message).help("allow a larger loss, or give more samples").into());
    }
    let quantized = Input::Path(quantized.clone());
    let conversion = converter.convert(&quantized)?;
    let conversion = match destination.file("emit_onnx") {
        Some(path) => converter.emit_onnx(path).convert(&quantized)?,
        None => conversion,
    };
    let written = destination.outputs.write(|| conversion.write(&destination.param, &destination.bin))?;
    let verbose = arguments.report.verbose;
    let files = Files { destination: &destination, written: &written, dry_run: false };
    if arguments.format.message_format == MessageFormat::Json {
        return Ok(summary::to_json(&conversion, &files)?);
    }
    let mut summary = summary::describe(&conversion, &files, start.elapsed(), verbose);
    let mut text = String::new();
    if let Some(whole) = whole {
        loss::describe(&mut text, &trials, whole);
    }
    describe(&mut text, &answer, comparison, verbose);
    summary.add(Stream::Error, text);
    Ok(summary)
}

/// Converts and measures the quantized model with the nodes of these outputs in float.
fn try_net(
    converter: &Converter,
    request: &QuantizeRequest,
    kept: &[String],
    name: &str,
    arguments: &Quantize,
) -> Result<Trial<(PathBuf, Comparison)>, Refusal> {
    let mut model = request.quantized.clone();
    if !kept.is_empty() {
        model = model.with_file_name(format!("{name}.onnx"));
        request.write_variant(kept, &model, &arguments.python)?;
    }
    let conversion = converter.convert(&Input::Path(model.clone()))?;
    let (figures, comparison) = measure(&conversion, request, name, arguments)?;
    Ok(Trial { in_float: kept.to_vec(), figures, net: (model, comparison) })
}

/// Compares a net with the float model on the samples, and measures it if there is a maximum loss.
fn measure(
    conversion: &Conversion,
    request: &QuantizeRequest,
    name: &str,
    arguments: &Quantize,
) -> Result<(Figures, Comparison), Refusal> {
    let file = |ending: &str| request.quantized.with_file_name(format!("{name}.{ending}"));
    let (param, bin) = (file("param"), file("bin"));
    let written = write_net(conversion, &param, &bin)?;
    let comparison = NetRequest {
        samples: Some(request.samples.clone()),
        cosine: Some(INT8_COSINE),
        timed: arguments.max_loss.is_some(),
        ..NetRequest::new(conversion, request.model.clone(), param, bin)?
    }
    .ask(&arguments.python)?;
    // An output without a cosine, such as one with infinities, is lost.
    let loss = comparison.losses().map(|(_, loss)| loss.unwrap_or(1.0)).fold(0.0, f64::max);
    let seconds = comparison.seconds.unwrap_or(0.0);
    Ok((Figures { bytes: written.bin_bytes, seconds, loss }, comparison))
}

/// Returns the nodes of a float model that can be quantized, by the names of their outputs: layers with
/// variants in int8 do their work.
///
/// # Errors
///
/// Fails as [`Conversion::written`].
pub fn candidates(conversion: &Conversion, depthwise: bool) -> Result<Vec<String>, Error> {
    let report = conversion.report(conversion.written()?)?;
    let is_chosen = |name: &str| INT8.contains(&name) || depthwise && name == DEPTHWISE;
    let layers = conversion.net().layers.iter().filter(|layer| is_chosen(layer.layer.type_name()));
    let layers: BTreeSet<&str> = layers.map(|layer| layer.name.as_str()).collect();
    let nodes =
        report.nodes.iter().filter(|node| node.layers.iter().any(|layer| layers.contains(layer.as_str())));
    Ok(nodes.flat_map(|node| node.outputs.iter().cloned()).collect())
}

/// The maximum number of listed layers, without -v.
const MAX_ROWS: usize = 40;

/// Adds the error of each layer and the cosine of each output.
fn describe(text: &mut String, answer: &Quantized, comparison: &Comparison, verbose: bool) {
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    let mut layers: Vec<_> = answer.layers.iter().collect();
    layers.sort_by(|a, b| b.error.total_cmp(&a.error));
    let samples = count(answer.samples, "sample");
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
