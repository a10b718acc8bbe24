//! The command `verify`: compares a net with its model, without a runtime or in onnxruntime and ncnn.

mod describe;
pub(super) mod prove;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use clap::{Arg, Args};
use onnx2ncnn::Refusal;
use onnx2ncnn::error::Error;
use onnx2ncnn::report::Distance;
use onnx2ncnn::{
    Conversion, Converter, InnerBlob, Input, OptionInfo, Options, Proof, Purpose, Quantization, State,
    Storage, Weights,
};

use crate::cli::destination::default_files;
use crate::cli::exit::{DIFFERENT, DONE, NOT_DONE, REFUSED, finish_command};
use crate::cli::location::{Outputs, input, path_to_read_again, refused, temporary_folder};
use crate::cli::message::{Format, MessageFormat, Report};
use crate::cli::net::{bin_next_to, read_net};
use crate::cli::options::{Chosen, Requested, Source, arg, is_plain};
use crate::cli::python::{Comparison, INT8_COSINE, NetRequest, Pair, PythonArguments, SIZES, parse_part};
use crate::cli::repeated::Repeated;
use crate::cli::terminal::{HELP, STRONG, labelled, print, printable, tell};
use crate::common::count::count;
use describe::{advise_int8, describe, describe_magnitudes};

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
Model. An option on the command line replaces that of the report. With --dequantize the net is
compared with the model without its rounding; with --int8 or rounded weights the cosine of each
output decides, unless there is a --tolerance.

Exit codes:
  0  nothing differs
  1  the model is refused, or the net is not valid
  2  nothing could be compared
  4  a layer or an output differs, or the net does not load";

