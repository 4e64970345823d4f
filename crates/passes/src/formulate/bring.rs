//! Makes what a stage reads of an operand a stage of its own in front.
//!
//! A factor that is stored narrower than it is used is converted at every load; as a stage it can be converted once for
//! all that read it again, such as columns of weights for all rows. Error class: exact.

use super::insert::insert;
use infc_ir::entity::{EntityId, OperandId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{Axis, AxisKind, Kernel, Stage};
use infc_ir::scalar::{Body, Const, Load, ScalarOp, Source};

/// The kernel with a stage in front of another that loads the operand for it, over the axes along which that moves, those
/// of the result innermost; in the type that the load is converted to, if it is. `None` if the stage does not load the
/// operand exactly once, at places that are known and without conditions, or is part of a recurrence.
pub(crate) fn bring(kernel: &Kernel, id: StageId, operand: OperandId, name: &str) -> Option<Kernel> {
    let reader = &kernel.stages[id];
    let of_operand = |op: &ScalarOp| matches!(op, ScalarOp::Load(load) if load.source == Source::Operand(operand));
    let mut loads = reader.body.ops.iter_enumerated().filter(|(_, op)| of_operand(op));
    let (Some((load_id, ScalarOp::Load(load))), None) = (loads.next(), loads.next()) else { return None };
    if !load.gather.is_empty() || !load.valid.is_empty() || kernel.recurrence_of(id).is_some() {
        return None;
    }
    // All readers of the load convert it alike, or it is brought as it is.
    let mut users = reader.body.ops.iter_enumerated().filter(|(_, op)| {
        let mut reads = false;
        op.for_each_operand(&mut |o| reads |= o == load_id);
        reads
    });
    let (at, dtype) = match (users.next(), users.next()) {
        (Some((user, &ScalarOp::Cast(to, _))), None) if !reader.results.contains(&load_id) => (user, to),
        _ => (load_id, load.dtype),
    };
    let moves = |axis: usize| load.index.iter().any(|e| e.uses_var(VarId::from_index(axis)));
    let of_kind = |reduced: bool| {
        let axes = reader.axes.iter().enumerate();
        axes.filter(move |(_, a)| (a.kind == AxisKind::Reduce) == reduced).map(|(n, _)| n)
    };
    let axes: Vec<usize> = of_kind(true).chain(of_kind(false)).filter(|&axis| moves(axis)).collect();

    let mut place = vec![IndexExpr::constant(0); reader.axes.len()];
    for (n, &axis) in axes.iter().enumerate() {
        place[axis] = IndexExpr::var(VarId::from_index(n));
    }
    let mut body = Body::default();
    let moved = ScalarOp::Load(load.clone()).map_indices(&|e| e.substitute_vars(&place));
    let loaded = body.push(moved);
    let result = body.cast(dtype, loaded);
    let stage = Stage {
        name: name.to_owned(),
        axes: axes.iter().map(|&a| Axis { kind: AxisKind::Parallel, ..reader.axes[a].clone() }).collect(),
        body,
        results: vec![result],
        reducer: None,
    };

    let mut new = kernel.clone();
    insert(&mut new, id, stage);
    let index = axes.iter().map(|&a| IndexExpr::var(VarId::from_index(a))).collect();
    let source = Source::Stage(id, 0);
    let read = Load { source, index, gather: Vec::new(), valid: Vec::new(), otherwise: Const::zero(dtype), dtype };
    let reader = &mut new.stages[StageId::from_index(id.index() + 1)];
    reader.body.ops[at] = ScalarOp::Load(read);
    // The load that is no longer read would look like a read to whoever asks.
    let mut clean = Body::default();
    reader.results = clean.import(&reader.body, &reader.results, &mut |_, _| None);
    reader.body = clean;
    Some(new)
}
