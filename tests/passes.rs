//! Every pass by its name: it applies to a fixture, and can be disabled.

#![allow(clippy::unwrap_used)] // A test may fail where it stands.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::{fs, io};

use onnx2ncnn::{Converter, Input, PassKind, Quantization, passes};

/// The models of some folders of fixtures, or of all.
fn models(folders: Option<&[&str]>) -> Vec<PathBuf> {
    let all = fs::read_dir("fixtures").unwrap().map(|folder| folder.unwrap().path());
    let is_named =
        |path: &PathBuf| folders.is_none_or(|folders| folders.iter().any(|folder| path.ends_with(folder)));
    let folders = all.filter(|path| path.is_dir()).filter(is_named);
    let cases = folders.flat_map(|folder| fs::read_dir(folder).unwrap());
    let mut models: Vec<PathBuf> = cases.map(|case| case.unwrap().path().join("model.onnx")).collect();
    // Large models have nothing that small ones have not.
    models.retain(|path| path.metadata().is_ok_and(|file| file.len() < 1 << 16));
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
    for model in models(Some(&["simplify", "shape", "elementwise"])) {
        for name in passes_of(&model, None) {
            found.entry(name).or_insert_with(|| model.clone());
        }
    }
    for pass in passes().filter(|pass| pass.kind == PassKind::Simplification) {
        let model = found.get(pass.name).unwrap_or_else(|| panic!("{}: no fixture", pass.name));
        assert!(!passes_of(model, Some(pass.name)).contains(pass.name), "{}", pass.name);
    }
}

/// The ways to convert, each with separate passes, and the folders of fixtures to which these apply; the
/// first way has all.
fn converters() -> [(Converter, Option<&'static [&'static str]>); 5] {
    let converter = Converter::new().check(true);
    [
        (converter.clone(), None),
        (converter.clone().kv_cache(true), Some(&["decoder"])),
        (converter.clone().ncnn_version(20261020), Some(&["fuse"])),
        (converter.clone().quantization(Quantization::Int8), Some(&["quantized"])),
        (converter.quantization(Quantization::Float), Some(&["quantized"])),
    ]
}

/// Returns the passes of a conversion over graph and net; none if the model is refused.
fn passes_of_net(converter: &Converter, model: &Path) -> BTreeSet<String> {
    let Ok(conversion) = converter.convert(&Input::Path(model.to_owned())) else { return BTreeSet::new() };
    let written = conversion.write_to(&mut io::sink(), &mut io::sink()).unwrap();
    conversion.report(&written).unwrap().passes.into_iter().map(|pass| pass.name).collect()
}

#[test]
fn every_fusion_and_every_pass_over_the_net_applies_and_can_be_disabled() {
    let mut found: BTreeMap<String, (Converter, PathBuf)> = BTreeMap::new();
    for (converter, folders) in converters() {
        for model in models(folders) {
            for name in passes_of_net(&converter, &model) {
                found.entry(name).or_insert_with(|| (converter.clone(), model.clone()));
            }
        }
    }
    for pass in passes().filter(|pass| matches!(pass.kind, PassKind::Fusion | PassKind::Net)) {
        let (converter, model) = found.get(pass.name).unwrap_or_else(|| panic!("{}: no fixture", pass.name));
        let converter = converter.clone().skip(pass.name);
        assert!(!passes_of_net(&converter, model).contains(pass.name), "{}", pass.name);
    }
}
