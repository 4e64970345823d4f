//! A block computes a row of the result with all of its threads: first the reductions that the row needs, in shared
//! memory, then the row.
//!
//! Where what a reduction reads are neighbours in memory across rows and not along what it folds (a product with one row on the
//! left, a mean over the places of an image), a block computes several rows side by side, so that its warps read whole pieces of
//! memory. A thread has some of them, which it reads as vectors and sums in registers.

use super::super::access::{Access, Step as Movement, accesses, extent};
use super::follow::{Follow, follow};
use super::points::{contiguous, share};
use super::product::{find, has_pieces};
use super::rewrite::Rewritten;
use super::{GpuMachine, Plan, Setting, TOGETHER, independent_roots, is_fit};
use crate::ErrorClass;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::scalar::{Load, ScalarOp};
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};

/// Rows side by side that a thread has at most.
const VECTOR: i64 = 4;
/// Bytes that a thread loads before it folds them, where it loads vectors.
const UNDER_WAY_BYTES: i64 = 128;
/// Points of a sum from which on it is worth to be done by several threads.
const LONG: i64 = 64;
/// The same where every point of the result has a thread anyway: as much is read by many threads of one as by one of many, but in
/// longer pieces, and more at a time. Reasoned: of the products that
/// this decides about one with sums of 768 was measured.
const STREAMED: i64 = 256;
/// The same from which on it takes more threads than usual.
const VERY_LONG: i64 = 4096;
/// Partial results that one thread folds; of more, threads fold parts first.
const FEW: i64 = 32;
/// Bytes of memory that are transferred together, and those that a warp reads at once.
const PIECE: std::ops::RangeInclusive<i64> = 32..=128;

pub(super) fn candidate(kernel: &Kernel, setting: Setting<'_>) -> Option<Schedule> {
    let mut setting = setting;
    if Rows::of(kernel)?.is_long() {
        setting.machine.threads *= 2;
    }
    let Setting { machine, allowed, .. } = setting.with_threads();
    // Rows side by side take as many times the memory.
    let side_by_side = attempt(kernel, &machine, allowed, true)?;
    if !is_fit(kernel, &side_by_side, &machine, allowed) {
        return attempt(kernel, &machine, allowed, false);
    }
    let is_usual = setting.pick("rows side by side", [true, false])?;
    if is_usual { Some(side_by_side) } else { attempt(kernel, &machine, allowed, false) }
}

/// The candidate, with rows side by side or without.
fn attempt(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass, tiles: bool) -> Option<Schedule> {
    let roots = independent_roots(kernel)?;
    let mut rewritten = Rewritten::of(kernel);
    roots.iter().try_for_each(|&root| rewritten.single(root))?;
    let mut rows = Rows::of(&rewritten.kernel)?;
    // Many threads of one sum take another order of it.
    if !rows.is_worthwhile(machine, tiles && allowed >= ErrorClass::Reassociating) {
        return None;
    }
    if tiles {
        rows.find_tiles(machine);
    }
    let tiles: Vec<_> = rows.roots.iter().map(|root| root.tile).collect();
    let reductions = rows.to_split(machine, allowed);
    let mut vectors = Vec::new();
    for (name, axis, parts, vector) in reductions {
        let id = find(&rewritten.kernel, &name)?;
        rewritten.rfactor(id, axis, parts)?;
        if vector > 1 {
            // What a thread sums in registers, of which the parts are copies.
            let part = &rewritten.kernel.stages[id];
            let (whole, axis) = (part.name.clone(), part.reduce_axes().next().map(|(n, _)| n)?);
            rewritten.rfactor(id, axis, 1)?;
            vectors.push((rewritten.kernel.stages[id].name.clone(), whole, vector));
        }
        if parts > FEW {
            // The sum of the parts is folded in two as well.
            let folded = find(&rewritten.kernel, &name)?;
            let part = rewritten.kernel.stages[folded].axes.len() - 1;
            rewritten.rfactor(folded, part, parts / 16)?;
        }
    }
    let mut rows = Rows::of(&rewritten.kernel)?;
    rows.vectors = vectors;
    rows.roots.iter_mut().zip(tiles).for_each(|(root, tile)| root.tile = tile);
    let schedule = rows.schedule(machine)?;
    Some(rewritten.scheduled(schedule))
}

