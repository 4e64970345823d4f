//! The untuned default for GPUs.
//!
//! As for CPUs nothing here knows operators. What decides is which parts of its stages a point of a result needs, and how
//! loads move along axes:
//!
//! - [`attention`]: products of matrices around a softmax, whose rows a block has, and goes through keys some at a time.
//! - [`matrix`]: a sum of products of halves, which warps multiply as matrices; what they read is copied to shared memory
//!   some steps ahead.
//! - [`tiles`]: a sum of products whose factors are read again at other points. Blocks compute tiles of the result,
//!   threads hold parts of it in registers, and both factors are brought to shared memory a piece of the sum at a time.
//! - [`rows`]: reductions that many points of the result need, few and long ones, and long ones over a matrix that is read once.
//!   A block computes what one row needs with all its threads, in shared memory.
//! - [`points`]: what has points that need nothing of each other. Each thread computes some with all that they need.
//! - [`steps`]: recurrences whose steps mix their points. A block takes the steps in turn, and its threads share each.
//!
//! A candidate is taken if it applies, and if its memory fits. What none fits runs in one thread: right, and slow.

mod attention;
mod follow;
mod fragments;
mod machine;
mod matrix;
mod points;
mod product;
mod rewrite;
mod rows;
mod steps;
mod tiles;

pub use machine::GpuMachine;

use super::decide::{Decision, Decisions};
use crate::ErrorClass;
use crate::schedule::{apply, apply_within};
use infc_ir::entity::{EntityId, StageId};
use infc_ir::index::Ranges;
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::nest::{BufferKind, LoopNest};
use infc_ir::scalar::Source;
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};
use infc_ir::verify::verify_nest;

/// Terms that are loaded before they are folded: a thread waits for memory once for all of them.
const TOGETHER: i64 = 8;

/// What a schedule is chosen for.
#[derive(Clone, Copy)]
struct Setting<'a> {
    machine: GpuMachine,
    allowed: ErrorClass,
    decisions: &'a Decisions,
}

impl Setting<'_> {
    /// One of several numbers, of which the first is the default; those that are there twice count once.
    fn pick<T: Copy + PartialEq>(&self, what: &'static str, numbers: impl IntoIterator<Item = T>) -> Option<T> {
        let mut all: Vec<T> = Vec::new();
        for number in numbers {
            if !all.contains(&number) {
                all.push(number);
            }
        }
        let picked = if all.len() > 1 { self.decisions.pick(what, "", all.len()) } else { 0 };
        all.get(picked).copied()
    }

    /// The same with another number of threads of a block.
    fn with_threads(mut self) -> Self {
        let default = self.machine.threads;
        let others = [1, 2, 4].into_iter().flat_map(|n| [default / n, default * n]);
        let fits = |threads: &i64| (self.machine.warp..=MOST_THREADS).contains(threads) || *threads == default;
        self.machine.threads = self.pick("threads", others.filter(fits)).unwrap_or(default);
        self
    }
}

/// Threads that a block has at most.
const MOST_THREADS: i64 = 1024;

