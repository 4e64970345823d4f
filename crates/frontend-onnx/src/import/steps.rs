//! What the steps of a `Scan` or `Loop` are: a graph per step.
//!
//! Where every step does the same, they are a recurrence: states are carried, scanned inputs are seen slice by slice,
//! results are stacked. Where steps differ in more than data (a state that grows, a slice at the number of the step, a
//! condition on it) or convolve, and there are few, they are written out one after the other.

use super::counted::State;
use super::{Importer, dangling};
use crate::build::{Builder, Steps, index, mismatch, var};
use crate::call::Call;
use crate::error::{ImportError, NodeRef, Problem};
use crate::known::Item;
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use infc_ir::graph::{Graph, TensorType};
use infc_ir::index::{Dim, Proof};
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Const, ScalarOp};
use infc_tensor::DType;

/// So many steps are written out if they cannot be a recurrence.
pub(super) const MAX_WRITTEN_OUT: i64 = 64;

/// A graph, and what its inputs are in each step.
pub(super) struct Body<'m> {
    pub(super) graph: &'m GraphProto,
    /// The first values of all states; the first results are their next values.
    pub(super) firsts: Vec<Tracked>,
    /// What each of them is in a step.
    pub(super) states: Vec<State>,
    /// Seen slice by slice along the first axis.
    pub(super) slices: Vec<Tracked>,
    /// Only for a `Loop`: its inputs begin with the number of the step and the condition, its results with the latter.
    pub(super) is_loop: bool,
    pub(super) condition: Condition,
}

/// What is known of the condition that a `Loop` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Condition {
    /// It is known in each step.
    Known,
    /// It holds as long as there are steps.
    Counted,
    /// It depends on data, so that one state more says whether it has held so far.
    OnData,
}

impl Body<'_> {
    /// Whether steps have convolutions, which find kernels that suit them only if they are none with all steps in it.
    fn convolves(&self) -> bool {
        self.graph
            .node
            .iter()
            .any(|node| matches!(node.op_type(), "Conv" | "ConvTranspose" | "ConvInteger" | "QLinearConv"))
    }

    /// The first values of the states that steps make of each other.
    fn carried(&self) -> Vec<Tracked> {
        let states = self.firsts.iter().zip(&self.states);
        let mut carried: Vec<Tracked> =
            states.filter(|(_, state)| matches!(state, State::Carried)).map(|(first, _)| first.clone()).collect();
        carried.extend((self.condition == Condition::OnData).then(holds));
        carried
    }

    /// Of the results of a step, or of what there is of all states and of results, what belongs to states that are carried,
    /// and the results.
    fn without_fixed(&self, all: Vec<Tracked>) -> Vec<Tracked> {
        let is_kept = |n: usize| self.states.get(n).is_none_or(|state| matches!(state, State::Carried));
        all.into_iter().enumerate().filter(|(n, _)| is_kept(*n)).map(|(_, t)| t).collect()
    }

    /// All states behind so many steps, those that are carried given.
    fn last_states(&self, carried: Vec<Tracked>, steps: &Dim) -> Vec<Tracked> {
        let mut carried = carried.into_iter();
        let states = self.states.iter().filter_map(|state| match state {
            State::Carried => carried.next(),
            State::Fixed(first) => Some(first.clone()),
            State::Counter { ty, from, by } => {
                Some(Tracked::uniform(ty.clone(), Item::Int(from.clone() + steps.scale(*by))))
            }
        });
        states.collect()
    }

    /// How many inputs and outputs come before the states.
    fn leading(&self) -> (usize, usize) {
        if self.is_loop { (2, 1) } else { (0, 0) }
    }
}

/// What all steps give.
pub(super) struct Results {
    /// The last states.
    pub(super) states: Vec<Tracked>,
    /// Stacked along a new first axis.
    pub(super) stacked: Vec<Tracked>,
}

/// Always true.
fn holds() -> Tracked {
    Tracked::uniform(TensorType::new(DType::Bool, Vec::new()), Item::int(1))
}

/// Fails if a state may have other extents after a step than before it.
fn stays(build: &Builder, before: &Tracked, after: &Tracked) -> Result<(), Problem> {
    let (before, after) = (build.restated(before.shape()), build.restated(after.shape()));
    let is_same = |(before, after): (&Dim, &Dim)| {
        build.ranges().eq(before, after) == Proof::Yes || build.facts.equal(before, after)
    };
    if before.len() == after.len() && before.iter().zip(&after).all(is_same) {
        return Ok(());
    }
    Err(mismatch("a state that keeps its extents", &after))
}

