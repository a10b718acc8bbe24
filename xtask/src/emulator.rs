//! Programs of other systems on this machine.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::run::{command, run};
use crate::targets::{self, Linker, TARGETS, Target};
use crate::{Folders, Result, archive, toolchain};

/// What runs programs of a target.
pub struct Emulator {
    program: &'static str,
    /// The folder with the libraries of the other system, and a file in it.
    libraries: Option<[&'static str; 2]>,
    /// Debian's packages of the program and of the libraries.
    packages: &'static [&'static str],
}

pub const QEMU_X86_64: Emulator = Emulator {
    program: "/usr/bin/qemu-x86_64-static",
    libraries: Some(["/usr/x86_64-linux-gnu", "lib/ld-linux-x86-64.so.2"]),
    packages: &["qemu-user-static", "libc6-amd64-cross"],
};
pub const QEMU_AARCH64: Emulator = Emulator {
    program: "/usr/bin/qemu-aarch64-static",
    libraries: Some(["/usr/aarch64-linux-gnu", "lib/ld-linux-aarch64.so.1"]),
    packages: &["qemu-user-static", "libc6-arm64-cross"],
};
pub const WINE: Emulator =
    Emulator { program: "/usr/lib/wine/wine64", libraries: None, packages: &["wine64"] };

/// The tests that run the command of another system.
const TESTS: [&str; 3] = ["cli", "command", "simplify"];
/// Those of Windows besides: without binfmt a program in qemu cannot start itself again, as the first two need.
const TESTS_OF_WINDOWS: [&str; 3] = ["batch", "paths", "windows"];

/// A program, with its emulator.
pub struct Program {
    words: Vec<String>,
    is_of_windows: bool,
    /// The folder of wine's settings and drive C.
    prefix: PathBuf,
}

impl Program {
    /// Returns how this machine runs what was built for a target, if it can.
    pub fn new(folders: &Folders, target: &Target, built: &Path) -> Result<Option<Program>> {
        let mut program = Program::native(built);
        if target.triple == archive::host_target(folders)? {
            return Ok(Some(program));
        }
        let Some(Emulator { program: emulator, libraries, packages }) = target.emulator else {
            return Ok(None);
        };
        toolchain::install_debian(Path::new(emulator), packages)?;
        if let Some([folder, file]) = libraries {
            toolchain::install_debian(&Path::new(folder).join(file), packages)?;
            program.words.splice(0..0, ["-L".to_owned(), (*folder).to_owned()]);
        }
        program.words.insert(0, (*emulator).to_owned());
        program.prefix = folders.root.join("target/xtask/wine");
        program.is_of_windows = target.linker == Linker::Mingw;
        if program.is_of_windows {
            program.words.insert(0, again(folders));
            program.make_prefix(folders)?;
        }
        Ok(Some(program))
    }

    /// Returns a program of this machine.
    pub fn native(built: &Path) -> Program {
        let words = vec![built.display().to_string()];
        Program { words, is_of_windows: false, prefix: PathBuf::new() }
    }

    /// Makes drive C, with the library that Debian's wine lacks.
    fn make_prefix(&self, folders: &Folders) -> Result<()> {
        let library = self.prefix.join("drive_c/windows/system32/bcryptprimitives.dll");
        if library.exists() {
            return Ok(());
        }
        let mut boot = command(&folders.root, WINE.program, &["wineboot", "--init"]);
        self.set_environment(&mut boot);
        run(&mut boot)?;
        let library = library.display().to_string();
        let library = ["-shared", "-o", &library, "xtask/windows/bcryptprimitives.c"];
        let hold = self.hold().display().to_string();
        let hold = ["-o", &hold, "xtask/windows/hold.c"];
        run(&mut command(&folders.root, toolchain::MINGW, &hold))?;
        run(&mut command(&folders.root, toolchain::MINGW, &library))
    }

    /// The program that keeps files open.
    fn hold(&self) -> PathBuf {
        self.prefix.join("drive_c/hold.exe")
    }

    fn set_environment(&self, command: &mut Command) {
        command.env("WINEPREFIX", &self.prefix).env("WINEDEBUG", "-all").env("WINELOADER", WINE.program);
    }

    /// Returns a process of the program in a folder.
    pub fn command(&self, folder: &Path, words: &[&str]) -> Command {
        let line: Vec<&str> = self.words.iter().map(String::as_str).chain(words.iter().copied()).collect();
        let (program, words) = line.split_first().map_or(("", &[][..]), |(program, words)| (*program, words));
        let mut command = command(folder, program, words);
        self.set_environment(&mut command);
        command
    }

