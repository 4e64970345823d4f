//! Recurrences: a block takes the steps one after the other, its threads share the points of each, and what one step hands to
//! the next passes through memory that they share. Rows that no step mixes with others, as those of a batch, have a block each.

use super::super::access::{accesses, extent};
use super::follow::{Follow, follow};
use super::points::{contiguous, share};
use super::{Plan, Setting};
use crate::schedule::reads::is_apart;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::schedule::{GpuDim, Schedule, Scope};

/// Warps of a block, in blocks of other kernels: there are few blocks, and each has a processor for itself.
const MORE_THREADS: i64 = 2;

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let [run] = &kernel.recurrences()[..] else { return None };
    let root = StageId::from_index(run.end - 1);
    let mut plan = Plan::new(kernel);
    // Nothing but the steps, and what is computed where they read it.
    let is_all = kernel.stages.ids().all(|id| run.contains(&id.index()) || plan.inlined[id.index()]);
    let steps = |id: StageId| {
        let sequential = |a: &infc_ir::kernel::Axis| a.kind == AxisKind::Sequential;
        let axes = &kernel.stages[id].axes;
        axes.first().is_some_and(sequential) && axes.iter().filter(|a| sequential(a)).count() == 1
    };
    let of_run = || run.clone().map(StageId::from_index);
    if !is_all || !of_run().all(steps) || kernel.outputs.iter().any(|output| output.stage != root) {
        return None;
    }
    let reads: Vec<_> = kernel.stages.ids().map(|id| accesses(kernel, id, &plan.inlined)).collect();
    let follows = follow(kernel, &plan.inlined, &reads, root);
    let stage = &kernel.stages[root];
    let blocks: Vec<usize> = (1..stage.axes.len()).filter(|&axis| is_apart(kernel, run, axis)).collect();
    let inside: Vec<usize> = (1..stage.axes.len()).filter(|axis| !blocks.contains(axis)).collect();
    if inside.is_empty() {
        return None;
    }
    let name = |axis: usize| stage.axes[axis].name.clone();
    let mut order: Vec<String> = blocks.iter().map(|&axis| name(axis)).collect();
    order.push(name(0));
    let threads = setting.with_threads().machine.threads * MORE_THREADS;
    spread(&mut plan, root, &inside, order, threads);
    blocks.iter().for_each(|&axis| plan.bind(root, &name(axis), GpuDim::BlockX));
    for id in of_run().filter(|&id| id != root) {
        let within = within(kernel, id, follows[id.index()].as_ref()?, &blocks);
        // One point is every thread's own.
        let scope = if within.is_empty() { Scope::Register } else { Scope::Shared };
        plan.compute_at(id, root, &name(0), scope);
        let own = &kernel.stages[id];
        let outside =
            (0..own.axes.len()).filter(|axis| own.axes[*axis].kind != AxisKind::Reduce && !within.contains(axis));
        let order = outside.map(|axis| own.axes[axis].name.clone()).collect();
        spread(&mut plan, id, &within, order, threads);
    }
    Some(plan.schedule())
}

/// The axes of a stage that a block has more than one point along.
fn within(kernel: &Kernel, id: StageId, follow: &Follow, blocks: &[usize]) -> Vec<usize> {
    let stage = &kernel.stages[id];
    let value = stage.value_axes().zip(follow);
    let of_block = |f: &Option<usize>| f.is_some_and(|f| f == 0 || blocks.contains(&f));
    value.filter(|((n, _), f)| *n != 0 && !of_block(f)).map(|((n, _), _)| n).collect()
}

/// Spreads axes of a stage over threads, behind the loops of `order`; what is summed comes last.
fn spread(plan: &mut Plan<'_>, id: StageId, axes: &[usize], mut order: Vec<String>, threads: i64) {
    let kernel = plan.kernel;
    let stage = &kernel.stages[id];
    let wanted: Vec<(usize, i64)> = axes.iter().map(|&axis| (axis, extent(kernel, stage, axis))).collect();
    let mut bound = Vec::new();
    for (axis, factor) in share(&wanted, contiguous(kernel, id), threads) {
        let own = &stage.axes[axis].name;
        let (turn, thread) = (format!("{own}_u"), format!("{own}_t"));
        plan.split(id, own, factor, &turn, &thread);
        order.push(turn);
        bound.push(thread);
    }
    order.extend(bound.iter().cloned());
    plan.fold(id, order);
    bound.iter().for_each(|thread| plan.bind(id, thread, GpuDim::ThreadX));
}
