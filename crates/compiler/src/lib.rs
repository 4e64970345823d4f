//! The infc compiler as a library: an ONNX model in, an artifact out.
//!
//! ```no_run
//! use infc::{CompileOptions, Source};
//!
//! let source = Source::file("resnet50.onnx");
//! let compilation = infc::compile(&source, &CompileOptions::default(), &mut ())?;
//! std::fs::write("resnet50.infa", compilation.to_bytes()?)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! [`compile`] is the whole way as one function; [`Phase`] names its steps. For `build.rs` scripts and services as much
//! as for the command line: nothing is printed, no environment is read, and equal inputs give equal bytes.

#![forbid(unsafe_code)]

mod bodies;
mod code;
mod compile;
mod cuda;
mod dump;
mod entry;
mod error;
mod fallback;
mod forecast;
mod kernels;
mod lane;
pub mod layers;
mod machine;
mod options;
mod phase;
mod program;
mod ptxas;
mod records;
mod report;
mod single;
mod size;
mod source;
mod specialize;
mod start;
mod state;
mod taken;
mod tasks;
mod weights;

pub use code::VariantTarget;
pub use compile::{Compilation, SpecialPlan, check_target, compile};
pub use error::CompileError;
pub use forecast::{FORECAST_HERTZ, Forecast, ForecastDim, forecast};
pub use infc_codegen_cpu::Target;
pub use infc_codegen_cpu::target::MachineModel;
pub use infc_frontend_onnx::{CustomOps, DimChoice, ImportError, ShapeDim};
pub use infc_passes::form::{Choice, GraphPlan, Interpreter, Way};
pub use kernels::{ChosenBy, Scheduled};
pub use machine::schedule_machine;
pub use options::{BF16_TARGETS, BYTE_TARGETS, CompileOptions, DEFAULT_TARGETS, Precision};
pub use phase::{Phase, Progress};
pub use ptxas::Ptxas;
pub use records::{KernelKey, NoKernelKey, RecordedCode, Records, key_text, recorded_code, recorded_kernel};
pub use report::{CubinReport, HostNode, KernelReport, Report, SpecialCaseReport, Steps, VariantReport};
pub use single::{KernelOptions, SYMBOLS, SingleKernel, compile_kernel};
pub use source::Source;
pub use specialize::{MAX_SPECIAL_CASES, SpecialCase};
pub use tasks::{Task, tasks};
