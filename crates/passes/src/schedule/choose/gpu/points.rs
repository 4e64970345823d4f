//! Each thread computes points of the results, and all that they need; of what only moves through memory some neighbours, which
//! are read and written as vectors.

use super::super::access::{Access, Step as Movement, accesses, extent, step};
use super::follow::follow;
use super::rewrite::Rewritten;
use super::{Plan, Setting, independent_roots};
use crate::schedule::reads::reads_neighbours;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{Axis, AxisKind, Kernel, Layout};
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};
use infc_tensor::DType;

/// Neighbours that a thread has, where there are threads enough all the same.
const VECTOR: i64 = 4;
/// Bytes of them that are read and written at once.
const VECTOR_BYTES: i64 = 16;

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let roots = independent_roots(kernel)?;
    let mut rewritten = Rewritten::of(kernel);
    roots.iter().try_for_each(|&root| rewritten.single(root))?;
    let machine = setting.with_threads().machine;
    let kernel = &rewritten.kernel;
    let mut plan = Plan::new(kernel);
    let reads: Vec<_> = kernel.stages.ids().map(|id| accesses(kernel, id, &plan.inlined)).collect();
    let mut placed = vec![false; kernel.stages.len()];
    for &root in &roots {
        let follows = follow(kernel, &plan.inlined, &reads, root);
        let keeps =
            kernel.stages.ids().any(|id| id != root && !plan.inlined[id.index()] && follows[id.index()].is_some());
        let points = kernel.stages[root].value_axes().map(|(n, _)| extent(kernel, &kernel.stages[root], n));
        let is_large = points.fold(1, i64::saturating_mul) >= VECTOR.saturating_mul(machine.busy_threads);
        let mut vector = 1;
        if !keeps && reads_vectors(kernel, root, &reads[root.index()]) {
            let usual = if is_large { VECTOR } else { 1 };
            vector = setting.pick("neighbours of a thread", [usual, VECTOR, 1])?;
        }
        let at = &spread_vectors(&mut plan, root, [machine.threads, 1], vector)?;
        for id in kernel.stages.ids() {
            if id == root || plan.inlined[id.index()] || follows[id.index()].is_none() {
                continue;
            }
            // A stage is computed in one place, and all steps of one are too much for every point.
            let steps = kernel.stages[id].axes.iter().any(|a| a.kind == AxisKind::Sequential);
            if steps || std::mem::replace(&mut placed[id.index()], true) {
                return None;
            }
            plan.compute_at(id, root, at, Scope::Register);
        }
    }
    Some(rewritten.scheduled(plan.schedule()))
}

/// Spreads the points of a root over blocks, and over so many threads along x and y of a block; along y only if there are more
/// than one. Gives the innermost loop over threads.
pub(super) fn spread(plan: &mut Plan<'_>, root: StageId, threads: [i64; 2]) -> Option<String> {
    spread_vectors(plan, root, threads, 1)
}

/// Whether all that a root reads lies side by side along its innermost axis, or is the same, and in aligned pieces.
fn reads_vectors(kernel: &Kernel, root: StageId, reads: &[Access]) -> bool {
    let Some(axis) = contiguous(kernel, root) else { return false };
    let side_by_side = |access: &Access| matches!(access.steps[axis], Movement::Zero | Movement::One);
    let aligned = kernel.operands.iter().all(|operand| {
        let Layout { strides, offset, .. } = &operand.layout;
        let steps = strides.iter().filter(|stride| !stride.is_const(1));
        let bytes = operand.dtype.size_bytes().filter(|_| operand.dtype != DType::Bool);
        let is_vector = bytes.is_some_and(|bytes| bytes as i64 * VECTOR <= VECTOR_BYTES);
        is_vector && offset.is_multiple_of(VECTOR) && steps.into_iter().all(|stride| stride.is_multiple_of(VECTOR))
    });
    kernel.stages[root].axes[axis].extent.is_multiple_of(VECTOR) && reads.iter().all(side_by_side) && aligned
}

