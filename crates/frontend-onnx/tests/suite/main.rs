//! Tests of the frontend on hand-built models.

mod chains;
mod demo;
mod errors;
mod generated;
mod hostile;
mod support;
mod values;
