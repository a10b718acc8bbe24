//! The command `verify`: compares a net with its model, without a runtime or in onnxruntime and ncnn.

mod arguments;
mod describe;
mod hint;
pub(super) mod prove;

use std::borrow::Borrow;
use std::collections::BTreeSet;
use std::io::Read as _;
use std::path::Path;

use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::report::Distance;
use onnx2ncnn::{
    Conversion, Converter, Dim, InnerBlob, Input, Options, Proof, Quantization, State, Storage, Weights,
};

use crate::cli::exit::{DIFFERENT, DONE, NOT_DONE, REFUSED, finish_command};
use crate::cli::location::{Outputs, input, path_to_read_again, refused, temporary_folder};
use crate::cli::message::MessageFormat;
use crate::cli::net::read_net;
use crate::cli::options::is_plain;
use crate::cli::python::{Comparison, INT8_COSINE, NetRequest, Pair, SIZES};
use crate::cli::repeated::Repeated;
use crate::cli::terminal::{HELP, STRONG, Waiting, labelled, print, printable, tell};
use crate::common::count::count;
pub(super) use arguments::Verify;
use describe::{advise_int8, describe, describe_magnitudes};
use hint::{check_free, hints, option_of, other_shapes};

/// The tolerance in half precision.
const HALF_TOLERANCE: f64 = 0.02;

