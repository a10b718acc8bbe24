//! The crates in the command: their licences, and the bill of materials.

use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use serde_json::json;

use crate::run::{command, output};
use crate::{Folders, Result};

/// A crate.
pub struct Crate {
    name: String,
    version: String,
    licence: String,
}

/// Returns the crates in the command for a target, sorted.
pub fn of(folders: &Folders, target: &str) -> Result<Vec<Crate>> {
    let tree = [
        "tree", "--locked", "--edges", "normal", "--prefix", "none", "--format", "{p}\t{l}", "--target",
        target,
    ];
    let tree = String::from_utf8(output(&mut command(&folders.root, "cargo", &tree))?)?;
    let mut lines: Vec<&str> = tree.lines().map(|line| line.trim_end_matches(" (*)")).collect();
    lines.sort_unstable();
    lines.dedup();
    let read = |line: &str| {
        let (package, licence) = line.split_once('\t')?;
        let (name, version) = package.trim_end_matches(" (proc-macro)").split_once(" v")?;
        Some(Crate { name: name.to_owned(), version: version.to_owned(), licence: licence.to_owned() })
    };
    let crates = lines.iter().filter(|line| !line.starts_with("onnx2ncnn "));
    crates.map(|line| read(line).ok_or_else(|| format!("cargo tree: {line}").into())).collect()
}

/// Returns names, versions and licences of crates, and the texts of their licences.
pub fn licences(crates: &[Crate]) -> Result<String> {
    let mut text = String::from("The crates in onnx2ncnn, with their licences.\n\n");
    let mut texts = String::new();
    for Crate { name, version, licence } in crates {
        writeln!(text, "{name} {version}: {licence}")?;
        for file in licence_files(&format!("{name}-{version}"))? {
            let content = fs::read_to_string(&file)?;
            writeln!(texts, "\n==== {name} {version}\n\n{content}")?;
        }
    }
    Ok(text + &texts)
}

/// Returns the bill of materials, in CycloneDX's form.
pub fn bill(crates: &[Crate]) -> Result<String> {
    let component = |name: &str, version: &str, licence: &str, kind: &str| {
        // Before SPDX had expressions, alternatives were separated by a slash.
        let licence = licence.replace('/', " OR ");
        let package = format!("pkg:cargo/{name}@{version}");
        json!({ "type": kind, "bom-ref": package, "name": name, "version": version,
            "licenses": [{ "expression": licence }], "purl": package })
    };
    let components: Vec<_> = crates
        .iter()
        .map(|Crate { name, version, licence }| component(name, version, licence, "library"))
        .collect();
    let program = component("onnx2ncnn", env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_LICENSE"), "application");
    let bill = json!({ "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": program }, "components": components });
    Ok(serde_json::to_string_pretty(&bill)? + "\n")
}

/// Returns the files with licences of a crate, from the sources that cargo has fetched.
fn licence_files(package: &str) -> Result<Vec<PathBuf>> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home
        .or_else(|| Some(std::env::home_dir()?.join(".cargo")))
        .ok_or("the folder of cargo is not known")?;
    let mut files = Vec::new();
    for registry in fs::read_dir(home.join("registry/src"))? {
        let folder = registry?.path().join(package);
        let Ok(entries) = fs::read_dir(folder) else { continue };
        for entry in entries {
            let path = entry?.path();
            let name = path.file_name().map(|name| name.to_string_lossy().to_ascii_uppercase());
            let is_licence =
                |name: &String| ["LICEN", "COPYING", "NOTICE"].iter().any(|word| name.starts_with(word));
            if path.is_file() && name.is_some_and(|name| is_licence(&name)) {
                files.push(path);
            }
        }
    }
    files.sort();
    Ok(files)
}
