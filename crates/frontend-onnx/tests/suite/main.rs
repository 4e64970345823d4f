//! Tests of the frontend on hand-built models.

mod errors;
mod generated;
mod support;
mod values;