/// The truth of a value, if it is known.
pub(super) fn known_truth(value: &Tracked) -> Option<bool> {
    Some(value.items()?.first()?.scalar()?.is_true())
}

impl<'m> Importer<'m, '_> {
    /// All steps; without a number of them as many as the condition lets happen.
    pub(super) fn steps(
        &mut self,
        node_ref: &NodeRef,
        body: &Body<'m>,
        steps: Option<&Dim>,
    ) -> Result<Results, ImportError> {
        let known = steps.and_then(Dim::as_const);
        let few = steps.is_none_or(|_| known.is_some_and(|n| n <= MAX_WRITTEN_OUT));
        let comes_first = few && body.convolves();
        if comes_first {
            let before = self.scopes.build().state();
            let written_out = self.written_out(node_ref, body, known);
            if written_out.is_ok() {
                return written_out;
            }
            self.scopes.build().return_to(before);
        }
        let recurrence = match steps {
            Some(steps) if !steps.is_const(0) && !steps.is_const(1) => self.recurrence(node_ref, body, steps),
            _ => Err(in_node(node_ref)(Problem::DynamicValue { what: "the number of steps" })),
        };
        match recurrence {
            Err(_) if few && !comes_first => self.written_out(node_ref, body, known),
            other => other,
        }
    }

    /// The steps as a recurrence over a graph of its own.
    pub(super) fn recurrence(
        &mut self,
        node_ref: &NodeRef,
        body: &Body<'m>,
        steps: &Dim,
    ) -> Result<Results, ImportError> {
        let in_node = in_node(node_ref);
        let mut slices = body.slices.clone();
        if body.is_loop {
            let numbers = self.scopes.build().generate(vec![steps.clone()], |b| index(b, var(0)));
            slices.insert(0, numbers.map_err(&in_node)?);
        }
        for slice in &slices {
            let extent = slice.shape().first().ok_or_else(|| in_node(mismatch("an axis of steps", slice.shape())))?;
            self.scopes.build().assume_equal("numbers of steps", steps, extent).map_err(&in_node)?;
        }
        self.scopes.enter_graph(body.graph);
        // All steps are one kernel; what the host would have to do in each leaves the whole loop to it.
        self.scopes.build().may_use_host = false;
        let built = self.step_graph(node_ref, body, &slices);
        let left = self.scopes.leave_graph();
        let outputs = built?;
        let (inside, captures) = left.ok_or_else(|| dangling(body.graph.name()))?;
        self.scopes.build().set_origin(&node_ref.name);
        let states = body.carried();
        let of = Steps {
            steps: steps.clone(),
            states: &states.iter().collect::<Vec<_>>(),
            slices: &slices.iter().collect::<Vec<_>>(),
            shared: &captures.iter().collect::<Vec<_>>(),
        };
        let build = self.scopes.build();
        let mut stacked = build.stacked(&of, inside, outputs).map_err(&in_node)?;
        let outputs = stacked.split_off(states.len());
        let mut last = Vec::new();
        for (initial, all) in states.iter().zip(&stacked) {
            last.push(last_state(build, initial, all, steps).map_err(&in_node)?);
        }
        Ok(Results { states: body.last_states(last, steps), stacked: outputs })
    }

    /// The nodes of one step in the graph that was entered; its results, without the condition.
    fn step_graph(
        &mut self,
        node_ref: &NodeRef,
        body: &Body<'m>,
        slices: &[Tracked],
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let mut names = body.graph.input.iter().map(|i| i.name());
        let number = body.is_loop.then(|| names.next().unwrap_or_default());
        if body.is_loop {
            self.scopes.define(names.next().unwrap_or_default(), holds());
        }
        let of_states: Vec<(&'m str, &State)> =
            body.states.iter().zip(names.by_ref()).map(|(s, name)| (name, s)).collect();
        let firsts = body.carried();
        // Whether the condition has held so far has no name.
        let nameless = usize::from(body.condition == Condition::OnData);
        let is_carried = |(_, state): &&(&'m str, &State)| matches!(state, State::Carried);
        let carried = of_states.iter().filter(is_carried).map(|(name, _)| Some(*name));
        let carried = carried.chain(std::iter::repeat_n(None, nameless));
        let rows: Vec<Option<&'m str>> = number.into_iter().chain(names).map(Some).collect();
        let mut types: Vec<(Option<&'m str>, TensorType)> =
            carried.zip(firsts.iter().map(|t| t.ty().clone())).collect();
        let row = |t: &Tracked| TensorType::new(t.dtype(), t.shape()[1..].to_vec());
        types.extend(rows.into_iter().zip(slices.iter().map(row)));
        let mut inputs = Vec::new();
        for (n, (name, ty)) in types.into_iter().enumerate() {
            let input = self.scopes.build().input(&format!("step{n}"), ty).map_err(&in_node)?;
            if let Some(name) = name {
                self.scopes.define(name, input.clone());
            }
            inputs.push(input);
        }
        for (name, state) in of_states {
            match state {
                State::Carried => {}
                State::Fixed(first) => self.scopes.give(name, first.clone()),
                State::Counter { ty, from, by } => {
                    let build = self.scopes.build();
                    let counted = counter(build, &inputs[firsts.len()], ty, (from, *by)).map_err(&in_node)?;
                    self.scopes.define(name, counted);
                }
            }
        }
        let mut outputs = self.block(body.graph)?;
        if body.is_loop {
            let condition = outputs.remove(0);
            outputs = body.without_fixed(outputs);
            if !self.takes_states_to_stay {
                let build = self.scopes.build();
                let mut states = inputs.iter().zip(&outputs).take(firsts.len() - nameless);
                states.try_for_each(|(before, after)| stays(build, before, after)).map_err(&in_node)?;
            }
            match body.condition {
                Condition::OnData => {
                    let states = firsts.len() - 1;
                    outputs = self.while_it_holds(&inputs, &condition, outputs, states).map_err(&in_node)?;
                }
                Condition::Known if known_truth(&condition) != Some(true) => {
                    return Err(in_node(Problem::DynamicValue { what: "the condition of a Loop" }));
                }
                Condition::Known | Condition::Counted => {}
            }
        }
        let graph = &self.scopes.build().graph;
        if has_recurrence(graph) {
            let (attribute, expected, found) = ("body", "a body without loops", "a loop inside of it".to_owned());
            return Err(in_node(Problem::UnsupportedAttribute { attribute, expected, found }));
        }
        Ok(outputs)
    }

    /// The results of a step that counts only if the condition has held so far, which is the last of the states; behind
    /// the results, whether it does.
    fn while_it_holds(
        &mut self,
        inputs: &[Tracked],
        condition: &Tracked,
        mut outputs: Vec<Tracked>,
        states: usize,
    ) -> Result<Vec<Tracked>, Problem> {
        let held = inputs[states].clone();
        let build = self.scopes.build();
        let mut results = Vec::new();
        let stacked = outputs.split_off(states.min(outputs.len()));
        for (before, after) in inputs.iter().zip(&outputs) {
            let after = build.conform("extents of a state", after, before.shape())?;
            let shape = before.shape().to_vec();
            results.push(build.map_over(shape, &[&held, &after, before], |b, p| b.select(p[0], p[1], p[2]))?);
        }
        let condition = build.reshape(condition, &[])?;
        results.push(build.map(&[&held, &condition], |b, p| b.binary(BinaryOp::And, p[0], p[1]))?);
        results.extend(stacked);
        results.push(held);
        Ok(results)
    }

    /// One step after the other, until there are enough or the condition says so.
    fn written_out(&mut self, node_ref: &NodeRef, body: &Body<'m>, steps: Option<i64>) -> Result<Results, ImportError> {
        let in_node = in_node(node_ref);
        let (_, leading) = body.leading();
        let mut carried = body.carried();
        let scanned = body.graph.output.len().saturating_sub(body.states.len() + leading);
        let mut parts: Vec<Vec<Tracked>> = vec![Vec::new(); scanned];
        let mut goes_on = true;
        let mut step = 0;
        while goes_on && steps.is_none_or(|steps| step < steps) {
            if step == MAX_WRITTEN_OUT {
                return Err(in_node(Problem::DynamicValue { what: "the number of steps of a Loop" }));
            }
            let build = self.scopes.build();
            let row = |build: &mut Builder, t: &Tracked| row(build, t, &Dim::constant(step));
            let rows = body.slices.iter().map(|t| row(build, t)).collect::<Result<Vec<_>, _>>().map_err(&in_node)?;
            self.scopes.enter(body.graph);
            let mut names = body.graph.input.iter().map(|i| i.name());
            if body.is_loop {
                let number = Tracked::uniform(TensorType::new(DType::I64, Vec::new()), Item::int(step));
                self.scopes.define(names.next().unwrap_or_default(), number);
                self.scopes.define(names.next().unwrap_or_default(), holds());
            }
            let states = body.last_states(carried, &Dim::constant(step));
            for (name, value) in names.zip(states.iter().chain(&rows)) {
                self.scopes.define(name, value.clone());
            }
            let outputs = self.block(body.graph);
            self.scopes.leave();
            let mut outputs = outputs?;
            if body.is_loop {
                let condition = outputs.remove(0);
                if body.condition != Condition::Counted {
                    goes_on = known_truth(&condition)
                        .ok_or_else(|| in_node(Problem::DynamicValue { what: "the condition of a Loop" }))?;
                }
            }
            let results = outputs.split_off(body.states.len());
            carried = body.without_fixed(outputs);
            for (parts, result) in parts.iter_mut().zip(results) {
                parts.push(self.scopes.build().insert_axis(&result, 0).map_err(&in_node)?);
            }
            step += 1;
        }
        let build = self.scopes.build();
        let mut stacked = Vec::new();
        for parts in &parts {
            if parts.is_empty() {
                // Nobody knows the shape of what no step gave.
                return Err(in_node(Problem::DynamicValue { what: "the shape of the results of no step" }));
            }
            stacked.push(build.concat(&parts.iter().collect::<Vec<_>>(), 0).map_err(&in_node)?);
        }
        Ok(Results { states: body.last_states(carried, &Dim::constant(step)), stacked })
    }

    /// A node's attributes.
    pub(super) fn call<'c>(&'c mut self, node: &'c NodeProto, node_ref: &NodeRef) -> Call<'c> {
        Call {
            node,
            opset: node_ref.opset,
            inputs: Vec::new(),
            build: self.scopes.build(),
            wanted: std::cell::Cell::default(),
        }
    }
}

pub(super) fn in_node(node_ref: &NodeRef) -> impl Fn(Problem) -> ImportError + '_ {
    move |problem| ImportError::Node { node: Box::new(node_ref.clone()), problem }
}

pub(super) fn body_of<'m>(node: &'m NodeProto, node_ref: &NodeRef) -> Result<&'m GraphProto, ImportError> {
    let found = node.attribute.iter().find(|a| a.name() == "body").and_then(|a| a.g.as_ref());
    let (expected, found_none) = ("a graph", "none".to_owned());
    found.ok_or_else(|| in_node(node_ref)(Problem::InvalidAttribute { attribute: "body", expected, found: found_none }))
}

