//! Bundles: the net of a folder that an exporter wrote, with all that a program needs to run it.

mod folder;
mod readme;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::api::{Conversion, Converter, Refusal};
use crate::common::GENERATOR;
use crate::common::output::{self, Staged};
use crate::error::{Error, Result};
use crate::example::{Continuation, Pooling, PoolingKind, Text};
use crate::ncnn::Written;
use crate::onnx::Input;
use crate::pipeline::{Options, Remedy};
use crate::report::PortPart;
use folder::Folder;

/// The version of `bundle.json`. It increases when a field is removed or changes its meaning, not for new
/// fields.
pub const BUNDLE_VERSION: u32 = 1;

/// The net that makes vectors of texts.
const ENCODER: &str = "encoder";
/// The names of the files of a bundle, without those of the net.
const PROGRAM: &str = "run.py";
const TEMPLATE: &str = "chat_template.jinja";

/// A written bundle.
#[derive(Debug)]
#[non_exhaustive]
pub struct Bundle {
    /// The `.param` file of the net.
    pub param: PathBuf,
    /// The `.bin` file.
    pub bin: PathBuf,
    /// The program that runs it.
    pub program: PathBuf,
    /// All other files.
    pub further: Vec<PathBuf>,
    /// What the net is: `decoder` or `encoder`.
    pub net: &'static str,
    /// The model that was converted.
    pub model: PathBuf,
    /// The options that were added, as words of a command line.
    pub added: Vec<String>,
    /// The conversion.
    pub conversion: Conversion,
    /// The summary of the net's files.
    pub written: Written,
}

impl Bundle {
    /// Returns words of a command line with which the program runs.
    pub fn example(&self) -> &'static str {
        example(self.net == ENCODER)
    }
}

/// Returns the texts of an example.
fn example(has_vectors: bool) -> &'static str {
    if has_vectors { "\"a cat sleeps\" \"a dog is asleep\"" } else { "\"Once upon a time\"" }
}

/// What `bundle.json` says.
#[derive(Debug, Serialize)]
struct Description<'a> {
    bundle_version: u32,
    generator: &'static str,
    /// What the nets do together: `text-generation` or `feature-extraction`.
    task: &'static str,
    model_type: Option<&'a str>,
    nets: [NetPart<'a>; 1],
    tokens: Tokens<'a>,
    /// The numbers of sampling that the folder recommends.
    sampling: &'a folder::Sampling,
    /// How outputs become the vector of a text.
    pooling: Option<&'a Pooling>,
    /// The file of the template of chats, and the files of the tokenizer.
    chat_template: Option<&'static str>,
    tokenizer: &'a [String],
}

#[derive(Debug, Serialize)]
struct NetPart<'a> {
    name: &'static str,
    param: String,
    bin: String,
    report: String,
    /// The options that were added to the command's.
    options: &'a [String],
    inputs: Vec<PortPart>,
    outputs: Vec<PortPart>,
}

#[derive(Debug, Serialize)]
struct Tokens<'a> {
    begin: Option<i64>,
    end: &'a [i64],
    vocabulary: Option<i64>,
}

/// What the net of a folder does.
enum Task {
    /// It continues a text.
    Continue,
    /// It makes a vector of a text.
    Vectors(Pooling),
}

impl Task {
    /// Returns the name of the task in the terms of transformers.
    fn name(&self) -> &'static str {
        match self {
            Task::Continue => "text-generation",
            Task::Vectors(_) => "feature-extraction",
        }
    }

    /// Returns the name of the net.
    fn net(&self) -> &'static str {
        match self {
            Task::Continue => "decoder",
            Task::Vectors(_) => ENCODER,
        }
    }

    /// Returns the names of the `.param` file, the `.bin` file and the report.
    fn files(&self) -> [String; 3] {
        ["param", "bin", "report.json"].map(|end| format!("{}.{end}", self.net()))
    }
}

/// Converts the folder of a decoder or of an encoder of texts, as optimum and transformers write it, to a
/// bundle: the net, a program that continues a text or makes vectors of texts, `bundle.json`, the files of
/// the tokenizer, and a page that says how to run it. All files are written, or none is.
///
/// # Errors
///
/// `Io` or `Usage` if a file of the folder is missing, cannot be read, or contradicts the model; `Usage` if
/// `to` exists and has files; the refusal of the model.
pub fn convert_folder(
    converter: &Converter,
    folder: &Path,
    to: &Path,
) -> std::result::Result<Bundle, Refusal> {
    let found = Folder::read(folder)?;
    if to.read_dir().is_ok_and(|mut files| files.next().is_some()) {
        return Err(Error::usage("the folder has files: name a new one").in_file(to).into());
    }
    let (model, task) = found.model(converter)?;
    let (conversion, added) = convert(converter, &model, &task, to)?;
    found.check(&conversion, &model)?;
    let is_new = !to.exists();
    let staged = stage(&found, &task, &conversion, &added, to);
    if staged.is_err() && is_new {
        // Nothing is left; a folder that has got files meanwhile stays.
        let _ = std::fs::remove_dir(to);
    }
    let (staged, written) = staged?;
    let [param, bin, _] = task.files().map(|name| to.join(name));
    let program = to.join(PROGRAM);
    let mut further: Vec<PathBuf> = staged.iter().map(|(target, _)| target.named().to_owned()).collect();
    further.retain(|path| *path != param && *path != bin);
    further.sort();
    let written = conversion.move_staged((staged, written))?;
    Ok(Bundle { param, bin, program, further, net: task.net(), model, added, conversion, written })
}

