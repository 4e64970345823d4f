//! What can be wrong with a schedule.

/// A schedule that cannot be applied to its kernel.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum ScheduleError {
    #[error("step `{step}`: the kernel has no stage `{stage}`")]
    UnknownStage { step: String, stage: String },
    #[error("step `{step}`: stage `{stage}` has no loop `{axis}` at this point; it has {loops}")]
    UnknownLoop { step: String, stage: String, axis: String, loops: String },
    #[error("step `{step}`: {reason}")]
    Illegal { step: String, reason: String },
    #[error("stage `{stage}`: {reason}")]
    Stage { stage: String, reason: String },
}
