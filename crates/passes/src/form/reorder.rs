//! Changing the order of a stage's axes without changing what it means.

use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::IndexExpr;
use infc_ir::kernel::{AxisKind, Kernel, Layout};
use infc_ir::scalar::{ScalarOp, Source};

/// Makes the n-th axis of the stage the one that was `order[n]`.
pub(super) fn reorder_axes(kernel: &mut Kernel, stage: StageId, order: &[usize]) {
    if order.iter().enumerate().all(|(n, &old)| n == old) {
        return;
    }
    let mut renamed = vec![IndexExpr::constant(0); order.len()];
    for (new, &old) in order.iter().enumerate() {
        renamed[old] = IndexExpr::var(VarId(new as u32));
    }
    let rename = |e: &IndexExpr| e.substitute_vars(&renamed);
    let value_axes = |axes: &[infc_ir::kernel::Axis], order: &[usize]| -> Vec<usize> {
        order.iter().copied().filter(|&n| axes[n].kind != AxisKind::Reduce).collect()
    };
    let s = &mut kernel.stages[stage];
    let before = value_axes(&s.axes, &(0..s.axes.len()).collect::<Vec<_>>());
    let after = value_axes(&s.axes, order);
    s.axes = order.iter().map(|&old| s.axes[old].clone()).collect();
    for op in s.body.ops.iter_mut() {
        *op = op.map_indices(&rename);
    }
    for output in kernel.outputs.iter_mut().filter(|o| o.stage == stage) {
        output.index = output.index.iter().map(rename).collect();
    }
    // Readers name the coordinates in the order of the stage's value axes.
    let moved: Vec<usize> =
        after.iter().map(|axis| before.iter().position(|b| b == axis).expect("the same axes")).collect();
    for reader in kernel.stages.iter_mut() {
        for op in reader.body.ops.iter_mut() {
            if let ScalarOp::Load(load) = op
                && matches!(load.source, Source::Stage(id, _) if id == stage)
            {
                load.index = moved.iter().map(|&n| load.index[n].clone()).collect();
                for (axis, _, _) in &mut load.gather {
                    *axis = moved.iter().position(|&n| n == usize::from(*axis)).expect("the same axes") as u8;
                }
            }
        }
    }
}

/// How far apart in memory neighbours along each variable are: `None` where it is not a number.
pub(super) fn memory_steps(layout: &Layout, index: &[IndexExpr], rank: usize) -> Vec<Option<i64>> {
    let flat = layout.flat(index);
    (0..rank)
        .map(|n| {
            let (step, _) = flat.linear_in(VarId::from_index(n))?;
            step.as_const().map(i64::abs)
        })
        .collect()
}

/// Axes from the largest step to the smallest; unknown steps count as large, and equal ones stay in order.
pub(super) fn by_step(axes: &[usize], steps: &[Option<i64>]) -> Vec<usize> {
    let mut order = axes.to_vec();
    order.sort_by_key(|&n| std::cmp::Reverse(steps[n].unwrap_or(i64::MAX)));
    order
}
