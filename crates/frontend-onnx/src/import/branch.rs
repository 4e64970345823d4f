//! `If`: the branch that is taken, where that is known; both, where it is not.
//!
//! ONNX operator `If`, opset 1 and later. A condition that follows from constants and dims is decided here. One that
//! only says whether two dims are equal, and whose branches have different types (exporters emit such around a
//! `Squeeze`), cannot be a choice at run time; the import assumes one answer, which the artifact checks when it runs, and
//! takes the other one if the rest of the model does not make sense with it, or its outputs would have other extents than
//! the model declares. All others are choices made when the model
//! runs, among them those on sizes that only the run tells, and both branches must have the same element types, or
//! all but one make no sense ([`possible`]). Results of different ranks are of any rank ([`super::unranked`]). What a branch
//! takes for granted is asked where it is taken ([`own`]); of all runs only where both are computed, in steps of loops.

mod own;
mod possible;

use super::{Importer, dangling};
use crate::build::{Builder, carried, mismatch};
use crate::element::{self, Element};
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::proto::{GraphProto, NodeProto, ValueInfoProto};
use crate::tracked::Tracked;
use crate::truth;
use infc_ir::entity::{SymbolId, ValueId};
use infc_ir::graph::{Definition, Graph, Requirement, SymbolSource, TensorType};
use infc_ir::index::{Atom, Dim, Facts, Proof, Ranges};
use infc_ir::op::{IfOp, Op, Produced};
use infc_ir::scalar::{BinaryOp, CompareOp, Const, ScalarOp, UnaryOp, is_computable};
use infc_ir::symbol::Symbol;
use infc_tensor::DType;
use std::collections::HashMap;
use std::ops::Range;
use std::rc::Rc;
use std::sync::Arc;

/// How many answers to questions about dims an import tries.
pub(super) const MAX_ANSWERS: usize = 64;

/// Answers to questions about dims that cannot be proven, in the order in which they come up.
#[derive(Debug)]
pub(super) struct Assumptions {
    answers: Vec<bool>,
    /// How many came up in this attempt.
    asked: usize,
    attempts: usize,
    /// How many there may be.
    most: usize,
}

impl Assumptions {
    pub(super) fn new(most: usize) -> Self {
        Self { answers: Vec::new(), asked: 0, attempts: 0, most }
    }

    /// The answer to the next question: yes at first.
    fn answer(&mut self) -> bool {
        if self.asked == self.answers.len() {
            self.answers.push(true);
        }
        self.asked += 1;
        self.answers[self.asked - 1]
    }

    /// How many questions have come up in this attempt.
    pub(super) fn asked(&self) -> usize {
        self.asked
    }

    /// True if no question came up.
    pub(super) fn is_empty(&self) -> bool {
        self.asked == 0
    }

    /// Forgets the questions that came up since there were so many.
    pub(super) fn return_to(&mut self, asked: usize) {
        self.asked = asked;
    }

    /// Begins anew with the first answers.
    pub(super) fn again(&mut self) {
        self.answers.clear();
        self.asked = 0;
    }

    /// Goes on to other answers; false if all have been tried.
    pub(super) fn next(&mut self) -> bool {
        self.answers.truncate(self.asked);
        self.asked = 0;
        self.attempts += 1;
        while self.answers.last() == Some(&false) {
            self.answers.pop();
        }
        match self.answers.last_mut() {
            Some(last) if self.attempts < self.most => {
                *last = false;
                true
            }
            _ => false,
        }
    }
}

/// Whether the outputs may have the extents that are declared where the answers hold that were assumed of dims. What is
/// declared is no more than a hint, since exporters declare wrong extents.
pub(super) fn may_be_as_declared<'d>(graph: &Graph, declared: impl Iterator<Item = &'d ValueInfoProto>) -> bool {
    let numbers = required_numbers(graph);
    let can_be = |dim: &Dim, number: i64| {
        let is = with_numbers(dim, &numbers).as_const().is_none_or(|is| is == number);
        let differs = |r: &Requirement| !r.equal && r.left == *dim && r.right.as_const() == Some(number);
        is && !graph.requires.iter().any(differs)
    };
    graph.outputs.iter().zip(declared).all(|(port, declared)| {
        let declared = Element::of_declaration(declared).and_then(|element| element.shape);
        let extents = declared.unwrap_or_default();
        graph.port_type(port).shape.iter().zip(extents).all(|(dim, extent)| extent.is_none_or(|n| can_be(dim, n)))
    })
}

