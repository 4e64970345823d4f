//! Loop nests to machine code.
//!
//! [`vir`] is the vector SSA that nests are lowered to and that the emitters read.

#![forbid(unsafe_code)]

pub mod vir;
