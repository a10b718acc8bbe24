//! ARCHITECTURE.md and the source: imports run downwards through its rooms and its shelves, its picture
//! shows them, the paths that it names exist, and fixtures lie on the same shelves.
//!
//! `BLESS=1` draws the picture.

#![allow(clippy::expect_used, clippy::indexing_slicing, clippy::panic, clippy::unwrap_used)] // A test may fail where it stands.

#[path = "support/source.rs"]
mod source;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use source::files;

fn architecture() -> String {
    fs::read_to_string("ARCHITECTURE.md").unwrap()
}

/// ARCHITECTURE.md with a line for each paragraph.
fn paragraphs() -> String {
    let text = architecture();
    text.split("\n\n").map(|paragraph| paragraph.replace('\n', " ") + "\n").collect()
}

/// The texts between backticks.
fn quoted(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

/// Rooms by the first name of their modules, each with its index in the table; `main.rs` is `main`.
fn rooms() -> BTreeMap<String, usize> {
    let text = architecture();
    let table = text.split("\n## Rooms\n").nth(1).unwrap().split("\n## ").next().unwrap().to_owned();
    let rows = table.lines().filter(|line| line.starts_with("| `"));
    let cells = rows.map(|row| row.split('|').nth(1).unwrap());
    let names = cells.enumerate().flat_map(|(index, cell)| quoted(cell).map(move |name| (name, index)));
    let modules = names.map(|(name, index)| (name.trim_end_matches('/').trim_end_matches(".rs"), index));
    modules.map(|(name, index)| (name.to_owned(), index)).collect()
}

/// The shelves, lowest first.
fn shelves() -> Vec<String> {
    let text = paragraphs();
    let list = text.split("The shelves of `ops/`, lowest first, are ").nth(1).unwrap();
    let list = list.lines().next().unwrap();
    quoted(list).map(str::to_owned).collect()
}

/// The path of the module of a file, from the root of the crate.
fn module(file: &Path) -> Vec<String> {
    let path = file.strip_prefix("src").unwrap().with_extension("");
    let mut names: Vec<String> = path.iter().map(|name| name.to_str().unwrap().to_owned()).collect();
    if names.last().is_some_and(|name| name == "mod") {
        names.pop();
    }
    names
}

/// The paths that code names, from the root of the crate: those of imports and others, without the code of
/// tests.
fn named_paths(file: &Path) -> BTreeSet<Vec<String>> {
    let text = fs::read_to_string(file).unwrap();
    let code = text.split("#[cfg(test)]\nmod ").next().unwrap();
    let code: String =
        code.lines().map(|line| line.split("//").next().unwrap()).collect::<Vec<_>>().join("\n");
    let importer = module(file);
    let mut found = BTreeSet::new();
    let is_name = |c: char| c.is_alphanumeric() || c == '_' || c == ':';
    for start in ["crate::", "super::"] {
        for (at, _) in code.match_indices(start) {
            let is_inside = code[..at].ends_with("::") || code[..at].ends_with(|c: char| c.is_alphanumeric());
            if !is_inside {
                let rest = &code[at..];
                let end = rest.find(|c| !is_name(c)).unwrap_or(rest.len());
                let path: Vec<&str> = rest[..end].split("::").filter(|name| !name.is_empty()).collect();
                let whole = rest[end..].starts_with('{').then(|| group(&rest[end + 1..]));
                for last in whole.unwrap_or_else(|| vec![Vec::new()]) {
                    found.insert(resolve(
                        &importer,
                        path.iter().copied().chain(last.iter().map(String::as_str)),
                    ));
                }
            }
        }
    }
    found
}

/// The paths in a group of an import, after its opening brace.
fn group(text: &str) -> Vec<Vec<String>> {
    let mut depth = 1;
    let mut members = vec![String::new()];
    for c in text.chars() {
        depth += i32::from(c == '{') - i32::from(c == '}');
        match (c, depth) {
            (_, 0) => break,
            (',', 1) => members.push(String::new()),
            _ => members.last_mut().unwrap().push(c),
        }
    }
    let first_names = |member: &String| {
        let path = member.split('{').next().unwrap().trim().to_owned();
        path.split("::").filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    members.iter().map(first_names).collect()
}

fn resolve<'a>(base: &[String], path: impl Iterator<Item = &'a str>) -> Vec<String> {
    let mut names = base.to_vec();
    for name in path {
        match name {
            "crate" => names.clear(),
            "super" => drop(names.pop()),
            "self" => {}
            name => names.push(name.to_owned()),
        }
    }
    names
}

#[test]
fn imports_run_downwards_through_the_rooms() {
    let rooms = rooms();
    let mut upwards = BTreeSet::new();
    for file in files("src", "rs") {
        let importer = module(&file);
        let importer_index =
            rooms.get(&importer[0]).unwrap_or_else(|| panic!("{} is in no room", file.display()));
        for path in named_paths(&file) {
            let index = path.first().and_then(|name| rooms.get(name));
            if index.is_some_and(|index| index < importer_index) {
                upwards.insert(format!("{} names {}", file.display(), path.join("::")));
            }
        }
    }
    assert!(upwards.is_empty(), "{}", upwards.into_iter().collect::<Vec<_>>().join("\n"));
}

/// The rooms below `lib.rs`, and a mark for each room that they import.
fn picture() -> String {
    let mut rooms: Vec<(usize, String)> = rooms().into_iter().map(|(name, index)| (index, name)).collect();
    rooms.sort();
    let names: Vec<String> = rooms.into_iter().map(|(_, name)| name).collect();
    let names: Vec<&String> = names.iter().skip_while(|name| *name != "api").collect();
    let mut imports: BTreeSet<(String, String)> = BTreeSet::new();
    for file in files("src", "rs") {
        let importer = module(&file)[0].clone();
        let others = named_paths(&file).into_iter().filter_map(|path| path.first().cloned());
        imports.extend(others.map(|other| (importer.clone(), other)));
    }
    let mut lines = Vec::new();
    for (row, name) in names.iter().enumerate() {
        let marks = names.iter().take(row).map(|above| {
            let imported = imports.contains(&((*above).clone(), (*name).clone()));
            if imported { "   x" } else { "   ." }
        });
        lines.push(format!("    {name:<9}{}", marks.collect::<String>()).trim_end().to_owned());
    }
    lines.join("\n")
}

#[test]
fn the_picture_shows_the_imports() {
    let (text, picture) = (architecture(), picture());
    let start = text.find("    api\n").expect("the picture begins with api");
    let end = start + text[start..].find("\n\n").unwrap();
    if std::env::var_os("BLESS").is_some() {
        fs::write("ARCHITECTURE.md", format!("{}{picture}{}", &text[..start], &text[end..])).unwrap();
    } else {
        assert_eq!(text[start..end], picture, "BLESS=1 draws it");
    }
}

#[test]
fn imports_run_downwards_through_the_shelves() {
    let shelves = shelves();
    let index_of = |path: &[String]| match path {
        [room, shelf, ..] if room == "ops" => shelves.iter().position(|known| known == shelf),
        _ => None,
    };
    let mut upwards = BTreeSet::new();
    for file in files("src/ops", "rs") {
        let importer = module(&file);
        let Some(importer_index) = index_of(&importer) else {
            let is_root = importer.len() < 2 || ["prelude", "row"].contains(&importer[1].as_str());
            assert!(is_root, "{} is on no shelf", file.display());
            continue;
        };
        for path in named_paths(&file) {
            if index_of(&path).is_some_and(|index| index > importer_index) {
                upwards.insert(format!("{} names {}", file.display(), path.join("::")));
            }
        }
    }
    assert!(upwards.is_empty(), "{}", upwards.into_iter().collect::<Vec<_>>().join("\n"));
}

#[test]
fn paths_exist() {
    let text = architecture();
    // Paths begin with a folder of the source or of the repository.
    let folders: BTreeSet<String> = ["src", "."]
        .iter()
        .flat_map(|root| fs::read_dir(root).unwrap())
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    // Upper case stands for a name.
    let plain = |c: char| c.is_lowercase() || c.is_numeric() || "/._".contains(c);
    let is_path = |name: &&str| {
        let first = name.split('/').next().unwrap();
        name.contains('/') && name.chars().all(plain) && folders.contains(first)
    };
    let exists = |name: &&str| ["src", "."].iter().any(|root| Path::new(root).join(name).exists());
    let missing: BTreeSet<&str> = quoted(&text).filter(is_path).filter(|name| !exists(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}

#[test]
fn folders_of_fixtures_are_shelves_or_named() {
    let text = paragraphs();
    let others = text.split("Other folders are about a subject of several shelves: ").nth(1).unwrap();
    let others: Vec<&str> = quoted(others.split(". ").next().unwrap()).collect();
    let folders: BTreeSet<String> = Path::new("fixtures")
        .read_dir()
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.join("cases.py").exists())
        .map(|path| path.file_name().unwrap().to_string_lossy().into_owned())
        .collect();
    let shelves: Vec<String> =
        shelves().into_iter().filter(|name| Path::new("src/ops").join(name).is_dir()).collect();
    for folder in &folders {
        assert!(shelves.contains(folder) != others.contains(&folder.as_str()), "fixtures/{folder}");
    }
    for name in shelves.iter().map(String::as_str).chain(others) {
        assert!(folders.contains(name), "fixtures/{name} does not exist");
    }
}
