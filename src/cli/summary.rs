//! The summary of a conversion.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::Path;
use std::time::Duration;

use clap::ColorChoice;
use onnx2ncnn::error::Result;
use onnx2ncnn::ncnn::{Net, Written};
use onnx2ncnn::tensor::Dim;
use onnx2ncnn::{AssumedFact, Assumption, Conversion, Port};
use serde_json::json;

use super::destination::Destination;
use super::size::{display_bytes, display_scaled};
use super::terminal::{NOTICE, STRONG, labelled, list, print, printable, tell, widths};
use super::{condition, refusal};
use crate::common::count::count;

/// The maximum number of listed inputs, outputs and warnings, without -v.
const MAX_ROWS: usize = 40;

/// The maximum length of a size within a table.
const MAX_SIZE: usize = 32;

/// The maximum number of named values of an assumption, without -v.
const MAX_ASSUMED: usize = 2;

/// The use of caches that the runtime keeps.
const CACHES: &str =
    "the first call sets none; each call extracts them with type 1, and the next one sets them as they are";

/// What a command prints when it succeeds: its results on standard output, everything else on standard error.
#[derive(Debug, Default)]
pub(super) struct Summary(Vec<(Stream, String)>);

/// A stream of the process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    Output,
    Error,
}

impl Summary {
    /// Adds text for a stream.
    pub fn add(&mut self, stream: Stream, text: String) {
        self.0.push((stream, text));
    }

    /// Adds the texts of another summary.
    pub fn append(&mut self, mut other: Summary) {
        self.0.append(&mut other.0);
    }

    /// Creates a summary of only results.
    pub fn of_results(text: String) -> Summary {
        Summary(vec![(Stream::Output, text)])
    }

    /// Prints each text to its stream, in order.
    pub fn print(&self, color: ColorChoice) {
        for (stream, text) in &self.0 {
            match stream {
                Stream::Output => print(text, color),
                Stream::Error => tell(text, color),
            }
        }
    }
}

/// The files of a conversion.
pub(super) struct Files<'a> {
    pub destination: &'a Destination,
    pub written: &'a Written,
    /// Whether they were computed, and not written.
    pub dry_run: bool,
}

impl Files<'_> {
    /// Returns the paths of all files.
    fn paths(&self) -> impl Iterator<Item = &Path> {
        let named = self.destination.files().map(|(path, _)| path.as_path());
        named.chain(self.written.operators.as_deref())
    }

    /// Returns the stream for tables that were asked for: standard output, unless it has the bytes of a
    /// result.
    fn stream(&self, verbose: bool) -> Stream {
        match verbose && !self.destination.outputs.uses_standard_output() {
            true => Stream::Output,
            false => Stream::Error,
        }
    }
}

/// Returns the table of inputs and outputs, the warnings, and the written files.
pub(super) fn describe(conversion: &Conversion, files: &Files, elapsed: Duration, verbose: bool) -> Summary {
    let mut summary = Summary::default();
    let mut table = String::new();
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    describe_ports(&mut table, conversion, most);
    summary.add(files.stream(verbose), table);
    let mut text = String::new();
    let rule = interface_rule(conversion.inputs.iter().chain(&conversion.outputs));
    if let Some(rule) = rule.filter(|_| verbose) {
        labelled(&mut text, STRONG, "note", &rule);
    }
    if conversion.inputs.iter().any(|port| port.cache.is_some()) {
        labelled(&mut text, STRONG, "caches", CACHES);
    }
    let warnings: Vec<&String> = conversion.warnings.iter().chain(&files.written.warnings).collect();
    list(&mut text, "", &warnings, most, |text, warning| {
        labelled(text, NOTICE, "warning", &printable(warning));
    });
    describe_rounding(&mut text, conversion, files.written, verbose);
    describe_transforms(&mut text, conversion.net());
    describe_assumptions(&mut text, &conversion.assumptions, verbose);
    if let Some(conditions) = condition::describe(conversion, verbose) {
        labelled(&mut text, NOTICE, "valid if", &conditions);
    }
    let lengths: Vec<String> = conversion.may_be_zero().iter().map(|name| printable(name)).collect();
    if !lengths.is_empty() {
        let since = Conversion::ZERO_SIZES_SINCE;
        labelled(&mut text, STRONG, "may be 0", &format!("{} (ncnn {since} or later)", lengths.join(", ")));
    }
    summary.add(Stream::Error, text);
    if verbose {
        let mut table = String::new();
        describe_phone(&mut table, conversion.net());
        describe_passes(&mut table, conversion);
        describe_unfused(&mut table, conversion);
        summary.add(files.stream(verbose), table);
    }
    let mut text = String::new();
    describe_files(&mut text, conversion, files, elapsed);
    summary.add(Stream::Error, text);
    summary
}

