//! Where a model comes from.

use crate::CompileError;
use infc_frontend_onnx::{LoadOptions, Model};
use std::path::{Path, PathBuf};

/// A model to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A file; external data lies in its folder.
    File(PathBuf),
    /// A model in memory.
    Bytes {
        /// The file's contents.
        bytes: Vec<u8>,
        /// The folder of external data, if there may be any.
        folder: Option<PathBuf>,
    },
}

impl Source {
    /// A file.
    pub fn file(path: impl Into<PathBuf>) -> Self {
        Self::File(path.into())
    }

    /// A model in memory, without external data.
    pub fn bytes(bytes: impl Into<Vec<u8>>) -> Self {
        Self::Bytes { bytes: bytes.into(), folder: None }
    }

    /// Reads and checks the model.
    pub(crate) fn load(&self) -> Result<Model, CompileError> {
        let loaded = match self {
            Self::File(path) => Model::load(path, &LoadOptions::default()),
            Self::Bytes { bytes, folder } => Model::from_bytes(bytes.clone(), folder.as_deref().map(Path::new)),
        };
        loaded.map_err(CompileError::Import)
    }
}
