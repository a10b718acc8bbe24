//! The text of a refusal.

use std::collections::{BTreeMap, BTreeSet};
use std::error::Error as _;
use std::fmt::Write as _;

use onnx2ncnn::error::{Error, ErrorKind, NodeAt, Where};
use serde::Serialize;

use super::next::Next;
use super::terminal::{BAD, HELP, labelled, list, printable};
use crate::common::count::count;

/// The maximum number of listed locations of a reason, without -v.
const MAX_LOCATIONS: usize = 5;
/// The maximum number of listed reasons, without -v.
const MAX_REASONS: usize = 40;

/// The maximum length of the operands of a function in the expression of a size, without -v.
const MAX_OPERANDS: usize = 60;

/// The maximum number of listed codes of errors.
const MAX_CODES: usize = 8;

/// A reason, and every location at which it applies.
struct Reason<'a> {
    error: &'a Error,
    /// Each location once: several nodes that replace one node of the model are that node.
    locations: Vec<String>,
    nodes: usize,
}

/// Returns the text: a paragraph for each reason, in the order of their first nodes, the next commands, and
/// a last line with a summary. `writes`: whether the command writes files on success.
pub(super) fn describe<'a>(
    errors: impl IntoIterator<Item = &'a Error>,
    next: &[Next],
    verbose: bool,
    writes: bool,
) -> String {
    let mut reasons: Vec<Reason> = Vec::new();
    let mut known: BTreeMap<(ErrorKind, String, Option<&str>), usize> = BTreeMap::new();
    let mut seen: BTreeSet<(usize, String)> = BTreeSet::new();
    let mut nodes: BTreeSet<(&[String], usize)> = BTreeSet::new();
    for error in errors {
        let index = *known.entry((error.kind(), headline(error), error.help_text())).or_insert(reasons.len());
        if index == reasons.len() {
            reasons.push(Reason { error, locations: Vec::new(), nodes: 0 });
        }
        let (Some(reason), Some(location)) = (reasons.get_mut(index), location(error.at())) else { continue };
        if seen.insert((index, location.clone())) {
            reason.locations.push(location);
            reason.nodes += usize::from(error.at().node.is_some());
        }
        nodes.extend(error.at().node.iter().map(|node| (error.at().graph.as_slice(), node.index)));
    }
    let mut text = String::new();
    list(&mut text, "", &reasons, if verbose { usize::MAX } else { MAX_REASONS }, |text, reason| {
        describe_reason(text, reason, verbose);
    });
    for Next { command, percent, counted, is_chain, effects } in next {
        let part = match percent {
            _ if *is_chain => {
                format!("this converts parts with {percent} % of the {counted}, to a chain of nets")
            }
            100 => "this converts the whole model".to_owned(),
            _ => format!("this converts a part with {percent} % of the {counted}"),
        };
        let effects: String = effects.iter().map(|effect| format!("; {effect}")).collect();
        labelled(&mut text, HELP, "help", &format!("{part}{effects}"));
        let _ = writeln!(text, "  {command}");
    }
    let concerns_model = |reason: &&Reason| !matches!(reason.error.kind(), ErrorKind::Io | ErrorKind::Usage);
    let codes: BTreeSet<String> =
        reasons.iter().filter(concerns_model).map(|reason| reason.error.code().to_string()).collect();
    if let Some(first) = codes.first() {
        let codes = codes.iter().take(MAX_CODES).map(String::as_str).collect::<Vec<_>>().join(", ");
        labelled(&mut text, HELP, "codes", &format!("{codes}; see onnx2ncnn explain {first}"));
    }
    let refused = (!nodes.is_empty()).then(|| format!("{} cannot be converted", count(nodes.len(), "node")));
    let unwritten = writes.then(|| "nothing was written".to_owned());
    let summary: Vec<String> = refused.into_iter().chain(unwritten).collect();
    if !summary.is_empty() {
        labelled(&mut text, BAD, "error", &summary.join("; "));
    }
    text
}

