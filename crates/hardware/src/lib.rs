//! What has to be seen on an NVIDIA GPU: that its instructions do what the simulator takes them to do, that kernels and models
//! agree with their definitions, and how fast they are.
//!
//! All of it is written against [`infc_runtime::Gpu`], so that it runs on the simulator too: there it is a test of itself, and
//! of what was recorded on hardware. Only developers use this crate, by its command `infc-hardware`.

#![forbid(unsafe_code)]

pub mod device;
pub mod instructions;
pub mod kernels;
pub mod library;
pub mod models;
pub mod report;
pub mod speed;
