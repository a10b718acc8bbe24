//! `SUPPORTED.md` is generated from the rows of the operators: `BLESS=1` writes it. The rows are complete:
//! they cover every operator and version of the onnx package, and a fixture uses each that is converted.

#![allow(clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

mod support;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use onnx2ncnn::{Converter, Input, Supported, supported};

const LEGEND: &str = "\
# Operators

Generated from the rows in `src/ops` by `BLESS=1 cargo test --test supported`.

- **Versions** are the since-versions of the operator that are handled. A model of any version in between follows the one before it.
- **Lowers to** names layers of ncnn, or other ONNX operators, which have rows of their own. \"No layer\" means that readers take the input
  blob; \"a constant\" is evaluated when the model is converted. Most operators that read only constants are constants too.
- **Refused** lists the cases that ncnn cannot express, or not exactly; the rest of the operator is converted. An operator without an
  entry under *lowers to* is always refused, for the reason that is given.

- **Differs** lists the elements of inputs for which the result may not be that of ONNX. A conversion names each value of which it relies
  on a fact that it could not prove, of integers, indices, angles and quotients (`--strict` refuses these models). If an operator with an
  entry, or one that computes sums, reads floats that are not known to be finite, the conversion states that the inputs of the model are
  finite, and with them all floats of the net.

ncnn computes in float32: integers are exact up to 2^24. Sizes may stay free if a layer that reads them can follow them.
";

/// Versions without a row.
const LEFT_OUT: [(&str, i64, &str); 2] = [
    ("Upsample", 1, "experimental, with other attributes"),
    ("Upsample", 10, "says only that the operator is deprecated"),
];

#[test]
fn the_page_matches_the_rows() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("SUPPORTED.md");
    let page = page();
    if std::env::var_os("BLESS").is_some() {
        fs::write(&path, &page).unwrap();
    }
    let kept = fs::read_to_string(&path).unwrap_or_default();
    let differs = page.lines().zip(kept.lines()).find(|(new, old)| new != old);
    assert!(kept == page, "SUPPORTED.md is stale, BLESS=1 writes it anew: {differs:?}");
}

#[test]
fn every_row_documents_the_operator() {
    let silent: Vec<&str> = supported()
        .iter()
        .filter(|row| row.lowers_to.is_empty() && row.limits.is_empty())
        .map(|row| row.name)
        .collect();
    assert!(silent.is_empty(), "neither what they become nor why they are refused: {silent:?}");
}

#[test]
fn the_rows_cover_every_version_of_every_operator() {
    let script = "import onnx.defs
for s in onnx.defs.get_all_schemas_with_history(): print(s.domain, s.name, s.since_version, sep='\\t')";
    let output = Command::new(support::python()).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let listed = String::from_utf8(output.stdout).unwrap();
    let rows: BTreeMap<(&str, &str), &[i64]> =
        supported().into_iter().map(|row| ((row.domain, row.name), row.since)).collect();
    let mut lacking = BTreeSet::new();
    for line in listed.lines() {
        let [domain, name, since] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let since: i64 = since.parse().unwrap();
        let left_out = domain.is_empty()
            && LEFT_OUT.iter().any(|(operator, version, _)| (*operator, *version) == (name, since));
        let known = rows.get(&(domain, name)).is_some_and(|handled| handled.contains(&since));
        if known == left_out {
            lacking.insert(format!("{domain} {name}-{since}"));
        }
    }
    assert!(!listed.is_empty());
    assert!(lacking.is_empty(), "{lacking:#?}");
}

#[test]
fn the_rows_know_the_largest_number_of_inputs() {
    let script = "import onnx.defs
from onnxruntime.capi.onnxruntime_pybind11_state import get_all_operator_schema
schemas = onnx.defs.get_all_schemas_with_history()
schemas += [s for s in get_all_operator_schema() if s.domain == 'com.microsoft']
for s in schemas: print(s.domain, s.name, s.since_version, s.max_input, sep='\\t')";
    let output = Command::new(support::python()).args(["-c", script]).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let rows: BTreeMap<(&str, &str), Supported> =
        supported().into_iter().map(|row| ((row.domain, row.name), row)).collect();
    let mut wrong = Vec::new();
    for line in String::from_utf8(output.stdout).unwrap().lines() {
        let [domain, name, since, most] = line.split('\t').collect::<Vec<_>>()[..] else { panic!("{line}") };
        let Some(row) = rows.get(&(domain, name)) else { continue };
        let counts = row.inputs.iter().rev();
        let known = counts.copied().find(|(from, _)| *from <= since.parse().unwrap());
        // The schemas give the largest integer of 32 bits for any number.
        let most: Option<usize> = (most != "2147483647").then(|| most.parse().unwrap());
        if known.map(|(_, most)| most) != most {
            wrong.push(format!("{line}: taken for {known:?}"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_fixture_uses_every_operator_that_is_converted() {
    let mut used = BTreeSet::new();
    for path in models() {
        // A model that cannot be read uses no operators.
        if let Ok(inspection) = Converter::new().inspect(&Input::Path(path)) {
            used.extend(inspection.operators.into_keys());
        }
    }
    let unused: Vec<String> = supported()
        .iter()
        .filter(|row| !row.lowers_to.is_empty())
        .filter(|row| !used.contains(&qualified(row)))
        .map(qualified)
        .collect();
    assert!(unused.is_empty(), "no fixture uses {unused:#?}");
}

fn page() -> String {
    let mut domains: BTreeMap<&str, Vec<Supported>> = BTreeMap::new();
    for row in supported() {
        domains.entry(row.domain).or_default().push(row);
    }
    let mut page = LEGEND.to_owned();
    for (domain, rows) in domains {
        let title = if domain.is_empty() { "ai.onnx" } else { domain };
        let converted = rows.iter().filter(|row| !row.lowers_to.is_empty()).count();
        write!(
            page,
            "\n## {title}\n\n{converted} converted, {} always refused.\n\n| operator | versions | lowers to | refused | differs |\n| --- | --- | --- | --- | --- |\n",
            rows.len() - converted
        )
        .unwrap();
        for row in rows {
            let versions: Vec<String> = row.since.iter().map(i64::to_string).collect();
            let Supported { name, lowers_to, limits, differs, .. } = row;
            let versions = versions.join(", ");
            writeln!(page, "| {name} | {versions} | {lowers_to} | {limits} | {differs} |").unwrap();
        }
    }
    page
}

/// The models of the fixtures.
fn models() -> Vec<PathBuf> {
    let entries = |folder: &Path| -> Vec<PathBuf> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect()
    };
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures");
    let families = entries(&root).into_iter().filter(|path| path.is_dir());
    let models = families.flat_map(|family| entries(&family)).map(|case| case.join("model.onnx"));
    models.filter(|model| model.exists()).collect()
}

/// The name with its domain, unless that is ONNX's own.
fn qualified(row: &Supported) -> String {
    if row.domain.is_empty() { row.name.to_owned() } else { format!("{}.{}", row.domain, row.name) }
}
