//! The `.infa` file: one model as machine code or PTX, weights and a plan, readable without running anything.
//!
//! The compiler builds a file with [`ArtifactBuilder`]; the runtime and `inspect` read it with [`Artifact`]. The levels,
//! from the bytes up:
//!
//! 1. [`container`]: magic, version, section table, hashes. Knows nothing of models.
//! 2. [`Manifest`] (one per file) and [`VariantBody`] (one per feature level): what the sections mean, as postcard.
//! 3. [`Program`]: the steps one entry runs, over slots whose sizes are [`SizeExpr`]s of the input dims.
//! 4. [`MemoryPlan`]: where the slots lie in the arena; made here so that compiler and runtime agree to the byte.
//!
//! Everything read is hostile until checked: bounds, counts, ids and lifetimes are verified before a value leaves this
//! crate, and no input makes it panic, recurse or allocate without limit. The machine code itself cannot be checked:
//! running an artifact from somebody you do not trust is running their program.

#![forbid(unsafe_code)]

mod artifact;
mod builder;
pub mod container;
mod cubin;
mod error;
pub mod features;
mod hash;
mod manifest;
mod plan;
mod program;
mod residency;
mod segments;
mod size_expr;
mod thin;
mod validate;
mod variant;
mod wire;

pub use artifact::Artifact;
pub use builder::{ArtifactBuilder, EncodedArtifact, NewWeight, VariantBuilder};
pub use cubin::Cubin;
pub use error::ArtifactError;
pub use hash::Hash;
pub use manifest::{
    Append, Assumption, Binding, BindingSource, Entry, FixedSymbol, Manifest, PortSpec, Provenance, Relation,
    Specialization, StatePair, SymbolSpec, VariantInfo, WeightRecord,
};
pub use plan::{ARENA_ALIGN, MemoryPlan, Planner};
pub use program::{
    Access, ArenaSlot, Arg, Bind, BindFrom, BindSymbol, Copy, Give, Host, HostArg, HostSlot, If, Launch, LoopBody,
    Program, Require, Slot, Step,
};
pub use residency::{Crossing, Residency, Side, crossings};
pub use segments::Segments;
pub use size_expr::{EvalError, SizeExpr, SizeOp};
pub use variant::{DeviceKernel, KernelInfo, VariantBody};
