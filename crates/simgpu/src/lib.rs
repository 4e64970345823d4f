//! The simulator of PTX ([`infc_ptxsim`]) as a GPU: kernels of the back end are launched on buffers ([`launch()`]), and
//! whole artifacts run by the runtime with [`Simulator`] in the place of the driver.
//!
//! Only tests depend on this crate, and the command `infc-simulated`, which is for developers.

#![forbid(unsafe_code)]

mod gpu;
mod launch;

pub use gpu::{Copied, Simulator};
pub use launch::{STEP_LIMIT, launch};
