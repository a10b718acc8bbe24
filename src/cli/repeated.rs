//! The options of an earlier conversion, which its report has.

use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{Converter, OptionInfo, options};
use serde::Deserialize;
use serde_json::{Map, Value};

/// The options of the conversion of a net.
#[derive(Debug, Default)]
pub(super) struct Repeated {
    /// The report; `None` if there is none.
    pub path: Option<PathBuf>,
    /// Why the report next to the files is not used, if there is one.
    pub unused: Option<Error>,
    options: Map<String, Value>,
}

/// What is read of a report.
#[derive(Deserialize)]
struct Part {
    options: Option<Map<String, Value>>,
    net: Option<Files>,
}

#[derive(Deserialize)]
struct Files {
    param_bytes: u64,
    bin_bytes: u64,
}

impl Repeated {
    /// Reads a report of a net; by default the report next to its files, unless it is of another net.
    pub fn of(requested: Option<&Path>, param: &Path, bin: &Path) -> Result<Repeated> {
        let path = requested.map_or_else(|| default_report(param), Path::to_owned);
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(_) if requested.is_none() => return Ok(Repeated::default()),
            Err(e) => return Err(Error::io("the report cannot be opened", e).in_file(path)),
        };
        match options_of(&bytes, param, bin) {
            Ok(options) => Ok(Repeated { path: Some(path), options, ..Repeated::default() }),
            Err(error) if requested.is_none() => {
                Ok(Repeated { unused: Some(error.in_file(path)), ..Repeated::default() })
            }
            Err(error) => Err(error.in_file(path)),
        }
    }

    /// Returns a converter with these options, without the options of the `requested` names and the options
    /// that exclude these.
    pub fn converter(&self, requested: &[&str]) -> Result<Converter> {
        let excludes =
            |one: Option<&OptionInfo>, other: &str| one.is_some_and(|info| info.excludes == Some(other));
        let gives_way = |name: &str| {
            requested.iter().any(|other| {
                *other == name
                    || excludes(OptionInfo::named(name), other)
                    || excludes(OptionInfo::named(other), name)
            })
        };
        let left: Map<_, _> = self.options.iter().filter(|(name, _)| !gives_way(name)).map(owned).collect();
        let found = Converter::new().with_json(&Value::Object(left).to_string());
        found.map_err(|error| {
            let error = error.help("repeat this option of the conversion");
            match &self.path {
                Some(path) => error.in_file(path),
                None => error,
            }
        })
    }

    /// Returns the names of the options on the command line, in the order of its help.
    pub fn names(&self) -> Vec<String> {
        let known = options().iter().filter(|info| self.options.contains_key(info.name));
        known.map(|info| format!("--{}", info.long_name())).collect()
    }
}

fn owned((name, value): (&String, &Value)) -> (String, Value) {
    (name.clone(), value.clone())
}

/// Returns the options of a report, if it is that of these files.
fn options_of(report: &[u8], param: &Path, bin: &Path) -> Result<Map<String, Value>> {
    let part: Part =
        serde_json::from_slice(report).map_err(|_| Error::usage("this is not the report of a conversion"))?;
    let (Some(options), Some(net)) = (part.options, part.net) else {
        return Err(Error::usage("the report has no options of a conversion"));
    };
    for (path, bytes) in [(param, net.param_bytes), (bin, net.bin_bytes)] {
        let found =
            fs::metadata(path).map_err(|e| Error::io("the file cannot be opened", e).in_file(path))?.len();
        if found != bytes {
            let file = path.display();
            return Err(Error::usage(format!(
                "the report is of another net: {file} has {found} bytes, not {bytes}"
            )));
        }
    }
    Ok(options)
}

/// Returns the report next to a net: `m.report.json` for `m.ncnn.param`, or `m.ncnn.report.json`, as `batch`
/// names it.
fn default_report(param: &Path) -> PathBuf {
    let of_batch = param.with_extension("report.json");
    let stem = param.with_extension("");
    match stem.extension() {
        Some(ending) if ending == "ncnn" && !of_batch.exists() => stem.with_extension("report.json"),
        _ => of_batch,
    }
}
