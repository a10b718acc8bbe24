//! The npm package and the page.

use std::fs;

use crate::run::{command, run};
use crate::{Places, Result, archive, wasm};

/// Makes the tarball of the npm package.
pub fn npm(places: &Places) -> Result<()> {
    wasm::build(places)?;
    let web = places.root.join("web");
    let package = web.join("npm");
    run(&mut command(&web, "npm", &["ci", "--no-audit", "--no-fund"]))?;
    run(&mut command(&web, "npx", &["tsc", "--project", "npm"]))?;
    fs::copy(places.root.join("LICENSE"), package.join("LICENSE"))?;
    let version = fs::read_to_string(package.join("package.json"))?;
    if !version.contains(&format!("\"version\": \"{}\"", env!("CARGO_PKG_VERSION"))) {
        return Err("web/npm/package.json has another version than Cargo.toml".into());
    }
    let dist = places.dist.display().to_string();
    run(&mut command(&package, "npm", &["pack", "--silent", "--pack-destination", &dist]))
}

/// Builds the page; the package must have been built.
pub fn page(places: &Places) -> Result<()> {
    let web = places.root.join("web");
    if !web.join("npm/dist").exists() {
        npm(places)?;
    }
    run(&mut command(&web, "npx", &["tsc", "--project", "page", "--noEmit"]))?;
    run(&mut command(&web, "npx", &["vite", "build", "page", "--logLevel", "warn"]))?;
    archive::pack(
        places,
        &places.dist,
        "page",
        &format!("onnx2ncnn-{}-page", env!("CARGO_PKG_VERSION")),
        false,
    )
}

/// Tests the package and the page.
pub fn test(places: &Places) -> Result<()> {
    run(&mut command(&places.root, "web/test.sh", &[]))
}
