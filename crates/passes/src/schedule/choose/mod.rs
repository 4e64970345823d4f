//! The untuned default: a schedule from the kernel and the machine description alone.
//!
//! Nothing here knows operators. Per stage the choice follows from how its loads and stores move along each axis
//! ([`access`]): which axis becomes vector lanes, which axes are unrolled into a register tile so that loads are reused
//! ([`tile`]), in which order the remaining loops run so that what is read again stays in cache, and where
//! intermediate stages are computed ([`place`]).

mod access;
mod machine;
mod place;
mod tile;

pub use machine::Machine;

use infc_ir::kernel::Kernel;
use infc_ir::schedule::Schedule;

/// A schedule for the kernel on the machine. It always applies: where nothing better is known, loops stay serial.
#[must_use]
pub fn choose(kernel: &Kernel, machine: &Machine) -> Schedule {
    let schedule = place::Chooser::new(kernel, machine).run();
    // A kernel that the rules above do not cover still gets code, if slow: plain loops, all stages in full.
    if super::apply(kernel, &schedule).is_ok() { schedule } else { Schedule::default() }
}
