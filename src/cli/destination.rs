//! The files to write, and the checks of their paths before the model is read.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use clap::Args;
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Language, OptionInfo, Options};

use super::location::{Outputs, STANDARD_INPUT, is_folder, is_standard_output, refused};

/// The paths of the results, after symbolic links, in writable folders.
#[derive(Debug, Default)]
pub(super) struct Destination {
    pub param: PathBuf,
    pub bin: PathBuf,
    /// Further files: their options and their names in messages.
    pub further: Vec<(&'static OptionInfo, &'static str, PathBuf)>,
    /// The files that the program needs next to it.
    pub helpers: Vec<PathBuf>,
    pub outputs: Outputs,
}

impl Destination {
    /// Returns the files of a net, and the further files of options.
    pub fn of(model: &Path, net: &NetFiles, further: &Options) -> Result<Destination> {
        let (param, bin) = net.files(model)?;
        let mut outputs = Outputs::default();
        let (param, bin) = (outputs.add(&param)?, outputs.add(&bin)?);
        let program = further.example.as_deref();
        let helpers = program.and_then(|path| Some(Language::of(path)?.companions(path))).unwrap_or_default();
        let helpers = helpers.iter().map(|(path, _)| outputs.add(path)).collect::<Result<_>>()?;
        let further = further.files().map(|(info, file, path)| Ok((info, file.what, outputs.add(path)?)));
        let further = further.collect::<Result<_>>()?;
        let destination = Destination { param, bin, further, helpers, outputs };
        destination.check_distinct(model)?;
        Ok(destination)
    }

    /// Returns the path of the file of an option.
    pub fn file(&self, option: &str) -> Option<&Path> {
        self.further.iter().find(|(info, ..)| info.name == option).map(|(_, _, path)| path.as_path())
    }

