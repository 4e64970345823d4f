//! What a loop that the host drives computes in each step, as a graph that is compiled like a model of its own.
//!
//! What a step reads is of the types that all steps give it: extents that do not change are as they are known around the loop,
//! and those that steps may change are symbols. Which ones change shows when the graph is there, so it is imported anew until no
//! step gives a state another extent than it says it takes. Constants from around the loop are constants of the graph.

use super::Importer;
use super::branch::Assumptions;
use super::demand::Demand;
use super::held::is_value;
use super::scope::Scopes;
use crate::build::{Builder, carried};
use crate::element::Element;
use crate::error::{ImportError, Problem};
use crate::known::Item;
use crate::proto::GraphProto;
use crate::tracked::Tracked;
use infc_ir::entity::SymbolId;
use infc_ir::graph::{Graph, Port, TensorType};
use infc_ir::index::Dim;
use infc_ir::op::HostBody;
use infc_ir::symbol::Symbol;
use infc_tensor::DType;
use std::collections::BTreeSet;
use std::rc::Rc;

/// Bodies of loops within bodies of loops, up to so many levels: each level may be imported several times for one import of
/// the one around it.
const MAX_DEPTH: usize = 3;

/// How often what is thought of the states of a loop is corrected.
const MAX_GUESSES: usize = 16;

/// What a loop starts with, and what its steps read from around it.
pub(super) struct Around<'m, 'v> {
    /// The states, before the first step.
    pub(super) states: Vec<&'v Tracked>,
    /// By name.
    pub(super) captured: &'v [(&'m str, Tracked)],
    /// The number of the first captured value among the inputs of the operator.
    pub(super) first_captured: usize,
}

/// What is known of the values within each of several.
type Elements = Vec<Option<Rc<Element>>>;

/// The graph of a step, and what is known of the values within what it gives.
pub(super) struct Compiled {
    pub(super) body: HostBody,
    elements: Elements,
}

/// What is thought to be so of states before all steps.
#[derive(Clone, PartialEq)]
struct Guess {
    /// Axes whose extents steps change.
    changing: BTreeSet<(usize, usize)>,
    /// What is known of the values within.
    elements: Elements,
}

