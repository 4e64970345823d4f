//! The values of a graph's symbols, from its inputs.

use super::InterpError;
use crate::entity::EntityId;
use crate::graph::{Graph, SymbolSource};
use infc_tensor::{Tensor, integer_element};

/// The values of all symbols for the given inputs, whose number and types are those of the graph. Neither ranges nor
/// assumptions are looked at.
///
/// # Errors
/// [`InterpError::Malformed`] for a symbol that has no source or no value.
pub fn symbol_values(graph: &Graph, inputs: &[Tensor]) -> Result<Vec<i64>, InterpError> {
    let mut values: Vec<i64> = Vec::with_capacity(graph.symbols.len());
    let late = graph.late_symbols();
    for (id, symbol) in graph.symbols.iter_enumerated() {
        let malformed = |what| InterpError::Malformed { place: symbol.name.clone(), what };
        let value = match graph.source(id).ok_or_else(|| malformed("a symbol that comes from nowhere"))? {
            SymbolSource::Axis { input, axis } => {
                let extent = inputs.get(input as usize).and_then(|tensor| tensor.shape().get(axis as usize));
                extent.and_then(|&d| i64::try_from(d).ok())
            }
            SymbolSource::Element { input, index } => {
                let tensor = inputs.get(input as usize);
                tensor.and_then(|tensor| integer_element(tensor.dtype(), tensor.bytes(), index as usize))
            }
            SymbolSource::Nearest { input, index } => {
                let tensor = inputs.get(input as usize);
                let found = tensor.and_then(|t| integer_element(t.dtype(), t.bytes(), index as usize));
                found.map(|value| value.max(symbol.min).min(symbol.max.unwrap_or(i64::MAX)))
            }
            // Only a run tells; until then any value will do.
            SymbolSource::Produced { .. } => Some(symbol.min),
            SymbolSource::Computed(value) => {
                let value = value.eval(&|s| values.get(s.index()).copied(), &|_| None);
                value.or(late[id.index()].then_some(symbol.min))
            }
        };
        values.push(value.ok_or_else(|| malformed("a symbol without a value"))?);
    }
    Ok(values)
}

/// Computes the symbols anew that follow from symbols that a run has told since; those that have no value stay.
pub fn update_late_symbols(graph: &Graph, symbols: &mut [i64]) {
    for (symbol, source) in &graph.sources {
        let SymbolSource::Computed(value) = source else { continue };
        let value = value.eval(&|s| symbols.get(s.index()).copied(), &|_| None);
        if let Some((place, value)) = symbols.get_mut(symbol.index()).zip(value) {
            *place = value;
        }
    }
}