pub(super) fn wrong_body(graph: &GraphProto, inputs: usize, outputs: usize) -> Problem {
    Problem::ShapeMismatch {
        expected: format!("a body with {inputs} inputs and at least {outputs} outputs"),
        found: format!("{} and {}", graph.input.len(), graph.output.len()),
    }
}

/// One element along the first axis, which disappears.
pub(super) fn row(build: &mut Builder, x: &Tracked, at: &Dim) -> Result<Tracked, Problem> {
    let Some((extent, rest)) = x.shape().split_first() else { return Err(mismatch("an axis of steps", x.shape())) };
    build.require_at_least("the number of steps", extent, &(at.clone() + 1))?;
    let index = std::iter::once(at.clone()).chain((0..rest.len()).map(var)).collect();
    build.view(x, index, rest.to_vec())
}

/// What counts from a dim by so much a step, in the step of this number.
fn counter(
    build: &mut Builder,
    number: &Tracked,
    ty: &TensorType,
    (from, by): (&Dim, i64),
) -> Result<Tracked, Problem> {
    let value = build.map(&[number], |b, p| {
        let by = b.push(ScalarOp::Const(Const::from_i64(DType::I64, by)));
        let from = index(b, from.clone());
        let counted = b.binary(BinaryOp::Mul, p[0], by);
        b.binary(BinaryOp::Add, counted, from)
    })?;
    let value = build.cast(&value, ty.dtype)?;
    build.reshape(&value, &ty.shape)
}

/// The state after all steps, which is the first one if there are none.
fn last_state(build: &mut Builder, initial: &Tracked, all: &Tracked, steps: &Dim) -> Result<Tracked, Problem> {
    if build.ranges().interval(steps).min.is_some_and(|min| min >= 1) {
        return row(build, all, &(steps.clone() - 1));
    }
    let first = build.insert_axis(initial, 0)?;
    let with_first = build.concat(&[&first, all], 0)?;
    let index = std::iter::once(steps.clone()).chain((0..initial.rank()).map(var)).collect();
    build.view(&with_first, index, initial.shape().to_vec())
}

/// Whether there are steps in a graph that see each other, in branches, too.
fn has_recurrence(graph: &Graph) -> bool {
    graph.nodes.iter().any(|node| match &node.op {
        Op::Recurrence(_) => true,
        Op::If(branches) => has_recurrence(&branches.then) || has_recurrence(&branches.otherwise),
        _ => false,
    })
}
