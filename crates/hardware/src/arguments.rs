//! The command line.

use clap::{Parser, ValueEnum};
use infc_codegen_ptx::PtxTarget;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// What there is to be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Part {
    /// Every instruction: recorded, and held to the simulator
    Instructions,
    /// Kernel files and random kernels, against the interpreter
    Kernels,
    /// Single kernels and launches, timed, beside PyTorch
    Speed,
    /// Models, against the processor, and timed, beside ONNX Runtime
    Models,
    /// Kernels again, watched by compute-sanitizer
    Sanitizer,
    /// The timed kernels by other decisions than the default's; only if it is asked for
    Sweep,
}

/// What is seen unless parts are named.
const PARTS: [Part; 5] = [Part::Instructions, Part::Kernels, Part::Speed, Part::Models, Part::Sanitizer];

impl Part {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Instructions => "instructions",
            Self::Kernels => "kernels",
            Self::Speed => "speed",
            Self::Models => "models",
            Self::Sanitizer => "sanitizer",
            Self::Sweep => "sweep",
        }
    }
}

/// See on a GPU what only a GPU shows
#[derive(Debug, Parser)]
#[command(name = "infc-hardware")]
pub(crate) struct Arguments {
    /// Parts to be done; all unless given
    #[arg(long, value_delimiter = ',')]
    pub(crate) only: Vec<Part>,
    /// A folder for `report.txt`, `report.json`, `instructions.json`, and what the sanitizer says
    #[arg(long, default_value = "hardware")]
    pub(crate) out: PathBuf,
    /// The folder of kernel files
    #[arg(long, default_value = "tests/filetests/kernel")]
    pub(crate) kernel_files: PathBuf,
    /// Random kernels
    #[arg(long, default_value_t = 300)]
    pub(crate) random: usize,
    /// Kernels whose names have this in them: those that are timed
    #[arg(long)]
    pub(crate) filter: Option<String>,
    /// Choices of each kernel that a sweep tries at most
    #[arg(long, default_value_t = 200)]
    pub(crate) choices: usize,
    /// The generation that code is made for
    #[arg(long, default_value = "sm_80")]
    pub(crate) target: PtxTarget,
    /// Models to be run
    #[arg(long, num_args = 1..)]
    pub(crate) models: Vec<PathBuf>,
    /// The sizes of their dynamic dims; a model gets those that it has
    #[arg(long = "dim", value_name = "SYM=N")]
    pub(crate) dims: Vec<String>,
    /// Numbers that models are compiled to compute in
    #[arg(long, default_value = "f32")]
    pub(crate) precision: String,
    /// How far their outputs may be from the processor's
    #[arg(long, default_value_t = 1e-3)]
    pub(crate) tolerance: f64,
    /// The assembler that machine code is made with: `off`, `auto`, or where it is
    #[arg(long, default_value = "auto")]
    pub(crate) ptxas: String,
    /// The command for models; the one beside this executable unless given
    #[arg(long)]
    pub(crate) infc: Option<PathBuf>,
    /// A Python that may have PyTorch and ONNX Runtime; `off` for none
    #[arg(long, default_value = "python3")]
    pub(crate) python: String,
    /// Seconds that all of it may take
    #[arg(long, default_value_t = 540)]
    pub(crate) seconds: u64,
    /// Put the simulator in the place of the GPU, with kernels of a size for it
    #[arg(long)]
    pub(crate) simulated: bool,
}

impl Arguments {
    /// Those that are to be done.
    pub(crate) fn parts(&self) -> impl Iterator<Item = Part> {
        let all = if self.only.is_empty() { &PARTS[..] } else { &self.only };
        all.iter().copied()
    }

    /// What a process is given that does one part alone.
    pub(crate) fn alone(&self, part: Part, out: &Path, seconds: u64) -> Vec<OsString> {
        let mut all: Vec<OsString> = Vec::new();
        let mut add = |name: &str, value: OsString| all.extend([name.into(), value]);
        add("--only", part.name().into());
        add("--out", out.into());
        add("--kernel-files", self.kernel_files.clone().into());
        add("--random", self.random.to_string().into());
        add("--choices", self.choices.to_string().into());
        self.filter.iter().for_each(|filter| add("--filter", filter.into()));
        add("--target", self.target.to_string().into());
        self.models.iter().for_each(|model| add("--models", model.clone().into()));
        self.dims.iter().for_each(|dim| add("--dim", dim.into()));
        add("--precision", self.precision.clone().into());
        add("--tolerance", self.tolerance.to_string().into());
        add("--ptxas", self.ptxas.clone().into());
        self.infc.iter().for_each(|infc| add("--infc", infc.clone().into()));
        add("--python", self.python.clone().into());
        add("--seconds", seconds.to_string().into());
        if self.simulated {
            all.push("--simulated".into());
        }
        all
    }
}
