//! Tests of the frontend on hand-built models.

mod assumptions;
mod chains;
mod choices;
mod contrib;
mod counted;
mod custom;
mod demo;
mod errors;
mod flex;
mod functions;
mod generated;
mod hostile;
mod packed_bits;
mod ranks;
mod simplify;
mod steps;
mod support;
mod values;
