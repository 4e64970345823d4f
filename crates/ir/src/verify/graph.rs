//! What must hold of a graph:
//!
//! - names of symbols, of inputs and of outputs are unique; dims mention known symbols and no variables;
//! - values of ports with a declared type hold its bytes, or a tensor of it in a sequence;
//! - the order lists living nodes once, operands before users; values know their definition; origins exist;
//! - map: inputs have the shape of the outputs, bodies are well typed over the inputs' elements;
//! - view: one coordinate per output axis, one index per input axis, the shape of the output;
//! - reduce: inputs of one shape, axes ascending and existing, outputs without them, one per component;
//! - contract: one label per axis, none twice in an operand, every output label in an input, equal extents per label;
//! - gather, concat, scan: axes exist, types and shapes follow from the operands;
//! - recurrence: its body is a valid graph over the symbols of the graph around it; states keep their type, slices and
//!   outputs have the steps as their first axis;
//! - if: the condition is a bool without axes, both branches are valid graphs of the node's types;
//! - host: as many inputs and outputs as it says, and the symbols that it produces are extents of its outputs;
//! - requirements mention known symbols; sources of symbols exist, and expressions among them mention earlier symbols;
//! - composite: its body is a valid graph over the symbols of the graph around it, of the operands' types.
//!
//! Extents are compared as far as they can be: only those that certainly differ are reported.

mod ops;

use super::{Report, VerifyError, ViolationKind};
use crate::entity::{EntityId, NodeId, ValueId};
use crate::graph::{Definition, Graph, Node, Port, SymbolSource, TensorType};
use crate::index::{Dim, Proof, Ranges};
use crate::symbol::Symbols;
use infc_tensor::{DType, DTypeClass};

/// How deep composites may contain composites.
const MAX_DEPTH: usize = 32;

/// Checks everything that the module's header lists.
///
/// # Errors
/// [`VerifyError`] with all violations.
pub fn verify_graph(graph: &Graph) -> Result<(), VerifyError> {
    let mut report = Report::default();
    report.symbols(&graph.symbols);
    check_graph(&mut report, graph, &graph.symbols, "", 0);
    report.finish(format!("graph `{}`", graph.name))
}

/// Checks a graph with the symbols of the outermost one.
fn check_graph(report: &mut Report, graph: &Graph, symbols: &Symbols, place: &str, depth: usize) {
    if depth > MAX_DEPTH {
        return report.push(ViolationKind::NotAllowed { what: "composites nested so deeply" });
    }
    let mut checker = Checker {
        graph,
        symbols,
        ranges: Ranges::of_symbols(symbols),
        place: place.to_owned(),
        depth,
        defined: vec![false; graph.values.len()],
        report,
    };
    checker.ports();
    checker.values();
    checker.requirements();
    checker.sources();
    checker.nodes();
    checker.outputs();
}

/// One graph being checked.
struct Checker<'a> {
    graph: &'a Graph,
    symbols: &'a Symbols,
    ranges: Ranges,
    place: String,
    depth: usize,
    defined: Vec<bool>,
    report: &'a mut Report,
}