/// Returns the warnings, facts and conditions of a conversion as lines of JSON, and the files in the last
/// line.
pub(super) fn to_json(conversion: &Conversion, files: &Files) -> Result<Summary> {
    let report = conversion.report(files.written)?;
    let mut lines = refusal::to_json(&report.diagnostics);
    let names: Vec<String> = match files.dry_run {
        true => Vec::new(),
        false => files.paths().map(|path| path.display().to_string()).collect(),
    };
    let done = json!({
        "files": names,
        "layers": files.written.layers,
        "bytes": files.written.param_bytes.saturating_add(files.written.bin_bytes),
        "ncnn": conversion.net().since(),
    });
    let _ = writeln!(lines, "{}", json!({ "done": done }));
    Ok(Summary::of_results(lines))
}

/// Adds a row for each port: name, type and shape in the model, and its form at run time. Long sizes stand
/// below.
fn describe_ports(text: &mut String, conversion: &Conversion, most: usize) {
    let mut long: Vec<String> = Vec::new();
    let mut rows: Vec<[String; 5]> = Vec::new();
    for (kind, ports) in [("input", &conversion.inputs), ("output", &conversion.outputs)] {
        for port in ports {
            let renamed = if port.blob == port.name {
                String::new()
            } else {
                format!("\"{}\" ", printable(&port.blob))
            };
            let int32 = if port.int32 { " as int32" } else { "" };
            let form = match &port.cache {
                None => format!("{}{int32}", display_form(&port.form, &mut long)),
                Some(other) if kind == "input" => format!("a cache, continued by \"{other}\""),
                Some(other) => format!("a cache, continues \"{other}\""),
            };
            rows.push([
                kind.to_owned(),
                format!("\"{}\"", printable(&port.name)),
                port.dtype.clone(),
                printable(&format!("[{}]", display_sizes(&port.shape, &mut long).join(", "))),
                format!("{renamed}{}", printable(&form)),
            ]);
        }
    }
    let [kind_width, name_width, dtype_width, shape_width, _] = widths(&rows);
    list(text, "", &rows, most, |text, [kind, name, dtype, shape, form]| {
        let _ = write!(text, "{kind:kind_width$}  {STRONG}{name:name_width$}{STRONG:#}  ");
        let _ = writeln!(text, "{dtype:dtype_width$}  {shape:shape_width$}  ->  {form}");
    });
    for (at, size) in long.iter().enumerate() {
        let _ = writeln!(text, "#{} = {}", at + 1, printable(size));
    }
}

/// Returns each size as text. A long one is added to a list, and has its number there: `#1`.
fn display_sizes(sizes: &[Dim], long: &mut Vec<String>) -> Vec<String> {
    let display = |size: &Dim| {
        let text = size.to_string();
        if text.len() <= MAX_SIZE {
            return text;
        }
        let at = long.iter().position(|known| *known == text).unwrap_or(long.len());
        if at == long.len() {
            long.push(text);
        }
        format!("#{}", at + 1)
    };
    sizes.iter().map(display).collect()
}

/// Returns the sizes of a blob by ncnn's names: `w=8 h=8 c=3`.
fn display_form(form: &[Dim], long: &mut Vec<String>) -> String {
    let names: &[&str] = match form.len() {
        4 => &["c", "d", "h", "w"],
        3 => &["c", "h", "w"],
        2 => &["h", "w"],
        _ => &["w"],
    };
    let form = display_sizes(form, long);
    let sizes: Vec<String> =
        names.iter().zip(form).rev().map(|(name, size)| format!("{name}={size}")).collect();
    sizes.join(" ")
}

