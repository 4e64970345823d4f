//! Sums of columns that are taken apart, since their constants are arranged for it (`form::pack`).

use super::access::PANEL;
use super::dot::{self, in_groups, step_in_groups};
use crate::form::contraction::contraction;
use crate::form::pack;
use crate::formulate::interleave;
use infc_ir::entity::{EntityId, StageId};
use infc_ir::kernel::Kernel;
use infc_ir::schedule::Step;
use infc_tensor::DType;

/// Sums that a column may be taken apart into.
const SUMS: [i64; 3] = [8, 4, 2];

/// The kernel with sums taken apart whose constants have neighbours along an axis next to each other, column by column,
/// and the steps that do that.
pub(super) fn with_sums_apart(kernel: &Kernel) -> (Option<Kernel>, Vec<Step>) {
    let (mut apart, mut steps) = (None, Vec::new());
    for stage in kernel.stages.ids() {
        let kernel = apart.as_ref().unwrap_or(kernel);
        let Some((summed, columns, sums)) = interleaved(kernel, stage) else { continue };
        let s = &kernel.stages[stage];
        let name = format!("{}{}", s.axes[columns].name, s.axes[summed].name);
        if s.axes.iter().any(|axis| axis.name == name) {
            continue;
        }
        let Some(changed) = interleave::interleave(kernel, stage, summed, columns, sums, &name) else { continue };
        steps.push(Step::Interleave {
            stage: s.name.clone(),
            axis: s.axes[summed].name.clone(),
            points: sums as u32,
            columns: s.axes[columns].name.clone(),
            joined: name,
        });
        apart = Some(changed);
    }
    (apart, steps)
}

/// The summed axis of a contraction of f32 and that of its columns, with the number of neighbours along the first that the
/// constant has next to each other for each column.
fn interleaved(kernel: &Kernel, stage: StageId) -> Option<(usize, usize, i64)> {
    let s = &kernel.stages[stage];
    let c = contraction(kernel, s).filter(|c| c.rhs_is_constant)?;
    // Instructions that sum several products take their neighbours as they are.
    if s.dtypes() != [DType::F32] || dot::of(kernel, s).is_some() {
        return None;
    }
    let columns = c.columns().first()?.index();
    let is_apart = |&sums: &i64| step_in_groups(kernel, s, c.rhs, columns, PANEL / sums) == Some(sums);
    let sums = SUMS.into_iter().find(is_apart)?;
    let along = |&axis: &usize| [c.rhs, c.lhs].into_iter().all(|load| in_groups(kernel, s, load, axis, sums));
    let summed = s.reduce_axes().map(|(axis, _)| axis).find(along)?;
    // What is not arranged for it may look the same: eight rows of two numbers.
    let extent = |axis: usize| s.axes[axis].extent.as_const();
    let points = s.reduce_axes().try_fold(1i64, |points, (axis, _)| points.checked_mul(extent(axis)?))?;
    (pack::interleaved::sums(extent(columns)?, points, extent(summed)?) == Some(sums))
        .then_some((summed, columns, sums))
}