/// Returns items, such as diagnostics, as lines of JSON.
pub(super) fn to_json<T: Serialize>(items: impl IntoIterator<Item = T>) -> String {
    let mut lines = String::new();
    for item in items {
        // The fields are numbers and text, so no error is known.
        let _ = writeln!(lines, "{}", serde_json::to_string(&item).unwrap_or_default());
    }
    lines
}

fn describe_reason(text: &mut String, reason: &Reason, verbose: bool) {
    let mut head = headline(reason.error);
    if !verbose {
        head = without_long_operands(&head);
    }
    if reason.nodes > 1 {
        head = format!("{}: {head}", count(reason.nodes, "node"));
    }
    labelled(text, BAD, &reason.error.kind().to_string(), &head);
    list(
        text,
        "  ",
        &reason.locations,
        if verbose { usize::MAX } else { MAX_LOCATIONS },
        |text, location| {
            let _ = writeln!(text, "  {location}");
        },
    );
    if let Some(help) = reason.error.help_text() {
        text.push_str("  ");
        labelled(text, HELP, "help", &printable(help));
    }
}

/// Returns the text with `...` instead of long operands of functions in expressions of sizes.
fn without_long_operands(text: &str) -> String {
    let mut short = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('(') {
        short.push_str(before);
        short.push('(');
        let mut depth = 1_usize;
        let end = after.find(|letter| {
            depth = match letter {
                '(' => depth.saturating_add(1),
                ')' => depth.saturating_sub(1),
                _ => depth,
            };
            depth == 0
        });
        let is_function = before.ends_with(|letter: char| letter.is_alphanumeric());
        match end.filter(|end| is_function && *end > MAX_OPERANDS).and_then(|end| after.get(end..)) {
            Some(left) => {
                short.push_str("...");
                rest = left;
            }
            None => rest = after,
        }
    }
    short + rest
}

/// Returns the reason with its causes, and the file if there is no node.
fn headline(error: &Error) -> String {
    let mut head = String::new();
    if let (None, Some(file)) = (&error.at().node, &error.at().file) {
        let _ = write!(head, "{}: ", printable(&file.display().to_string()));
    }
    head.push_str(&printable(error.message()));
    let mut below = error.source();
    while let Some(cause) = below {
        let _ = write!(head, ": {}", printable(&cause.to_string()));
        below = cause.source();
    }
    head
}

/// Returns `graph "then": node 3 "name" Conv-11: input 1`, as far as it is known.
fn location(at: &Where) -> Option<String> {
    let mut words: Vec<String> = at.graph.iter().map(|graph| printable(graph)).collect();
    if let Some(node) = &at.node {
        words.push(printable(&node.to_string()));
        words.extend(at.file.as_ref().map(|file| printable(&file.display().to_string())));
    }
    words.extend(at.part.as_deref().map(printable));
    if words.is_empty() { None } else { Some(words.join(": ")) }
}

/// Returns `node 3 "name" Conv`.
pub(super) fn display_node(node: &NodeAt) -> String {
    let name = if node.name.is_empty() { String::new() } else { format!(" \"{}\"", printable(&node.name)) };
    format!("node {}{name} {}", node.index, printable(&node.op_type))
}

#[cfg(test)]
mod tests {

    use super::*;

    fn at(error: Error, index: usize, name: &str, op_type: &str) -> Error {
        error.at_node(|| NodeAt { name: name.to_owned(), index, op_type: op_type.into(), version: 13 })
    }

    fn plain(errors: &[Error], verbose: bool) -> String {
        anstream::adapter::strip_str(&describe(errors, &[], verbose, true)).to_string()
    }

    #[test]
    fn nodes_with_the_same_reason_are_grouped() {
        let mut errors: Vec<Error> = (0..7)
            .map(|i| {
                at(Error::unsupported("unknown mode").help("export it anew"), i, &format!("r{i}"), "Resize")
            })
            .collect();
        errors.insert(1, at(Error::invalid("axis 9 of 4").at_part("attribute axis"), 9, "", "Concat"));
        assert_eq!(
            plain(&errors, false),
            "unsupported: 7 nodes: unknown mode\n  \
               node 0 \"r0\" Resize-13\n  node 1 \"r1\" Resize-13\n  node 2 \"r2\" Resize-13\n  \
               node 3 \"r3\" Resize-13\n  node 4 \"r4\" Resize-13\n  and 2 more: -v lists all\n  \
               help: export it anew\n\
             invalid model: axis 9 of 4\n  \
               node 9 Concat-13: attribute axis\n\
             codes: E0003, E0004; see onnx2ncnn explain E0003\n\
             error: 8 nodes cannot be converted; nothing was written\n"
        );
        assert!(plain(&errors, true).contains("node 6 \"r6\" Resize-13"));
    }

