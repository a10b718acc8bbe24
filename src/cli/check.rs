//! The command `check`: what a runtime would refuse or misread in a net of any converter.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use onnx2ncnn::Refusal;
use onnx2ncnn::ncnn::{Amount, Contents, LayerName, Sizes};
use onnx2ncnn::report::Diagnostic;
use serde_json::json;

use super::exit::{DONE, REFUSED, finish_command};
use super::message::{Format, MessageFormat, Report};
use super::net::{bin_next_to, describe_faults, display_layer, is_unreadable, param_of, read_net};
use super::refusal::to_json;
use super::size::{display_bytes, display_scaled};
use super::terminal::{BAD, NOTICE, STRONG, labelled, list, print, printable, widths};
use crate::common::count::count;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn check net.param
      with net.bin next to it
  onnx2ncnn check net.param weights.bin
  onnx2ncnn check net.param.bin
      the binary form of net.param, with net.bin
  onnx2ncnn check net.param --message-format json | jq .done.since

Exit codes:
  0  the net is right
  1  the runtime would refuse the files, or misread them
  2  a file cannot be read";

/// Check the files of a net of any converter, and print what it needs of a runtime
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Check {
    /// The .param file of the net, its binary form, or a folder with one
    pub param: PathBuf,

    /// The .bin file of the net [default: next to the .param file, by its name]
    pub bin: Option<PathBuf>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

/// The maximum number of listed inputs, outputs and blobs, without -v.
const MAX_ROWS: usize = 40;

/// The units of numbers of elements.
const UNITS: [&str; 5] = ["elements", "K elements", "M elements", "G elements", "T elements"];

/// The maximum number of listed layers of a kind, without -v.
const MAX_LAYERS: usize = 8;

/// Prints the faults of a net, or what it contains, and returns the exit code.
pub(super) fn check_net(arguments: &Check) -> u8 {
    let Check { param, bin, format, report } = arguments;
    let param = param_of(param);
    let bin = bin.clone().unwrap_or_else(|| bin_next_to(&param));
    let contents = read_net(&param, &bin).and_then(|net| Ok(net.contents()?));
    let is_json = format.message_format == MessageFormat::Json;
    match contents {
        Ok(contents) => {
            if is_json {
                let warnings: Vec<Diagnostic> =
                    notes(&contents).iter().map(|note| Diagnostic::warning(note)).collect();
                let done = json!({ "done": contents });
                print(&format!("{}{done}\n", to_json(&warnings)), report.color);
            } else if !report.quiet {
                print(&describe(&contents, report.verbose), report.color);
            }
            DONE
        }
        Err(refusal) if is_unreadable(&refusal) => {
            finish_command(Err(refusal), None, *report, format.message_format, false)
        }
        Err(refusal) => {
            let text = if is_json {
                to_json(&refusal.report().diagnostics)
            } else {
                describe_faults(&refusal, report.verbose) + &verdict(&refusal)
            };
            print(&text, report.color);
            REFUSED
        }
    }
}

/// Returns the last line for a net with faults.
fn verdict(refusal: &Refusal) -> String {
    let mut text = String::new();
    labelled(&mut text, BAD, "wrong", &count(refusal.iter().count(), "fault"));
    text
}

/// Returns what is unusual in a right net.
fn notes(contents: &Contents) -> Vec<String> {
    let input = |name: &String| format!("no layer reads the input \"{}\"", printable(name));
    let top = |name: &String| {
        let name = printable(name);
        format!("no layer reads \"{name}\", as others of its layer are: it is an output, or left over")
    };
    let inputs = contents.unread_inputs.iter().map(input);
    inputs.chain(contents.unread_tops.iter().map(top)).collect()
}

fn describe(contents: &Contents, verbose: bool) -> String {
    let mut text = String::new();
    let most = |rows: usize| if verbose { usize::MAX } else { rows };
    let ports = [("input", &contents.inputs), ("output", &contents.outputs)];
    let rows = ports.into_iter().flat_map(|(kind, ports)| ports.iter().map(move |port| row(kind, port)));
    let rows: Vec<[String; 3]> = rows.collect();
    let [kind_width, name_width, _] = widths(&rows);
    list(&mut text, "", &rows, most(MAX_ROWS), |text, [kind, name, shape]| {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{kind:kind_width$}  {STRONG}{name:name_width$}{STRONG:#}  {shape}");
    });
    if verbose {
        for (type_name, number) in &contents.types {
            let _ = writeln!(text, "{number:6}  {type_name}");
        }
    }
    let (layers, blobs) = (count(contents.layers, "layer"), count(contents.blobs, "blob"));
    let _ = writeln!(text, "{layers}, {blobs}");
    for (name, Amount { elements, bytes, .. }) in &contents.weights {
        let elements = display_scaled(*elements, UNITS);
        let _ = writeln!(text, "weights of {name}: {elements} in {}", display_bytes(*bytes));
    }
    let layers = |layers: &[LayerName]| names(layers, most(MAX_LAYERS));
    if !contents.without_gpu.is_empty() {
        let _ = writeln!(text, "not on the GPU: {}", layers(&contents.without_gpu));
    }
    if !contents.float32.is_empty() {
        let _ = writeln!(text, "in float32 on phones: {}", layers(&contents.float32));
    }
    let because = match contents.newest.as_slice() {
        [] => String::new(),
        newest => format!(", for {}", layers(newest)),
    };
    let _ = writeln!(text, "loads in ncnn {} and later{because}", contents.since);
    list(&mut text, "", &notes(contents), most(MAX_ROWS), |text, note| {
        labelled(text, NOTICE, "warning", note);
    });
    labelled(&mut text, STRONG, "right", "the runtime reads the files to the last byte");
    text
}

/// Returns the cells of an input or output.
fn row(kind: &str, port: &Sizes) -> [String; 3] {
    let shape = port.shape.as_ref().map_or_else(|| "?".to_owned(), |shape| format!("{shape:?}"));
    [kind.to_owned(), format!("\"{}\"", printable(&port.name)), shape]
}

/// Returns the number of layers, and the names of the first ones.
fn names(layers: &[LayerName], most: usize) -> String {
    let shown: Vec<String> = layers.iter().take(most).map(display_layer).collect();
    let more = if layers.len() > most { ", ..." } else { "" };
    format!("{} ({}{more})", count(layers.len(), "layer"), shown.join(", "))
}
