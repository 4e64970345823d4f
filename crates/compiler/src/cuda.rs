//! Kernels for NVIDIA GPUs: schedules, PTX, and machine code if there is an assembler. What no kernel computes runs on the
//! host there as it does on processors.

use crate::code::VariantTarget;
use crate::kernels::{ChosenBy, Distinct, Kernels, Scheduled, by_schedule};
use crate::{CompileError, CompileOptions, Ptxas};
use infc_codegen_ptx::{PtxModule, PtxTarget, emit, head, link};
use infc_passes::ErrorClass;
use infc_passes::schedule::{AnyMachine, gpu};
use rayon::prelude::*;

/// The kernels of a variant.
#[derive(Clone, Debug, Default)]
pub(crate) struct CudaCode {
    pub(crate) target: PtxTarget,
    /// One each.
    pub(crate) modules: Vec<PtxModule>,
    /// All together, for some generations.
    pub(crate) cubins: Vec<NewCubin>,
    /// Generations that the assembler does not know.
    pub(crate) unknown: Vec<PtxTarget>,
    /// Per kernel, bytes that its threads keep in memory where registers are too few; nothing without an assembler.
    pub(crate) spills: Vec<u64>,
}

impl CudaCode {
    /// What stands before the entries of all modules where they are one.
    pub(crate) fn head(&self) -> String {
        head(&self.modules, self.target)
    }
}

/// Machine code of one generation.
#[derive(Clone, Debug)]
pub(crate) struct NewCubin {
    pub(crate) generation: PtxTarget,
    pub(crate) image: Vec<u8>,
}

fn refuse(parts: Vec<String>, target: PtxTarget) -> Result<(), CompileError> {
    if parts.is_empty() { Ok(()) } else { Err(CompileError::NoGpuCode { target: format!("cuda:{target}"), parts }) }
}

/// How many blocks keep each of the targets busy, if these are GPUs alone and sums may have another order.
pub(crate) fn busy_blocks(targets: &[VariantTarget], options: &CompileOptions) -> Option<i64> {
    let blocks = |target: &VariantTarget| match target.machine() {
        AnyMachine::Gpu(machine) => Some(machine.busy_blocks),
        AnyMachine::Cpu(_) => None,
    };
    let all: Option<Vec<i64>> = targets.iter().map(blocks).collect();
    all.filter(|_| options.allowed() >= ErrorClass::Reassociating)?.into_iter().min()
}

/// Makes a PTX module of every kernel; the error names all that have none.
pub(crate) fn codegen(kernels: &Kernels, scheduled: &[Scheduled], target: PtxTarget) -> Result<CudaCode, CompileError> {
    let emitted: Vec<_> = scheduled.par_iter().map(|scheduled| emit(&scheduled.nest, &target)).collect();
    let mut modules = Vec::with_capacity(emitted.len());
    let mut refused = Vec::new();
    for (distinct, emitted) in kernels.distinct.iter().zip(emitted) {
        match emitted {
            Ok(module) => modules.push(module),
            Err(error) => refused.push(format!("{} ({error})", distinct.origins.join(", "))),
        }
    }
    refuse(refused, target)?;
    Ok(CudaCode { target, modules, ..CudaCode::default() })
}

