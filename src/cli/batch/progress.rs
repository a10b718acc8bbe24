//! Output during a batch: on a terminal a progress bar and a line for each running conversion, and always a
//! line for each finished model.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::super::exit::{NOT_DONE, REFUSED};
use super::super::message::Report;
use super::super::refusal;
use super::super::size::display_bytes;
use super::super::terminal::{BAD, NOTICE, STRONG, list, print, printable, shows_bars, tell};
use super::outcome::Outcome;
use super::row::{row, status_of};
use crate::common::count::count;

/// The exit code if a conversion was killed or crashed.
const BROKEN: u8 = 3;

/// The interval of animations.
const TICK: Duration = Duration::from_millis(120);

/// The maximum number of models listed at the end, without -v.
const MAX_ROWS: usize = 100;

const GOOD: Style = AnsiColor::Green.on_default();

/// Messages of workers.
#[derive(Debug)]
pub(super) enum Event {
    /// A worker has started a model.
    Begun { worker: usize, name: String },
    /// It has postponed the model.
    Put { worker: usize },
    /// It has finished the model; `None` if no worker could start it.
    Done { worker: Option<usize>, name: String, outcome: Outcome },
}

/// The progress so far.
pub(super) struct Progress {
    report: Report,
    /// Whether each finished model is a line of JSON on standard output.
    json_lines: bool,
    start: Instant,
    models: usize,
    done: usize,
    converted: usize,
    up_to_date: usize,
    /// Failed models: status, name and reason.
    wrong: Vec<(&'static str, String, String)>,
    code: u8,
    bars: Option<Bars>,
}

/// The progress bars on a terminal.
struct Bars {
    all: MultiProgress,
    total: ProgressBar,
    workers: Vec<ProgressBar>,
}

impl Bars {
    /// Creates the bars on a terminal.
    fn new(models: usize, jobs: usize, report: Report) -> Option<Bars> {
        if !shows_bars(report) {
            return None;
        }
        let style = |template: &str| ProgressStyle::with_template(template).ok();
        let models = u64::try_from(models).unwrap_or(u64::MAX);
        let all = MultiProgress::new();
        let total = all.add(ProgressBar::new(models));
        total.set_style(style("{bar:32} {pos} of {len} in {elapsed}, about {eta} to go")?);
        let turning = style("{spinner} {elapsed:>4} {wide_msg}")?;
        let workers =
            (0..jobs).map(|_| all.add(ProgressBar::new_spinner().with_style(turning.clone()))).collect();
        Some(Bars { all, total, workers })
    }

    fn show(&self, worker: usize, name: Option<&str>) {
        let Some(bar) = self.workers.get(worker) else { return };
        match name {
            Some(name) => {
                bar.reset_elapsed();
                bar.set_message(printable(name));
                bar.enable_steady_tick(TICK);
            }
            None => {
                bar.disable_steady_tick();
                bar.set_message("");
            }
        }
    }
}

impl Progress {
    pub fn new(models: usize, jobs: usize, json_lines: bool, report: Report) -> Progress {
        Progress {
            report,
            json_lines,
            start: Instant::now(),
            models,
            done: 0,
            converted: 0,
            up_to_date: 0,
            wrong: Vec::new(),
            code: 0,
            bars: Bars::new(models, jobs, report),
        }
    }

    pub fn tell(&mut self, event: Event) {
        match event {
            Event::Begun { worker, name } => {
                if let Some(bars) = &self.bars {
                    bars.show(worker, Some(&name));
                }
            }
            Event::Put { worker } => {
                if let Some(bars) = &self.bars {
                    bars.show(worker, None);
                }
            }
            Event::Done { worker, name, outcome } => {
                self.done += 1;
                if let Some(row) = row(&name, &outcome).filter(|_| self.json_lines) {
                    // A closed pipe is not an error.
                    print(&format!("{row}\n"), ColorChoice::Never);
                }
                let text = self.describe(&name, outcome);
                match &self.bars {
                    Some(bars) => {
                        if let Some(worker) = worker {
                            bars.show(worker, None);
                        }
                        bars.total.inc(1);
                        bars.all.suspend(|| tell(&text, self.report.color));
                    }
                    None => tell(&text, self.report.color),
                }
            }
        }
    }

