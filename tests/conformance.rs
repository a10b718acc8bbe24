//! Every case is converted by the command and run in ncnn: the result is right, or the refusal is a known
//! one.
//!
//! `BLESS=1` updates `known_refusals.txt` by the rule in `support/refusals.rs`; `CASES=text` selects the
//! cases whose names contain the text. Without it, and without `ALL_CASES=1`, a fixed sixth of the cases of
//! the onnx package run, and all fixtures.

#![cfg(feature = "cli")]
#![allow(clippy::panic, clippy::print_stdout, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/refusals.rs"]
mod refusals;
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use refusals::{List, Outcome};

/// The known refusals and their reasons.
const KNOWN_REFUSALS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/known_refusals.txt");
const SCRIPTS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/conformance");
const FIXTURES: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/fixtures");

/// The tolerance, relative to the largest magnitude of an output.
const TOLERANCE: &str = "1e-3";

/// The runs are independent, and CI has two cores.
const WORKERS: usize = 2;

#[test]
fn every_case_is_right_or_refused_for_a_known_reason() {
    let python = support::python();
    let mut cases = find_cases(&written_cases(&python, "collect"));
    cases.extend(find_cases(&written_cases(&python, "elements")));
    cases.extend(
        find_cases(Path::new(FIXTURES)).into_iter().map(|(name, path)| (format!("fixtures/{name}"), path)),
    );
    cases.retain(|name, _| is_selected(name));
    let verdicts = judge(&python, &cases, &[TOLERANCE]);

    let mut failures = Vec::new();
    let mut outcomes = BTreeMap::new();
    for (name, folder) in &cases {
        let (verdict, reason) = &verdicts[name];
        // The path of a case does not belong to the reason.
        let model = format!("{}: ", folder.join("model.onnx").display());
        let outcome = Outcome::new(verdict, &reason.replace(&model, ""));
        // `snapshots.rs` compares the reasons of these.
        if folder.join("expected.err").exists() {
            match outcome {
                Outcome::Refused(_) => {}
                Outcome::Passed => failures.push(format!("{name}: passes, but has an expected.err")),
                Outcome::Failed(reason) => failures.push(format!("{name}: {reason}")),
            }
        } else {
            outcomes.insert(name.clone(), outcome);
        }
    }

    // Cases that are not selected keep their lines.
    let listed = refusals::parse(&fs::read_to_string(KNOWN_REFUSALS).unwrap()).unwrap();
    let (known, left_out): (List, List) = listed.into_iter().partition(|(name, _)| is_selected(name));
    let bless = std::env::var_os("BLESS").is_some();
    let mut review = refusals::review(&known, &outcomes, bless);
    failures.append(&mut review.failures);

    println!("{}", summary(&verdicts));
    if bless && review.list != known {
        let list = review.list.into_iter().chain(left_out).collect();
        fs::write(KNOWN_REFUSALS, refusals::format(&list)).unwrap();
    }
    assert!(
        failures.is_empty(),
        "{} failures; BLESS=1 updates the reasons of listed cases, and removes the lines of cases that pass:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// Whether a case runs.
fn is_selected(name: &str) -> bool {
    if let Ok(text) = std::env::var("CASES") {
        return name.contains(&text);
    }
    let is_of_this_project = ["extremes/", "fixtures/", "integers/"].iter().any(|set| name.starts_with(set));
    let is_sixth = name.bytes().map(u32::from).sum::<u32>().is_multiple_of(6);
    is_of_this_project || is_sixth || std::env::var_os("ALL_CASES").is_some()
}

/// Returns the folder of the cases that a script writes, once for each version of the environment and of the
/// script.
fn written_cases(python: &Path, name: &str) -> PathBuf {
    let environment = python.parent().and_then(Path::parent).and_then(Path::file_name).unwrap();
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cases").join(environment).join(name);
    let script = Path::new(SCRIPTS).join(format!("{name}.py"));
    let text = fs::read(&script).unwrap();
    let stamp = folder.join("script");
    if fs::read(&stamp).ok().as_ref() != Some(&text) {
        let _ = fs::remove_dir_all(&folder);
        let output = Command::new(python).args([&script, &folder]).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        fs::write(stamp, text).unwrap();
    }
    folder
}

/// Returns the folders below `root` with a model, by their relative paths.
fn find_cases(root: &Path) -> BTreeMap<String, PathBuf> {
    let mut cases = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        if folder.join("model.onnx").exists() {
            let name = folder.strip_prefix(root).unwrap().to_str().unwrap().replace('\\', "/");
            cases.insert(name, folder);
            continue;
        }
        let entries = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        folders.extend(entries.filter(|path| path.is_dir()));
    }
    cases
}

/// Options that change the written files, with their tolerances.
const OPTIONS: [&[&str]; 3] = [
    &["1e-2", "--fp16"],
    &[TOLERANCE, "--ncnn-version", "20261020"],
    // The runtime loads the binary form, with indices instead of names.
    &[
        TOLERANCE,
        "--param-bin=FOLDER/net.param.bin",
        "--id-header=FOLDER/net.id.h",
        "--mem-header=FOLDER/net.mem.h",
    ],
];

#[test]
fn every_fixture_is_right_with_each_option() {
    let python = support::python();
    let filter = std::env::var("CASES").unwrap_or_default();
    let mut cases = find_cases(Path::new(FIXTURES));
    cases.retain(|name, folder| name.contains(&filter) && !folder.join("expected.err").exists());
    let mut problems = Vec::new();
    for options in OPTIONS {
        for (name, (verdict, reason)) in judge(&python, &cases, options) {
            if verdict != "pass" {
                problems.push(format!("{options:?} {name}: {verdict}: {reason}"));
            }
        }
    }
    assert!(problems.is_empty(), "{}", problems.join("\n"));
}

/// The ways to convert a quantized network; the roundings of onnxruntime accumulate.
const QUANTIZED: [&[&str]; 2] = [&["6e-2", "--int8"], &["6e-2", "--dequantize"]];

#[test]
fn quantized_networks_are_right_in_int8_and_in_float32() {
    let python = support::python();
    for options in QUANTIZED {
        for family in ["quantized", "recurrent"] {
            let mut cases = find_cases(&Path::new(FIXTURES).join(family));
            // Networks that quantize values by their range are exact without an option, too.
            cases.retain(|name, folder| folder.join("expected.err").exists() || name.contains("_range"));
            assert!(!cases.is_empty());
            for (name, (verdict, reason)) in judge(&python, &cases, options) {
                assert_eq!(verdict, "pass", "{options:?} {family}/{name}: {reason}");
            }
        }
    }
}

/// The ways to write weights in blocks. The floats of the fixtures are integers of four bits; with eight bits
/// the runtime rounds the other factor of a product.
const BLOCKS: [&[&str]; 5] = [
    &["1e-4", "--weights", "keep"],
    &["1e-4", "--weights", "int4"],
    &["1e-4", "--weights", "int6"],
    &["5e-2", "--weights", "int8"],
    &["1e-2", "--weights", "keep", "--fp16"],
];

#[test]
fn weights_in_blocks_are_right() {
    let python = support::python();
    let cases = find_cases(&Path::new(FIXTURES).join("blocks"));
    assert!(!cases.is_empty());
    for options in BLOCKS {
        for (name, (verdict, reason)) in judge(&python, &cases, options) {
            assert_eq!(verdict, "pass", "{options:?} blocks/{name}: {reason}");
        }
    }
}

/// Returns a verdict and a reason for every case.
fn judge(
    python: &Path,
    cases: &BTreeMap<String, PathBuf>,
    arguments: &[&str],
) -> BTreeMap<String, (String, String)> {
    let work = tempfile::tempdir().unwrap();
    let mut runs: Vec<(Child, PathBuf)> = Vec::new();
    for worker in 0..WORKERS {
        let results = work.path().join(worker.to_string());
        let mut child = Command::new(python)
            .arg(Path::new(SCRIPTS).join("run.py"))
            .args([Path::new(env!("CARGO_BIN_EXE_onnx2ncnn")), &results])
            .args(arguments)
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: Vec<String> = cases
            .iter()
            .skip(worker)
            .step_by(WORKERS)
            .map(|(name, folder)| format!("{name}\t{}\n", folder.display()))
            .collect();
        let mut input = child.stdin.take().unwrap();
        std::thread::spawn(move || input.write_all(lines.concat().as_bytes()).unwrap());
        runs.push((child, results));
    }
    let mut verdicts = BTreeMap::new();
    for (mut child, results) in runs {
        assert!(child.wait().unwrap().success());
        for line in fs::read_to_string(results).unwrap().lines() {
            let [name, verdict, reason] = line.splitn(3, '\t').collect::<Vec<_>>().try_into().unwrap();
            verdicts.insert(name.to_owned(), (verdict.to_owned(), reason.to_owned()));
        }
    }
    verdicts
}

/// Returns the number of cases with each verdict, for each set.
fn summary(verdicts: &BTreeMap<String, (String, String)>) -> String {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (name, (verdict, _)) in verdicts {
        let set = name.split('/').next().unwrap_or_default();
        *counts.entry(set).or_default().entry(verdict).or_default() += 1;
    }
    let lines = counts.iter().map(|(set, counts)| format!("{set}: {counts:?}"));
    lines.collect::<Vec<_>>().join("\n")
}