    /// Returns a process of the tests of the command, which run this one.
    fn tests(&self, folders: &Folders) -> Command {
        let mut cargo = command(&folders.root, "cargo", &["test", "--quiet"]);
        let further = TESTS_OF_WINDOWS.iter().filter(|_| self.is_of_windows);
        for test in TESTS.iter().chain(further) {
            cargo.args(["--test", test]);
        }
        self.set_environment(&mut cargo);
        cargo.env("ONNX2NCNN", self.words.join(" "));
        if self.is_of_windows {
            cargo.args(["--", "--skip", "unix::"]);
            let hold = [&again(folders), WINE.program, &self.hold().display().to_string()].join(" ");
            cargo.env("ONNX2NCNN_HOLD", hold);
        }
        cargo
    }
}

/// Returns the script that runs a program of wine.
fn again(folders: &Folders) -> String {
    folders.root.join("xtask/windows/again.sh").display().to_string()
}

/// Runs the commands that were built: all write the same bytes for the fixtures, and those of other systems pass
/// the tests of the command.
pub fn test(folders: &Folders) -> Result<()> {
    let host = archive::host_target(folders)?;
    let mut first: Option<PathBuf> = None;
    for target in &TARGETS {
        let built = targets::built(folders, target)?.command;
        if !built.exists() {
            eprintln!("{}: not built", target.triple);
            continue;
        }
        let Some(program) = Program::new(folders, target, &built)? else {
            eprintln!("{}: not run", target.triple);
            continue;
        };
        let results = folders.root.join("target/xtask/fixtures").join(target.triple);
        let converted = convert_fixtures(folders, &program, &results)?;
        eprintln!("{}: {converted} fixtures converted", target.triple);
        if let Some(first) = &first {
            let (one, other) = (first.display().to_string(), results.display().to_string());
            run(&mut command(&folders.root, "diff", &["--recursive", "--brief", &one, &other]))?;
        }
        first.get_or_insert(results);
        if target.triple != host {
            run(&mut program.tests(folders))?;
        }
    }
    Ok(())
}

/// Converts the fixtures, each in a process; a program in an emulator cannot start itself again. Returns how many
/// were not refused.
fn convert_fixtures(folders: &Folders, program: &Program, results: &Path) -> Result<usize> {
    if results.exists() {
        fs::remove_dir_all(results)?;
    }
    let models = models(&folders.root.join("fixtures"))?;
    let next = AtomicUsize::new(0);
    let convert = || {
        let mut converted = 0;
        while let Some(model) = models.get(next.fetch_add(1, Ordering::Relaxed)) {
            let folder = results.join(model);
            fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
            let model = folders.root.join("fixtures").join(model).join("model.onnx").display().to_string();
            let mut process = program.command(&folder, &["--quiet", &model, "net.param", "net.bin"]);
            let output = process.output().map_err(|error| error.to_string())?;
            match output.status.code() {
                Some(0) => converted += 1,
                // Refused, or without its data, which the command says, not its emulator.
                Some(1 | 2) if is_said(&output.stderr) => {}
                code => {
                    return Err(format!("{model}: {code:?}: {}", String::from_utf8_lossy(&output.stderr)));
                }
            }
        }
        Ok(converted)
    };
    let converted: std::result::Result<Vec<usize>, String> = std::thread::scope(|scope| {
        let threads = [scope.spawn(convert), scope.spawn(convert)];
        threads
            .into_iter()
            .map(|thread| thread.join().unwrap_or_else(|_| Err("a thread panicked".into())))
            .collect()
    });
    Ok(converted?.into_iter().sum())
}

/// Returns whether the command wrote an error.
fn is_said(errors: &[u8]) -> bool {
    String::from_utf8_lossy(errors).lines().any(|line| line.starts_with("error: "))
}

/// Returns the folders of the fixtures, as SHELF/NAME.
fn models(fixtures: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for shelf in fs::read_dir(fixtures)? {
        let shelf = shelf?.path();
        for fixture in shelf.read_dir().into_iter().flatten() {
            let fixture = fixture?.path();
            if fixture.join("model.onnx").exists() {
                found.push(fixture.strip_prefix(fixtures)?.to_owned());
            }
        }
    }
    found.sort();
    Ok(found)
}
