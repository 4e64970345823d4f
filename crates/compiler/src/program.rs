//! The Program of an entry: a launch per kernel, over slots for the plan's buffers.

mod control;

use crate::CompileError;
use crate::kernels::{Kernels, Scheduled};
use crate::size::{size, size_bytes};
use crate::weights::Weights;
use infc_artifact::{Access, ArenaSlot, Arg, Launch, MemoryPlan, Program, SizeExpr, Slot, Step};
use infc_codegen_cpu::CompiledKernel;
use infc_ir::kernel::OperandKind;
use infc_passes::form::{BufferPlace, GraphPlan, OperandSource, PlannedKernel};
use std::collections::BTreeMap;

/// What the Program of one variant is made from.
pub(crate) struct Parts<'a> {
    pub(crate) plan: &'a GraphPlan,
    pub(crate) kernels: &'a Kernels,
    pub(crate) weights: &'a Weights,
    pub(crate) scheduled: &'a [Scheduled],
    pub(crate) compiled: &'a [CompiledKernel],
}

/// Makes the Program; static models get a finished memory plan.
pub(crate) fn program(parts: &Parts<'_>) -> Result<Program, CompileError> {
    let plan = parts.plan;
    let mut slots = buffer_slots(plan)?;
    let buffers = slots.len();
    let mut weight_slots: BTreeMap<u32, u32> = BTreeMap::new();
    let mut launches = Vec::new();
    for (n, planned) in plan.kernels.iter().enumerate() {
        let mut args = Vec::new();
        for (operand, source) in planned.accesses() {
            let slot = match source {
                OperandSource::Value(value) => {
                    let planned = plan.values.get(value).ok_or_else(|| CompileError::Internal {
                        what: format!("value {value} has no place in memory"),
                    })?;
                    planned.buffer as u32
                }
                OperandSource::Constant(constant) => {
                    let weight = parts.weights.index(constant)?;
                    *weight_slots.entry(weight).or_insert_with(|| {
                        slots.push(Slot::Weight(weight));
                        slots.len() as u32 - 1
                    })
                }
            };
            let access = if operand.kind == OperandKind::Output { Access::Write } else { Access::Read };
            args.push(Arg { slot, offset_bytes: SizeExpr::constant(0), access });
        }
        let kernel = parts.kernels.of_planned[n];
        let nest = &parts.scheduled[kernel].nest;
        launches.push(Step::Launch(Launch {
            kernel: kernel as u32,
            args,
            values: (0..plan.graph.symbols.len()).map(|s| SizeExpr::symbol(s as u32)).collect(),
            chunks: nest.parallel.as_ref().map_or_else(|| Ok(SizeExpr::constant(1)), |p| size(&p.chunks))?,
            scratch_bytes: size(&parts.compiled[kernel].scratch_bytes)?,
        }));
    }
    let steps = control::steps(plan, launches)?;
    lifetimes(&mut slots[..buffers], &steps);
    let mut program = Program { slots, steps, static_plan: None };
    alias(&mut program, plan);
    if plan.graph.symbols.is_empty() {
        program.static_plan = Some(MemoryPlan::new(&program, &[])?);
    }
    Ok(program)
}

/// One slot per buffer of the plan; lifetimes are filled in later.
fn buffer_slots(plan: &GraphPlan) -> Result<Vec<Slot>, CompileError> {
    plan.buffers
        .iter()
        .map(|buffer| {
            Ok(match buffer.place {
                BufferPlace::Input(n) => Slot::Input(n as u32),
                BufferPlace::Output(n) => Slot::Output(n as u32),
                BufferPlace::Arena => Slot::Arena(ArenaSlot {
                    size_bytes: size_bytes(&buffer.len_elems, buffer.dtype.size_bytes().unwrap_or(1))?,
                    first_step: 0,
                    last_step: 0,
                    alias: None,
                }),
            })
        })
        .collect()
}

fn lifetimes(slots: &mut [Slot], steps: &[Step]) {
    let mut touched = vec![false; slots.len()];
    for (n, step) in (0u32..).zip(steps) {
        for (slot, _) in step.accesses() {
            let Some(Slot::Arena(arena)) = slots.get_mut(slot as usize) else { continue };
            if !std::mem::replace(&mut touched[slot as usize], true) {
                arena.first_step = n;
            }
            arena.last_step = n;
        }
    }
}

/// Lets outputs take the place of inputs that die, where the plan says that this is right.
fn alias(program: &mut Program, plan: &GraphPlan) {
    let buffer =
        |planned: &PlannedKernel, operand: infc_ir::entity::OperandId| match &planned.operands[operand.0 as usize] {
            OperandSource::Value(value) => plan.values.get(value).map(|v| v.buffer),
            OperandSource::Constant(_) => None,
        };
    for planned in &plan.kernels {
        for &(input, output) in &planned.in_place {
            let (Some(from), Some(to)) = (buffer(planned, input), buffer(planned, output)) else { continue };
            // The format wants an alias to refer to an earlier slot.
            if from < to
                && let Slot::Arena(slot) = &mut program.slots[to]
            {
                slot.alias = Some(from as u32);
            }
        }
    }
}