/// Returns the rule by which axes were dropped or merged, if any were.
fn interface_rule<'a>(ports: impl Iterator<Item = &'a Port>) -> Option<String> {
    let (mut dropped, mut folded) = (false, false);
    for port in ports {
        let batch = usize::from(port.shape.len() >= 2 && port.shape.first().is_some_and(|size| size.is(1)));
        dropped |= batch == 1;
        folded |= port.shape.len() > port.form.len() + batch;
    }
    let batch = "a first axis of size 1 is dropped";
    let rest = "if more than four axes are left, other axes of size 1 are dropped too, then the \
            leading axes are merged";
    match (dropped, folded) {
        (false, false) => None,
        (true, false) => Some(format!("ncnn has no batch axis: {batch}")),
        (false, true) => Some(rest.to_owned()),
        (true, true) => Some(format!("ncnn has no batch axis: {batch}; {rest}")),
    }
}

/// Adds the errors of rounded weights, the largest first.
fn describe_rounding(text: &mut String, conversion: &Conversion, written: &Written, verbose: bool) {
    let layers = conversion.net().layers.iter();
    let names = layers.flat_map(|layer| layer.layer.weights().into_iter().map(|_| layer.name.as_str()));
    let errors = names.zip(&written.weights).filter_map(|(name, weight)| Some((weight.error?, name)));
    let mut errors: Vec<(f32, &str)> = errors.collect();
    errors.sort_by(|a, b| b.0.total_cmp(&a.0));
    if errors.is_empty() {
        return;
    }
    let rounded = count(errors.len(), "rounded layer");
    if let (false, Some((error, name))) = (verbose, errors.first()) {
        let most =
            format!("up to {error:.4} of the weights of {rounded}, in {}; -v lists them", printable(name));
        labelled(text, STRONG, "errors", &most);
        return;
    }
    labelled(text, STRONG, "errors", &format!("of {rounded}, relative to its weights, the largest first"));
    for (error, name) in errors {
        let _ = writeln!(text, "  {error:.4}  {}", printable(name));
    }
}

/// Adds the number of convolutions of which a phone loses digits.
fn describe_transforms(text: &mut String, net: &Net) {
    let transformed = net.layers.iter().filter(|layer| net.is_roughly_transformed(layer)).count();
    if transformed != 0 {
        let what = format!(
            "{} may lose several percent on ARM64 by Winograd; --careful avoids it, --data measures it",
            count(transformed, "convolution")
        );
        labelled(text, STRONG, "float16", &what);
    }
}

/// Adds a line for each assumed fact, with its values; what is expected of the inputs, only with -v.
fn describe_assumptions(text: &mut String, assumptions: &[Assumption], verbose: bool) {
    let mut facts: BTreeMap<AssumedFact, Vec<String>> = BTreeMap::new();
    for assumption @ Assumption { fact, value, .. } in assumptions {
        if value.is_empty() {
            labelled(text, NOTICE, "assumed", &format!("{} are {}", assumption.subject(), fact.describe()));
        } else {
            facts.entry(*fact).or_default().push(format!("\"{}\"", printable(value)));
        }
    }
    for (fact, values) in facts {
        if !fact.is_refused_if_strict() {
            if verbose {
                let expected = format!("elements of {} are {}", values.join(", "), fact.describe());
                labelled(text, STRONG, "expected", &expected);
            }
            continue;
        }
        let named = if verbose { values.len() } else { values.len().min(MAX_ASSUMED) };
        let names = values.iter().take(named).cloned().collect::<Vec<_>>().join(", ");
        let more = match values.len() - named {
            0 => String::new(),
            more => format!(" and {}", count(more, "further value")),
        };
        labelled(text, NOTICE, "assumed", &format!("elements of {names}{more} are {}", fact.describe()));
    }
}

