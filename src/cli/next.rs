//! The next command after a refusal.

use std::ffi::OsString;

use onnx2ncnn::Remedy;

use super::refusal::is_harmless;

/// The maximum number of commands.
const MAX_COMMANDS: usize = 3;

/// Options that belong to the terminal, not to the conversion.
const OF_TERMINAL: [&str; 5] = ["-v", "--verbose", "-q", "--quiet", "--color"];

/// A command that converts a refused model, or a part of it.
#[derive(Debug)]
pub(super) struct Next {
    pub command: String,
    /// The percentage of the weights that is converted.
    pub percent: u64,
    /// Whether it makes a chain of nets.
    pub is_chain: bool,
}

impl Next {
    /// Returns the commands that follow from a command line; without a name that cannot be passed in quotes.
    pub fn after(words: &[OsString], remedies: &[Remedy]) -> Vec<Next> {
        let next = remedies.iter().filter_map(|remedy| {
            let command = command(words, remedy)?;
            Some(Next { command, percent: remedy.percent, is_chain: !remedy.split_at.is_empty() })
        });
        next.take(MAX_COMMANDS).collect()
    }
}

/// Returns a command line with the options of a remedy in place of those that they replace.
fn command(words: &[OsString], remedy: &Remedy) -> Option<String> {
    let words: Vec<&str> = words.iter().skip(1).map(|word| word.to_str()).collect::<Option<_>>()?;
    let end = words.iter().position(|word| *word == "--").unwrap_or(words.len());
    let (given, rest) = words.split_at_checked(end)?;
    let mut kept = Vec::new();
    let mut given = given.iter();
    while let Some(word) = given.next() {
        let (name, value) = word.split_once('=').map_or((*word, None), |(name, value)| (name, Some(value)));
        let takes_value = TAKING.contains(&name) || name == "--color";
        let value = if takes_value && value.is_none() { given.next().copied() } else { value };
        let replaced = is_replaced(name, value.unwrap_or_default(), remedy) || OF_TERMINAL.contains(&name);
        if !replaced {
            kept.push((*word).to_owned());
            kept.extend(value.filter(|_| takes_value && !word.contains('=')).map(str::to_owned));
        }
    }
    kept.extend(remedy.words());
    kept.extend(rest.iter().map(|word| (*word).to_owned()));
    let kept: Vec<String> = kept.iter().map(|word| quoted(word)).collect::<Option<_>>()?;
    Some([env!("CARGO_PKG_NAME").to_owned()].into_iter().chain(kept).collect::<Vec<_>>().join(" "))
}

/// The options with values that a remedy may replace.
const TAKING: [&str; 6] = ["--set", "--input-shape", "--inputs", "--outputs", "--split-at", "--rename"];

fn is_replaced(name: &str, value: &str, remedy: &Remedy) -> bool {
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
        "--split-at" => remedy.is_cut(),
        "--rename" => remedy.is_cut(),
        _ => false,
    }
}

/// Returns a word as shells read it, in quotes if it needs any; `None` if it cannot be passed so.
fn quoted(word: &str) -> Option<String> {
    let is_plain =
        |c: char| c.is_ascii_alphanumeric() || "-_./:=,@+[]".contains(c) || (cfg!(windows) && c == '\\');
    if !word.is_empty() && word.chars().all(|c| is_plain(c) && !"[]".contains(c)) {
        return Some(word.to_owned());
    }
    // Commas separate names, but do not end a word.
    let without_commas = word.trim_start_matches('-').replace(',', "");
    is_harmless(&without_commas).then(|| format!("\"{word}\""))
}
