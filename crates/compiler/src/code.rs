//! What variants are made for, processors and GPUs, and their code.

use crate::cuda::{self, CudaCode};
use crate::kernels::{Kernels, Scheduled};
use crate::machine::schedule_machine;
use crate::size::size;
use crate::{CompileError, CompileOptions, kernels};
use infc_artifact::{DeviceKernel, KernelInfo, SizeExpr, features};
use infc_codegen_cpu::{CompiledKernel, Target};
use infc_codegen_ptx::PtxTarget;
use infc_passes::schedule::AnyMachine;
use infc_passes::schedule::gpu::GpuMachine;
use std::cmp::Reverse;
use std::fmt;
use std::str::FromStr;

/// What targets for GPUs begin with; alone it is the oldest GPU that code is made for.
const CUDA: &str = "cuda";

/// What a variant is made for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum VariantTarget {
    /// A level of processors, perhaps with further features.
    Cpu(Target),
    /// A generation of NVIDIA GPUs and all later ones, or one alone.
    Cuda(PtxTarget),
}

impl VariantTarget {
    /// What a loader has to find: features of a processor, or of a GPU and its driver.
    pub(crate) fn required_features(&self) -> Vec<String> {
        match self {
            Self::Cpu(target) => target.required_features().iter().map(|&feature| feature.to_owned()).collect(),
            Self::Cuda(target) => {
                features::required_by_ptx(target.capability(), target.is_specific(), target.version_number()).to_vec()
            }
        }
    }

    /// What the untuned schedule has in mind.
    #[must_use]
    pub fn machine(&self) -> AnyMachine {
        match self {
            Self::Cpu(target) => schedule_machine(target).into(),
            Self::Cuda(target) => GpuMachine::for_target(target.capability(), target.multiplies_in_groups()).into(),
        }
    }

    /// The same of a compilation.
    pub(crate) fn machine_for(&self, options: &CompileOptions) -> AnyMachine {
        match self.machine() {
            AnyMachine::Gpu(machine) => {
                GpuMachine { rounds_to_tf32: options.precision.rounds_to_tf32(), ..machine }.into()
            }
            cpu => cpu,
        }
    }

    /// The level of a processor.
    #[must_use]
    pub fn cpu(&self) -> Option<&Target> {
        match self {
            Self::Cpu(target) => Some(target),
            Self::Cuda(_) => None,
        }
    }

    /// What stands in front in an artifact is less: a loader takes the first that fits.
    pub(crate) fn preference(&self) -> (bool, Reverse<(u32, bool)>) {
        match self {
            Self::Cuda(target) => (false, Reverse((target.capability(), target.is_specific()))),
            Self::Cpu(_) => (true, Reverse((0, false))),
        }
    }

    /// What the kernels' listings end in.
    pub(crate) fn listing_extension(&self) -> &'static str {
        match self {
            Self::Cpu(_) => "s",
            Self::Cuda(_) => "ptx",
        }
    }
}

impl From<Target> for VariantTarget {
    fn from(target: Target) -> Self {
        Self::Cpu(target)
    }
}

impl fmt::Display for VariantTarget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cpu(target) => target.fmt(f),
            Self::Cuda(target) => write!(f, "{CUDA}:{target}"),
        }
    }
}

impl FromStr for VariantTarget {
    type Err = String;

    /// `x86-64-v4+vnni`; `cuda`, `cuda:sm_90`, `cuda:sm_90+` (the same: later GPUs run it, too), `cuda:sm_90a` (no other does).
    fn from_str(text: &str) -> Result<Self, String> {
        let Some(gpu) = text.strip_prefix(CUDA).filter(|rest| rest.is_empty() || rest.starts_with(':')) else {
            return text.parse().map(Self::Cpu).map_err(|e: infc_codegen_cpu::ParseTargetError| e.to_string());
        };
        let Some(generation) = gpu.strip_prefix(':') else { return Ok(Self::Cuda(PtxTarget::default())) };
        let (name, and_later) = generation.strip_suffix('+').map_or((generation, false), |name| (name, true));
        let target: PtxTarget = name.parse().map_err(|e: infc_codegen_ptx::ParsePtxTargetError| e.to_string())?;
        if and_later && target.is_specific() {
            return Err(format!("no later GPU runs what is made for `{target}`: write {CUDA}:{target}"));
        }
        Ok(Self::Cuda(target))
    }
}

/// The code of all distinct kernels for one target.
#[derive(Clone, Debug)]
pub(crate) enum Code {
    Cpu(Vec<CompiledKernel>),
    Cuda(CudaCode),
}

/// How a Program launches a kernel.
#[derive(Clone, Debug)]
pub(crate) struct LaunchForm {
    pub(crate) chunks: SizeExpr,
    pub(crate) step_chunks: Option<SizeExpr>,
    pub(crate) grid: Option<[SizeExpr; 3]>,
    pub(crate) scratch_bytes: SizeExpr,
    /// Whether it takes the values of the plan's symbols.
    pub(crate) takes_symbols: bool,
}

/// Compiles every kernel for a target.
pub(crate) fn codegen(
    kernels: &Kernels,
    scheduled: &[Scheduled],
    target: &VariantTarget,
) -> Result<Code, CompileError> {
    match target {
        VariantTarget::Cpu(target) => kernels::codegen(kernels, scheduled, target).map(Code::Cpu),
        VariantTarget::Cuda(target) => cuda::codegen(kernels, scheduled, *target).map(Code::Cuda),
    }
}

