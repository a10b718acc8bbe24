//! Each fixture is converted to the recorded net, or refused for the recorded reason. `BLESS=1` records new
//! snapshots, to be reviewed in the diff.
//!
//! A fixture has either `expected.param` and `expected.weights`, or `expected.err`. Blessing neither replaces
//! the first by the second, which may be the loss of an operator, nor records an internal error.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::Refusal;
use onnx2ncnn::error::ErrorKind;
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::{Converter, Input};

/// Relative to the package, in which tests run: messages with the path are the same everywhere.
const FIXTURES: &str = "fixtures";
const PARAM: &str = "expected.param";
const WEIGHTS: &str = "expected.weights";
const ERR: &str = "expected.err";

/// The texts of a fixture, by file name.
type Snapshots = BTreeMap<&'static str, String>;

#[test]
fn every_fixture_is_converted_as_before() {
    let bless = std::env::var_os("BLESS").is_some();
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    let mut failures = Vec::new();
    for folder in fixtures {
        let old = recorded(&folder);
        match review(&old, &snapshots(&folder), bless) {
            Ok(new) if new == old => {}
            Ok(new) => record(&folder, &old, &new),
            Err(reason) => failures.push(format!("{}: {reason}", folder.display())),
        }
    }
    assert!(
        failures.is_empty(),
        "{} failures; BLESS=1 records the changes that it may:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The snapshots to keep for a fixture, or the reason why the found ones are not accepted.
fn review(old: &Snapshots, new: &Snapshots, bless: bool) -> Result<Snapshots, String> {
    let internal = ErrorKind::Internal.to_string();
    if let Some(error) = new.get(ERR)
        && error.lines().any(|line| line.starts_with(&internal))
    {
        return Err(format!("fails\n  + {}", error.trim_end()));
    }
    if let Some(error) = new.get(ERR)
        && old.contains_key(PARAM)
    {
        return Err(format!(
            "was converted, and is refused; remove {PARAM} and {WEIGHTS} by hand to accept this\n  + {}",
            error.trim_end()
        ));
    }
    if bless || old == new {
        return Ok(new.clone());
    }
    let names: BTreeSet<&&str> = old.keys().chain(new.keys()).collect();
    let differences: Vec<String> = names
        .into_iter()
        .filter_map(|name| match (old.get(name), new.get(name)) {
            (Some(old), Some(new)) if old == new => None,
            (Some(old), Some(new)) => Some(format!("{name}\n{}", first_difference(old, new))),
            (Some(_), None) => Some(format!("{name}: left over")),
            (None, _) => Some(format!("{name}: missing")),
        })
        .collect();
    Err(differences.join("; "))
}

/// The snapshots in the folder of a fixture.
fn recorded(folder: &Path) -> Snapshots {
    let read = |name| Some((name, fs::read_to_string(folder.join(name)).ok()?));
    [PARAM, WEIGHTS, ERR].into_iter().filter_map(read).collect()
}

/// Replaces the snapshots in the folder of a fixture.
fn record(folder: &Path, old: &Snapshots, new: &Snapshots) {
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        fs::remove_file(folder.join(name)).unwrap();
    }
    for (name, text) in new {
        fs::write(folder.join(name), text).unwrap();
    }
}

/// The folders of the fixtures, in order.
fn fixtures() -> Vec<PathBuf> {
    let folders =
        |path: &Path| fs::read_dir(path).unwrap().map(|entry| entry.unwrap().path()).collect::<Vec<_>>();
    let families = folders(Path::new(FIXTURES)).into_iter().filter(|path| path.is_dir());
    let cases = families.flat_map(|family| folders(&family)).filter(|path| path.join("model.onnx").exists());
    let mut cases: Vec<PathBuf> = cases.collect();
    cases.sort();
    cases
}

/// Converts a fixture: the snapshots of the net, or of the refusal.
fn snapshots(folder: &Path) -> Snapshots {
    let work = tempfile::tempdir().unwrap();
    let (param, bin) = (work.path().join("param"), work.path().join("bin"));
    let input = Input::Path(folder.join("model.onnx"));
    let written = Converter::new()
        .check(true)
        .convert(&input)
        .and_then(|conversion| conversion.write(&param, &bin).map(|_| conversion).map_err(Refusal::from));
    match written {
        Ok(conversion) => BTreeMap::from([
            (PARAM, fs::read_to_string(param).unwrap()),
            (WEIGHTS, describe_weights(conversion.net())),
        ]),
        Err(errors) => BTreeMap::from([(ERR, describe_errors(&errors))]),
    }
}

/// Returns a line for each weight, in the order of the `.bin` file: layer, name, shape, the sum of the
/// elements, and their sum weighted by position.
fn describe_weights(net: &Net) -> String {
    let mut text = String::new();
    for layer in &net.layers {
        for weight in layer.layer.weights() {
            let elements = weight.tensor.load().and_then(|array| array.to_f64()).unwrap();
            let sum: f64 = elements.iter().sum();
            let moment: f64 =
                elements.iter().zip(1u32..).map(|(element, index)| element * f64::from(index)).sum();
            let shape = weight.tensor.shape();
            writeln!(text, "{} {} {shape:?} sum {sum:.4} moment {moment:.3}", layer.name, weight.name)
                .unwrap();
        }
    }
    text
}

fn describe_errors(errors: &Refusal) -> String {
    let mut text = String::new();
    for error in errors.iter() {
        writeln!(text, "{}: {error}", error.kind()).unwrap();
        if let Some(help) = error.help_text() {
            writeln!(text, "  help: {help}").unwrap();
        }
    }
    text
}

fn first_difference(expected: &str, got: &str) -> String {
    let differs = expected.lines().zip(got.lines()).find(|(a, b)| a != b);
    match differs {
        Some((a, b)) => format!("  - {a}\n  + {b}"),
        None => format!("  - {} lines\n  + {} lines", expected.lines().count(), got.lines().count()),
    }
}

/// The snapshots of a net, or of a refusal.
fn converted(param: &str) -> Snapshots {
    BTreeMap::from([(PARAM, param.to_owned()), (WEIGHTS, String::new())])
}

fn refused(reason: &str) -> Snapshots {
    BTreeMap::from([(ERR, reason.to_owned())])
}

#[test]
fn the_same_snapshots_are_accepted() {
    for bless in [false, true] {
        for same in [converted("a"), refused("unsupported: a\n")] {
            assert_eq!(review(&same, &same, bless), Ok(same));
        }
    }
}

#[test]
fn a_change_fails_until_it_is_blessed() {
    let new_fixture = Snapshots::new();
    let changes = [
        (converted("a"), converted("b"), "expected.param\n  - a\n  + b"),
        (refused("a"), refused("b"), "expected.err\n  - a\n  + b"),
        (
            refused("a"),
            converted("b"),
            "expected.err: left over; expected.param: missing; expected.weights: missing",
        ),
        (new_fixture.clone(), converted("b"), "expected.param: missing; expected.weights: missing"),
        (new_fixture, refused("b"), "expected.err: missing"),
    ];
    for (old, new, failure) in changes {
        assert_eq!(review(&old, &new, false), Err(failure.to_owned()));
        assert_eq!(review(&old, &new, true), Ok(new));
    }
}

#[test]
fn blessing_replaces_no_net_by_a_refusal() {
    for bless in [false, true] {
        let failure = review(&converted("a"), &refused("unsupported: b\n"), bless).unwrap_err();
        assert!(failure.starts_with("was converted, and is refused"), "{failure}");
        assert!(failure.ends_with("\n  + unsupported: b"), "{failure}");
    }
}

#[test]
fn blessing_records_no_internal_error() {
    let error = refused("unsupported: a\ninternal error: b\n");
    for bless in [false, true] {
        for old in [Snapshots::new(), converted("a"), refused("unsupported: a\n"), error.clone()] {
            assert_eq!(
                review(&old, &error, bless),
                Err("fails\n  + unsupported: a\ninternal error: b".to_owned())
            );
        }
    }
}
