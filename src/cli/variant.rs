//! A model as nets for several sizes.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::Error;
use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Input, InputShapes, Port, Refusal, Variant};
use serde_json::{Value, json};

use super::arguments::Arguments;
use super::destination::Destination;
use super::location::{Outputs, input};
use super::message::MessageFormat;
use super::shape::parse_input_shape;
use super::size::display_bytes;
use super::summary::{Stream, Summary};
use super::terminal::{NOTICE, labelled, printable};
use crate::common::count::count;

/// The maximum number of inputs, and of outputs, that are named.
const MAX_PORTS: usize = 3;

/// Converts a model for the sizes of each variant, and writes the nets over one `.bin` file.
pub(super) fn convert_variants(arguments: &Arguments) -> Result<Summary, Refusal> {
    let (net, further) = arguments.results();
    let Destination { param, bin: named, outputs, .. } = Destination::of(&arguments.model, &net, &further)?;
    let model = input(&arguments.model)?;
    if outputs.uses_standard_output() || model == Input::Stdin {
        return Err(Error::usage("nets of several sizes are read from a file and written to files").into());
    }
    let converter = arguments.choices.apply(arguments.source.converter()?)?;
    let variants = converter.convert_variants(&model, &parsed(&arguments.variant)?)?;
    let params = variants.params(&param);
    let bin = if arguments.net.bin.is_some() { named } else { variants.bin(&param) };
    let outputs = Outputs::of_nets(params.iter().chain([&bin]), &arguments.model, "a net")?;
    let written = match arguments.dry_run {
        true => None,
        false => Some((&*bin, outputs.write(|| variants.write(&param, &bin))?)),
    };
    Ok(match arguments.format.message_format {
        MessageFormat::Human => describe(&variants.nets, &params, written),
        MessageFormat::Json => to_json(&variants.nets, &params, written),
    })
}

/// Returns a line for each net, and one for the `.bin` file, if it was written.
fn describe(nets: &[Variant], params: &[PathBuf], bin: Option<(&Path, u64)>) -> Summary {
    let name = |path: &Path| printable(&path.file_name().unwrap_or_default().to_string_lossy());
    let mut text = String::new();
    let mut warnings: Vec<(&str, Vec<&str>)> = Vec::new();
    for (net, param) in nets.iter().zip(params) {
        let Variant { name: variant, conversion, skipped, .. } = net;
        let (inputs, results) = (ports(&conversion.inputs), ports(&conversion.outputs));
        let layers = count(conversion.net().layers.len(), "layer");
        let _ = write!(text, "{}  {inputs} -> {results}, {layers}", name(param));
        if *skipped > 0 {
            let _ = write!(text, ", loads {} of other nets", display_bytes(*skipped));
        }
        text.push('\n');
        for warning in &conversion.warnings {
            match warnings.iter_mut().find(|(other, _)| other == warning) {
                Some((_, variants)) => variants.push(variant),
                None => warnings.push((warning, vec![variant])),
            }
        }
    }
    if let Some((bin, bytes)) = bin {
        let _ = writeln!(text, "{}  {}", name(bin), display_bytes(bytes));
    }
    for (warning, variants) in warnings {
        let of =
            if variants.len() == nets.len() { String::new() } else { format!("{}: ", variants.join(", ")) };
        labelled(&mut text, NOTICE, "warning", &format!("{of}{}", printable(warning)));
    }
    let mut summary = Summary::default();
    summary.add(Stream::Error, text);
    summary
}

/// Returns a line of JSON with the nets, and the `.bin` file, if it was written.
fn to_json(nets: &[Variant], params: &[PathBuf], bin: Option<(&Path, u64)>) -> Summary {
    let rows: Vec<Value> = nets
        .iter()
        .zip(params)
        .map(|(net, param)| {
            json!({
                "name": net.name, "param": param.display().to_string(), "ncnn": net.conversion.net().since(),
                "layers": net.conversion.net().layers.len(), "skipped": net.skipped,
                "warnings": net.conversion.warnings,
            })
        })
        .collect();
    let mut files: Vec<String> = Vec::new();
    if let Some((bin, _)) = bin {
        files.extend(params.iter().map(|param| param.display().to_string()));
        files.push(bin.display().to_string());
    }
    let done = json!({ "files": files, "bytes": bin.map_or(0, |(_, bytes)| bytes), "nets": rows });
    Summary::of_results(format!("{}\n", json!({ "done": done })))
}

/// Returns the first inputs or outputs with their shapes, and the number of the others.
fn ports(ports: &[Port]) -> String {
    let port =
        |port: &Port| format!("\"{}\" {}", printable(&port.name), printable(&display_shape(&port.form)));
    let mut text = ports.iter().take(MAX_PORTS).map(port).collect::<Vec<_>>().join(", ");
    if let Some(more) = ports.len().checked_sub(MAX_PORTS).filter(|more| *more > 0) {
        let _ = write!(text, " and {more} more");
    }
    text
}

/// Parses `small=images:1,3,320,320`. A name that repeats has further inputs.
fn parsed(texts: &[String]) -> Result<Vec<(String, InputShapes)>, Error> {
    let mut variants: Vec<(String, InputShapes)> = Vec::new();
    for text in texts {
        let refused = |reason: &str| Error::usage(format!("--variant {text}: {reason}"));
        let (name, shape) = text
            .split_once('=')
            .ok_or_else(|| refused("the form is NAME=INPUT:1,3,320,320, or NAME=1,3,320,320"))?;
        let shape = parse_input_shape(shape).map_err(|reason| refused(&reason))?;
        match variants.iter_mut().find(|(other, _)| other == name) {
            Some((_, shapes)) => shapes.push(shape),
            None => variants.push((name.to_owned(), vec![shape])),
        }
    }
    Ok(variants)
}