impl<'m> Importer<'m, '_> {
    /// The graph of one step of a `Loop` (ONNX, opset 1 and later); `None` if it cannot be compiled: there are values in it that
    /// are no tensors and no sequences, its states change in type, or something in it is not supported.
    pub(super) fn compiled_body(&mut self, body: &'m GraphProto, around: &Around<'m, '_>) -> Option<Compiled> {
        let all = around.states.iter().copied().chain(around.captured.iter().map(|(_, value)| value));
        let is_passed = |value: &Tracked| !value.is_unranked() && is_passed(value.dtype());
        let is_whole = body.input.len() == HostBody::BEFORE_STATES + around.states.len();
        if self.scopes.build().is_trial || self.depth >= MAX_DEPTH || !is_whole || !all.into_iter().all(is_passed) {
            return None;
        }
        let captured = around.captured.iter().enumerate().filter(|(_, (_, value))| !is_known(value));
        let captures: Vec<u32> = captured.map(|(n, _)| (around.first_captured + n) as u32).collect();
        let elements = around.states.iter().map(|state| state.element().cloned()).collect();
        let mut guess = Guess { changing: BTreeSet::new(), elements };
        for _ in 0..MAX_GUESSES {
            let (graph, elements) = self.body_where(body, around, &guess).ok()?;
            let compiled = Compiled { body: HostBody { graph, captures: captures.clone() }, elements };
            let found = guess.corrected(&compiled)?;
            if found == guess {
                return Some(compiled);
            }
            guess = found;
        }
        None
    }

    /// The graph, if the guess is right, and what is known of the values within its outputs.
    fn body_where(
        &mut self,
        body: &'m GraphProto,
        around: &Around<'m, '_>,
        guess: &Guess,
    ) -> Result<(Graph, Elements), ImportError> {
        let mut demand = Demand::default();
        loop {
            match self.body_attempt(body, around, guess, &mut demand) {
                Err(_) if demand.next() => {}
                outcome => return outcome,
            }
        }
    }

    fn body_attempt(
        &mut self,
        body: &'m GraphProto,
        around: &Around<'m, '_>,
        guess: &Guess,
        demand: &mut Demand,
    ) -> Result<(Graph, Elements), ImportError> {
        let (model, custom_ops, depth) = (self.model, self.custom_ops, self.depth + 1);
        let outer = self.scopes.build();
        let mut scopes = Scopes::new(Graph { name: body.name().to_owned(), ..Graph::default() }, body);
        scopes.build().strict = outer.strict;
        scopes.build().extents_differ = outer.extents_differ;
        let mut inputs = Inputs { scopes: &mut scopes, outer, demand, known: Vec::new(), position: 0 };
        let scalar = |dtype| TensorType::new(dtype, Vec::new());
        for (port, dtype) in body.input.iter().zip([DType::I64, DType::Bool]) {
            inputs.add(port.name(), &scalar(dtype), None, &|_| false)?;
        }
        for (n, (port, state)) in body.input.iter().skip(HostBody::BEFORE_STATES).zip(&around.states).enumerate() {
            let element = guess.elements.get(n).cloned().flatten();
            inputs.add(port.name(), state.ty(), element, &|axis| guess.changing.contains(&(n, axis)))?;
        }
        for (name, value) in around.captured {
            match value.in_another_graph().filter(|_| is_known(value)) {
                Some(known) => inputs.scopes.define(name, known),
                None => inputs.add(name, value.ty(), value.element().cloned(), &|_| false)?,
            }
        }
        let mut assumptions = Assumptions::new(1);
        let mut importer = Importer::new(model, custom_ops, scopes, &mut assumptions, demand, depth);
        let outputs = importer.block(body)?;
        let mut scopes = importer.scopes;
        for (port, output) in body.output.iter().zip(&outputs) {
            // One value may be several results.
            let mut name = port.name().to_owned();
            while scopes.build().graph.outputs.iter().any(|other| other.name == name) {
                name.push('\'');
            }
            scopes.build().output(&name, output).map_err(ImportError::value(port.name()))?;
        }
        // Types without arithmetic of their own are held as others, which says nothing of them, as are values of any rank.
        let is_held = |output: &&Tracked| output.is_unranked() || carried_as(output.dtype()) != output.dtype();
        if let Some(found) = outputs.iter().find(is_held).map(Tracked::dtype) {
            let problem =
                Problem::UnsupportedType { expected: "elements of whole bytes that are computed with", found };
            return Err(ImportError::Value { value: body.name().to_owned(), problem });
        }
        let elements = outputs.iter().map(|output| output.element().cloned()).collect();
        let finished = scopes
            .finish()
            .map_err(|contradiction| ImportError::Value { value: contradiction.node, problem: contradiction.problem });
        finished.map(|(graph, _)| (graph, elements))
    }
}

/// The inputs of a body, added one after the other.
struct Inputs<'m, 'v> {
    scopes: &'v mut Scopes<'m>,
    outer: &'v Builder,
    demand: &'v Demand,
    /// Extents around the loop, and the symbols that stand for them.
    known: Vec<(Dim, SymbolId)>,
    position: u32,
}

