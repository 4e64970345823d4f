//! The artifact's entry: names and types of inputs and outputs, and how dims are found.

use crate::CompileError;
use crate::size::size;
use infc_artifact::{Append, Assumption, Binding, BindingSource, Entry, PortSpec, Relation, StatePair, SymbolSpec};
use infc_ir::entity::{EntityId, SymbolId};
use infc_ir::graph::{self, Port, SymbolSource};
use infc_ir::index::Dim;
use infc_passes::form::{self, GraphPlan, PlannedState};
use std::collections::BTreeSet;

/// The entry `main` of a plan.
pub(crate) fn entry(plan: &GraphPlan) -> Result<Entry, CompileError> {
    let graph = &plan.graph;
    let ports = |ports: &[Port]| -> Result<Vec<PortSpec>, CompileError> {
        ports
            .iter()
            .map(|port| {
                let ty = graph.port_type(port);
                if graph.is_unranked(port) {
                    return Ok(PortSpec::of_any_rank(&port.name, ty.dtype));
                }
                let shape = ty.shape.iter().map(size).collect::<Result<_, _>>()?;
                Ok(PortSpec::new(&port.name, ty.dtype, shape))
            })
            .collect()
    };
    let symbols: Vec<SymbolSpec> =
        graph.symbols.iter().map(|s| SymbolSpec { name: s.name.clone(), min: s.min, max: s.max }).collect();
    let bindings = bindings(plan)?;
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
        state: plan.states.iter().map(state).collect(),
        assumptions,
        specializes: None,
        slices: form::slices(plan).map(|symbol| symbol.index() as u32),
    })
}

/// How symbols get their values: first from the inputs that are given with each run, then from states, and then what is
/// computed of those.
fn bindings(plan: &GraphPlan) -> Result<Vec<Binding>, CompileError> {
    let graph = &plan.graph;
    let (mut given, mut carried, mut computed) = (Vec::new(), Vec::new(), Vec::new());
    let is_state = |input: u32| plan.states.iter().any(|state| state.input == input as usize);
    for (id, symbol) in graph.symbols.iter_enumerated() {
        let binding = |source| Binding { symbol: id.index() as u32, source };
        match graph.source(id) {
            Some(SymbolSource::Axis { input, axis }) if !is_state(input) => {
                given.push(binding(BindingSource::Axis { input, axis }));
            }
            Some(SymbolSource::Axis { input, axis }) => match axis_of_given(plan, id) {
                Some((input, axis)) => given.push(binding(BindingSource::Axis { input, axis })),
                None => carried.push((id, input, axis)),
            },
            Some(SymbolSource::Element { input, index }) => {
                given.push(binding(BindingSource::Element { input, index }));
            }
            Some(SymbolSource::Nearest { input, index }) => {
                given.push(binding(BindingSource::Nearest { input, index }));
            }
            Some(SymbolSource::Computed(value)) => computed.push(binding(BindingSource::Computed(size(&value)?))),
            // Known only after a step of the Program.
            Some(SymbolSource::Produced { .. }) => {}
            None => return Err(CompileError::UnboundDim { symbol: symbol.name.clone() }),
        }
    }
    let known: BTreeSet<SymbolId> = given.iter().map(|b: &Binding| SymbolId(b.symbol)).collect();
    for (id, input, axis) in carried {
        let begin = size(&begin(plan, id, &known))?;
        given.push(Binding { symbol: id.index() as u32, source: BindingSource::State { input, axis, begin } });
    }
    given.extend(computed);
    Ok(given)
}

/// An axis that a symbol is of an input that is no state: it is there when a state has no value yet.
fn axis_of_given(plan: &GraphPlan, symbol: SymbolId) -> Option<(u32, u32)> {
    let inputs = plan.graph.inputs.iter().enumerate().filter(|(n, _)| !plan.states.iter().any(|s| s.input == *n));
    let mut axes = inputs.filter_map(|(input, port)| {
        let axis = plan.graph.port_type(port).shape.iter().position(|dim| dim.as_symbol() == Some(symbol))?;
        Some((input as u32, axis as u32))
    });
    axes.next()
}

/// The extent that only a state tells while it has no value: what the model needs it to be equal to, of what is known
/// of other inputs; else the smallest.
fn begin(plan: &GraphPlan, symbol: SymbolId, known: &BTreeSet<SymbolId>) -> Dim {
    let assumed = plan.graph.assumptions.iter().filter(|a| a.relation == graph::Relation::Equal);
    let assumed = assumed.map(|a| (&a.left, &a.right));
    // What a branch needs comes behind what all runs do.
    let mut required: Vec<_> = plan.requires.iter().filter(|(_, r)| r.equal).collect();
    required.sort_by_key(|(under, _)| under.len());
    let required = required.into_iter().map(|(_, r)| (&r.left, &r.right));
    let is_known = |dim: &Dim| dim.symbols().iter().all(|s| known.contains(s));
    let equal = assumed.chain(required).find_map(|(left, right)| {
        let other = match (left.as_symbol() == Some(symbol), right.as_symbol() == Some(symbol)) {
            (true, _) => right,
            (_, true) => left,
            _ => return None,
        };
        is_known(other).then(|| other.clone())
    });
    equal.unwrap_or_else(|| Dim::constant(plan.graph.symbols[symbol].min))
}

fn state(state: &PlannedState) -> StatePair {
    let append = |append: form::Append| Append { axis: append.axis as u32, capacity: append.capacity.unsigned_abs() };
    StatePair { output: state.output as u32, input: state.input as u32, append: state.append.map(append) }
}
