//! What each phase made, as text files.

use crate::kernels::{Kernels, Scheduled};
use crate::{CompileError, Phase};
use infc_codegen_cpu::Target;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Writes `NN-phase.txt` files into a folder, or nothing.
pub(crate) struct Dump {
    folder: Option<PathBuf>,
}

impl Dump {
    pub(crate) fn new(folder: Option<&Path>) -> Result<Self, CompileError> {
        if let Some(path) = folder {
            std::fs::create_dir_all(path).map_err(|source| CompileError::Dump { path: path.to_owned(), source })?;
        }
        Ok(Self { folder: folder.map(Path::to_owned) })
    }

    /// Writes what a phase made; the text is made only if somebody wants it.
    pub(crate) fn phase(&self, phase: Phase, text: impl FnOnce() -> String) -> Result<(), CompileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let number = Phase::ALL.iter().position(|p| *p == phase).unwrap_or(0);
        let path = folder.join(format!("{number:02}-{phase}.txt"));
        std::fs::write(&path, text()).map_err(|source| CompileError::Dump { path, source })
    }
}

/// All kernels, one after the other.
pub(crate) fn kernels(kernels: &Kernels) -> String {
    let mut text = String::new();
    for distinct in &kernels.distinct {
        let _ = writeln!(text, "# {}\n{}\n", distinct.origins.join(", "), distinct.kernel);
    }
    text
}

/// All schedules of all targets.
pub(crate) fn schedules(kernels: &Kernels, scheduled: &[(Target, Vec<Scheduled>)]) -> String {
    let mut text = String::new();
    for (target, scheduled) in scheduled {
        for (distinct, s) in kernels.distinct.iter().zip(scheduled) {
            let _ = writeln!(text, "# {target} {}\n{}\n", distinct.kernel.name, s.schedule);
        }
    }
    text
}
