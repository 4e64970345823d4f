//! Outputs in the memory of an input: what stays as it was is not written.
//!
//! In front of the first loop on which the condition does not depend ([`Kernel::replaced`](infc_ir::kernel::Kernel::replaced)),
//! data tells whether anything within is replaced. Where it tells between which coordinates an axis is replaced
//! ([`Stage::span`](infc_ir::kernel::Stage::span)), the loop over that axis goes from one to the other. What memory holds
//! afterwards is the same as without: an element that is not replaced is what it was.

use super::ScheduleError;
use super::emit::{AxisState, Emitter, State, Stmts};
use super::plan::{LoopMode, LoopPlan, Placement};
use super::point::limits;
use infc_ir::access::Bound;
use infc_ir::entity::{ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Interval, Proof};
use infc_ir::kernel::{Span, Told};
use infc_ir::nest::{Expr, LoopKind, LoopVar, Stmt};
use infc_ir::scalar::{BinaryOp, Body, ScalarOp};
use infc_tensor::DType;
use std::collections::BTreeMap;

/// Coordinates that data tells are taken to be at most so far from 0: beyond what any axis has, and far enough from where
/// arithmetic ends.
const MAX_TOLD: i64 = 1 << 48;

/// What is to be asked in front of a loop, or of a point.
pub(super) enum Asked {
    /// Whether a condition is one of both.
    Whether(ScalarId, bool),
    /// From where to where the loop goes.
    Span(Box<LoopPlan>, Span),
}

