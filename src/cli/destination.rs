//! The files to write, and the checks of their paths before the model is read.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::{Error, Result};

use super::arguments::{Arguments, STANDARD_INPUT};

/// The paths of the results, after symbolic links, in writable folders.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Destination {
    pub param: PathBuf,
    pub bin: PathBuf,
    pub onnx: Option<PathBuf>,
    pub table: Option<PathBuf>,
    pub report: Option<PathBuf>,
    pub html: Option<PathBuf>,
    pub param_bin: Option<PathBuf>,
    pub id_header: Option<PathBuf>,
    pub mem_header: Option<PathBuf>,
}

impl Destination {
    /// Returns the files that the arguments name or imply.
    pub fn of(arguments: &Arguments) -> Result<Destination> {
        let (param, bin) = named_files(arguments)?;
        let destination = Destination {
            param: writable(&param)?,
            bin: writable(&bin)?,
            onnx: arguments.emit_onnx.as_deref().map(writable).transpose()?,
            table: arguments.table.as_deref().map(writable).transpose()?,
            report: arguments.json.as_deref().map(writable).transpose()?,
            html: arguments.html.as_deref().map(writable).transpose()?,
            param_bin: arguments.param_bin.as_deref().map(writable).transpose()?,
            id_header: arguments.id_header.as_deref().map(writable).transpose()?,
            mem_header: arguments.mem_header.as_deref().map(writable).transpose()?,
        };
        destination.check_distinct(&arguments.model)?;
        Ok(destination)
    }

    /// Returns the files of a net and an ONNX model.
    pub fn of_net(model: &Path, param: &Path, bin: &Path, onnx: Option<&Path>) -> Result<Destination> {
        let (param, bin) = (writable(param)?, writable(bin)?);
        let onnx = onnx.map(writable).transpose()?;
        let destination = Destination { param, bin, onnx, ..Destination::default() };
        destination.check_distinct(model)?;
        Ok(destination)
    }

    /// Returns all files, and their names in messages.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &'static str)> {
        let files = [
            (Some(&self.param), "the .param file"),
            (Some(&self.bin), "the .bin file"),
            (self.onnx.as_ref(), "the ONNX file"),
            (self.table.as_ref(), "the table of scales"),
            (self.report.as_ref(), "the report"),
            (self.html.as_ref(), "the page"),
            (self.param_bin.as_ref(), "the binary .param file"),
            (self.id_header.as_ref(), "the header of indices"),
            (self.mem_header.as_ref(), "the header of bytes"),
        ];
        files.into_iter().filter_map(|(path, what)| Some((path?, what)))
    }

    fn check_distinct(&self, model: &Path) -> Result<()> {
        let model = (model != Path::new(STANDARD_INPUT)).then(|| model.canonicalize().ok()).flatten();
        let mut taken: Vec<(&Path, &str)> =
            model.as_deref().map(|path| (path, "the model itself")).into_iter().collect();
        for (path, what) in self.files() {
            if let Some((_, other)) = taken.iter().find(|(other, _)| other == path) {
                return Err(refused(path, format!("{what} would overwrite {other}")));
            }
            taken.push((path, what));
        }
        Ok(())
    }
}

pub(super) fn refused(path: &Path, message: impl Into<String>) -> Error {
    Error::usage(message).in_file(path)
}

fn named_files(arguments: &Arguments) -> Result<(PathBuf, PathBuf)> {
    let model = &arguments.model;
    match (&arguments.param, &arguments.bin) {
        (Some(param), Some(bin)) => Ok((param.clone(), bin.clone())),
        _ if model == Path::new(STANDARD_INPUT) => {
            Err(Error::usage("a model from standard input has no name for the results")
                .help("name both files: onnx2ncnn - out.param out.bin"))
        }
        (Some(param), None) if param.extension() == Some(OsStr::new("param")) => {
            Ok((param.clone(), param.with_extension("bin")))
        }
        (Some(param), None) => {
            Err(refused(param, "the name does not end in .param, so the name of the .bin file is unknown")
                .help("name both files: onnx2ncnn model.onnx out.param out.bin"))
        }
        (None, _) => Ok((beside(model, "ncnn.param"), beside(model, "ncnn.bin"))),
    }
}

/// Replaces the extension `.onnx` of `folder/model.onnx`; any other extension belongs to the name.
fn beside(model: &Path, extension: &str) -> PathBuf {
    let is_onnx = model.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
    let stem = if is_onnx { model.file_stem() } else { model.file_name() };
    let mut name = stem.unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    model.with_file_name(name)
}