impl Checker<'_> {
    fn at(&mut self, place: &str) {
        self.report.at(format!("{}{place}", self.place));
    }

    fn ports(&mut self) {
        self.at("inputs");
        self.report.unique(self.graph.inputs.iter().map(|p| &*p.name));
        for (n, port) in self.graph.inputs.iter().enumerate() {
            let Some(value) = self.graph.values.get(port.value) else {
                self.report.push(ViolationKind::Dangling { what: "value", id: port.value.to_string() });
                continue;
            };
            if value.definition != Definition::Input(n as u32) {
                self.report.push(ViolationKind::NotAllowed { what: "an input that does not know its definition" });
            }
            self.declared(port);
            self.define(port.value);
        }
        self.at("outputs");
        self.report.unique(self.graph.outputs.iter().map(|p| &*p.name));
    }

    /// A declared type has at most a byte per element, and its value is bytes; or it is that of the tensor in a sequence.
    fn declared(&mut self, port: &Port) {
        let (Some(declared), Some(value)) = (&port.declared, self.graph.values.get(port.value)) else { return };
        if value.ty.dtype == DType::Sequence {
            let is_one = matches!(&value.ty.shape[..], [one] if one.is_const(1));
            if !is_one || !declared.shape.is_empty() || declared.dtype.class() == DTypeClass::Value {
                self.report.push(ViolationKind::NotAllowed {
                    what: "a declared type whose value is no sequence of one tensor",
                });
            }
            return;
        }
        let (bits, held) = (declared.dtype.size_bits(), &value.ty);
        let shape = if bits == 8 { held.shape.len() == declared.shape.len() } else { held.shape.len() == 1 };
        if !(1..=8).contains(&bits) || held.dtype != DType::U8 || !shape {
            self.report.push(ViolationKind::NotAllowed { what: "a declared type whose value is not its bytes" });
        }
        for dim in &declared.shape {
            self.report.extent("a declared axis", dim, &self.ranges, self.symbols.len());
        }
    }

    fn values(&mut self) {
        for (id, value) in self.graph.values.iter_enumerated() {
            self.at(&id.to_string());
            for dim in &value.ty.shape {
                self.report.extent("an axis", dim, &self.ranges, self.symbols.len());
            }
        }
    }

    fn requirements(&mut self) {
        self.at("requirements");
        for requirement in &self.graph.requires {
            self.report.dim(&requirement.left, &self.ranges, self.symbols.len());
            self.report.dim(&requirement.right, &self.ranges, self.symbols.len());
        }
    }

    fn sources(&mut self) {
        self.at("sources of symbols");
        for (symbol, source) in &self.graph.sources {
            let symbol = symbol.index();
            if symbol >= self.symbols.len() {
                self.report.push(ViolationKind::Dangling { what: "symbol", id: symbol.to_string() });
            }
            match source {
                SymbolSource::Axis { input, .. }
                | SymbolSource::Element { input, .. }
                | SymbolSource::Nearest { input, .. } => {
                    if *input as usize >= self.graph.inputs.len() {
                        self.report.push(ViolationKind::Dangling { what: "input", id: input.to_string() });
                    }
                }
                // The operation says it, and is checked.
                SymbolSource::Produced { .. } => {}
                // Earlier symbols only, so that they can be computed in order.
                SymbolSource::Computed(value) => self.report.dim(value, &self.ranges, symbol),
            }
        }
    }

    fn define(&mut self, value: ValueId) {
        if let Some(defined) = self.defined.get_mut(value.index())
            && std::mem::replace(defined, true)
        {
            self.report.push(ViolationKind::BoundTwice { id: value.to_string() });
        }
    }

    fn nodes(&mut self) {
        for &id in &self.graph.order {
            let Some(node) = self.graph.nodes.get(id) else {
                self.at("order");
                self.report.push(ViolationKind::Dangling { what: "node", id: id.to_string() });
                continue;
            };
            self.at(&format!("{id} ({})", node.op.name()));
            self.node(id, node);
        }
    }

    fn node(&mut self, id: NodeId, node: &Node) {
        if self.graph.origins.get(node.origin).is_none() {
            self.report.push(ViolationKind::Dangling { what: "origin", id: node.origin.to_string() });
        }
        let mut known = true;
        for &input in &node.inputs {
            match self.defined.get(input.index()) {
                None => {
                    self.report.push(ViolationKind::Dangling { what: "value", id: input.to_string() });
                    known = false;
                }
                Some(false) => self.report.push(ViolationKind::OutOfOrder { id: input.to_string() }),
                Some(true) => {}
            }
        }
        for (n, &output) in node.outputs.iter().enumerate() {
            match self.graph.values.get(output) {
                None => {
                    self.report.push(ViolationKind::Dangling { what: "value", id: output.to_string() });
                    known = false;
                }
                Some(value) if value.definition != Definition::Node(id, n as u32) => {
                    self.report.push(ViolationKind::NotAllowed { what: "an output that does not know its node" });
                }
                Some(_) => {}
            }
            self.define(output);
        }
        if known {
            let inputs: Vec<&TensorType> = node.inputs.iter().map(|v| &self.graph.values[*v].ty).collect();
            let outputs: Vec<&TensorType> = node.outputs.iter().map(|v| &self.graph.values[*v].ty).collect();
            self.op(&node.op, &inputs, &outputs);
        }
    }

    fn outputs(&mut self) {
        self.at("outputs");
        for port in &self.graph.outputs {
            match self.defined.get(port.value.index()) {
                Some(true) => {}
                Some(false) => self.report.push(ViolationKind::OutOfOrder { id: port.value.to_string() }),
                None => self.report.push(ViolationKind::Dangling { what: "value", id: port.value.to_string() }),
            }
        }
    }

    /// Reports ranks and extents that certainly differ.
    fn same_shape(&mut self, what: &str, expected: &[Dim], found: &[Dim]) {
        if self.report.count("axes", expected.len(), found.len()) {
            for (a, b) in expected.iter().zip(found) {
                self.same_extent(what, a, b);
            }
        }
    }

    fn same_extent(&mut self, what: &str, expected: &Dim, found: &Dim) {
        if self.ranges.eq(expected, found) == Proof::No {
            self.report.push(ViolationKind::WrongExtent {
                what: what.to_owned(),
                expected: expected.to_string(),
                found: found.to_string(),
            });
        }
    }
}