/// As [`spread`], with so many neighbours of each thread.
fn spread_vectors(plan: &mut Plan<'_>, root: StageId, [along_x, along_y]: [i64; 2], vector: i64) -> Option<String> {
    let kernel = plan.kernel;
    let innermost = contiguous(kernel, root).filter(|_| vector > 1);
    let stage = &kernel.stages[root];
    let bindable = |axis: usize| {
        stage.axes[axis].kind == AxisKind::Parallel && !reads_neighbours(kernel, root, VarId::from_index(axis))
    };
    let axes: Vec<usize> = (0..stage.axes.len()).filter(|&a| bindable(a)).collect();
    let vectors = |axis: usize| if Some(axis) == innermost { vector } else { 1 };
    let wanted: Vec<(usize, i64)> = axes.iter().map(|&a| (a, extent(kernel, stage, a) / vectors(a))).collect();
    let mut factors = share(&wanted, contiguous(kernel, root), along_x);
    // Threads that are left go along an axis of which there may be more than usual.
    let left = along_x / factors.iter().map(|(_, factor)| factor).product::<i64>().max(1);
    let unknown = factors.iter_mut().find(|(axis, _)| stage.axes[*axis].extent.as_const().is_none());
    unknown.into_iter().for_each(|(_, factor)| *factor *= left.max(1));
    let left = factors.iter().map(|&(axis, factor)| {
        let points = extent(kernel, stage, axis) / vectors(axis);
        (axis, points / factor + i64::from(points % factor != 0))
    });
    let further = share(&left.collect::<Vec<_>>(), None, along_y);
    let (mut blocks, mut warps, mut threads, mut own) = (Vec::new(), Vec::new(), Vec::new(), None);
    for ((axis, factor), (_, further)) in factors.into_iter().zip(further) {
        let name = &stage.axes[axis].name;
        let (block, thread) = (format!("{name}_b"), format!("{name}_t"));
        let mut from = name.clone();
        if Some(axis) == innermost {
            (from, own) = (format!("{name}_n"), Some(format!("{name}_v")));
            own.iter().for_each(|own| plan.split(root, name, vector, &from, own));
        }
        if along_y > 1 {
            // Also where there is one point: what is bound to no dimension all threads along it would do.
            let (both, warp) = (format!("{name}_bt"), format!("{name}_y"));
            plan.split(root, &from, factor * further, &block, &both);
            plan.split(root, &both, factor, &warp, &thread);
            warps.push(warp);
        } else {
            plan.split(root, &from, factor, &block, &thread);
        }
        blocks.push(block);
        threads.push(thread);
    }
    // Steps go around what they mix.
    let mut rest: Vec<&Axis> = (0..stage.axes.len()).filter(|&a| !bindable(a)).map(|a| &stage.axes[a]).collect();
    rest.sort_by_key(|axis| axis.kind != AxisKind::Sequential);
    let rest = rest.into_iter().map(|axis| axis.name.clone());
    plan.reorder(root, blocks.iter().chain(&warps).chain(&threads).cloned().chain(rest).chain(own.clone()).collect());
    blocks.iter().for_each(|name| plan.bind(root, name, GpuDim::BlockX));
    warps.iter().for_each(|name| plan.bind(root, name, GpuDim::ThreadY));
    threads.iter().for_each(|name| plan.bind(root, name, GpuDim::ThreadX));
    plan.steps.extend(own.map(|axis| Step::Vectorize { stage: plan.name(root), axis }));
    threads.pop()
}

/// The axis along which neighbouring points of a root are neighbours in memory.
pub(super) fn contiguous(kernel: &Kernel, root: StageId) -> Option<usize> {
    let stage = &kernel.stages[root];
    let output = kernel.outputs.iter().find(|o| o.stage == root)?;
    let flat = kernel.operands[output.operand].layout.flat(&output.index).simplify(&stage.ranges(&kernel.symbols));
    (0..stage.axes.len()).find(|&axis| step(kernel, stage, &flat, axis) == Movement::One)
}

/// How many of so many threads go along each of the axes with the given extents: as many as there are points along the
/// innermost, and so on outwards. The innermost is the one named, which comes last in the result, else the last.
pub(super) fn share(axes: &[(usize, i64)], innermost: Option<usize>, threads: i64) -> Vec<(usize, i64)> {
    let mut axes = axes.to_vec();
    axes.sort_by_key(|&(axis, _)| innermost == Some(axis));
    let mut left = threads;
    let mut found: Vec<(usize, i64)> = axes
        .iter()
        .rev()
        .map(|&(axis, extent)| {
            let most = extent.clamp(1, left.max(1));
            // As few idle threads as possible in the last block.
            let turns = (extent + most - 1) / most;
            let factor = (extent + turns - 1) / turns.max(1);
            left /= factor.max(1);
            (axis, factor.max(1))
        })
        .collect();
    found.reverse();
    found
}