/// Returns the path after symbolic links, if a file can be created or replaced there.
pub(super) fn writable(path: &Path) -> Result<PathBuf> {
    let Some(name) = path.file_name() else { return Err(refused(path, "this is not the name of a file")) };
    let folder = match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    };
    let real_folder =
        folder.canonicalize().map_err(|e| Error::io("the folder cannot be opened", e).in_file(folder))?;
    if !real_folder.is_dir() {
        return Err(refused(folder, "this is not a folder"));
    }
    let real = match fs::symlink_metadata(path) {
        // A symbolic link stays: its target is replaced.
        Ok(found) if found.is_symlink() => {
            let real = path
                .canonicalize()
                .map_err(|e| Error::io("the symbolic link cannot be followed", e).in_file(path))?;
            let target =
                fs::metadata(&real).map_err(|e| Error::io("the file cannot be examined", e).in_file(path))?;
            check_replaceable(path, &target)?;
            real
        }
        Ok(found) => {
            check_replaceable(path, &found)?;
            real_folder.join(name)
        }
        Err(e) if e.kind() == io::ErrorKind::NotFound => real_folder.join(name),
        Err(e) => return Err(Error::io("the file cannot be examined", e).in_file(path)),
    };
    // Results are written under temporary names and renamed, so the folder must be writable.
    let parent = real.parent().unwrap_or(&real_folder);
    tempfile::tempfile_in(parent).map_err(|e| Error::io("the folder is not writable", e).in_file(parent))?;
    Ok(real)
}

/// Checks that the file at `path` may be replaced.
fn check_replaceable(path: &Path, metadata: &fs::Metadata) -> Result<()> {
    if metadata.is_dir() {
        return Err(refused(path, "this is a folder"));
    }
    // Renaming over a device or a pipe would replace it by a file.
    if !metadata.is_file() {
        return Err(refused(path, "this is not a regular file"));
    }
    if metadata.permissions().readonly() {
        return Err(refused(path, "the file is write-protected"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use onnx2ncnn::error::ErrorKind;

    use super::*;
    use crate::cli::command::Request;

    fn parse(line: impl IntoIterator<Item = PathBuf>) -> Arguments {
        match Request::parse(line.into_iter().map(Into::into)).unwrap() {
            Request::Convert(arguments) => arguments,
            other => panic!("{other:?}"),
        }
    }

    fn destination(folder: &Path, names: &[&str]) -> Result<Destination> {
        let paths =
            names.iter().map(|name| if *name == "-" { PathBuf::from(name) } else { folder.join(name) });
        let line = std::iter::once(PathBuf::from("onnx2ncnn")).chain(paths);
        Destination::of(&parse(line))
    }

    #[test]
    fn names_of_results_are_derived() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for (given, param, bin) in [
            (&["m.onnx"][..], "m.ncnn.param", "m.ncnn.bin"),
            (&["m.v2.ONNX"], "m.v2.ncnn.param", "m.v2.ncnn.bin"),
            (&["m.pb"], "m.pb.ncnn.param", "m.pb.ncnn.bin"),
            (&["m"], "m.ncnn.param", "m.ncnn.bin"),
            (&["m.onnx", "a.b.param"], "a.b.param", "a.b.bin"),
            (&["m.onnx", "x", "y"], "x", "y"),
            (&["-", "x", "y"], "x", "y"),
        ] {
            let found = destination(folder.path(), given).unwrap();
            assert_eq!((found.param, found.bin), (real.join(param), real.join(bin)), "{given:?}");
        }
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn unwritable_paths_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["m.onnx", "file"] {
            fs::write(folder.path().join(name), "").unwrap();
        }
        fs::create_dir(folder.path().join("folder")).unwrap();
        for (given, message) in [
            (&["-"][..], "no name"),
            (&["-", "x.param"], "no name"),
            (&["m.onnx", "x"], "does not end in .param"),
            (&["m.onnx", "x", "x"], "would overwrite the .param file"),
            (&["m.onnx", "x", "folder/../x"], "would overwrite the .param file"),
            (&["m.onnx", "m.onnx", "x"], "would overwrite the model itself"),
            (&["m.onnx", "x", "folder/../m.onnx"], "would overwrite the model itself"),
            (&["m.onnx", "folder", "x"], "this is a folder"),
            (&["m.onnx", "x", "folder/.."], "not the name of a file"),
            (&["m.onnx", "none/x", "y"], "the folder cannot be opened"),
            (&["m.onnx", "file/x", "y"], "this is not a folder"),
        ] {
            let error = destination(folder.path(), given).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Usage), "{given:?}");
            assert!(error.to_string().contains(message), "{given:?}: {error}");
        }
    }

    #[cfg(unix)]
    #[test]
    fn links_are_followed() {
        use std::os::unix::fs::symlink;

        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::write(real.join("m.onnx"), "").unwrap();
        fs::write(real.join("target"), "").unwrap();
        symlink("target", real.join("link")).unwrap();
        symlink("m.onnx", real.join("model")).unwrap();
        symlink("none", real.join("dangling")).unwrap();
        assert_eq!(destination(&real, &["m.onnx", "link", "x"]).unwrap().param, real.join("target"));
        for given in [["m.onnx", "model", "x"], ["model", "m.onnx", "x"], ["m.onnx", "dangling", "x"]] {
            assert!(destination(&real, &given).is_err(), "{given:?}");
        }
        let error = Destination::of(&parse(["onnx2ncnn", "m", "/dev/null", "/tmp/x"].map(PathBuf::from)));
        assert!(error.unwrap_err().to_string().contains("not a regular file"));
    }
}
