//! Files that are complete or not there: written under a temporary name in the same folder, then renamed.

use crate::error::CliError;
use crate::failure::Failure;
use std::fs;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use tempfile::NamedTempFile;

/// A file in the making. Unless [`OutputFile::commit`] is called, dropping it leaves nothing behind.
pub(crate) struct OutputFile {
    path: PathBuf,
    sink: Sink,
}

enum Sink {
    /// Becomes the file at the end.
    Temporary(BufWriter<NamedTempFile>),
    /// A device or a pipe, which cannot be replaced by a file.
    Special(fs::File),
}

impl OutputFile {
    /// Begins a file that will be at `path`.
    pub(crate) fn create(path: &Path) -> Result<Self, CliError> {
        let wrap = |source| CliError::CannotWrite { path: path.to_owned(), source };
        // A link stays, what it points to is replaced.
        let place = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&place) {
            Ok(metadata) if metadata.is_dir() => {
                return Err(wrap(io::Error::new(io::ErrorKind::IsADirectory, "it is a folder")));
            }
            Ok(metadata) if !metadata.is_file() => {
                let file = fs::OpenOptions::new().write(true).open(&place).map_err(wrap)?;
                return Ok(Self { path: path.to_owned(), sink: Sink::Special(file) });
            }
            _ => {}
        }
        let folder = match place.parent() {
            Some(folder) if !folder.as_os_str().is_empty() => folder,
            _ => Path::new("."),
        };
        let file = tempfile::Builder::new().prefix(".infc-").suffix(".part").tempfile_in(folder).map_err(wrap)?;
        Ok(Self { path: place, sink: Sink::Temporary(BufWriter::with_capacity(1 << 16, file)) })
    }

    /// Puts the file in its place.
    pub(crate) fn commit(self) -> Result<(), CliError> {
        let Self { path, sink } = self;
        let Sink::Temporary(file) = sink else { return Ok(()) };
        let wrap = |source| CliError::CannotWrite { path: path.clone(), source };
        let file = file.into_inner().map_err(|error| wrap(error.into_error()))?;
        // A name is only given to what is on the disk: a full disk may first show here.
        file.as_file().sync_all().map_err(wrap)?;
        set_usual_permissions(file.as_file()).map_err(wrap)?;
        file.persist(&path).map_err(|error| wrap(error.error))?;
        Ok(())
    }

    /// Maps an error of writing to the file.
    pub(crate) fn error(&self, source: io::Error) -> CliError {
        CliError::CannotWrite { path: self.path.clone(), source }
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match &mut self.sink {
            Sink::Temporary(file) => file.write(bytes),
            Sink::Special(file) => file.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.sink {
            Sink::Temporary(file) => file.flush(),
            Sink::Special(file) => file.flush(),
        }
    }
}

/// Temporary files are private; the result is as readable as any other new file.
#[cfg(unix)]
fn set_usual_permissions(file: &fs::File) -> io::Result<()> {
    use std::os::unix::fs::PermissionsExt;
    file.set_permissions(fs::Permissions::from_mode(0o666 & !umask()))
}

/// The permissions that new files of this process do not get. Reading the mask with the system call would change it.
#[cfg(unix)]
fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    mask.and_then(|mask| u32::from_str_radix(mask.trim(), 8).ok()).unwrap_or(0o022)
}

#[cfg(not(unix))]
fn set_usual_permissions(_: &fs::File) -> io::Result<()> {
    Ok(())
}

/// Writes a whole file at once, complete or not at all.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let mut file = OutputFile::create(path)?;
    file.write_all(bytes).map_err(|error| file.error(error))?;
    file.commit()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_left_of_a_file_that_is_not_committed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.infa");
        let mut file = OutputFile::create(&path).unwrap();
        file.write_all(b"half").unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        drop(file);
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_old_file_is_replaced_whole() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.infa");
        fs::write(&path, "something longer").unwrap();
        write(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_an_error_and_a_device_stays_a_device() {
        use std::os::unix::fs::FileTypeExt;
        assert_eq!(write(Path::new("/dev/full"), b"x").unwrap_err().code(), "cli::cannot-write");
        assert!(fs::metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_folder_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        assert_eq!(write(folder.path(), b"x").unwrap_err().code(), "cli::cannot-write");
    }
}
