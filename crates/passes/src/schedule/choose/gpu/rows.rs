//! A block computes a row of the result with all of its threads: first the reductions that the row needs, in shared
//! memory, then the row.

use super::super::access::{accesses, extent};
use super::follow::{Follow, follow};
use super::points::{contiguous, give_axis, share};
use super::{GpuMachine, Plan, independent_roots, rewrite};
use crate::ErrorClass;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::schedule::{GpuDim, Schedule, Scope, Step};

/// Points of a sum from which on it is worth to be done by several threads.
const LONG: i64 = 64;
/// Partial results that one thread folds; of more, threads fold parts first.
const FEW: i64 = 32;

pub(super) fn candidate(kernel: &Kernel, machine: &GpuMachine, allowed: ErrorClass) -> Option<(Kernel, Schedule)> {
    let roots = independent_roots(kernel)?;
    let mut kernel = kernel.clone();
    roots.iter().for_each(|&root| give_axis(&mut kernel, root));
    let rows = Rows::of(&kernel)?;
    if !rows.is_worthwhile(machine) {
        return None;
    }
    let reductions = rows.to_split(machine, allowed);
    for (name, axis, parts) in reductions {
        let id = kernel.stages.iter_enumerated().find(|(_, s)| s.name == name)?.0;
        rewrite::in_parts(&mut kernel, id, axis, parts);
        if parts > FEW {
            // The sum of the parts is folded in two as well.
            let folded = StageId::from_index(id.index() + 1);
            let part = kernel.stages[folded].axes.len() - 1;
            rewrite::in_parts(&mut kernel, folded, part, parts / 16);
        }
    }
    let schedule = Rows::of(&kernel)?.schedule(machine)?;
    Some((kernel, schedule))
}

struct Rows<'k> {
    kernel: &'k Kernel,
    plan: Plan<'k>,
    /// Per root: what it needs of every stage, and the axes that go over blocks.
    roots: Vec<(StageId, Vec<Option<Follow>>, Vec<usize>)>,
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
            roots.push((root, follows, blocks));
        }
        let mut this = Self { kernel, plan, roots };
        let shared = kernel.stages.ids().any(|id| this.readers(id) > 1);
        if shared || this.roots.iter().any(|(.., blocks)| blocks.is_empty()) {
            // What several roots read is computed once, in front of them all, in the only block; and beside a root that is
            // not spread over blocks none is, since all blocks would compute it.
            this.roots.iter_mut().for_each(|(.., blocks)| blocks.clear());
        }
        Some(this)
    }

    /// How many roots need a stored stage.
    fn readers(&self, id: StageId) -> usize {
        let reads = |(root, follows, _): &&(StageId, Vec<Option<Follow>>, Vec<usize>)| {
            *root != id && !self.plan.inlined[id.index()] && follows[id.index()].is_some()
        };
        self.roots.iter().filter(reads).count()
    }

    /// The stored stages that a root needs.
    fn producers(&self, root: usize) -> Vec<(StageId, Follow)> {
        let (id, follows, _) = &self.roots[root];
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

    /// Whether points of a root share what they need, or there are few of them that take long.
    fn is_worthwhile(&self, machine: &GpuMachine) -> bool {
        (0..self.roots.len()).any(|n| {
            let (root, _, blocks) = &self.roots[n];
            let stage = &self.kernel.stages[*root];
            let all = self.points(*root, 0..stage.axes.len());
            self.producers(n).iter().any(|(id, _)| {
                let shares = (0..stage.axes.len()).any(|a| !blocks.contains(&a) && !stage.axes[a].extent.is_const(1));
                self.kernel.stages[*id].reducer.is_some()
                    && (shares || (all < machine.busy_threads && self.reduced(*id) >= LONG))
            })
        })
    }

    /// Reductions with fewer points than threads: name, reduced axis, number of parts.
    fn to_split(&self, machine: &GpuMachine, allowed: ErrorClass) -> Vec<(String, usize, i64)> {
        let mut found: Vec<(String, usize, i64)> = Vec::new();
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
                let inside = self.inside(n, id, &follow);
                let values = self.points(id, inside.into_iter()).max(1);
                let room = machine.threads / values.min(machine.threads);
                // The largest power of two that leaves no thread without work.
                let most = extent(self.kernel, stage, axis).clamp(1, room).ilog2();
                let parts = 1i64 << most;
                if parts >= 8 && found.iter().all(|(name, ..)| *name != stage.name) {
                    found.push((stage.name.clone(), axis, parts));
                }
            }
        }
        found
    }

    /// The value axes of a stage that a block computes more than one point of.
    fn inside(&self, root: usize, id: StageId, follow: &Follow) -> Vec<usize> {
        let blocks = &self.roots[root].2;
        let stage = &self.kernel.stages[id];
        let axes = stage.value_axes().zip(follow);
        axes.filter(|(_, f)| !f.is_some_and(|f| blocks.contains(&f))).map(|((n, _), _)| n).collect()
    }

    fn schedule(mut self, machine: &GpuMachine) -> Option<Schedule> {
        for n in 0..self.roots.len() {
            let (root, _, blocks) = self.roots[n].clone();
            let stage = &self.kernel.stages[root];
            let name = |axis: usize| stage.axes[axis].name.clone();
            let mut order: Vec<String> = blocks.iter().map(|&a| name(a)).collect();
            let rest: Vec<usize> = (0..stage.axes.len()).filter(|a| !blocks.contains(a)).collect();
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

    /// Loops over turns and threads for axes of a stage; those over turns are added to the order, those over threads given.
    fn spread(
        &mut self,
        id: StageId,
        axes: &[usize],
        innermost: Option<usize>,
        machine: &GpuMachine,
        order: &mut Vec<String>,
    ) -> Vec<String> {
        let stage = &self.kernel.stages[id];
        let wanted: Vec<(usize, i64)> = axes.iter().map(|&a| (a, extent(self.kernel, stage, a))).collect();
        let mut threads = Vec::new();
        for (axis, factor) in share(&wanted, innermost, machine.threads) {
            let name = &stage.axes[axis].name;
            let (turn, thread) = (format!("{name}_u"), format!("{name}_t"));
            self.plan.split(id, name, factor, &turn, &thread);
            order.push(turn);
            threads.push(thread);
        }
        threads
    }

    fn producer(&mut self, root: usize, id: StageId, follow: &Follow, at: Option<&str>, machine: &GpuMachine) {
        let stage = &self.kernel.stages[id];
        let inside = self.inside(root, id, follow);
        let scope = if inside.is_empty() { Scope::Register } else { Scope::Shared };
        match at {
            Some(at) => self.plan.compute_at(id, self.roots[root].0, at, scope),
            None => self.plan.steps.push(Step::StoreIn { stage: stage.name.clone(), scope }),
        }
        let outside = stage.value_axes().filter(|(n, _)| !inside.contains(n)).map(|(_, a)| a.name.clone());
        let mut order: Vec<String> = outside.collect();
        let reduced: Vec<String> = stage.reduce_axes().map(|(_, a)| a.name.clone()).collect();
        if !inside.is_empty() {
            let threads = self.spread(id, &inside, None, machine, &mut order);
            order.extend(threads.iter().cloned());
            threads.iter().for_each(|t| self.plan.bind(id, t, GpuDim::ThreadX));
        }
        order.extend(reduced);
        self.plan.reorder(id, order);
    }
}
