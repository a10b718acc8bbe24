//! The models of a batch, and the names of their results.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

use onnx2ncnn::error::{Error, Result};

use super::super::location::{STANDARD_INPUT, absolute};
use super::arguments::Batch;
use super::record::STATE;

/// The maximum bytes of a list: about a million models.
const MAX_LIST: u64 = 1 << 28;

/// A model to convert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Selected {
    /// Where it lies.
    pub path: PathBuf,
    /// Folders and name below the folder of results, separated by `/`, without `.onnx`.
    pub name: String,
}

/// The models to convert, and those that cannot be read.
#[derive(Debug)]
pub(super) struct Selection {
    /// In the order of their names, each once.
    pub models: Vec<Selected>,
    /// Entries of folders with the name of a model, and the reasons.
    pub failed: Vec<(String, Error)>,
    /// The names of all models, those of other shards among them.
    pub names: Vec<String>,
}

pub(super) fn select_models(arguments: &Batch) -> Result<Selection> {
    let mut found = Found { out: fs::canonicalize(&arguments.out).ok(), ..Found::default() };
    for source in &arguments.sources {
        found.add_source(source, arguments.base.as_deref())?;
    }
    if found.models.is_empty() && found.failed.is_empty() {
        let sources: Vec<String> =
            arguments.sources.iter().map(|source| format!("\"{}\"", source.display())).collect();
        return Err(Error::usage(format!("there are no models in {}", sources.join(", "))));
    }
    found.check_results(&arguments.out)?;
    let names = found.models.keys().cloned().collect();
    let models = found.models.into_iter().map(|(name, path)| Selected { path, name });
    let has = |name: &str| arguments.shard.is_none_or(|shard| shard.has(name));
    let failed = found.failed.into_iter().filter(|(name, _)| has(name)).collect();
    Ok(Selection { models: models.filter(|model| has(&model.name)).collect(), failed, names })
}

/// Models by name.
#[derive(Default)]
struct Found {
    models: BTreeMap<String, PathBuf>,
    /// Entries of folders that cannot be read.
    failed: Vec<(String, Error)>,
    /// The folder of results, if it exists.
    out: Option<PathBuf>,
}

impl Found {
    fn add_source(&mut self, source: &Path, base: Option<&Path>) -> Result<()> {
        if source == Path::new(STANDARD_INPUT) {
            let mut text = String::new();
            read_list(std::io::stdin().lock(), &mut text, source)?;
            return self.add_list(&text, base);
        }
        match fs::metadata(source) {
            Ok(metadata) if metadata.is_dir() => self.add_folder(source, base.unwrap_or(source)),
            Ok(_) if is_onnx(source) => {
                let folder = source.parent().unwrap_or(Path::new(""));
                self.add(source, base.unwrap_or(folder))
            }
            Ok(_) => {
                let file =
                    fs::File::open(source).map_err(|e| failed("the list cannot be opened", e, source))?;
                let mut text = String::new();
                read_list(file, &mut text, source)?;
                self.add_list(&text, base)
            }
            Err(_) if source.to_str().is_some_and(is_pattern) => self.add_pattern(source, base),
            Err(error) if is_onnx(source) => Err(failed("the model cannot be found", error, source)),
            Err(error) => Err(failed("the folder or list of models cannot be found", error, source)),
        }
    }

    /// Adds the lines of a list, but for comments. Models below the current folder keep their folders; the
    /// others only have their names.
    fn add_list(&mut self, text: &str, base: Option<&Path>) -> Result<()> {
        let here = std::env::current_dir().map_err(|e| failed("it cannot be opened", e, Path::new(".")))?;
        for line in text.lines().map(str::trim_end).filter(|line| !line.is_empty() && !line.starts_with('#'))
        {
            self.add(Path::new(line), base.unwrap_or(&here))?;
        }
        Ok(())
    }

    /// Adds every `.onnx` file below a folder, except for hidden folders, the folder of results, and links to
    /// folders, which may be cyclic.
    fn add_folder(&mut self, folder: &Path, base: &Path) -> Result<()> {
        let mut folders = vec![folder.to_owned()];
        while let Some(folder) = folders.pop() {
            let unreadable = |e| failed("the folder cannot be read", e, &folder);
            for entry in fs::read_dir(&folder).map_err(unreadable)? {
                let entry = entry.map_err(unreadable)?;
                let (path, kind) = (entry.path(), entry.file_type().map_err(unreadable)?);
                let hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
                if kind.is_dir() && !hidden && !self.is_out(&path) {
                    folders.push(path);
                } else if !kind.is_dir() && is_onnx(&path) && !is_result(&path) {
                    self.add_entry(&path, base)?;
                }
            }
        }
        Ok(())
    }

    /// Adds an entry of a folder with the name of a model. One that cannot be read is a separate failure.
    fn add_entry(&mut self, path: &Path, base: &Path) -> Result<()> {
        let failure = match fs::metadata(path) {
            // A link to a folder is not followed.
            Ok(found) if found.is_dir() => return Ok(()),
            Ok(found) if found.is_file() => match name_of(path, base) {
                Ok(_) => return self.add(path, base),
                Err(error) => error,
            },
            Ok(_) => Error::usage("this is not a regular file").in_file(path),
            Err(error) => failed("the model cannot be found", error, path),
        };
        self.failed.push((path.strip_prefix(base).unwrap_or(path).to_string_lossy().into_owned(), failure));
        Ok(())
    }