impl<'m> Inputs<'m, '_> {
    /// An input of the type that a value has around the loop, but for extents that steps change.
    fn add(
        &mut self,
        name: &'m str,
        ty: &TensorType,
        element: Option<Rc<Element>>,
        changes: &dyn Fn(usize) -> bool,
    ) -> Result<(), ImportError> {
        let mut shape = Vec::with_capacity(ty.shape.len());
        for (axis, extent) in ty.shape.iter().enumerate() {
            shape.push(if changes(axis) {
                let any = Symbol { name: format!("{name}[{axis}]"), min: 0, max: None };
                Dim::symbol(self.symbol(any))
            } else {
                self.same(name, axis, extent)
            });
        }
        let build = self.scopes.build();
        let mut tracked = build.input(name, TensorType::new(ty.dtype, shape)).map_err(ImportError::value(name))?;
        tracked = tracked.with_element(element);
        if self.demand.has_elements(name) {
            tracked = build.with_elements_of_input(&tracked, self.position, name);
        }
        self.position += 1;
        self.scopes.define(name, tracked);
        Ok(())
    }

    /// An extent as it is around the loop.
    fn same(&mut self, name: &str, axis: usize, extent: &Dim) -> Dim {
        let extent = self.outer.facts.apply(extent);
        if extent.as_const().is_some() {
            return extent;
        }
        if let Some((_, symbol)) = self.known.iter().find(|(known, _)| *known == extent) {
            return Dim::symbol(*symbol);
        }
        let own = extent.as_symbol().map(|symbol| self.outer.graph.symbols[symbol].name.clone());
        let interval = self.outer.ranges().interval(&extent);
        let name = own.unwrap_or_else(|| format!("{name}[{axis}]"));
        let symbol = self.symbol(Symbol { name, min: interval.min.unwrap_or(0).max(0), max: interval.max });
        self.known.push((extent, symbol));
        Dim::symbol(symbol)
    }

    /// A symbol of a name that no other has.
    fn symbol(&mut self, mut symbol: Symbol) -> SymbolId {
        let symbols = &mut self.scopes.build().graph.symbols;
        while symbols.iter().any(|other| other.name == symbol.name) {
            symbol.name.push('\'');
        }
        symbols.push(symbol)
    }
}

/// Whether a step knows a value from around its loop: a constant, or numbers that follow from constants.
fn is_known(value: &Tracked) -> bool {
    let is_number = |item: &Item| match item {
        Item::Int(dim) => dim.as_const().is_some(),
        Item::Const(_) => true,
    };
    let has_numbers = || match value.as_uniform() {
        Some(item) => is_number(item) && value.ty().static_shape().is_some(),
        None => value.items().is_some_and(|items| items.iter().all(is_number)),
    };
    value.in_another_graph().is_some() && (value.constant().is_some() || has_numbers())
}

/// The type that stands for one in a graph.
fn carried_as(dtype: DType) -> DType {
    carried(&TensorType::new(dtype, Vec::new())).dtype
}

/// Whether values of this type are passed from step to step: tensors whose elements have bytes, and sequences.
fn is_passed(dtype: DType) -> bool {
    dtype == DType::Sequence || (!is_value(dtype) && dtype.has_bytes())
}

impl Guess {
    /// What has to be guessed where this gave that graph: the same if it was right; `None` if a step gives a state of another
    /// type.
    fn corrected(&self, compiled: &Compiled) -> Option<Self> {
        let graph = &compiled.body.graph;
        let mut corrected = self.clone();
        let condition = graph.outputs.first()?;
        if graph.ty(condition.value).dtype != DType::Bool || graph.outputs.len() <= self.elements.len() {
            return None;
        }
        for (n, port) in graph.outputs.iter().skip(1).enumerate() {
            let after = graph.ty(port.value);
            let Some(element) = self.elements.get(n) else {
                if after.dtype == DType::Sequence || !is_passed(after.dtype) {
                    return None;
                }
                continue;
            };
            let before = graph.ty(graph.inputs.get(HostBody::BEFORE_STATES + n)?.value);
            if before.dtype != after.dtype || before.shape.len() != after.shape.len() {
                return None;
            }
            let changed = (0..before.shape.len()).filter(|&axis| !compiled.body.keeps(n, axis));
            corrected.changing.extend(changed.map(|axis| (n, axis)));
            // Of what is empty before the first step, all that is ever within is what steps put there.
            let was_empty = before.dtype == DType::Sequence && before.shape.iter().all(|len| len.is_const(0));
            let given = compiled.elements.get(n + 1)?;
            corrected.elements[n] = match (element, given) {
                (_, given) if was_empty => given.clone(),
                (Some(before), Some(given)) => Some(Rc::new(before.join(given).ok()?)),
                _ => None,
            };
        }
        Some(corrected)
    }
}

impl Compiled {
    /// What steps give, as far as it is the same of all.
    pub(super) fn results(&self) -> Vec<Option<Element>> {
        let graph = &self.body.graph;
        let of = |(port, element): (&Port, &Option<Rc<Element>>)| {
            let ty = graph.ty(port.value);
            Element { dtype: ty.dtype, shape: Some(ty.shape.iter().map(Dim::as_const).collect()), of: element.clone() }
        };
        graph.outputs.iter().zip(&self.elements).map(of).map(Some).collect()
    }
}
