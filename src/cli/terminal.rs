//! Text for terminals: colours, and safe output of names in a model.

use std::fmt::Write as _;
use std::io::IsTerminal as _;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;
use indicatif::{ProgressBar, ProgressStyle};

use super::message::Report;

/// Errors.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// Warnings.
pub(super) const NOTICE: Style = AnsiColor::Yellow.on_default().bold();
/// Advice.
pub(super) const HELP: Style = AnsiColor::Cyan.on_default().bold();
/// Headings.
pub(super) const STRONG: Style = Style::new().bold();

/// The maximum length of a printed name or message of a model, which a hostile one may exceed.
const MAX_CHARS: usize = 400;

/// Whether a result could not be written to standard output.
static LOST: AtomicBool = AtomicBool::new(false);

/// Writes to standard error, without colours if they would not be seen.
pub(super) fn tell(text: &str, color: ColorChoice) {
    // There is nowhere to say that.
    let _ = write(anstream::AutoStream::new(std::io::stderr().lock(), choice(color)), text);
}

/// Writes to standard output, without colours if they would not be seen.
pub(super) fn print(text: &str, color: ColorChoice) {
    if let Err(error) = write(anstream::AutoStream::new(std::io::stdout().lock(), choice(color)), text)
        && !LOST.swap(true, Ordering::Relaxed)
    {
        tell(&format!("i/o error: standard output cannot be written: {error}\n"), color);
    }
}

/// Returns whether bars that show progress can be drawn.
pub(super) fn shows_bars(report: Report) -> bool {
    let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
    !report.quiet && !dumb && std::io::stderr().is_terminal()
}

/// A line on a terminal that says what takes long, and for how long it has. It is removed at the end.
pub(super) struct Waiting(Option<ProgressBar>);

impl Waiting {
    /// Shows the line, unless bars cannot be drawn.
    pub fn for_work(text: &str, report: Report) -> Waiting {
        let style = ProgressStyle::with_template("{spinner} {msg}, {elapsed}");
        let line = style.ok().filter(|_| shows_bars(report)).map(|style| {
            let line = ProgressBar::new_spinner().with_style(style).with_message(text.to_owned());
            line.enable_steady_tick(Duration::from_millis(200));
            line
        });
        Waiting(line)
    }

    /// Changes the text.
    pub fn say(&self, text: String) {
        if let Some(line) = &self.0 {
            line.set_message(text);
        }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(line) = &self.0 {
            line.finish_and_clear();
        }
    }
}

fn choice(color: ColorChoice) -> anstream::ColorChoice {
    match color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    }
}

/// Writes text. A closed pipe is not an error: the exit code has the result.
fn write(mut stream: impl std::io::Write, text: &str) -> std::io::Result<()> {
    match stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error),
        _ => Ok(()),
    }
}

/// Returns whether some of the results that were printed could not be written.
pub(super) fn lost_output() -> bool {
    LOST.load(Ordering::Relaxed)
}

/// Returns `text` without control characters, and truncated.
pub(super) fn printable(text: &str) -> String {
    let mut shown = String::with_capacity(text.len().min(MAX_CHARS));
    for (i, c) in text.chars().enumerate() {
        if i >= MAX_CHARS {
            shown.push_str("...");
            break;
        }
        match c {
            '"' | '\'' | '\\' => shown.push(c),
            _ => shown.extend(c.escape_debug()),
        }
    }
    shown
}

/// Lists descriptions of at most `most` items.
pub(super) fn list<T>(
    out: &mut String,
    indent: &str,
    items: &[T],
    most: usize,
    mut describe: impl FnMut(&mut String, &T),
) {
    for item in items.iter().take(most) {
        describe(out, item);
    }
    if items.len() > most {
        let _ = writeln!(out, "{indent}and {} more: -v lists all", items.len() - most);
    }
}

/// Returns the width of each column of a table.
pub(super) fn widths<const COLUMNS: usize>(rows: &[[String; COLUMNS]]) -> [usize; COLUMNS] {
    let mut widths = [0; COLUMNS];
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = cell.chars().count().max(*width);
        }
    }
    widths
}

/// Adds `label: text` to `out`, with the label in `style`.
pub(super) fn labelled(out: &mut String, style: Style, label: &str, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{style}{label}:{style:#} {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_removed() {
        for (text, shown) in [
            ("conv/\"1\"\\'", "conv/\"1\"\\'"),
            ("größe→幅", "größe→幅"),
            ("\u{1b}[31mred\n", "\\u{1b}[31mred\\n"),
            ("a\u{202e}b\u{7f}", "a\\u{202e}b\\u{7f}"),
        ] {
            assert_eq!(printable(text), shown);
        }
        assert_eq!(printable(&"x".repeat(1 << 20)).len(), MAX_CHARS + 3);
    }
}
