//! The command `batch`: converts many models, each in a separate process.
//!
//! `batch` starts this program again for each model. Threads would share a fate: an allocation
//! that fails aborts the process, and a system that runs out of memory kills it. A process ends alone, its
//! memory is returned for certain, and it starts in a few milliseconds. It gets the options of the command
//! line verbatim, so every option of a conversion works without further code, and answers with a line of
//! JSON, which a variable of the environment asks for.
//!
//! The output folder has a hidden folder for each model, with a *lock*, a *record* and, during the
//! conversion, *work*. The lock is the standard input of the converting process, so it is held as long as
//! that process lives, even if the run that started it was killed. Results are written to *work*, on the same
//! file system, and renamed to their places. The record is removed before that and written after it: if a run
//! is killed at any time, either results and record are complete, or the record is missing and the model is
//! converted again. No record is written if a source file changed after the conversion began.
//!
//! The shard of a model is the SHA-256 of its name modulo the number of shards, so runs that see different
//! files agree.
//!
//! | file | contents |
//! | --- | --- |
//! | `select.rs` | the models, and the names of their results |
//! | `job.rs` | one model: locked, compared with its record, converted, moved to its destination |
//! | `child.rs` | the converting process, and its answer |
//! | `record.rs` | the inputs of a result |
//! | `progress.rs` | the output during a batch |
//! | `row.rs` | the result of a model as a line of JSON |

mod child;
mod config;
mod job;
mod outcome;
mod progress;
mod record;
mod row;
mod select;

use std::collections::VecDeque;
use std::ffi::OsString;
use std::num::{NonZeroU64, NonZeroUsize};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use clap::Args;
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use onnx2ncnn::error::{Error, Result};
use onnx2ncnn::{FileInfo, OptionInfo, Refusal, options};

use super::Program;
use super::arguments::{MessageFormat, Report};
use super::exit::finish;
use super::options::{Given, Net, Source};
use job::{Job, Wait};
use outcome::Outcome;
use progress::{Event, Progress};
use select::{Selected, Selection, Shard, parse_shard, select_models};

pub(super) use child::{ANSWER, Answer, given_words};
pub(super) use row::diagnostics;

const EXAMPLES: &str = "\
Examples:
  onnx2ncnn batch models -o out
      converts every .onnx file below models; out/a/b.ncnn.param comes of models/a/b.onnx
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
The highest of them, where several apply.";

/// Convert many models, several at a time
#[derive(Debug, Args)]
#[command(after_long_help = EXAMPLES)]
pub(super) struct Batch {
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
    #[arg(long, value_name = "SECONDS", help_heading = "Batch")]
    pub timeout: Option<NonZeroU64>,

    /// Convert part I of N, from 0 to N-1. The parts are disjoint, and the same in every run
    #[arg(long, value_name = "I/N", value_parser = parse_shard, help_heading = "Batch")]
    shard: Option<Shard>,

    /// Create folders relative to this one [default: each DIR, the fixed part of a GLOB, the current folder
    /// for a LIST]
    #[arg(long, value_name = "DIR", help_heading = "Batch")]
    pub base: Option<PathBuf>,

    /// Options by the names of models [default: onnx2ncnn.toml of the current folder, if there is one]
    #[arg(long, value_name = "FILE.toml", help_heading = "Batch")]
    pub config: Option<PathBuf>,

    /// Also write these files, beside the others
    #[arg(long, value_name = "KIND", value_delimiter = ',', value_parser = parse_also(), help_heading = "Batch")]
    pub also: Vec<String>,

    /// Print a line of JSON for each finished model on standard output
    #[arg(long, help_heading = "Batch")]
    pub json_lines: bool,

    #[command(flatten)]
    pub choices: Given<Net>,

    #[command(flatten)]
    pub source: Given<Source>,

    #[command(flatten)]
    pub report: Report,

    /// The conversion options, passed on for each model.
    #[arg(skip)]
    pub words: Vec<OsString>,
}

/// A further file of each model: its option, and what is known of the file.
type Also = (&'static OptionInfo, FileInfo);

/// Returns the further files of each model, in the order of their options.
fn also() -> impl Iterator<Item = Also> {
    options().iter().filter_map(|info| Some((info, info.file?)))
}

/// Returns the parser of a further file, by the word of its option.
fn parse_also() -> impl TypedValueParser<Value = String> {
    let value = |(info, file): Also| {
        let refused = if file.is_report { ", also of refused models" } else { "" };
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
    fn also(&self) -> Vec<Also> {
        also().filter(|(info, _)| self.also.contains(&kind(info))).collect()
    }
}

/// Converts all models and prints the results.
pub(super) fn convert_all(arguments: &Batch, program: &Program) -> u8 {
    match run(arguments, program) {
        Ok(code) => code,
        Err(error) => finish(Err(Refusal::from(error)), arguments.report, MessageFormat::Human),
    }
}

fn run(arguments: &Batch, program: &Program) -> Result<u8> {
    if arguments.also().iter().any(|(info, _)| info.name == "table") && !arguments.choices.dequantize {
        return Err(Error::usage("a table of scales requires --dequantize"));
    }
    let Selection { models, failed } = select_models(arguments)?;
    std::fs::create_dir_all(&arguments.out)
        .map_err(|e| Error::io("the folder cannot be created", e).in_file(&arguments.out))?;
    let job = Job::new(arguments, program)?;
    let jobs = arguments.jobs.or(thread::available_parallelism().ok()).map_or(1, NonZeroUsize::get);
    let jobs = jobs.min(models.len());
    let mut progress =
        Progress::new(models.len() + failed.len(), jobs, arguments.json_lines, arguments.report);
    for (name, error) in failed {
        progress.tell(Event::Done { worker: None, name, outcome: Outcome::Failed(error) });
    }
    let left = Mutex::new(Left { first: models.into(), busy: VecDeque::new() });
    thread::scope(|scope| {
        let (sender, events) = mpsc::channel();
        for worker in 0..jobs {
            let (sender, left, job) = (sender.clone(), &left, &job);
            scope.spawn(move || work(worker, left, job, &sender));
        }
        drop(sender);
        events.iter().for_each(|event| progress.tell(event));
    });
    Ok(progress.finish())
}

/// The remaining models.
struct Left {
    first: VecDeque<Selected>,
    /// Models that another run handles: they are waited for when nothing else is left.
    busy: VecDeque<Selected>,
}

impl Left {
    fn next(&mut self) -> Option<(Selected, Wait)> {
        let first = self.first.pop_front().map(|model| (model, Wait::No));
        first.or_else(|| self.busy.pop_front().map(|model| (model, Wait::Yes)))
    }
}

fn work(worker: usize, left: &Mutex<Left>, job: &Job, events: &mpsc::Sender<Event>) {
    // A lock is poisoned only by a panic of its holder, which only removes list entries.
    let locked = || left.lock().unwrap_or_else(PoisonError::into_inner);
    loop {
        let Some((model, wait)) = locked().next() else { return };
        let send = |event| {
            // The receiver is gone only at the end of the run.
            let _ = events.send(event);
        };
        send(Event::Begun { worker, name: model.name.clone() });
        match job.run(&model, wait) {
            Outcome::Busy => {
                send(Event::Put { worker });
                locked().busy.push_back(model);
            }
            outcome => send(Event::Done { worker: Some(worker), name: model.name, outcome }),
        }
    }
}
