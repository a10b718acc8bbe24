//! The command `inspect`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use onnx2ncnn::Refusal;
use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Composition, Described, Inspection, Metadata};

use super::form::{Form, describe_forms};
use super::location::{Outputs, STANDARD_INPUT, input, path_to_read_again, refused};
use super::message::Report;
use super::next::{Line, Next};
use super::options::{Requested, Source};
use super::python::PythonArguments;
use super::refusal;
use super::size::{display_bytes, display_scaled};
use super::summary::Summary;
use super::terminal::{STRONG, list, printable, widths};
use crate::common::count::count;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn inspect model.onnx
  onnx2ncnn inspect model.onnx --json | jq .model.operators
  onnx2ncnn inspect model.onnx --input-shape 1,3,640,640
      counts the multiply-adds at these sizes
  onnx2ncnn inspect model.onnx --compare fp16,int8 --data samples.npz
      prints bytes, time and loss of the net in these forms, to choose one

Exit codes:
  0  inspected, whether or not the model can be converted
  1  the file is not a valid model
  2  the command line is wrong, or a file cannot be read or written";

/// Print the contents of a model, and the nodes that would be refused
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Inspect {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    #[command(flatten)]
    pub source: Requested<Source>,

    /// Print what the net costs in these forms: its bytes, the time of a run on one thread of this processor,
    /// and what each output loses on the samples, one minus its cosine
    #[arg(long, value_name = "FORMS", value_delimiter = ',', requires = "data", conflicts_with_all = ["json", "report_file"], help_heading = "Comparison")]
    pub compare: Vec<Form>,

    /// The samples of --compare: a file .npz of arrays by the names of the inputs, a .npy file or an image
    /// for a single input, or a folder of such files
    #[arg(long, value_name = "PATH", requires = "compare", help_heading = "Comparison")]
    pub data: Option<PathBuf>,

    #[command(flatten)]
    pub python: PythonArguments,

    /// Print the report as JSON instead of text
    #[arg(long, help_heading = "Messages")]
    pub json: bool,

    /// Also write the report to a file, as JSON
    #[arg(long = "report", value_name = "FILE.json", help_heading = "Messages")]
    pub report_file: Option<PathBuf>,

    #[command(flatten)]
    pub report: Report,
}

/// The maximum number of listed names of classes, and of characters.
const MAX_NAMES: usize = 8;

/// The maximum number of letters of an entry of the metadata.
const MAX_LETTERS: usize = 80;

/// The maximum number of listed inputs, outputs and operators, without -v.
const MAX_ROWS: usize = 60;

/// The number of nodes that are listed with the cost of their layers.
const MAX_COSTLY: usize = 10;

/// Returns the description of the model.
pub(super) fn inspect_file(arguments: &Inspect) -> std::result::Result<Summary, Refusal> {
    let mut outputs = Outputs::default();
    let file = outputs.add_if(arguments.report_file.as_ref())?;
    let model = &arguments.model;
    if let Some(data) = &arguments.data {
        let model = input(path_to_read_again(model)?)?;
        let Inspect { source, compare, python, report, .. } = arguments;
        return describe_forms(&model, source, compare, data, python, *report).map(Summary::of_results);
    }
    if model != Path::new(STANDARD_INPUT)
        && model.canonicalize().ok().is_some_and(|model| file == Some(model))
    {
        return Err(refused(model, "the report would overwrite the model itself").into());
    }
    let done = input(model)
        .map_err(Refusal::from)
        .and_then(|model| arguments.source.converter()?.explain(true).convert(&model))
        .and_then(|conversion| Ok((conversion.inspection()?, conversion.compositions)));
    let report = match &done {
        Ok((inspection, _)) => onnx2ncnn::report::Report::convertible(inspection),
        Err(errors) => errors.report(),
    };
    outputs.write(|| report.write(file.as_deref(), None))?;
    let verbose = arguments.report.verbose;
    let (inspection, verdict) = match &done {
        Ok((inspection, compositions)) => {
            let costs = match inspection.uncounted {
                0 => costly(compositions),
                _ => String::new(),
            };
            (inspection, "it can be converted\n".to_owned() + &costs)
        }
        Err(errors) => match errors.inspection() {
            Some(inspection) => {
                let line = Line { options: &[], files: std::slice::from_ref(&arguments.model) };
                let is_plain = arguments.source.is_plain() && arguments.source.input_shapes.is_empty();
                let next = if is_plain { Next::after(&line, errors.remedies()) } else { Vec::new() };
                (inspection, refusal::describe(errors.iter(), &next, verbose, false))
            }
            // The model cannot be read.
            None => return done.map(|_| Summary::default()),
        },
    };
    Ok(match (outputs.uses_standard_output(), arguments.json) {
        (true, _) => Summary::default(),
        (_, true) => Summary::of_results(report.to_json()?),
        _ => Summary::of_results(describe(inspection, verbose) + &verdict),
    })
}

