//! The distinct kernels of a plan, and their code.
//!
//! Networks repeat themselves, and so do special cases of a network: kernels that compute the same on operands of the
//! same layout are compiled once.

use crate::records::KernelKey;
use crate::{CompileError, CompileOptions, Phase, VariantTarget};
use infc_codegen_cpu::{CodegenError, CompiledKernel, Target};
use infc_ir::entity::OperandId;
use infc_ir::graph::Graph;
use infc_ir::index::{Dim, Proof, Ranges};
use infc_ir::kernel::{Kernel, Operand, OperandKind, Output, Stage};
use infc_ir::nest::LoopNest;
use infc_ir::scalar::{ScalarOp, Source};
use infc_ir::schedule::{Intrinsic, Schedule, Step};
use infc_ir::symbol::Symbols;
use infc_ir::verify::{VerifyError, verify_graph, verify_kernel, verify_nest};
use infc_passes::form::GraphPlan;
use infc_passes::formulate;
use infc_passes::schedule::{self, ScheduleError};
use rayon::prelude::*;
use std::collections::HashMap;

/// A kernel that is compiled, and which kernels of the plan it stands for.
#[derive(Clone, Debug)]
pub(crate) struct Distinct {
    /// Of the planned kernels that it stands for, each once, in order. They differ where symbols of the graph around
    /// them do that the kernel does not use.
    pub(crate) keys: Vec<KernelKey>,
    /// After formulation.
    pub(crate) kernel: Kernel,
    /// Of all the plan's kernels it stands for, in order.
    pub(crate) origins: Vec<String>,
}

/// All distinct kernels.
#[derive(Clone, Debug, Default)]
pub(crate) struct Kernels {
    pub(crate) distinct: Vec<Distinct>,
    /// Per plan, and kernel of it, its distinct one.
    pub(crate) of_planned: Vec<Vec<usize>>,
}

/// A kernel scheduled for a target.
#[derive(Clone, Debug)]
pub struct Scheduled {
    /// The steps.
    pub schedule: Schedule,
    /// The loops that follow from them.
    pub nest: LoopNest,
    /// Whose choice the steps are.
    pub chosen_by: ChosenBy,
    /// Why those of records were not taken.
    pub refused: Vec<String>,
}

/// Where a schedule comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChosenBy {
    /// The default choice, or whoever gave the schedule.
    Default,
    /// A record of [`CompileOptions::records`].
    Record,
    /// A record of [`CompileOptions::builtin_records`].
    BuiltinRecord,
}

impl Scheduled {
    /// Whether it sums by an operation of the machine.
    pub(crate) fn takes(&self, wanted: Intrinsic) -> bool {
        self.schedule.steps.iter().any(|step| matches!(step, Step::Tensorize { intrinsic, .. } if *intrinsic == wanted))
    }
}

/// Formulates the kernels of some plans of one model and finds out which are the same.
pub(crate) fn formulate(plans: &[&GraphPlan]) -> Kernels {
    let mut kernels = Kernels::default();
    let mut known: HashMap<Kernel, usize> = HashMap::new();
    for plan in plans {
        let formulated: Vec<Kernel> = plan.kernels.par_iter().map(|p| nameless(&p.kernel)).collect();
        let mut of_planned = Vec::with_capacity(formulated.len());
        for (planned, kernel) in plan.kernels.iter().zip(formulated) {
            let id = known.get(&kernel).copied().unwrap_or_else(|| {
                let name = planned.kernel.name.clone();
                let distinct = Kernel { name, ..kernel.clone() };
                kernels.distinct.push(Distinct { keys: Vec::new(), kernel: distinct, origins: Vec::new() });
                known.insert(kernel, kernels.distinct.len() - 1);
                kernels.distinct.len() - 1
            });
            let Distinct { keys, origins, .. } = &mut kernels.distinct[id];
            let key = KernelKey::of(&planned.kernel);
            if !keys.contains(&key) {
                keys.push(key);
            }
            origins.extend(planned.origins.iter().filter(|o| !origins.contains(o)).cloned().collect::<Vec<_>>());
            of_planned.push(id);
        }
        kernels.of_planned.push(of_planned);
    }
    for (n, distinct) in kernels.distinct.iter_mut().enumerate() {
        distinct.kernel.name = format!("k{n}_{}", distinct.kernel.name);
    }
    kernels
}

