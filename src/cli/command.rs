//! The command line and its subcommands.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{ArgMatches, Args, FromArgMatches, Parser, Subcommand};

use super::arguments::Arguments;
use super::batch::Batch;
use super::check::Check;
use super::diff::Diff;
use super::explain::Explain;
use super::generate::{Completions, Man, Runner};
use super::inspect::Inspect;
use super::quantize::Quantize;
use super::simplify::Simplify;
use super::verify::Verify;

const ABOUT: &str = "Converts an ONNX model to ncnn's .param and .bin: right, or refused with a reason";

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn model.onnx
      writes model.ncnn.param and model.ncnn.bin next to the model
  onnx2ncnn model.onnx out.param out.bin
  onnx2ncnn model.onnx --input-shape 1,3,640,640
      fixes the sizes of a model's only input
  onnx2ncnn model.onnx --input-shape images:1,3,H,W --input-shape ratio:1
      fixes some sizes and leaves H and W free
  onnx2ncnn model.onnx --outputs boxes,scores
      leaves out what only comes after boxes and scores, such as NonMaxSuppression
  curl -s https://example.org/model.onnx | onnx2ncnn - out.param out.bin

Exit codes:
  0  converted
  1  refused: the model is invalid, or something in it cannot be expressed in ncnn
  2  the command line is wrong or asks for what is not there, or a file cannot be read or written
After an error nothing has been written but the reports that were asked for; files that were there
before are as they were.";

const SHORT_EXAMPLES: &str = "\
Examples:
  onnx2ncnn model.onnx
  onnx2ncnn model.onnx -o out
  onnx2ncnn model.onnx --input-shape 1,3,640,640
--help has all options, more examples, and the exit codes.";

/// The command line.
#[derive(Debug, Parser)]
#[command(version, about = ABOUT, long_about = ABOUT, max_term_width = 100)]
#[command(after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    arg_required_else_help = true
)]
#[command(subcommand_help_heading = "Commands, as a first word")]
struct Other {
    #[command(subcommand)]
    command: Option<Command>,

    /// List the passes that --skip disables
    #[arg(long, exclusive = true, help_heading = "Model", hide_short_help = true)]
    list_passes: bool,
}

/// Returns the definition of the command line.
pub(super) fn command() -> clap::Command {
    // The arguments of a conversion are optional: a subcommand may replace them.
    Other::augment_args(Arguments::augment_args(clap::Command::new(env!("CARGO_PKG_NAME"))))
}

impl Command {
    /// Parses a command line; the first word is the name of the program.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Command, clap::Error> {
        let words = with_verb_first(words.into_iter().collect());
        let is_help = words.get(1).is_some_and(|word| word == "help");
        let parsed = command().try_get_matches_from(&words);
        if !matches!(&parsed, Ok(matches) if matches.subcommand().is_some())
            && let Some(error) = words.get(usize::from(is_help) + 1).and_then(|word| misspelled_verb(word))
        {
            return Err(error);
        }
        let matches = parsed.map_err(unexpected_word)?;
        let mut command = match Other::from_arg_matches(&matches)? {
            Other { command: Some(command), .. } => command,
            Other { list_passes: true, .. } => Command::ListPasses,
            Other { .. } => Command::Convert(Box::new(Arguments::from_arg_matches(&matches)?)),
        };
        let of_command = matches.subcommand().map_or(&matches, |(_, matches)| matches);
        match &mut command {
            Command::Convert(arguments) => arguments.words = option_words(of_command, &[]),
            // The folder of results is the batch's.
            Command::Batch(batch) => batch.words = option_words(of_command, &["out"]),
            _ => {}
        }
        Ok(command)
    }
}