/// Describes the nodes whose layers cost most, by shares: a cost is an estimate, which orders better than it
/// measures.
fn costly(compositions: &[Composition]) -> String {
    let mut text = String::new();
    if compositions.is_empty() {
        return text;
    }
    let times = compositions.iter().map(|composition| composition.layers.nanoseconds());
    let total = times.fold(0, u64::saturating_add).max(1);
    // Writing to a string cannot fail.
    let _ = writeln!(text, "the layers of these nodes are expected to take most of the time:");
    for Composition { node, nodes, layers, operators, .. } in compositions.iter().take(MAX_COSTLY) {
        let others = match nodes - 1 {
            0 => String::new(),
            others => format!(" and {}", count(others, "other node")),
        };
        let share = layers.nanoseconds().saturating_mul(100).div_ceil(total);
        let factor = layers.nanoseconds() / operators.nanoseconds().max(1);
        let factor = if factor < 2 { String::new() } else { format!(", {factor} times the operator") };
        let layers = count(usize::try_from(layers.layers).unwrap_or(usize::MAX), "layer");
        let node = refusal::display_node(node);
        let _ = writeln!(text, "{share:>6} % in {layers}{factor}: {node}{others}");
    }
    text
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
    describe_metadata(&mut text, &inspection.metadata);
    let mut rows: Vec<[String; 4]> = Vec::new();
    for (kind, ports) in [("input", &inspection.inputs), ("output", &inspection.outputs)] {
        for Described { name, dtype, shape, .. } in ports {
            let shape = shape.as_ref().map_or_else(|| "?".to_owned(), |shape| display_shape(shape));
            let name = format!("\"{}\"", printable(name));
            rows.push([kind.to_owned(), name, dtype.clone(), printable(&shape)]);
        }
    }
    let [kind_width, name_width, dtype_width, _] = widths(&rows);
    list(&mut text, "", &rows, most, |text, [kind, name, dtype, shape]| {
        let _ = write!(text, "{kind:kind_width$}  {STRONG}{name:name_width$}{STRONG:#}  ");
        let _ = writeln!(text, "{dtype:dtype_width$}  {shape}");
    });
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
    let parameters = match inspection.parameters {
        1 => "1 parameter".to_owned(),
        n => scaled(n, "parameters"),
    };
    let _ = writeln!(text, "{parameters} in {bytes}");
    let uncounted = match inspection.uncounted {
        0 => String::new(),
        n => format!(", without {} of free sizes; --input-shape fixes sizes", count(n, "node")),
    };
    let _ = match (inspection.multiply_adds, inspection.uncounted) {
        (0, n @ 1..) => {
            let (nodes, have) = (count(n, "node"), if n == 1 { "has" } else { "have" });
            writeln!(
                text,
                "multiply-adds are not known: {nodes} {have} free sizes; --input-shape fixes sizes"
            )
        }
        (known, _) => writeln!(text, "{}{uncounted}", scaled(known, "multiply-adds")),
    };
    text
}

/// Adds the metadata of the model. Entries that are lists follow in separate lines.
fn describe_metadata(text: &mut String, metadata: &Metadata) {
    for (key, value) in &metadata.entries {
        let is_list = value.len() > MAX_LETTERS || value.contains('\n') || value.starts_with('{');
        if !is_list && !value.is_empty() {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{}: {}", printable(key), printable(value));
        }
    }
    for (what, names) in [("classes", &metadata.classes), ("characters", &metadata.alphabet)] {
        let shown: Vec<String> = names.iter().take(MAX_NAMES).map(|name| printable(name)).collect();
        let more = if names.len() > MAX_NAMES { ", ..." } else { "" };
        if !names.is_empty() {
            let _ = writeln!(text, "{what} ({}): {}{more}", names.len(), shown.join(", "));
        }
    }
}
