//! `Scan` and `Loop`: a graph per step.
//!
//! ONNX operators `Scan` (opset 8; since 9 without a batch) and `Loop` (opset 1 and later). Where every step does the same,
//! both are a recurrence: states are carried, scanned inputs are seen slice by slice, results are stacked. Where steps
//! differ in more than data (a state that grows, a slice at the number of the step, a condition on it), and there are few,
//! they are written out one after the other.
//!
//! Where the condition of a `Loop` counts, it says how many steps there are ([`super::counted`]).
//!
//! A number of steps that only the run tells is counted out by the host, whose result has that many elements. Where the
//! condition of a `Loop` depends on data, all steps that there may be are computed, and those after it has failed leave
//! the states as they are; the results that count are cut out behind the loop. That takes a limit on the steps.

use super::counted::{Counting, State, counting};
use super::{Importer, dangling};
use crate::build::{Builder, Steps, index, mismatch, var};
use crate::call::{Call, axis};
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::known::Item;
use crate::proto::tensor_shape_proto::dimension;
use crate::proto::{GraphProto, NodeProto, type_proto};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::graph::TensorType;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::op::Op;
use infc_ir::scalar::{BinaryOp, Body as ScalarBody, Const, ScalarOp};
use infc_tensor::DType;

/// So many steps are written out if they cannot be a recurrence.
const MAX_WRITTEN_OUT: i64 = 64;

/// So many steps or more mean that only the condition ends a loop.
const ENDLESS: i64 = (1 << 31) - 1;

/// So many steps may be computed of which a condition on data says how many count.
const MAX_CONDITIONAL: i64 = 1 << 12;

/// A graph, and what its inputs are in each step.
struct Body<'m> {
    graph: &'m GraphProto,
    /// The first values of all states; the first results are their next values.
    firsts: Vec<Tracked>,
    /// What each of them is in a step.
    states: Vec<State>,
    /// Seen slice by slice along the first axis.
    slices: Vec<Tracked>,
    /// Only for a `Loop`: its inputs begin with the number of the step and the condition, its results with the latter.
    is_loop: bool,
    condition: Condition,
}

/// What is known of the condition that a `Loop` goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Condition {
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
struct Results {
    /// The last states.
    states: Vec<Tracked>,
    /// Stacked along a new first axis.
    stacked: Vec<Tracked>,
}

/// Always true.
fn holds() -> Tracked {
    Tracked::uniform(TensorType::new(DType::Bool, Vec::new()), Item::int(1))
}

/// The truth of a value, if it is known.
fn known_truth(value: &Tracked) -> Option<bool> {
    Some(value.items()?.first()?.scalar()?.is_true())
}

