//! Text for people: colours, and words of a model that cannot do harm to a terminal.

use std::fmt::Write as _;
use std::io::Write as _;

use anstyle::{AnsiColor, Style};
use clap::ColorChoice;

/// What went wrong.
pub(super) const BAD: Style = AnsiColor::Red.on_default().bold();
/// What should be known.
pub(super) const NOTICE: Style = AnsiColor::Yellow.on_default().bold();
/// What can be done.
pub(super) const HELP: Style = AnsiColor::Cyan.on_default().bold();
/// Headings.
pub(super) const STRONG: Style = Style::new().bold();

/// Longest name or message of a model that is shown whole: a hostile one may have megabytes.
const MAX_CHARS: usize = 400;

/// Writes to standard error, and leaves colours out where nobody would see them. A reader that has gone away is not an error: the exit
/// code tells the same.
pub(super) fn tell(text: &str, color: ColorChoice) {
    let choice = match color {
        ColorChoice::Auto => anstream::ColorChoice::Auto,
        ColorChoice::Always => anstream::ColorChoice::Always,
        ColorChoice::Never => anstream::ColorChoice::Never,
    };
    let mut stream = anstream::AutoStream::new(std::io::stderr().lock(), choice);
    let written = stream.write_all(text.as_bytes()).and_then(|()| stream.flush());
    drop(written);
}

/// `text` without what moves the cursor, changes colours or reverses the direction of writing, and not too much of it.
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

/// `1 node`, `2 nodes`.
pub(super) fn count(n: usize, noun: &str) -> String {
    format!("{n} {noun}{}", if n == 1 { "" } else { "s" })
}

/// Describes each of the items, `most` at most.
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

/// Adds `label: text` to `out`, the label in `style`.
pub(super) fn labelled(out: &mut String, style: Style, label: &str, text: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(out, "{style}{label}:{style:#} {text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_made_harmless() {
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
