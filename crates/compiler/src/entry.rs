//! The artifact's entry: names and types of inputs and outputs, and how dims are found.

use crate::CompileError;
use crate::size::size;
use infc_artifact::{Binding, Entry, PortSpec, SymbolSpec};
use infc_ir::entity::EntityId;
use infc_ir::graph::{Graph, Port};

/// The entry `main` of a graph.
pub(crate) fn entry(graph: &Graph) -> Result<Entry, CompileError> {
    let ports = |ports: &[Port]| -> Result<Vec<PortSpec>, CompileError> {
        ports
            .iter()
            .map(|port| {
                let ty = graph.ty(port.value);
                let shape = ty.shape.iter().map(size).collect::<Result<_, _>>()?;
                Ok(PortSpec { name: port.name.clone(), dtype: ty.dtype, shape })
            })
            .collect()
    };
    let symbols: Vec<SymbolSpec> =
        graph.symbols.iter().map(|s| SymbolSpec { name: s.name.clone(), min: s.min, max: s.max }).collect();
    let mut bindings = Vec::new();
    for (id, symbol) in graph.symbols.iter_enumerated() {
        let place = graph.inputs.iter().enumerate().find_map(|(input, port)| {
            let axis = graph.ty(port.value).shape.iter().position(|d| d.as_symbol() == Some(id))?;
            Some((input, axis))
        });
        let Some((input, axis)) = place else {
            return Err(CompileError::UnboundDim { symbol: symbol.name.clone() });
        };
        bindings.push(Binding { symbol: id.index() as u32, input: input as u32, axis: axis as u32 });
    }
    Ok(Entry {
        name: "main".to_owned(),
        inputs: ports(&graph.inputs)?,
        outputs: ports(&graph.outputs)?,
        symbols,
        bindings,
        state: Vec::new(),
    })
}