impl Emitter<'_> {
    /// What data tells of what the loops from position `at` inwards replace, if it is to be asked here.
    pub(super) fn asks_what_is_replaced(&self, stage: StageId, at: usize, state: &State) -> Option<Asked> {
        let plan = &self.plans[stage];
        let is_vector = |l: &LoopPlan| matches!(l.mode, LoopMode::Vector { .. } | LoopMode::Tensor(_));
        if plan.placement != Placement::Root || self.asked || plan.loops[..at].iter().any(is_vector) {
            return None;
        }
        // All threads of a block meet where stages are shared among them, whatever is replaced.
        let on_gpu = plan.loops.iter().any(|l| matches!(l.mode, LoopMode::Bound(_)));
        if on_gpu && self.plans.iter().any(|other| matches!(&other.placement, Placement::At { .. })) {
            return None;
        }
        let replaced = self.kernel.replaced(stage)?;
        let s = &self.kernel.stages[stage];
        let is_told = |id: ScalarId| {
            s.axes_of(id).into_iter().zip(state).all(|(depends, axis)| !depends || axis.extent.is_const(1))
        };
        if is_told(replaced.condition) {
            return Some(Asked::Whether(replaced.condition, replaced.when));
        }
        let l = plan.loops.get(at).filter(|l| l.mode == LoopMode::Serial && l.tile == 1)?;
        let is_whole = plan.loops.iter().filter(|other| other.axis == l.axis).count() == 1;
        if !replaced.when || !is_whole {
            return None;
        }
        let span = s.span(replaced.condition, l.axis)?;
        let told = span.from.iter().chain(&span.to).filter_map(|told| told.value).all(is_told);
        told.then(|| Asked::Span(Box::new(l.clone()), span))
    }

    /// The loops from position `at` inwards, run where something is replaced.
    pub(super) fn where_replaced(&mut self, stage: StageId, at: usize, asked: Asked, state: State) -> Stmts {
        // Of what has no points data need not tell anything.
        let zero = IndexExpr::constant(0);
        let is_open = |extent: &IndexExpr| self.ranges.lt(&zero, extent) != Proof::Yes;
        let extents = state.iter().map(|axis| axis.extent.simplify(&self.ranges)).filter(is_open);
        let cond: Vec<Bound> = extents.map(|hi| Bound { expr: zero.clone(), lo: zero.clone(), hi }).collect();
        self.asked = true;
        let stmts = match asked {
            Asked::Whether(condition, when) => self.if_replaced(stage, at, condition, when, state),
            Asked::Span(l, span) => self.over_replaced(stage, at, &l, &span, state),
        };
        self.asked = false;
        if cond.is_empty() {
            return stmts;
        }
        Ok(vec![Stmt::If { cond, then: stmts?, otherwise: Vec::new() }])
    }

    fn if_replaced(&mut self, stage: StageId, at: usize, condition: ScalarId, when: bool, state: State) -> Stmts {
        let value = self.tell(stage, &state, condition, |body, condition| body.cast(DType::I64, condition))?;
        let name = format!("{}.replaced", self.kernel.stages[stage].name);
        let var = self.vars.push(LoopVar { name, range: (Some(0), Some(1)) });
        let wanted = i64::from(when);
        let (lo, hi) = (IndexExpr::constant(wanted), IndexExpr::constant(wanted + 1));
        let cond = vec![Bound { expr: IndexExpr::var(var), lo, hi }];
        let then = self.loops(stage, at, state)?;
        Ok(vec![Stmt::LetValue { var, value }, Stmt::If { cond, then, otherwise: Vec::new() }])
    }

    fn over_replaced(&mut self, stage: StageId, at: usize, l: &LoopPlan, span: &Span, state: State) -> Stmts {
        let mut stmts = Vec::new();
        let mut vars: BTreeMap<ScalarId, VarId> = BTreeMap::new();
        for value in span.from.iter().chain(&span.to).filter_map(|told| told.value) {
            if vars.contains_key(&value) {
                continue;
            }
            let expr = self.tell(stage, &state, value, |body, value| {
                let [least, most] = [-MAX_TOLD, MAX_TOLD].map(|n| body.push(ScalarOp::Index(IndexExpr::constant(n))));
                let value = body.binary(BinaryOp::Max, value, least);
                body.binary(BinaryOp::Min, value, most)
            })?;
            let name = format!("{}.{}_told", self.kernel.stages[stage].name, l.name);
            let range = (Some(-MAX_TOLD), Some(MAX_TOLD));
            let var = self.vars.push(LoopVar { name, range });
            self.ranges.set_var(var, Interval { min: range.0, max: range.1 });
            vars.insert(value, var);
            stmts.push(Stmt::LetValue { var, value: expr });
        }
        let axis = state[l.axis].simplified(&self.ranges);
        let at_told = |told: &Told| match told.value {
            Some(value) => IndexExpr::var(vars[&value]) + told.offset.clone(),
            None => told.offset.clone(),
        };
        let from = span.from.iter().map(at_told).fold(axis.base.clone(), |from, told| from.maximum(&told));
        let to = span.to.iter().map(at_told).fold(axis.end(), |to, told| to.minimum(&told));
        let turns = (to - from.clone()).maximum(&IndexExpr::constant(0)).simplify(&self.ranges);
        let turn = self.loop_var(format!("{}.{}", self.kernel.stages[stage].name, l.name), &turns);
        // A variable of its own knows that it is a coordinate.
        let (first, last) = (self.ranges.interval(&axis.base), self.ranges.interval(&axis.end()));
        let range = (first.min, last.max.map(|end| (end - 1).max(0)));
        let here = self.vars.push(LoopVar { name: format!("{}.{}_at", self.kernel.stages[stage].name, l.name), range });
        self.ranges.set_var(here, Interval { min: range.0, max: range.1 });
        self.ranges.set_upper(here, axis.end() - 1);
        let mut inside = state;
        inside[l.axis] = AxisState { base: IndexExpr::var(here), extent: IndexExpr::constant(1), limit: None };
        let mut body = vec![Stmt::Let { var: here, value: from + IndexExpr::var(turn) }];
        body.extend(self.with_attached(stage, &l.name, inside, &mut |e, s| e.loops(stage, at + 1, s))?);
        stmts.push(Stmt::For { var: turn, extent: turns, kind: LoopKind::Serial, body });
        Ok(stmts)
    }

    /// What `of` makes of an operation's value, where the walk stands.
    fn tell(
        &mut self,
        stage: StageId,
        state: &State,
        id: ScalarId,
        of: impl FnOnce(&mut Body, ScalarId) -> ScalarId,
    ) -> Result<Expr, ScheduleError> {
        let coordinates: Vec<IndexExpr> = state.iter().map(|a| a.base.clone()).collect();
        let guard = self.open_bounds(limits(state.iter()));
        let Expr { mut body, roots } = self.value(stage, &coordinates, &guard, &[id])?;
        let roots = roots.first().map(|&root| of(&mut body, root)).into_iter().collect();
        Ok(Expr { body, roots })
    }
}
