//! Reductions whose every point counts at one place, which data tells.
//!
//! `y[r] = Σ_m select(target[m] = r, value[m], 0)` is a reduction over all updates per element of the result, as kernels
//! write each element once. Most of it folds what changes nothing: in front of each update its target is known, and only
//! that element is folded. The sum is the same, in the same order, in as many steps as there are updates.

use super::emit::{AxisState, Emitter, State, Stmts};
use super::plan::LoopPlan;
use super::point::limits;
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Interval};
use infc_ir::kernel::{AxisKind, Reducer, Stage};
use infc_ir::nest::{LoopVar, Stmt};
use infc_ir::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp};
use infc_tensor::DType;
use std::cell::Cell;

/// What a stage folds, where it is that of one point of an axis only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scattered {
    /// The point, of type `i64`; where it is none of the axis, nothing is folded.
    pub(crate) target: ScalarId,
    /// What is folded there.
    pub(crate) value: ScalarId,
}

/// Whether a stage folds `select(target = index(axis), value, neutral)`, the target independent of the axis.
pub(crate) fn scattered(stage: &Stage, axis: usize) -> Option<Scattered> {
    let reducer = stage.reducer.as_ref()?;
    let ([result], AxisKind::Parallel) = (&stage.results[..], stage.axes[axis].kind) else { return None };
    let ScalarOp::Select(condition, value, otherwise) = stage.body.ops[*result] else { return None };
    let ScalarOp::Const(otherwise) = stage.body.ops[otherwise] else { return None };
    let ScalarOp::Compare(CompareOp::Eq, a, b) = stage.body.ops[condition] else { return None };
    let is_here = |id: ScalarId| matches!(&stage.body.ops[id], ScalarOp::Index(e) if *e == IndexExpr::var(VarId::from_index(axis)));
    let target = match (is_here(a), is_here(b)) {
        (false, true) => a,
        (true, false) => b,
        _ => return None,
    };
    let told = stage.body.dtype(target) == DType::I64 && !axes_of(stage, target)[axis];
    (told && changes_nothing(reducer, otherwise)).then_some(Scattered { target, value })
}

/// Whether folding the number leaves what has been folded so far.
fn changes_nothing(reducer: &Reducer, number: Const) -> bool {
    let [init] = reducer.init[..] else { return false };
    match reducer.as_binary() {
        // From 0 on, no sum is −0, which adding 0 would change.
        Some(BinaryOp::Add) => number == init && number == Const::zero(init.dtype),
        Some(BinaryOp::Mul) => number == Const::from_f64(init.dtype, 1.0),
        Some(BinaryOp::Max | BinaryOp::Min) => number == init,
        _ => false,
    }
}

/// Per axis of a stage, whether a scalar operation depends on it.
pub(crate) fn axes_of(stage: &Stage, root: ScalarId) -> Vec<bool> {
    let mut only = Body::default();
    only.import(&stage.body, &[root], &mut |_, _| None);
    let axes: Vec<Cell<bool>> = vec![Cell::new(false); stage.axes.len()];
    for op in only.ops.iter() {
        let _ = op.map_indices(&|e| {
            for (n, used) in axes.iter().enumerate() {
                used.set(used.get() || e.uses_var(VarId::from_index(n)));
            }
            e.clone()
        });
    }
    axes.into_iter().map(Cell::into_inner).collect()
}

impl Emitter<'_> {
    /// In place of the loop over an axis: the one point of it that data tells, if it is one.
    pub(super) fn told(
        &mut self,
        stage: StageId,
        l: &LoopPlan,
        scattered: Scattered,
        state: State,
        body: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let axis = state[l.axis].simplified(&self.ranges);
        let coordinates: Vec<IndexExpr> = state.iter().map(|a| a.base.clone()).collect();
        let guard = self.open_bounds(limits(state.iter()));
        let value = self.value(stage, &coordinates, &guard, &[scattered.target])?;
        let name = format!("{}.{}", self.kernel.stages[stage].name, l.name);
        let var = self.vars.push(LoopVar { name, range: (None, None) });
        let within = Bound { expr: IndexExpr::var(var), lo: axis.base.clone(), hi: axis.end() };
        let outside = self.ranges.clone();
        let interval = |e: &IndexExpr| outside.interval(e);
        let most = interval(&axis.end()).max.map(|end| end - 1);
        self.ranges.set_var(var, Interval { min: interval(&axis.base).min, max: most });
        self.ranges.set_upper(var, axis.end() - 1);
        let mut inside = state;
        inside[l.axis] = AxisState { base: IndexExpr::var(var), extent: IndexExpr::constant(1), limit: None };
        let then = body(self, inside);
        self.ranges = outside;
        Ok(vec![Stmt::LetValue { var, value }, Stmt::If { cond: vec![within], then: then?, otherwise: Vec::new() }])
    }
}
