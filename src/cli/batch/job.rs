//! One model of a batch: locked, compared with its record, converted in a temporary folder, and moved to its
//! destination.
//!
//! The folder of results has a state folder for each model, with three entries. The *lock* belongs to the
//! process that handles the model, or to its child, which may outlive it. *work* contains unfinished files;
//! those that the next holder of the lock finds are from a killed run. The *record* describes the inputs of
//! the results.

use std::ffi::OsString;
use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use onnx2ncnn::FileInfo;
use onnx2ncnn::error::{Error, Result};
use sha2::{Digest, Sha256};

use super::Program;
use super::arguments::{Also, Batch};
use super::child::{self, Answer, Ended};
use super::config::Config;
use super::outcome::Outcome;
use super::record::{Folders, Recipe, Record, STATE, time_of};
use super::select::Selected;
use crate::cli::exit::{DIFFERENT, NOT_DONE, REFUSED};
use crate::cli::location::absolute;

/// Whether to wait for another run that handles the same model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    No,
    Yes,
}

/// The conversion of all models.
pub(super) struct Job {
    /// The folder of results.
    out: PathBuf,
    program: Program,
    words: Vec<OsString>,
    also: Vec<Also>,
    recipe: Recipe,
    config: Config,
    force: bool,
    timeout: Option<Duration>,
}

/// The state folder of a model, and its lock.
struct Claimed {
    folder: PathBuf,
    lock: File,
}

impl Job {
    pub fn new(arguments: &Batch, program: &Program) -> Result<Job> {
        let program = program.clone();
        let also = arguments.also();
        let mut options: Vec<String> =
            arguments.words.iter().map(|word| word.to_string_lossy().into_owned()).collect();
        options.extend(also.iter().map(|(_, file)| file.ending.to_owned()));
        let recipe = Recipe::new(&program.code()?, options)?;
        let mut words = arguments.words.clone();
        words.extend(arguments.report.verbose.then(|| OsString::from("--verbose")));
        let out = absolute(&arguments.out)?;
        let config = Config::read(arguments.config.as_deref(), &arguments.words)?;
        let timeout = arguments.timeout;
        Ok(Job { out, program, words, also, recipe, config, force: arguments.force, timeout })
    }

    /// Converts a model, unless its results are up to date.
    pub fn run(&self, model: &Selected, wait: Wait) -> Outcome {
        let done = self.claim(model, wait).and_then(|claimed| match claimed {
            Some(claimed) => self.run_claimed(model, &claimed),
            None => Ok(Outcome::Busy),
        });
        done.unwrap_or_else(Outcome::Failed)
    }

    fn claim(&self, model: &Selected, wait: Wait) -> Result<Option<Claimed>> {
        let name: String =
            Sha256::digest(&model.name).iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        let folder = self.out.join(STATE).join(name);
        let failed = |e| Error::io("the folder of records cannot be used", e).in_file(&folder);
        fs::create_dir_all(&folder).map_err(failed)?;
        let path = folder.join("lock");
        let lock = File::options()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(failed)?;
        match (wait, lock.try_lock()) {
            (Wait::No, Err(TryLockError::WouldBlock)) => return Ok(None),
            (Wait::Yes, Err(TryLockError::WouldBlock)) => lock.lock().map_err(failed)?,
            // On file systems without locks two runs may do the same work twice.
            (_, Err(TryLockError::Error(e))) if e.kind() != io::ErrorKind::Unsupported => {
                return Err(failed(e));
            }
            _ => {}
        }
        Ok(Some(Claimed { folder, lock }))
    }

    fn run_claimed(&self, model: &Selected, claimed: &Claimed) -> Result<Outcome> {
        let start = Instant::now();
        let path = absolute(&model.path)?;
        let folders = Folders { model: path.parent().unwrap_or(&path), out: &self.out };
        let record = claimed.folder.join("record.json");
        let options_of_model = self.config.words(&model.name);
        let recipe = self.recipe.with(&options_of_model);
        let known = Record::read(&record).filter(|_| !self.force);
        if let Some(known) = known.filter(|known| known.is_current(&recipe, folders, &path)) {
            let files = known.files();
            return Ok(Outcome::UpToDate { summary: known.summary, files });
        }
        let work = Work::new(claimed.folder.join("work"))?;
        let begun = time_of(&work.0).map_err(|e| work.failed(e))?;
        let stem = model.name.rsplit('/').next().unwrap_or_default();
        let file = |ending: &str| work.0.join(format!("{stem}.ncnn.{ending}"));
        let mut words = self.words.clone();
        words.extend(options_of_model.into_iter().map(OsString::from));
        for (info, FileInfo { ending, .. }) in &self.also {
            words.extend([OsString::from(format!("--{}", info.long_name())), file(ending).into()]);
        }
        let (param, bin) = (file("param"), file("bin"));
        let Ended { status, output, answer, reasons, is_late } = claimed
            .lock
            .try_clone()
            .and_then(|lock| child::convert(&self.program, &words, [&path, &param, &bin], lock, self.timeout))
            .map_err(|e| Error::io("the process cannot be started", e))?;
        // Commands that it proposes are for the user, whose results are not among unfinished files.
        let folder = self.folder_of(model);
        let output = output.replace(&work.0.display().to_string(), &folder.display().to_string());
        if is_late {
            let how = format!("was stopped after {} s", self.timeout.unwrap_or_default().as_secs_f64());
            return Ok(Outcome::Broken { how, is_late, output });
        }
        let refused =
            [REFUSED, NOT_DONE, DIFFERENT].into_iter().find(|code| status.code() == Some((*code).into()));
        if let Some(code) = refused {
            self.put_reports(&work, model, stem, &record)?;
            return Ok(Outcome::Refused { code, output, reasons });
        }
        let Some(answer) = answer.filter(|_| status.success()) else {
            return Ok(Outcome::Broken { how: format!("ended with {status}"), is_late, output });
        };
        let results = self.put(&work, model, &answer, &record)?;
        let written = Record::new(&recipe, folders, &answer, &results, begun);
        let failed = |e| Error::io("the record cannot be written", e).in_file(&record);
        if let Some(new) = written.map_err(failed)? {
            new.write(&record).map_err(failed)?;
        }
        Ok(Outcome::Converted { summary: answer.summary, output, elapsed: start.elapsed(), files: results })
    }