    fn add_pattern(&mut self, pattern: &Path, base: Option<&Path>) -> Result<()> {
        let text = pattern.to_str().unwrap_or_default();
        let refused = |what: String| Error::usage(what).in_file(pattern);
        let paths = glob::glob(text).map_err(|e| refused(format!("invalid pattern: {e}")))?;
        let fixed: PathBuf = pattern
            .components()
            .take_while(|part| !part.as_os_str().to_str().is_some_and(is_pattern))
            .collect();
        let before = self.models.len();
        for path in paths {
            let path = path.map_err(|e| failed("the folder cannot be read", e.into(), pattern))?;
            if path.is_file() && !is_result(&path) {
                self.add(&path, base.unwrap_or(&fixed))?;
            }
        }
        if self.models.len() == before {
            return Err(refused("no matching file".to_owned()));
        }
        Ok(())
    }

    fn is_out(&self, folder: &Path) -> bool {
        self.out.is_some() && fs::canonicalize(folder).ok() == self.out
    }

    fn add(&mut self, path: &Path, base: &Path) -> Result<()> {
        let name = name_of(path, base)?;
        match self.models.get(&name) {
            Some(other) if !same_file(other, path) => Err(Error::usage(format!(
                "\"{}\" and \"{}\" would have the same result, \"{name}\"",
                other.display(),
                path.display()
            ))
            .help(match common_folder(other, path) {
                Some(folder) => format!("--base {} keeps the folders below it", folder.display()),
                None => "--base sets the folder to which created folders are relative".to_owned(),
            })),
            Some(_) => Ok(()),
            None => {
                self.models.insert(name, path.to_owned());
                Ok(())
            }
        }
    }

    /// Refuses results that would replace a model.
    fn check_results(&self, out: &Path) -> Result<()> {
        let Some(out) = fs::canonicalize(out).ok() else { return Ok(()) };
        let models: BTreeMap<PathBuf, &Path> = self
            .models
            .values()
            .filter(|path| !is_onnx(path))
            .filter_map(|path| Some((fs::canonicalize(path).ok()?, path.as_path())))
            .collect();
        for name in self.models.keys() {
            for ending in ["param", "bin"] {
                let result = out.join(format!("{name}.ncnn.{ending}"));
                if let Some(model) = models.get(&result) {
                    let what = format!("the result of \"{name}\" would overwrite this model");
                    return Err(Error::usage(what).in_file(*model));
                }
            }
        }
        Ok(())
    }
}

/// Returns the deepest folder that has both files in it.
fn common_folder(a: &Path, b: &Path) -> Option<PathBuf> {
    let same = a.components().zip(b.components()).take_while(|(a, b)| a == b);
    let folder: PathBuf = same.map(|(part, _)| part).collect();
    (!folder.as_os_str().is_empty()).then_some(folder)
}

fn failed(what: &str, error: std::io::Error, path: &Path) -> Error {
    Error::io(what, error).in_file(path)
}

fn read_list(from: impl Read, text: &mut String, path: &Path) -> Result<()> {
    let read = from.take(MAX_LIST).read_to_string(text);
    read.map_err(|e| {
        failed("the list cannot be read", e, path).help("a list is a text file with one path per line")
    })?;
    // A model with another extension than `.onnx` is not a list.
    if text.contains('\0') {
        let error = Error::usage("this is not a list: it contains NUL bytes").in_file(path);
        return Err(error.help("a list is a text file with one path per line"));
    }
    Ok(())
}

fn is_onnx(path: &Path) -> bool {
    path.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"))
}

/// Returns whether a file is a result of `--also onnx`.
fn is_result(path: &Path) -> bool {
    path.file_stem().is_some_and(|stem| stem.as_encoded_bytes().ends_with(b".ncnn"))
}

fn is_pattern(text: &str) -> bool {
    text.contains(['*', '?', '['])
}

fn same_file(a: &Path, b: &Path) -> bool {
    a == b || fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

/// Returns the path relative to `base`, or the name of the file if it lies elsewhere. Symbolic links are not
/// followed.
fn name_of(path: &Path, base: &Path) -> Result<String> {
    let (whole, base) = (without_dots(path)?, without_dots(base)?);
    let below = match whole.strip_prefix(&base) {
        Ok(below) => below.to_owned(),
        Err(_) => PathBuf::from(whole.file_name().unwrap_or_default()),
    };
    let below = if is_onnx(&below) { below.with_extension("") } else { below };
    let words: Option<Vec<&str>> = below.iter().map(OsStr::to_str).collect();
    match words {
        Some(words) if words.first().is_some_and(|word| *word != STATE) => Ok(words.join("/")),
        Some(_) => Err(Error::usage("this is not the path of a model").in_file(path)),
        None => Err(Error::usage("the name is not valid UTF-8").in_file(path)),
    }
}

/// Returns the absolute path without `.` and `..`.
fn without_dots(path: &Path) -> Result<PathBuf> {
    // The empty path is the current folder.
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    let mut plain = PathBuf::new();
    for part in absolute(path)?.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    Ok(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_depend_only_on_paths() {
        for (path, base, name) in [
            ("models/a/b.onnx", "models", "a/b"),
            ("models/a.v2.ONNX", "models/", "a.v2"),
            ("./models/../models/a.onnx", "models", "a"),
            ("elsewhere/a.onnx", "models", "a"),
            ("/data/x/a.pb", "/data", "x/a.pb"),
            ("m.onnx", "", "m"),
        ] {
            assert_eq!(name_of(Path::new(path), Path::new(base)).unwrap(), name, "{path}");
        }
        assert!(name_of(Path::new("models"), Path::new("models")).is_err());
    }
}