    /// Returns all files but the one for standard output, and their names in messages.
    pub fn files(&self) -> impl Iterator<Item = (&PathBuf, &'static str)> {
        let net = [(&self.param, "the .param file"), (&self.bin, "the .bin file")];
        let further = self.further.iter().map(|(_, what, path)| (path, *what));
        let helpers = self.helpers.iter().map(|path| (path, "a file next to the program"));
        let files = net.into_iter().chain(further).chain(helpers);
        files.filter(|(path, _)| !self.outputs.is_piped(path))
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

/// The names of the files of a net.
#[derive(Clone, Debug, Args)]
pub(super) struct NetFiles {
    /// The .param file to write, - for standard output [default: model.ncnn.param next to model.onnx]
    pub param: Option<PathBuf>,

    /// The .bin file to write [default: next to the .param file, by its name]
    pub bin: Option<PathBuf>,

    /// The .param file to write, or the folder of both files; folders are made
    #[arg(short, long, value_name = "FILE.param|DIR", conflicts_with_all = ["param", "bin"], help_heading = "Result")]
    pub out: Option<PathBuf>,
}

/// Returns the folder with the ending by which ultralytics recognizes a net.
pub(super) fn ultralytics_folder(folder: &Path) -> PathBuf {
    const ENDING: &str = "_ncnn_model";
    match folder.file_name().and_then(OsStr::to_str) {
        Some(name) if !name.ends_with(ENDING) => folder.with_file_name(format!("{name}{ENDING}")),
        _ => folder.to_owned(),
    }
}

impl NetFiles {
    /// Returns the files of a folder that ultralytics reads.
    pub fn of_ultralytics(folder: &Path) -> NetFiles {
        let file = |name: &str| Some(folder.join(name));
        NetFiles { param: file("model.ncnn.param"), bin: file("model.ncnn.bin"), out: None }
    }

    /// Returns the paths of both files.
    fn files(&self, model: &Path) -> Result<(PathBuf, PathBuf)> {
        // Values of an option that are separated by spaces end up here.
        let is_number = |path: &&PathBuf| path.to_str().is_some_and(|text| text.parse::<f64>().is_ok());
        let names_net = self.param.as_deref().is_some_and(names_param);
        let mut paths = [&self.param, &self.bin].into_iter().flatten();
        if let Some(number) = paths.find(is_number).filter(|_| !names_net) {
            let help = "commas separate several values of an option, as in --mean 123.7,116.3,103.5";
            return Err(refused(number, "a number instead of the .param file").help(help));
        }
        let folder = self.out.as_ref().filter(|out| is_folder(out) || !names_file(out));
        let param = self.param.as_ref().or(self.out.as_ref().filter(|_| folder.is_none()));
        match (param, &self.bin) {
            (Some(param), Some(bin)) if names_param(bin) && !names_param(param) => {
                let message = "the .param file comes first, and the .bin file after it";
                Err(refused(bin, message).help("name both files: onnx2ncnn model.onnx out.param out.bin"))
            }
            (Some(param), Some(bin)) => Ok((param.clone(), bin.clone())),
            _ if model == Path::new(STANDARD_INPUT) => {
                Err(Error::usage("a model from standard input has no name for the results")
                    .help("name both files: onnx2ncnn - out.param out.bin"))
            }
            (Some(param), None) if names_param(param) => Ok((param.clone(), param.with_extension("bin"))),
            (Some(param), None) => {
                let message = match is_standard_output(param) {
                    true => {
                        "the .param file goes to standard output, so the name of the .bin file is unknown"
                    }
                    false => "the name does not end in .param, so the name of the .bin file is unknown",
                };
                Err(refused(param, message).help("name both files: onnx2ncnn model.onnx out.param out.bin"))
            }
            (None, _) => {
                let (param, bin) = default_files(model);
                let in_folder = |path: PathBuf| match (folder, path.file_name()) {
                    (Some(folder), Some(name)) => folder.join(name),
                    _ => path,
                };
                Ok((in_folder(param), in_folder(bin)))
            }
        }
    }
}

/// Returns whether the name of a path is that of a file, such as a .param file, and not that of a folder.
fn names_file(path: &Path) -> bool {
    let endings = ["param", "bin", "onnx", "json"].map(OsStr::new);
    path.extension().is_some_and(|ending| endings.contains(&ending))
}

fn names_param(path: &Path) -> bool {
    path.extension() == Some(OsStr::new("param"))
}

/// Returns the files of the net of a model if nothing else is asked for: `model.ncnn.param` and
/// `model.ncnn.bin` next to it.
pub(super) fn default_files(model: &Path) -> (PathBuf, PathBuf) {
    (next_to_model(model, "ncnn.param"), next_to_model(model, "ncnn.bin"))
}

/// Replaces the extension `.onnx` of `folder/model.onnx`; any other extension belongs to the name.
fn next_to_model(model: &Path, extension: &str) -> PathBuf {
    let is_onnx = model.extension().is_some_and(|ending| ending.eq_ignore_ascii_case("onnx"));
    let stem = if is_onnx { model.file_stem() } else { model.file_name() };
    let mut name = stem.unwrap_or_default().to_owned();
    name.push(".");
    name.push(extension);
    model.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use std::fs;

    use onnx2ncnn::error::ErrorKind;

    use super::*;
    use crate::cli::command::Command;

    fn parse(line: impl IntoIterator<Item = PathBuf>) -> Result<Destination> {
        match Command::parse(line.into_iter().map(Into::into)).unwrap() {
            Command::Convert(arguments) => {
                Destination::of(&arguments.model, &arguments.net, &arguments.further)
            }
            other => panic!("{other:?}"),
        }
    }

    fn destination(folder: &Path, names: &[&str]) -> Result<Destination> {
        let paths =
            names.iter().map(|name| if *name == "-" { PathBuf::from(name) } else { folder.join(name) });
        let line = std::iter::once(PathBuf::from("onnx2ncnn")).chain(paths);
        parse(line)
    }

    #[test]
    fn names_of_results_are_derived() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for (words, param, bin) in [
            (&["m.onnx"][..], "m.ncnn.param", "m.ncnn.bin"),
            (&["m.v2.ONNX"], "m.v2.ncnn.param", "m.v2.ncnn.bin"),
            (&["m.pb"], "m.pb.ncnn.param", "m.pb.ncnn.bin"),
            (&["m"], "m.ncnn.param", "m.ncnn.bin"),
            (&["m.onnx", "a.b.param"], "a.b.param", "a.b.bin"),
            (&["m.onnx", "x", "y"], "x", "y"),
            (&["-", "x", "y"], "x", "y"),
            (&["m.onnx", "none/deep/x", "y"], "none/deep/x", "y"),
        ] {
            let found = destination(folder.path(), words).unwrap();
            assert_eq!((found.param, found.bin), (real.join(param), real.join(bin)), "{words:?}");
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
        for (words, message) in [
            (&["-"][..], "no name"),
            (&["-", "x.param"], "no name"),
            (&["m.onnx", "x"], "does not end in .param"),
            (&["m.onnx", "x.bin", "x.param"], "comes first"),
            (&["m.onnx", "x", "x"], "would overwrite the .param file"),
            (&["m.onnx", "x", "folder/../x"], "would overwrite the .param file"),
            (&["m.onnx", "m.onnx", "x"], "would overwrite the model itself"),
            (&["m.onnx", "x", "folder/../m.onnx"], "would overwrite the model itself"),
            (&["m.onnx", "folder", "x"], "this is a folder"),
            (&["m.onnx", "x", "folder/.."], "not the name of a file"),
            (&["m.onnx", "none/../x", "y"], "the folder cannot be opened"),
            (&["m.onnx", "file/x", "y"], "this is not a folder"),
        ] {
            let error = destination(folder.path(), words).unwrap_err();
            assert!(matches!(error.kind(), ErrorKind::Io | ErrorKind::Usage), "{words:?}");
            assert!(error.to_string().contains(message), "{words:?}: {error}");
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
        for words in [["m.onnx", "model", "x"], ["model", "m.onnx", "x"], ["m.onnx", "dangling", "x"]] {
            assert!(destination(&real, &words).is_err(), "{words:?}");
        }
        let error = parse(["onnx2ncnn", "m", "/dev/null", "/tmp/x"].map(PathBuf::from));
        assert!(error.unwrap_err().to_string().contains("not a regular file"));
    }
}
