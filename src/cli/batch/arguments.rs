//! The arguments of a batch.

use std::ffi::OsString;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use onnx2ncnn::{FileInfo, OptionInfo, options};
use sha2::{Digest, Sha256};

use crate::cli::arguments::HalfPrecision;
use crate::cli::message::Report;
use crate::cli::options::{Net, Requested, Source};

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn batch models -o out
      converts every .onnx file below models; out/a/b.ncnn.param comes from models/a/b.onnx
  onnx2ncnn batch 'models/**/v2/*.onnx' -o out --jobs 4 --fp16
  find /data -name '*.onnx' | onnx2ncnn batch - -o out --base /data
  onnx2ncnn batch list.txt -o out --shard $JOB_COMPLETION_INDEX/8
      one of eight jobs of Kubernetes that share a list; Slurm has $SLURM_ARRAY_TASK_ID, AWS Batch
      $AWS_BATCH_JOB_ARRAY_INDEX

What is up to date is left alone: the model, its external data, the options and the program are the
same as when the result was made. A run that was killed is taken up again by the same command line.

Exit codes:
  0  all models are converted, or were up to date
  1  some are refused; all others are converted
  2  some cannot be read or written, or the command line is wrong
  3  the conversion of some was killed, for want of memory or time perhaps, or broke off
  4  the nets of some differ from their models: see --verify
The highest of them, where several apply.";

/// Convert many models, several at a time
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(in crate::cli) struct Batch {
    /// Folders, patterns such as 'a/**/*.onnx', .onnx files, and text files with one path per line; - reads
    /// such lines
    #[arg(required = true, value_name = "DIR|GLOB|LIST")]
    pub sources: Vec<PathBuf>,

    /// The folder of the results, in which the folders of the sources are created anew
    #[arg(short, long, value_name = "DIR", help_heading = "Batch")]
    pub out: PathBuf,

    /// The number of models that are converted at the same time [default: that of the processors]
    #[arg(short, long, value_name = "N", help_heading = "Batch")]
    pub jobs: Option<NonZeroUsize>,

    /// Also convert models that are up to date
    #[arg(long, help_heading = "Batch")]
    pub force: bool,

    /// Stop the conversion of a model after this time
    #[arg(long, value_name = "SECONDS", value_parser = parse_seconds, help_heading = "Batch")]
    pub timeout: Option<Duration>,

    /// Convert part I of N, from 0 to N-1. The parts are disjoint, and the same in every run
    #[arg(long, value_name = "I/N", value_parser = parse_shard, help_heading = "Batch")]
    pub(super) shard: Option<Shard>,

    /// Create folders relative to this one [default: each DIR, the fixed part of a GLOB, the current folder
    /// for a LIST]
    #[arg(long, value_name = "DIR", help_heading = "Batch")]
    pub base: Option<PathBuf>,

    /// Options by the names of models [default: onnx2ncnn.toml of the current folder, if there is one]
    #[arg(long, value_name = "FILE.toml", help_heading = "Batch")]
    pub config: Option<PathBuf>,

    /// Also write these files, in addition to the others
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = parse_also(), help_heading = "Batch")]
    pub also: Vec<String>,

    /// Print a line of JSON for each finished model on standard output
    #[arg(long, help_heading = "Batch")]
    pub json_lines: bool,

    #[command(flatten)]
    pub choices: Requested<Net>,

    #[command(flatten)]
    pub source: Requested<Source>,

    #[command(flatten)]
    pub half: HalfPrecision,

    /// Compare each layer with the model before the files are put in place
    #[arg(long, help_heading = "Result")]
    pub verify: bool,

    #[command(flatten)]
    pub report: Report,

    /// The conversion options, passed on for each model.
    #[arg(skip)]
    pub words: Vec<OsString>,
}

/// A further file of each model: its option, and what is known of the file.
pub(super) type Also = (&'static OptionInfo, FileInfo);

/// Returns the further files of each model, in the order of their options.
fn also() -> impl Iterator<Item = Also> {
    options().iter().filter_map(|info| Some((info, info.file?)))
}

/// Returns the parser of a further file, by the word of its option.
fn parse_also() -> impl TypedValueParser<Value = String> {
    let value = |(info, file): Also| {
        let refused =
            if file.is_report { ", also of refused models without a net of an earlier run" } else { "" };
        PossibleValue::new(kind(info)).help(format!("{}, .ncnn.{}{refused}", file.about, file.ending))
    };
    PossibleValuesParser::new(also().map(value))
}

/// Returns the name of a further file on the command line.
fn kind(info: &OptionInfo) -> String {
    info.long_name().trim_start_matches("emit-").to_owned()
}

impl Batch {
    /// Returns the further files of each model, in the order of their options.
    pub(super) fn also(&self) -> Vec<Also> {
        also().filter(|(info, _)| self.also.contains(&kind(info))).collect()
    }
}

/// Part `index` of `count`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shard {
    index: u64,
    count: u64,
}

/// Reads a time of at least a millisecond.
fn parse_seconds(text: &str) -> std::result::Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| (1e-3..=1e9).contains(seconds));
    seconds.map(Duration::from_secs_f64).ok_or_else(|| "expected seconds, such as 60 or 0.5".to_owned())
}

fn parse_shard(text: &str) -> std::result::Result<Shard, String> {
    let numbers = text.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
    match numbers {
        Some((index, count)) if index < count => Ok(Shard { index, count }),
        _ => Err("expected I/N, with I from 0 to N-1, such as 0/8".to_owned()),
    }
}

impl Shard {
    /// Returns whether a model is in this part. This depends only on the model's name, so that runs with
    /// different models agree.
    pub fn has(self, name: &str) -> bool {
        let hash = Sha256::digest(name);
        let head = hash.iter().take(8).fold(0_u64, |number, byte| (number << 8) | u64::from(*byte));
        head % self.count == self.index
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_is_in_one_part() {
        let names: Vec<String> = (0..1000).map(|i| format!("folder/model_{i}")).collect();
        let shards: Vec<Shard> = (0..7).map(|i| parse_shard(&format!("{i}/7")).unwrap()).collect();
        for name in &names {
            assert_eq!(shards.iter().filter(|shard| shard.has(name)).count(), 1, "{name}");
        }
        for shard in shards {
            let share = names.iter().filter(|name| shard.has(name)).count();
            assert!((100..200).contains(&share), "{shard:?} has {share}");
        }
        assert!(parse_shard("0/2").unwrap().has("a/b") != parse_shard("1/2").unwrap().has("a/b"));
        for text in ["", "1", "1/1", "2/1", "-1/2", "0/0", "a/b", "1/2/3"] {
            assert!(parse_shard(text).is_err(), "{text}");
        }
    }
}