/// A result, and how its points are spread.
struct Root {
    stage: StageId,
    /// What it needs of every stage.
    follows: Vec<Option<Follow>>,
    /// The axes that go over blocks.
    blocks: Vec<usize>,
    /// One of them of which a block has several points.
    tile: Option<Tile>,
}

/// Neighbouring rows of a block.
#[derive(Clone, Copy)]
struct Tile {
    /// The root's.
    axis: usize,
    points: i64,
    /// Whether what is read most of is read once, all of it.
    is_streamed: bool,
}

struct Rows<'k> {
    kernel: &'k Kernel,
    plan: Plan<'k>,
    /// What every stage reads.
    reads: Vec<Vec<Access>>,
    roots: Vec<Root>,
    /// Sums in registers by their names, each with what it is copied to, and rows side by side of a thread.
    vectors: Vec<(String, String, i64)>,
}

impl<'k> Rows<'k> {
    /// `None` if stages are computed step by step.
    fn of(kernel: &'k Kernel) -> Option<Self> {
        if kernel.stages.iter().any(|s| s.axes.iter().any(|a| a.kind == AxisKind::Sequential)) {
            return None;
        }
        let plan = Plan::new(kernel);
        let reads: Vec<_> = kernel.stages.ids().map(|id| accesses(kernel, id, &plan.inlined)).collect();
        let mut roots = Vec::new();
        for root in independent_roots(kernel)? {
            let follows = follow(kernel, &plan.inlined, &reads, root);
            let common = |axis: &usize| {
                let mut needed = kernel.stages.ids().filter(|&id| id != root && !plan.inlined[id.index()]);
                needed.all(|id| follows[id.index()].as_ref().is_none_or(|f| f.contains(&Some(*axis))))
            };
            let blocks = (0..kernel.stages[root].axes.len()).filter(common).collect();
            roots.push(Root { stage: root, follows, blocks, tile: None });
        }
        let mut this = Self { kernel, plan, reads, roots, vectors: Vec::new() };
        let shared = kernel.stages.ids().any(|id| this.readers(id) > 1);
        if shared || this.roots.iter().any(|root| root.blocks.is_empty()) {
            // What several roots read is computed once, in front of them all, in the only block; and beside a root that is
            // not spread over blocks none is, since all blocks would compute it.
            this.roots.iter_mut().for_each(|root| root.blocks.clear());
        }
        Some(this)
    }

    /// How many roots need a stored stage.
    fn readers(&self, id: StageId) -> usize {
        let reads =
            |root: &&Root| root.stage != id && !self.plan.inlined[id.index()] && root.follows[id.index()].is_some();
        self.roots.iter().filter(reads).count()
    }

    /// The stored stages that a root needs.
    fn producers(&self, root: usize) -> Vec<(StageId, Follow)> {
        let Root { stage: id, follows, .. } = &self.roots[root];
        let stages = self.kernel.stages.ids().filter(|s| s != id && !self.plan.inlined[s.index()]);
        stages.filter_map(|s| Some((s, follows[s.index()].clone()?))).collect()
    }

    fn points(&self, id: StageId, axes: impl Iterator<Item = usize>) -> i64 {
        let stage = &self.kernel.stages[id];
        axes.map(|a| extent(self.kernel, stage, a)).fold(1, i64::saturating_mul)
    }

    fn reduced(&self, id: StageId) -> i64 {
        self.points(id, self.kernel.stages[id].reduce_axes().map(|(n, _)| n))
    }

    /// Whether points of a root share what they need, or there are few of them that take long, or, if that `streams`, long ones read
    /// a matrix once.
    fn is_worthwhile(&self, machine: &GpuMachine, streams: bool) -> bool {
        (0..self.roots.len()).any(|n| {
            let Root { stage: root, blocks, .. } = &self.roots[n];
            let stage = &self.kernel.stages[*root];
            let all = self.points(*root, 0..stage.axes.len());
            self.producers(n).iter().any(|(id, _)| {
                let shares = (0..stage.axes.len()).any(|a| !blocks.contains(&a) && !stage.axes[a].extent.is_const(1));
                self.kernel.stages[*id].reducer.is_some()
                    && (shares
                        || (all < machine.busy_threads && self.reduced(*id) >= LONG)
                        || (streams
                            && self.reduced(*id) >= STREAMED
                            && self.tile(n, machine).is_some_and(|tile| tile.is_streamed)))
            })
        })
    }

