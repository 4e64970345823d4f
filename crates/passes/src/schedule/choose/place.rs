//! Where stages are computed, in which order loops run, and what runs in parallel.

use super::access::{Access, Step, accesses, cost, extent, step};
use super::block::Blocks;
use super::dot;
use super::machine::Machine;
use super::strip::{self, Strip};
use super::tile::{self, Tile, View};
use crate::ErrorClass;
use crate::schedule::plan::reads_neighbours;
use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::kernel::{AxisKind, Kernel};
use infc_ir::schedule::{Intrinsic, Schedule, Scope, Step as ScheduleStep};
use std::collections::BTreeSet;
use std::ops::Range;

/// Chunks that suffice to keep many cores busy evenly.
const ENOUGH_CHUNKS: i64 = 64;
/// Work below which a chunk is not worth handing out, in vector operations.
const LEAST_CHUNK: f64 = 2000.0;
/// Operations per point from which on a stage that is needed again and again is stored.
const STORED_COST: f64 = 8.0;
/// Multiply-adds in one innermost body beyond which unrolling no longer pays.
const BODY_LIMIT: i64 = 64;

pub(super) struct Chooser<'a> {
    pub(super) kernel: &'a Kernel,
    pub(super) machine: &'a Machine,
    allowed: ErrorClass,
    pub(super) inlined: Vec<bool>,
    /// See [`Kernel::recurrences`].
    runs: Vec<Range<usize>>,
    pub(super) accesses: Vec<Vec<Access>>,
    /// Per stage, the axis that dot products sum.
    dots: Vec<Option<usize>>,
    pub(super) steps: Vec<ScheduleStep>,
    /// What the stages with tiles of their own take, by the model of [`tile`].
    cycles: f64,
}

/// The loops of a stage by role.
#[derive(Default)]
pub(super) struct Loops {
    /// Over tiles, from outermost to innermost, with the axis.
    pub(super) outer: Vec<(String, usize)>,
    /// Inside a tile: rows, then vectors, then lanes.
    pub(super) inner: Vec<String>,
    /// Rows of a turn of the first outer loop, if that is over strips.
    strip_rows: Option<i64>,
}

impl<'a> Chooser<'a> {
    pub(super) fn new(kernel: &'a Kernel, machine: &'a Machine, allowed: ErrorClass) -> Self {
        let inlined = Self::inlined(kernel);
        let accesses = kernel.stages.ids().map(|id| accesses(kernel, id, &inlined)).collect();
        let dots = kernel.stages.iter().map(|stage| dot::axis(kernel, stage)).collect();
        Self {
            kernel,
            machine,
            allowed,
            inlined,
            runs: kernel.recurrences(),
            accesses,
            dots,
            steps: Vec::new(),
            cycles: 0.0,
        }
    }

    /// The schedule, and an estimate of the cycles that it takes.
    pub(super) fn run(mut self) -> (Schedule, f64) {
        for id in self.kernel.stages.ids() {
            if self.inlined[id.index()] {
                let stage = self.name(id);
                self.steps.push(ScheduleStep::Inline { stage });
            }
        }
        let outputs: BTreeSet<StageId> = self.kernel.outputs.iter().map(|o| o.stage).collect();
        // The last stage of a recurrence computes the others.
        let is_root = |root: &StageId| self.run_of(*root).is_none_or(|run| run.end == root.index() + 1);
        let roots: Vec<StageId> = outputs.iter().copied().filter(is_root).collect();
        for &root in &roots {
            match Blocks::of(&self, root) {
                Some(blocks) => blocks.schedule(&mut self),
                None => self.root(root),
            }
        }
        // A stage that runs as a whole sees what came before it, so nothing beside it is in chunks of its own.
        let is_parallel = |root: &StageId| {
            let name = &self.kernel.stages[*root].name;
            self.steps.iter().any(|s| matches!(s, ScheduleStep::Parallel { stage, .. } if stage == name))
        };
        if !roots.iter().all(is_parallel) {
            self.steps.retain(|s| !matches!(s, ScheduleStep::Parallel { .. }));
        }
        (Schedule { steps: self.steps }, self.cycles)
    }

