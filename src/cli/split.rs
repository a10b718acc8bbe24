//! A model as a chain of nets.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::{Error, ErrorKind};
use onnx2ncnn::tensor::display_shape;
use onnx2ncnn::{Conversion, Converter, Input, Link, Port, Refusal, Storage};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::arguments::Arguments;
use super::destination::Destination;
use super::options::parse_names;
use super::place::{Places, input, refused};
use super::summary::{Stream, Summary};
use super::terminal::{NOTICE, count, labelled, printable};

/// A part of a model, and what became of it.
struct Step {
    link: Link,
    done: Done,
}

enum Done {
    Net {
        conversion: Box<Conversion>,
        param: PathBuf,
        bin: PathBuf,
    },
    /// The part is not converted, and is written as ONNX.
    Rest {
        refusal: Refusal,
        converter: Box<Converter>,
        onnx: PathBuf,
    },
}

/// Converts the parts of a model between cuts, and writes them with a list of them.
pub(super) fn convert_links(arguments: &Arguments) -> Result<Summary, Refusal> {
    let (net, further) = arguments.results();
    let whole = Destination::of(&arguments.model, &net, &further)?;
    let model = input(&arguments.model)?;
    if whole.places.uses_standard_output() || model == Input::Stdin {
        return Err(Error::usage("a chain of nets is read from a file and written to files").into());
    }
    let mut cuts = Vec::new();
    for text in &arguments.split_at {
        cuts.push(parse_names(text).map_err(|reason| Error::usage(format!("--split-at {text}: {reason}")))?);
    }
    let converter = arguments.choices.apply(arguments.source.converter()?)?;
    let mut places = Places::default();
    let mut steps = Vec::new();
    for (index, link) in converter.links(&model, &cuts)?.into_iter().enumerate() {
        let file = |ending: &str| whole.param.with_extension(format!("{}.{ending}", index + 1));
        let converter = converter.part(&link);
        let done = match converter.convert(&model) {
            Ok(conversion) => {
                let bin = whole.bin.with_extension(format!("{}.bin", index + 1));
                let (param, bin) = (places.add(&file("param"))?, places.add(&bin)?);
                Done::Net { conversion: Box::new(conversion), param, bin }
            }
            Err(refusal) => {
                let is_of_model =
                    |error: &Error| matches!(error.kind(), ErrorKind::Unsupported | ErrorKind::Limit);
                if !refusal.iter().all(is_of_model) {
                    return Err(refusal);
                }
                let onnx = places.add(&file("onnx"))?;
                if arguments.model.canonicalize().is_ok_and(|model| model == onnx) {
                    return Err(refused(&onnx, "a part would overwrite the model itself").into());
                }
                Done::Rest { refusal, converter: Box::new(converter), onnx }
            }
        };
        steps.push(Step { link, done });
    }
    if steps.iter().all(|step| matches!(step.done, Done::Rest { .. })) {
        let first = steps.into_iter().find_map(|step| match step.done {
            Done::Rest { refusal, .. } => Some(refusal),
            Done::Net { .. } => None,
        });
        return Err(first.unwrap_or_else(|| Error::internal("a chain without parts").into()));
    }
    let list = places.add(&whole.param.with_extension("json"))?;
    if !arguments.dry_run {
        places.write(|| write(&steps, &model, &list))?;
    }
    Ok(describe(&steps, &list, arguments.dry_run))
}

/// Writes the files into folders of their own beside their places, then moves them: after an error none is left.
fn write(steps: &[Step], model: &Input, list: &Path) -> Result<(), Refusal> {
    let mut rooms = Rooms::default();
    for step in steps {
        match &step.done {
            Done::Net { conversion, param, bin } => {
                conversion.write(rooms.path(param)?, rooms.path(bin)?)?;
            }
            Done::Rest { converter, onnx, .. } => {
                let onnx = rooms.path(onnx)?;
                converter.expose(model, &BTreeSet::new())?.write(&onnx, &Storage::AsNeeded)?;
            }
        }
    }
    let steps: Vec<Value> = steps.iter().map(to_json).collect();
    let text = serde_json::to_string_pretty(&json!({ "steps": steps })).unwrap_or_default();
    fs::write(rooms.path(list)?, text + "\n")
        .map_err(|e| Error::io("the list cannot be written", e).in_file(list))?;
    rooms.empty()?;
    Ok(())
}