/// Moves the name of a command before the options that precede it: they mean what they mean after it.
fn with_verb_first(mut words: Vec<OsString>) -> Vec<OsString> {
    let has_option_first =
        words.get(1).and_then(|word| word.to_str()).is_some_and(|word| word.starts_with('-'));
    if !has_option_first {
        return words;
    }
    let options = command();
    // Options of conversions and of other commands that take a value have the next word, unless it is joined.
    let takes_next = |word: &str| {
        let (long, short) = (word.strip_prefix("--"), word.strip_prefix('-'));
        let is_it = |arg: &&clap::Arg| match long {
            Some(long) => arg.get_long() == Some(long),
            None => short.is_some_and(|short| arg.get_short().is_some_and(|c| short == c.to_string())),
        };
        let found = options.get_subcommands().flat_map(clap::Command::get_arguments);
        options.get_arguments().chain(found).find(is_it).is_some_and(|arg| arg.get_action().takes_values())
    };
    let mut index = 1;
    while let Some(word) = words.get(index).and_then(|word| word.to_str()) {
        match word {
            "-" | "--" => break,
            word if word.starts_with('-') => index += 1 + usize::from(takes_next(word)),
            word if options.find_subcommand(word).is_some() => {
                if let Some(before) = words.get_mut(1..=index) {
                    before.rotate_right(1);
                }
                break;
            }
            _ => break,
        }
    }
    words
}

/// The commands. A model with the name of a command is written with its folder, `./simplify`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Convert a model; the word may be left out
    #[command(after_help = SHORT_EXAMPLES, after_long_help = EXAMPLES)]
    Convert(Box<Arguments>),
    Inspect(Inspect),
    Verify(Verify),
    Check(Check),
    Diff(Diff),
    Simplify(Simplify),
    Quantize(Quantize),
    Batch(Batch),
    Explain(Explain),
    Runner(Runner),
    Completions(Completions),
    Man(Man),
    #[command(skip)]
    ListPasses,
}

/// Returns the words of the options of a conversion, in an order that does not depend on the command
/// line, without those of messages and the `others`.
fn option_words(matches: &ArgMatches, others: &[&str]) -> Vec<OsString> {
    const MESSAGES: [&str; 3] = ["verbose", "quiet", "color"];
    let mut words = Vec::new();
    for arg in command().get_arguments() {
        let id = arg.get_id().as_str();
        let is_on_line = matches.ids().any(|known| known.as_str() == id)
            && matches.value_source(id) == Some(ValueSource::CommandLine)
            && !MESSAGES.iter().chain(others).any(|other| *other == id);
        let (true, Some(long)) = (is_on_line, arg.get_long()) else { continue };
        if !arg.get_action().takes_values() {
            words.push(OsString::from(format!("--{long}")));
            continue;
        }
        for value in matches.get_raw(id).into_iter().flatten() {
            let mut word = OsString::from(format!("--{long}="));
            word.push(value);
            words.push(word);
        }
    }
    words
}

/// Without this, the parser reports any superfluous word as a subcommand, and proposes unknown options as
/// names of files.
fn unexpected_word(mut error: clap::Error) -> clap::Error {
    let is_option = matches!(error.get(ContextKind::InvalidArg), Some(ContextValue::String(word)) if word.starts_with("--"));
    if is_option && error.get(ContextKind::SuggestedArg).is_none() {
        error.remove(ContextKind::Suggested);
    }
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if command().find_subcommand(word).is_none() => {
            command().error(ErrorKind::UnknownArgument, format!("unexpected argument '{word}' found"))
        }
        _ => error,
    }
}

/// The length from which on a word can be nearly the name of a command.
const SHORTEST_WORD: usize = 4;