    #[test]
    fn replacements_of_a_node_are_one_node() {
        let errors = [("a", 3), ("a", 3), ("b", 3), ("a", 4)]
            .map(|(message, index)| at(Error::unsupported(message), index, "", "Gelu"));
        let text = plain(&errors, false);
        assert!(text.contains("2 nodes: a\n  node 3 Gelu-13\n  node 4 Gelu-13\n"), "{text}");
        assert!(text.ends_with("error: 2 nodes cannot be converted; nothing was written\n"), "{text}");
    }

    #[test]
    fn a_command_that_writes_no_files_does_not_mention_them() {
        let error = |index| at(Error::unsupported("a"), index, "", "Gelu");
        let text =
            |errors: &[Error]| anstream::adapter::strip_str(&describe(errors, &[], false, false)).to_string();
        assert!(text(&[error(1), error(2)]).ends_with("error: 2 nodes cannot be converted\n"));
        assert_eq!(text(&[Error::usage("a")]), "usage error: a\n");
    }

    #[test]
    fn long_lists_of_reasons_are_truncated() {
        let errors: Vec<Error> = (0..9999).map(|i| Error::invalid(format!("reason {i}"))).collect();
        assert!(plain(&errors, false).lines().count() < 50);
        assert!(plain(&errors, true).lines().count() > 9999);
    }

    #[test]
    fn files_and_causes_are_printed() {
        let cause = std::io::Error::other("the disk is on fire");
        let error = Error::io("reading failed", cause).in_file("m.onnx");
        assert_eq!(
            plain(&[error], false),
            "i/o error: m.onnx: reading failed: the disk is on fire\nerror: nothing was written\n"
        );
        let error = Error::unsupported("ncnn has no blobs of string").at_part("input \"x\"");
        assert_eq!(
            plain(&[error], false),
            "unsupported: ncnn has no blobs of string\n  input \"x\"\ncodes: E0004; see onnx2ncnn explain E0004\n\
             error: nothing was written\n"
        );
    }

    #[test]
    fn long_operands_are_left_out() {
        let long = "H+1".repeat(21);
        for (text, short) in [
            (format!("from [floor_div({long}, 8)*W, 8] to [W]"), "from [floor_div(...)*W, 8] to [W]"),
            (format!("a number ({long}) in brackets"), &*format!("a number ({long}) in brackets")),
            ("max(min(H, 4), 2) (".to_owned(), "max(min(H, 4), 2) ("),
            (format!("min({long}"), &*format!("min({long}")),
        ] {
            assert_eq!(without_long_operands(&text), short);
        }
    }

    #[test]
    fn the_next_command_follows_the_reasons() {
        let next = [Next {
            command: "onnx2ncnn m.onnx --outputs a".to_owned(),
            percent: 97,
            counted: "weights",
            is_chain: false,
            effects: Vec::new(),
        }];
        let text = describe(&[Error::unsupported("no")], &next, false, true);
        let text = anstream::adapter::strip_str(&text).to_string();
        let shown = "\nhelp: this converts a part with 97 % of the weights\n  onnx2ncnn m.onnx --outputs a\ncodes: E0004";
        assert!(text.contains(shown), "{text}");
    }

    #[test]
    fn control_characters_in_names_are_escaped() {
        let error = at(Error::unsupported("\u{1b}[2J"), 0, "a\nb\r", "\u{7}Op").in_graph("\u{1b}c");
        let text = plain(&[error], false);
        assert!(text.chars().all(|c| c == '\n' || !c.is_control()), "{text:?}");
    }
}
