//! Maps an infc artifact and runs it.
//!
//! ```no_run
//! use infc_runtime::{Model, SessionOptions, Tensor};
//!
//! let model = Model::open("resnet50.infa")?;
//! let mut session = model.session(&SessionOptions::default())?;
//! let image = Tensor::zeros(model.inputs()[0].dtype, &[1, 3, 224, 224])?;
//! let outputs = session.run_owned(&[&image])?;
//! # Ok::<(), infc_runtime::RuntimeError>(())
//! ```
//!
//! A [`Model`] holds what never changes: weights, mapped in place, and machine code, copied to pages that are executable
//! and not writable. A [`Session`] adds the memory of one run at a time. [`Session::run`] works on the caller's buffers
//! and makes no heap call after its first run; [`Session::run_owned`] is the comfortable form. Threads come from a
//! [`Pool`].
//!
//! The crate reads no environment variables, prints nothing (see [`Observer`]) and does not panic on any artifact or
//! input. Everything in an artifact is checked except its machine code: **loading an artifact is running a program**, so
//! load only what you would run.
//!
//! Unsafe code is confined to `code` (calling kernels, processor state), `arena` and `guarded` (memory), `os` (system calls)
//! and `gpu::driver` (calls of the NVIDIA driver).
//!
//! With the feature `cuda`, artifacts for NVIDIA GPUs run there; see [`LoadOptions::gpu`] and [`LoadOptions::allow_cpu`].

mod arena;
mod binding;
mod carried;
mod code;
mod custom;
mod error;
mod form;
mod gpu;
mod guarded;
mod host;
mod include;
mod model;
mod observer;
mod os;
mod owned;
mod pool;
mod scratch;
mod select;
mod session;
mod shapes;
mod state;
mod symbols;
mod view;

pub use custom::{CustomCall, CustomOpError, Runtime};
pub use error::RuntimeError;
pub use gpu::{
    Gpu, GpuAddress, GpuError, GpuFunction, GpuGraph, GpuImage, GpuMark, GpuModule, GpuOperation, GpuTensor,
    installed_gpu,
};
pub use guarded::{Flush, GuardedBytes};
#[doc(hidden)]
pub use include::Aligned;
pub use infc_artifact as artifact;
pub use infc_tensor::{Attributes, DType, Tensor, TensorError};
pub use model::{LoadOptions, Model};
pub use observer::{Event, Observer, Planned, StepEvent};
pub use owned::SessionOutputs;
pub use pool::{Pool, PoolBuilder, Spin};
pub use scratch::GuardedScratch;
pub use select::{GpuSelection, Selection, Skipped, host_arch, host_has};
pub use session::{RunInput, RunOptions, RunOutput, Session, SessionOptions};
pub use view::{TensorView, TensorViewMut};

/// The examples of the project's README compile.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
struct Readme;