    /// Moves the results to their destination, and returns its path below the folder of results.
    fn put(&self, work: &Work, model: &Selected, answer: &Answer, record: &Path) -> Result<Vec<PathBuf>> {
        let below = Path::new(&model.name).parent().unwrap_or(Path::new(""));
        let folder = self.make_folder_of(model)?;
        let entries: io::Result<Vec<_>> = fs::read_dir(&work.0).and_then(Iterator::collect);
        let mut names: Vec<OsString> =
            entries.map_err(|e| work.failed(e))?.iter().map(fs::DirEntry::file_name).collect();
        names.sort();
        for name in &names {
            let destination = folder.join(name);
            let real = destination.canonicalize().ok();
            let is_source = |source: &PathBuf| real.is_some() && source.canonicalize().ok() == real;
            if answer.sources.iter().any(is_source) {
                return Err(Error::usage("this would overwrite data of the model").in_file(destination));
            }
        }
        forget(record)?;
        for name in &names {
            work.put(name, &folder)?;
        }
        Ok(names.iter().map(|name| below.join(name)).collect())
    }

    /// Returns the patterns of the file of options to which none of these models belongs.
    pub fn unmatched(&self, names: &[&str]) -> Vec<&str> {
        self.config.unmatched(names).collect()
    }

    /// Returns the folder of the results of a model.
    fn folder_of(&self, model: &Selected) -> PathBuf {
        self.out.join(&model.name).parent().map_or_else(|| self.out.clone(), Path::to_owned)
    }

    /// Returns the folder of the results of a model, which is made if it is not there.
    fn make_folder_of(&self, model: &Selected) -> Result<PathBuf> {
        let folder = self.folder_of(model);
        fs::create_dir_all(&folder)
            .map_err(|e| Error::io("the folder cannot be created", e).in_file(&folder))?;
        Ok(folder)
    }

    /// Moves the requested reports of a refused model, unless it has a net of an earlier run, whose report
    /// stays.
    fn put_reports(&self, work: &Work, model: &Selected, stem: &str, record: &Path) -> Result<()> {
        if self.folder_of(model).join(format!("{stem}.ncnn.param")).exists() {
            return Ok(());
        }
        for (_, file) in self.also.iter().filter(|(_, file)| file.is_report) {
            let name = OsString::from(format!("{stem}.ncnn.{}", file.ending));
            if work.0.join(&name).exists() {
                forget(record)?;
                work.put(&name, &self.make_folder_of(model)?)?;
            }
        }
        Ok(())
    }
}

/// Removes a record, before its results are replaced.
fn forget(record: &Path) -> Result<()> {
    match fs::remove_file(record) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Error::io("the record cannot be removed", e).in_file(record))
        }
        _ => Ok(()),
    }
}

/// A folder for unfinished files, removed at the end.
struct Work(PathBuf);

impl Work {
    fn new(path: PathBuf) -> Result<Work> {
        let work = Work(path);
        work.remove();
        fs::create_dir(&work.0).map_err(|e| work.failed(e))?;
        Ok(work)
    }

    /// Moves a file to its folder.
    fn put(&self, name: &OsString, folder: &Path) -> Result<()> {
        let destination = folder.join(name);
        fs::rename(self.0.join(name), &destination)
            .map_err(|e| Error::io("the file cannot be moved to its destination", e).in_file(&destination))
    }

    fn remove(&self) {
        // A folder that cannot be removed cannot be created either, which is reported.
        let _ = fs::remove_dir_all(&self.0);
    }

    fn failed(&self, error: io::Error) -> Error {
        Error::io("the folder of unfinished files cannot be used", error).in_file(&self.0)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.remove();
    }
}
