//! What there is to tune of a model: its distinct kernels.

use crate::kernels;
use crate::records::KernelKey;
use infc_ir::kernel::Kernel;
use infc_passes::form::GraphPlan;

/// A kernel whose schedule can be searched for.
#[derive(Clone, Debug)]
pub struct Task {
    /// What records call it.
    pub key: KernelKey,
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
    let task = |(n, d): (usize, &kernels::Distinct)| Task {
        // There is one: the kernel stands for a planned one.
        key: d.keys[0],
        kernel: d.kernel.clone(),
        origins: d.origins.clone(),
        launches: launches(n),
    };
    kernels.distinct.iter().enumerate().map(task).collect()
}
