//! Bundles: the nets of a folder that an exporter wrote, with all that a program needs to run them.

mod folder;
mod picture;
mod readme;
mod sequence;

use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::api::{Conversion, Converter, Refusal};
use crate::common::GENERATOR;
use crate::common::output::{self, Staged};
use crate::error::{Error, Result};
use crate::example::{Classes, Pooling, Reading, Sequence, Sound, Text};
use crate::ncnn::Written;
use crate::onnx::Input;
use crate::pipeline::{Options, Remedy};
use crate::report::PortPart;
use folder::Folder;

/// The version of `bundle.json`. It increases when a field is removed or changes its meaning, not for new
/// fields.
pub const BUNDLE_VERSION: u32 = 1;

/// The names of nets.
const ENCODER: &str = "encoder";
const DECODER: &str = "decoder";
const MODEL: &str = "model";
/// The names of the other files of a bundle.
const PROGRAM: &str = "run.py";
const TEMPLATE: &str = "chat_template.jinja";

/// A written bundle.
#[derive(Debug)]
#[non_exhaustive]
pub struct Bundle {
    /// The nets, in the order in which they compute.
    pub nets: Vec<BundleNet>,
    /// The program that runs them.
    pub program: PathBuf,
    /// All files that are not of a net.
    pub further: Vec<PathBuf>,
    /// Words of a command line with which the program runs.
    pub example: &'static str,
}

/// A net of a bundle.
#[derive(Debug)]
#[non_exhaustive]
pub struct BundleNet {
    /// What it is: `decoder`, `encoder`, `keys`, which makes the keys and values that a decoder reads of an
    /// encoder, or `model` for a classifier.
    pub name: &'static str,
    /// The `.param` file.
    pub param: PathBuf,
    /// The `.bin` file.
    pub bin: PathBuf,
    /// The model that was converted.
    pub model: PathBuf,
    /// The options that were added, as words of a command line.
    pub added: Vec<String>,
    /// The conversion.
    pub conversion: Conversion,
    /// The summary of the files.
    pub written: Written,
}

/// The nets of a folder, and what they do together.
struct Plan {
    parts: Vec<Part>,
    task: Task,
}

/// A net of a folder.
struct Part {
    name: &'static str,
    model: PathBuf,
    /// The options that select it.
    added: Remedy,
    /// Whether the runtime keeps caches if it can.
    may_keep: bool,
}

/// What `bundle.json` says.
#[derive(Debug, Serialize)]
struct Description<'a> {
    bundle_version: u32,
    generator: &'static str,
    /// What the nets do together, in the terms of transformers.
    task: &'static str,
    model_type: Option<&'a str>,
    nets: Vec<NetPart<'a>>,
    tokens: Tokens,
    /// The numbers of sampling that the folder recommends.
    sampling: &'a folder::Sampling,
    /// How outputs become the vector of a text.
    pooling: Option<&'a Pooling>,
    /// How the nets of an encoder and a decoder are joined.
    sequence: Option<&'a Sequence>,
    /// The names of classes, and how a picture is read.
    classes: Option<&'a Classes>,
    picture: Option<&'a Reading>,
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
struct Tokens {
    begin: Option<i64>,
    end: Vec<i64>,
    vocabulary: Option<i64>,
}

/// What the nets of a folder do.
enum Task {
    /// They continue a text.
    Continue,
    /// They make a vector of a text.
    Vectors(Pooling),
    /// They make a text of another one, or of a sound.
    Sequence { sound: Option<Sound> },
    /// They name the class of a text.
    Classes(Classes),
    /// They name the class of a picture, or of its pixels.
    Picture(Reading),
}

