//! Reductions: initialise, fold, and combine partial accumulators.

use super::ScheduleError;
use super::emit::{AxisState, Emitter, State, Stmts, Storage};
use super::plan::{LoopMode, LoopPlan};
use super::point::{limits, offset};
use infc_ir::entity::{EntityId, StageId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::AxisKind;
use infc_ir::nest::{Expr, LoopKind, Stmt, Target};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};
use infc_ir::schedule::Scope;
use std::sync::Arc;

/// Accumulators of a reduction in progress: the value axes, then one dimension per partial loop.
struct Accumulator {
    storage: Storage,
    /// Strides of the partial loops.
    partial: Vec<IndexExpr>,
}

impl Emitter<'_> {
    /// Emits a reduction whose outermost remaining loop, at position `at`, is a reduction loop.
    pub(super) fn reduction(&mut self, stage: StageId, at: usize, state: State) -> Stmts {
        let s = &self.kernel.stages[stage];
        let reducer = Arc::new(s.reducer.clone().ok_or_else(|| ScheduleError::Stage {
            stage: s.name.clone(),
            reason: "has a reduction axis but no reducer".to_owned(),
        })?);
        let Some(result) = self.storage[stage.index()].clone() else {
            let reason = "a reduction cannot be an output of the kernel; let an identity stage follow it".to_owned();
            return Err(ScheduleError::Stage { stage: s.name.clone(), reason });
        };
        let loops: Vec<LoopPlan> = self.plans[stage].loops[at..].to_vec();
        let is_reduce = |l: &LoopPlan| self.kernel.stages[stage].axes[l.axis].kind == AxisKind::Reduce;
        let value_loops: Vec<LoopPlan> = loops.iter().filter(|l| !is_reduce(l)).cloned().collect();
        let partial: Vec<LoopPlan> = loops.iter().filter(|l| l.partial).cloned().collect();

        let constant_tile =
            value_loops.iter().all(|l| state[l.axis].simplified(&self.ranges).extent.as_const().is_some());
        let straight = value_loops.iter().all(|l| matches!(l.mode, LoopMode::Unrolled | LoopMode::Vector { .. }));
        let in_place = self.plans[stage].scope == Scope::Register || !(constant_tile && straight);
        let mut stmts = Vec::new();
        let total = if in_place {
            Accumulator { storage: result.clone(), partial: Vec::new() }
        } else {
            self.accumulator(stage, &state, &[], &mut stmts)
        };
        let working = if partial.is_empty() {
            Accumulator { storage: total.storage.clone(), partial: Vec::new() }
        } else {
            self.accumulator(stage, &state, &partial, &mut stmts)
        };

        stmts.extend(self.initialise(stage, &value_loops, &partial, &working, &reducer.init, &state)?);
        stmts.extend(self.fold(stage, &loops, 0, state.clone(), Vec::new(), &working, &reducer)?);
        if !partial.is_empty() {
            stmts.extend(self.initialise(stage, &value_loops, &[], &total, &reducer.init, &state)?);
            stmts.extend(self.over(stage, &value_loops, &partial, state.clone(), &mut |e, s, turns| {
                let value = e.read_accumulator(stage, &working, &s, &turns);
                Ok(vec![Stmt::Reduce {
                    targets: e.targets(stage, &total, &s, &[]),
                    value,
                    reducer: Arc::clone(&reducer),
                    valid: Vec::new(),
                }])
            })?);
        }
        if !in_place {
            stmts.extend(self.over(stage, &value_loops, &[], state, &mut |e, s, _| {
                let value = e.read_accumulator(stage, &total, &s, &[]);
                let into = Accumulator { storage: result.clone(), partial: Vec::new() };
                let targets = e.targets(stage, &into, &s, &[]);
                let valid = e.open_bounds(limits(s.iter()));
                Ok(vec![Stmt::Store { targets, value, valid }])
            })?);
        }
        Ok(stmts)
    }

    /// New accumulators for the part of the stage that the state covers.
    fn accumulator(
        &mut self,
        stage: StageId,
        state: &State,
        partial: &[LoopPlan],
        stmts: &mut Vec<Stmt>,
    ) -> Accumulator {
        let mut len = IndexExpr::constant(1);
        // Vector lanes are adjacent: the innermost dimension is the partial vector, if there is one.
        let mut partial_strides = vec![IndexExpr::constant(0); partial.len()];
        for (n, l) in partial.iter().enumerate().rev() {
            partial_strides[n] = len.clone();
            let size = match l.mode {
                LoopMode::Vector { lanes } => i64::from(lanes),
                _ => l.turns.unwrap_or(1),
            };
            len = len.scale(size);
        }
        let axes = self.value_state(stage, state);
        let mut strides = vec![IndexExpr::constant(0); axes.len()];
        for position in self.storage_order(stage).into_iter().rev() {
            strides[position] = len.clone();
            len = len * axes[position].simplified(&self.ranges).extent;
        }
        let name = format!("{}.acc", self.kernel.stages[stage].name);
        let scope = if len.as_const().is_some() { Scope::Register } else { Scope::Scratch };
        let dtypes = self.kernel.stages[stage].dtypes();
        let buffers = dtypes.into_iter().map(|d| self.local_buffer(&name, d, scope, len.clone())).collect::<Vec<_>>();
        stmts.extend(buffers.iter().map(|&b| Stmt::Alloc(b)));
        let origin = axes.iter().map(|a| a.base.clone()).collect();
        Accumulator {
            storage: Storage { buffers, origin, strides, start: IndexExpr::constant(0), complete: false },
            partial: partial_strides,
        }
    }

    /// The states of the axes that the stage's value has.
    fn value_state(&self, stage: StageId, state: &State) -> Vec<AxisState> {
        self.kernel.stages[stage].value_axes().map(|(n, _)| state[n].clone()).collect()
    }

    fn targets(&self, stage: StageId, acc: &Accumulator, state: &State, turns: &[IndexExpr]) -> Vec<Target> {
        let index = self.flat(stage, acc, state, turns);
        acc.storage.buffers.iter().map(|&buffer| Target { buffer, index: index.clone() }).collect()
    }

    fn flat(&self, stage: StageId, acc: &Accumulator, state: &State, turns: &[IndexExpr]) -> IndexExpr {
        let at: Vec<IndexExpr> = self.value_state(stage, state).into_iter().map(|a| a.base).collect();
        let within = offset(&at, &acc.storage);
        let partial: IndexExpr = turns.iter().zip(&acc.partial).map(|(t, s)| t.clone() * s.clone()).sum();
        (within + partial).simplify(&self.ranges)
    }

    fn read_accumulator(&self, stage: StageId, acc: &Accumulator, state: &State, turns: &[IndexExpr]) -> Expr {
        let mut body = Body::default();
        let index = self.flat(stage, acc, state, turns);
        let dtypes = self.kernel.stages[stage].dtypes();
        let roots = acc
            .storage
            .buffers
            .iter()
            .zip(dtypes)
            .map(|(&buffer, dtype)| {
                body.push(ScalarOp::Load(Load {
                    source: Source::Buffer(buffer),
                    index: vec![index.clone()],
                    gather: Vec::new(),
                    valid: Vec::new(),
                    otherwise: Const::zero(dtype),
                    dtype,
                }))
            })
            .collect();
        Expr { body, roots }
    }

    fn initialise(
        &mut self,
        stage: StageId,
        value_loops: &[LoopPlan],
        partial: &[LoopPlan],
        acc: &Accumulator,
        init: &[Const],
        state: &State,
    ) -> Stmts {
        self.over(stage, value_loops, partial, state.clone(), &mut |e, s, turns| {
            let mut body = Body::default();
            let roots = init.iter().map(|c| body.push(ScalarOp::Const(*c))).collect();
            let targets = e.targets(stage, acc, &s, &turns);
            let valid = if acc.partial.is_empty() && !e.is_register(acc) {
                e.open_bounds(limits(s.iter()))
            } else {
                Vec::new()
            };
            Ok(vec![Stmt::Store { targets, value: Expr { body, roots }, valid }])
        })
    }

    fn is_register(&self, acc: &Accumulator) -> bool {
        use infc_ir::nest::BufferKind;
        acc.storage.buffers.iter().all(|&b| self.buffers[b].kind == BufferKind::Local(Scope::Register))
    }

    /// Value loops, then partial loops over all their accumulators.
    fn over(
        &mut self,
        stage: StageId,
        value_loops: &[LoopPlan],
        partial: &[LoopPlan],
        state: State,
        leaf: &mut dyn FnMut(&mut Self, State, Vec<IndexExpr>) -> Stmts,
    ) -> Stmts {
        let Some((l, rest)) = value_loops.split_first() else {
            return self.over_partial(stage, partial, state, Vec::new(), leaf);
        };
        // A vector among the value loops stays innermost; partial loops go around it.
        if matches!(l.mode, LoopMode::Vector { .. }) && !partial.is_empty() {
            return self.over_partial(stage, partial, state, Vec::new(), &mut |e, s, turns| {
                e.open(stage, l, s, &mut |e, s| leaf(e, s, turns.clone()))
            });
        }
        self.open(stage, l, state, &mut |e, s| e.over(stage, rest, partial, s, leaf))
    }

    fn over_partial(
        &mut self,
        stage: StageId,
        partial: &[LoopPlan],
        state: State,
        turns: Vec<IndexExpr>,
        leaf: &mut dyn FnMut(&mut Self, State, Vec<IndexExpr>) -> Stmts,
    ) -> Stmts {
        let Some((l, rest)) = partial.split_first() else {
            self.spend(stage, 1)?;
            return leaf(self, state, turns);
        };
        let (count, kind) = match l.mode {
            LoopMode::Vector { lanes } => (i64::from(lanes), LoopKind::Vector { lanes }),
            _ => (l.turns.unwrap_or(1), LoopKind::Unrolled),
        };
        let extent = IndexExpr::constant(count);
        let var = self.loop_var(format!("{}.{}_acc", self.kernel.stages[stage].name, l.name), &extent);
        let mut inner_turns = turns;
        inner_turns.push(IndexExpr::var(var));
        let copies = self.code.enter(kind, &extent);
        let body = self.over_partial(stage, rest, state, inner_turns, leaf)?;
        self.code.leave(copies);
        Ok(vec![Stmt::For { var, extent, kind, body }])
    }

    /// The loops of the fold itself. `turns` are the turns of the partial loops so far.
    #[expect(clippy::too_many_arguments, reason = "the recursion's whole state; a struct would only rename it")]
    fn fold(
        &mut self,
        stage: StageId,
        loops: &[LoopPlan],
        at: usize,
        state: State,
        turns: Vec<IndexExpr>,
        acc: &Accumulator,
        reducer: &Arc<infc_ir::kernel::Reducer>,
    ) -> Stmts {
        let Some(l) = loops.get(at).cloned() else {
            let coordinates: Vec<IndexExpr> = state.iter().map(|a| a.base.clone()).collect();
            let axes = &self.kernel.stages[stage].axes;
            // Nothing beyond a limit is read that is not there. Points beyond the value's limit may be folded in registers, since they are
            // never stored; in memory others may lie there. Points beyond a reduction's limit may not.
            let guard = self.open_bounds(limits(state.iter()));
            let folded = |kind: AxisKind| kind == AxisKind::Reduce || !self.is_register(acc);
            let counted = state.iter().zip(axes).filter(|(_, a)| folded(a.kind)).map(|(s, _)| s);
            let valid = self.open_bounds(limits(counted));
            let scattered = self.plans[stage].loops.iter().find_map(|l| match l.mode {
                LoopMode::Scattered(scattered) => Some(scattered.value),
                _ => None,
            });
            let roots = scattered.map_or_else(|| self.kernel.stages[stage].results.clone(), |value| vec![value]);
            self.beyond = self.is_register(acc).then(|| self.ranges.clone());
            let value = self.value(stage, &coordinates, &guard, &roots);
            self.beyond = None;
            let value = value?;
            let targets = self.targets(stage, acc, &state, &turns);
            let mut stmts = vec![Stmt::Reduce { targets, value, reducer: Arc::clone(reducer), valid }];
            stmts.extend(self.prefetches(stage, &coordinates));
            return Ok(stmts);
        };
        if self.is_streamed_at(stage, &l.name) {
            return self
                .streamed(stage, &l, &state, &mut |e, s| e.fold(stage, loops, at + 1, s, turns.clone(), acc, reducer));
        }
        if let LoopMode::Scattered(scattered) = l.mode {
            return self.told(stage, &l, scattered, state, &mut |e, s| {
                e.fold(stage, loops, at + 1, s, turns.clone(), acc, reducer)
            });
        }
        let before = state[l.axis].base.clone();
        self.open(stage, &l, state, &mut |e, s| {
            let mut turns = turns.clone();
            if l.partial {
                let moved = (s[l.axis].base.clone() - before.clone()).simplify(&e.ranges);
                turns.push(moved.floor_div(&IndexExpr::constant(l.tile)).simplify(&e.ranges));
            }
            let mut inner = |e: &mut Self, s| {
                e.with_attached(stage, &l.name, s, &mut |e, s| {
                    e.fold(stage, loops, at + 1, s, turns.clone(), acc, reducer)
                })
            };
            if l.skips { e.unless_padding(stage, l.axis, s, &mut inner) } else { inner(e, s) }
        })
    }
}
