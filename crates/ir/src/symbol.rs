//! Symbolic dimensions and what is known of them.

use crate::entity::{IndexVec, SymbolId};

/// A named dimension whose value is known only when a model is run.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name in the model, or `INPUT[AXIS]`.
    pub name: String,
    /// Least value, at least 0.
    pub min: i64,
    /// Greatest value, if known.
    pub max: Option<i64>,
}

/// The symbols of a graph or kernel.
pub type Symbols = IndexVec<SymbolId, Symbol>;
