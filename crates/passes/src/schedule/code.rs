//! How much straight code a nest becomes, which has a limit: schedules come from files, too.

use super::ScheduleError;
use super::emit::Emitter;
use infc_ir::entity::StageId;
use infc_ir::index::IndexExpr;
use infc_ir::nest::LoopKind;
use std::cell::Cell;

/// Scalar operations of a nest at most, with those of unrolled loops as often as these turn: many times what the default
/// choice makes of the largest kernels.
const MAX_OPERATIONS: usize = 1 << 17;

/// Stages that are computed where they are read within one expression, at most.
const MAX_IMPORTED: usize = 1 << 12;

/// What has been emitted so far.
#[derive(Debug)]
pub(super) struct StraightCode {
    /// Turns of the unrolled loops around what is emitted now.
    copies: usize,
    /// Scalar operations, each as often as it stands in the code.
    operations: usize,
    /// Stages that were imported into the expression at hand, each as often as it was.
    imported: Cell<usize>,
}

impl Default for StraightCode {
    fn default() -> Self {
        Self { copies: 1, operations: 0, imported: Cell::new(0) }
    }
}

impl StraightCode {
    /// What follows is in a loop; gives what [`StraightCode::leave`] wants to know at its end.
    pub(super) fn enter(&mut self, kind: LoopKind, extent: &IndexExpr) -> usize {
        let before = self.copies;
        if matches!(kind, LoopKind::Unrolled) || matches!(kind, LoopKind::Tensor(intrinsic) if !intrinsic.is_tile()) {
            let turns = extent.as_const().and_then(|turns| usize::try_from(turns).ok());
            self.copies = before.saturating_mul(turns.unwrap_or(usize::MAX));
        }
        before
    }

    /// The loop ends here.
    pub(super) fn leave(&mut self, before: usize) {
        self.copies = before;
    }
}

impl Emitter<'_> {
    /// Another expression begins.
    pub(super) fn begin_expression(&self) {
        self.code.imported.set(0);
    }

    /// Counts a stage that is imported into an expression: what is inlined twice in what is inlined twice is imported four
    /// times, even if nothing comes of it that was not there.
    ///
    /// # Errors
    /// The expression becomes too long.
    pub(super) fn import_one(&self, stage: StageId) -> Result<(), ScheduleError> {
        let imported = self.code.imported.get() + 1;
        self.code.imported.set(imported);
        if imported <= MAX_IMPORTED { Ok(()) } else { Err(self.too_long(stage)) }
    }

    /// Counts so many scalar operations of a stage.
    ///
    /// # Errors
    /// The code becomes too long.
    pub(super) fn spend(&mut self, stage: StageId, operations: usize) -> Result<(), ScheduleError> {
        let code = &mut self.code;
        code.operations = code.operations.saturating_add(code.copies.saturating_mul(operations.max(1)));
        if code.operations <= MAX_OPERATIONS { Ok(()) } else { Err(self.too_long(stage)) }
    }

    /// The error of code that is too long.
    fn too_long(&self, stage: StageId) -> ScheduleError {
        let reason = format!(
            "its loops and those around it make more than {MAX_OPERATIONS} operations of straight code; unroll or split \
             less"
        );
        ScheduleError::Stage { stage: self.kernel.stages[stage].name.clone(), reason }
    }
}
