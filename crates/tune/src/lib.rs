//! Tuning: the search for schedules that are quicker than the default choice.
//!
//! The space is that of [`infc_passes::schedule::decide`]: every decision of the default choice may be made otherwise, so
//! it comes from the kernel, not from a template per operator. [`Search`] proposes schedules of one kernel, first those
//! that differ in one decision, then descendants of the best so far. Whoever measures them says how they compare, and
//! [`Verdict`] decides whether that is more than noise. What was found is kept as lines of a [`RecordFile`], from which
//! `infc compile --records` takes its schedules.

#![forbid(unsafe_code)]

mod file;
mod record;
mod search;
mod verdict;

pub use file::{BadRecord, RecordFile};
pub use record::{Place, Proof, Record, SPACE_VERSION, Standing};
pub use search::{Proposal, Search};
pub use verdict::Verdict;
