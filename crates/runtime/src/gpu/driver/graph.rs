//! Operations that follow each other as a graph of the driver's, each of which can be changed.
//!
//! The graph is made node by node, not recorded from a stream, since nodes are what a change names.

use super::table::{CopyNode, EARLY, EarlyStarts, Graphs, Handle, KernelNode, MEMORY_OF_DEVICE, PlaceOfCopy};
use super::{NvidiaGpu, extra_of};
use crate::gpu::{GpuAddress, GpuOperation};
use std::collections::BTreeMap;
use std::ffi::c_int;
use std::ptr::null_mut;

/// A graph whose nodes follow each other, and the instance of it that is started.
pub(super) struct Chain {
    graph: Handle,
    instance: Handle,
    nodes: Vec<Handle>,
}

/// Functions that are loaded, by number; with the number of the module.
type Functions = BTreeMap<u64, (u64, Handle)>;

impl Chain {
    /// The graph of operations and an instance of it; `None` if the driver makes none.
    pub(super) fn of(gpu: &NvidiaGpu, operations: &[GpuOperation<'_>]) -> Option<Self> {
        let early = gpu.table.early_starts.as_ref();
        // A driver may have such edges and refuse them.
        let made = early.and_then(|early| Self::made(gpu, operations, Some(early)));
        made.or_else(|| Self::made(gpu, operations, None))
    }

    /// The same, whose kernels begin early if they may and it is told how.
    fn made(gpu: &NvidiaGpu, operations: &[GpuOperation<'_>], early: Option<&EarlyStarts>) -> Option<Self> {
        let graphs = gpu.table.graphs.as_ref()?;
        let (mut graph, nodes) = (null_mut(), Vec::with_capacity(operations.len()));
        // SAFETY: a pointer to a variable of the type that is written.
        unsafe { gpu.call("cuGraphCreate", |_| (graphs.create)(&raw mut graph, 0)) }.ok()?;
        let mut chain = Self { graph, instance: null_mut(), nodes };
        let made = chain.fill(gpu, graphs, early, operations);
        if made.is_none() {
            chain.destroy(gpu);
            return None;
        }
        Some(chain)
    }

    fn fill(
        &mut self,
        gpu: &NvidiaGpu,
        graphs: &Graphs,
        early: Option<&EarlyStarts>,
        operations: &[GpuOperation<'_>],
    ) -> Option<()> {
        let graph = self.graph;
        for (n, operation) in operations.iter().enumerate() {
            let mut node = null_mut();
            let last = self.nodes.last().copied();
            // Kernels wait for kernels alone: whatever is before those has ended when they have.
            let early = early.filter(|_| waits(operation) && n > 0 && is_launch(&operations[n - 1]));
            let before = last.filter(|_| early.is_none());
            let (before, count) =
                (before.as_ref().map_or(std::ptr::null(), std::ptr::from_ref), usize::from(before.is_some()));
            let functions = &gpu.loaded().functions;
            // SAFETY: the graph is this one's own, and the node before one of its nodes, which `before` holds until the call
            // returns. The function is loaded, as long as the list of them is locked. What the description points to lives until
            // the call returns, which copies it.
            unsafe {
                with_node(functions, operation, |described| match described {
                    Node::Kernel(kernel) => gpu.call("cuGraphAddKernelNode", |_| {
                        (graphs.add_kernel)(&raw mut node, graph, before, count, kernel)
                    }),
                    Node::Copy(copy) => gpu.call("cuGraphAddMemcpyNode", |_| {
                        (graphs.add_copy)(&raw mut node, graph, before, count, copy, gpu.context)
                    }),
                })
            }?;
            self.nodes.push(node);
            if let (Some(early), Some(last)) = (early, last) {
                let (from, to) = (&raw const last, &raw const node);
                // SAFETY: both are nodes of this graph; pointers to one of each, which are read.
                unsafe {
                    gpu.call("cuGraphAddDependencies", |_| (early.add_edges)(graph, from, to, &raw const EARLY, 1))
                }
                .ok()?;
            }
        }
        let instance = &raw mut self.instance;
        // SAFETY: as above; a pointer to a variable of the type that is written.
        unsafe { gpu.call("cuGraphInstantiate", |_| (graphs.instantiate)(instance, graph, 0)) }.ok()
    }

    /// Puts an operation of the same kind into the place of one, from the next start of the instance on. `None` if that fails.
    pub(super) fn change(
        &self,
        gpu: &NvidiaGpu,
        functions: &Functions,
        at: usize,
        operation: &GpuOperation<'_>,
    ) -> Option<()> {
        let graphs = gpu.table.graphs.as_ref()?;
        let (instance, node) = (self.instance, *self.nodes.get(at)?);
        // SAFETY: the instance exists, and so does the graph whose node this is. Functions are loaded, and descriptions copied, as
        // above: whoever calls this holds the list.
        unsafe {
            with_node(functions, operation, |described| match described {
                Node::Kernel(kernel) => {
                    gpu.call("cuGraphExecKernelNodeSetParams", |_| (graphs.change_kernel)(instance, node, kernel))
                }
                Node::Copy(copy) => gpu.call("cuGraphExecMemcpyNodeSetParams", |_| {
                    (graphs.change_copy)(instance, node, copy, gpu.context)
                }),
            })
        }
    }

    /// What is started.
    pub(super) fn instance(&self) -> Handle {
        self.instance
    }

    /// Gives all of it back to the driver.
    pub(super) fn destroy(self, gpu: &NvidiaGpu) {
        let Some(graphs) = gpu.table.graphs.as_ref() else { return };
        // SAFETY: both were made by the driver, and nobody can name them any more.
        unsafe {
            if !self.instance.is_null() {
                let _ = gpu.call("cuGraphExecDestroy", |_| (graphs.destroy_instance)(self.instance));
            }
            let _ = gpu.call("cuGraphDestroy", |_| (graphs.destroy)(self.graph));
        }
    }
}

fn is_launch(operation: &GpuOperation<'_>) -> bool {
    matches!(operation, GpuOperation::Launch { .. })
}

/// Whether an operation itself waits for those before it.
fn waits(operation: &GpuOperation<'_>) -> bool {
    matches!(operation, GpuOperation::Launch { kernel, .. } if kernel.waits)
}

/// What the driver is told of an operation.
enum Node<'n> {
    Kernel(&'n KernelNode),
    Copy(&'n CopyNode),
}

/// Calls the driver with the description of an operation. `None` if it fails, or if there is no such description.
fn with_node<E>(
    functions: &Functions,
    operation: &GpuOperation<'_>,
    call: impl FnOnce(Node<'_>) -> Result<(), E>,
) -> Option<()> {
    match *operation {
        GpuOperation::Launch { function, kernel, grid, parameters } => {
            let (_, function) = *functions.get(&function.0)?;
            let mut len_bytes = size_of_val(parameters);
            let mut extra = extra_of(parameters, &mut len_bytes);
            let (block, shared_bytes) = (kernel.block, kernel.dynamic_shared_bytes);
            let (parameters, extra) = (null_mut(), extra.as_mut_ptr());
            call(Node::Kernel(&KernelNode { function, grid, block, shared_bytes, parameters, extra })).ok()
        }
        GpuOperation::Copy { from, to, len_bytes } => {
            // A row has to be no longer than the distance between rows, for which there is a limit: with a longer one operations
            // are started one by one.
            c_int::try_from(len_bytes).ok()?;
            let (from, to) = (place(from, len_bytes), place(to, len_bytes));
            call(Node::Copy(&CopyNode { from, to, width_bytes: len_bytes, height: 1, depth: 1 })).ok()
        }
    }
}

fn place(on_device: GpuAddress, pitch_bytes: usize) -> PlaceOfCopy {
    let (offsets, memory, height) = ([0; 4], MEMORY_OF_DEVICE, 1);
    let (on_host, array, reserved) = (null_mut(), null_mut(), null_mut());
    PlaceOfCopy { offsets, memory, on_host, on_device, array, reserved, pitch_bytes, height }
}