/// Adds machine code for all generations that no newer one of the targets is for. A kernel that spills registers on one of
/// them gets the first schedule with less in registers that does not, or the one that spills least.
pub(crate) fn assemble(
    kernels: &Kernels,
    scheduled: &mut [Scheduled],
    code: &mut CudaCode,
    (target, newer): (PtxTarget, Option<PtxTarget>),
    options: &CompileOptions,
) -> Result<(), CompileError> {
    let Some(ptxas) = &options.ptxas else { return Ok(()) };
    let generations: Vec<PtxTarget> =
        PtxTarget::all().filter(|&g| takes(target, g) && newer.is_none_or(|newer| g < newer)).collect();
    let all = Assembling { ptxas, target, generations: &generations };
    let mut assembled = all.assemble(&code.modules)?;
    code.spills = assembled.spills.clone();
    // What was measured stays.
    let is_default = |n: &usize| scheduled[*n].chosen_by == ChosenBy::Default;
    let spilling: Vec<usize> = (0..code.spills.len()).filter(|&n| code.spills[n] > 0).filter(is_default).collect();
    let replacements = spilling
        .par_iter()
        .map(|&n| all.with_fewer_spills(&kernels.distinct[n], code.spills[n], options).map(|better| (n, better)));
    let replacements = replacements.collect::<Result<Vec<_>, CompileError>>()?;
    let mut is_final = true;
    for (n, better) in replacements.into_iter().filter_map(|(n, better)| Some((n, better?))) {
        (scheduled[n], code.modules[n], code.spills[n]) = better;
        is_final = false;
    }
    if !is_final {
        assembled = all.assemble(&code.modules)?;
    }
    (code.cubins, code.unknown) = (assembled.cubins, assembled.unknown);
    Ok(())
}

/// Whether machine code of a generation is made of what is for a target: of one that no other generation runs, its own alone.
fn takes(target: PtxTarget, generation: PtxTarget) -> bool {
    if target.is_specific() { generation == target } else { !generation.is_specific() && generation >= target }
}

/// How modules are assembled.
struct Assembling<'a> {
    ptxas: &'a Ptxas,
    target: PtxTarget,
    generations: &'a [PtxTarget],
}

/// Modules, assembled for all generations.
struct Machine {
    cubins: Vec<NewCubin>,
    unknown: Vec<PtxTarget>,
    /// Per module, the most of all generations.
    spills: Vec<u64>,
}

impl Assembling<'_> {
    fn assemble(&self, modules: &[PtxModule]) -> Result<Machine, CompileError> {
        let text = link(modules, self.target);
        let assembled: Vec<_> =
            self.generations.par_iter().map(|&generation| self.ptxas.assemble(&text, generation)).collect();
        let mut machine = Machine { cubins: Vec::new(), unknown: Vec::new(), spills: vec![0; modules.len()] };
        for (&generation, assembled) in self.generations.iter().zip(assembled) {
            let Some(assembled) = assembled? else {
                machine.unknown.push(generation);
                continue;
            };
            for (most, module) in machine.spills.iter_mut().zip(modules) {
                *most = (*most).max(assembled.spills.get(&module.entry).copied().unwrap_or(0));
            }
            machine.cubins.push(NewCubin { generation, image: assembled.image });
        }
        Ok(machine)
    }

    /// A schedule of a kernel that spills less than this; of several the first that does not, or the best.
    fn with_fewer_spills(
        &self,
        distinct: &Distinct,
        spills: u64,
        options: &CompileOptions,
    ) -> Result<Option<(Scheduled, PtxModule, u64)>, CompileError> {
        let mut best: Option<(Scheduled, PtxModule, u64)> = None;
        let target = VariantTarget::Cuda(self.target);
        let AnyMachine::Gpu(mut machine) = target.machine_for(options) else { return Ok(None) };
        while let Some(fewer) = machine.with_fewer_registers() {
            machine = fewer;
            let least = best.as_ref().map_or(spills, |(_, _, spills)| *spills);
            if least == 0 {
                break;
            }
            let schedule = gpu::choose(&distinct.kernel, &machine, options.allowed());
            let scheduled = by_schedule(distinct, &target, (schedule, ChosenBy::Default), Vec::new())?;
            // What cannot be printed is no better.
            let Ok(module) = emit(&scheduled.nest, &self.target) else { continue };
            let found = self.assemble(std::slice::from_ref(&module))?.spills.iter().copied().sum();
            if found < least {
                best = Some((scheduled, module, found));
            }
        }
        Ok(best)
    }
}
