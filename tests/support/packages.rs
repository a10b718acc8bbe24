//! Packages that only some programs import, and no comparison needs.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::run;

/// What programs that read pictures import.
pub const PICTURES: (&str, &[&str]) = ("pillow", &["pillow==13.0.0"]);

/// Returns a folder with packages for an interpreter, which a program finds by PYTHONPATH.
pub fn packages(python: &Path, (name, packages): (&str, &[&str])) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    fs::create_dir_all(&folder).unwrap();
    let lock = File::create(folder.join("lock")).unwrap();
    lock.lock().unwrap();
    let complete = folder.join("complete");
    if !complete.exists() {
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "--target"];
        run(Command::new(python).args(pip).arg(&folder).args(packages));
        File::create(complete).unwrap();
    }
    folder
}
