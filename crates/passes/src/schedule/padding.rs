//! Turns of a sum in which all points of a tile only meet padding: what they add is zero.
//!
//! A convolution with taps far apart on a small image multiplies most of its weights by zeros. Of 3×3 taps 12 apart on 14 rows,
//! the first row of taps sees the image from two rows alone.

use super::emit::{Emitter, State, Stmts};
use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::{IndexExpr, Proof};
use infc_ir::kernel::{Kernel, OperandKind};
use infc_ir::nest::Stmt;
use infc_ir::scalar::{BinaryOp, Load, ScalarOp, Source};

/// Conditions outside of which what a stage sums is zero, as a factor of it is padding and the other one a weight; none if there
/// is no such factor. (Zero times a weight that is infinite or no number counts as zero, as for taps that never meet anything else.)
pub(crate) fn padded_by(kernel: &Kernel, stage: StageId) -> Vec<Bound> {
    let s = &kernel.stages[stage];
    let is_sum = s.reducer.as_ref().and_then(|reducer| reducer.as_binary()) == Some(BinaryOp::Add);
    let &[result] = &s.results[..] else { return Vec::new() };
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = s.body.ops[result] else { return Vec::new() };
    let load = |id: ScalarId| match &s.body.ops[id] {
        ScalarOp::Load(load) => Some(load),
        ScalarOp::Cast(_, from) => match &s.body.ops[*from] {
            ScalarOp::Load(load) => Some(load),
            _ => None,
        },
        _ => None,
    };
    let (Some(a), Some(b)) = (load(a), load(b)) else { return Vec::new() };
    let is_weight = |load: &Load| match load.source {
        Source::Operand(operand) => kernel.operands[operand].kind == OperandKind::Constant && load.valid.is_empty(),
        _ => false,
    };
    let factor = if is_weight(b) { a } else { b };
    let is_padded = is_sum && is_weight(if is_weight(b) { b } else { a }) && factor.otherwise.bits == 0;
    if is_padded { factor.valid.clone() } else { Vec::new() }
}

/// A condition for all points of a box, of which the first has the coordinates `base`: that it holds for one of them at least.
/// `None` if the bounded expression is not linear in coordinates of which the box has more than one, these are not known, or the
/// bounds move along.
pub(super) fn for_any(bound: &Bound, base: &[IndexExpr], extent: &dyn Fn(usize) -> Option<i64>) -> Option<Bound> {
    if bound.lo.uses_vars() || bound.hi.uses_vars() {
        return None;
    }
    let (mut least, mut span) = (bound.expr.clone(), 0i64);
    for axis in 0..base.len() {
        let var = VarId::from_index(axis);
        if !bound.expr.uses_var(var) || extent(axis) == Some(1) {
            continue;
        }
        let step = bound.expr.linear_in(var)?.0.as_const()?;
        let moved = step.checked_mul(extent(axis)?.checked_sub(1)?)?;
        span = span.checked_add(moved.checked_abs()?)?;
        least = least + moved.min(0);
    }
    Some(Bound { expr: least.substitute_vars(base), lo: bound.lo.clone() - span, hi: bound.hi.clone() })
}

impl Emitter<'_> {
    /// The conditions, not known to hold, under which the points of a state meet anything but padding at a turn of a loop over
    /// one of a stage's axes; `None` if they do not.
    fn met_at(&self, stage: StageId, axis: usize, state: &State) -> Option<Vec<Bound>> {
        let extent = |axis: usize| state[axis].extent.simplify(&self.ranges).as_const();
        let base: Vec<IndexExpr> = state.iter().map(|a| a.base.clone()).collect();
        let of_axis = padded_by(self.kernel, stage).into_iter().filter(|b| b.expr.uses_var(VarId::from_index(axis)));
        let met: Vec<Bound> = of_axis.filter_map(|bound| for_any(&bound, &base, &extent)).collect();
        let met = self.open_bounds(met);
        met.iter().all(|bound| bound.proof(&self.ranges) != Proof::No).then_some(met)
    }

    /// A turn of a loop over one of a stage's axes, where it meets anything but padding.
    pub(super) fn unless_padding(
        &mut self,
        stage: StageId,
        axis: usize,
        state: State,
        turn: &mut dyn FnMut(&mut Self, State) -> Stmts,
    ) -> Stmts {
        let Some(cond) = self.met_at(stage, axis, &state) else { return Ok(Vec::new()) };
        if cond.is_empty() {
            return turn(self, state);
        }
        let known = self.ranges.given(&cond);
        let ranges = std::mem::replace(&mut self.ranges, known);
        let then = turn(self, state);
        self.ranges = ranges;
        Ok(vec![Stmt::If { cond, then: then?, otherwise: Vec::new() }])
    }
}
