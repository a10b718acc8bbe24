//! The command `batch`: converts many models, each in a separate process.
//!
//! `batch` starts this program again for each model. Threads would share a fate: an allocation
//! that fails aborts the process, and a system that runs out of memory kills it. A process ends by itself,
//! its memory is returned for certain, and it starts in a few milliseconds. It gets the options of the
//! command line verbatim, so every option of a conversion works without further code, and answers with a
//! line of JSON, which a variable of the environment asks for.
//!
//! The output folder has a hidden folder for each model, with a *lock*, a *record* and, during the
//! conversion, *work*. The lock is the standard input of the converting process, so it is locked as long as
//! that process lives, even if the run that started it was killed. Results are written to *work*, on the same
//! file system, and renamed to their destinations. The record is removed before that and written after it:
//! if a run is killed at any time, either results and record are complete, or the record is missing and the
//! model is converted again. No record is written if a source file changed after the conversion began.
//!
//! The shard of a model is the SHA-256 of its name modulo the number of shards, so runs that see different
//! files agree.
//!
//! | file | contents |
//! | --- | --- |
//! | `arguments.rs` | the command line |
//! | `select.rs` | the models, and the names of their results |
//! | `job.rs` | one model: locked, compared with its record, converted, moved to its destination |
//! | `child.rs` | the converting process, and its answer |
//! | `record.rs` | the inputs of a result |
//! | `progress.rs` | the output during a batch |
//! | `row.rs` | the result of a model as a line of JSON |

mod arguments;
mod child;
mod config;
mod job;
mod outcome;
mod progress;
mod record;
mod row;
mod select;

use std::collections::VecDeque;
use std::num::NonZeroUsize;
use std::sync::{Mutex, PoisonError, mpsc};
use std::thread;

use onnx2ncnn::Refusal;
use onnx2ncnn::error::{Error, Result};

use super::Program;
use super::exit::finish;
use super::message::MessageFormat;
use super::terminal::{NOTICE, labelled, printable, tell};
use job::{Job, Wait};
use outcome::Outcome;
use progress::{Event, Progress};
use select::{Selected, Selection, select_models};

pub(super) use arguments::Batch;
pub(super) use child::{ANSWER, Answer, Reasons};

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
    let Selection { models, failed, names } = select_models(arguments)?;
    std::fs::create_dir_all(&arguments.out)
        .map_err(|e| Error::io("the folder cannot be created", e).in_file(&arguments.out))?;
    let job = Job::new(arguments, program)?;
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for pattern in job.unmatched(&names) {
        let mut text = String::new();
        labelled(
            &mut text,
            NOTICE,
            "warning",
            &format!("no model matches the pattern \"{}\"{}", printable(pattern), of_files(pattern)),
        );
        tell(&text, arguments.report.color);
    }
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

/// Returns what a pattern without a folder is compared with.
fn of_files(pattern: &str) -> &'static str {
    match pattern.contains('/') {
        true => "",
        false => ": it is compared with the names of files, and one with a \"/\" with the folders, too",
    }
}
