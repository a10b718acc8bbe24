//! Files by which others install the archives: their addresses and checksums.

use std::fs;
use std::path::Path;

use crate::run::{command, run};
use crate::{Folders, Result, metadata, toolchain};

const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Archives for Unix: target, the words of `uname`, the blocks of Homebrew.
const UNIX: [(&str, &str, [&str; 2]); 4] = [
    ("x86_64-unknown-linux-gnu", "Linux-x86_64", ["linux", "intel"]),
    ("aarch64-unknown-linux-gnu", "Linux-aarch64", ["linux", "arm"]),
    ("x86_64-apple-darwin", "Darwin-x86_64", ["macos", "intel"]),
    ("aarch64-apple-darwin", "Darwin-arm64", ["macos", "arm"]),
];
const WINDOWS: &str = "x86_64-pc-windows-gnu";

const INSTALL: &str = include_str!("../manifests/install.sh");
const HOMEBREW: &str = include_str!("../manifests/onnx2ncnn.rb");
/// For conda-forge, which builds from the crate.
const CONDA: &str = include_str!("../manifests/recipe.yaml");
/// Scoop and winget.
const OF_WINDOWS: [(&str, &str); 2] = [
    ("onnx2ncnn.json", include_str!("../manifests/scoop.json")),
    ("onnx2ncnn.yaml", include_str!("../manifests/winget.yaml")),
];

/// Writes the manifests of the archives that were built, if `XTASK_REPOSITORY` has the address of the repository. The
/// archives are in its releases, or at `XTASK_URL`.
pub fn write(folders: &Folders) -> Result<()> {
    let Some(repository) = metadata::repository()? else {
        eprintln!("no manifests: XTASK_REPOSITORY has no address");
        return Ok(());
    };
    let url =
        std::env::var("XTASK_URL").unwrap_or_else(|_| format!("{repository}/releases/download/v{VERSION}"));
    write_for(folders, &repository, &url, &folders.dist.join("manifests"))
}

fn write_for(folders: &Folders, repository: &str, url: &str, folder: &Path) -> Result<()> {
    let sums = fs::read_to_string(folders.dist.join("SHA256SUMS"))?;
    let sum_of =
        |file: &str| sums.lines().find_map(|line| line.strip_suffix(file)?.split_whitespace().next());
    let name = |target: &str| format!("onnx2ncnn-{VERSION}-{target}");
    let general = |text: &str| text.replace("@VERSION@", VERSION).replace("@REPOSITORY@", repository);
    fs::create_dir_all(folder)?;

    let (mut cases, mut blocks) = (Vec::new(), Vec::new());
    for (target, machine, [system, processor]) in UNIX {
        let file = format!("{}.tar.gz", name(target));
        let Some(sum) = sum_of(&file) else { continue };
        cases.push(format!("{machine})\n    url={url}/{file}\n    sum={sum}\n    ;;"));
        blocks.push(format!(
            "  on_{system} do\n    on_{processor} do\n      url \"{url}/{file}\"\n      sha256 \"{sum}\"\n    end\n  end"
        ));
    }
    fs::write(folder.join("install.sh"), general(INSTALL).replace("@ARCHIVES@", &cases.join("\n")))?;
    fs::write(folder.join("onnx2ncnn.rb"), general(HOMEBREW).replace("@ARCHIVES@", &blocks.join("\n")))?;
    if let Some(sum) = sum_of(&format!("onnx2ncnn-{VERSION}.crate")) {
        fs::write(folder.join("recipe.yaml"), general(CONDA).replace("@SUM@", sum))?;
    }
    let file = format!("{}.zip", name(WINDOWS));
    if let Some(sum) = sum_of(&file) {
        for (manifest, text) in OF_WINDOWS {
            let text = general(text).replace("@FILE@", &format!("{url}/{file}")).replace("@SUM@", sum);
            fs::write(folder.join(manifest), text.replace("@FOLDER@", &name(WINDOWS)))?;
        }
    }
    Ok(())
}

/// Installs from a local server, by each manifest.
pub fn test(folders: &Folders) -> Result<()> {
    let folder = folders.root.join("target/xtask/manifests");
    toolchain::install_debian(Path::new("/usr/bin/ruby"), &["ruby"])?;
    let server = "http://127.0.0.1:@PORT@";
    write_for(folders, server, server, &folder)?;
    let [dist, folder] = [&folders.dist, &folder].map(|path| path.display().to_string());
    let python = toolchain::environment(folders)?.join("python").display().to_string();
    run(&mut command(&folders.root, &python, &["xtask/manifests/test.py", &dist, &folder]))
}