/// A kind of schedule, if it suits a kernel.
type Candidate = fn(&Kernel, Setting<'_>) -> Option<Schedule>;

/// All of them, the likeliest first.
const CANDIDATES: [Candidate; 6] =
    [attention::candidate, matrix::candidate, tiles::candidate, rows::candidate, points::candidate, steps::candidate];

/// A schedule for a kernel on the GPU, whose results differ from the kernel's own by no more than `allowed`.
///
/// The schedule applies; whether a GPU has instructions and memory for everything only its backend knows.
#[must_use]
pub fn choose(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass) -> Schedule {
    find(kernel, machine, allowed).unwrap_or_else(|| super::plain(kernel))
}

/// Whether there is a schedule for a kernel that is spread over threads, and whose memory has a size that is known and fits.
#[must_use]
pub fn fits(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass) -> bool {
    find(kernel, machine, allowed).is_some()
}

/// As [`decide`](super::decide()), for GPUs.
#[must_use]
pub fn decide(
    kernel: &Kernel,
    machine: &GpuMachine,
    allowed: ErrorClass,
    picks: &[usize],
) -> Option<(Schedule, Vec<Decision>)> {
    let usual = Decisions::default();
    let by_default = Setting { machine: *machine, allowed, decisions: &usual };
    let kinds = candidates(kernel);
    let usual = kinds.iter().position(|&kind| fitting(kernel, kind, by_default).is_some());
    let Some(usual) = usual else { return Some((super::plain(kernel), Vec::new())) };
    let decisions = Decisions::of(picks);
    let setting = Setting { decisions: &decisions, ..by_default };
    // Which of the others suit the kernel shows when they are picked.
    let kind = setting.pick("kind", [usual].into_iter().chain(0..kinds.len()))?;
    let schedule = fitting(kernel, kinds[kind], setting)?;
    Some((schedule, decisions.into_met()))
}

/// Whether a schedule that others chose applies to a kernel, and its memory has a size that is known and fits.
#[must_use]
pub fn takes(kernel: &Kernel, schedule: &Schedule, machine: &GpuMachine, allowed: ErrorClass) -> bool {
    is_fit(kernel, schedule, machine, allowed)
}

fn find(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass) -> Option<Schedule> {
    let decisions = Decisions::default();
    let setting = Setting { machine: *machine, allowed, decisions: &decisions };
    candidates(kernel).iter().find_map(|&candidate| fitting(kernel, candidate, setting))
}

/// The kinds that may suit a kernel: none if it has nothing to compute.
fn candidates(kernel: &Kernel) -> &'static [Candidate] {
    if crate::formulate::has_empty_axis(kernel) { &[] } else { &CANDIDATES }
}

/// The schedule of a kind, if there is one that fits; in memory what registers have no room for.
fn fitting(kernel: &Kernel, candidate: Candidate, setting: Setting<'_>) -> Option<Schedule> {
    let schedule = candidate(kernel, setting)?;
    let in_memory = super::without_registers(schedule.clone());
    [schedule, in_memory].into_iter().find(|schedule| is_fit(kernel, schedule, &setting.machine, setting.allowed))
}

/// Whether a schedule applies and its memory has a size that fits.
fn is_fit(kernel: &Kernel, schedule: &Schedule, machine: &GpuMachine, allowed: ErrorClass) -> bool {
    let nest = if allowed < ErrorClass::Reassociating {
        apply_within(kernel, schedule, allowed)
    } else {
        apply(kernel, schedule)
    };
    let is_of_group = |step: &Step| matches!(step, Step::Tensorize { intrinsic, .. } if intrinsic.is_of_group());
    let in_groups = schedule.steps.iter().any(is_of_group);
    nest.is_ok_and(|nest| verify_nest(&nest).is_ok() && memory_fits(&nest, machine, in_groups))
}

fn memory_fits(nest: &LoopNest, machine: &GpuMachine, in_groups: bool) -> bool {
    let ranges = Ranges::of_symbols(&nest.symbols);
    let (mut shared, mut own) = (0u64, 0u64);
    for buffer in nest.buffers.iter() {
        let BufferKind::Local(scope) = buffer.kind else { continue };
        let elements = ranges.interval(&buffer.len_elems).max.and_then(|n| u64::try_from(n).ok());
        let Some(bytes) = elements.and_then(|n| n.checked_mul(buffer.dtype.size_bytes()? as u64)) else { return false };
        match scope {
            Scope::Shared => {
                // Factors begin where the swizzle does.
                let align = if in_groups && buffer.swizzle_bytes.is_some() { 1024 } else { 16 };
                shared = shared.next_multiple_of(align).saturating_add(bytes.next_multiple_of(16));
            }
            Scope::Stack | Scope::Scratch => own = own.saturating_add(bytes),
            Scope::Register => {}
        }
    }
    let most = if in_groups { machine.group_shared_bytes } else { machine.shared_bytes };
    shared <= most && own <= machine.local_bytes
}

/// What all kinds of schedules have in common.
struct Plan<'k> {
    kernel: &'k Kernel,
    /// Per stage, whether it is computed where it is read.
    inlined: Vec<bool>,
    steps: Vec<Step>,
}

