//! GPUs: what this crate asks of one, and what a model keeps on it.
//!
//! [`Gpu`] stands between the runtime and a driver, so that all of it but the driver's own calls is tested where there is
//! no GPU: tests put a simulator there.

mod block;
mod code;
#[cfg(feature = "cuda")]
mod driver;
mod graphs;
mod stretch;
mod tensor;

pub(crate) use block::GpuBlock;
pub(crate) use code::GpuCode;
pub(crate) use stretch::Stretches;
pub use tensor::GpuTensor;

use infc_artifact::DeviceKernel;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// An address in a GPU's memory.
pub type GpuAddress = u64;

/// Code that was loaded onto a GPU; what the number means is up to the [`Gpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuModule(pub u64);

/// A kernel of a [`GpuModule`]; what the number means is up to the [`Gpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuFunction(pub u64);

/// Code as a driver takes it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GpuImage<'a> {
    /// The text of a PTX module.
    Ptx(&'a str),
    /// Machine code of the GPU's own compute capability, as an assembler writes it.
    Cubin(&'a [u8]),
}

/// Operations that a GPU has recorded; what the number means is up to the [`Gpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuGraph(pub u64);

/// A moment between two operations, by a GPU's own clock; what the number means is up to the [`Gpu`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GpuMark(pub u64);

/// What a GPU does without the host.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum GpuOperation<'a> {
    /// A kernel on a grid of blocks, none of whose extents is zero, with parameters of 8 bytes each.
    Launch {
        /// The kernel.
        function: GpuFunction,
        /// How it is started.
        kernel: &'a DeviceKernel,
        /// Blocks along x, y and z.
        grid: [u32; 3],
        /// What it is given.
        parameters: &'a [u64],
    },
    /// A copy from one place of its memory to another; the two do not overlap.
    Copy {
        /// Where the bytes are.
        from: GpuAddress,
        /// Where they are to be.
        to: GpuAddress,
        /// How many.
        len_bytes: usize,
    },
}

/// A GPU with its driver.
///
/// What one thread asks for happens in the order in which it was asked for. Nothing but [`Gpu::read`], [`Gpu::between`] and
/// [`Gpu::synchronize`] has to wait for what was started.
pub trait Gpu: fmt::Debug + Send + Sync {
    /// What it is called.
    fn name(&self) -> String;

    /// Its compute capability: major·10 + minor.
    fn capability(&self) -> u32;

    /// The newest version of the PTX instruction set that its driver takes: major·10 + minor.
    fn ptx_version(&self) -> u32;

    /// Loads code.
    ///
    /// # Errors
    /// [`GpuError::Refused`] with what the driver says of it; [`GpuError::Failed`] if that has nothing to do with the code.
    fn load(&self, image: GpuImage<'_>) -> Result<GpuModule, GpuError>;

    /// A kernel of code that was loaded, ready to be launched with a block and shared memory as they are said.
    ///
    /// # Errors
    /// [`GpuError::Refused`] if there is no such kernel, or not with so much shared memory.
    fn function(&self, module: GpuModule, kernel: &DeviceKernel) -> Result<GpuFunction, GpuError>;

    /// Forgets code, and its kernels with it.
    fn unload(&self, module: GpuModule);

    /// Memory with unknown contents, 256-byte aligned.
    ///
    /// # Errors
    /// [`GpuError::OutOfMemory`].
    fn allocate(&self, len_bytes: usize) -> Result<GpuAddress, GpuError>;

    /// Gives memory back, by where it starts. Nothing that was asked for before may still be using it.
    fn free(&self, start: GpuAddress);

    /// Copies bytes to the GPU; they may be changed as soon as this returns.
    ///
    /// # Errors
    /// [`GpuError::Failed`].
    fn write(&self, to: GpuAddress, bytes: &[u8]) -> Result<(), GpuError>;

    /// Copies bytes from the GPU, after all launches before.
    ///
    /// # Errors
    /// [`GpuError::Failed`], also of a launch before.
    fn read(&self, from: GpuAddress, bytes: &mut [u8]) -> Result<(), GpuError>;

    /// Starts an operation.
    ///
    /// # Errors
    /// [`GpuError::Failed`].
    fn start(&self, operation: &GpuOperation<'_>) -> Result<(), GpuError>;

    /// Records operations, so that they can be started together as often as they are wanted in the same order; none is
    /// started by that. `None` if it cannot: they are started one by one then.
    fn record(&self, operations: &[GpuOperation<'_>]) -> Option<GpuGraph>;

    /// Puts operations into the places of recorded ones, by their numbers, which are launches of the same kernels with other
    /// grids and parameters, or other copies; from the next [`Gpu::replay`] on. `false` if it cannot: nothing is known of the
    /// graph then but that it can be forgotten.
    fn change(&self, graph: GpuGraph, operations: &mut dyn Iterator<Item = (usize, GpuOperation<'_>)>) -> bool;

    /// Starts recorded operations, whose kernels are still loaded.
    ///
    /// # Errors
    /// [`GpuError::Failed`].
    fn replay(&self, graph: GpuGraph) -> Result<(), GpuError>;

    /// Forgets recorded operations, which are not running.
    fn forget(&self, graph: GpuGraph);

    /// Marks the moment when all that was asked for before is done, and nothing of what is asked for later has begun.
    ///
    /// # Errors
    /// [`GpuError::Failed`].
    fn mark(&self) -> Result<GpuMark, GpuError>;

    /// The time from one mark to a later one; waits for both.
    ///
    /// # Errors
    /// [`GpuError::Failed`], also of a launch before.
    fn between(&self, from: GpuMark, to: GpuMark) -> Result<Duration, GpuError>;

    /// Forgets a mark.
    fn unmark(&self, mark: GpuMark);

    /// Waits for everything that was asked for.
    ///
    /// # Errors
    /// [`GpuError::Failed`] of a launch before.
    fn synchronize(&self) -> Result<(), GpuError>;
}

/// The machine's GPU, if the driver for it is installed; or why there is none. It is found once for the whole process.
///
/// # Errors
/// A sentence for people: there is no driver, it finds no GPU, or the crate was built without its feature `cuda`.
pub fn installed_gpu() -> Result<Arc<dyn Gpu>, String> {
    #[cfg(feature = "cuda")]
    return driver::installed();
    #[cfg(not(feature = "cuda"))]
    Err("this program was built without the feature `cuda` of the runtime".to_owned())
}

/// Why a GPU does not do what it is asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
#[expect(missing_docs, reason = "the messages say what the fields are")]
pub enum GpuError {
    #[error("{needed_bytes} bytes of its memory are needed, {free_bytes} are free")]
    OutOfMemory { needed_bytes: usize, free_bytes: usize },
    #[error("the driver refuses the kernel: {log}")]
    Refused { log: String },
    #[error("{what}: it takes longer than the driver lets a kernel run")]
    TimeLimit { what: String },
    #[error("{what}: {reason}")]
    Failed { what: String, reason: String },
}