/// The symbols that are numbers where everything holds that is required, and those that follow from them.
fn required_numbers(graph: &Graph) -> HashMap<SymbolId, i64> {
    let required = |r: &Requirement| Some((r.left.as_symbol()?, r.right.as_const().filter(|_| r.equal)?));
    let mut numbers: HashMap<SymbolId, i64> = graph.requires.iter().filter_map(required).collect();
    // Symbols are computed from earlier ones.
    for symbol in graph.symbols.ids() {
        if let Some(SymbolSource::Computed(dim)) = graph.source(symbol)
            && let Some(number) = with_numbers(&dim, &numbers).as_const()
        {
            numbers.insert(symbol, number);
        }
    }
    numbers
}

fn with_numbers(dim: &Dim, numbers: &HashMap<SymbolId, i64>) -> Dim {
    dim.substitute(&|atom| match atom {
        Atom::Symbol(symbol) => numbers.get(symbol).map(|&number| Dim::constant(number)),
        _ => None,
    })
}

/// A branch as a graph of its own, and the values outside that its inputs stand for.
struct Branch {
    build: Builder,
    captures: Vec<Tracked>,
    /// Element types of the outputs, which the graph may hold as others.
    dtypes: Vec<DType>,
    /// What is known of the values within the outputs.
    elements: Vec<Option<Rc<Element>>>,
    /// Which outputs have as many axes as a run tells.
    unranked: Vec<bool>,
    /// How many axes the outputs have, which the graph may hold as vectors.
    ranks: Vec<usize>,
    /// Which sources of symbols of the graph around came up in the branch.
    sources: Range<usize>,
    /// Whether what it takes for granted is asked where it is taken alone.
    stands_alone: bool,
}

impl Branch {
    /// Makes an output one of any number of axes.
    fn take_any_rank(&mut self, output: usize) -> Result<(), Problem> {
        if self.unranked[output] {
            return Ok(());
        }
        let port = self.build.graph.outputs[output].value;
        let ty = self.build.graph.ty(port).clone();
        if ty.dtype != self.dtypes[output] {
            let found = self.dtypes[output];
            return Err(Problem::UnsupportedType { expected: "elements of whole bytes that are computed with", found });
        }
        let value = Tracked::of_value(ty, port).with_element(self.elements[output].take());
        let value = host::unranked::unranked(&mut self.build, &value)?;
        self.build.graph.outputs[output].value = self.build.value(&value)?;
        (self.dtypes[output], self.elements[output]) = (value.dtype(), value.element().cloned());
        self.unranked[output] = true;
        Ok(())
    }
}

/// In what the results of two branches may differ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Differences {
    None,
    /// In extents.
    Extents,
    /// In extents and in how many axes there are.
    Ranks,
}