/// Compare each layer of a net with its model, or run both in the runtimes
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Verify {
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
pub(super) enum Compared {}

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

/// The tolerance in half precision.
const HALF_TOLERANCE: f64 = 0.02;

/// Compares and prints the result.
pub(super) fn verify_files(arguments: &Verify) -> u8 {
    let (report, format) = (arguments.report, arguments.format.message_format);
    let (comparison, choices) = match compare(arguments) {
        Ok(Verdict::Compared(comparison, choices)) => (comparison, choices),
        Ok(Verdict::Proved(proofs)) => return tell_proofs(&proofs, arguments),
        Err(errors) => {
            let code = finish_command(Err(errors), None, report, format, false);
            if code == REFUSED && format == MessageFormat::Human {
                let mut text = String::new();
                let help = "repeat the options of the conversion, or give its --report";
                labelled(&mut text, HELP, "help", help);
                tell(&text, report.color);
            }
            return code;
        }
    };
    if format == MessageFormat::Json {
        // The fields are numbers and text, so no error is known.
        print(&(serde_json::to_string(&comparison).unwrap_or_default() + "\n"), report.color);
    } else if !report.quiet || !comparison.is_same() {
        let mut text = describe(&comparison, report.verbose);
        if arguments.magnitudes {
            describe_magnitudes(&mut text, &comparison.magnitudes, &choices.float32, report.verbose);
        }
        if choices.int8 && !comparison.is_same() {
            advise_int8(&mut text, &arguments.model);
        }
        print(&text, report.color);
    }
    if comparison.is_same() { DONE } else { DIFFERENT }
}

/// The result of a comparison.
enum Verdict {
    /// Without a runtime, at several sizes.
    Proved(Vec<Proof>),
    /// With the runtimes, and the options of the conversion.
    Compared(Box<Comparison>, Box<Options>),
}

/// Prints proofs, and returns the exit code.
fn tell_proofs(proofs: &[Proof], arguments: &Verify) -> u8 {
    let is_right = proofs.iter().all(Proof::is_right);
    let report = arguments.report;
    if arguments.format.message_format == MessageFormat::Json {
        print(&(serde_json::to_string(proofs).unwrap_or_default() + "\n"), report.color);
    } else if !report.quiet || !is_right {
        print(&prove::describe(proofs, report.verbose), report.color);
    }
    let mut windows = proofs.iter().flat_map(|proof| &proof.windows).peekable();
    let is_empty = windows.peek().is_none();
    match is_right {
        false => DIFFERENT,
        true if is_empty || windows.any(|window| window.state != State::NotCovered) => DONE,
        true => NOT_DONE,
    }
}

impl Verify {
    /// Returns whether an option asks for the runtimes.
    fn needs_runtime(&self) -> bool {
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
}

/// Compares the net with the model.
fn compare(arguments: &Verify) -> Result<Verdict, Refusal> {
    let (param, bin) = net_files(arguments);
    if let Some(folder) = arguments.reduce.as_ref().filter(|folder| folder.exists()) {
        return Err(refused(folder, "the folder exists").into());
    }
    let mut outputs = Outputs::default();
    let page = outputs.add_if(arguments.html.as_ref())?;
    let read = [&arguments.model, &param, &bin].map(|path| path.canonicalize().ok());
    if let Some(path) = page.as_ref().filter(|page| read.contains(&Some(page.to_path_buf()))) {
        return Err(refused(path, "the page would overwrite a file that is read").into());
    }
    for path in [&param, &bin].into_iter().chain(&arguments.data) {
        let failed = |e| {
            let error = Error::io("the file cannot be opened", e).in_file(path);
            match &arguments.param {
                None => error.help("name the .param file, or its folder, after the model"),
                Some(_) => error,
            }
        };
        std::fs::File::open(path).map_err(failed)?;
    }
    let repeated = Repeated::of(arguments.conversion.as_deref(), &param, &bin)?;
    let is_quiet = arguments.report.quiet || arguments.format.message_format == MessageFormat::Json;
    let say = |label: &str, text: &str| {
        let mut line = String::new();
        labelled(&mut line, STRONG, label, text);
        tell(&line, arguments.report.color);
    };
    if let Some(path) = repeated.path.as_ref().filter(|_| !is_quiet) {
        let names = repeated.names();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        let text = format!("{names}, by {}", printable(&path.display().to_string()));
        say("options of the conversion", &text);
    }
    let model = input(path_to_read_again(&arguments.model)?)?;
    let room = temporary_folder()?;
    let requested: Vec<&str> = arguments.choices.names().chain(arguments.source.names()).collect();
    let mut converter = repeated.converter(&requested)?;
    converter = arguments.choices.apply(arguments.source.apply(converter)?)?;
    let choices = converter.options().clone();
    if choices.kv_cache && (arguments.data.is_some() || arguments.layers || arguments.magnitudes) {
        let reason = "--data, --layers and --magnitudes do not fit a net with --kv-cache";
        return Err(Error::usage(reason).into());
    }
    if !arguments.needs_runtime() {
        let conversion = converter.convert(&model)?;
        let proofs = prove::prove(&conversion, &converter, &model, (&param, &bin))?;
        if let Some(folder) = &arguments.reduce
            && !proofs.iter().all(Proof::is_right)
        {
            prove::reduce(&proofs, folder)?;
        }
        if page.is_some() {
            outputs.write(|| conversion.proved_report(&proofs)?.write(None, page.as_deref()))?;
        }
        return Ok(Verdict::Proved(proofs));
    }
    let mut measured = Vec::new();
    let (mut model, mut path) = (model, arguments.model.clone());
    let mut is_plain = is_plain(&choices) && choices.has_plain_pixels();
    let write_float = |path: &Path| -> Result<(), Refusal> {
        let float =
            converter.clone().quantization(Quantization::Float).weights(Weights::Float).emit_onnx(path);
        float.convert(&model)?.write(room.path().join("float.param"), room.path().join("float.bin"))?;
        Ok(())
    };
    let mut unrounded = None;
    if choices.int8 && arguments.tolerance.is_none() {
        let path = room.path().join("float.onnx");
        // A model that cannot be computed in float has no such floor.
        unrounded = write_float(&path).is_ok().then_some(path);
    }
    if choices.dequantize {
        path = room.path().join("float.onnx");
        if arguments.magnitudes {
            // The nodes of the quantized model, as the option of its conversion names them.
            measured = converter.convert(&model)?.half_blobs()?;
        }
        write_float(&path)?;
        // The requested part, with its shapes.
        model = Input::Path(path.clone());
        converter = Converter::new().double_as_float(choices.double_as_float).kv_cache(choices.kv_cache);
        converter = converter.weights(choices.weights).numbered(choices.numbered);
        converter = choices.rename.iter().fold(converter, |converter, (old, new)| converter.rename(old, new));
        is_plain = true;
    }
    let conversion = converter.convert(&model)?;
    if arguments.magnitudes && !choices.dequantize {
        measured = conversion.half_blobs()?;
    }
    let layers = if arguments.layers { inner_pairs(&conversion) } else { Vec::new() };
    let rounded = conversion.rounded_by_onnxruntime()?;
    if rounded > 0 && !is_quiet {
        let nodes = count(rounded, "node");
        let rounds = format!("onnxruntime rounds the inputs of {nodes} to int8 (accuracy_level 4)");
        say("note", &format!("{rounds}: it runs the model without that"));
    }
    if !is_plain || !layers.is_empty() || rounded > 0 {
        path = room.path().join("model.onnx");
        let names: BTreeSet<String> = layers.iter().map(|pair| pair.name.clone()).collect();
        converter.expose(&model, &names)?.write(&path, &Storage::AsNeeded)?;
    }
    // The runtime reports faults of the files.
    let has_half_weights = || read_net(&param, &bin).is_ok_and(|net| net.has_half_weights());
    let is_half = arguments.fp16 || arguments.bf16 || arguments.tolerance.is_none() && has_half_weights();
    let shapes: Result<Vec<_>, Error> = SIZES.iter().map(|size| conversion.shapes_at(*size)).collect();
    let calls: Result<Vec<_>, Error> = SIZES.iter().map(|size| conversion.calls_at(*size)).collect();
    let request = NetRequest {
        shapes: shapes?.into_iter().flatten().collect(),
        calls: calls?.into_iter().filter(|calls| !calls.is_empty()).collect(),
        layers,
        measured,
        data: arguments.data.clone(),
        rounds: arguments.rounds.unwrap_or(1),
        fp16: arguments.fp16,
        bf16: arguments.bf16,
        vulkan: arguments.vulkan,
        device: arguments.device.clone(),
        threads: arguments.threads,
        timed: arguments.device.is_some(),
        unrounded,
        cosine: ((choices.int8 || choices.weights.rounds()) && arguments.tolerance.is_none())
            .then_some(INT8_COSINE),
        ..NetRequest::new(&conversion, path, param.clone(), bin.clone())?
    };
    let tolerance = arguments.tolerance.or(is_half.then_some(HALF_TOLERANCE)).unwrap_or(request.tolerance);
    let mut comparison = NetRequest { tolerance, ..request }.ask(&arguments.python)?;
    let is_above = |row: &Distance| row.alone.is_some_and(|error| error > tolerance);
    if comparison.layers.iter().any(is_above) {
        let proofs = prove::prove(&conversion, &converter, &model, (&param, &bin))?;
        comparison.layers.iter_mut().filter(|row| is_above(row)).for_each(|row| prove::judge(row, &proofs));
    }
    let write = || conversion.compared_report(comparison.part())?.write(None, page.as_deref());
    if page.is_some() {
        outputs.write(write)?;
    }
    Ok(Verdict::Compared(Box::new(comparison), Box::new(choices)))
}

/// Returns the files of the net.
fn net_files(arguments: &Verify) -> (PathBuf, PathBuf) {
    match (&arguments.param, &arguments.bin) {
        (Some(folder), None) if folder.is_dir() => {
            let (param, bin) = default_files(&arguments.model);
            let in_folder = |path: PathBuf| folder.join(path.file_name().unwrap_or_default());
            (in_folder(param), in_folder(bin))
        }
        (Some(param), Some(bin)) => (param.clone(), bin.clone()),
        (Some(param), None) => (param.clone(), bin_next_to(param)),
        (None, _) => default_files(&arguments.model),
    }
}

/// Returns the blobs of layers, in order, with the names of their values.
fn inner_pairs(conversion: &Conversion) -> Vec<Pair> {
    let pair = |InnerBlob { value, blob, int32, .. }| Pair {
        name: value,
        blob,
        int32,
        axes: Vec::new(),
        cache: None,
    };
    conversion.inner_blobs().into_iter().map(pair).collect()
}
