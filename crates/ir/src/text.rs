//! IR as text: `Display` prints, `FromStr` parses (`docs/ir-text.md` defines the language).
//!
//! One hand-written lexer, a recursive-descent parser and a printer per level: loop nests print
//! only. What prints parses back to the same structure in its canonical form ([`canonical`]): operations that
//! nothing needs are dropped, the others come in the order in which they print.
//!
//! Text is hostile input: errors say line and column, nothing panics, and length, nesting and sizes are limited.

pub mod canonical;
mod error;
mod graph;
mod index;
mod kernel;
mod lexer;
mod names;
mod nest;
mod parser;
mod scalar;
mod schedule;

pub use error::{ParseError, ParseErrorKind};
pub use graph::{constant_hash, constants_by_hash, parse_graph};
pub(crate) use names::{Name, separated};

/// The longest text that is parsed, in bytes.
pub const MAX_TEXT_BYTES: usize = 16 << 20;

/// How deep expressions may nest.
pub const MAX_DEPTH: usize = 64;

/// The most operations that one scalar body may have.
pub const MAX_BODY_OPS: usize = 4096;
