//! Tests of the frontend on hand-built models.

mod chains;
mod errors;
mod generated;
mod hostile;
mod support;
mod values;