/// The code of every kernel as text, by the kernel's name.
pub(crate) fn listings(
    kernels: &Kernels,
    scheduled: &[Scheduled],
    target: &VariantTarget,
    code: &Code,
) -> Result<Vec<(String, String)>, CompileError> {
    match (target, code) {
        (VariantTarget::Cpu(target), _) => kernels::listings(kernels, scheduled, target),
        (VariantTarget::Cuda(_), Code::Cuda(code)) => {
            let named = kernels.distinct.iter().zip(&code.modules);
            Ok(named.map(|(distinct, module)| (distinct.kernel.name.clone(), module.text.clone())).collect())
        }
        (VariantTarget::Cuda(_), Code::Cpu(_)) => {
            Err(CompileError::Internal { what: "machine code for a GPU".to_owned() })
        }
    }
}

impl Code {
    /// Bytes of all kernels.
    pub(crate) fn len_bytes(&self) -> usize {
        match self {
            Self::Cpu(kernels) => kernels.iter().map(|kernel| kernel.function.code.len()).sum(),
            Self::Cuda(code) => {
                let entries = code.modules.iter().map(|module| module.entry_text().len());
                code.head().len() + entries.sum::<usize>()
            }
        }
    }

    /// What stands before the kernels.
    pub(crate) fn head(&self) -> String {
        match self {
            Self::Cpu(_) => String::new(),
            Self::Cuda(code) => code.head(),
        }
    }

    /// The bytes of a kernel.
    pub(crate) fn bytes(&self, kernel: usize) -> &[u8] {
        match self {
            Self::Cpu(kernels) => &kernels[kernel].function.code,
            Self::Cuda(code) => code.modules[kernel].entry_text().as_bytes(),
        }
    }

    /// Moves between registers and stack in innermost loops, as far as they are known.
    pub(crate) fn inner_loop_spills(&self, kernel: usize) -> u32 {
        match self {
            Self::Cpu(kernels) => kernels[kernel].function.stats.inner_loop_spills,
            Self::Cuda(_) => 0,
        }
    }

    /// Bytes that threads of a GPU move between registers and memory, as far as they are known.
    pub(crate) fn spill_bytes(&self, kernel: usize) -> u64 {
        match self {
            Self::Cpu(_) => 0,
            Self::Cuda(code) => code.spills.get(kernel).copied().unwrap_or(0),
        }
    }

    /// What is known of a kernel's code.
    pub(crate) fn info(&self, kernel: usize) -> Result<KernelInfo, CompileError> {
        Ok(match self {
            Self::Cpu(kernels) => {
                let function = &kernels[kernel].function;
                KernelInfo {
                    emitter: function.emitter.to_string(),
                    vector_bits: function.vector_bits,
                    vector_insts: u64::from(function.stats.vector_insts),
                    total_insts: u64::from(function.stats.insts),
                    ..KernelInfo::default()
                }
            }
            Self::Cuda(code) => {
                let module = &code.modules[kernel];
                let dynamic_shared_bytes = if module.dynamic_shared { module.shared_bytes } else { 0 };
                let device = DeviceKernel {
                    entry: module.entry.clone(),
                    block: module.launch.block,
                    waits: module.waits,
                    dynamic_shared_bytes: u32::try_from(dynamic_shared_bytes).map_err(|_| CompileError::Internal {
                        what: format!("{dynamic_shared_bytes} bytes of shared memory"),
                    })?,
                };
                KernelInfo { emitter: "ptx".to_owned(), device: Some(device), ..KernelInfo::default() }
            }
        })
    }

    /// How a kernel is launched.
    pub(crate) fn launch(&self, kernel: usize, scheduled: &Scheduled) -> Result<LaunchForm, CompileError> {
        let parallel = scheduled.nest.parallel.as_ref();
        Ok(match self {
            Self::Cpu(kernels) => LaunchForm {
                chunks: parallel.map_or_else(|| Ok(SizeExpr::constant(1)), |p| size(&p.chunks))?,
                step_chunks: parallel.and_then(|p| p.step_chunks.as_ref()).map(size).transpose()?,
                grid: None,
                scratch_bytes: size(&kernels[kernel].scratch_bytes)?,
                takes_symbols: true,
            },
            Self::Cuda(code) => {
                let module = &code.modules[kernel];
                let [x, y, z] = &module.launch.grid;
                let grid = [size(x)?, size(y)?, size(z)?];
                let [x, y, z] = grid.clone();
                LaunchForm {
                    chunks: x * y * z,
                    step_chunks: None,
                    grid: Some(grid),
                    scratch_bytes: size(&module.scratch_bytes)?,
                    takes_symbols: !scheduled.nest.symbols.is_empty(),
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_gpus() {
        let name = |text: &str| text.parse::<VariantTarget>().map(|target| target.to_string());
        for same in ["cuda", "cuda:sm_80", "cuda:sm_80+"] {
            assert_eq!(name(same), Ok("cuda:sm_80".to_owned()));
        }
        assert_eq!(name("cuda:sm_90"), Ok("cuda:sm_90".to_owned()));
        assert_eq!(name("x86-64-v4+vnni"), Ok("x86-64-v4+vnni".to_owned()));
        assert!(name("cuda:sm_35").is_err_and(|e| e.contains("sm_80")));
        assert!(name("cuda:").is_err() && name("cudax").is_err() && name("cuda:sm_80++").is_err());
        let target: VariantTarget = "cuda".parse().expect("a target");
        assert_eq!(target.required_features(), ["sm_80", "ptx7.0"]);
    }
}
