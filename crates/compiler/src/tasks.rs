//! What there is to tune of a model: its distinct kernels.

use crate::kernels;
use crate::records::{KernelKey, key_text};
use infc_ir::kernel::Kernel;
use infc_passes::form::GraphPlan;

/// A kernel whose schedule can be searched for.
#[derive(Clone, Debug)]
pub struct Task {
    /// What records call it.
    pub key: KernelKey,
    /// The text of which that is the hash: the kernel as planned, without its name.
    pub text: String,
    /// The kernel, formulated.
    pub kernel: Kernel,
    /// The ONNX nodes that it computes.
    pub origins: Vec<String>,
    /// How often a run of the model launches it, or a run of each case.
    pub launches: usize,
}

/// The distinct kernels of some plans of one model: that of the general case, and those of special cases.
#[must_use]
pub fn tasks(plans: &[&GraphPlan]) -> Vec<Task> {
    let kernels = kernels::formulate(plans);
    let launches = |n: usize| kernels.of_planned.iter().flatten().filter(|&&k| k == n).count();
    let planned = plans.iter().flat_map(|plan| &plan.kernels).zip(kernels.of_planned.iter().flatten());
    let mut tasks: Vec<Option<Task>> = vec![None; kernels.distinct.len()];
    for (planned, &n) in planned {
        tasks[n].get_or_insert_with(|| {
            let text = key_text(&planned.kernel);
            let distinct = &kernels.distinct[n];
            Task {
                key: KernelKey::of_text(&text),
                text,
                kernel: distinct.kernel.clone(),
                origins: distinct.origins.clone(),
                launches: launches(n),
            }
        });
    }
    // Each stands for a planned one.
    tasks.into_iter().flatten().collect()
}
