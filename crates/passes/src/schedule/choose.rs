//! The untuned default: a schedule from the kernel and the machine description alone.
//!
//! Nothing here knows operators. Per stage the choice follows from how its loads and stores move along each axis
//! ([`access`]): which axis becomes vector lanes, which axes are unrolled into a register tile so that loads are reused
//! ([`tile`]), in which order the remaining loops run so that what is read again stays in cache ([`order`], [`loops`]),
//! where lanes across rows are better ([`short_rows`]), and where intermediate stages are computed ([`place`], [`follow`]), what is asked for before it is read ([`ahead`]), in blocks of the result where they have tiles of it
//! ([`block`]), what is multiplied in tile registers ([`matrices`]), sums of sums ([`nested`]), and what data scatters ([`scatter`]).

mod access;
mod ahead;
mod block;
mod chooser;
mod cycles;
mod decide;
mod decode;
mod dot;
mod follow;
pub mod gpu;
mod interleave;
mod join;
mod lines;
mod loops;
mod machine;
mod matrices;
mod nested;
mod order;
mod place;
mod regroup;
mod scatter;
mod short_rows;
mod skip;
mod steps;
mod stored;
mod strip;
mod tile;
mod traffic;
mod widen;
mod window;

pub use access::operation_cost;
pub use decide::Decision;
pub(crate) use dot::step_in_groups;
pub use machine::{DotCost, Machine};
pub(crate) use steps::{Gates, gates};

use crate::ErrorClass;
use decide::Decisions;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::{Axis, AxisKind, Kernel};
use infc_ir::schedule::{Schedule, Scope, Step};
use infc_ir::verify::verify_nest;

/// What schedules are chosen for.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AnyMachine {
    /// A processor.
    Cpu(Machine),
    /// A GPU.
    Gpu(gpu::GpuMachine),
}

impl AnyMachine {
    /// [`choose`], or [`gpu::choose`].
    #[must_use]
    pub fn choose(&self, kernel: &Kernel, allowed: ErrorClass) -> Schedule {
        match self {
            Self::Cpu(machine) => choose(kernel, machine, allowed),
            Self::Gpu(machine) => gpu::choose(kernel, machine, allowed),
        }
    }

    /// [`decide`], or [`gpu::decide`].
    #[must_use]
    pub fn decide(&self, kernel: &Kernel, allowed: ErrorClass, picks: &[usize]) -> Option<(Schedule, Vec<Decision>)> {
        match self {
            Self::Cpu(machine) => decide(kernel, machine, allowed, picks),
            Self::Gpu(machine) => gpu::decide(kernel, machine, allowed, picks),
        }
    }
}

impl From<Machine> for AnyMachine {
    fn from(machine: Machine) -> Self {
        Self::Cpu(machine)
    }
}

impl From<gpu::GpuMachine> for AnyMachine {
    fn from(machine: gpu::GpuMachine) -> Self {
        Self::Gpu(machine)
    }
}

/// A schedule for the kernel on the machine, whose results differ from the kernel's own by no more than `allowed`: under
/// [`ErrorClass::Exact`] no reduction whose order shows is folded in another one.
///
/// It always applies: where nothing better is known, loops stay serial.
#[must_use]
pub fn choose(kernel: &Kernel, machine: &Machine, allowed: ErrorClass) -> Schedule {
    if crate::formulate::has_empty_axis(kernel) {
        return plain(kernel);
    }
    let schedule = join::choose(kernel, machine, allowed, &Decisions::default());
    let applies = |schedule: &Schedule| super::apply(kernel, schedule).is_ok_and(|nest| verify_nest(&nest).is_ok());
    if applies(&schedule) {
        return schedule;
    }
    // Registers need indices that are numbers; memory takes any.
    let in_memory = without_registers(schedule);
    // A kernel that the rules above do not cover still gets code, if slow: plain loops, all stages in full.
    if applies(&in_memory) { in_memory } else { plain(kernel) }
}

/// The schedule that follows if not the first alternatives are taken but those of `picks`, decision by decision, and the
/// decisions that were met; `None` if it cannot be applied. No picks give what [`choose`] gives.
#[must_use]
pub fn decide(
    kernel: &Kernel,
    machine: &Machine,
    allowed: ErrorClass,
    picks: &[usize],
) -> Option<(Schedule, Vec<Decision>)> {
    if crate::formulate::has_empty_axis(kernel) {
        return Some((plain(kernel), Vec::new()));
    }
    let decisions = Decisions::of(picks);
    let schedule = join::choose(kernel, machine, allowed, &decisions);
    let applies = super::apply(kernel, &schedule).is_ok_and(|nest| verify_nest(&nest).is_ok());
    applies.then(|| (schedule, decisions.into_met()))
}

fn without_registers(mut schedule: Schedule) -> Schedule {
    for step in &mut schedule.steps {
        if let Step::StoreIn { scope: scope @ Scope::Register, .. } = step {
            *scope = Scope::Stack;
        }
    }
    schedule
}

/// Serial loops: all stages in full, those of a recurrence step by step.
#[must_use]
pub fn plain(kernel: &Kernel) -> Schedule {
    let mut schedule = Schedule::default();
    for run in kernel.recurrences() {
        let name = |n: usize| &kernel.stages[StageId::from_index(n)];
        let last = name(run.end - 1);
        for stage in run.start..run.end - 1 {
            schedule.steps.push(Step::ComputeAt {
                stage: name(stage).name.clone(),
                consumer: last.name.clone(),
                axis: last.axes.first().map(|a| a.name.clone()).unwrap_or_default(),
            });
        }
    }
    // A step that reads earlier ones of its stage needs all of their sums, at all of their points.
    for stage in kernel.stages.iter().filter(|stage| stage.axes.iter().any(|a| a.kind == AxisKind::Sequential)) {
        let place = |axis: &Axis| match axis.kind {
            AxisKind::Sequential => 0,
            AxisKind::Parallel => 1,
            AxisKind::Reduce => 2,
        };
        if !stage.axes.is_sorted_by_key(place) {
            let mut axes: Vec<&Axis> = stage.axes.iter().collect();
            axes.sort_by_key(|axis| place(axis));
            let order = axes.into_iter().map(|axis| axis.name.clone()).collect();
            schedule.steps.push(Step::Reorder { stage: stage.name.clone(), order });
        }
    }
    schedule
}