impl<'m> Importer<'m, '_> {
    /// The outputs of a `Scan` node.
    pub(super) fn scan(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let graph = body_of(node, node_ref)?;
        let mut inputs = inputs;
        let batched = node_ref.opset < 9;
        if batched && inputs.first().is_some_and(Option::is_some) {
            let (attribute, expected) = ("sequence_lens", "sequences of one length");
            return Err(in_node(Problem::UnsupportedAttribute { attribute, expected, found: "an input".to_owned() }));
        }
        if batched && !inputs.is_empty() {
            inputs.remove(0);
        }
        let values: Option<Vec<Tracked>> = inputs.into_iter().collect();
        let values = values.ok_or_else(|| in_node(Problem::MissingInput { index: 0 }))?;
        let of = Scanned::of(&self.call(node, node_ref), graph, values.len(), batched).map_err(&in_node)?;
        if !batched {
            return self.scan_of(node_ref, graph, &of, &values);
        }
        // Sequences of a batch know nothing of each other.
        let batch = values.first().and_then(|t| t.shape().first()).and_then(Dim::as_const);
        let batch = batch.filter(|n| (1..=MAX_WRITTEN_OUT).contains(n));
        let batch = batch.ok_or_else(|| in_node(Problem::DynamicValue { what: "the batch of a Scan" }))?;
        let mut results: Vec<Vec<Tracked>> = Vec::new();
        for n in 0..batch {
            let build = self.scopes.build();
            let row = |build: &mut Builder, t: &Tracked| row(build, t, &Dim::constant(n));
            let rows = values.iter().map(|t| row(build, t)).collect::<Result<Vec<_>, _>>().map_err(&in_node)?;
            let outputs = self.scan_of(node_ref, graph, &of, &rows)?;
            results.resize(outputs.len(), Vec::new());
            for (all, output) in results.iter_mut().zip(outputs) {
                all.push(self.scopes.build().insert_axis(&output, 0).map_err(&in_node)?);
            }
        }
        let build = self.scopes.build();
        let whole = |parts: Vec<Tracked>| build.concat(&parts.iter().collect::<Vec<_>>(), 0);
        results.into_iter().map(whole).collect::<Result<_, _>>().map_err(in_node)
    }

    fn scan_of(
        &mut self,
        node_ref: &NodeRef,
        graph: &'m GraphProto,
        of: &Scanned,
        values: &[Tracked],
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let (states, scanned) = values.split_at(of.states);
        let build = self.scopes.build();
        let mut slices = Vec::new();
        for (value, (given, reverse)) in scanned.iter().zip(&of.inputs) {
            slices.push(first_axis(build, value, *given, *reverse).map_err(&in_node)?);
        }
        let steps = slices.first().and_then(|t| t.shape().first()).cloned();
        let steps = steps.ok_or_else(|| in_node(Problem::MissingInput { index: of.states }))?;
        let body = Body {
            graph,
            firsts: states.to_vec(),
            states: vec![State::Carried; states.len()],
            slices,
            is_loop: false,
            condition: Condition::Known,
        };
        let results = self.steps(node_ref, &body, Some(&steps))?;
        let build = self.scopes.build();
        let mut outputs = results.states;
        for (stacked, (given, reverse)) in results.stacked.iter().zip(&of.outputs) {
            outputs.push(from_first_axis(build, stacked, *given, *reverse).map_err(&in_node)?);
        }
        Ok(outputs)
    }

    /// The outputs of a `Loop` node.
    pub(super) fn iterate(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        inputs: Vec<Option<Tracked>>,
    ) -> Result<Vec<Tracked>, ImportError> {
        let in_node = in_node(node_ref);
        let graph = body_of(node, node_ref)?;
        let mut inputs = inputs.into_iter();
        let (count, condition) = (inputs.next().flatten(), inputs.next().flatten());
        let states: Option<Vec<Tracked>> = inputs.collect();
        let states = states.ok_or_else(|| in_node(Problem::MissingInput { index: 2 }))?;
        if graph.input.len() != states.len() + 2 || graph.output.len() <= states.len() {
            return Err(in_node(wrong_body(graph, states.len() + 2, states.len() + 1)));
        }
        let counting = self.counting(graph, &states);
        let goes_on = condition.as_ref().and_then(known_truth);
        let turns = self.turns(node, &counting, count.as_ref(), condition.as_ref()).map_err(&in_node)?;
        let is_counted = turns.is_some();
        let steps = match (&count, goes_on.or(condition.is_none().then_some(true))) {
            (_, Some(false)) => Some(Dim::constant(0)),
            _ if is_counted => turns,
            (None, Some(true)) => None,
            (None, None) => return Err(in_node(Problem::DynamicValue { what: "the condition of a Loop" })),
            (Some(count), _) => {
                let condition = condition.as_ref().filter(|_| goes_on.is_none());
                let mut steps = self.number_of_steps(node, node_ref, count, condition)?;
                let stacked = node.output.get(states.len()..).unwrap_or_default();
                if let Some(declared) = self.declared_steps(stacked).filter(|_| steps.as_const().is_none()) {
                    let build = self.scopes.build();
                    build.require_equal("the number of steps and of results", &steps, &declared).map_err(&in_node)?;
                    steps = declared;
                }
                Some(steps).filter(|steps| steps.as_const().is_none_or(|n| n < ENDLESS))
            }
        };
        let condition = if is_counted { Condition::Counted } else { Condition::Known };
        let body =
            Body { graph, firsts: states, states: counting.states, slices: Vec::new(), is_loop: true, condition };
        let results = match self.steps(node_ref, &body, steps.as_ref()) {
            Ok(results) => results,
            Err(error) => match steps {
                // The least that is known to be wrong is what matters, unless a condition on data is.
                Some(steps) if !is_counted => self.conditional(node_ref, body, &steps).map_err(|_| error)?,
                _ => return Err(error),
            },
        };
        Ok(results.states.into_iter().chain(results.stacked).collect())
    }

    /// What is known of a `Loop` without its steps.
    fn counting(&mut self, graph: &'m GraphProto, states: &[Tracked]) -> Counting {
        let ranges = self.scopes.build().ranges();
        counting(graph, states, &ranges, &mut |name| self.scopes.value(name).ok().flatten())
    }

    /// The number of steps of a loop that counts, if it is known how many it is given at most, and whether it begins.
    fn turns(
        &mut self,
        node: &'m NodeProto,
        counting: &Counting,
        count: Option<&Tracked>,
        condition: Option<&Tracked>,
    ) -> Result<Option<Dim>, Problem> {
        let one = |value: &Tracked| value.dims().and_then(|dims| dims.first().cloned());
        let names = || node.input.iter().map(String::as_str);
        // What would have to be known can maybe be traced to an input; then the import begins anew with that.
        let mut wanted: Vec<&str> = counting.wanted.iter().filter_map(|&state| names().nth(2 + state)).collect();
        if counting.turns.is_some() && condition.is_some_and(|condition| one(condition).is_none()) {
            wanted.extend(names().nth(1));
        }
        let mut learned = false;
        for name in wanted {
            learned |= self.want(name);
        }
        if learned {
            return Err(Problem::DynamicValue { what: "the condition of a Loop" });
        }
        let Some((turns, most)) = &counting.turns else { return Ok(None) };
        let mut steps = turns.clone();
        if let Some(count) = count {
            let Some(count) = one(count) else { return Ok(None) };
            steps = steps.minimum(&count.maximum(&Dim::constant(0)));
        }
        if let Some(condition) = condition {
            let Some(begins) = one(condition) else { return Ok(None) };
            steps = steps * begins;
        }
        let build = self.scopes.build();
        let steps = steps.simplify(&build.ranges());
        if *most < i64::MAX {
            build.require_at_least("what floats of 32 bits count to", &Dim::constant(*most), &steps)?;
        }
        let steps = if steps.as_const().is_some() { steps } else { build.size("the number of steps", &steps)? };
        Ok(Some(steps))
    }

    /// The steps that a `Loop` is given, none if the condition does not hold.
    fn number_of_steps(
        &mut self,
        node: &'m NodeProto,
        node_ref: &NodeRef,
        count: &Tracked,
        condition: Option<&Tracked>,
    ) -> Result<Dim, ImportError> {
        let in_node = in_node(node_ref);
        let one = |value: &Tracked| value.dims().and_then(|dims| dims.first().cloned());
        let known = match (one(count), condition.map(one)) {
            (Some(count), None) => Some(count),
            (Some(count), Some(Some(truth))) => Some(count * truth),
            _ => None,
        };
        if let Some(known) = known {
            // A negative count is none.
            let build = self.scopes.build();
            let known = known.maximum(&Dim::constant(0)).simplify(&build.ranges());
            let is_constant = known.as_const().is_some();
            return if is_constant { Ok(known) } else { build.size("the number of steps", &known).map_err(in_node) };
        }
        // Where it can be traced to an input, the import begins anew with that.
        let unknown = [(Some(count), 0), (condition, 1)];
        let unknown = unknown.into_iter().filter(|(value, _)| value.is_some_and(|value| one(value).is_none()));
        let mut learned = false;
        for name in unknown.filter_map(|(_, index)| node.input.get(index)) {
            learned |= self.want(name);
        }
        let build = self.scopes.build();
        let is_endless = one(count).and_then(|count| count.as_const()).is_some_and(|count| count >= ENDLESS);
        if learned || is_endless || !build.may_use_host {
            return Err(in_node(Problem::DynamicValue { what: "the number of steps of a Loop" }));
        }
        let scalar = |build: &mut Builder, value: &Tracked| {
            let value = build.reshape(value, &[])?;
            build.cast(&value, DType::I64)
        };
        let mut steps = scalar(build, count).map_err(&in_node)?;
        if let Some(condition) = condition {
            let truth = scalar(build, condition).map_err(&in_node)?;
            steps = build.map(&[&steps, &truth], |b, p| b.binary(BinaryOp::Mul, p[0], p[1])).map_err(&in_node)?;
        }
        host::counted(build, &steps, "the number of steps depends on what is computed").map_err(in_node)
    }

    /// How many steps there must be for the results that are stacked to have the extents that the model declares.
    fn declared_steps(&self, stacked: &[String]) -> Option<Dim> {
        let graph = self.model.graph();
        let extent = |name: &String| {
            let info = graph.value_info.iter().chain(&graph.output).find(|info| info.name() == name)?;
            let type_proto::Value::TensorType(tensor) = info.r#type.as_ref()?.value.as_ref()? else { return None };
            match tensor.shape.as_ref()?.dim.first()?.value {
                Some(dimension::Value::DimValue(steps)) if steps >= 0 => Some(Dim::constant(steps)),
                _ => None,
            }
        };
        stacked.iter().find_map(extent)
    }

    /// As many steps as there may be, of which those count before the condition, which depends on data, fails.
    fn conditional(&mut self, node_ref: &NodeRef, body: Body<'m>, steps: &Dim) -> Result<Results, ImportError> {
        let in_node = in_node(node_ref);
        let build = self.scopes.build();
        if !build.may_use_host || steps.as_const().is_some_and(|steps| steps > MAX_CONDITIONAL) {
            return Err(in_node(Problem::DynamicValue { what: "the condition of a Loop" }));
        }
        // What counts does so only until the condition fails.
        let without_counters = |state: State| match state {
            State::Counter { .. } => State::Carried,
            other => other,
        };
        let states = body.states.into_iter().map(without_counters).collect();
        let body = Body { states, condition: Condition::OnData, ..body };
        let mut results = self.recurrence(node_ref, &body, steps)?;
        // Behind the results stands, for each step, whether it counts.
        let Some(counts) = results.stacked.pop().filter(|_| !results.stacked.is_empty()) else { return Ok(results) };
        let build = self.scopes.build();
        let add = |body: &mut ScalarBody, p: &[ScalarId]| vec![body.cast(DType::I64, p[0])];
        let count = build.reduce(&[&counts], &[0], Reducer::sum(DType::I64), add).map_err(&in_node)?.remove(0);
        let reason = "the number of steps depends on a condition that is computed";
        let count = host::counted(build, &count, reason).map_err(&in_node)?;
        build.require_at_least("the number of steps", steps, &count).map_err(&in_node)?;
        for stacked in &mut results.stacked {
            *stacked = build.slice_axis(stacked, 0, Dim::constant(0), count.clone()).map_err(&in_node)?;
        }
        Ok(results)
    }

    /// All steps; without a number of them as many as the condition lets happen.
    fn steps(&mut self, node_ref: &NodeRef, body: &Body<'m>, steps: Option<&Dim>) -> Result<Results, ImportError> {
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
    fn recurrence(&mut self, node_ref: &NodeRef, body: &Body<'m>, steps: &Dim) -> Result<Results, ImportError> {
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
                    let counted = counted(build, &inputs[firsts.len()], ty, (from, *by)).map_err(&in_node)?;
                    self.scopes.define(name, counted);
                }
            }
        }
        let mut outputs = self.block(body.graph)?;
        if body.is_loop {
            let condition = outputs.remove(0);
            outputs = body.without_fixed(outputs);
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
        if graph.nodes.iter().any(|n| matches!(n.op, Op::Recurrence(_))) {
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
    fn call<'c>(&'c mut self, node: &'c NodeProto, node_ref: &NodeRef) -> Call<'c> {
        Call {
            node,
            opset: node_ref.opset,
            inputs: Vec::new(),
            build: self.scopes.build(),
            wanted: std::cell::Cell::default(),
        }
    }
}

/// What the attributes of a `Scan` say.
struct Scanned {
    states: usize,
    /// Axis and direction of each scanned input, and of each scanned output.
    inputs: Vec<(i64, bool)>,
    outputs: Vec<(i64, bool)>,
}

impl Scanned {
    fn of(call: &Call<'_>, graph: &GraphProto, inputs: usize, batched: bool) -> Result<Self, Problem> {
        let scanned = call.int_or("num_scan_inputs", 0)?;
        let count = usize::try_from(scanned).ok().filter(|n| (1..=inputs).contains(n));
        let states = inputs
            - count.ok_or_else(|| Problem::InvalidAttribute {
                attribute: "num_scan_inputs",
                expected: "how many of the inputs are scanned",
                found: scanned.to_string(),
            })?;
        if graph.input.len() != inputs || graph.output.len() < states {
            return Err(wrong_body(graph, inputs, states));
        }
        let list = |name: &'static str, len: usize| -> Result<Vec<i64>, Problem> {
            let given = call.ints(name)?.map_or_else(|| vec![0; len], <[i64]>::to_vec);
            let found = format!("{given:?}");
            let expected = "a number per scanned input or output";
            if given.len() == len {
                Ok(given)
            } else {
                Err(Problem::InvalidAttribute { attribute: name, expected, found })
            }
        };
        let both = |axes: Vec<i64>, directions: Vec<i64>| {
            axes.into_iter().zip(directions.into_iter().map(|d| d != 0)).collect()
        };
        let (scanned, results) = (inputs - states, graph.output.len() - states);
        if batched {
            let directions = list("directions", scanned)?;
            let (inputs, outputs) = (both(vec![0; scanned], directions), both(vec![0; results], vec![0; results]));
            return Ok(Self { states, inputs, outputs });
        }
        let inputs = both(list("scan_input_axes", scanned)?, list("scan_input_directions", scanned)?);
        let outputs = both(list("scan_output_axes", results)?, list("scan_output_directions", results)?);
        Ok(Self { states, inputs, outputs })
    }
}

