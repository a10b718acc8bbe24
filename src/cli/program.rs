//! The program of the command line, which a batch starts again for each model.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use onnx2ncnn::error::{Error, Result};

/// The program that runs a command line.
#[derive(Clone, Debug)]
pub enum Program {
    /// The executable of this process.
    Executable,
    /// An interpreter that loads this code as a library.
    Interpreter {
        /// The executable of the interpreter.
        executable: PathBuf,
        /// The words before those of the command line.
        words: Vec<OsString>,
        /// The file of the library.
        library: PathBuf,
    },
}

impl Program {
    /// Returns a process of the program without words of a command line.
    pub(super) fn command(&self) -> Result<Command> {
        match self {
            Program::Executable => {
                #[cfg_attr(not(unix), expect(unused_mut))]
                let mut command = Command::new(executable()?);
                #[cfg(unix)]
                std::os::unix::process::CommandExt::arg0(&mut command, "onnx2ncnn");
                Ok(command)
            }
            Program::Interpreter { executable, words, .. } => {
                let mut command = Command::new(executable);
                command.args(words);
                Ok(command)
            }
        }
    }

    /// Returns the file whose content identifies the program.
    pub(super) fn code(&self) -> Result<PathBuf> {
        match self {
            Program::Executable => executable(),
            Program::Interpreter { library, .. } => Ok(library.clone()),
        }
    }
}

/// Returns the path of this process's executable, even if its file has been replaced.
fn executable() -> Result<PathBuf> {
    let running = Path::new("/proc/self/exe");
    if cfg!(target_os = "linux") && running.exists() {
        return Ok(running.to_owned());
    }
    std::env::current_exe().map_err(|e| Error::io("the path of this program is unknown", e))
}
