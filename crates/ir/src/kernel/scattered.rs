//! Stages that fold each of their points at one place of an axis, which data tells.

use super::{AxisKind, Reducer, Stage};
use crate::entity::{EntityId, ScalarId, VarId};
use crate::index::IndexExpr;
use crate::scalar::{BinaryOp, Body, CompareOp, Const, ScalarOp};
use infc_tensor::DType;
use std::cell::Cell;

/// What a stage folds, where it is that of one point of an axis only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scattered {
    /// The point, of type `i64`; where it is none of the axis, nothing is folded.
    pub target: ScalarId,
    /// What is folded there.
    pub value: ScalarId,
}

impl Stage {
    /// Whether the stage folds `select(target = index(axis), value, neutral)`, the target independent of the axis.
    #[must_use]
    pub fn scattered(&self, axis: usize) -> Option<Scattered> {
        let reducer = self.reducer.as_ref()?;
        let ([result], AxisKind::Parallel) = (&self.results[..], self.axes[axis].kind) else { return None };
        let ScalarOp::Select(condition, value, otherwise) = self.body.ops[*result] else { return None };
        let ScalarOp::Const(otherwise) = self.body.ops[otherwise] else { return None };
        let ScalarOp::Compare(CompareOp::Eq, a, b) = self.body.ops[condition] else { return None };
        let here = IndexExpr::var(VarId::from_index(axis));
        let is_here = |id: ScalarId| matches!(&self.body.ops[id], ScalarOp::Index(e) if *e == here);
        let target = match (is_here(a), is_here(b)) {
            (false, true) => a,
            (true, false) => b,
            _ => return None,
        };
        let told = self.body.dtype(target) == DType::I64 && !self.axes_of(target)[axis];
        (told && changes_nothing(reducer, otherwise)).then_some(Scattered { target, value })
    }

    /// Per axis of the stage, whether a scalar operation of its body depends on it.
    #[must_use]
    pub fn axes_of(&self, root: ScalarId) -> Vec<bool> {
        let mut only = Body::default();
        only.import(&self.body, &[root], &mut |_, _| None);
        let axes: Vec<Cell<bool>> = vec![Cell::new(false); self.axes.len()];
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