impl<'k> Plan<'k> {
    /// Every stage is computed where it is read that can be: threads would rather compute than wait for memory.
    fn new(kernel: &'k Kernel) -> Self {
        let mut stored = vec![false; kernel.stages.len()];
        for (id, stage) in kernel.stages.iter_enumerated() {
            stage.for_each_load(&mut |_, load| {
                if let Source::Stage(source, _) = load.source {
                    stored[source.index()] |= source == id || !load.gather.is_empty();
                }
            });
        }
        let inlined: Vec<bool> = kernel
            .stages
            .iter_enumerated()
            .map(|(id, stage)| {
                let output = kernel.outputs.iter().any(|o| o.stage == id);
                let sequential = stage.axes.iter().any(|a| a.kind == AxisKind::Sequential);
                stage.reducer.is_none() && !output && !sequential && !stored[id.index()]
            })
            .collect();
        let steps = kernel
            .stages
            .iter()
            .zip(&inlined)
            .filter(|(_, inlined)| **inlined)
            .map(|(stage, _)| Step::Inline { stage: stage.name.clone() })
            .collect();
        Self { kernel, inlined, steps }
    }

    fn name(&self, id: StageId) -> String {
        self.kernel.stages[id].name.clone()
    }

    fn split(&mut self, id: StageId, axis: &str, factor: i64, outer: &str, inner: &str) {
        self.steps.push(Step::Split {
            stage: self.name(id),
            axis: axis.to_owned(),
            factor: u32::try_from(factor).unwrap_or(u32::MAX),
            outer: outer.to_owned(),
            inner: inner.to_owned(),
        });
    }

    fn bind(&mut self, id: StageId, axis: &str, dim: GpuDim) {
        self.steps.push(Step::Bind { stage: self.name(id), axis: axis.to_owned(), dim });
    }

    fn reorder(&mut self, id: StageId, order: Vec<String>) {
        if order.len() > 1 {
            self.steps.push(Step::Reorder { stage: self.name(id), order });
        }
    }

    /// Puts loops of a stage in order, those over what it folds behind the others, of which some terms come at once.
    fn fold(&mut self, id: StageId, order: Vec<String>) {
        self.fold_together(id, order, TOGETHER);
    }

    /// The same with another number of terms.
    fn fold_together(&mut self, id: StageId, mut order: Vec<String>, terms: i64) {
        let stage = &self.kernel.stages[id];
        let mut reduced: Vec<String> = stage.reduce_axes().map(|(_, axis)| axis.name.clone()).collect();
        let last = stage.reduce_axes().last().map(|(_, axis)| (axis.name.clone(), axis.extent.as_const()));
        let mut together = None;
        if let Some((last, points)) = last {
            if points.is_some_and(|points| points <= terms) {
                together = Some(last);
            } else {
                let (outer, inner) = (format!("{last}_o"), format!("{last}_i"));
                self.split(id, &last, terms, &outer, &inner);
                reduced.pop();
                reduced.extend([outer, inner.clone()]);
                together = Some(inner);
            }
        }
        order.extend(reduced);
        self.reorder(id, order);
        let stage = stage.name.clone();
        self.steps.extend(together.map(|axis| Step::Unroll { stage, axis }));
    }

    fn compute_at(&mut self, id: StageId, consumer: StageId, axis: &str, scope: Scope) {
        let stage = self.name(id);
        self.steps.push(Step::ComputeAt { stage: stage.clone(), consumer: self.name(consumer), axis: axis.to_owned() });
        self.steps.push(Step::StoreIn { stage, scope });
    }

    fn schedule(self) -> Schedule {
        Schedule { steps: self.steps }
    }
}

/// The stages that outputs are, in order, if no stage is computed step by step with others and no root reads another.
fn independent_roots(kernel: &Kernel) -> Option<Vec<StageId>> {
    if !kernel.recurrences().is_empty() {
        return None;
    }
    let mut roots: Vec<StageId> = kernel.outputs.iter().map(|o| o.stage).collect();
    roots.sort_unstable();
    roots.dedup();
    let reads_root = |id: StageId| {
        let mut open = vec![id];
        let mut seen = vec![false; kernel.stages.len()];
        let mut found = false;
        while let Some(reader) = open.pop() {
            kernel.stages[reader].for_each_load(&mut |_, load| {
                let Source::Stage(source, _) = load.source else { return };
                found |= source != id && roots.contains(&source);
                if !std::mem::replace(&mut seen[source.index()], true) {
                    open.push(source);
                }
            });
        }
        found
    };
    (!roots.iter().any(|&root| reads_root(root))).then_some(roots)
}
