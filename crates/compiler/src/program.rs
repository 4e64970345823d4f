//! The Program of an entry: a launch per kernel, and a step per host operation, over slots for the plan's buffers.

mod control;
mod host;

use crate::CompileError;
use crate::code::LaunchForm;
use crate::size::{size, size_bytes};
use crate::weights::Weights;
use infc_artifact::{Access, ArenaSlot, Arg, Give, HostSlot, Launch, MemoryPlan, Program, SizeExpr, Slot, Step};
use infc_ir::entity::ValueId;
use infc_ir::kernel::OperandKind;
use infc_ir::op::HostBody;
use infc_passes::form::{BufferPlace, GraphPlan, OperandSource, PlannedKernel, PlannedStep};
use std::collections::BTreeMap;
use std::sync::Arc;

/// What the Program of one variant is made from.
pub(crate) struct Parts<'a> {
    pub(crate) plan: &'a GraphPlan,
    /// Per kernel of the plan, its distinct one.
    pub(crate) of_planned: &'a [usize],
    pub(crate) weights: &'a Weights,
    /// Per distinct kernel.
    pub(crate) launches: &'a [LaunchForm],
    /// The bodies of loops that have entries.
    pub(crate) bodies: &'a [Arc<HostBody>],
    /// The entry of the first of them.
    pub(crate) first_body: usize,
}

/// Makes the Program; static models get a finished memory plan.
pub(crate) fn program(parts: &Parts<'_>) -> Result<Program, CompileError> {
    let plan = parts.plan;
    let mut slots = buffer_slots(plan)?;
    let buffers = slots.len();
    let mut weight_slots = WeightSlots { slots: &mut slots, parts, known: BTreeMap::new() };
    let mut steps = Vec::new();
    for &step in &plan.steps {
        steps.push(match step {
            PlannedStep::Kernel(n) => vec![launch(parts, n, &mut weight_slots)?],
            PlannedStep::Host(n) => host::steps(parts, &plan.hosts[n], &mut weight_slots)?,
            PlannedStep::Bind(n) => vec![host::bind(plan, plan.binds[n].symbols.iter().copied())?],
        });
    }
    let mut steps = control::steps(plan, steps)?;
    for (output, port) in plan.graph.outputs.iter().enumerate() {
        let slot = buffer_of(plan, port.value)?;
        if !matches!(plan.buffers[slot as usize].place, BufferPlace::Output(_)) {
            steps.push(Step::Give(Give { slot, output: output as u32 }));
        }
    }
    lifetimes(&mut slots[..buffers], &steps);
    let mut program = Program { slots, steps, static_plan: None };
    alias(&mut program, plan);
    if plan.graph.symbols.is_empty() {
        program.static_plan = Some(MemoryPlan::new(&program, &[])?);
    }
    Ok(program)
}

/// Slots for weights, each once.
struct WeightSlots<'a> {
    slots: &'a mut Vec<Slot>,
    parts: &'a Parts<'a>,
    known: BTreeMap<u32, u32>,
}

impl WeightSlots<'_> {
    /// The slot of an operand.
    fn slot(&mut self, source: &OperandSource) -> Result<u32, CompileError> {
        match source {
            OperandSource::Value(value) => buffer_of(self.parts.plan, *value),
            OperandSource::Constant(constant) => {
                let weight = self.parts.weights.index(constant)?;
                let slots = &mut *self.slots;
                Ok(*self.known.entry(weight).or_insert_with(|| {
                    slots.push(Slot::Weight(weight));
                    slots.len() as u32 - 1
                }))
            }
        }
    }
}

/// The slot of a value of the plan: that of its buffer.
fn buffer_of(plan: &GraphPlan, value: ValueId) -> Result<u32, CompileError> {
    let planned = plan.values.get(&value);
    let planned =
        planned.ok_or_else(|| CompileError::Internal { what: format!("value {value} has no place in memory") })?;
    Ok(planned.buffer as u32)
}

/// The launch of a kernel of the plan.
fn launch(parts: &Parts<'_>, n: usize, weights: &mut WeightSlots<'_>) -> Result<Step, CompileError> {
    let plan = parts.plan;
    let mut args = Vec::new();
    for (operand, source) in plan.kernels[n].accesses() {
        let slot = weights.slot(source)?;
        let access = if operand.kind == OperandKind::Output { Access::Write } else { Access::Read };
        args.push(Arg { slot, offset_bytes: SizeExpr::constant(0), access });
    }
    let kernel = parts.of_planned[n];
    let LaunchForm { chunks, step_chunks, grid, scratch_bytes, takes_symbols } = parts.launches[kernel].clone();
    let symbols = if takes_symbols { plan.graph.symbols.len() as u32 } else { 0 };
    Ok(Step::Launch(Launch {
        kernel: kernel as u32,
        args,
        values: (0..symbols).map(SizeExpr::symbol).collect(),
        chunks,
        step_chunks,
        grid,
        scratch_bytes,
    }))
}

/// One slot per buffer of the plan; lifetimes are filled in later.
fn buffer_slots(plan: &GraphPlan) -> Result<Vec<Slot>, CompileError> {
    let host_slot = |buffer: usize| {
        let owner = plan.values.iter().find(|(_, planned)| planned.buffer == buffer && planned.owns_its_buffer());
        let value = owner.map(|(value, _)| value);
        let value = value.ok_or_else(|| CompileError::Internal { what: format!("buffer {buffer} is nobody's") })?;
        let ty = plan.graph.ty(*value);
        Ok::<_, CompileError>(HostSlot { dtype: ty.dtype, shape: ty.shape.iter().map(size).collect::<Result<_, _>>()? })
    };
    plan.buffers
        .iter()
        .enumerate()
        .map(|(n, buffer)| {
            Ok(match buffer.place {
                BufferPlace::Host => Slot::Host(host_slot(n)?),
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
    let is_bind = |step: &Step| matches!(step, Step::Bind(_));
    let starts: Vec<usize> = (0..program.steps.len()).filter(|&n| is_bind(&program.steps[n])).collect();
    let segment = |slot: &Slot| match slot {
        Slot::Arena(slot) => starts.partition_point(|&bind| bind < slot.first_step as usize),
        _ => 0,
    };
    for planned in &plan.kernels {
        for &(input, output) in &planned.in_place {
            let (Some(from), Some(to)) = (buffer(planned, input), buffer(planned, output)) else { continue };
            // The format wants an alias to refer to an earlier slot.
            // What is planned at different times cannot share memory.
            if from < to
                && segment(&program.slots[from]) == segment(&program.slots[to])
                && let Slot::Arena(slot) = &mut program.slots[to]
            {
                slot.alias = Some(from as u32);
            }
        }
    }
}
