//! The npm package and the page.

use std::fs;

use crate::run::{command, run};
use crate::{Folders, Result, archive, wasm};

/// Makes the tarball of the npm package.
pub fn npm(folders: &Folders) -> Result<()> {
    wasm::build(folders)?;
    let web = folders.root.join("web");
    let package = web.join("npm");
    run(&mut command(&web, "npm", &["ci", "--no-audit", "--no-fund"]))?;
    run(&mut command(&web, "npx", &["tsc", "--project", "npm"]))?;
    fs::copy(folders.root.join("LICENSE"), package.join("LICENSE"))?;
    let version = fs::read_to_string(package.join("package.json"))?;
    if !version.contains(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"))) {
        return Err("web/npm/package.json has another version than Cargo.toml".into());
    }
    let dist = folders.dist.display().to_string();
    run(&mut command(&package, "npm", &["pack", "--silent", "--pack-destination", &dist]))
}

/// Builds the page; the package must have been built.
pub fn page(folders: &Folders) -> Result<()> {
    let web = folders.root.join("web");
    if !web.join("npm/dist").exists() {
        npm(folders)?;
    }
    run(&mut command(&web, "npx", &["tsc", "--project", "page", "--noEmit"]))?;
    run(&mut command(&web, "npx", &["vite", "build", "page", "--logLevel", "warn"]))?;
    // The documents of this version, to which the page links.
    let site = folders.root.join("target/site");
    run(&mut command(&folders.root, "python3", &["docs/site.py", &site.display().to_string()]))?;
    fs::rename(site.join("site"), folders.dist.join("page/documents"))?;
    archive::pack(
        folders,
        &folders.dist,
        "page",
        &format!("onnx2ncnn-{}-page", env!("CARGO_PKG_VERSION")),
        false,
    )
}

/// Tests the package and the page.
pub fn test(folders: &Folders) -> Result<()> {
    run(&mut command(&folders.root, "web/test.sh", &[]))
}