    /// Whether a sum is so long that it takes more threads to read what it is of fast enough.
    fn is_long(&self) -> bool {
        let mut needed = (0..self.roots.len()).flat_map(|n| self.producers(n));
        needed.any(|(id, _)| self.kernel.stages[id].reducer.is_some() && self.reduced(id) >= VERY_LONG)
    }

    /// Gives every root a tile for which that is worthwhile.
    fn find_tiles(&mut self, machine: &GpuMachine) {
        for n in 0..self.roots.len() {
            self.roots[n].tile = self.tile(n, machine);
        }
    }

    /// The axis over blocks along which lie neighbours of what a root's reductions read, with so many of its points as are
    /// transferred together, or more if there are blocks enough.
    fn tile(&self, root: usize, machine: &GpuMachine) -> Option<Tile> {
        let Root { stage, blocks, .. } = &self.roots[root];
        // What is read, in bytes, by the axis of blocks along which it lies.
        let mut read: Vec<(Option<usize>, i64, i64, bool)> = Vec::new();
        for (id, follow) in self.producers(root) {
            let own = &self.kernel.stages[id];
            for access in self.reads[id.index()].iter().filter(|access| access.stage.is_none()) {
                let moves = |axis: &usize| access.steps[*axis] != Movement::Zero;
                let is_one = |axis: usize| access.steps[axis] == Movement::One;
                if !own.reduce_axes().any(|(n, _)| moves(&n)) {
                    continue;
                }
                let mut across = own.value_axes().zip(&follow).filter(|((n, _), _)| is_one(*n));
                let along = across.next().and_then(|(_, follow)| *follow).filter(|axis| blocks.contains(axis));
                let bytes = access.elem_bytes as i64;
                let all = self.points(id, (0..own.axes.len()).filter(moves)).saturating_mul(bytes);
                // No more elements than there are: windows that overlap read some again.
                let len = access.operand.and_then(|id| self.kernel.operands[id].layout.len_elems.as_const());
                let is_streamed = own.value_axes().all(|(n, axis)| moves(&n) || axis.extent.is_const(1))
                    && len.is_some_and(|len| all <= len.saturating_mul(bytes));
                read.push((along, all, bytes, is_streamed));
            }
        }
        let &(along, _, bytes, is_streamed) = read.iter().max_by_key(|(_, all, ..)| *all)?;
        let (axis, bytes) = (along?, bytes.max(1));
        let (least, most) = (PIECE.start() / bytes, PIECE.end() / bytes);
        let other = self.points(*stage, blocks.iter().copied().filter(|&a| a != axis));
        let own = extent(self.kernel, &self.kernel.stages[*stage], axis);
        let blocks_of = |points: i64| ((own + points - 1) / points).saturating_mul(other);
        let sizes = std::iter::successors(Some(most), |points| Some(points / 2)).take_while(|&points| points >= least);
        let points = sizes.clone().find(|&points| blocks_of(points) >= machine.busy_blocks).or(sizes.last())?;
        (points > 1 && own > 1).then_some(Tile { axis, points, is_streamed })
    }

    /// Points of a stage's axis that a block computes, if it is one of those that `inside` gives.
    fn points_inside(&self, root: usize, id: StageId, follow: &Follow, axis: usize) -> i64 {
        let stage = &self.kernel.stages[id];
        let root_axis = stage.value_axes().zip(follow).find(|((n, _), _)| *n == axis).and_then(|(_, follow)| *follow);
        match self.roots[root].tile.filter(|tile| root_axis == Some(tile.axis)) {
            Some(tile) => tile.points,
            None => extent(self.kernel, stage, axis),
        }
    }

    /// How many rows side by side a reduction reads as one vector: of what moves along them all do.
    fn vector(&self, root: usize, id: StageId, follow: &Follow) -> i64 {
        let Some(tile) = self.roots[root].tile else { return 1 };
        let stage = &self.kernel.stages[id];
        let axis = stage.value_axes().zip(follow).find(|(_, f)| **f == Some(tile.axis)).map(|((n, _), _)| n);
        let Some(axis) = axis else { return 1 };
        let loads =
            || stage.body.ops.iter().filter_map(|op| if let ScalarOp::Load(load) = op { Some(load) } else { None });
        let moves = |load: &&Load| load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
        let fits = |&points: &i64| {
            tile.points % points == 0
                && loads().any(|load| moves(&load))
                && loads().filter(moves).all(|load| has_pieces(self.kernel, id, load, axis, [points, tile.points]))
        };
        [VECTOR, VECTOR / 2].into_iter().find(fits).unwrap_or(1)
    }

