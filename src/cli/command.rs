//! The command line and its subcommands.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory, FromArgMatches, Parser, Subcommand};

use super::arguments::Arguments;
use super::batch::{Batch, given_words};
use super::generate::Completions;
use super::inspect::Inspect;
use super::quantize::Quantize;
use super::simplify::Simplify;
use super::verify::Verify;

const ABOUT: &str = "Converts an ONNX model to ncnn's .param and .bin: right, or refused with a reason";

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn model.onnx
      writes model.ncnn.param and model.ncnn.bin beside the model
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

/// The command line.
#[derive(Debug, Parser)]
#[command(version, after_help = EXAMPLES, max_term_width = 100)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
#[command(disable_help_subcommand = true, subcommand_help_heading = "Other commands, as a first word")]
struct Other {
    #[command(subcommand)]
    command: Option<Command>,

    /// List the passes that --skip disables
    #[arg(long, exclusive = true, help_heading = "Passes")]
    list_passes: bool,
}

/// The parsed command.
#[derive(Debug)]
pub(super) enum Request {
    Convert(Arguments),
    ListPasses,
    Other(Command),
}

/// Returns the definition of the command line.
pub(super) fn command() -> clap::Command {
    // The arguments of a conversion are optional: a subcommand may take their place.
    Arguments::augment_args(Other::command()).about(ABOUT)
}

impl Request {
    /// Parses a command line; the first word is the name of the program.
    pub fn parse(words: impl IntoIterator<Item = OsString>) -> Result<Request, clap::Error> {
        let matches = command().try_get_matches_from(words).map_err(unexpected_word)?;
        Ok(match Other::from_arg_matches(&matches)? {
            Other { command: Some(mut command), .. } => {
                if let (Command::Batch(batch), Some((_, matches))) = (&mut command, matches.subcommand()) {
                    batch.words = given_words(matches);
                }
                Request::Other(command)
            }
            Other { list_passes: true, .. } => Request::ListPasses,
            Other { .. } => Request::Convert(Arguments::from_arg_matches(&matches)?),
        })
    }
}

/// Commands other than conversion. A model with the name of a command is written with its folder,
/// `./simplify`.
#[derive(Debug, Subcommand)]
pub(super) enum Command {
    Batch(Batch),
    Simplify(Simplify),
    Verify(Verify),
    Quantize(Quantize),
    Inspect(Inspect),
    Completions(Completions),
    /// Write the manual page to standard output
    Man,
}

/// Without this, the parser reports any superfluous word as a subcommand.
fn unexpected_word(error: clap::Error) -> clap::Error {
    match error.get(ContextKind::InvalidSubcommand) {
        Some(ContextValue::String(word)) if command().find_subcommand(word).is_none() => {
            command().error(ErrorKind::UnknownArgument, format!("unexpected argument '{word}' found"))
        }
        _ => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Request, clap::Error> {
        Request::parse(line.split_whitespace().map(OsString::from))
    }

    #[test]
    fn the_command_is_well_formed() {
        command().debug_assert();
    }

    #[test]
    fn a_subcommand_is_a_first_word() {
        let simplify = |line| matches!(parse(line).unwrap(), Request::Other(Command::Simplify(_)));
        assert!(simplify("onnx2ncnn simplify m.onnx out.onnx"));
        assert!(!simplify("onnx2ncnn ./simplify out.param out.bin"));
        assert!(!simplify("onnx2ncnn m.onnx simplify out.bin"));
        assert!(!simplify("onnx2ncnn -q simplify"));
        assert!(matches!(parse("onnx2ncnn --list-passes").unwrap(), Request::ListPasses));
    }

    #[test]
    fn options_may_be_repeated() {
        let line = "onnx2ncnn m.onnx --outputs a,b --outputs c --input-shape x:0:1,3 --input-shape y:H -v";
        let Request::Convert(arguments) = parse(line).unwrap() else { panic!("{line}") };
        assert_eq!(arguments.source.outputs, ["a", "b", "c"]);
        assert_eq!(arguments.source.input_shape.len(), 2);
        assert!(arguments.report.verbose);
    }

    #[test]
    fn conversion_options_of_a_batch_are_passed_on() {
        let line = "onnx2ncnn batch a -o out --jobs 2 -v --skip b --fp16 --outputs=x,y --outputs=-z --rename a=b=c --float32 p,q";
        let Request::Other(Command::Batch(batch)) = parse(line).unwrap() else { panic!("{line}") };
        let words = [
            "--fp16",
            "--float32=p",
            "--float32=q",
            "--rename=a=b=c",
            "--outputs=x",
            "--outputs=y",
            "--outputs=-z",
            "--skip=b",
        ];
        assert_eq!(batch.words, words.map(OsString::from));
        let again = ["onnx2ncnn"].into_iter().map(OsString::from).chain(batch.words);
        let Request::Convert(arguments) =
            Request::parse(again.chain(["--", "m"].map(OsString::from))).unwrap()
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
            "onnx2ncnn quantize m.onnx a.param a.bin --data x.npz --method mean",
            "onnx2ncnn m.onnx --list-passes",
            "onnx2ncnn --list-passes simplify a b",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
