//! What can be asked of kernel formation.

use super::append::Append;
use super::choices::Answers;
use super::pack::Packs;
use crate::ErrorClass;
use std::sync::Arc;

/// What formation may decide.
#[derive(Clone, Debug)]
pub struct FormOptions {
    /// Under [`ErrorClass::Exact`] sums keep the order of their axes.
    pub allowed: ErrorClass,
    /// Whether a kernel may keep values between its stages whose size only a run tells (scores of attention, tiles of
    /// images). Threads of processors find memory for that; those of GPUs have what their code says.
    pub keeps_any_size: bool,
    /// Whether attention is one kernel whatever its size. [`super::form`] tries that by itself where kernels keep no values of any
    /// size: schedules for GPUs go through keys in blocks, of which there is something to keep of a known size.
    pub attends_any_size: bool,
    /// Whether convolutions may be computed by minimal filtering. It keeps transformed tiles of an image between its stages,
    /// for which processors have caches; on GPUs blocks would compute them again and again, or one would compute all.
    pub filters: bool,
    /// Whether the right operand of a product of two computed values is copied so that its columns are neighbours, as vectors
    /// take them. GPUs bring tiles of it to shared memory in any case.
    pub turns: bool,
    /// Bytes of a line of memory that rows of packed constants are to be, for GPUs ([`super::Packs::line_bytes`]).
    pub line_bytes: Option<i64>,
    /// How large the constants of the plan may become, over their size in the graph.
    pub max_weight_growth: f64,
    /// Outputs that are inputs of the next run: their numbers, and those of the inputs.
    pub states: Vec<(usize, usize)>,
    /// How these states lie, if another plan of the same model has decided that: one that grows in place there does so
    /// here with the same capacity, or not at all. `None` to decide it.
    pub appends: Option<Vec<Option<Append>>>,
    /// What measuring has found of choices that are estimated otherwise.
    pub answers: Option<Arc<dyn Answers>>,
    /// Whether all choices are listed in the plan's log ([`super::PlanLog::choices`]), and not only those that were answered.
    pub lists_choices: bool,
}

impl Default for FormOptions {
    fn default() -> Self {
        Self {
            allowed: ErrorClass::Reassociating,
            keeps_any_size: true,
            attends_any_size: false,
            filters: true,
            turns: true,
            line_bytes: None,
            max_weight_growth: 1.3,
            states: Vec::new(),
            appends: None,
            answers: None,
            lists_choices: false,
        }
    }
}

impl FormOptions {
    /// How constants are packed.
    pub(super) fn packs(&self) -> Packs {
        Packs { reorders: self.reorders(), line_bytes: self.line_bytes }
    }

    /// Whether sums may be folded in another order.
    pub(super) fn reorders(&self) -> bool {
        self.allowed >= ErrorClass::Reassociating
    }
}
