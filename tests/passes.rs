//! Every simplification by its name: it applies to a fixture, and can be disabled.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use onnx2ncnn::{Converter, Input, PassKind, passes};

/// The models of the family for these passes, and of one with computed shapes.
fn models() -> Vec<PathBuf> {
    let folders = ["simplify", "shape", "movement", "elementwise"];
    let cases = folders.iter().flat_map(|family| fs::read_dir(format!("fixtures/{family}")).unwrap());
    let mut models: Vec<PathBuf> = cases.map(|case| case.unwrap().path().join("model.onnx")).collect();
    models.retain(|path| path.exists());
    models.sort();
    models
}

fn passes_of(model: &Path, skip: Option<&str>) -> BTreeSet<&'static str> {
    let converter = skip.into_iter().fold(Converter::new().check(true), Converter::skip);
    let simplified = converter.simplify(&Input::Path(model.to_owned())).unwrap();
    simplified.passes.iter().map(|pass| pass.name).collect()
}

#[test]
fn every_simplification_applies_and_can_be_disabled() {
    let mut found: BTreeMap<&str, PathBuf> = BTreeMap::new();
    for model in models() {
        for name in passes_of(&model, None) {
            found.entry(name).or_insert_with(|| model.clone());
        }
    }
    for pass in passes().filter(|pass| pass.kind == PassKind::Simplification) {
        let model = found.get(pass.name).unwrap_or_else(|| panic!("{}: no fixture", pass.name));
        assert!(!passes_of(model, Some(pass.name)).contains(pass.name), "{}", pass.name);
    }
}
