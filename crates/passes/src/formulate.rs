//! Formulations: rewrites of a kernel that keep what it computes, each with an [error class](crate::ErrorClass)
//! (ARCHITECTURE.md D4).
//!
//! They run between formation and scheduling. The kernel before any formulation stays the key under which tuning
//! results are recorded.

pub mod collapse;
pub mod unit;

use infc_ir::kernel::Kernel;

/// Rewrites that always help, all of them exact.
#[must_use]
pub fn normalise(kernel: Kernel) -> Kernel {
    collapse::run(unit::run(kernel))
}