/// A kernel, formulated, without what does not change its code: its name, and symbols if it uses none of them.
pub(crate) fn nameless(planned: &Kernel) -> Kernel {
    let kernel = formulate::normalise(planned.clone());
    let symbols = if kernel.used_symbols().is_empty() { Symbols::default() } else { kernel.symbols.clone() };
    Kernel { name: String::new(), symbols, ..kernel }
}

/// Schedules every kernel for a target, by what was recorded of it, or else by default.
pub(crate) fn schedule(
    kernels: &Kernels,
    target: &VariantTarget,
    options: &CompileOptions,
) -> Result<Vec<Scheduled>, CompileError> {
    let machine = target.machine_for(options);
    kernels
        .distinct
        .par_iter()
        .map(|distinct| schedule_one(distinct, target, options, || machine.choose(&distinct.kernel, options.allowed())))
        .collect()
}

/// Schedules a kernel by what was recorded of it, or else as `choose` says.
fn schedule_one(
    distinct: &Distinct,
    target: &VariantTarget,
    options: &CompileOptions,
    choose: impl Fn() -> Schedule,
) -> Result<Scheduled, CompileError> {
    check_kernel(&distinct.kernel)?;
    let is_open = options.records.is_empty() && options.builtin_records.is_empty();
    // What was found without rounding was not compared with what rounds.
    let rounding = (options.precision.rounds_to_tf32() && target.cpu().is_none() && !is_open).then(&choose);
    if let Some(schedule) = rounding.filter(|schedule| schedule.steps.iter().any(|s| matches!(s, Step::Round { .. }))) {
        return by_schedule(distinct, target, (schedule, ChosenBy::Default), Vec::new());
    }
    let mut refused = Vec::new();
    let recorded = [(&options.records, ChosenBy::Record), (&options.builtin_records, ChosenBy::BuiltinRecord)]
        .into_iter()
        .find_map(|(records, by)| {
            let found = records.schedule(&distinct.keys, &distinct.kernel, target, options.allowed())?;
            Some((found.map_err(|reason| refused.push(reason)).ok()?, by))
        });
    let (schedule, chosen_by) = recorded.unwrap_or_else(|| (choose(), ChosenBy::Default));
    by_schedule(distinct, target, (schedule, chosen_by), refused)
}

/// A kernel by a schedule.
pub(crate) fn by_schedule(
    distinct: &Distinct,
    target: &VariantTarget,
    (schedule, chosen_by): (Schedule, ChosenBy),
    refused: Vec<String>,
) -> Result<Scheduled, CompileError> {
    let nest = schedule::apply(&distinct.kernel, &schedule)
        .map_err(|source| schedule_error(distinct, &target.to_string(), source))?;
    check_nest(&distinct.kernel, &nest)?;
    Ok(Scheduled { schedule, nest, chosen_by, refused })
}

/// Compiles every kernel for a target.
pub(crate) fn codegen(
    kernels: &Kernels,
    scheduled: &[Scheduled],
    target: &Target,
) -> Result<Vec<CompiledKernel>, CompileError> {
    kernels
        .distinct
        .par_iter()
        .zip(scheduled)
        .map(|(distinct, scheduled)| {
            infc_codegen_cpu::compile_nest(&scheduled.nest, target)
                .map_err(|source| codegen_error(distinct, target, source))
        })
        .collect()
}

/// The machine code of every kernel as text, by the kernel's name.
pub(crate) fn listings(
    kernels: &Kernels,
    scheduled: &[Scheduled],
    target: &Target,
) -> Result<Vec<(String, String)>, CompileError> {
    kernels
        .distinct
        .par_iter()
        .zip(scheduled)
        .map(|(distinct, scheduled)| {
            let listing = infc_codegen_cpu::list_nest(&scheduled.nest, target)
                .map_err(|source| codegen_error(distinct, target, source))?;
            Ok((distinct.kernel.name.clone(), listing))
        })
        .collect()
}

