//! NumPy's `.npz` archives: a zip file with one `.npy` file per array.

use crate::error::CliError;
use crate::failure::Failure;
use crate::{npy, output_file};
use infc_tensor::Tensor;
use std::fs::File;
use std::io::{BufReader, Cursor, Read, Write};
use std::path::{Path, PathBuf};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// An archive opened for reading; arrays are read one at a time, when asked for.
pub(crate) struct Npz {
    path: PathBuf,
    archive: ZipArchive<BufReader<File>>,
}

impl Npz {
    pub(crate) fn open(path: &Path) -> Result<Self, CliError> {
        let file = File::open(path);
        let file = file.map_err(|source| CliError::CannotRead { path: path.to_owned(), source })?;
        let archive = ZipArchive::new(BufReader::new(file))
            .map_err(|error| CliError::BadArchive { path: path.to_owned(), reason: error.to_string() })?;
        Ok(Self { path: path.to_owned(), archive })
    }

    /// The names of the arrays, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            self.archive.file_names().map(|name| name.strip_suffix(".npy").unwrap_or(name).to_owned()).collect();
        names.sort_unstable();
        names
    }

    /// The array of this name; `None` if there is none.
    pub(crate) fn read(&mut self, name: &str) -> Result<Option<Tensor>, CliError> {
        let with_suffix = format!("{name}.npy");
        let index = self.archive.index_for_name(&with_suffix).or_else(|| self.archive.index_for_name(name));
        let Some(index) = index else { return Ok(None) };
        let bad = |reason: String| CliError::BadArchive { path: self.path.clone(), reason };
        let mut entry = self.archive.by_index(index).map_err(|error| bad(error.to_string()))?;
        // Memory grows with what is there, whatever the entry claims to hold.
        let mut bytes = Vec::new();
        let limit = entry.size();
        entry.by_ref().take(limit).read_to_end(&mut bytes).map_err(|error| bad(error.to_string()))?;
        let place = format!("{}: {with_suffix}", self.path.display());
        npy::read(&bytes).map(Some).map_err(|error| CliError::BadArray { place, reason: error.to_string() })
    }
}

/// Writes an archive, uncompressed as `numpy.savez` does.
pub(crate) fn write<'a>(path: &Path, arrays: impl Iterator<Item = (String, &'a Tensor)>) -> Result<(), Failure> {
    let bad = |reason: String| CliError::BadArchive { path: path.to_owned(), reason };
    let mut writer = ZipWriter::new(Cursor::new(Vec::new()));
    // A fixed time (the oldest that the format has) makes equal arrays equal files.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Stored)
        .last_modified_time(zip::DateTime::default());
    for (name, tensor) in arrays {
        let array = npy::write(tensor).map_err(|error| bad(format!("`{name}`: {error}")))?;
        let options = options.large_file(array.len() > u32::MAX as usize);
        writer.start_file(format!("{name}.npy"), options).map_err(|error| bad(error.to_string()))?;
        writer.write_all(&array).map_err(|error| bad(error.to_string()))?;
    }
    let archive = writer.finish().map_err(|error| bad(error.to_string()))?;
    output_file::write(path, archive.get_ref())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let x = Tensor::from_elements(&[2], &[1.0f32, 2.0]).unwrap();
        let y = Tensor::scalar(3i64);
        let arrays = || [("model/x:0".to_owned(), &x), ("y".to_owned(), &y)].into_iter();
        write(&path, arrays()).unwrap();
        let mut npz = Npz::open(&path).unwrap();
        assert_eq!(npz.names(), ["model/x:0", "y"]);
        assert_eq!(npz.read("model/x:0").unwrap(), Some(x.clone()));
        assert_eq!(npz.read("y").unwrap(), Some(y.clone()));
        assert_eq!(npz.read("z").unwrap(), None);
        let first = std::fs::read(&path).unwrap();
        write(&path, arrays()).unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), first);
    }

    #[test]
    fn damaged_archives_are_errors() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.npz");
        let x = Tensor::from_elements(&[64], &[1.0f32; 64]).unwrap();
        write(&path, [("x".to_owned(), &x)].into_iter()).unwrap();
        let whole = std::fs::read(&path).unwrap();
        for len in [0, 1, whole.len() / 2, whole.len() - 1] {
            std::fs::write(&path, &whole[..len]).unwrap();
            let result = Npz::open(&path).and_then(|mut npz| npz.read("x"));
            assert_eq!(result.unwrap_err().code(), "input::bad-archive", "{len}");
        }
        for at in (0..whole.len()).step_by(7) {
            let mut bytes = whole.clone();
            bytes[at] ^= 0x55;
            std::fs::write(&path, &bytes).unwrap();
            // The name or unused fields may be hit: then there is no such array, or nothing changes.
            let _ = Npz::open(&path).and_then(|mut npz| npz.read("x"));
        }
    }
}