impl<'m> Importer<'m, '_> {
    /// The outputs of an `If` node.
    pub(super) fn branches(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let branch = |name: &'static str| {
            let found = node.attribute.iter().find(|a| a.name() == name).and_then(|a| a.g.as_ref());
            found.ok_or_else(|| {
                in_node(Problem::InvalidAttribute { attribute: name, expected: "a graph", found: "none".to_owned() })
            })
        };
        let (then, otherwise) = (branch("then_branch")?, branch("else_branch")?);
        let condition = inputs.into_iter().next().flatten();
        let condition = condition.ok_or_else(|| in_node(Problem::MissingInput { index: 0 }))?;
        if condition.dtype() != DType::Bool {
            let found = condition.dtype();
            return Err(in_node(Problem::UnsupportedType { expected: "a bool", found }));
        }
        if let Some(known) = condition.items().and_then(|items| items.first()?.dim()?.as_const()) {
            return self.in_place(if known != 0 { then } else { otherwise });
        }
        let equality = equality(self.scopes.build(), &condition).map_err(in_node)?;
        // A condition on dims that inputs tell is rather assumed than that results may have any size.
        let build = self.scopes.build();
        let is_late = equality.as_ref().is_some_and(|e| build.facts.is_late(&e.left) || build.facts.is_late(&e.right));
        let may_differ = (equality.is_none() || is_late) && build.may_use_host;
        let differences = match equality {
            _ if !may_differ => Differences::None,
            Some(_) => Differences::Extents,
            None => Differences::Ranks,
        };
        let error = match self.choice(node, node_ref, &condition, [then, otherwise], equality.as_ref(), differences) {
            Ok(outputs) => return Ok(outputs),
            Err(error) => error,
        };
        let Some(equality) = equality else {
            return self.possible(node, node_ref, &condition, [then, otherwise], error);
        };
        let holds = self.assumptions.answer();
        let equal = equality.equal == holds;
        self.scopes.build().graph.require(Requirement { equal, ..equality });
        self.in_place(if holds { then } else { otherwise })
    }

    /// The nodes of a branch that is taken for certain, among those around it.
    fn in_place(&mut self, graph: &'m GraphProto) -> Result<Vec<Tracked>, ImportError> {
        self.scopes.enter(graph);
        let outputs = self.block(graph);
        self.scopes.leave();
        outputs
    }

    /// The nodes and outputs of a subgraph.
    pub(super) fn block(&mut self, graph: &'m GraphProto) -> Result<Vec<Tracked>, ImportError> {
        let order: Vec<usize> = (0..graph.node.len()).collect();
        self.nodes(graph, &order)?;
        let mut outputs = Vec::new();
        for output in &graph.output {
            outputs.push(self.scopes.value(output.name())?.ok_or_else(|| dangling(output.name()))?);
        }
        Ok(outputs)
    }

    /// A branch by itself; `facts` are what is known in it, if that is more than what is known around.
    fn graph_of(&mut self, graph: &'m GraphProto, facts: Option<Facts>) -> Result<Branch, ImportError> {
        let first = self.scopes.build().graph.sources.len();
        self.scopes.enter_graph(graph);
        if let Some(facts) = facts {
            self.scopes.build().facts = facts;
        }
        let built = self.block(graph).and_then(|outputs| {
            for (n, output) in outputs.iter().enumerate() {
                let added = self.scopes.build().output(&format!("y{n}"), output);
                added.map_err(ImportError::value(graph.output[n].name()))?;
            }
            Ok(outputs)
        });
        let left = self.scopes.leave_graph();
        let outputs = built?;
        let (build, captures) = left.ok_or_else(|| dangling(graph.name()))?;
        let dtypes = outputs.iter().map(Tracked::dtype).collect();
        let elements = outputs.iter().map(|output| output.element().cloned()).collect();
        let unranked = outputs.iter().map(Tracked::is_unranked).collect();
        let ranks = outputs.iter().map(Tracked::rank).collect();
        let sources = first..self.scopes.build().graph.sources.len();
        Ok(Branch { build, captures, dtypes, elements, unranked, ranks, sources, stands_alone: false })
    }

    /// Both branches. They do not stand alone where both are computed, whatever the condition is; what one of them takes for
    /// granted the other one may, too.
    fn both(
        &mut self,
        [then, otherwise]: [&'m GraphProto; 2],
        equality: Option<&Requirement>,
    ) -> Result<[Branch; 2], ImportError> {
        if self.scopes.build().may_use_host && !self.shares_assumptions {
            let build = self.scopes.build();
            let known = |holds: bool| {
                let Requirement { left, right, .. } = equality.filter(|e| e.equal == holds)?;
                let mut facts = build.facts.clone();
                facts.take_equal(left, right, &build.ranges());
                Some(facts)
            };
            let (in_then, in_otherwise) = (known(true), known(false));
            if let (Ok(then), Ok(otherwise)) = (self.graph_of(then, in_then), self.graph_of(otherwise, in_otherwise)) {
                let branches = [then, otherwise];
                if branches.iter().all(|branch| branch.may_stand_alone(self.scopes.build())) {
                    return Ok(branches.map(|branch| Branch { stands_alone: true, ..branch }));
                }
            }
        }
        // Branches within share them, too, or each level would be imported twice as often as the one around it.
        let shared = std::mem::replace(&mut self.shares_assumptions, true);
        let both = self.sharing([then, otherwise]);
        self.shares_assumptions = shared;
        both
    }

    /// Both branches, of which the second one is taken to know what the first one takes for granted.
    fn sharing(&mut self, [then, otherwise]: [&'m GraphProto; 2]) -> Result<[Branch; 2], ImportError> {
        let then = self.graph_of(then, None)?;
        let otherwise = self.graph_of(otherwise, Some(then.build.facts.clone()))?;
        Ok([then, otherwise])
    }

    /// Both branches, one of which is computed when the model runs.
    fn choice(
        &mut self,
        node: &NodeProto,
        node_ref: &NodeRef,
        condition: &Tracked,
        branches: [&'m GraphProto; 2],
        equality: Option<&Requirement>,
        differences: Differences,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = |problem: Problem| ImportError::Node { node: Box::new(node_ref.clone()), problem };
        let [mut then, mut otherwise] = self.both(branches, equality)?;
        for output in 0..then.dtypes.len().min(otherwise.dtypes.len()) {
            let is_of_any = then.unranked[output] || otherwise.unranked[output];
            if is_of_any || (differences == Differences::Ranks && then.ranks[output] != otherwise.ranks[output]) {
                then.take_any_rank(output).map_err(in_node)?;
                otherwise.take_any_rank(output).map_err(in_node)?;
            }
        }
        self.scopes.build().set_origin(&node_ref.name);
        let build = self.scopes.build();
        // Both see what either needs.
        let (first, second) = (then.captures.clone(), otherwise.captures.clone());
        for (n, value) in second.iter().enumerate() {
            then.build.graph.add_input(&format!("other{n}"), carried(value.ty()));
        }
        for (n, value) in first.iter().enumerate() {
            otherwise.build.graph.add_input(&format!("other{n}"), carried(value.ty()));
        }
        otherwise.build.graph.inputs.rotate_right(first.len());
        renumber_inputs(&mut otherwise.build.graph);
        if then.stands_alone {
            then.stand_alone(build, &node_ref.name);
            otherwise.stand_alone(build, &node_ref.name);
        }
        then.build.graph.symbols.clone_from(&build.graph.symbols);
        otherwise.build.graph.symbols.clone_from(&build.graph.symbols);

        let names: Vec<&str> =
            node.output.iter().map(String::as_str).filter(|_| differences != Differences::None).collect();
        let told =
            equality.filter(|e| then.stands_alone && !build.facts.is_late(&e.left) && !build.facts.is_late(&e.right));
        let (types, produces) = result_types(&then, &otherwise, &names, told, build).map_err(in_node)?;
        if then.stands_alone {
            let own = |output: usize, axis: usize| {
                produces.iter().any(|p| (p.output as usize, p.axis as usize) == (output, axis))
            };
            for (output, ty) in types.iter().enumerate() {
                then.conform_output(output, &ty.shape, &own, &node_ref.name);
                otherwise.conform_output(output, &ty.shape, &own, &node_ref.name);
            }
            // What the choice made symbols of, its branches say of their results.
            then.build.graph.symbols.clone_from(&build.graph.symbols);
            otherwise.build.graph.symbols.clone_from(&build.graph.symbols);
        }
        let both = then.elements.iter().zip(&otherwise.elements);
        let elements = both.map(|(a, b)| element::join(a.as_ref(), b.as_ref())).collect::<Result<Vec<_>, _>>();
        let elements = elements.map_err(in_node)?;
        let unranked = std::mem::take(&mut then.unranked);
        let captured: Vec<&Tracked> = first.iter().chain(&second).collect();
        if !then.stands_alone {
            build.adopt(&mut then.build);
            build.adopt(&mut otherwise.build);
        }
        produces.iter().for_each(|produced| build.facts.take_as_late(produced.symbol));
        let (then, otherwise) = (Arc::new(then.build.graph), Arc::new(otherwise.build.graph));
        let op = IfOp { then, otherwise, produces };
        let outputs = build.choose(condition, &captured, op, types).map_err(in_node)?;
        let known = outputs.iter().zip(elements).zip(&unranked);
        let known = known.map(|((output, element), &is_unranked)| match element {
            Some(element) if is_unranked => Tracked::unranked(output, element.dtype),
            element => output.with_element(element),
        });
        Ok(known.collect())
    }
}

/// Makes the inputs' values know their positions.
fn renumber_inputs(graph: &mut Graph) {
    for n in 0..graph.inputs.len() {
        let value: ValueId = graph.inputs[n].value;
        graph.values[value].definition = Definition::Input(n as u32);
    }
}

/// The types of the outputs, which are those of both branches. An extent in which they differ follows from the dims that are `told`
/// to be equal or not, if the condition says no more than that; else it is a symbol that the choice produces, if its output is among
/// `names`; else it is an error.
fn result_types(
    first: &Branch,
    second: &Branch,
    names: &[&str],
    told: Option<&Requirement>,
    build: &mut Builder,
) -> Result<(Vec<TensorType>, Vec<Produced>), Problem> {
    let (then, otherwise) = (&first.build.graph, &second.build.graph);
    if let Some((&left, &right)) = first.dtypes.iter().zip(&second.dtypes).find(|(a, b)| a != b) {
        return Err(Problem::TypeMismatch { left, right });
    }
    let ranges = Ranges::of_symbols(&build.graph.symbols);
    let (mut types, mut produces) = (Vec::new(), Vec::new());
    for (n, ((a, b), &dtype)) in then.outputs.iter().zip(&otherwise.outputs).zip(&first.dtypes).enumerate() {
        let (a, b) = (then.ty(a.value), otherwise.ty(b.value));
        let expected = || mismatch(format!("shape [{}] from both branches", crate::build::show(&a.shape)), &b.shape);
        if a.shape.len() != b.shape.len() {
            return Err(expected());
        }
        let mut shape = Vec::with_capacity(a.shape.len());
        for (axis, (x, y)) in a.shape.iter().zip(&b.shape).enumerate() {
            if ranges.eq(x, y) == Proof::Yes || second.takes_to_be(n, y, x) {
                shape.push(x.clone());
                continue;
            }
            if first.takes_to_be(n, x, y) {
                shape.push(y.clone());
                continue;
            }
            let is_known = is_computable(a.dtype) && !first.is_late(x) && !second.is_late(y);
            if let Some(Requirement { left, right, equal, .. }) = told.filter(|_| is_known) {
                let truth = truth::equal(left, right);
                let (x, y) = if *equal { (x, y) } else { (y, x) };
                shape.push(build.named_extent("an extent of a choice", &truth::either(&truth, x, y)));
                continue;
            }
            let name = names.get(n).ok_or_else(expected)?;
            let (x, y) = (ranges.interval(x), ranges.interval(y));
            let max = x.max.zip(y.max).map(|(x, y)| x.max(y).max(0));
            let min = x.min.unwrap_or(0).min(y.min.unwrap_or(0)).max(0);
            let symbol = build.graph.symbols.push(Symbol { name: format!("{name}[{axis}]"), min, max });
            produces.push(Produced { output: n as u32, axis: axis as u32, symbol });
            shape.push(Dim::symbol(symbol));
        }
        types.push(TensorType::new(dtype, shape));
    }
    Ok((types, produces))
}

/// What a condition says of two dims, if that is all it says.
fn equality(build: &mut Builder, condition: &Tracked) -> Result<Option<Requirement>, Problem> {
    let mut value = build.value(condition)?;
    let map = loop {
        let Some((_, node)) = build.graph.producer(value) else { return Ok(None) };
        match &node.op {
            Op::View(view) if view.map.valid.is_empty() => value = node.inputs[0],
            Op::Map(map) if node.inputs.is_empty() => break map,
            _ => return Ok(None),
        }
    };
    let [mut at] = map.results[..] else { return Ok(None) };
    let mut equal = true;
    loop {
        let dim = |op: &ScalarOp| match op {
            ScalarOp::Index(dim) if !dim.uses_vars() => Some(dim.clone()),
            ScalarOp::Const(Const { dtype, bits }) if dtype.is_int() => Some(Dim::constant(*bits as i64)),
            _ => None,
        };
        let truth = |op: &ScalarOp| matches!(op, ScalarOp::Const(c) if c.dtype == DType::Bool && c.bits == 1);
        match &map.body.ops[at] {
            ScalarOp::Unary(UnaryOp::Not, a) => {
                equal = !equal;
                at = *a;
            }
            ScalarOp::Binary(BinaryOp::And, a, b) if truth(&map.body.ops[*b]) => at = *a,
            ScalarOp::Compare(op @ (CompareOp::Eq | CompareOp::Ne), a, b) => {
                let (Some(left), Some(right)) = (dim(&map.body.ops[*a]), dim(&map.body.ops[*b])) else {
                    return Ok(None);
                };
                let equal = equal == (*op == CompareOp::Eq);
                let what = "dims that a condition of the model compares".to_owned();
                return Ok(Some(Requirement { left, right, equal, what }));
            }
            _ => return Ok(None),
        }
    }
}
