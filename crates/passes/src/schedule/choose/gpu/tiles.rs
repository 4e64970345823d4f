//! Sums of products whose factors are read again: a block computes a tile of the result, whose points its threads hold in
//! registers, while both factors pass through shared memory.

use super::super::access::{Access, Step as Movement, accesses, extent};
use super::follow::follow;
use super::points::contiguous;
use super::{GpuMachine, Plan, independent_roots, rewrite};
use crate::ErrorClass;
use infc_ir::entity::{EntityId, ScalarId, StageId};
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::ScalarOp;
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};

/// Points along a side of the result, and along the sum, below which shared memory gains nothing.
const LEAST: i64 = 8;

/// A tile along one axis: what a block has of it, and of that what a thread has.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Of the sum.
    axis: usize,
    block: i64,
    thread: i64,
}

pub(super) fn candidate(kernel: &Kernel, machine: &GpuMachine, _: ErrorClass) -> Option<(Kernel, Schedule)> {
    let [root] = independent_roots(kernel)?[..] else { return None };
    if kernel.stages.iter().any(|s| s.axes.iter().any(|a| a.kind == AxisKind::Sequential)) {
        return None;
    }
    let inlined = Plan::new(kernel).inlined;
    let reads: Vec<Vec<Access>> = kernel.stages.ids().map(|id| accesses(kernel, id, &inlined)).collect();
    let follows = follow(kernel, &inlined, &reads, root);
    // The only stored stage, with a point per point of the root.
    let mut stored =
        kernel.stages.ids().filter(|&id| id != root && !inlined[id.index()] && follows[id.index()].is_some());
    let sum = stored.next().filter(|_| stored.next().is_none())?;
    let to_root: Vec<usize> = follows[sum.index()].clone()?.into_iter().collect::<Option<_>>()?;
    let stage = &kernel.stages[sum];
    let root_stage = &kernel.stages[root];
    let covers = (0..root_stage.axes.len()).all(|a| to_root.contains(&a) || root_stage.axes[a].extent.is_const(1));
    if stage.reducer.is_none() || !covers || stage.results.len() != 1 {
        return None;
    }
    let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
    let root_axis = |axis: usize| to_root[value.iter().position(|&v| v == axis).expect("a value axis")];

    let innermost = contiguous(kernel, root);
    let (rows, columns, factors) = sides(kernel, stage, &|axis| innermost == Some(root_axis(axis)))?;
    let (depth_axis, _) = stage.reduce_axes().max_by_key(|(a, _)| extent(kernel, stage, *a))?;
    if extent(kernel, stage, depth_axis) < LEAST {
        return None;
    }
    let last = |axis: &usize| (innermost == Some(root_axis(*axis)), *axis);
    let side = |mut axes: Vec<usize>| {
        axes.sort_by_key(last);
        tile(kernel, stage, &axes, machine)
    };
    let tiles: Vec<Side> = side(rows).into_iter().chain(side(columns)).collect();
    let depth = machine.depth.min(extent(kernel, stage, depth_axis));
    let axis_names: Vec<String> = stage.axes.iter().map(|a| a.name.clone()).collect();

    let root_name = root_stage.name.clone();
    let sum_name = stage.name.clone();
    let mut changed = kernel.clone();
    // The later load first, so that the other one's number stays.
    let mut parts = Vec::new();
    let find =
        |kernel: &Kernel, name: &str| kernel.stages.iter_enumerated().find(|(_, s)| s.name == name).map(|(id, _)| id);
    for load in factors {
        let id = find(&changed, &sum_name)?;
        let inner = moves_by_one(&changed, id, load);
        let axes = rewrite::load_apart(&mut changed, id, load);
        parts.push((changed.stages[id].name.clone(), axes, inner));
    }

    let (root, sum) = (find(&changed, &root_name)?, find(&changed, &sum_name)?);
    let mut plan = Plan::new(&changed);
    // What is put into shared memory is a stage that could be computed where it is read.
    let kept = |step: &Step| !matches!(step, Step::Inline { stage } if parts.iter().any(|(name, ..)| name == stage));
    plan.steps.retain(kept);

    let is_tiled = |axis: usize| tiles.iter().find(|t| t.axis == axis);
    let mut blocks = Vec::new();
    for axis in 0..root_stage.axes.len() {
        let name = &root_stage.axes[axis].name;
        match tiles.iter().find(|t| root_axis(t.axis) == axis) {
            None => blocks.push(name.clone()),
            Some(t) => {
                plan.split(root, name, t.block, &format!("{name}_b"), &format!("{name}_i"));
                plan.split(root, &format!("{name}_i"), t.thread, &format!("{name}_t"), &format!("{name}_r"));
                blocks.push(format!("{name}_b"));
            }
        }
    }
    let of_root = |suffix: &str| -> Vec<String> {
        tiles.iter().map(|t| format!("{}{suffix}", root_stage.axes[root_axis(t.axis)].name)).collect()
    };
    let (threads, registers) = (of_root("_t"), of_root("_r"));
    plan.reorder(root, blocks.iter().chain(&threads).chain(&registers).cloned().collect());
    blocks.iter().for_each(|name| plan.bind(root, name, GpuDim::BlockX));
    threads.iter().for_each(|name| plan.bind(root, name, GpuDim::ThreadX));
    unroll(&mut plan, root, &registers);

    plan.compute_at(sum, root, blocks.last()?, Scope::Register);
    for t in &tiles {
        let name = &axis_names[t.axis];
        plan.split(sum, name, t.thread, &format!("{name}_t"), &format!("{name}_r"));
    }
    let (outer, inner) = (format!("{}_o", axis_names[depth_axis]), format!("{}_i", axis_names[depth_axis]));
    plan.split(sum, &axis_names[depth_axis], depth, &outer, &inner);
    let of_sum =
        |suffix: &str| -> Vec<String> { tiles.iter().map(|t| format!("{}{suffix}", axis_names[t.axis])).collect() };
    let plain = |reduces: bool| -> Vec<String> {
        let other = |a: &usize| {
            is_tiled(*a).is_none() && *a != depth_axis && (stage.axes[*a].kind == AxisKind::Reduce) == reduces
        };
        (0..stage.axes.len()).filter(other).map(|a| axis_names[a].clone()).collect()
    };
    let mut order = plain(false);
    order.extend(plain(true));
    order.push(outer.clone());
    order.extend(of_sum("_t"));
    order.push(inner);
    order.extend(of_sum("_r"));
    plan.reorder(sum, order);
    of_sum("_t").iter().for_each(|name| plan.bind(sum, name, GpuDim::ThreadX));
    unroll(&mut plan, sum, &of_sum("_r"));

    let block_threads: i64 = tiles.iter().map(|t| t.block / t.thread).product();
    for (name, axes, inner) in parts {
        let id = find(&changed, &name)?;
        plan.compute_at(id, sum, &outer, Scope::Shared);
        let size = |axis: usize| match is_tiled(axis) {
            Some(t) => t.block,
            None if axis == depth_axis => depth,
            None => 1,
        };
        let mut spread: Vec<usize> = axes.iter().copied().filter(|&a| size(a) > 1).collect();
        spread.sort_by_key(|&a| inner == Some(a));
        let mut left = block_threads;
        let mut order: Vec<String> = axes.iter().filter(|a| size(**a) == 1).map(|&a| axis_names[a].clone()).collect();
        let mut bound = Vec::new();
        for &axis in spread.iter().rev() {
            let factor = size(axis).min(left).max(1);
            left /= factor;
            let name = &axis_names[axis];
            plan.split(id, name, factor, &format!("{name}_u"), &format!("{name}_t"));
            bound.push(format!("{name}_t"));
        }
        bound.reverse();
        order.extend(spread.iter().map(|&a| format!("{}_u", axis_names[a])));
        order.extend(bound.iter().cloned());
        plan.reorder(id, order);
        bound.iter().for_each(|name| plan.bind(id, name, GpuDim::ThreadX));
    }
    let schedule = plan.schedule();
    Some((changed, schedule))
}

