//! The command `diff`: what differs between two nets.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use onnx2ncnn::Refusal;
use onnx2ncnn::ncnn::{Difference, LayerName, NetComparison, WeightChange};
use serde_json::json;

use super::exit::{DIFFERENT, DONE, NOT_DONE, finish_command};
use super::message::{Format, MessageFormat, Report};
use super::net::{bin_next_to, describe_faults, display_layer, is_unreadable, param_of, read_net};
use super::refusal::to_json;
use super::terminal::{BAD, STRONG, labelled, list, print, printable, tell};
use crate::common::count::count;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn diff old.param new.param
      with old.bin and new.bin next to them
  onnx2ncnn diff net.param net.param --old-bin a.bin --new-bin b.bin
      compares weights alone
  onnx2ncnn diff old.param new.param --message-format json | jq -r .kind

Exit codes:
  0  both nets compute the same
  2  a file cannot be read, or is not a net
  4  the nets differ";

/// Compare two nets of any converters: layers, params, wiring and weights
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Diff {
    /// The .param file of the first net, its binary form, or a folder with one
    pub old: PathBuf,

    /// The .param file of the second net, its binary form, or a folder with one
    pub new: PathBuf,

    /// The .bin file of the first net [default: next to its .param file, by its name]
    #[arg(long, value_name = "FILE.bin")]
    pub old_bin: Option<PathBuf>,

    /// The .bin file of the second net [default: next to its .param file, by its name]
    #[arg(long, value_name = "FILE.bin")]
    pub new_bin: Option<PathBuf>,

    #[command(flatten)]
    pub format: Format,

    #[command(flatten)]
    pub report: Report,
}

/// The maximum number of listed differences, without -v.
const MAX_ROWS: usize = 100;

/// Prints the differences, and returns the exit code.
pub(super) fn compare_nets(arguments: &Diff) -> u8 {
    let (report, format) = (arguments.report, arguments.format.message_format);
    let comparison = match compare(arguments) {
        Ok(comparison) => comparison,
        Err(refusal) if is_unreadable(&refusal) => {
            return finish_command(Err(refusal), None, report, format, false);
        }
        Err(refusal) => {
            match format {
                MessageFormat::Json => print(&to_json(&refusal.report().diagnostics), report.color),
                MessageFormat::Human => tell(&unread(&refusal, report.verbose), report.color),
            }
            return NOT_DONE;
        }
    };
    let is_same = comparison.differences.is_empty();
    if format == MessageFormat::Json {
        print(&lines(&comparison), report.color);
    } else if !report.quiet || !is_same {
        print(&describe(&comparison, arguments), report.color);
    }
    if is_same { DONE } else { DIFFERENT }
}

fn compare(arguments: &Diff) -> Result<NetComparison, Refusal> {
    let read = |path: &Path, bin: &Option<PathBuf>| {
        let param = param_of(path);
        read_net(&param, &bin.clone().unwrap_or_else(|| bin_next_to(&param)))
    };
    let old = read(&arguments.old, &arguments.old_bin)?;
    Ok(old.compare(&read(&arguments.new, &arguments.new_bin)?)?)
}

/// Describes a file that is not a net.
fn unread(refusal: &Refusal, verbose: bool) -> String {
    let file = refusal.iter().find_map(|error| error.at().file.as_ref());
    let file = file.map(|file| printable(&file.display().to_string())).unwrap_or_default();
    let mut text = describe_faults(refusal, verbose);
    labelled(&mut text, BAD, "not compared", &format!("{file} is not a net that the runtime reads"));
    text
}

/// Returns a line of JSON for each difference, and one for the whole.
fn lines(comparison: &NetComparison) -> String {
    let NetComparison { differences, same_layers, renamed, .. } = comparison;
    let mut text = String::new();
    for difference in differences {
        // The fields are numbers and text, so no error is known.
        let _ = writeln!(text, "{}", serde_json::to_string(difference).unwrap_or_default());
    }
    let (is_same, number) = (differences.is_empty(), differences.len());
    let done = json!({ "same": is_same, "differences": number, "layers": same_layers, "renamed": renamed });
    let _ = writeln!(text, "{}", json!({ "done": done }));
    text
}

fn describe(comparison: &NetComparison, arguments: &Diff) -> String {
    let NetComparison { differences, same_layers, renamed, .. } = comparison;
    let verbose = arguments.report.verbose;
    let mut text = String::new();
    list(&mut text, "", differences, if verbose { usize::MAX } else { MAX_ROWS }, |text, difference| {
        let _ = writeln!(text, "{}", line(difference, arguments));
    });
    if verbose {
        for (old, new) in renamed {
            let _ = writeln!(text, "name \"{}\" -> \"{}\"", printable(old), printable(new));
        }
    }
    let names = match renamed.len() {
        0 => String::new(),
        n => format!(", {n} of them with other names"),
    };
    let compared = format!("{} in both nets{names}", count(*same_layers, "layer"));
    match differences.len() {
        0 => labelled(&mut text, STRONG, "same", &compared),
        n => labelled(&mut text, BAD, "different", &format!("{}; {compared}", count(n, "difference"))),
    }
    text
}

/// Returns the line of a difference.
fn line(difference: &Difference, arguments: &Diff) -> String {
    let only = |file: &Path, layer: &LayerName| {
        format!("only in {}: {}", printable(&file.display().to_string()), display_layer(layer))
    };
    match difference {
        Difference::Removed { layer } => only(&arguments.old, layer),
        Difference::Added { layer } => only(&arguments.new, layer),
        Difference::Type { layer, new } => format!("{}: type {new}", display_layer(layer)),
        Difference::Param { layer, param, old, new } => {
            format!("{}: {param} {} -> {}", display_layer(layer), printable(old), printable(new))
        }
        Difference::Wiring { layer, old, new } => {
            format!("{}: reads {} -> {}", display_layer(layer), quoted(old), quoted(new))
        }
        Difference::Weight { layer, weight, change } => {
            format!("{}: {weight} {}", display_layer(layer), changed(change))
        }
        Difference::Inputs { old, new } => format!("inputs {} -> {}", quoted(old), quoted(new)),
        Difference::Outputs { old, new } => format!("outputs {} -> {}", quoted(old), quoted(new)),
    }
}

/// Returns how a weight differs.
fn changed(change: &WeightChange) -> String {
    match change {
        WeightChange::Length { old, new } => format!("{old} -> {}", count(*new, "element")),
        WeightChange::Elements { count: number, of, largest, first, old, new, .. } => {
            let types = if old == new { String::new() } else { format!("{old} -> {new}, ") };
            match first {
                Some(first) => format!(
                    "{types}{number} of {} differ, by at most {largest:.3e}, the first at {first}",
                    count(*of, "element")
                ),
                None => format!("{types}the {} are the same", count(*of, "element")),
            }
        }
    }
}

/// Returns names in quotes, or `none`.
fn quoted(names: &[String]) -> String {
    let names: Vec<String> = names.iter().map(|name| format!("\"{}\"", printable(name))).collect();
    if names.is_empty() { "none".to_owned() } else { names.join(", ") }
}
