//! NVIDIA's assembler, for who has it: machine code of GPUs from PTX.

use crate::CompileError;
use infc_codegen_ptx::PtxTarget;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Lines of what it says that go into an error.
const LINES_OF_ERRORS: usize = 8;

/// `ptxas`, as a program of the machine that compiles. Its version is a part of what artifacts are made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptxas {
    program: PathBuf,
    version: String,
}

/// What it makes of a module for one generation.
pub(crate) struct Assembled {
    pub(crate) image: Vec<u8>,
    /// By entry, bytes of registers that are kept in memory where they are too few; those without are left out.
    pub(crate) spills: BTreeMap<String, u64>,
}

impl Ptxas {
    /// The assembler that is this program, which is asked for its version.
    ///
    /// # Errors
    /// `compile::ptxas` if it cannot be started, or says nothing that `ptxas` would.
    pub fn at(program: &Path) -> Result<Self, CompileError> {
        let failed = |reason: String| CompileError::Ptxas { program: program.to_owned(), reason };
        // It is started in folders of its own.
        let absolute = std::path::absolute(program).map_err(|error| failed(error.to_string()))?;
        let output = Command::new(&absolute).arg("--version").output().map_err(|error| failed(error.to_string()))?;
        let said = String::from_utf8_lossy(&output.stdout);
        // `Cuda compilation tools, release 12.9, V12.9.86`
        let version = said.lines().filter(|line| line.contains("release ")).find_map(|line| line.rsplit_once(", V"));
        let Some((_, version)) = version else {
            return Err(failed("it does not say which version of ptxas it is when asked with --version".to_owned()));
        };
        Ok(Self { program: absolute, version: version.trim().to_owned() })
    }

    /// As it says itself: `12.9.86`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Assembles a module for a generation; `None` if this version does not know it.
    pub(crate) fn assemble(&self, text: &str, generation: PtxTarget) -> Result<Option<Assembled>, CompileError> {
        // Names without folders: what it writes must not depend on where it ran.
        const NAMES: [&str; 2] = ["kernels.ptx", "kernels.cubin"];
        let wrap = |error: std::io::Error| self.failed(error.to_string());
        let folder = tempfile::tempdir().map_err(wrap)?;
        std::fs::write(folder.path().join(NAMES[0]), text).map_err(wrap)?;
        let arguments = ["-v", "-arch", &generation.to_string(), "-o", NAMES[1], NAMES[0]];
        let output = Command::new(&self.program).args(arguments).current_dir(folder.path()).output().map_err(wrap)?;
        let said = [&output.stdout[..], &output.stderr].concat();
        let said = String::from_utf8_lossy(&said);
        if !output.status.success() {
            return if said.contains("is not defined for option 'gpu-name'") {
                Ok(None)
            } else {
                Err(self.failed(format!("{} for {generation}: {}", output.status, errors(&said, &output))))
            };
        }
        let image = std::fs::read(folder.path().join(NAMES[1])).map_err(wrap)?;
        Ok(Some(Assembled { image, spills: spills(&said) }))
    }

    fn failed(&self, reason: String) -> CompileError {
        CompileError::Ptxas { program: self.program.clone(), reason }
    }
}

/// What of its output says why it failed.
fn errors(said: &str, output: &Output) -> String {
    let lines: Vec<&str> = said.lines().filter(|line| !line.trim().is_empty() && !line.contains("info ")).collect();
    if lines.is_empty() {
        return format!("{} bytes of output without an error", output.stdout.len() + output.stderr.len());
    }
    lines[..lines.len().min(LINES_OF_ERRORS)].join("; ")
}

/// Per entry, bytes that are written to memory and read from it where registers are too few.
///
/// ```text
/// ptxas info    : Compiling entry function 'k_add' for 'sm_80'
/// ptxas info    : Function properties for k_add
///     0 bytes stack frame, 8 bytes spill stores, 16 bytes spill loads
/// ```
fn spills(said: &str) -> BTreeMap<String, u64> {
    let mut entry = None;
    let mut spills = BTreeMap::new();
    for line in said.lines() {
        if let Some((_, named)) = line.split_once("Compiling entry function '") {
            entry = named.split('\'').next();
        }
        let bytes = line.split(", ").filter_map(|part| part.trim().split_once(" bytes spill "));
        let bytes: u64 = bytes.filter_map(|(number, _)| number.parse::<u64>().ok()).sum();
        if let Some(entry) = entry.filter(|_| bytes > 0) {
            *spills.entry(entry.to_owned()).or_default() += bytes;
        }
    }
    spills
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spilled_registers_by_entry() {
        let said = "ptxas info    : 0 bytes gmem\n\
                    ptxas info    : Compiling entry function 'k_b' for 'sm_80'\n\
                    ptxas info    : Function properties for k_b\n    \
                    16 bytes stack frame, 8 bytes spill stores, 20 bytes spill loads\n\
                    ptxas info    : Used 255 registers, used 1 barriers, 392 bytes cmem[0]\n\
                    ptxas info    : Compiling entry function 'k_a' for 'sm_80'\n    \
                    64 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n";
        assert_eq!(spills(said), BTreeMap::from([("k_b".to_owned(), 28)]));
        assert!(spills("nothing of the kind").is_empty());
    }

    #[test]
    fn what_is_no_assembler_is_refused() {
        for program in ["/nowhere/ptxas", "/bin/true"] {
            let error = Ptxas::at(Path::new(program)).expect_err("no assembler");
            assert_eq!(error.code(), "compile::ptxas");
            assert!(error.to_string().contains(program), "{error}");
        }
    }
}