    /// The recurrence that a stage belongs to.
    fn run_of(&self, id: StageId) -> Option<&Range<usize>> {
        self.runs.iter().find(|run| run.contains(&id.index()))
    }

    pub(super) fn name(&self, id: StageId) -> String {
        self.kernel.stages[id].name.clone()
    }

    /// Stages without a reduction that are cheap, or read once; but not what a sum would compute again for points that
    /// only its other operand tells apart.
    pub(super) fn inlined(kernel: &Kernel) -> Vec<bool> {
        let mut reads = vec![0usize; kernel.stages.len()];
        let mut self_reads = vec![false; kernel.stages.len()];
        let mut gathered = vec![false; kernel.stages.len()];
        let mut repeated = vec![false; kernel.stages.len()];
        for (id, stage) in kernel.stages.iter_enumerated() {
            stage.for_each_load(&mut |_, load| {
                if let infc_ir::scalar::Source::Stage(source, _) = load.source {
                    reads[source.index()] += 1;
                    self_reads[source.index()] |= source == id;
                    gathered[source.index()] |= !load.gather.is_empty();
                    let uses = |axis: usize| load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
                    repeated[source.index()] |=
                        stage.reducer.is_some() && stage.value_axes().any(|(axis, _)| !uses(axis));
                }
            });
        }
        kernel
            .stages
            .iter_enumerated()
            .map(|(id, stage)| {
                let output = kernel.outputs.iter().any(|o| o.stage == id);
                let plain = stage.reducer.is_none() && !self_reads[id.index()] && !gathered[id.index()];
                let sequential = stage.axes.iter().any(|a| a.kind == AxisKind::Sequential);
                let worth_storing = repeated[id.index()] && cost(stage) > STORED_COST;
                let cheap = cost(stage) <= 2.0 || (reads[id.index()] <= 1 && !worth_storing);
                plain && !output && !sequential && cheap
            })
            .collect()
    }

    /// The stages that `root` reads, directly or through others, that have storage; in dependency order.
    pub(super) fn producers(&self, root: StageId) -> Vec<StageId> {
        let mut needed = vec![false; self.kernel.stages.len()];
        needed[root.index()] = true;
        for id in self.kernel.stages.ids().rev() {
            if needed[id.index()] {
                for source in self.accesses[id.index()].iter().filter_map(|a| a.stage) {
                    needed[source.index()] = true;
                }
            }
        }
        let outputs: Vec<StageId> = self.kernel.outputs.iter().map(|o| o.stage).collect();
        let run = self.run_of(root);
        let producer = |id: StageId| {
            let together = run.is_some_and(|run| run.contains(&id.index()) && !self.inlined[id.index()]);
            id != root && (together || (needed[id.index()] && !outputs.contains(&id)))
        };
        self.kernel.stages.ids().filter(|&id| producer(id)).collect()
    }

    /// For each axis of `root`, whether the part of `stage` that a point needs moves with it; `None` if that part is
    /// not a plain box of coordinates.
    fn depends(
        &self,
        root: StageId,
        stage: StageId,
        memo: &mut Vec<Option<Option<Vec<Option<usize>>>>>,
    ) -> Option<Vec<Option<usize>>> {
        if let Some(known) = &memo[stage.index()] {
            return known.clone();
        }
        // Per value axis of `stage`: the axis of `root` it follows, or `None` for all of it.
        let rank = self.kernel.stages[stage].value_axes().count();
        let mut result: Option<Vec<Option<usize>>> = None;
        let mut possible = true;
        for reader in self.kernel.stages.ids().filter(|&r| r > stage && !self.inlined[r.index()]) {
            for access in self.accesses[reader.index()].iter().filter(|a| a.stage == Some(stage)) {
                let through: Vec<Option<usize>> = if reader == root {
                    access.axes.clone()
                } else {
                    let Some(outer) = self.depends(root, reader, memo) else { continue };
                    let reader_stage = &self.kernel.stages[reader];
                    let value: Vec<usize> = reader_stage.value_axes().map(|(n, _)| n).collect();
                    let follow = |axis: usize| value.iter().position(|&v| v == axis).and_then(|p| outer[p]);
                    access.axes.iter().map(|a| a.and_then(follow)).collect()
                };
                match &mut result {
                    None => result = Some(through),
                    Some(r) => {
                        for (a, b) in r.iter_mut().zip(through) {
                            if *a != b {
                                *a = None;
                            }
                        }
                    }
                }
            }
        }
        if result.as_ref().is_some_and(|r| r.len() != rank) {
            possible = false;
        }
        let axes: Vec<usize> = self.kernel.stages[stage].value_axes().map(|(n, _)| n).collect();
        if let Some(follow) = &mut result {
            for (position, axis) in axes.into_iter().enumerate() {
                if reads_neighbours(self.kernel, stage, VarId::from_index(axis)) {
                    follow[position] = None;
                }
            }
        }
        let answer = if possible { result } else { None };
        memo[stage.index()] = Some(answer.clone());
        answer
    }