/// What a verifier says of a graph, in debug builds: an error of ours.
pub(crate) fn check_graph(phase: Phase, graph: &Graph) -> Result<(), CompileError> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    verify_graph(graph).map_err(|error| CompileError::Internal { what: format!("after {phase}: {error}") })
}

/// What a verifier says of a kernel, in debug builds: an error of ours.
pub(crate) fn check_kernel(kernel: &Kernel) -> Result<(), CompileError> {
    check(kernel, || verify_kernel(kernel))
}

/// What a verifier says of a kernel's loop nest, in debug builds: an error of ours.
fn check_nest(kernel: &Kernel, nest: &LoopNest) -> Result<(), CompileError> {
    check(kernel, || verify_nest(nest))
}

fn check(kernel: &Kernel, verify: impl FnOnce() -> Result<(), VerifyError>) -> Result<(), CompileError> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    verify().map_err(|error| CompileError::Internal { what: format!("kernel `{}`: {error}", kernel.name) })
}

fn schedule_error(distinct: &Distinct, target: &str, source: ScheduleError) -> CompileError {
    let (kernel, origins) = (distinct.kernel.name.clone(), distinct.origins.clone());
    CompileError::Schedule { kernel, origins, target: target.to_owned(), source }
}

fn codegen_error(distinct: &Distinct, target: &Target, source: CodegenError) -> CompileError {
    let (kernel, origins) = (distinct.kernel.name.clone(), distinct.origins.clone());
    CompileError::Codegen { kernel, origins, target: target.to_string(), source }
}

/// Bytes of all operands, each once; of one that is not read as often as it has elements, such as a table of which few rows
/// are looked up, as many as it is read.
pub(crate) fn traffic(kernel: &Kernel) -> Dim {
    traffic_of(kernel, |_| true)
}

/// The same of operands of some kinds.
pub(crate) fn traffic_of(kernel: &Kernel, is_asked: impl Fn(OperandKind) -> bool) -> Dim {
    let ranges = Ranges::of_symbols(&kernel.symbols);
    // Of what is replaced where it is only data says how much that is.
    let is_kept = |id: OperandId| {
        let onto = |output: &&Output| output.onto == Some(id) || (output.onto.is_some() && output.operand == id);
        kernel.outputs.iter().find(onto).is_some_and(|output| kernel.replaced(output.stage).is_some())
    };
    let bytes = |(id, operand): (OperandId, &Operand)| {
        if is_kept(id) {
            return Dim::constant(0);
        }
        let whole: Dim = operand.shape.iter().cloned().product();
        let elements = match operand.kind {
            OperandKind::Output => whole,
            OperandKind::Input | OperandKind::Constant => {
                let reads = reads(kernel, id);
                match (ranges.le(&whole, &reads), ranges.le(&reads, &whole)) {
                    (Proof::Yes, _) => whole,
                    (_, Proof::Yes) => reads,
                    _ => whole.minimum(&reads),
                }
            }
        };
        elements.scale(operand.dtype.size_bytes().unwrap_or(1) as i64)
    };
    kernel.operands.iter_enumerated().filter(|(_, operand)| is_asked(operand.kind)).map(bytes).sum()
}

/// How often elements of an operand are read, were nothing kept.
fn reads(kernel: &Kernel, operand: OperandId) -> Dim {
    let is_read = |op: &ScalarOp| matches!(op, ScalarOp::Load(load) if load.source == Source::Operand(operand));
    let of_stage = |stage: &Stage| {
        let loads = stage.body.ops.iter().filter(|op| is_read(op)).count();
        stage.axes.iter().map(|axis| axis.extent.clone()).product::<Dim>().scale(loads as i64)
    };
    kernel.stages.iter().map(of_stage).sum()
}
