//! The GPU of this machine, if it is not the one that a driver finds.

use infc_runtime::Gpu;
use std::sync::{Arc, OnceLock};

/// Makes the GPU of a model that is loaded.
pub type MakeGpu = fn() -> Arc<dyn Gpu>;

static MAKE: OnceLock<Option<MakeGpu>> = OnceLock::new();

/// To be called once, when the process begins.
pub(crate) fn set(make: Option<MakeGpu>) {
    // A second call changes nothing.
    let _ = MAKE.set(make);
}

/// The GPU for a model that is loaded; `None` lets the runtime look for a driver.
pub(crate) fn for_model() -> Option<Arc<dyn Gpu>> {
    MAKE.get().copied().flatten().map(|make| make())
}