    /// Reductions with fewer points than threads: name, reduced axis, number of parts, rows of a thread.
    fn to_split(&self, machine: &GpuMachine, allowed: ErrorClass) -> Vec<(String, usize, i64, i64)> {
        let mut found: Vec<(String, usize, i64, i64)> = Vec::new();
        for n in 0..self.roots.len() {
            for (id, follow) in self.producers(n) {
                let stage = &self.kernel.stages[id];
                let Some(reducer) = &stage.reducer else { continue };
                if !(allowed >= ErrorClass::Reassociating || reducer.is_associative()) {
                    continue;
                }
                let Some((axis, _)) = stage.reduce_axes().max_by_key(|(a, _)| extent(self.kernel, stage, *a)) else {
                    continue;
                };
                let inside = self.inside(n, id, &follow).into_iter();
                let vector = self.vector(n, id, &follow);
                let values = inside.map(|axis| self.points_inside(n, id, &follow, axis)).product::<i64>().max(1);
                let room = machine.threads / (values / vector).min(machine.threads).max(1);
                // The largest power of two that leaves no thread without work.
                let most = extent(self.kernel, stage, axis).clamp(1, room).ilog2();
                let parts = 1i64 << most;
                if parts >= 8 && found.iter().all(|(name, ..)| *name != stage.name) {
                    found.push((stage.name.clone(), axis, parts, vector));
                }
            }
        }
        found
    }

    /// The value axes of a stage that a block computes more than one point of.
    fn inside(&self, root: usize, id: StageId, follow: &Follow) -> Vec<usize> {
        let Root { blocks, tile, .. } = &self.roots[root];
        let is_apart = |f: usize| blocks.contains(&f) && tile.is_none_or(|tile| tile.axis != f);
        let stage = &self.kernel.stages[id];
        let axes = stage.value_axes().zip(follow);
        axes.filter(|(_, f)| !f.is_some_and(is_apart)).map(|((n, _), _)| n).collect()
    }

    fn schedule(mut self, machine: &GpuMachine) -> Option<Schedule> {
        for n in 0..self.roots.len() {
            let Root { stage: root, blocks, tile, .. } = &self.roots[n];
            let (root, blocks, tile) = (*root, blocks.clone(), *tile);
            let stage = &self.kernel.stages[root];
            let name = |axis: usize| stage.axes[axis].name.clone();
            let mut order: Vec<String> = blocks.iter().map(|&a| name(a)).collect();
            let rest = (0..stage.axes.len()).filter(|a| !blocks.contains(a));
            let mut rest: Vec<(usize, String, i64)> =
                rest.map(|a| (a, name(a), extent(self.kernel, stage, a))).collect();
            if let Some(Tile { axis, points, .. }) = tile {
                let (outer, inner) = (format!("{}_b", name(axis)), format!("{}_i", name(axis)));
                self.plan.split(root, &name(axis), points, &outer, &inner);
                order.iter_mut().filter(|n| **n == name(axis)).for_each(|n| n.clone_from(&outer));
                rest.push((axis, inner, points));
            }
            let threads = if rest.is_empty() {
                // One thread writes what all have computed.
                let last = *blocks.last()?;
                let only = format!("{}_t", name(last));
                let outer = format!("{}_b", name(last));
                self.plan.split(root, &name(last), 1, &outer, &only);
                *order.last_mut()? = outer;
                vec![only]
            } else {
                self.spread(root, &rest, contiguous(self.kernel, root), machine, &mut order)
            };
            let at = blocks.len().checked_sub(1).map(|n| order[n].clone());
            for name in &order[..blocks.len()] {
                self.plan.bind(root, name, GpuDim::BlockX);
            }
            order.extend(threads.iter().cloned());
            self.plan.reorder(root, order);
            threads.iter().for_each(|t| self.plan.bind(root, t, GpuDim::ThreadX));
            for (id, follow) in self.producers(n) {
                self.producer(n, id, &follow, at.as_deref(), machine);
            }
        }
        Some(self.plan.schedule())
    }

