//! Sums of products whose factors are read again: a block computes a tile of the result, whose points its threads hold in
//! registers, while both factors pass through shared memory.

use super::super::access::extent;
use super::points::spread;
use super::product::{LEAST, Product, copies_pieces, find, join, moves_by_one, product};
use super::rewrite::Rewritten;
use super::{GpuMachine, Plan, Setting};
use infc_ir::entity::StageId;
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};

/// Words that a thread reads or writes at once.
const VECTOR: i64 = 4;

/// A tile along one axis: what a block has of it, and of that what a thread has.
#[derive(Clone, Copy, Debug)]
struct Side {
    /// Of the sum.
    axis: usize,
    block: i64,
    thread: i64,
}

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let mut machine = setting.with_threads().machine;
    machine.register_side = setting.pick("points of a thread", [machine.register_side, 8, 2, 4])?;
    machine.depth = setting.pick("depth", [machine.depth, 8, 32, 16])?;
    let machine = &machine;
    let mut rewritten = Rewritten::of(kernel);
    // Of short sums along several axes, as of the taps of a first convolution, pieces are parts of all of them.
    let is_short = {
        let product = product(kernel)?;
        extent(kernel, &kernel.stages[product.sum], product.depth) < machine.depth
    };
    if is_short {
        let mut whole = rewritten.clone();
        if join(&mut whole, |kernel, product| vec![product.reduced(kernel)]).is_some() {
            rewritten = whole;
        }
    }
    let kernel = &rewritten.kernel.clone();
    let product = product(kernel)?;
    let Product { root, sum, innermost, depth: depth_axis, .. } = product;
    let (stage, root_stage) = (&kernel.stages[sum], &kernel.stages[root]);
    if extent(kernel, stage, depth_axis) < LEAST {
        return None;
    }
    let root_axis = |axis: usize| product.root_axis(axis);
    let (rows, columns, factors) = (product.rows.clone(), product.columns.clone(), product.factors);
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
    product.beside.iter().try_for_each(|&root| rewritten.single(root))?;
    let beside: Vec<String> = product.beside.iter().map(|&root| kernel.stages[root].name.clone()).collect();
    // The later load first, so that the other one's number stays.
    let mut parts = Vec::new();
    // The points of a thread along the last side are read and written as vectors, if they are neighbours where they come
    // from, and aligned.
    let vector_axis = tiles.last().filter(|t| t.thread == VECTOR).map(|t| t.axis);
    let mut vectors = false;
    for load in factors {
        let id = find(&rewritten.kernel, &sum_name)?;
        let inner = moves_by_one(&rewritten.kernel, id, load);
        let axes = rewritten.cache(id, load)?;
        let position = axes.iter().position(|&a| Some(a) == inner);
        let is_vector =
            inner == vector_axis && position.is_some_and(|p| copies_pieces(&rewritten.kernel, id, p, VECTOR));
        vectors |= is_vector;
        parts.push((rewritten.kernel.stages[id].name.clone(), axes, inner, is_vector));
    }
    let changed = &rewritten.kernel;

    let (root, sum) = (find(changed, &root_name)?, find(changed, &sum_name)?);
    let mut plan = Plan::new(changed);
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
    straight(&mut plan, root, &registers, vectors);

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
    straight(&mut plan, sum, &of_sum("_r"), vectors);

    let block_threads: i64 = tiles.iter().map(|t| t.block / t.thread).product();
    for (name, axes, inner, is_vector) in parts {
        let id = find(changed, &name)?;
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
        let mut vector = None;
        for &axis in spread.iter().rev() {
            let name = &axis_names[axis];
            let mut whole = (name.clone(), size(axis));
            if is_vector && inner == Some(axis) {
                whole = (format!("{name}_p"), size(axis) / VECTOR);
                plan.split(id, name, VECTOR, &whole.0, &format!("{name}_v"));
                vector = Some(format!("{name}_v"));
            }
            let factor = whole.1.min(left).max(1);
            left /= factor;
            plan.split(id, &whole.0, factor, &format!("{name}_u"), &format!("{name}_t"));
            bound.push(format!("{name}_t"));
        }
        bound.reverse();
        order.extend(spread.iter().map(|&a| format!("{}_u", axis_names[a])));
        order.extend(bound.iter().cloned());
        order.extend(vector.clone());
        plan.reorder(id, order);
        plan.steps.extend(vector.map(|axis| Step::Vectorize { stage: name.clone(), axis }));
        bound.iter().for_each(|name| plan.bind(id, name, GpuDim::ThreadX));
    }
    for name in beside {
        let root = find(changed, &name)?;
        spread(&mut plan, root, [block_threads, 1])?;
    }
    let schedule = plan.schedule();
    Some(rewritten.scheduled(schedule))
}

/// Loops over points in registers, the last perhaps as a vector.
fn straight(plan: &mut Plan<'_>, id: StageId, loops: &[String], vectors: bool) {
    let stage = plan.name(id);
    for (n, axis) in loops.iter().enumerate() {
        let (stage, axis) = (stage.clone(), axis.clone());
        let is_vector = vectors && n + 1 == loops.len();
        plan.steps.push(if is_vector { Step::Vectorize { stage, axis } } else { Step::Unroll { stage, axis } });
    }
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
