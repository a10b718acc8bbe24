//! The command as a shell runs it, in a temporary folder.

#![allow(dead_code)] // No test uses all of it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

/// Returns the path of the model of a fixture.
pub fn fixture(name: &str) -> String {
    format!("{}/fixtures/{name}/model.onnx", env!("CARGO_MANIFEST_DIR"))
}

/// Returns whether the command is that of Windows, where `folder/..` is a name of the folder before, even if
/// the folder does not exist.
pub fn is_of_windows() -> bool {
    cfg!(windows) || std::env::var("ONNX2NCNN").is_ok_and(|program| program.contains("wine"))
}

/// A temporary folder, and the command run in it.
pub struct Room(tempfile::TempDir);

impl Room {
    pub fn new() -> Room {
        Room(tempfile::tempdir().unwrap())
    }

    /// A room with a model, and the files of its net, which are named `net`.
    #[track_caller]
    pub fn with_net(model: &[u8]) -> Room {
        let room = Room::new();
        room.put("m.onnx", model);
        room.expect("m.onnx net.param", 0, "");
        room
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        fs::write(self.path(name), bytes).unwrap();
    }

    pub fn command(&self, line: &str) -> Command {
        let built = env!("CARGO_BIN_EXE_onnx2ncnn");
        // The command of another system, after its emulator.
        let program = std::env::var("ONNX2NCNN").unwrap_or_else(|_| built.to_owned());
        let mut words = program.split(' ');
        let mut command = Command::new(words.next().unwrap());
        command.args(words).args(line.split_whitespace()).current_dir(&self.0).stdin(Stdio::null());
        for variable in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI"] {
            command.env_remove(variable);
        }
        command
    }

    pub fn run(&self, line: &str) -> Output {
        self.command(line).output().unwrap()
    }

    /// Every file and folder, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = fs::read_dir(&self.0).unwrap();
        let mut names: Vec<String> = entries.map(|e| e.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[track_caller]
    pub fn expect(&self, line: &str, code: i32, said: &str) -> String {
        expect(&self.run(line), line, code, said)
    }
}

#[track_caller]
pub fn expect(output: &Output, line: &str, code: i32, said: &str) -> String {
    let text = [output.stdout.clone(), output.stderr.clone()].concat();
    let text = String::from_utf8(text).unwrap();
    assert_eq!(output.status.code(), Some(code), "{line}: {text}");
    assert!(text.contains(said), "{line} says: {text}");
    assert!(!text.contains("panicked"), "{line} says: {text}");
    text
}
