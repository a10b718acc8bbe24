//! What each fixture is converted to, or why it is refused, is as it was: `BLESS=1` writes the snapshots anew, to be read in the
//! diff.
//!
//! A fixture has either `expected.param` and `expected.weights`, or `expected.err`.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::Refusal;
use onnx2ncnn::ncnn::Net;
use onnx2ncnn::{Converter, Input};

/// Relative to the package, where tests run: messages that name the file are the same everywhere.
const FIXTURES: &str = "fixtures";
const SNAPSHOTS: [&str; 3] = ["expected.param", "expected.weights", "expected.err"];

#[test]
fn every_fixture_is_converted_as_before() {
    let bless = std::env::var_os("BLESS").is_some();
    let fixtures = fixtures();
    assert!(!fixtures.is_empty());
    let mut problems = Vec::new();
    for folder in fixtures {
        let snapshots = snapshots(&folder);
        for name in SNAPSHOTS {
            let path = folder.join(name);
            let expected = fs::read_to_string(&path).ok();
            let got = snapshots.get(name);
            if expected.as_ref() == got {
                continue;
            }
            if bless {
                match got {
                    Some(text) => fs::write(&path, text).unwrap(),
                    None => fs::remove_file(&path).unwrap(),
                }
                continue;
            }
            problems.push(match (expected, got) {
                (Some(expected), Some(got)) => {
                    format!("{}: {}", path.display(), first_difference(&expected, got))
                }
                (Some(_), None) => {
                    format!("{}: left over: {:?}", path.display(), snapshots.get("expected.err"))
                }
                (None, _) => format!("{}: missing", path.display()),
            });
        }
    }
    assert!(problems.is_empty(), "{} problems; BLESS=1 updates:\n{}", problems.len(), problems.join("\n"));
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

/// What is to be compared, by file name.
fn snapshots(folder: &Path) -> BTreeMap<&'static str, String> {
    let work = tempfile::tempdir().unwrap();
    let (param, bin) = (work.path().join("param"), work.path().join("bin"));
    let input = Input::Path(folder.join("model.onnx"));
    let written = Converter::new()
        .check(true)
        .convert(&input)
        .and_then(|conversion| conversion.write(&param, &bin).map(|_| conversion).map_err(Refusal::from));
    match written {
        Ok(conversion) => BTreeMap::from([
            ("expected.param", fs::read_to_string(param).unwrap()),
            ("expected.weights", describe_weights(conversion.net())),
        ]),
        Err(errors) => BTreeMap::from([("expected.err", describe_errors(&errors))]),
    }
}

/// A line a weight, in the order of the `.bin` file: layer, name, shape, the sum of the elements, and the sum of each times its
/// place, which tells their order.
fn describe_weights(net: &Net) -> String {
    let mut text = String::new();
    for layer in &net.layers {
        for weight in layer.layer.weights() {
            let elements = weight.tensor.load().and_then(|array| array.to_f64()).unwrap();
            let sum: f64 = elements.iter().sum();
            let moment: f64 =
                elements.iter().zip(1u32..).map(|(element, place)| element * f64::from(place)).sum();
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
        Some((a, b)) => format!("expected\n  {a}\ngot\n  {b}"),
        None => format!("{} lines expected, got {}", expected.lines().count(), got.lines().count()),
    }
}
