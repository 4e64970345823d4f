//! Takes an axis of a stage apart.
//!
//! The sums of a recurrence's gates lie behind each other along one axis, `[t, 4·H]`, and whoever makes a unit's state reads
//! the same place of all of them. As `[t, 4, H]` what a unit needs is a box of coordinates. Error class: exact.

use infc_ir::entity::{EntityId, StageId, VarId};
use infc_ir::index::{Atom, IndexExpr};
use infc_ir::kernel::{Axis, AxisKind, Kernel};
use infc_ir::scalar::{ScalarOp, Source};

/// The kernel with one axis of a stage as two, the inner one of `points` points. `None` if the stage is an output or reads
/// itself, or if the axis is not parallel, or its extent no multiple of `points` that is known.
pub(crate) fn part(
    kernel: &Kernel,
    stage: StageId,
    axis: usize,
    points: i64,
    [outer, inner]: [&str; 2],
) -> Option<Kernel> {
    let old = &kernel.stages[stage];
    let extent = old.axes[axis].extent.as_const()?;
    let is_output = kernel.outputs.iter().any(|o| o.stage == stage);
    let mut reads_itself = false;
    old.for_each_load(&mut |_, load| {
        reads_itself |= matches!(load.source, Source::Stage(source, _) if source == stage)
    });
    if is_output || reads_itself || old.axes[axis].kind != AxisKind::Parallel || points < 1 || extent % points != 0 {
        return None;
    }
    let position = old.value_axes().position(|(n, _)| n == axis)?;
    let mut new = kernel.clone();
    let target = &mut new.stages[stage];
    let of = |name: &str, extent: i64| Axis { name: name.to_owned(), extent: extent.into(), kind: AxisKind::Parallel };
    target.axes[axis] = of(outer, extent / points);
    target.axes.insert(axis + 1, of(inner, points));
    let at = |n: usize| IndexExpr::var(VarId::from_index(n));
    let coordinates: Vec<IndexExpr> = (0..old.axes.len())
        .map(|n| match n {
            _ if n == axis => at(axis).scale(points) + at(axis + 1),
            _ => at(if n > axis { n + 1 } else { n }),
        })
        .collect();
    let ranges = target.ranges(&kernel.symbols);
    for op in target.body.ops.iter_mut() {
        *op = op.map_indices(&|e| {
            let replaced = e.substitute(&|atom| match atom {
                Atom::Var(v) => coordinates.get(v.index()).cloned(),
                _ => None,
            });
            replaced.simplify(&ranges)
        });
    }
    for id in kernel.stages.ids().filter(|&id| id != stage) {
        let ranges = kernel.stages[id].ranges(&kernel.symbols);
        for op in new.stages[id].body.ops.iter_mut() {
            let ScalarOp::Load(load) = op else { continue };
            if !matches!(load.source, Source::Stage(source, _) if source == stage) {
                continue;
            }
            if load.gather.iter().any(|&(gathered, _, _)| usize::from(gathered) == position) {
                return None;
            }
            let whole = load.index[position].clone();
            let points = IndexExpr::constant(points);
            load.index[position] = whole.floor_div(&points).simplify(&ranges);
            load.index.insert(position + 1, whole.modulo(&points).simplify(&ranges));
            for (gathered, _, _) in &mut load.gather {
                if usize::from(*gathered) > position {
                    *gathered += 1;
                }
            }
        }
    }
    Some(new)
}
