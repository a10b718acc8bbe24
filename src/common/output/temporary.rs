//! Temporary files and folders, removed on drop.

#[cfg(any(unix, windows))]
use files as system;
#[cfg(not(any(unix, windows)))]
use none as system;

pub(crate) use system::Room;
#[cfg(target_os = "linux")]
pub(super) use system::make;
pub(super) use system::{TempPath, create, of, persist};

#[cfg(any(unix, windows))]
mod files {
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};

    use tempfile::{Builder, TempDir};

    pub use tempfile::TempPath;

    /// The prefix of the names of temporary files.
    const PREFIX: &str = ".onnx2ncnn-";

    /// Creates an empty file in a folder, with the permissions of new files.
    pub fn create(folder: &Path) -> io::Result<(File, TempPath)> {
        let mut builder = Builder::new();
        builder.prefix(PREFIX);
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        Ok(builder.tempfile_in(folder)?.into_parts())
    }

    /// Creates a file in a folder by `make`, under the name that it is passed.
    #[cfg(target_os = "linux")]
    pub fn make(folder: &Path, make: impl FnMut(&Path) -> io::Result<()>) -> io::Result<TempPath> {
        Ok(Builder::new().prefix(PREFIX).make_in(folder, make)?.into_temp_path())
    }

    /// Takes an existing file.
    pub fn of(path: PathBuf) -> io::Result<TempPath> {
        TempPath::try_from_path(path)
    }

    /// Moves a file to its destination, to stay there.
    pub fn persist(file: TempPath, path: &Path) -> io::Result<()> {
        file.persist(path).map_err(|error| error.error)
    }

    /// A temporary folder.
    pub(crate) struct Room(TempDir);

    impl Room {
        /// Creates an empty folder in another one.
        pub fn create(folder: &Path) -> io::Result<Room> {
            Ok(Room(Builder::new().prefix(PREFIX).tempdir_in(folder)?))
        }

        /// Returns its path.
        pub fn path(&self) -> &Path {
            self.0.path()
        }
    }
}

/// Systems without files: no function succeeds.
#[cfg(not(any(unix, windows)))]
mod none {
    use std::fs::File;
    use std::io;
    use std::path::{Path, PathBuf};

    pub enum TempPath {}

    impl AsRef<Path> for TempPath {
        fn as_ref(&self) -> &Path {
            match *self {}
        }
    }

    pub fn create(_: &Path) -> io::Result<(File, TempPath)> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn of(_: PathBuf) -> io::Result<TempPath> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn persist(file: TempPath, _: &Path) -> io::Result<()> {
        match file {}
    }

    pub(crate) enum Room {}

    impl Room {
        pub fn create(_: &Path) -> io::Result<Room> {
            Err(io::ErrorKind::Unsupported.into())
        }

        pub fn path(&self) -> &Path {
            match *self {}
        }
    }
}