/// Compares and prints the result.
pub(super) fn verify_files(arguments: &Verify) -> u8 {
    let (report, format) = (arguments.report, arguments.format.message_format);
    let (comparison, choices, hints) = match compare(arguments) {
        Ok(Verdict { result: Checked::Compared(comparison, choices), hints }) => (comparison, choices, hints),
        Ok(Verdict { result: Checked::Proved(proofs), hints }) => {
            return tell_proofs(&proofs, &hints, arguments);
        }
        Err(errors) => {
            let is_damaged = errors.iter().any(|error| error.kind() == ErrorKind::InvalidNet);
            let code = finish_command(Err(errors), None, report, format, false);
            let help = match code {
                REFUSED => Some("repeat the options of the conversion, or give its --report"),
                DIFFERENT if is_damaged => {
                    Some("the files are damaged, or are not a net: convert the model again")
                }
                _ => None,
            };
            if let Some(help) = help.filter(|_| format == MessageFormat::Human) {
                let mut text = String::new();
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
        add_hints(&mut text, &hints);
        print(&text, report.color);
    }
    if comparison.is_same() { DONE } else { DIFFERENT }
}

/// The result of a comparison, and what explains a net that differs.
struct Verdict {
    result: Checked,
    hints: Vec<String>,
}

/// What was compared.
enum Checked {
    /// Without a runtime, at several sizes.
    Proved(Vec<Proof>),
    /// With the runtimes, and the options of the conversion.
    Compared(Box<Comparison>, Box<Options>),
}

/// Adds what explains that a net differs.
fn add_hints(text: &mut String, hints: &[String]) {
    for hint in hints {
        labelled(text, HELP, "help", hint);
    }
}

/// Prints proofs, and returns the exit code.
fn tell_proofs(proofs: &[Proof], hints: &[String], arguments: &Verify) -> u8 {
    let is_right = proofs.iter().all(Proof::is_right);
    let report = arguments.report;
    if arguments.format.message_format == MessageFormat::Json {
        print(&(serde_json::to_string(proofs).unwrap_or_default() + "\n"), report.color);
    } else if !report.quiet || !is_right {
        let mut text = prove::describe(proofs, report.verbose);
        add_hints(&mut text, hints);
        print(&text, report.color);
    }
    let mut windows = proofs.iter().flat_map(|proof| &proof.windows).peekable();
    let is_empty = windows.peek().is_none();
    match is_right {
        false => DIFFERENT,
        true if is_empty || windows.any(|window| window.state != State::NotCovered) => DONE,
        true => NOT_DONE,
    }
}

/// Shapes of inputs, and the conversion of the model with them.
type Sized = (Vec<(String, Vec<i64>)>, (Converter, Conversion));

/// Returns the conversion at the sizes that a net states, where they are free in another one. The net is read
/// only if there are free sizes.
fn at_sizes_of<N: Borrow<Net>>(
    net: impl FnOnce() -> Option<N>,
    converter: &Converter,
    conversion: &Conversion,
    model: &Input,
) -> Option<Sized> {
    let free = conversion.inputs.iter().filter(|port| port.shape.iter().any(|size| size.known().is_none()));
    let free: BTreeSet<&str> = free.map(|port| port.name.as_str()).collect();
    if free.is_empty() {
        return None;
    }
    let shapes = other_shapes(conversion, net()?.borrow());
    if shapes.is_empty() || !shapes.iter().all(|(name, _)| free.contains(name.as_str())) {
        return None;
    }
    let with_shape = |converter: Converter, (name, shape): &(String, Vec<i64>)| {
        converter.input_shape(name, shape.iter().copied().map(Dim::from))
    };
    let sized = shapes.iter().fold(converter.clone(), with_shape);
    let conversion = sized.convert(model).ok()?;
    Some((shapes, (sized, conversion)))
}

/// Compares the net with the model.
fn compare(arguments: &Verify) -> Result<Verdict, Refusal> {
    let model = input(path_to_read_again(&arguments.model)?)?;
    let (param, bin) = arguments.net_files();
    if let Some(folder) = arguments.reduce.as_ref().filter(|folder| folder.exists()) {
        return Err(refused(folder, "the folder exists").into());
    }
    let mut outputs = Outputs::default();
    let page = outputs.add_if(arguments.html.as_ref())?;
    let read = [&arguments.model, &param, &bin].map(|path| path.canonicalize().ok());
    if let Some(path) = page.as_ref().filter(|page| read.contains(&Some(page.to_path_buf()))) {
        return Err(refused(path, "the page would overwrite a file that is read").into());
    }
    for path in [&arguments.model, &param, &bin].into_iter().chain(&arguments.data) {
        let failed = |e| {
            let error = Error::io("the file cannot be opened", e).in_file(path);
            match arguments.param.is_none() && *path == param {
                true => error.help("name the .param file, or its folder, after the model"),
                false => error,
            }
        };
        std::fs::File::open(path).map_err(failed)?;
    }
    if let Some(data) = &arguments.data {
        check_archive(data)?;
    }
    let repeated = Repeated::of(arguments.conversion.as_deref(), &param, &bin)?;
    let is_quiet = arguments.report.quiet || arguments.format.message_format == MessageFormat::Json;
    let say = |label: &str, text: &str| {
        let mut line = String::new();
        labelled(&mut line, STRONG, label, text);
        tell(&line, arguments.report.color);
    };
    let say_if = |shapes: &[(String, Vec<i64>)]| {
        if !is_quiet {
            say("sizes of the net", &option_of(shapes));
        }
    };
    if let Some(path) = repeated.path.as_ref().filter(|_| !is_quiet) {
        let names = repeated.names();
        let names = if names.is_empty() { "none".to_owned() } else { names.join(" ") };
        let text = format!("{names}, by {}", printable(&path.display().to_string()));
        say("options of the conversion", &text);
    }
    if let Some(error) = repeated.unused.as_ref().filter(|_| !is_quiet) {
        say("note", &format!("{}; its options are not repeated", printable(&format!("{error:#}"))));
    }
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
        let mut conversion = converter.convert(&model)?;
        let net = prove::read(&conversion, (&param, &bin))?;
        check_free(&conversion, &net, &choices)?;
        if let Some((shapes, sized)) = at_sizes_of(|| Some(&net), &converter, &conversion, &model) {
            say_if(&shapes);
            (converter, conversion) = sized;
        }
        let proofs = prove::prove(&conversion, &converter, &model, &net)?;
        if let Some(folder) = &arguments.reduce
            && !proofs.iter().all(Proof::is_right)
        {
            prove::reduce(&proofs, folder)?;
        }
        if page.is_some() {
            outputs.write(|| conversion.proved_report(&proofs)?.write(None, page.as_deref()))?;
        }
        let is_right = proofs.iter().all(Proof::is_right);
        let hints = if is_right { Vec::new() } else { hints(&conversion, &net) };
        return Ok(Verdict { result: Checked::Proved(proofs), hints });
    }
    let mut measured = Vec::new();
    let (mut model, mut path) = (model, arguments.model.clone());
    let mut is_plain = is_plain(&choices) && choices.has_plain_pixels() && choices.input_shapes.is_empty();
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
    let mut conversion = converter.convert(&model)?;
    let read = || read_net(&param, &bin).ok();
    if let Some((shapes, sized)) = at_sizes_of(read, &converter, &conversion, &model) {
        say_if(&shapes);
        (converter, conversion) = sized;
        is_plain = false;
    }
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
    let waiting = Waiting::for_work("the model and its net run", arguments.report);
    let mut comparison = NetRequest { tolerance, ..request }.ask(&arguments.python)?;
    drop(waiting);
    let is_above = |row: &Distance| row.alone.is_some_and(|error| error > tolerance);
    if comparison.layers.iter().any(is_above) {
        let net = prove::read(&conversion, (&param, &bin))?;
        let proofs = prove::prove(&conversion, &converter, &model, &net)?;
        comparison.layers.iter_mut().filter(|row| is_above(row)).for_each(|row| prove::judge(row, &proofs));
    }
    let write = || conversion.compared_report(comparison.part())?.write(None, page.as_deref());
    if page.is_some() {
        outputs.write(write)?;
    }
    let hints = match comparison.is_same() {
        true => Vec::new(),
        false => read_net(&param, &bin).map(|net| hints(&conversion, &net)).unwrap_or_default(),
    };
    Ok(Verdict { result: Checked::Compared(Box::new(comparison), Box::new(choices)), hints })
}

/// Refuses data other than an archive of arrays.
fn check_archive(data: &Path) -> Result<(), Error> {
    let mut start = [0; 2];
    let read = std::fs::File::open(data).and_then(|mut file| file.read_exact(&mut start));
    if read.is_ok() && start == *b"PK" {
        return Ok(());
    }
    let message = "--data is a file .npz with an array for each input, by its name";
    let help = "write it in Python: np.savez(\"inputs.npz\", images=array), in the shape of the input";
    Err(refused(data, message).help(help))
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