    /// Cuts loops of a stage (the number of their axis, their name, and their points) into those over turns and those over
    /// threads; the former are added to the order, the latter given.
    fn spread(
        &mut self,
        id: StageId,
        loops: &[(usize, String, i64)],
        innermost: Option<usize>,
        machine: &GpuMachine,
        order: &mut Vec<String>,
    ) -> Vec<String> {
        let wanted: Vec<(usize, i64)> = loops.iter().map(|&(axis, _, points)| (axis, points)).collect();
        let mut threads = Vec::new();
        for (axis, factor) in share(&wanted, innermost, machine.threads) {
            let Some((_, from, _)) = loops.iter().find(|(own, ..)| *own == axis) else { continue };
            let name = &self.kernel.stages[id].axes[axis].name;
            let (turn, thread) = (format!("{name}_u"), format!("{name}_t"));
            self.plan.split(id, from, factor, &turn, &thread);
            order.push(turn);
            threads.push(thread);
        }
        threads
    }

    fn producer(&mut self, root: usize, id: StageId, follow: &Follow, at: Option<&str>, machine: &GpuMachine) {
        let stage = &self.kernel.stages[id];
        if self.vectors.iter().any(|(sum, ..)| *sum == stage.name) {
            // Where it is copied.
            return;
        }
        let of_vector = self.vectors.iter().find(|(_, whole, _)| *whole == stage.name);
        let vector = of_vector.map(|(sum, _, vector)| (sum.clone(), *vector));
        let inside = self.inside(root, id, follow);
        let scope = if inside.is_empty() { Scope::Register } else { Scope::Shared };
        match at {
            Some(at) => self.plan.compute_at(id, self.roots[root].stage, at, scope),
            None => self.plan.steps.push(Step::StoreIn { stage: stage.name.clone(), scope }),
        }
        let outside = stage.value_axes().filter(|(n, _)| !inside.contains(n)).map(|(_, a)| a.name.clone());
        let mut order: Vec<String> = outside.collect();
        if !inside.is_empty() {
            let loops = inside
                .iter()
                .map(|&axis| (axis, stage.axes[axis].name.clone(), self.points_inside(root, id, follow, axis)));
            let mut loops: Vec<(usize, String, i64)> = loops.collect();
            // Threads side by side have the rows that are.
            let tile = self.roots[root].tile.map(|tile| tile.axis);
            let innermost = stage.value_axes().zip(follow).find(|(_, f)| tile.is_some() && **f == tile);
            let innermost = innermost.map(|((n, _), _)| n);
            let mut own = None;
            if let Some((_, points)) = vector
                && let Some((_, name, all)) = loops.iter_mut().find(|(axis, ..)| Some(*axis) == innermost)
            {
                let (vectors, inner) = (format!("{name}_n"), format!("{name}_v"));
                self.plan.split(id, name, points, &vectors, &inner);
                (*name, *all) = (vectors, *all / points);
                own = Some(inner);
            }
            let threads = self.spread(id, &loops, innermost, machine, &mut order);
            order.extend(threads.iter().cloned());
            threads.iter().for_each(|t| self.plan.bind(id, t, GpuDim::ThreadX));
            if let (Some(own), Some((sum, points)), Some(at)) = (own, vector, threads.last()) {
                self.sum_in_registers(id, (&sum, points), at, innermost);
                order.push(own.clone());
                self.plan.reorder(id, order);
                self.plan.steps.push(Step::Unroll { stage: self.plan.name(id), axis: own });
                return;
            }
        }
        self.plan.fold(id, order);
    }

