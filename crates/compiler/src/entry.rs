//! The artifact's entry: names and types of inputs and outputs, and how dims are found.

use crate::CompileError;
use crate::size::size;
use infc_artifact::{Assumption, Binding, BindingSource, Entry, PortSpec, Relation, SymbolSpec};
use infc_ir::entity::EntityId;
use infc_ir::graph::{self, Graph, Port, SymbolSource};

/// The entry `main` of a graph.
pub(crate) fn entry(graph: &Graph) -> Result<Entry, CompileError> {
    let ports = |ports: &[Port]| -> Result<Vec<PortSpec>, CompileError> {
        ports
            .iter()
            .map(|port| {
                let ty = graph.port_type(port);
                let shape = ty.shape.iter().map(size).collect::<Result<_, _>>()?;
                Ok(PortSpec { name: port.name.clone(), dtype: ty.dtype, shape })
            })
            .collect()
    };
    let symbols: Vec<SymbolSpec> =
        graph.symbols.iter().map(|s| SymbolSpec { name: s.name.clone(), min: s.min, max: s.max }).collect();
    let mut bindings = Vec::new();
    for (id, symbol) in graph.symbols.iter_enumerated() {
        let source = match graph.source(id) {
            Some(SymbolSource::Axis { input, axis }) => BindingSource::Axis { input, axis },
            Some(SymbolSource::Element { input, index }) => BindingSource::Element { input, index },
            Some(SymbolSource::Computed(value)) => BindingSource::Computed(size(&value)?),
            // Known only after a step of the Program.
            Some(SymbolSource::Produced { .. }) => continue,
            None => return Err(CompileError::UnboundDim { symbol: symbol.name.clone() }),
        };
        bindings.push(Binding { symbol: id.index() as u32, source });
    }
    let assumptions = graph
        .assumptions
        .iter()
        .map(|a| {
            let relation = match a.relation {
                graph::Relation::Equal => Relation::Equal,
                graph::Relation::AtMost => Relation::AtMost,
            };
            let origins = graph.origins.get(a.origin).cloned().unwrap_or_default();
            Ok(Assumption { what: a.what.clone(), left: size(&a.left)?, relation, right: size(&a.right)?, origins })
        })
        .collect::<Result<_, CompileError>>()?;
    Ok(Entry {
        name: "main".to_owned(),
        inputs: ports(&graph.inputs)?,
        outputs: ports(&graph.outputs)?,
        symbols,
        bindings,
        state: Vec::new(),
        assumptions,
    })
}
