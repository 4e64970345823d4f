//! What each phase made, as text files.
//!
//! ```text
//! NN-phase.txt                      what it made
//! NN-phase-case-M.txt               the same of the M-th special case, where it makes something of each
//! constants/HASH.pb                 ONNX tensors that graphs name by hash
//! NN-codegen/TARGET/KERNEL.s        the machine code of a kernel
//! NN-codegen/cuda-sm_NN/KERNEL.ptx  the PTX of a kernel
//! cuda/                             the same of GPUs, where they have a plan of their own
//! ```

use crate::code::{Code, VariantTarget};
use crate::kernels::{Kernels, Scheduled};
use crate::{CompileError, Phase};
use infc_frontend_onnx::encode_tensor;
use infc_ir::graph::Graph;
use infc_ir::text::constants_by_hash;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// The folder of constants, beside the dumps.
pub(crate) const CONSTANTS: &str = "constants";

/// Writes files into a folder, or nothing.
#[derive(Clone)]
pub(crate) struct Dump {
    folder: Option<PathBuf>,
}

impl Dump {
    pub(crate) fn new(folder: Option<&Path>) -> Result<Self, CompileError> {
        if let Some(path) = folder {
            create_dir(path)?;
        }
        Ok(Self { folder: folder.map(Path::to_owned) })
    }

    /// The same in a folder within.
    pub(crate) fn within(&self, name: &str) -> Result<Self, CompileError> {
        Self::new(self.folder.as_ref().map(|folder| folder.join(name)).as_deref())
    }

    /// Writes what a phase made; the text is made only if somebody wants it.
    pub(crate) fn phase(&self, phase: Phase, text: impl FnOnce() -> String) -> Result<(), CompileError> {
        self.of_case(phase, 0, text)
    }

    /// Writes what a phase made of a special case, counted from 1, or of the general one, 0.
    pub(crate) fn of_case(&self, phase: Phase, case: usize, text: impl FnOnce() -> String) -> Result<(), CompileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let suffix = if case == 0 { String::new() } else { format!("-case-{case}") };
        write(folder.join(format!("{}{suffix}.txt", stem(phase))), text())
    }

    /// As [`Dump::of_case`], of what computes a step of a loop, counted from 0.
    pub(crate) fn of_body(&self, phase: Phase, body: usize, text: impl FnOnce() -> String) -> Result<(), CompileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        write(folder.join(format!("{}-loop-{body}.txt", stem(phase))), text())
    }

    /// Writes the graph of a step of a loop, as text alone: no compilation starts from it.
    pub(crate) fn body(&self, phase: Phase, body: usize, graph: &Graph) -> Result<(), CompileError> {
        self.of_body(phase, body, || graph.to_string())
    }

    /// Writes a graph, and the constants that its text does not show, so that a compilation can start from it.
    /// `case` is as in [`Dump::of_case`].
    pub(crate) fn graph(&self, phase: Phase, case: usize, graph: &Graph) -> Result<(), CompileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        let constants = folder.join(CONSTANTS);
        create_dir(&constants)?;
        for (hash, tensor) in constants_by_hash(graph) {
            let path = constants.join(format!("{hash}.pb"));
            // Content is name: what is there is right, from the phase before.
            if !path.exists() {
                write(path, encode_tensor(&hash, &tensor))?;
            }
        }
        self.of_case(phase, case, || graph.to_string())
    }

    /// Writes each kernel's code as text.
    pub(crate) fn code(
        &self,
        kernels: &Kernels,
        scheduled: &[(VariantTarget, Vec<Scheduled>)],
        compiled: &[Code],
    ) -> Result<(), CompileError> {
        let Some(folder) = &self.folder else { return Ok(()) };
        for ((target, scheduled), code) in scheduled.iter().zip(compiled) {
            // No colon: not every file system takes one.
            let folder = folder.join(stem(Phase::Codegen)).join(target.to_string().replace(':', "-"));
            create_dir(&folder)?;
            for (name, listing) in crate::code::listings(kernels, scheduled, target, code)? {
                write(folder.join(format!("{}.{}", file_name(&name), target.listing_extension())), listing)?;
            }
        }
        Ok(())
    }
}

/// `05-schedule`
fn stem(phase: Phase) -> String {
    let number = Phase::ALL.iter().position(|p| *p == phase).unwrap_or(0);
    format!("{number:02}-{phase}")
}

fn create_dir(path: &Path) -> Result<(), CompileError> {
    std::fs::create_dir_all(path).map_err(|source| CompileError::Dump { path: path.to_owned(), source })
}

fn write(path: PathBuf, contents: impl AsRef<[u8]>) -> Result<(), CompileError> {
    std::fs::write(&path, contents).map_err(|source| CompileError::Dump { path, source })
}

/// A kernel's name as that of a file. Names begin with the kernel's number, so what is lost makes no two the same.
fn file_name(name: &str) -> String {
    const LONGEST: usize = 100;
    let plain = |c: char| if c.is_ascii_alphanumeric() || matches!(c, '-' | '_') { c } else { '_' };
    name.chars().take(LONGEST).map(plain).collect()
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
pub(crate) fn schedules(kernels: &Kernels, scheduled: &[(VariantTarget, Vec<Scheduled>)]) -> String {
    let mut text = String::new();
    for (target, scheduled) in scheduled {
        for (distinct, s) in kernels.distinct.iter().zip(scheduled) {
            let _ = writeln!(text, "# {target} {}\n{}\n", distinct.kernel.name, s.schedule);
        }
    }
    text
}