/// Adds the layers in float32, those that a GPU does not run, and those with masks that avoid faults.
fn describe_phone(text: &mut String, net: &Net) {
    let mut types: BTreeMap<&str, usize> = BTreeMap::new();
    for layer in net.layers.iter().filter(|layer| !net.runs_on_gpu(layer)) {
        *types.entry(layer.layer.type_name()).or_default() += 1;
    }
    let float32 = net.layers.iter().filter(|layer| net.is_float32(layer)).count();
    if float32 != 0 {
        labelled(
            text,
            STRONG,
            "in float32",
            &format!("{}, on runtimes of half precision too", count(float32, "layer")),
        );
    }
    if !types.is_empty() {
        let types: Vec<String> = types.iter().map(|(name, number)| format!("{number} {name}")).collect();
        labelled(text, STRONG, "not on the GPU", &types.join(", "));
    }
    let careful = net.layers.iter().filter(|layer| net.avoids_transform(layer)).count();
    if careful != 0 {
        labelled(text, STRONG, "careful", &format!("{} without Winograd", count(careful, "convolution")));
    }
    let mut faults: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    for layer in &net.layers {
        for fault in net.avoided_faults(layer) {
            *faults.entry((layer.layer.type_name(), fault)).or_default() += 1;
        }
    }
    for ((type_name, fault), number) in faults {
        labelled(text, STRONG, "masked", &format!("{number} {type_name}, of which otherwise {fault}"));
    }
}

/// Adds a line for each pattern that stays because a value within it is needed outside of it.
fn describe_unfused(text: &mut String, conversion: &Conversion) {
    for unfused in conversion.unfused() {
        let (node, value) = (refusal::display_node(&unfused.node), printable(&unfused.value));
        let _ = writeln!(
            text,
            "{} does not apply to {node}: {value} is needed outside of the pattern",
            unfused.pass
        );
    }
}

/// Adds a row for each pass, and the number of layers.
fn describe_passes(text: &mut String, conversion: &Conversion) {
    let width = conversion.passes.iter().map(|pass| pass.name.len()).max().unwrap_or(0);
    for pass in &conversion.passes {
        let _ = writeln!(text, "{:width$}  {}", pass.name, count(pass.nodes, "node"));
    }
}

fn describe_files(text: &mut String, conversion: &Conversion, files: &Files, elapsed: Duration) {
    let written = files.written;
    let weights = written.weights.iter().map(|weight| u64::try_from(weight.elements).unwrap_or(u64::MAX));
    let weights = weights.fold(0, u64::saturating_add);
    let _ = writeln!(
        text,
        "{}, {}, {} in {:.2} s; loads in ncnn {} and later",
        count(written.layers, "layer"),
        if weights == 1 {
            "1 weight".to_owned()
        } else {
            display_scaled(weights, ["weights", "K weights", "M weights", "G weights", "T weights"])
        },
        display_bytes(written.param_bytes.saturating_add(written.bin_bytes)),
        elapsed.as_secs_f64(),
        conversion.net().since()
    );
    if files.dry_run {
        labelled(text, STRONG, "dry run", "nothing was written");
        return;
    }
    for path in files.paths() {
        let _ = writeln!(text, "  {}", printable(&display_path(path)));
    }
}

/// Returns the path relative to the current folder, if the file is below it.
pub(super) fn display_path(path: &Path) -> String {
    let here = std::env::current_dir().and_then(|folder| folder.canonicalize());
    let below = here.ok().and_then(|here| path.strip_prefix(here).ok().map(Path::to_owned));
    below.as_deref().unwrap_or(path).display().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_sizes_have_numbers() {
        let short = Dim::symbol("samples");
        let long = &short + Dim::symbol("a_name_longer_than_the_other");
        let mut listed = Vec::new();
        assert_eq!(display_sizes(&[Dim::from(3), long.clone(), short], &mut listed), ["3", "#1", "samples"]);
        assert_eq!(display_form(&[long.clone(), long.clone()], &mut listed), "w=#1 h=#1");
        assert_eq!(listed, [long.to_string()]);
    }
}
