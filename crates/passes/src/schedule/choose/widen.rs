//! Factors that are stored as halves and converted for many rows: rather once for all of them.
//!
//! Converting a vector takes an instruction for each tile of rows, which is a tenth of the time of products that are
//! bounded by arithmetic. From [`STORED_ROWS`] rows on the columns of a tile are converted in front, to memory of the
//! thread's own; the conversion is then one of as many instructions as there are rows.

use super::access::accesses;
use super::decode::STORED_ROWS;
use super::{dot, stored};
use crate::formulate::bring;
use infc_ir::entity::{OperandId, StageId};
use infc_ir::kernel::{AxisKind, Kernel, OperandKind};
use infc_ir::schedule::Step;

/// The kernel with such factors brought to their sum by stages of their own, and the steps that do that.
pub(super) fn with_factors_brought(kernel: &Kernel) -> (Option<Kernel>, Vec<Step>) {
    // Kernels of several sums place their stages by other rules.
    let mut sums = kernel.stages.iter_enumerated().filter(|(_, stage)| stage.reducer.is_some());
    let (Some((id, _)), None) = (sums.next(), sums.next()) else { return (None, Vec::new()) };
    let stage = &kernel.stages[id];
    // Instructions that sum several products take halves as they are.
    if dot::of(kernel, stage).is_some() {
        return (None, Vec::new());
    }
    let Some(operand) = factor(kernel, id) else { return (None, Vec::new()) };
    let name = kernel.operands[operand].name.clone();
    let into = format!("{}_{name}", stage.name);
    let is_free = kernel.stages.iter().all(|other| other.name != into);
    match bring::bring(kernel, id, operand, &into).filter(|_| is_free) {
        Some(brought) => (Some(brought), vec![Step::Bring { stage: stage.name.clone(), operand: name, into }]),
        None => (None, Vec::new()),
    }
}

/// The constant that a sum of products converts, if it has enough rows that share it.
fn factor(kernel: &Kernel, id: StageId) -> Option<OperandId> {
    let stage = &kernel.stages[id];
    let inlined = stored::inlined(kernel);
    accesses(kernel, id, &inlined).iter().filter(|access| access.widened).find_map(|access| {
        let operand = access.operand.filter(|&o| kernel.operands[o].kind == OperandKind::Constant)?;
        let is_row = |axis: usize| {
            stage.axes[axis].kind == AxisKind::Parallel && access.steps[axis] == super::access::Step::Zero
        };
        // Of rows that the run tells there may be one.
        let known = |axis: usize| stage.axes[axis].extent.as_const().unwrap_or(1);
        let rows: i64 = (0..stage.axes.len()).filter(|&axis| is_row(axis)).map(known).product();
        (rows >= STORED_ROWS).then_some(operand)
    })
}
