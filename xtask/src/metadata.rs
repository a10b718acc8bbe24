//! The address of the repository in the metadata of the packages.

use std::fs;

use toml_edit::{DocumentMut, Item, Table, value};

use crate::run::{command, run};
use crate::{Folders, Result};

/// The files in which the address is written.
const FILES: &str = "Cargo.toml python/pyproject.toml web/npm/package.json CITATION.cff";

/// Returns the address of the repository, `XTASK_REPOSITORY`.
pub fn repository() -> Result<Option<String>> {
    let Ok(address) = std::env::var("XTASK_REPOSITORY") else { return Ok(None) };
    if !address.starts_with("https://") {
        return Err(format!("XTASK_REPOSITORY is not an address: {address}").into());
    }
    Ok(Some(address.trim_end_matches('/').to_owned()))
}

/// Writes the address into the metadata of the packages.
pub fn write(folders: &Folders) -> Result<()> {
    let address = repository()?.ok_or("XTASK_REPOSITORY has no address of the repository")?;
    edit(folders, "Cargo.toml", "package", |package| {
        for name in ["repository", "homepage"] {
            package.insert(name, value(&address));
        }
    })?;
    edit(folders, "python/pyproject.toml", "project", |project| {
        let mut urls = Table::new();
        for (name, path) in [
            ("Homepage", ""),
            ("Repository", ""),
            ("Documentation", "/blob/HEAD/docs/python.md"),
            ("Issues", "/issues"),
            ("Changelog", "/blob/HEAD/CHANGELOG.md"),
        ] {
            urls.insert(name, value(format!("{address}{path}")));
        }
        project.insert("urls", Item::Table(urls));
    })?;
    let fields = [
        format!("repository.url=git+{address}.git"),
        format!("bugs.url={address}/issues"),
        format!("homepage={address}/tree/HEAD/web/npm"),
    ];
    let words = ["pkg", "set", "repository.type=git", "repository.directory=web/npm"];
    run(command(&folders.root.join("web/npm"), "npm", &words).args(&fields))?;
    let citation = folders.root.join("CITATION.cff");
    let text = fs::read_to_string(&citation)?;
    let lines = text.lines().filter(|line| !line.starts_with("repository-code:"));
    let lines: String = lines.map(|line| format!("{line}\n")).collect();
    fs::write(&citation, format!("{lines}repository-code: \"{address}\"\n"))?;
    eprintln!("{address} is in {FILES}; `git restore {FILES}` removes it");
    Ok(())
}

/// Changes a table of a file.
fn edit(folders: &Folders, file: &str, table: &str, change: impl Fn(&mut Table)) -> Result<()> {
    let path = folders.root.join(file);
    let mut document: DocumentMut = fs::read_to_string(&path)?.parse()?;
    let found = document.get_mut(table).and_then(Item::as_table_mut);
    change(found.ok_or_else(|| format!("{file} has no table {table}"))?);
    fs::write(path, document.to_string())?;
    Ok(())
}
