//! What a compilation has to tell.

use crate::{Phase, SpecialCase};
use infc_artifact::Crossing;
use infc_ir::op::HostBody;
use std::time::Duration;

/// Figures of a compilation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    /// Nodes of the ONNX graph.
    pub onnx_nodes: usize,
    /// Nodes of the graph after simplification.
    pub nodes: usize,
    /// Kernels launched per run.
    pub launches: usize,
    /// Sums of products of numbers of 16 bits that the precision asked for, each in a kernel of its own.
    pub rounded_contractions: usize,
    /// GPUs have a plan of their own, beside that of processors.
    pub has_gpu_plan: bool,
    /// Products and attentions of f16 or bf16 numbers that GPUs compute in f32, since they share the plan of processors.
    pub halves_in_f32: usize,
    /// Kernels that differ.
    pub distinct_kernels: usize,
    /// The ONNX nodes that run on the host instead of as kernels.
    pub on_host: Vec<HostNode>,
    /// The inputs with as many axes as each run has, by name.
    pub unranked: Vec<String>,
    /// The inputs of which the model does not say how many axes they have, with the number that makes sense of it.
    pub taken_ranks: Vec<(String, usize)>,
    /// The ONNX nodes for which sizes that kernels compute are read during a run; nothing is computed on the host for them.
    pub told_sizes: Vec<HostNode>,
    /// How many kernels were formed from how many nodes: `(nodes, kernels)`, ascending.
    pub fused: Vec<(usize, usize)>,
    /// Bytes of constants in the file.
    pub weight_bytes: u64,
    /// Bytes of the same constants in the model.
    pub original_weight_bytes: u64,
    /// Memory that a run needs besides inputs, outputs and constants, if the model is static.
    pub arena_bytes: Option<u64>,
    /// Length of the artifact.
    pub artifact_bytes: u64,
    /// Per phase, in order, how long it took.
    pub phases: Vec<(Phase, Duration)>,
    /// Per special case.
    pub special_cases: Vec<SpecialCaseReport>,
    /// Per target.
    pub variants: Vec<VariantReport>,
    /// Fusions that did not happen, with reasons.
    pub refusals: Vec<String>,
    /// Kernels, counted per target, that run by a schedule of [`CompileOptions::records`](crate::CompileOptions::records).
    pub recorded_schedules: usize,
    /// The same, of [`CompileOptions::builtin_records`](crate::CompileOptions::builtin_records).
    pub builtin_schedules: usize,
    /// Choices of kernel formation that records have settled.
    pub recorded_choices: usize,
    /// Records that were not taken, with reasons.
    pub refused_records: Vec<String>,
}

/// Figures of a special case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialCaseReport {
    /// Its dims and their values.
    pub case: SpecialCase,
    /// Kernels launched per run.
    pub launches: usize,
    /// Of the distinct kernels that it launches, those that no case before it has, nor the general one.
    pub own_kernels: usize,
    /// As [`Report::arena_bytes`].
    pub arena_bytes: Option<u64>,
}

/// An ONNX node that runs on the host, or for which the host reads sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostNode {
    /// Its name.
    pub node: String,
    /// The operator.
    pub op_type: String,
    /// Why no kernel computes it, or why its sizes are not known before.
    pub reason: String,
    /// The name of its operator if that is a custom one, as the runtime wants it.
    pub custom: Option<String>,
    /// Of a loop whose steps are kernels, of which the host only says how many there are.
    pub steps: Option<Steps>,
}

/// How the steps of a loop are computed that the host drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Steps {
    /// By kernels, or where extents are not what these take for granted, by definitions.
    CompiledOrEvaluated,
    /// By kernels.
    Compiled,
}

impl Steps {
    /// How those of a body are.
    #[must_use]
    pub fn of(body: &HostBody) -> Self {
        if body.is_whole() { Self::Compiled } else { Self::CompiledOrEvaluated }
    }
}

/// Figures of one target's code.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VariantReport {
    /// The target.
    pub target: String,
    /// Bytes of machine code.
    pub code_bytes: u64,
    /// Its kernels.
    pub kernels: Vec<KernelReport>,
    /// Of a variant for GPUs, kernels that round factors of products to TF32.
    pub tf32_kernels: usize,
    /// Of a variant for GPUs, the copies between host and GPU in a run of the entry `main`, but for those of its inputs and
    /// outputs at both ends.
    pub crossings: Vec<Crossing>,
    /// Of a variant for GPUs, machine code beside the PTX.
    pub cubins: Vec<CubinReport>,
    /// Generations of GPUs that the assembler does not know, as `sm_120`.
    pub unknown_generations: Vec<String>,
}

/// Figures of the machine code of one generation of GPUs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CubinReport {
    /// The generation, as `sm_90`.
    pub generation: String,
    /// Its size.
    pub bytes: u64,
}

/// Figures of one kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelReport {
    /// Unique within the variant.
    pub name: String,
    /// The ONNX nodes it computes.
    pub origins: Vec<String>,
    /// How often it is launched per run.
    pub launches: usize,
    /// Which emitter made its code.
    pub emitter: String,
    /// Width of its vectors.
    pub vector_bits: u32,
    /// Bytes of code.
    pub code_bytes: u64,
    /// Its schedule, as text.
    pub schedule: String,
    /// Moves between registers and stack in innermost loops.
    pub inner_loop_spills: u32,
    /// On GPUs, bytes that a thread moves between registers and memory because there are too few, of the generation where
    /// these are most; 0 where nobody has assembled it.
    pub spill_bytes: u64,
}
