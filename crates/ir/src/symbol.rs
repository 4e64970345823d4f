//! Symbolic dimensions and what is known of them.

use crate::entity::{IndexVec, SymbolId};

/// A named integer whose value is known only when a model is run: a dimension, or another number that shapes follow from.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Symbol {
    /// The name in the model, or `INPUT[AXIS]`.
    pub name: String,
    /// Least value; that of a dimension is at least 0.
    pub min: i64,
    /// Greatest value, if known.
    pub max: Option<i64>,
}

/// The symbols of a graph or kernel.
pub type Symbols = IndexVec<SymbolId, Symbol>;
