//! Which sums can be dot products of bytes: four points of a reduction axis at a time.

use super::access::{Step, step_of};
use infc_ir::entity::{EntityId, ScalarId, VarId};
use infc_ir::index::{IndexExpr, Interval};
use infc_ir::kernel::{AxisKind, Kernel, Stage};
use infc_ir::scalar::{BinaryOp, Load, ScalarOp, Source};
use infc_tensor::DType;

/// Points that one dot product sums.
pub(super) const POINTS: i64 = 4;

/// The reduction axis of a stage that sums products of an unsigned and a signed byte in i32, along which both lie next
/// to each other in groups of four.
pub(super) fn axis(kernel: &Kernel, stage: &Stage) -> Option<usize> {
    if stage.reducer.as_ref()?.as_binary() != Some(BinaryOp::Add) || stage.dtypes() != [DType::I32] {
        return None;
    }
    let ScalarOp::Binary(BinaryOp::Mul, a, b) = stage.body.ops[*stage.results.first()?] else { return None };
    let (a, b) = (byte(stage, a)?, byte(stage, b)?);
    let signs = [a.dtype, b.dtype];
    if !(signs.contains(&DType::U8) && signs.contains(&DType::I8)) {
        return None;
    }
    // Lanes need groups side by side.
    let flat = |load: &Load| match load.source {
        Source::Operand(operand) => kernel.operands[operand].layout.flat(&load.index),
        Source::Stage(..) | Source::Buffer(_) => IndexExpr::constant(0),
    };
    let ranges = stage.ranges(&kernel.symbols);
    let flats = [a, b].map(|load| flat(load).simplify(&ranges));
    let has_lanes = stage.value_axes().any(|(axis, _)| {
        let steps = flats.each_ref().map(|flat| step_of(kernel, stage, flat, axis, POINTS));
        steps.contains(&Step::One) && !steps.contains(&Step::Far)
    });
    if !has_lanes {
        return None;
    }
    let along = |&axis: &usize| [a, b].into_iter().all(|load| in_groups(kernel, stage, load, axis));
    (0..stage.axes.len()).rev().filter(|&n| stage.axes[n].kind == AxisKind::Reduce).find(along)
}

/// The load of an operand behind a conversion to i32, if it always happens.
fn byte(stage: &Stage, id: ScalarId) -> Option<&Load> {
    let ScalarOp::Cast(DType::I32, inner) = stage.body.ops[id] else { return None };
    match &stage.body.ops[inner] {
        ScalarOp::Load(load) if load.gather.is_empty() && matches!(load.source, Source::Operand(_)) => Some(load),
        _ => None,
    }
}

/// True if every four points of the axis from a multiple of four on are neighbours, whatever the other coordinates.
fn in_groups(kernel: &Kernel, stage: &Stage, load: &Load, axis: usize) -> bool {
    let Source::Operand(operand) = load.source else { return false };
    if stage.axes[axis].extent.as_const().is_none_or(|n| n % POINTS != 0) {
        return false;
    }
    let var = VarId::from_index(axis);
    let (group, place) = (VarId::from_index(stage.axes.len()), VarId::from_index(stage.axes.len() + 1));
    let mut ranges = stage.ranges(&kernel.symbols);
    ranges.set_var(place, Interval::new(0, POINTS - 1));
    ranges.set_var(group, Interval { min: Some(0), max: None });
    let flat = kernel.operands[operand].layout.flat(&load.index);
    let split = flat
        .substitute(&|atom| match atom {
            infc_ir::index::Atom::Var(v) if *v == var => {
                Some(IndexExpr::var(group).scale(POINTS) + IndexExpr::var(place))
            }
            _ => None,
        })
        .simplify(&ranges);
    split.linear_in(place).is_some_and(|(step, _)| step.is_const(1))
}
