//! README.md: the commands of "Try it" run, and print what it shows.

#![cfg(feature = "cli")]
#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/packages.rs"]
mod packages;
mod support;

use std::fs;
use std::process::Command;

/// The maximum number of lines.
const MAX_LINES: usize = 150;

/// The block of README.md after each other, without their indents, of a section.
fn blocks(section: &str) -> Vec<String> {
    let text = fs::read_to_string("README.md").unwrap();
    let text =
        text.split(&format!("\n## {section}\n")).nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let is_code = |part: &&str| part.starts_with("    ");
    let block = |part: &str| part.lines().map(|line| line.trim_start().to_owned() + "\n").collect();
    text.split("\n\n").map(|part| part.trim_matches('\n')).filter(is_code).map(block).collect()
}

/// Replaces times, which differ from run to run, and errors, which differ from processor to processor.
fn without_numbers(text: &str) -> String {
    let words = text.lines().map(|line| {
        let words = line.split_whitespace().collect::<Vec<_>>();
        let is_time = |at: usize| {
            words.get(at + 1).is_some_and(|unit| matches!(unit.trim_matches([',', ';', ')']), "s" | "ms"))
        };
        let is_error = |word: &str| word.contains("e-") && word.trim_end_matches(';').parse::<f64>().is_ok();
        let shown = words
            .iter()
            .enumerate()
            .map(|(at, word)| if is_time(at) || is_error(word) { "NUMBER" } else { word });
        shown.collect::<Vec<_>>().join(" ") + "\n"
    });
    words.collect()
}

#[test]
fn the_commands_print_what_is_shown() {
    let python = support::python();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().display().to_string();
    let blocks = blocks("Try it");
    let mut ran = 0;
    for pair in blocks.chunks(2) {
        let [commands, shown] = pair else { panic!("a command without its output: {pair:?}") };
        let mut said = String::new();
        for line in commands.lines() {
            let line = line.replace("/tmp", &path);
            let line = line.replace("cargo run --release --", "onnx2ncnn");
            let mut words = line.split(' ');
            let program = match words.next().unwrap() {
                "onnx2ncnn" => env!("CARGO_BIN_EXE_onnx2ncnn").into(),
                "python3" => python.clone(),
                // The environment of the tests has the packages.
                "pip" => continue,
                other => panic!("unknown command {other}"),
            };
            let mut command = Command::new(program);
            command
                .args(words)
                .env("ONNX2NCNN_PYTHON", &python)
                .env("PYTHONPATH", packages::packages(&python, packages::PICTURES));
            let output = command.output().unwrap();
            said +=
                &String::from_utf8([output.stdout, output.stderr].concat()).unwrap().replace(&path, "/tmp");
            assert!(output.status.success(), "{line}: {said}");
            ran += 1;
        }
        assert_eq!(without_numbers(&said), without_numbers(shown), "{commands}");
    }
    assert_eq!(ran, 3);
}

#[test]
fn it_is_short_and_its_links_lead_somewhere() {
    let text = fs::read_to_string("README.md").unwrap();
    assert!(text.lines().count() <= MAX_LINES);
    let summary = fs::read_to_string("docs/SUMMARY.md").unwrap();
    for (folder, text) in [(".", &text), ("docs", &summary)] {
        for link in text.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let is_here = !link.is_empty() && !link.starts_with("http");
            assert!(!is_here || fs::exists(format!("{folder}/{link}")).unwrap(), "{link}");
        }
    }
    for entry in fs::read_dir("docs").unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        if name.ends_with(".md") {
            let text = fs::read_to_string(format!("docs/{name}")).unwrap();
            for link in text.split("](").skip(1).filter_map(|rest| rest.split([')', '#']).next()) {
                let is_here = !link.is_empty() && !link.starts_with("http");
                assert!(!is_here || fs::exists(format!("docs/{link}")).unwrap(), "docs/{name}: {link}");
            }
        }
        assert!(
            !name.ends_with(".md") || name == "SUMMARY.md" || summary.contains(&name),
            "{name} is in no list"
        );
    }
}
