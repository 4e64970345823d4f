//! Makes what a sum of products is summed along longer, by products of zeros. Error class: exact.

use infc_ir::access::Bound;
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Reducer, Stage};
use infc_ir::scalar::{BinaryOp, Const, Load, ScalarOp, UnaryOp};

/// Whether an axis of a stage is a multiple of a number long for all that is known.
pub(crate) fn is_multiple(kernel: &Kernel, id: StageId, axis: usize, of: i64) -> bool {
    let ranges = kernel.stages[id].ranges(&kernel.symbols);
    kernel.stages[id].axes[axis].extent.modulo(&IndexExpr::constant(of)).simplify(&ranges).is_const(0)
}

/// The kernel with a summed axis as long as the next multiple of a number: what lies beyond its end is 0 in all that the stage
/// reads. `None` if the stage is no sum of products of two loads, or if something is read that does not move along the axis (it
/// may be infinite) or has another padding of its own.
pub(crate) fn pad(kernel: &Kernel, id: StageId, axis: usize, to: i64) -> Option<Kernel> {
    let stage = &kernel.stages[id];
    if stage.axes[axis].kind != AxisKind::Reduce || !sums_products(stage) || to < 1 {
        return None;
    }
    let mut kernel = kernel.clone();
    if is_multiple(&kernel, id, axis, to) {
        return Some(kernel);
    }
    let stage = &mut kernel.stages[id];
    let var = VarId::from_index(axis);
    let can_end =
        |load: &Load| load.index.iter().any(|e| e.uses_var(var)) && (load.valid.is_empty() || load.otherwise.bits == 0);
    if !stage.body.ops.iter().all(|op| !matches!(op, ScalarOp::Load(load) if !can_end(load))) {
        return None;
    }
    let whole = stage.axes[axis].extent.clone();
    stage.axes[axis].extent = whole.ceil_div(&IndexExpr::constant(to)).scale(to);
    for op in stage.body.ops.iter_mut() {
        if let ScalarOp::Load(load) = op {
            let at = IndexExpr::var(var);
            load.valid.push(Bound { expr: at, lo: IndexExpr::constant(0), hi: whole.clone() });
            load.otherwise = Const::zero(load.dtype);
        }
    }
    Some(kernel)
}

/// Whether all that a stage folds is a product of two loads, as they are or in another type, and folding adds.
fn sums_products(stage: &Stage) -> bool {
    let adds = stage.reducer.as_ref().and_then(Reducer::as_binary) == Some(BinaryOp::Add);
    let is_factor = |mut id: ScalarId| loop {
        match &stage.body.ops[id] {
            ScalarOp::Cast(_, inner) | ScalarOp::Unary(UnaryOp::Tf32, inner) => id = *inner,
            op => return matches!(op, ScalarOp::Load(_)),
        }
    };
    match stage.results[..] {
        [result] if adds => {
            matches!(stage.body.ops[result], ScalarOp::Binary(BinaryOp::Mul, a, b) if is_factor(a) && is_factor(b))
        }
        _ => false,
    }
}