/// Returns the parser's error for a first word that is nearly the name of a command, and not that of a file.
fn misspelled_verb(word: &OsStr) -> Option<clap::Error> {
    let letters = |word: &str| word.chars().all(|c| c.is_ascii_alphabetic());
    let is_word = word.to_str().is_some_and(|word| word.len() >= SHORTEST_WORD && letters(word));
    if !is_word || Path::new(word).exists() {
        return None;
    }
    // Without the arguments of a conversion, any word is a command.
    let verbs = command().get_subcommands().cloned().collect::<Vec<_>>();
    let verbs = clap::Command::new(env!("CARGO_PKG_NAME")).subcommands(verbs).subcommand_required(true);
    let error = verbs.try_get_matches_from([OsStr::new(env!("CARGO_PKG_NAME")), word]).err()?;
    error.get(ContextKind::SuggestedSubcommand).is_some().then_some(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Command, clap::Error> {
        Command::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn a_subcommand_is_a_first_word() {
        let simplify = |line| matches!(parse(line).unwrap(), Command::Simplify(_));
        assert!(simplify("onnx2ncnn simplify m.onnx out.onnx"));
        assert!(!simplify("onnx2ncnn ./simplify out.param out.bin"));
        assert!(!simplify("onnx2ncnn m.onnx simplify out.bin"));
        assert!(!simplify("onnx2ncnn -q ./simplify"));
        assert!(!simplify("onnx2ncnn --color never m.onnx simplify"));
        assert!(!simplify("onnx2ncnn -o simplify m.onnx"));
        for line in [
            "onnx2ncnn -q simplify m.onnx out.onnx",
            "onnx2ncnn --color never --skip a simplify m.onnx out.onnx",
            "onnx2ncnn --color=never -v simplify m.onnx out.onnx",
        ] {
            assert!(simplify(line), "{line}");
        }
        let Command::Convert(arguments) = parse("onnx2ncnn -q convert m.onnx").unwrap() else { panic!() };
        assert!(arguments.report.quiet);
        // Only conversions have this option.
        assert_eq!(parse("onnx2ncnn --fp16 inspect m.onnx").unwrap_err().exit_code(), 2);
        assert!(matches!(parse("onnx2ncnn --list-passes").unwrap(), Command::ListPasses));
        assert!(matches!(parse("onnx2ncnn convert m.onnx --fp16").unwrap(), Command::Convert(_)));
    }

    #[test]
    fn options_may_be_repeated() {
        let line = "onnx2ncnn m.onnx --outputs a,b --outputs c --input-shape x:0:1,3 --input-shape y:H -v";
        let Command::Convert(arguments) = parse(line).unwrap() else { panic!("{line}") };
        assert_eq!(arguments.source.outputs, ["a", "b", "c"]);
        assert_eq!(arguments.source.input_shapes.len(), 2);
        assert!(arguments.report.verbose);
    }

    #[test]
    fn conversion_options_of_a_batch_are_passed_on() {
        let line = "onnx2ncnn batch a -o out --jobs 2 -v --skip b --fp16 --outputs=x,y --outputs=-z --rename a=b=c --float32 p,q";
        let Command::Batch(batch) = parse(line).unwrap() else { panic!("{line}") };
        let words =
            ["--outputs=x,y", "--outputs=-z", "--skip=b", "--fp16", "--float32=p,q", "--rename=a=b=c"];
        assert_eq!(batch.words, words.map(OsString::from));
        let again = ["onnx2ncnn"].into_iter().map(OsString::from).chain(batch.words);
        let Command::Convert(arguments) =
            Command::parse(again.chain(["--", "m"].map(OsString::from))).unwrap()
        else {
            panic!("{line}")
        };
        assert_eq!(arguments.source.outputs, ["x", "y", "-z"]);
        assert_eq!(arguments.choices.rename, [("a=b".to_owned(), "c".to_owned())]);
    }

    #[test]
    fn invalid_command_lines_are_errors() {
        for line in [
            "onnx2ncnn",
            "onnx2ncnn a b c d",
            "onnx2ncnn m.onnx --inputshape 1,3",
            "onnx2ncnn m.onnx -q -v",
            "onnx2ncnn m.onnx --max-size many",
            "onnx2ncnn m.onnx --color sometimes",
            "onnx2ncnn m.onnx --input-shape 1,,2",
            "onnx2ncnn m.onnx --check=yes",
            "onnx2ncnn m.onnx --outputs a,,b",
            "onnx2ncnn m.onnx --ncnn-version 20251301",
            "onnx2ncnn m.onnx --ncnn-version 1.2",
            "onnx2ncnn m.onnx --outputs=",
            "onnx2ncnn simplify m.onnx",
            "onnx2ncnn batch a",
            "onnx2ncnn batch -o out",
            "onnx2ncnn batch a -o out --jobs 0",
            "onnx2ncnn batch a -o out --shard 2/2",
            "onnx2ncnn batch a -o out --emit-onnx b",
            "onnx2ncnn m.onnx --rename a",
            "onnx2ncnn simplify m.onnx out.onnx more",
            "onnx2ncnn quantize m.onnx a.param a.bin",
            "onnx2ncnn verfy m.onnx a.param a.bin",
            "onnx2ncnn inspct m.onnx",
            "onnx2ncnn m.onnx a.param -o out",
            "onnx2ncnn quantize m.onnx a.param a.bin --data x.npz --method mean",
            "onnx2ncnn m.onnx --list-passes",
            "onnx2ncnn --list-passes simplify a b",
            "onnx2ncnn -q inspect",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
