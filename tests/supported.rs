//! `SUPPORTED.md` is generated from the rows of the operators: `BLESS=1` writes it. The table of schemas is
//! that of the packages onnx and onnxruntime, and a fixture uses each operator that is converted.

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
fn the_table_of_schemas_is_that_of_the_packages() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/op/schema");
    let output = Command::new(support::python()).arg(folder.join("make.py")).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let made = String::from_utf8(output.stdout).unwrap();
    let kept = fs::read_to_string(folder.join("table.rs")).unwrap();
    let differs = made.lines().zip(kept.lines()).find(|(new, old)| new != old);
    assert!(made == kept, "src/op/schema/table.rs is stale, make.py writes it anew: {differs:?}");
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

/// The name with its domain, unless that is ONNX's.
fn qualified(row: &Supported) -> String {
    if row.domain.is_empty() { row.name.to_owned() } else { format!("{}.{}", row.domain, row.name) }
}
