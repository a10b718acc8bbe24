//! Options by the names of models, from a file.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use clap::{ArgAction, Args as _};
use glob::{MatchOptions, Pattern};
use onnx2ncnn::error::{Error, Result};
use serde::Deserialize;
use toml::Value;

use super::arguments::Batch;
use crate::cli::command::{Command, command};
use crate::common::near::near_names;

/// The file that is read if it is in the current folder.
const DEFAULT: &str = "onnx2ncnn.toml";

/// A file of options, as it is written.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Text {
    /// The options of all models.
    #[serde(default)]
    options: BTreeMap<String, Value>,
    /// The options of some models; later ones replace earlier ones.
    #[serde(default)]
    model: Vec<Entry>,
}

#[derive(Debug, Deserialize)]
struct Entry {
    #[serde(rename = "match")]
    pattern: Patterns,
    #[serde(flatten)]
    options: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum Patterns {
    One(String),
    Several(Vec<String>),
}

/// The options of models by patterns of their names.
#[derive(Debug, Default)]
pub(super) struct Config {
    rules: Vec<(Vec<Pattern>, Options)>,
}

/// The words of options by their names.
type Options = BTreeMap<String, Vec<String>>;

impl Config {
    /// Reads a file, by default that of the current folder, if there is one. Options of the command line
    /// replace the options of the file.
    pub fn read(path: Option<&Path>, words_of_line: &[OsString]) -> Result<Config> {
        let default = Path::new(DEFAULT);
        let Some(path) = path.or_else(|| default.exists().then_some(default)) else {
            return Ok(Config::default());
        };
        let text =
            fs::read_to_string(path).map_err(|e| Error::io("the file cannot be read", e).in_file(path))?;
        Config::parse(&text, words_of_line).map_err(|reason| Error::usage(reason).in_file(path))
    }

    fn parse(text: &str, words_of_line: &[OsString]) -> std::result::Result<Config, String> {
        let at_line = |name: &str, reason: String| {
            let keys = text.lines().map(|line| line.split('=').next().unwrap_or_default().trim());
            let line = keys.zip(1..).find(|(key, _)| key.trim_matches('"') == name);
            line.map_or_else(|| reason.clone(), |(_, number)| format!("line {number}: {reason}"))
        };
        let text: Text = toml::from_str(text).map_err(|error| {
            let before = error.span().and_then(|span| text.get(..span.start)).unwrap_or(text);
            let help = match error.message().contains("invalid type: map, expected a sequence") {
                true => "; a list of models has the head [[model]]",
                false => "",
            };
            format!("line {}: {}{help}", before.matches('\n').count() + 1, error.message())
        })?;
        let every = Entry { pattern: Patterns::One("**".to_owned()), options: text.options };
        let is_on_line = |name: &str| {
            let words = words_of_line.iter().filter_map(|word| word.to_str()?.strip_prefix("--"));
            words.into_iter().any(|word| word.split('=').next() == Some(name))
        };
        let mut rules = Vec::new();
        for Entry { pattern, options } in std::iter::once(every).chain(text.model) {
            let texts = match pattern {
                Patterns::One(text) => vec![text],
                Patterns::Several(texts) => texts,
            };
            let patterns: std::result::Result<Vec<_>, String> = texts
                .iter()
                .map(|text| Pattern::new(text).map_err(|error| format!("the pattern \"{text}\": {error}")))
                .collect();
            for (name, value) in &options {
                check(name, value).map_err(|reason| at_line(name, reason))?;
            }
            let mut words = Options::new();
            for (name, value) in options.iter().filter(|(name, _)| !is_on_line(name)) {
                let found = option_words(name, value).map_err(|reason| at_line(name, reason))?;
                words.insert(name.clone(), found);
            }
            rules.push((patterns?, words));
        }
        let config = Config { rules };
        for (_, words) in &config.rules {
            let words = words.values().flatten().map(OsString::from);
            let line = ["onnx2ncnn", "m.onnx"].into_iter().map(OsString::from).chain(words);
            Command::parse(line).map_err(|error| one_line(&error.to_string()))?;
        }
        Ok(config)
    }

    /// Returns the words of a model's options.
    pub fn words(&self, name: &str) -> Vec<String> {
        let mut options: BTreeMap<&String, &Vec<String>> = BTreeMap::new();
        let fits = |pattern: &Pattern| fits(pattern, name);
        for (_, words) in self.rules.iter().filter(|(patterns, _)| patterns.iter().any(fits)) {
            options.extend(words);
        }
        options.into_values().flatten().cloned().collect()
    }

    /// Returns the patterns to which none of these models belongs.
    pub fn unmatched<'a>(&'a self, names: &[&str]) -> impl Iterator<Item = &'a str> {
        let patterns = self.rules.iter().skip(1).flat_map(|(patterns, _)| patterns);
        patterns.filter(|pattern| !names.iter().any(|name| fits(pattern, name))).map(Pattern::as_str)
    }
}