/// Converts a model. The runtime keeps the caches of a decoder, if it can.
fn convert(
    converter: &Converter,
    model: &Path,
    task: &Task,
    to: &Path,
) -> std::result::Result<(Conversion, Vec<String>), Refusal> {
    let input = Input::from(model);
    let with = |options: Options| Converter::from_options(options);
    let [.., report] = task.files();
    let base = Options { report: Some(to.join(report)), ..converter.options().clone() };
    let kept = Options { kv_cache: true, ..base.clone() };
    let may_keep = matches!(task, Task::Continue);
    let mut first = None;
    for (options, word) in may_keep.then_some((kept, Some("--kv-cache"))).into_iter().chain([(base, None)]) {
        let words: Vec<String> = word.map(str::to_owned).into_iter().collect();
        let refusal = match with(options.clone()).convert(&input) {
            Ok(conversion) => return Ok((conversion, words)),
            Err(refusal) => refusal,
        };
        for remedy in refusal.remedies().iter().filter(|remedy| is_general(remedy)) {
            if let Ok(conversion) = with(remedy.apply(&options)).convert(&input) {
                return Ok((conversion, words.into_iter().chain(remedy.words()).collect()));
            }
        }
        first.get_or_insert(refusal);
    }
    Err(first.unwrap_or_else(|| Error::internal("no conversion was tried").into()))
}

/// Returns whether options keep the whole model, and its free sizes.
fn is_general(remedy: &Remedy) -> bool {
    let keeps = |size: &crate::tensor::Dim| size.known().is_none() || size.is(1);
    !remedy.is_cut() && remedy.input_shapes.iter().flat_map(|(_, shape)| shape).all(keeps)
}

/// Writes all files next to their destinations.
fn stage(
    found: &Folder,
    task: &Task,
    conversion: &Conversion,
    added: &[String],
    to: &Path,
) -> Result<(Staged, Written)> {
    let failed = |error| Error::io("the folder cannot be made", error).in_file(to);
    std::fs::create_dir_all(to).map_err(failed)?;
    let [param, bin, _] = task.files().map(|name| to.join(name));
    let (mut staged, written) = conversion.stage(&param, &bin, None, |_| Ok(None))?;
    let text = |name: &str, text: &str| output::stage_text(&to.join(name), text);
    let facts = match task {
        Task::Continue => Text::Continued(found.continuation()),
        Task::Vectors(pooling) => Text::Vectors(pooling.clone()),
    };
    for (path, program) in conversion.program_with(&to.join(PROGRAM), &param, &bin, Some(&facts))? {
        staged.push(output::stage_text(&path, &program)?);
    }
    let ports = |ports: &[crate::pipeline::Port]| ports.iter().map(PortPart::of).collect();
    let [net_param, net_bin, report] = task.files();
    let pooling = match task {
        Task::Vectors(pooling) => Some(pooling),
        Task::Continue => None,
    };
    let description = Description {
        bundle_version: BUNDLE_VERSION,
        generator: GENERATOR,
        task: task.name(),
        model_type: found.model_type.as_deref(),
        nets: [NetPart {
            name: task.net(),
            param: net_param,
            bin: net_bin,
            report,
            options: added,
            inputs: ports(&conversion.inputs),
            outputs: ports(&conversion.outputs),
        }],
        tokens: Tokens { begin: found.begin, end: &found.ends, vocabulary: found.vocabulary },
        sampling: &found.sampling,
        pooling,
        chat_template: found.chat.is_some().then_some(TEMPLATE),
        tokenizer: &found.tokenizer,
    };
    let json = serde_json::to_string_pretty(&description)
        .map_err(|error| Error::internal("the description cannot be written").caused_by(error))?;
    staged.push(text("bundle.json", &(json + "\n"))?);
    staged.push(text("README.md", &readme::readme(found, task, conversion))?);
    if let Some(chat) = &found.chat {
        staged.push(text(TEMPLATE, chat)?);
    }
    for name in &found.tokenizer {
        staged.push(output::stage_copy(&to.join(name), &found.path.join(name))?);
    }
    Ok((staged, written))
}
