//! From graph to loop nests: graph passes, kernel formation, formulations, and schedules.
//!
//! ```text
//! graph     graph → graph: fold, simplify, recognise
//! formulate kernel → kernel: the same result by another way
//! schedule  kernel + schedule → loop nest
//! ```

#![forbid(unsafe_code)]

pub mod formulate;
pub mod graph;
pub mod schedule;