/// Temporary folders within the folders of results.
#[derive(Default)]
struct Rooms(BTreeMap<PathBuf, TempDir>);

impl Rooms {
    /// Returns where to write a result.
    fn path(&mut self, place: &Path) -> Result<PathBuf, Error> {
        let folder = place.parent().unwrap_or(Path::new("")).to_owned();
        let room = match self.0.entry(folder) {
            Entry::Occupied(room) => room.into_mut(),
            Entry::Vacant(slot) => {
                let made = TempDir::new_in(slot.key());
                slot.insert(made.map_err(|e| Error::io("the file cannot be created", e).in_file(place))?)
            }
        };
        Ok(room.path().join(place.file_name().unwrap_or_default()))
    }

    /// Moves what was written to its place.
    fn empty(self) -> Result<(), Error> {
        for (folder, room) in &self.0 {
            let failed = |e| Error::io("the file cannot be written", e).in_file(folder);
            for file in fs::read_dir(room.path()).map_err(failed)? {
                let file = file.map_err(failed)?;
                fs::rename(file.path(), folder.join(file.file_name())).map_err(failed)?;
            }
        }
        Ok(())
    }
}

fn name(path: &Path) -> String {
    path.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn to_json(step: &Step) -> Value {
    let port = |port: &Port| {
        json!({
            "name": port.name, "blob": port.blob, "type": port.dtype, "shape": display_shape(&port.shape),
            "form": display_shape(&port.form), "int32": port.int32,
        })
    };
    match &step.done {
        Done::Net { conversion, param, bin } => json!({
            "param": name(param),
            "bin": name(bin),
            "inputs": conversion.inputs.iter().map(port).collect::<Vec<_>>(),
            "outputs": conversion.outputs.iter().map(port).collect::<Vec<_>>(),
        }),
        Done::Rest { refusal, onnx, .. } => {
            let plain =
                |names: &[String]| names.iter().map(|name| json!({ "name": name })).collect::<Vec<_>>();
            json!({
                "onnx": name(onnx),
                "reasons": reasons(refusal),
                "inputs": plain(&step.link.inputs),
                "outputs": plain(&step.link.outputs),
            })
        }
    }
}

/// Returns why a part is not converted, each reason once.
fn reasons(refusal: &Refusal) -> Vec<String> {
    let reasons: BTreeSet<String> = refusal.iter().map(|error| error.message().to_owned()).collect();
    reasons.into_iter().collect()
}

fn describe(steps: &[Step], list: &Path, dry_run: bool) -> Summary {
    let mut text = String::new();
    for step in steps {
        let names = |names: &[String]| {
            names.iter().map(|name| format!("\"{}\"", printable(name))).collect::<Vec<_>>().join(", ")
        };
        let sides = format!("{} -> {}", names(&step.link.inputs), names(&step.link.outputs));
        match &step.done {
            Done::Net { conversion, param, .. } => {
                let layers = count(conversion.net().layers.len(), "layer");
                let _ = writeln!(text, "{}  {sides}, {layers}", printable(&name(param)));
            }
            Done::Rest { refusal, onnx, .. } => {
                let _ = writeln!(text, "{}  {sides}", printable(&name(onnx)));
                for reason in reasons(refusal) {
                    let what = format!("not converted: {}", printable(&reason));
                    labelled(&mut text, NOTICE, "warning", &what);
                }
            }
        }
    }
    if !dry_run {
        let _ = writeln!(text, "  {}", printable(&list.display().to_string()));
    }
    let mut summary = Summary::default();
    summary.add(Stream::Error, text);
    summary
}