fn unroll(plan: &mut Plan<'_>, id: StageId, loops: &[String]) {
    let stage = plan.name(id);
    plan.steps.extend(loops.iter().map(|axis| Step::Unroll { stage: stage.clone(), axis: axis.clone() }));
}

/// The value axes that only one of two loads moves along, and those that only the other does, with the loads, the later
/// one first. The axis that `is_innermost` is among the second.
fn sides(
    kernel: &Kernel,
    stage: &Stage,
    is_innermost: &dyn Fn(usize) -> bool,
) -> Option<(Vec<usize>, Vec<usize>, Vec<ScalarId>)> {
    let loads: Vec<(ScalarId, Vec<usize>)> = stage
        .body
        .ops
        .iter_enumerated()
        .filter_map(|(id, op)| match op {
            ScalarOp::Load(load) if load.gather.is_empty() => Some((id, rewrite::axes_of(stage, load))),
            _ => None,
        })
        .collect();
    let values: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
    let points = |axes: &[usize]| axes.iter().map(|&a| extent(kernel, stage, a)).fold(1, i64::saturating_mul);
    for (n, (a, of_a)) in loads.iter().enumerate() {
        for (b, of_b) in &loads[n + 1..] {
            let alone = |mine: &[usize], other: &[usize]| -> Vec<usize> {
                values.iter().copied().filter(|v| mine.contains(v) && !other.contains(v)).collect()
            };
            let (rows, columns) = (alone(of_a, of_b), alone(of_b, of_a));
            if points(&rows) < LEAST || points(&columns) < LEAST {
                continue;
            }
            let swap = rows.iter().any(|&axis| is_innermost(axis));
            let (rows, columns) = if swap { (columns, rows) } else { (rows, columns) };
            return Some((rows, columns, vec![*b, *a]));
        }
    }
    None
}

/// Tiles along axes, of which the last is the innermost.
fn tile(kernel: &Kernel, stage: &Stage, axes: &[usize], machine: &GpuMachine) -> Vec<Side> {
    let side = (machine.threads as f64).sqrt() as i64 * machine.register_side;
    let (mut left, mut registers) = (side, machine.register_side);
    let mut found: Vec<Side> = axes
        .iter()
        .rev()
        .map(|&axis| {
            let points = extent(kernel, stage, axis).max(1).unsigned_abs().next_power_of_two() as i64;
            let block = points.min(left);
            let thread = block.min(registers);
            left /= block;
            registers /= thread;
            Side { axis, block, thread }
        })
        .collect();
    found.reverse();
    found
}

/// The axis of a stage along which a load moves to neighbours in memory.
fn moves_by_one(kernel: &Kernel, id: StageId, load: ScalarId) -> Option<usize> {
    let inlined = Plan::new(kernel).inlined;
    let ScalarOp::Load(what) = &kernel.stages[id].body.ops[load] else { return None };
    // A load through stages that are computed where they are read moves as what they read does.
    let direct = accesses(kernel, id, &inlined);
    let loads = kernel.stages[id].body.ops.iter().filter(|op| matches!(op, ScalarOp::Load(_)));
    let position = loads.clone().position(|op| matches!(op, ScalarOp::Load(l) if l == what));
    let access = position.filter(|_| direct.len() == loads.count()).and_then(|n| direct.get(n))?;
    access.steps.iter().position(|s| *s == Movement::One)
}
