//! From graph to loop nests: graph passes, kernel formation, formulations, and schedules.
//!
//! ```text
//! graph     graph → graph: fold, simplify, recognise
//! form      graph → kernels, layouts, fusion
//! formulate kernel → kernel: the same result by another way
//! schedule  kernel + schedule → loop nest
//! ```

#![forbid(unsafe_code)]

mod error_class;
mod fits;
pub mod form;
pub mod formulate;
pub mod graph;
pub mod schedule;

pub use error_class::ErrorClass;
