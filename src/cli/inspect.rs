//! Telling what a model consists of.

use std::fmt::Write as _;
use std::path::PathBuf;

use clap::Args;
use onnx2ncnn::error::Errors;
use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Described, Input, Inspection};

use super::arguments::{Report, Source, input};
use super::refusal;
use super::size::{display_bytes, display_scaled};
use super::terminal::{STRONG, list, printable};

/// Tell what a model consists of, and what would be refused
#[derive(Debug, Args)]
pub(super) struct Inspect {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Source,

    #[command(flatten)]
    pub report: Report,
}

/// Most inputs, outputs and operators that are listed, unless all are asked for.
const MAX_ROWS: usize = 60;

/// What there is to say about the model.
pub(super) fn inspect_file(arguments: &Inspect) -> Result<String, Errors> {
    let (model, converter) = (input(&arguments.model)?, arguments.source.converter());
    let inspection = converter.inspect(&model)?;
    let mut text = describe(&inspection, arguments.report.verbose);
    // Standard input is read once.
    if model != Input::Stdin {
        match converter.convert(&model) {
            Ok(_) => text.push_str("it can be converted\n"),
            Err(errors) => {
                text.push_str(&refusal::describe(errors.iter(), errors.cut(), arguments.report.verbose));
            }
        }
    }
    Ok(text)
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
        n => format!(", {n} nodes of free sizes not among them; --input-shape fixes sizes"),
    };
    let _ = writeln!(text, "{}{uncounted}", scaled(inspection.multiply_adds, "multiply-adds"));
    text
}