/// Returns whether a model belongs to a pattern. A pattern without folders matches a file in any folder.
fn fits(pattern: &Pattern, name: &str) -> bool {
    let file = PathBuf::from(format!("{name}.onnx"));
    let strict = MatchOptions { require_literal_separator: true, ..MatchOptions::new() };
    let last = file.file_name().map(Path::new).unwrap_or(&file);
    let whole = pattern.as_str().contains('/') || pattern.as_str() == "**";
    pattern.matches_path_with(if whole { &file } else { last }, strict)
}

/// Checks that `batch` has an option whose value may differ between models, and that a switch is on or off.
fn check(name: &str, value: &Value) -> std::result::Result<(), String> {
    let batch = Batch::augment_args(clap::Command::new("batch"));
    let is_of_models = |arg: &clap::Arg| arg.get_help_heading() != Some("Batch");
    match batch.get_arguments().find(|arg| arg.get_long() == Some(name)) {
        Some(arg) if is_of_models(arg) => {
            let is_switch = matches!(arg.get_action(), ArgAction::SetTrue);
            if is_switch && !value.is_bool() {
                return Err(format!("{name} must be true or false"));
            }
            Ok(())
        }
        Some(_) => Err(format!("{name} is an option of the command line alone")),
        None if is_option_of_conversions(name) => {
            Err(format!("{name} is not an option of batch; --also of the command line names further files"))
        }
        None => {
            let names = batch.get_arguments().filter(|arg| is_of_models(arg)).filter_map(clap::Arg::get_long);
            let near = near_names(name, names).map(|near| format!("; {near}")).unwrap_or_default();
            Err(format!("{name} is not an option{near}"))
        }
    }
}

/// Returns whether a conversion of one model has this option.
fn is_option_of_conversions(name: &str) -> bool {
    let whole = command();
    let mut commands = std::iter::once(&whole).chain(whole.find_subcommand("convert"));
    commands.any(|command| command.get_arguments().any(|arg| arg.get_long() == Some(name)))
}

/// Returns what is wrong with options, as one line.
fn one_line(message: &str) -> String {
    let lines = message.lines().map(str::trim).take_while(|line| !line.starts_with("Usage"));
    let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
    lines.join("; ").trim_start_matches("error: ").to_owned()
}

/// Returns the words of an option: none for false, one for each item of a list.
fn option_words(name: &str, value: &Value) -> std::result::Result<Vec<String>, String> {
    let text = |value: &Value| match value {
        Value::String(text) => Some(text.clone()),
        Value::Integer(number) => Some(number.to_string()),
        Value::Float(number) => Some(number.to_string()),
        _ => None,
    };
    let invalid = || format!("{name} must be true, false, a number, a text, or a list of these");
    match value {
        Value::Boolean(is_set) => Ok(is_set.then(|| format!("--{name}")).into_iter().collect()),
        Value::Array(items) => {
            let items = items.iter().map(|item| text(item).map(|text| format!("--{name}={text}")));
            items.collect::<Option<_>>().ok_or_else(invalid)
        }
        _ => Ok(vec![format!("--{name}={}", text(value).ok_or_else(invalid)?)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "[options]\nfp16 = true\n\
        [[model]]\nmatch = \"yolo*\"\ninput-shape = [\"images:1,3,640,640\"]\nscale = \"1/255\"\n\
        [[model]]\nmatch = [\"speech/**\", \"b.onnx\"]\nfp16 = false\nncnn-version = 20260526\n";

    #[test]
    fn options_follow_from_names() {
        let config = Config::parse(TEXT, &[]).unwrap();
        for (name, words) in [
            ("a", "--fp16"),
            ("x/yolo11n", "--fp16 --input-shape=images:1,3,640,640 --scale=1/255"),
            ("speech/vad/one", "--ncnn-version=20260526"),
            ("c/b", "--ncnn-version=20260526"),
        ] {
            assert_eq!(config.words(name).join(" "), words, "{name}");
        }
        let config =
            Config::parse(TEXT, &["--scale".into(), "1".into(), "--ncnn-version=20260113".into()]).unwrap();
        assert_eq!(config.words("x/yolo11n").join(" "), "--fp16 --input-shape=images:1,3,640,640");
        assert!(config.words("c/b").is_empty());
    }

    #[test]
    fn mistakes_are_reported() {
        for (text, said) in [
            ("[options]\nfp17 = true", "line 2: fp17 is not an option; near names are \"fp16\""),
            ("[options]\nfp16 = \"yes\"", "line 2: fp16 must be true or false"),
            ("[model]\nfp16 = true", "[[model]]"),
            ("[options]\ndry-run = true", "dry-run is not an option of batch"),
            ("[options]\nhtml = \"a.html\"", "--also"),
            ("[options]\njobs = 2", "line 2: jobs is an option of the command line alone"),
            ("[option]\nfp16 = true", "line 1: unknown field"),
            ("[[model]]\nfp16 = true", "line 1: missing field"),
            ("[[model]]\nmatch = \"a**b\"\n", "the pattern"),
            ("[options]\nscale = {a = 1}", "a number, a text"),
            ("[options]\nncnn-version = 1", "expected the date"),
            ("[options]\nfp16 = ", "line 2: string values must be quoted"),
        ] {
            let error = Config::parse(text, &[]).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