    /// What a thread sums of so many neighbouring rows, in front of what it is copied to.
    fn sum_in_registers(&mut self, id: StageId, (sum, points): (&str, i64), at: &str, rows: Option<usize>) {
        let (Some(sum), Some(rows)) = (find(self.kernel, sum), rows) else { return };
        let stage = &self.kernel.stages[sum];
        self.plan.compute_at(sum, id, at, Scope::Register);
        let row = stage.axes[rows].name.clone();
        let (vectors, own) = (format!("{row}_n"), format!("{row}_v"));
        self.plan.split(sum, &row, points, &vectors, &own);
        let others = stage.value_axes().filter(|(n, _)| *n != rows).map(|(_, axis)| axis.name.clone());
        let moves = |load: &Load| load.index.iter().any(|e| e.uses_var(VarId::from_index(rows)));
        let loads =
            stage.body.ops.iter().filter_map(|op| if let ScalarOp::Load(load) = op { Some(load) } else { None });
        let elem_bytes = loads.filter(|load| moves(load)).filter_map(|load| load.dtype.size_bytes()).max().unwrap_or(4);
        let terms = UNDER_WAY_BYTES / (points * elem_bytes as i64).max(1);
        self.plan.fold_together(sum, others.chain([vectors]).collect(), terms.max(TOGETHER));
        // Behind what is folded: every load is one of all of them.
        let order = self.plan.steps.iter_mut().rev().find_map(|step| match step {
            Step::Reorder { order, .. } => Some(order),
            _ => None,
        });
        order.into_iter().for_each(|order| order.push(own.clone()));
        self.plan.steps.push(Step::Vectorize { stage: self.plan.name(sum), axis: own });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(text: &str) -> String {
        let kernel: Kernel = text.parse().unwrap_or_else(|error| panic!("{error}"));
        let schedule = attempt(&kernel, &GpuMachine::default(), ErrorClass::Reassociating, true).expect("rows");
        assert!(crate::schedule::apply(&kernel, &schedule).is_ok(), "{schedule}");
        schedule.to_string()
    }

    /// Of neighbouring columns a thread has some, sums them in registers, and reads all of a row of a panel as one vector; of
    /// columns that do not lie in aligned pieces, one.
    #[test]
    fn columns_of_a_thread() {
        let product = |shape: &str, place: &str| {
            format!(
                "kernel @k(x: f16[1, 2048], const w: f16[{shape}]) -> (y: f32[1, 1024]) {{
  stage s[n: 1024, reduce k: 2048] = fold sum f32(x[0, k]) * f32(w[{place}])
  stage o[n] = s[n]
  output y[0, n] = o[n]
}}
"
            )
        };
        let panels = chosen(&product("16, 2048, 64", "div(n, 64), k, mod(n, 64)"));
        assert!(
            panels.contains("rfactor s_parts.k by 1 -> s_parts_parts") && panels.contains("in register"),
            "{panels}"
        );
        assert!(panels.contains("vectorize s_parts_parts.n_v"), "{panels}");
        let odd = chosen(&product("2048, 1025", "k, n"));
        assert!(!odd.contains("vectorize"), "{odd}");
    }

    /// The last columns may be fewer than those of a vector, if the panel has the others.
    #[test]
    fn columns_that_end_within_a_panel() {
        let product = |panels: i64| {
            format!(
                "kernel @k(x: f16[1, 2048], const w: f16[{panels}, 2048, 64]) -> (y: f32[1, 1025]) {{
  stage s[n: 1025, reduce k: 2048] = fold sum f32(x[0, k]) * f32(w[div(n, 64), k, mod(n, 64)])
  stage o[n] = s[n]
  output y[0, n] = o[n]
}}
"
            )
        };
        let panels = chosen(&product(17));
        assert!(panels.contains("vectorize s_parts_parts.n_v"), "{panels}");
        // As many halves as floats are 128 bytes.
        assert!(panels.contains("split s_parts_parts.k by 16"), "{panels}");
    }

    /// A large matrix that is read once is read by all threads of blocks, though each column could have a thread to itself; one
    /// that is read for several rows is not.
    #[test]
    fn many_columns() {
        let product = |rows: i64, depth: i64| -> Kernel {
            let text = format!(
                "kernel @k(x: f16[{rows}, {depth}], const w: f16[800, {depth}, 64]) -> (y: f32[{rows}, 51200]) {{
  stage s[m: {rows}, n: 51200, reduce k: {depth}] = fold sum f32(x[m, k]) * f32(w[div(n, 64), k, mod(n, 64)])
  stage o[m, n] = s[m, n]
  output y[m, n] = o[m, n]
}}
"
            );
            text.parse().unwrap_or_else(|error| panic!("{error}"))
        };
        let suits = |rows, depth| {
            attempt(&product(rows, depth), &GpuMachine::default(), ErrorClass::Reassociating, true).is_some()
        };
        assert_eq!([suits(1, 768), suits(1, 128), suits(2, 768)], [true, false, false]);
    }
}