    // --------------------------------------------------------------------------------------------------- tiles --

    pub(super) fn view<'v>(&'v self, id: StageId, store: Option<Vec<Step>>, extents: Vec<i64>) -> View<'v> {
        let stage = &self.kernel.stages[id];
        let loads = self.accesses[id.index()].iter().map(|a| a.elem_bytes);
        let own = stage.dtypes().into_iter().map(|d| d.size_bytes().unwrap_or(1));
        let elem_bytes = if stage.reducer.is_some() { own.max() } else { loads.chain(own).max() }.unwrap_or(4);
        // Vectors of bytes would be as wide as 64 elements; computing in 32 bits sets the width.
        let elem_bytes = elem_bytes.max(4);
        let reorders = self.allowed >= ErrorClass::Reassociating
            || stage.reducer.as_ref().is_none_or(infc_ir::kernel::Reducer::is_associative);
        let points_at_once = self.points_at_once(id);
        let accesses = &self.accesses[id.index()];
        View { stage, accesses, store_steps: store, extents, elem_bytes, reorders, points_at_once }
    }

    /// Reduction points that one operation folds per lane.
    pub(super) fn points_at_once(&self, id: StageId) -> i64 {
        if self.dots[id.index()].is_some() { dot::POINTS } else { 1 }
    }

    /// The cheapest tile of a stage; counts what it takes.
    fn tile(&mut self, id: StageId, store: Option<Vec<Step>>, extents: Vec<i64>) -> Tile {
        let (tile, cycles) = tile::choose(&self.view(id, store, extents), self.machine);
        self.cycles += cycles;
        tile
    }

    /// The extents of all axes of a stage, with guesses for symbolic ones.
    pub(super) fn extents(&self, id: StageId) -> Vec<i64> {
        let stage = &self.kernel.stages[id];
        (0..stage.axes.len()).map(|a| extent(self.kernel, stage, a)).collect()
    }

    pub(super) fn store_steps(&self, id: StageId) -> Vec<Step> {
        let stage = &self.kernel.stages[id];
        let output = self.kernel.outputs.iter().find(|o| o.stage == id);
        let flat = match output {
            Some(o) => self.kernel.operands[o.operand].layout.flat(&o.index),
            None => infc_ir::kernel::Layout::dense(&stage.value_shape()).flat(
                &stage
                    .value_axes()
                    .map(|(n, _)| infc_ir::index::IndexExpr::var(VarId::from_index(n)))
                    .collect::<Vec<_>>(),
            ),
        };
        let flat = flat.simplify(&stage.ranges(&self.kernel.symbols));
        (0..stage.axes.len()).map(|a| step(self.kernel, stage, &flat, a)).collect()
    }

    /// Splits a stage's loops by its tile and gives them by role. Reduction loops are not among them.
    pub(super) fn split(&mut self, id: StageId, tile: &Tile) -> Loops {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let mut loops = Loops::default();
        let mut vectors = Vec::new();
        for (axis, a) in stage.axes.iter().enumerate() {
            if a.kind == AxisKind::Reduce {
                continue;
            }
            let points = a.extent.as_const();
            let mut outer = a.name.clone();
            if tile.vector_axis == Some(axis) {
                let (o, u, l) = (format!("{}_o", a.name), format!("{}_u", a.name), format!("{}_l", a.name));
                let vector = format!("{}_v", a.name);
                if tile.vectors > 1 {
                    self.split_step(&name, &a.name, tile.lanes * tile.vectors, &o, &u);
                    self.split_step(&name, &u, tile.lanes, &vector, &l);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: vector.clone() });
                    vectors.push(vector);
                } else {
                    self.split_step(&name, &a.name, tile.lanes, &o, &l);
                }
                vectors.push(l);
                outer = o;
            } else if let Some(&(_, n)) = tile.rows.iter().find(|&&(r, _)| r == axis) {
                let (o, i) = (format!("{}_o", a.name), format!("{}_i", a.name));
                if points == Some(n) {
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: a.name.clone() });
                    loops.inner.push(a.name.clone());
                    continue;
                }
                self.split_step(&name, &a.name, n, &o, &i);
                self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: i.clone() });
                loops.inner.push(i);
                outer = o;
            }
            loops.outer.push((outer, axis));
        }
        loops.inner.extend(vectors);
        loops
    }

    pub(super) fn split_step(&mut self, stage: &str, axis: &str, factor: i64, outer: &str, inner: &str) {
        self.steps.push(ScheduleStep::Split {
            stage: stage.to_owned(),
            axis: axis.to_owned(),
            factor: u32::try_from(factor).unwrap_or(1),
            outer: outer.to_owned(),
            inner: inner.to_owned(),
        });
    }

    /// Reduction loops: the innermost short ones unrolled, long ones unrolled in part where the tile is small.
    pub(super) fn reduction_loops(&mut self, id: StageId, tile: &Tile) -> (Vec<String>, Vec<String>) {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let rows: i64 = tile.rows.iter().map(|&(_, n)| n).product();
        let mut body = (rows * tile.vectors).max(1);
        let mut order: Vec<String> = Vec::new();
        let mut lanes = Vec::new();
        // Loads that differ for every accumulator are operands of the arithmetic. Unrolled, neighbouring points would
        // share them, which costs more registers than it saves loads.
        let own_loads = tile.vector_axis.is_some_and(|v| {
            self.accesses[id.index()]
                .iter()
                .any(|a| a.steps[v] != Step::Zero && tile.rows.iter().any(|&(r, _)| a.steps[r] != Step::Zero))
        });
        let registers = i64::from(self.machine.vector_registers);
        let mut unrolling = !own_loads || tile.slides || body * 4 <= registers;
        let axes: Vec<usize> = stage.reduce_axes().map(|(n, _)| n).collect();
        for &axis in axes.iter().rev() {
            let a = &stage.axes[axis];
            if tile.vector_axis == Some(axis) {
                let (o, u, l) = (format!("{}_o", a.name), format!("{}_u", a.name), format!("{}_l", a.name));
                if tile.vectors > 1 {
                    let vector = format!("{}_v", a.name);
                    self.split_step(&name, &a.name, tile.lanes * tile.vectors, &o, &u);
                    self.split_step(&name, &u, tile.lanes, &vector, &l);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: vector.clone() });
                    self.steps.push(ScheduleStep::Partial { stage: name.clone(), axis: vector.clone() });
                    lanes.push(vector);
                } else {
                    self.split_step(&name, &a.name, tile.lanes, &o, &l);
                }
                self.steps.push(ScheduleStep::Partial { stage: name.clone(), axis: l.clone() });
                lanes.push(l);
                order.push(o);
                unrolling = false;
                continue;
            }
            let (mut loop_name, mut extent) = (a.name.clone(), a.extent.as_const());
            if tile.vector_axis.is_some() && self.dots[id.index()] == Some(axis) {
                let (o, q) = (format!("{}_o", a.name), format!("{}_q", a.name));
                self.split_step(&name, &a.name, dot::POINTS, &o, &q);
                let intrinsic = Intrinsic::Dot4;
                self.steps.push(ScheduleStep::Tensorize { stage: name.clone(), axis: q.clone(), intrinsic });
                lanes.push(q);
                loop_name = o;
                extent = extent.map(|n| n / dot::POINTS);
            }
            match extent {
                Some(n) if unrolling && n <= 16 && (body * n <= BODY_LIMIT || (tile.slides && order.is_empty())) => {
                    body *= n.max(1);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: loop_name.clone() });
                    order.push(loop_name);
                }
                _ if unrolling && body * 2 <= BODY_LIMIT / 2 => {
                    let by = if body * 4 <= BODY_LIMIT { 4 } else { 2 };
                    let (o, i) = (format!("{loop_name}_o"), format!("{loop_name}_i"));
                    self.split_step(&name, &loop_name, by, &o, &i);
                    self.steps.push(ScheduleStep::Unroll { stage: name.clone(), axis: i.clone() });
                    order.push(i);
                    order.push(o);
                    unrolling = false;
                }
                _ => {
                    order.push(loop_name);
                    unrolling = false;
                }
            }
        }
        order.reverse();
        (order, lanes)
    }

    // --------------------------------------------------------------------------------------------------- roots --

    fn root(&mut self, root: StageId) {
        let stage = &self.kernel.stages[root];
        let producers = self.producers(root);
        let mut memo = vec![None; self.kernel.stages.len()];
        let followed: Vec<(StageId, Option<Vec<Option<usize>>>)> =
            producers.iter().map(|&p| (p, self.depends(root, p, &mut memo))).collect();
        // A reduction whose points are in step with the root's shares its tile and is computed tile by tile.
        let in_step: Vec<StageId> = followed
            .iter()
            .filter(|(id, follow)| {
                let Some(follow) = follow else { return false };
                let reduces = self.kernel.stages[*id].reducer.is_some();
                let read_by_root = self.accesses[root.index()].iter().any(|a| a.stage == Some(*id));
                let all = (0..stage.axes.len()).all(|a| follow.contains(&Some(a)) || stage.axes[a].extent.is_const(1));
                reduces && read_by_root && all && follow.iter().all(Option::is_some)
            })
            .map(|(id, _)| *id)
            .collect();
        let main = in_step.iter().copied().max_by(|&a, &b| {
            let weight = |id: StageId| super::access::reduction_points(self.kernel, &self.kernel.stages[id]);
            weight(a).total_cmp(&weight(b))
        });
        let root_tile = match main {
            Some(main) => self.tile_through(root, main, &followed),
            None => self.tile(root, Some(self.store_steps(root)), self.extents(root)),
        };
        let mut loops = self.split(root, &root_tile);
        let name = self.name(root);

        // Axes that more producers follow go outside; then what is read again soonest goes inside. Among several sums
        // the loop over which least is read is the innermost: what does not move there stays in cache.
        let moved = |axis: usize| if followed.len() > 1 { self.moved_bytes(&followed, axis) } else { 0 };
        let weight =
            |axis: usize| followed.iter().filter(|(_, f)| f.as_ref().is_some_and(|f| f.contains(&Some(axis)))).count();
        let follow_of = |id: StageId| followed.iter().find(|(f, _)| *f == id).and_then(|(_, follow)| follow.as_deref());
        let vector_first =
            main.is_some_and(|m| follow_of(m).is_some_and(|follow| self.columns_outermost(m, &root_tile, follow)));
        let vector_axis = root_tile.vector_axis;
        // Where all that is read moves along the vector axis, the next vector reads nothing again, but the next rows may.
        let all_move = main.is_some_and(|m| self.all_move_along_vectors(m, &root_tile, &followed));
        let last_row = loops.outer.iter().rev().map(|&(_, axis)| axis).find(|&axis| vector_axis != Some(axis));
        loops.outer.sort_by_key(|(_, axis)| {
            let is_vector = vector_axis == Some(*axis);
            let place = match (is_vector, vector_first) {
                (true, true) => 0,
                (false, _) if all_move && last_row == Some(*axis) => 3,
                (false, _) => 1,
                (true, false) => 2,
            };
            (stage.axes[*axis].kind != AxisKind::Sequential, usize::MAX - weight(*axis), place, -moved(*axis))
        });
        let strips = if main.is_none() { self.strips(root, &root_tile, &mut loops, &followed) } else { Vec::new() };
        let order: Vec<String> =
            loops.outer.iter().map(|(n, _)| n.clone()).chain(loops.inner.iter().cloned()).collect();
        self.reorder(&name, order);
        if root_tile.vector_axis.is_some()
            && let Some(lanes) = loops.inner.last()
        {
            self.steps.push(ScheduleStep::Vectorize { stage: name.clone(), axis: lanes.clone() });
        }

        let mut deepest_attached = loops.outer.len();
        for (id, follow) in &followed {
            // What belongs to a step is computed at it, whole, so that all its rows share the weights.
            let together = self.run_of(*id).is_some() && !in_step.contains(id);
            let rank = self.kernel.stages[*id].value_axes().count();
            let own = (0..rank).map(|axis| (axis == 0).then_some(0)).collect();
            let follow = &if together { own } else { follow.clone().unwrap_or_default() };
            let position = if together {
                loops.outer.iter().position(|(_, axis)| *axis == 0)
            } else {
                loops.outer.iter().rposition(|(_, axis)| follow.contains(&Some(*axis)))
            };
            let strip = strips.iter().find(|(stage, _)| stage == id).map(|(_, strip)| strip);
            let Some(position) = position.or(strip.map(|_| 0)) else {
                // Every point needs all of it: computed once, in front.
                self.producer(*id, None, self.extents(*id));
                continue;
            };
            let producer = self.name(*id);
            self.steps.push(ScheduleStep::ComputeAt {
                stage: producer.clone(),
                consumer: name.clone(),
                axis: loops.outer[position].0.clone(),
            });
            deepest_attached = deepest_attached.min(position + 1);
            let shares = in_step.contains(id);
            let scope = if shares && main.is_some() { Scope::Register } else { Scope::Stack };
            self.steps.push(ScheduleStep::StoreIn { stage: producer, scope });
            // Axes whose loops lie around the computation have a tile's points in it, the others all.
            let mut extents = self.extents(*id);
            for ((axis, _), followed_axis) in self.kernel.stages[*id].value_axes().zip(follow) {
                let Some(root_axis) = followed_axis else { continue };
                let around = loops.outer[..=position].iter().any(|(_, a)| a == root_axis);
                if around {
                    extents[axis] = extents[axis].min(root_tile.points(*root_axis));
                }
            }
            if let (Some(strip), Some(rows)) = (strip, loops.strip_rows) {
                extents = strip.extents(self.kernel, *id, rows, extents);
            }
            self.producer(*id, shares.then_some((&root_tile, follow.as_slice())), extents);
        }
        let unattached = followed
            .iter()
            .filter(|(id, _)| strips.iter().all(|(stage, _)| stage != id))
            .any(|(_, f)| f.as_ref().is_none_or(|f| !loops.outer.iter().any(|(_, a)| f.contains(&Some(*a)))));
        let sequential = stage.axes.iter().any(|a| a.kind == AxisKind::Sequential);
        if !unattached && !sequential {
            self.parallel(root, &loops, &root_tile, deepest_attached);
        }
    }

    /// Bytes of operands that the stages before a root read at other places when the root moves along an axis.
    fn moved_bytes(&self, followed: &[(StageId, Option<Vec<Option<usize>>>)], axis: usize) -> i64 {
        let mut bytes = 0;
        for (id, follow) in followed {
            let stage = &self.kernel.stages[*id];
            let position = follow.as_ref().and_then(|f| f.iter().position(|&a| a == Some(axis)));
            let Some(own) = position.and_then(|p| stage.value_axes().nth(p)).map(|(n, _)| n) else { continue };
            for access in self.accesses[id.index()].iter().filter(|a| a.stage.is_none() && a.steps[own] != Step::Zero) {
                let moving = (0..stage.axes.len()).filter(|&n| access.steps[n] != Step::Zero);
                let elems = moving.fold(1i64, |n, a| n.saturating_mul(extent(self.kernel, stage, a)));
                bytes = elems.saturating_mul(access.elem_bytes as i64).saturating_add(bytes);
            }
        }
        bytes
    }

    /// Cuts an outer loop into strips, if what would be computed in front of everything can be computed per strip; gives
    /// the stages for which that holds.
    fn strips(
        &mut self,
        root: StageId,
        tile: &Tile,
        loops: &mut Loops,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) -> Vec<(StageId, Strip)> {
        let attaches = |follow: &Option<Vec<Option<usize>>>| {
            follow.as_ref().is_some_and(|f| loops.outer.iter().any(|(_, axis)| f.contains(&Some(*axis))))
        };
        let in_front: Vec<StageId> = followed.iter().filter(|(_, f)| !attaches(f)).map(|(id, _)| *id).collect();
        if in_front.len() < followed.len() || self.run_of(root).is_some() {
            return Vec::new();
        }
        let cut = |&id: &StageId| {
            strip::strip(self.kernel, root, id, &self.accesses, tile, self.machine).map(|strip| (id, strip))
        };
        let Some(strips) = in_front.iter().map(cut).collect::<Option<Vec<(StageId, Strip)>>>() else {
            return Vec::new();
        };
        let Some((axis, rows)) = strips.iter().map(|(_, s)| (s.axis, s.rows)).min_by_key(|&(_, rows)| rows) else {
            return Vec::new();
        };
        let Some(at) = loops.outer.iter().position(|&(_, a)| a == axis) else { return Vec::new() };
        if strips.iter().any(|(_, s)| s.axis != axis) {
            return Vec::new();
        }
        let whole = loops.outer[at].0.clone();
        let (outer, inner) = (format!("{whole}_s"), format!("{whole}_r"));
        self.split_step(&self.name(root), &whole, rows, &outer, &inner);
        loops.outer[at].0 = inner;
        loops.outer.insert(0, (outer, axis));
        loops.strip_rows = Some(rows);
        strips
    }

    /// The tile of a reduction, in terms of the axes of the root that reads it.
    fn tile_through(
        &mut self,
        root: StageId,
        main: StageId,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) -> Tile {
        let follow = followed
            .iter()
            .find(|(id, _)| *id == main)
            .and_then(|(_, f)| f.clone())
            .expect("a stage in step follows the root");
        let root_steps = self.store_steps(root);
        let main_stage = &self.kernel.stages[main];
        let value: Vec<usize> = main_stage.value_axes().map(|(n, _)| n).collect();
        // Movement of the root's stores, along the reduction's axes.
        let mut store = vec![Step::Zero; main_stage.axes.len()];
        for (position, axis) in value.iter().enumerate() {
            if let Some(root_axis) = follow[position] {
                store[*axis] = root_steps[root_axis];
            }
        }
        let tile = self.tile(main, Some(store), self.extents(main));
        let to_root = |axis: usize| value.iter().position(|&v| v == axis).and_then(|p| follow[p]);
        Tile {
            vector_axis: tile.vector_axis.and_then(to_root),
            rows: tile.rows.iter().filter_map(|&(a, n)| to_root(a).map(|r| (r, n))).collect(),
            ..tile
        }
    }

    /// Whether every load of a reduction differs from vector to vector, and some do not from row to row.
    fn all_move_along_vectors(
        &self,
        main: StageId,
        tile: &Tile,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) -> bool {
        let Some(axis) = self.followed_axis(main, tile, followed) else { return false };
        let accesses = &self.accesses[main.index()];
        let mut values = self.kernel.stages[main].value_axes().map(|(n, _)| n);
        accesses.iter().all(|a| a.steps[axis] != Step::Zero)
            && values.any(|n| accesses.iter().any(|a| a.steps[n] == Step::Zero))
    }

    /// The axis of a reduction along which the root's vectors lie.
    fn followed_axis(
        &self,
        main: StageId,
        tile: &Tile,
        followed: &[(StageId, Option<Vec<Option<usize>>>)],
    ) -> Option<usize> {
        let follow = followed.iter().find(|(id, _)| *id == main).and_then(|(_, f)| f.as_ref())?;
        let position = follow.iter().position(|f| f.is_some() && *f == tile.vector_axis)?;
        self.kernel.stages[main].value_axes().nth(position).map(|(axis, _)| axis)
    }

    /// Loops of a stage that is computed inside another.
    fn producer(&mut self, id: StageId, shared: Option<(&Tile, &[Option<usize>])>, extents: Vec<i64>) {
        let stage = &self.kernel.stages[id];
        let name = stage.name.clone();
        let value: Vec<usize> = stage.value_axes().map(|(n, _)| n).collect();
        let tile = match shared {
            Some((tile, follow)) => {
                let from_root = |axis: usize| follow.iter().position(|f| *f == Some(axis)).map(|p| value[p]);
                let mut own = Tile {
                    vector_axis: tile.vector_axis.and_then(from_root),
                    rows: tile.rows.iter().filter_map(|&(a, n)| from_root(a).map(|r| (r, n))).collect(),
                    ..tile.clone()
                };
                if tile.vector_axis.is_none() && tile.lanes > 1 {
                    // Lanes along the reduction.
                    let best = tile::choose_along_reduction(&self.view(id, None, self.extents(id)), self.machine);
                    own = Tile { vector_axis: best.vector_axis, lanes: best.lanes, vectors: best.vectors, ..own };
                }
                own
            }
            None => self.tile(id, Some(self.store_steps(id)), extents),
        };
        let loops = self.split(id, &tile);
        let (reduction, lanes) = self.reduction_loops(id, &tile);
        let order: Vec<String> = loops
            .outer
            .iter()
            .map(|(n, _)| n.clone())
            .chain(reduction)
            .chain(loops.inner.iter().cloned())
            .chain(lanes.iter().cloned())
            .collect();
        let tensorized = usize::from(tile.vector_axis.is_some() && self.dots[id.index()].is_some());
        let last = order.iter().rev().nth(tensorized).cloned();
        self.reorder(&name, order);
        if tile.vector_axis.is_some()
            && let Some(last) = last
        {
            self.steps.push(ScheduleStep::Vectorize { stage: name, axis: last });
        }
    }

    pub(super) fn reorder(&mut self, stage: &str, order: Vec<String>) {
        if order.len() > 1 {
            self.steps.push(ScheduleStep::Reorder { stage: stage.to_owned(), order });
        }
    }

    /// Makes outer loops parallel until there are chunks enough, as far as chunks stay worth handing out.
    fn parallel(&mut self, root: StageId, loops: &Loops, tile: &Tile, limit: usize) {
        let stage = &self.kernel.stages[root];
        let turns = |axis: usize| {
            let points = extent(self.kernel, stage, axis);
            let per_turn = loops.strip_rows.unwrap_or_else(|| tile.points(axis));
            (points + per_turn - 1) / per_turn
        };
        let points: f64 = (0..stage.axes.len()).map(|a| extent(self.kernel, stage, a) as f64).product();
        let per_point: f64 = cost(stage)
            + self
                .producers(root)
                .iter()
                .map(|&p| {
                    let s = &self.kernel.stages[p];
                    let all: f64 = (0..s.axes.len()).map(|a| extent(self.kernel, s, a) as f64).product();
                    all * cost(s) / points
                })
                .sum::<f64>();
        let work = points * per_point / tile.lanes as f64;
        let mut chunks = 1;
        let mut axes = Vec::new();
        for (name, axis) in loops.outer.iter().take(limit.max(1)) {
            let next = chunks * turns(*axis);
            if !axes.is_empty() && (chunks >= ENOUGH_CHUNKS || work / (next as f64) < LEAST_CHUNK) {
                break;
            }
            chunks = next;
            axes.push(name.clone());
        }
        if !axes.is_empty() {
            self.steps.push(ScheduleStep::Parallel { stage: stage.name.clone(), axes });
        }
    }
}
