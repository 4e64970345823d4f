//! From graph to loop nests: graph passes, kernel formation, formulations, and schedules.
//!
//! ```text
//! graph     graph → graph: fold, simplify, recognise
//! schedule  kernel + schedule → loop nest
//! ```

#![forbid(unsafe_code)]

pub mod graph;
pub mod schedule;
