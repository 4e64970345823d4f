//! Makes a load of a stage a stage of its own, which can lie in memory that is nearer (TVM's `cache_read`). Error class: exact.

use super::insert::{insert, load_of};
use infc_ir::entity::{EntityId, ScalarId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{Body, Load, ScalarOp};

/// The kernel with a stage of the given name in front, which loads what `load` does, over those axes of its reader that it
/// moves along ([`axes_of`]), in their order. `None` if `load` is none, if it reads at positions that data says or moves along
/// nothing, or if steps of a recurrence go through the stage.
pub(crate) fn cache(kernel: &Kernel, id: StageId, load: ScalarId, into: &str) -> Option<Kernel> {
    let reader = &kernel.stages[id];
    let ScalarOp::Load(what) = reader.body.ops.get(load)? else { return None };
    let axes = axes_of(reader, what);
    let is_stepped = reader.axes.iter().any(|axis| axis.kind == AxisKind::Sequential);
    if axes.is_empty() || !what.gather.is_empty() || is_stepped || kernel.recurrence_of(id).is_some() {
        return None;
    }
    let mut place = vec![IndexExpr::constant(0); reader.axes.len()];
    for (n, &axis) in axes.iter().enumerate() {
        place[axis] = IndexExpr::var(VarId::from_index(n));
    }
    let mut stage = Stage {
        name: into.to_owned(),
        axes: axes.iter().map(|&a| Axis { kind: AxisKind::Parallel, ..reader.axes[a].clone() }).collect(),
        body: Body::default(),
        results: Vec::new(),
        reducer: None,
    };
    let moved = ScalarOp::Load(what.clone()).map_indices(&|e| e.substitute_vars(&place));
    stage.results.push(stage.body.push(moved));
    let index = axes.iter().map(|&a| IndexExpr::var(VarId::from_index(a))).collect();
    let read = load_of(id, 0, index, what.dtype);
    let mut kernel = kernel.clone();
    insert(&mut kernel, id, stage);
    kernel.stages[StageId::from_index(id.index() + 1)].body.ops[load] = read;
    Some(kernel)
}

/// The axes of a stage that a load of it moves along, or whose coordinates decide whether it happens.
pub(crate) fn axes_of(stage: &Stage, load: &Load) -> Vec<usize> {
    let uses = |axis: usize| {
        let var = VarId::from_index(axis);
        load.index.iter().any(|e| e.uses_var(var))
            || load.valid.iter().any(|b| [&b.expr, &b.lo, &b.hi].iter().any(|e| e.uses_var(var)))
    };
    (0..stage.axes.len()).filter(|&axis| uses(axis)).collect()
}