impl Task {
    /// Returns the name of the task in the terms of transformers.
    fn name(&self) -> &'static str {
        match self {
            Task::Continue => "text-generation",
            Task::Vectors(_) => "feature-extraction",
            Task::Sequence { sound: None } => "text2text-generation",
            Task::Sequence { sound: Some(_) } => "automatic-speech-recognition",
            Task::Classes(_) => "text-classification",
            Task::Picture(reading) if reading.of_pixels => "image-segmentation",
            Task::Picture(_) => "image-classification",
        }
    }

    /// Returns the name of the last net.
    fn net(&self) -> &'static str {
        match self {
            Task::Continue | Task::Sequence { .. } => DECODER,
            Task::Vectors(_) => ENCODER,
            Task::Classes(_) | Task::Picture(_) => MODEL,
        }
    }

    /// Returns words of a command line of the program.
    fn example(&self) -> &'static str {
        match self {
            Task::Continue => "\"Once upon a time\"",
            Task::Vectors(_) => "\"a cat sleeps\" \"a dog is asleep\"",
            Task::Sequence { sound: None } => "\"The house is wonderful.\"",
            Task::Sequence { sound: Some(_) } => "sound.wav",
            Task::Classes(_) => "\"I like it.\"",
            Task::Picture(_) => "picture.jpg",
        }
    }
}

/// Returns the names of the `.param` file, the `.bin` file and the report of a net.
fn files(net: &str) -> [String; 3] {
    ["param", "bin", "report.json"].map(|end| format!("{net}.{end}"))
}

/// Converts the folder of a model of texts, speech or pictures, as optimum and transformers write it, to a
/// bundle: the nets, a program that runs them, `bundle.json`, the files of the tokenizer, and a page that
/// says how to run it. The model is a decoder, which continues a text, an encoder, which makes vectors of
/// texts, both, which make a text of another text or of speech, or a classifier. All files are written, or
/// none is.
///
/// # Errors
///
/// `Io` or `Usage` if a file of the folder is missing, cannot be read, or contradicts the model; `Usage` if
/// `to` exists and has files; the refusal of a model.
pub fn convert_folder(
    converter: &Converter,
    folder: &Path,
    to: &Path,
) -> std::result::Result<Bundle, Refusal> {
    let found = Folder::read(folder)?;
    if to.read_dir().is_ok_and(|mut files| files.next().is_some()) {
        return Err(Error::usage("the folder has files: name a new one").in_file(to).into());
    }
    let Plan { parts, task } = found.plan(converter)?;
    let nets: Vec<Converted> = parts
        .into_iter()
        .map(|part| convert(converter, part, to))
        .collect::<std::result::Result<_, Refusal>>()?;
    if let Some(last) = nets.last() {
        found.check(&task, &last.conversion, &last.model)?;
    }
    let is_new = !to.exists();
    let staged = stage(&found, &task, &nets, to);
    if staged.is_err() && is_new {
        // Nothing is left; a folder that has got files meanwhile stays.
        let _ = std::fs::remove_dir(to);
    }
    let (staged, written) = staged?;
    let mut further: Vec<PathBuf> = staged.iter().map(|(target, _)| target.named().to_owned()).collect();
    nets.iter().zip(&written).try_for_each(|(net, written)| net.conversion.accept(written))?;
    output::put_all(staged)?;
    let nets =
        nets.into_iter().zip(written).map(|(Converted { name, model, added, conversion }, written)| {
            let [param, bin, _] = files(name).map(|name| to.join(name));
            BundleNet { name, param, bin, model, added, conversion, written }
        });
    let nets: Vec<BundleNet> = nets.collect();
    further.retain(|path| nets.iter().all(|net| *path != net.param && *path != net.bin));
    further.sort();
    Ok(Bundle { nets, program: to.join(PROGRAM), further, example: task.example() })
}

/// A net before its files are written.
struct Converted {
    name: &'static str,
    model: PathBuf,
    added: Vec<String>,
    conversion: Conversion,
}

