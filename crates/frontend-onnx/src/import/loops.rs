//! `Loop`: how many steps there are.
//!
//! ONNX operator `Loop` (opset 1 and later). Where its condition counts, it says how many steps there are ([`super::counted`]).
//!
//! A number of steps that only the run tells is counted out by the host, whose result has that many elements. Where the
//! condition depends on data, all steps that there may be are computed, and those after it has failed leave the states as they
//! are; the results that count are cut out behind the loop. That takes a limit on the steps.

use super::Importer;
use super::counted::{Counting, State, counting};
use super::steps::{Body, Condition, Results, body_of, in_node, known_truth, wrong_body};
use crate::build::Builder;
use crate::element::Element;
use crate::error::{ImportError, NodeRef, Problem};
use crate::host;
use crate::proto::{GraphProto, NodeProto};
use crate::tracked::Tracked;
use infc_ir::entity::ScalarId;
use infc_ir::index::Dim;
use infc_ir::kernel::Reducer;
use infc_ir::scalar::{BinaryOp, Body as ScalarBody};
use infc_tensor::DType;

/// So many steps or more mean that only the condition ends a loop.
const ENDLESS: i64 = (1 << 31) - 1;

/// So many steps may be computed of which a condition on data says how many count.
const MAX_CONDITIONAL: i64 = 1 << 12;

impl<'m> Importer<'m, '_> {
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
        let is_endless = one(count).and_then(|count| count.as_const()).is_some_and(|count| count >= ENDLESS);
        let known = match (one(count), condition.map(one)) {
            // Only what comes of its condition says how many steps such a loop has.
            (_, Some(_)) if is_endless => None,
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
        let extent = |name: &String| match Element::declared_in(graph, name)? {
            Element { shape: Some(shape), of: None, .. } => shape.first().copied().flatten().map(Dim::constant),
            _ => None,
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
}
