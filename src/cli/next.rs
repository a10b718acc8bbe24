//! The next command after a refusal.

use std::ffi::OsString;
use std::path::PathBuf;

use onnx2ncnn::{OptionInfo, Remedy};

use super::location::STANDARD_INPUT;
use super::terminal::printable;

/// The maximum number of commands.
const MAX_COMMANDS: usize = 3;

/// The maximum number of inputs that are named.
const MAX_INPUTS: usize = 3;

/// What follows a part whose outputs are boxes and scores.
const PROGRAM: &str = "a program of --example (FILE.py, FILE.cpp or FILE.kt) computes the rest of the model";

/// The command line of a conversion.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line<'a> {
    /// The words of the options, each with its value.
    pub options: &'a [OsString],
    pub files: &'a [PathBuf],
}

/// A command that converts a refused model, or a part of it.
#[derive(Debug)]
pub(super) struct Next {
    pub command: String,
    /// The percentage of the weights or nodes that is converted, and which of them.
    pub percent: u64,
    pub counted: &'static str,
    /// Whether it makes a chain of nets.
    pub is_chain: bool,
    /// What its options do, and which values are examples.
    pub effects: Vec<String>,
}

impl Next {
    /// Returns the commands that follow from a command line; without a name that cannot be passed in quotes.
    pub fn after(line: &Line, remedies: &[Remedy]) -> Vec<Next> {
        // No program runs several nets over one file, and they are not a chain.
        let has_variants =
            line.options.iter().any(|option| option.to_string_lossy().starts_with("--variant"));
        let remedies = remedies.iter().filter(|remedy| !has_variants || remedy.split_at.is_empty());
        let next = remedies.filter_map(|remedy| {
            let command = line.with(remedy)?;
            let set = remedy.set.iter().map(|(input, _)| input.as_str());
            let set = said_of(
                set.collect(),
                ["becomes a constant", "become constants"],
                "replace the value by yours",
            );
            let sized = remedy.input_shapes.iter().map(|(input, _)| input.as_str()).collect();
            let sized = match remedy.is_tied {
                true => said_of(sized, ["has these sizes", "have these sizes"], "the model leaves them open"),
                false => {
                    let fixed = ["has these fixed sizes", "have these fixed sizes"];
                    said_of(sized, fixed, "replace them by yours")
                }
            };
            let flags = remedy.flags.iter().filter_map(|name| effect(name));
            let program = (remedy.has_program && !has_variants).then(|| PROGRAM.to_owned());
            let effects = flags.chain(set).chain(sized).chain(program).collect();
            let (percent, counted) = (remedy.percent, remedy.counted());
            Some(Next { command, percent, counted, is_chain: !remedy.split_at.is_empty(), effects })
        });
        next.take(MAX_COMMANDS).collect()
    }
}

impl Line<'_> {
    /// Returns the command with the options of a remedy instead of the options that they replace.
    fn with(&self, remedy: &Remedy) -> Option<String> {
        let files: Vec<String> =
            self.files.iter().map(|file| Some(file.to_str()?.to_owned())).collect::<Option<_>>()?;
        let mut options = Vec::new();
        for option in self.options {
            let option = option.to_str()?;
            match option.split_once('=') {
                _ if is_replaced(option, remedy) => {}
                Some((name, value)) if !value.starts_with('-') => {
                    options.extend([name.to_owned(), value.to_owned()])
                }
                _ => options.push(option.to_owned()),
            }
        }
        options.extend(remedy.words());
        // A file whose name begins as an option follows the options.
        let words = match files.iter().any(|file| file.starts_with('-') && file != STANDARD_INPUT) {
            true => [options, vec!["--".to_owned()], files].concat(),
            false => [files, options].concat(),
        };
        let words: Vec<String> = words.iter().map(|word| quoted(word)).collect::<Option<_>>()?;
        Some(format!("{} {}", env!("CARGO_PKG_NAME"), words.join(" ")))
    }
}

/// Returns a sentence about one or several inputs. It names the first ones and counts the others.
fn said_of(inputs: Vec<&str>, [one, several]: [&str; 2], wish: &str) -> Option<String> {
    let named = inputs.iter().take(MAX_INPUTS).map(|input| format!("\"{}\"", printable(input)));
    let mut names = named.collect::<Vec<_>>().join(", ");
    if let Some(more) = inputs.len().checked_sub(MAX_INPUTS).filter(|more| *more > 0) {
        names += &format!(" and {more} more");
    }
    let verb = if inputs.len() == 1 { one } else { several };
    (!inputs.is_empty()).then(|| format!("{names} {verb}: {wish}"))
}

/// Returns an option without a value, and the sentence of the help about it.
fn effect(name: &str) -> Option<String> {
    let info = OptionInfo::named(name)?;
    let (about, _) = info.descriptions();
    let lower = about.chars().take(1).flat_map(char::to_lowercase).chain(about.chars().skip(1));
    Some(format!("--{}: {}", info.long_name(), lower.collect::<String>()))
}

fn is_replaced(option: &str, remedy: &Remedy) -> bool {
    let (name, value) = option.split_once('=').unwrap_or((option, ""));
    match name {
        "--set" => {
            remedy.set.iter().any(|(input, _)| value.rsplit_once('=').is_some_and(|(name, _)| name == input))
        }
        "--input-shape" => {
            let of = value.rsplit_once(':').map_or("", |(name, _)| name);
            remedy.input_shapes.iter().any(|(input, _)| of.is_empty() || of == input)
        }
        "--inputs" => !remedy.inputs.is_empty(),
        "--outputs" => !remedy.outputs.is_empty(),
        "--split-at" | "--rename" | "--ultralytics" => remedy.is_cut(),
        _ => false,
    }
}

/// Returns a word as shells read it, in quotes if it needs any; `None` if it cannot be passed so.
pub(super) fn quoted(word: &str) -> Option<String> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+[]".contains(c) || (cfg!(windows) && c == '\\');
    if !word.is_empty() && word.chars().all(|c| is_plain(c) && !"[]".contains(c)) {
        return Some(word.to_owned());
    }
    // Commas separate names, but do not end a word.
    let without_commas = word.trim_start_matches('-').replace(',', "");
    is_harmless(&without_commas).then(|| format!("\"{word}\""))
}

/// Returns whether a name can be passed in double quotes as an item of a list: commas separate the items, and
/// shells interpret some characters even between quotes.
pub(super) fn is_harmless(name: &str) -> bool {
    let harmless = |c: char| c == '\'' || (!"\"$`\\!%,".contains(c) && c.escape_debug().count() == 1);
    !name.starts_with('-') && name.chars().all(harmless)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_inputs_are_named() {
        let said = |inputs: &[&str]| said_of(inputs.to_vec(), ["is so", "are so"], "say yours");
        assert_eq!(said(&[]), None);
        assert_eq!(said(&["x"]).unwrap(), "\"x\" is so: say yours");
        assert_eq!(said(&["x", "y"]).unwrap(), "\"x\", \"y\" are so: say yours");
        let many = ["a", "b", "c", "d", "e"];
        assert_eq!(said(&many).unwrap(), "\"a\", \"b\", \"c\" and 2 more are so: say yours");
    }
}
