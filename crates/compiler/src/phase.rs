//! The steps of a compilation, and who wants to hear of them.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A step of the compilation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// See [`Phase::description`], as for the others.
    Load,
    /// ONNX operators become core operations.
    Import,
    /// Graph passes.
    Simplify,
    /// Kernel formation.
    Plan,
    /// Rewrites of kernels.
    Formulate,
    /// Schedules, and the loop nests they make.
    Schedule,
    /// Machine code.
    Codegen,
    /// Constants in their final form.
    Weights,
    /// The file.
    Artifact,
}

impl Phase {
    /// All phases, in order.
    pub const ALL: [Phase; 9] = [
        Phase::Load,
        Phase::Import,
        Phase::Simplify,
        Phase::Plan,
        Phase::Formulate,
        Phase::Schedule,
        Phase::Codegen,
        Phase::Weights,
        Phase::Artifact,
    ];

    /// The name, as in `--stop-after` and in the names of dumps.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Phase::Load => "load",
            Phase::Import => "import",
            Phase::Simplify => "simplify",
            Phase::Plan => "plan",
            Phase::Formulate => "formulate",
            Phase::Schedule => "schedule",
            Phase::Codegen => "codegen",
            Phase::Weights => "weights",
            Phase::Artifact => "artifact",
        }
    }

    /// What happens in it, in a line.
    #[must_use]
    pub fn description(self) -> &'static str {
        match self {
            Phase::Load => "read the model and check what needs no knowledge of operators",
            Phase::Import => "expand ONNX operators into core operations over symbolic dims",
            Phase::Simplify => "fold constants, remove what is not needed, recognise composites",
            Phase::Plan => "form kernels, choose layouts, fuse",
            Phase::Formulate => "rewrite kernels into forms that are easier to schedule",
            Phase::Schedule => "decide how each kernel runs on each target, and make its loops",
            Phase::Codegen => "make machine code",
            Phase::Weights => "pack constants as kernels read them",
            Phase::Artifact => "plan memory and put the file together",
        }
    }
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Phase {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::ALL.into_iter().find(|p| p.name() == text).ok_or_else(|| {
            let names: Vec<&str> = Self::ALL.iter().map(|p| p.name()).collect();
            format!("there is no phase `{text}`, only {}", names.join(", "))
        })
    }
}

/// Hears how a compilation gets on. `()` does not care.
pub trait Progress {
    /// A phase begins.
    fn begin(&mut self, phase: Phase) {
        let _ = phase;
    }

    /// A phase is over; `summary` says in a line what came out.
    fn end(&mut self, phase: Phase, elapsed: Duration, summary: &str) {
        let _ = (phase, elapsed, summary);
    }
}

impl Progress for () {}
