//! Interpreters: the definition of what each level means (ARCHITECTURE.md D3).
//!
//! They evaluate naively, one point after the other, in [`crate::scalar::Scalar`]s that are rounded to their type after
//! every operation. Constant folding, tests and fuzzing compare everything else with them, so a structure means what
//! these files say.
//!
//! They trust nothing: a structure that the verifiers would refuse gives an [`InterpError`], never a panic, and sizes
//! are limited ([`MAX_ELEMS`], [`MAX_POINTS`]).

mod array;
mod bind;
mod body;
mod error;
mod fold;
mod graph;
mod host;
mod index_fn;
mod kernel;
mod nest;
mod oracle;
mod points;

pub use bind::{symbol_values, update_late_symbols};
pub use error::InterpError;
pub use graph::{held, run_graph, run_graph_with, shown};
pub use host::{Host, NoHost, bind_produced, evaluate_host};
pub use kernel::run_kernel;
pub use nest::run_nest;
pub use oracle::{Expected, Oracle, Point};

/// The most elements that one value may have: a gigabyte of memory in the interpreter.
pub const MAX_ELEMS: usize = 1 << 27;

/// The most points that one stage, node or nest may visit.
pub const MAX_POINTS: u64 = 1 << 34;

use crate::entity::EntityId;
use crate::index::Dim;
use crate::symbol::Symbols;
use points::check_points;

/// Checks that every symbol has a value within its range.
fn check_symbols(symbols: &Symbols, values: &[i64]) -> Result<(), InterpError> {
    if symbols.len() != values.len() {
        return Err(InterpError::WrongCount { what: "symbols", expected: symbols.len(), found: values.len() });
    }
    for (id, symbol) in symbols.iter_enumerated() {
        let value = values[id.index()];
        if value < symbol.min || symbol.max.is_some_and(|max| value > max) {
            let (min, max) = (symbol.min, symbol.max);
            return Err(InterpError::SymbolOutOfRange { name: symbol.name.clone(), value, min, max });
        }
    }
    Ok(())
}

/// The values of dims.
fn eval_shape(name: &str, shape: &[Dim], symbols: &[i64]) -> Result<Vec<i64>, InterpError> {
    shape
        .iter()
        .map(|dim| {
            body::bind(name, dim, symbols)?
                .eval(&[])
                .ok_or_else(|| InterpError::UndefinedIndex { place: name.to_owned(), expr: dim.to_string() })
        })
        .collect()
}