/// Converts a model. The runtime keeps the caches of a decoder, if it can.
fn convert(converter: &Converter, part: Part, to: &Path) -> std::result::Result<Converted, Refusal> {
    let Part { name, model, added, may_keep } = part;
    let input = Input::from(model.as_path());
    let with = |options: Options| Converter::from_options(options);
    let [.., report] = files(name);
    let base = Options { report: Some(to.join(report)), ..added.apply(converter.options()) };
    let kept = Options { kv_cache: true, ..base.clone() };
    let mut first = None;
    for (options, word) in may_keep.then_some((kept, Some("--kv-cache"))).into_iter().chain([(base, None)]) {
        let words: Vec<String> = added.words().into_iter().chain(word.map(str::to_owned)).collect();
        let refusal = match with(options.clone()).convert(&input) {
            Ok(conversion) => return Ok(Converted { name, model, added: words, conversion }),
            Err(refusal) => refusal,
        };
        for remedy in refusal.remedies().iter().filter(|remedy| is_general(remedy)) {
            if let Ok(conversion) = with(remedy.apply(&options)).convert(&input) {
                let added = words.into_iter().chain(remedy.words()).collect();
                return Ok(Converted { name, model, added, conversion });
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

/// Writes all files next to their destinations. Returns them, and the summary of the files of each net.
fn stage(found: &Folder, task: &Task, nets: &[Converted], to: &Path) -> Result<(Staged, Vec<Written>)> {
    let failed = |error| Error::io("the folder cannot be made", error).in_file(to);
    std::fs::create_dir_all(to).map_err(failed)?;
    let (mut staged, mut summaries) = (Staged::new(), Vec::new());
    for net in nets {
        let [param, bin, _] = files(net.name).map(|name| to.join(name));
        let (files, written) = net.conversion.stage(&param, &bin, None, |_| Ok(None))?;
        staged.extend(files);
        summaries.push(written);
    }
    let text = |name: &str, text: &str| output::stage_text(&to.join(name), text);
    let facts = match (task, nets) {
        (Task::Continue, _) => Text::Continued(found.continuation()),
        (Task::Vectors(pooling), _) => Text::Vectors(pooling.clone()),
        (Task::Classes(classes), _) => Text::Classes(classes.clone()),
        (Task::Picture(reading), _) => Text::Picture(reading.clone()),
        (Task::Sequence { sound }, [encoder, keys, decoder]) => {
            let conversions = [encoder, keys, decoder].map(|net| &net.conversion);
            Text::Sequence(Box::new(sequence::sequence(found, sound.as_ref(), conversions)?))
        }
        (Task::Sequence { .. }, _) => return Err(Error::internal("the nets of a sequence are three")),
    };
    let Some(last) = nets.last() else { return Err(Error::internal("a bundle has no net")) };
    let [param, bin, _] = files(last.name).map(|name| to.join(name));
    for (path, program) in last.conversion.program_with(&to.join(PROGRAM), &param, &bin, Some(&facts))? {
        staged.push(output::stage_text(&path, &program)?);
    }
    let chat = found.chat.as_ref().filter(|_| matches!(task, Task::Continue));
    let description = Description {
        bundle_version: BUNDLE_VERSION,
        generator: GENERATOR,
        task: task.name(),
        model_type: found.model_type.as_deref(),
        nets: nets.iter().map(NetPart::of).collect(),
        tokens: Tokens { begin: found.begin(), end: found.ends(), vocabulary: found.vocabulary() },
        sampling: &found.sampling,
        pooling: if let Text::Vectors(pooling) = &facts { Some(pooling) } else { None },
        sequence: if let Text::Sequence(sequence) = &facts { Some(sequence.as_ref()) } else { None },
        classes: if let Text::Classes(classes) = &facts { Some(classes) } else { None },
        picture: if let Text::Picture(reading) = &facts { Some(reading) } else { None },
        chat_template: chat.map(|_| TEMPLATE),
        tokenizer: &found.tokenizer,
    };
    let json = serde_json::to_string_pretty(&description)
        .map_err(|error| Error::internal("the description cannot be written").caused_by(error))?;
    staged.push(text("bundle.json", &(json + "\n"))?);
    staged.push(text("README.md", &readme::readme(found, task, nets))?);
    if let Some(chat) = chat {
        staged.push(text(TEMPLATE, chat)?);
    }
    for name in &found.tokenizer {
        staged.push(output::stage_copy(&to.join(name), &found.path.join(name))?);
    }
    Ok((staged, summaries))
}

impl NetPart<'_> {
    fn of(net: &Converted) -> NetPart<'_> {
        let ports = |ports: &[crate::pipeline::Port]| ports.iter().map(PortPart::of).collect();
        let [param, bin, report] = files(net.name);
        let (inputs, outputs) = (ports(&net.conversion.inputs), ports(&net.conversion.outputs));
        NetPart { name: net.name, param, bin, report, options: &net.added, inputs, outputs }
    }
}
