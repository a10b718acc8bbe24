//! What can be said on the command line.

use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::{ColorChoice, Parser};

use super::shape::{InputShape, parse_input_shape};
use super::size::parse_bytes;

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
After 1 and 2 nothing has been written; files that were there before are as they were.";

/// What `MODEL` is where the model comes from standard input.
pub(super) const STANDARD_INPUT: &str = "-";

/// Converts an ONNX model to ncnn's .param and .bin: right, or refused with a reason.
#[derive(Debug, Parser)]
#[command(version, about, after_help = EXAMPLES, max_term_width = 100)]
pub(super) struct Arguments {
    /// The ONNX model; - reads standard input
    pub model: PathBuf,

    /// The .param file to write [default: model.ncnn.param beside model.onnx]
    pub param: Option<PathBuf>,

    /// The .bin file to write [default: beside the .param file, by its name]
    pub bin: Option<PathBuf>,

    /// The shape of an input: numbers, or names for sizes that stay free [NAME: the only input]
    #[arg(long, value_name = "NAME:1,3,H,W", value_parser = parse_input_shape, help_heading = "Model")]
    pub input_shape: Vec<InputShape>,

    /// Convert only what comes after these values; they become the inputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub inputs: Vec<String>,

    /// Convert only what comes before these values; they become the outputs
    #[arg(long, value_name = "A,B", value_delimiter = ',', value_parser = name(), help_heading = "Model")]
    pub outputs: Vec<String>,

    /// The folder of external data [default: the folder of the model]
    #[arg(long, value_name = "DIR", help_heading = "Model")]
    pub data_dir: Option<PathBuf>,

    /// Refuse a model file of more bytes than this, such as 8GB
    #[arg(long, value_name = "SIZE", value_parser = parse_bytes, help_heading = "Model")]
    pub max_size: Option<u64>,

    /// Take double-precision inputs as singles, which is all that ncnn computes in
    #[arg(long, help_heading = "Model")]
    pub double_as_float: bool,

    /// Also write the simplified model as ONNX
    #[arg(long, value_name = "FILE", help_heading = "Model")]
    pub emit_onnx: Option<PathBuf>,

    /// Leave out these passes
    #[arg(long, value_name = "NAME", value_delimiter = ',', value_parser = name(), help_heading = "Passes")]
    pub skip: Vec<String>,

    /// Check the graph after every pass
    #[arg(long, help_heading = "Report")]
    pub check: bool,

    /// Tell more: passes, and every node of a refusal
    #[arg(short, long, help_heading = "Report")]
    pub verbose: bool,

    /// Tell nothing but errors
    #[arg(short, long, conflicts_with = "verbose", help_heading = "Report")]
    pub quiet: bool,

    /// When to use colours
    #[arg(long, value_name = "WHEN", default_value = "auto", help_heading = "Report")]
    pub color: ColorChoice,
}

fn name() -> NonEmptyStringValueParser {
    NonEmptyStringValueParser::new()
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    fn parse(line: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(line.split_whitespace())
    }

    #[test]
    fn the_command_is_well_formed() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn lists_may_be_repeated() {
        let arguments =
            parse("onnx2ncnn m.onnx --outputs a,b --outputs c --input-shape x:0:1,3 --input-shape y:H -v")
                .unwrap();
        assert_eq!(arguments.outputs, ["a", "b", "c"]);
        assert_eq!(arguments.input_shape.len(), 2);
        assert!(arguments.verbose);
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
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
            "onnx2ncnn m.onnx --outputs=",
        ] {
            let error = parse(line).unwrap_err();
            assert_eq!(error.exit_code(), 2, "{line}");
        }
    }
}
