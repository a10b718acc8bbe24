//! A model as a chain of nets.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::Error;
use onnx2ncnn::{Chain, Input, Part, Refusal};

use super::arguments::Arguments;
use super::destination::Destination;
use super::location::{Outputs, input};
use super::options::parse_names;
use super::summary::{Stream, Summary};
use super::terminal::{NOTICE, labelled, printable};
use crate::common::count::count;

/// Converts the parts of a model between cuts, and writes them with a list of them.
pub(super) fn convert_chain(arguments: &Arguments) -> Result<Summary, Refusal> {
    let (net, further) = arguments.results();
    let Destination { param, bin, outputs, .. } = Destination::of(&arguments.model, &net, &further)?;
    let model = input(&arguments.model)?;
    if outputs.uses_standard_output() || model == Input::Stdin {
        return Err(Error::usage("a chain of nets is read from a file and written to files").into());
    }
    let mut cuts = Vec::new();
    for text in &arguments.split_at {
        cuts.push(parse_names(text).map_err(|reason| Error::usage(format!("--split-at {text}: {reason}")))?);
    }
    let converter = arguments.choices.apply(arguments.source.converter()?)?;
    let chain = converter.convert_chain(&model, &cuts)?;
    let (steps, list) = chain.files(&param, &bin);
    let outputs = Outputs::of_nets(steps.iter().flatten().chain([&list]), &arguments.model, "a part")?;
    if !arguments.dry_run {
        outputs.write(|| chain.write(&param, &bin))?;
    }
    Ok(describe(&chain, &steps, (!arguments.dry_run).then_some(&list)))
}

/// Returns a line for each step, named by its first file, and the path of the list, if it was written.
fn describe(chain: &Chain, files: &[Vec<PathBuf>], list: Option<&PathBuf>) -> Summary {
    let mut text = String::new();
    let name = |path: &Path| printable(&path.file_name().unwrap_or_default().to_string_lossy());
    for (step, files) in chain.steps.iter().zip(files) {
        let names = |names: &[String]| {
            names.iter().map(|name| format!("\"{}\"", printable(name))).collect::<Vec<_>>().join(", ")
        };
        let file = files.first().map(|file| name(file)).unwrap_or_default();
        let _ = write!(text, "{file}  {} -> {}", names(&step.inputs), names(&step.outputs));
        if let Part::Net(conversion) = &step.part {
            let _ = write!(text, ", {}", count(conversion.net().layers.len(), "layer"));
        }
        text.push('\n');
        for reason in step.reasons() {
            labelled(&mut text, NOTICE, "warning", &format!("not converted: {}", printable(&reason)));
        }
    }
    if let Some(list) = list {
        let _ = writeln!(text, "  {}", printable(&list.display().to_string()));
    }
    let mut summary = Summary::default();
    summary.add(Stream::Error, text);
    summary
}
