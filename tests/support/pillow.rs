//! Pillow, which the programs that read pictures import, and no comparison needs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::run;

const PILLOW: &str = "pillow==13.0.0";

/// Returns a folder with Pillow for an interpreter, which a program finds by PYTHONPATH.
pub fn pillow(python: &Path) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pillow");
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    if !folder.join("PIL").exists() {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"];
        run(Command::new(python).args(pip).arg(&folder).arg(PILLOW));
    }
    folder
}