fn in_node(node_ref: &NodeRef) -> impl Fn(Problem) -> ImportError + '_ {
    move |problem| ImportError::Node { node: Box::new(node_ref.clone()), problem }
}

fn body_of<'m>(node: &'m NodeProto, node_ref: &NodeRef) -> Result<&'m GraphProto, ImportError> {
    let found = node.attribute.iter().find(|a| a.name() == "body").and_then(|a| a.g.as_ref());
    let (expected, found_none) = ("a graph", "none".to_owned());
    found.ok_or_else(|| in_node(node_ref)(Problem::InvalidAttribute { attribute: "body", expected, found: found_none }))
}

fn wrong_body(graph: &GraphProto, inputs: usize, outputs: usize) -> Problem {
    Problem::ShapeMismatch {
        expected: format!("a body with {inputs} inputs and at least {outputs} outputs"),
        found: format!("{} and {}", graph.input.len(), graph.output.len()),
    }
}

/// One element along the first axis, which disappears.
fn row(build: &mut Builder, x: &Tracked, at: &Dim) -> Result<Tracked, Problem> {
    let Some((extent, rest)) = x.shape().split_first() else { return Err(mismatch("an axis of steps", x.shape())) };
    build.require_at_least("the number of steps", extent, &(at.clone() + 1))?;
    let index = std::iter::once(at.clone()).chain((0..rest.len()).map(var)).collect();
    build.view(x, index, rest.to_vec())
}

/// What counts from a dim by so much a step, in the step of this number.
fn counted(
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

/// The given axis as the first one, its end as its beginning if that is asked for.
fn first_axis(build: &mut Builder, x: &Tracked, given: i64, reverse: bool) -> Result<Tracked, Problem> {
    let first = axis(given, x.rank())?;
    let order: Vec<usize> = std::iter::once(first).chain((0..x.rank()).filter(|&n| n != first)).collect();
    let moved = build.transpose(x, &order)?;
    if reverse { build.flip(&moved, 0) } else { Ok(moved) }
}

/// The inverse of [`first_axis`].
fn from_first_axis(build: &mut Builder, x: &Tracked, given: i64, reverse: bool) -> Result<Tracked, Problem> {
    let x = if reverse { build.flip(x, 0)? } else { x.clone() };
    let to = axis(given, x.rank())?;
    let mut order: Vec<usize> = (1..x.rank()).collect();
    order.insert(to, 0);
    build.transpose(&x, &order)
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
