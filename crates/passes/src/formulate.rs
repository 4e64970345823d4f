//! Formulations: rewrites of a kernel that keep what it computes, each with an [error class](crate::ErrorClass)
//! (ARCHITECTURE.md D4).
//!
//! They run between formation and scheduling. The kernel before any formulation stays the key under which tuning
//! results are recorded.

pub(crate) mod bring;
pub(crate) mod cache;
pub mod collapse;
pub mod defer;
pub mod divide;
pub(crate) mod insert;
pub(crate) mod interleave;
pub mod online;
pub(crate) mod pad;
pub(crate) mod part;
pub mod reals;
pub(crate) mod rfactor;
pub(crate) mod tf32;
pub mod unit;
pub mod winograd;

pub use winograd::FilterTransform;

use infc_ir::kernel::Kernel;

/// Rewrites that always help, all of them exact.
///
/// A kernel with an axis of no points stays as it is: there is nothing to gain, and its strides say nothing.
#[must_use]
pub fn normalise(kernel: Kernel) -> Kernel {
    if has_empty_axis(&kernel) {
        return kernel;
    }
    collapse::run(divide::run(reals::run(unit::run(kernel))))
}

/// Whether a stage has an axis that is known to have no points.
pub(crate) fn has_empty_axis(kernel: &Kernel) -> bool {
    kernel.stages.iter().flat_map(|stage| &stage.axes).any(|axis| axis.extent.is_const(0))
}
