//! The levels of infc's intermediate representation, from the graph down to the loop nest.
//!
//! ```text
//! Graph    dataflow over core ops, symbolic dims                  graph, op
//! Kernel   what to compute: stages over axes                      kernel, scalar, access
//! Schedule how to compute it, as data                             schedule
//! LoopNest the loops that result: the input of every backend      nest
//! ```
//!
//! Every level prints as text (graph, kernel and schedule parse back, see [`text`]), has a verifier that states its
//! invariants ([`verify`]) and an interpreter that defines its meaning ([`interp`]).

#![forbid(unsafe_code)]

pub mod access;
pub mod entity;
pub mod graph;
pub mod index;
pub mod interp;
pub mod kernel;
pub mod math;
pub mod nest;
pub mod op;
pub mod scalar;
pub mod schedule;
pub mod symbol;
pub mod text;
pub mod verify;