    /// Returns the line of a model, and the output of its process if it matters.
    fn describe(&mut self, name: &str, outcome: Outcome) -> String {
        let (style, word, rest, output) = match outcome {
            Outcome::Converted { summary, output, elapsed, .. } => {
                self.converted += 1;
                let warnings = match summary.warnings.len() {
                    0 => String::new(),
                    n => format!(", {}", count(n, "warning")),
                };
                let rest = format!(
                    "{}, {} in {:.2} s{warnings}",
                    count(summary.layers, "layer"),
                    display_bytes(summary.bytes),
                    elapsed.as_secs_f64()
                );
                (GOOD, "converted", rest, if self.report.verbose { output } else { String::new() })
            }
            Outcome::UpToDate { .. } => {
                self.up_to_date += 1;
                (GOOD, "up to date", String::new(), String::new())
            }
            Outcome::Refused { code, output, .. } => {
                let word = status_of(code);
                self.wrong(name, word, code, String::new(), output)
            }
            Outcome::Broken { how, is_late, output } => {
                // A crashed process may have left styles set.
                let plain = anstream::adapter::strip_str(&output).to_string();
                let lines: Vec<String> = plain.lines().map(printable).collect();
                let how = format!("the conversion {how}");
                let word = if is_late { "timed out" } else { "broken off" };
                self.wrong(name, word, BROKEN, how, lines.join("\n"))
            }
            Outcome::Failed(error) => self.wrong(
                name,
                "failed",
                NOT_DONE,
                String::new(),
                refusal::describe([&error], &[], true, true),
            ),
            // A postponed model is reported when it is finished.
            Outcome::Busy => return String::new(),
        };
        if self.report.quiet && style != BAD {
            return String::new();
        }
        let width = self.models.to_string().len();
        let mut text =
            format!("[{:width$}/{}] {style}{word:10}{style:#}  {}", self.done, self.models, printable(name));
        if !rest.is_empty() {
            let _ = write!(text, "  {rest}");
        }
        text.push('\n');
        for line in output.lines() {
            let _ = writeln!(text, "    {line}");
        }
        text
    }

    fn wrong(
        &mut self,
        name: &str,
        word: &'static str,
        code: u8,
        rest: String,
        output: String,
    ) -> (Style, &'static str, String, String) {
        let plain = anstream::adapter::strip_str(&output).to_string();
        let mut first =
            if rest.is_empty() { plain.lines().next().unwrap_or_default() } else { &rest }.to_owned();
        // The help about an error is indented, as its locations are.
        if let Some(help) = plain.lines().find(|line| line.starts_with("  help: ")) {
            let _ = write!(first, "\n          {help}");
        }
        self.wrong.push((word, name.to_owned(), first));
        self.code = self.code.max(code);
        (BAD, word, rest, output)
    }

    /// Prints the summary, and returns the exit code.
    pub fn finish(self) -> u8 {
        if let Some(bars) = &self.bars {
            let _ = bars.all.clear();
        }
        let mut parts =
            vec![format!("{} converted", self.converted), format!("{} up to date", self.up_to_date)];
        for word in ["refused", "timed out", "broken off", "failed", "differs"] {
            match self.wrong.iter().filter(|(other, _, _)| *other == word).count() {
                0 => {}
                n => parts.push(format!("{n} {word}")),
            }
        }
        let mut text = String::new();
        if self.wrong.len() > 1 {
            let most = if self.report.verbose { usize::MAX } else { MAX_ROWS };
            list(&mut text, "", &self.wrong, most, |text, (word, name, first)| {
                let _ = writeln!(text, "{BAD}{word:10}{BAD:#}  {}  {first}", printable(name));
            });
        }
        let style = if self.code == 0 { STRONG } else { NOTICE };
        let seconds = self.start.elapsed().as_secs_f64();
        let _ = writeln!(
            text,
            "{style}{}{style:#} of {} in {seconds:.2} s",
            parts.join(", "),
            count(self.models, "model")
        );
        if !self.report.quiet || self.code != 0 {
            tell(&text, self.report.color);
        }
        self.code.max(if self.wrong.is_empty() { 0 } else { REFUSED })
    }
}
