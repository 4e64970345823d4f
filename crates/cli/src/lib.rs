//! The command `infc`: arguments and rendering around the compiler (`infc`) and the runtime (`infc-runtime`).
//!
//! A command is a file in `commands`: what clap parses is resolved into validated options before anything is done, and
//! whatever goes wrong comes back as a [`failure::Failure`], which `app` renders and turns into the exit code.

#![forbid(unsafe_code)]

mod agreement;
mod app;
mod bug;
mod commands;
mod console;
mod convert;
mod digits;
mod error;
mod failure;
mod given;
mod gpu;
mod host;
mod inputs;
mod interval;
mod kernel_times;
mod layers;
mod model_file;
mod npy;
mod npz;
mod onnx_eval;
mod output_file;
mod picture;
mod process;
mod progress;
mod quickest;
mod sizes;
mod small_model;
mod special_case;
mod stats;
mod tables;
mod target_list;

pub use gpu::MakeGpu;
use std::process::ExitCode;

/// Runs the command that the process was started with. `gpu`, if there is one, makes what each loaded model takes for this
/// machine's GPU, instead of the one that a driver finds.
#[must_use]
pub fn main(gpu: Option<MakeGpu>) -> ExitCode {
    let started = process::Start::now();
    bug::install_hook();
    gpu::set(gpu);
    app::main(started)
}
