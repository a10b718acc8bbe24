//! The command `inspect`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use onnx2ncnn::Refusal;
use onnx2ncnn::error::Result;
use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Described, Inspection};

use super::arguments::{Report, STANDARD_INPUT, Source, input};
use super::destination::{refused, writable};
use super::refusal::{self, Proposals};
use super::size::{display_bytes, display_scaled};
use super::terminal::{STRONG, list, printable};

/// Print the contents of a model, and the nodes that would be refused
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Source,

    /// Also write a report as JSON
    #[arg(long = "report", value_name = "FILE.json", help_heading = "Report")]
    pub json: Option<PathBuf>,

    #[command(flatten)]
    pub report: Report,
}

/// The maximum number of listed inputs, outputs and operators, without -v.
const MAX_ROWS: usize = 60;

/// Returns the description of the model.
pub(super) fn inspect_file(arguments: &Inspect) -> std::result::Result<String, Refusal> {
    let json = arguments.json.as_deref().map(|path| report_file(path, &arguments.model)).transpose()?;
    let done = input(&arguments.model)
        .map_err(Refusal::from)
        .and_then(|model| arguments.source.converter().explain(true).convert(&model))
        .and_then(|conversion| Ok(conversion.inspection()?));
    let report = match &done {
        Ok(inspection) => onnx2ncnn::report::Report::convertible(inspection),
        Err(errors) => errors.report(),
    };
    report.write(json.as_deref(), None)?;
    let verbose = arguments.report.verbose;
    let errors = match done {
        Ok(inspection) => return Ok(describe(&inspection, verbose) + "it can be converted\n"),
        Err(errors) => errors,
    };
    match errors.inspection() {
        Some(inspection) => {
            let refusal = refusal::describe(errors.iter(), &Proposals::of(&errors), verbose, false);
            Ok(describe(inspection, verbose) + &refusal)
        }
        None => Err(errors),
    }
}

/// Returns the path of the report, which must differ from that of the model.
fn report_file(path: &Path, model: &Path) -> Result<PathBuf> {
    let file = writable(path)?;
    if model != Path::new(STANDARD_INPUT) && model.canonicalize().is_ok_and(|model| model == file) {
        return Err(refused(path, "the report would overwrite the model itself"));
    }
    Ok(file)
}

fn describe(inspection: &Inspection, verbose: bool) -> String {
    let mut text = String::new();
    let most = if verbose { usize::MAX } else { MAX_ROWS };
    let opsets = inspection.opsets.iter().map(|(domain, version)| match domain.as_str() {
        "" => version.to_string(),
        domain => format!("{} {version}", printable(domain)),
    });
    let opsets: Vec<String> = opsets.collect();
    let producer = match inspection.producer.as_str() {
        "" => String::new(),
        producer => format!(", made by {}", printable(producer)),
    };
    // Writing to a string cannot fail.
    let _ = writeln!(text, "opset {}, IR version {}{producer}", opsets.join(", "), inspection.ir_version);
    for (kind, ports) in [("input", &inspection.inputs), ("output", &inspection.outputs)] {
        list(&mut text, "", ports, most, |text, Described { name, dtype, shape, .. }| {
            let shape = shape.as_ref().map_or_else(|| "?".to_owned(), |shape| display_shape(shape));
            let name = printable(name);
            let _ = writeln!(text, "{kind:6}  {STRONG}\"{name}\"{STRONG:#}  {dtype}  {}", printable(&shape));
        });
    }
    let mut operators: Vec<(&String, &usize)> = inspection.operators.iter().collect();
    operators.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    list(&mut text, "", &operators, most, |text, (name, count)| {
        let _ = writeln!(text, "{count:6}  {}", printable(name));
    });
    let units = |what: &str| ["", "K ", "M ", "G ", "T "].map(|unit| format!("{unit}{what}"));
    let scaled = |n: u64, what: &str| {
        let units = units(what);
        display_scaled(n, units.each_ref().map(String::as_str))
    };
    let bytes = display_bytes(inspection.parameter_bytes);
    let _ = writeln!(text, "{} in {bytes}", scaled(inspection.parameters, "parameters"));
    let uncounted = match inspection.uncounted {
        0 => String::new(),
        n => format!(", without {n} nodes of free sizes; --input-shape fixes sizes"),
    };
    let _ = writeln!(text, "{}{uncounted}", scaled(inspection.multiply_adds, "multiply-adds"));
    text
}
