//! Reductions whose every point counts at one place, which data tells.
//!
//! `y[r] = Σ_m select(target[m] = r, value[m], 0)` is a reduction over all updates per element of the result, as kernels
//! write each element once. Most of it folds what changes nothing: in front of each update its target is known, and only
//! that element is folded. The sum is the same, in the same order, in as many steps as there are updates.

use super::emit::{AxisState, Emitter, State, Stmts};
use super::plan::LoopPlan;
use super::point::limits;
use infc_ir::access::Bound;
use infc_ir::entity::StageId;
use infc_ir::index::{IndexExpr, Interval};
use infc_ir::kernel::Scattered;
use infc_ir::nest::{LoopVar, Stmt};

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
