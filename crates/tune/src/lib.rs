//! Tuning: the search for schedules that are quicker than the default choice.
//!
//! The space is that of [`infc_passes::schedule::decide`]: every decision of the default choice may be made otherwise, so
//! it comes from the kernel, not from a template per operator. [`Search`] proposes schedules of one kernel, first those
//! that differ in one decision, the likeliest by estimate first, then descendants of the best so far; of many it proposes
//! those of which the [`CostModel`] expects most. That model is boosted trees ([`BoostedTrees`]) over [`features`] of loop
//! nests, learned from the trials of all kernels while the search goes on. A [`Tournament`] gives the next trial to the
//! kernel that has most to gain.
//!
//! Whoever measures ([`Measure`]) says how two schedules compare, and [`Verdict`] decides whether that is more than noise;
//! [`Replay`] answers with what was measured once. What was found is kept as lines of a [`RecordFile`], from which
//! `infc compile --records` takes its schedules.

#![forbid(unsafe_code)]

mod builtin;
mod choice;
mod contest;
mod features;
mod file;
mod interval;
mod lesson;
mod measure;
mod model;
mod profile;
mod proven;
mod random;
mod record;
mod search;
mod tournament;
mod trees;
mod verdict;

pub use builtin::{MachineKind, builtin_kinds, builtin_records};
pub use choice::ChoiceRecord;
pub use contest::{Contest, Outcome};
pub use features::{FEATURE_NAMES, GPU_FEATURE_NAMES, any_features, features, gpu_features};
pub use file::{BadRecord, RecordFile};
pub use interval::{median, median_interval};
pub use lesson::{Lesson, lessons};
pub use measure::{LOG_HEAD, Logged, Measure, Replay, ReplayError};
pub use model::{CostModel, sample, spearman};
pub use profile::{Arithmetic, Compared, MachineProfile, Measured, Memory, PROFILE_BYTES, plausible, with_machine};
pub use proven::{Place, Proven, Times};
pub use random::Random;
pub use record::{Proof, Record, SPACE_VERSION, Standing};
pub use search::{Proposal, Search, Strategy};
pub use tournament::{Rules, Tournament};
pub use trees::{BoostedTrees, TreeOptions};
pub use verdict::Verdict;
