//! Factors of the contractions in a recurrence's step.
//!
//! A state that is multiplied by weights in every step gets a second one beside it, which is the same state rounded: it is
//! rounded once, where the step ends, and lies in memory as it is multiplied. The weights come into the step rounded.

use super::{Pass, convert, has_vectors, is_constant, moved_from};
use infc_ir::entity::{NodeId, OriginId, ValueId};
use infc_ir::graph::{Definition, Graph, Node, Port, TensorType};
use infc_ir::op::{Op, RecurrenceOp, ViewOp};
use infc_ir::scalar::Const;
use infc_tensor::DType;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Where an input of a step comes from.
fn input_of(body: &Graph, value: ValueId) -> Option<usize> {
    body.inputs.iter().position(|port| port.value == value)
}

/// The contractions of a step with weights that are worth rounding, each with the side that the weights are on.
///
/// Weights are constants outside that nothing but such contractions reads.
pub(super) fn multiplied(graph: &Graph, id: NodeId) -> Vec<(NodeId, usize)> {
    let node = &graph.nodes[id];
    let Op::Recurrence(op) = &node.op else { return Vec::new() };
    let body = &op.body;
    let first_shared = op.states + op.slices;
    let is_weight = |value: ValueId| {
        let shared = input_of(body, moved_from(body, value)).filter(|&n| n >= first_shared);
        shared.is_some_and(|n| is_constant(graph, node.inputs[n]))
    };
    let mut found: Vec<(NodeId, usize)> = Vec::new();
    for &contraction in &body.order {
        let side = (0..2).find(|&side| {
            matches!(body.nodes[contraction].op, Op::Contract(_)) && is_weight(body.nodes[contraction].inputs[side])
        });
        found.extend(side.filter(|&side| has_vectors(body, contraction, side)).map(|side| (contraction, side)));
    }
    // What others read as well stays as it is, and so do all that read it.
    loop {
        let of_others = read_by_others(body, &found);
        let before = found.len();
        found.retain(|&(contraction, side)| {
            !of_others.contains(&moved_from(body, body.nodes[contraction].inputs[side]))
        });
        if found.len() == before {
            return found;
        }
    }
}

/// What values that others than these contractions read, as their weights, or that are outputs, show elements of.
fn read_by_others(body: &Graph, contractions: &[(NodeId, usize)]) -> HashSet<ValueId> {
    let mut found: HashSet<ValueId> = body.outputs.iter().map(|port| moved_from(body, port.value)).collect();
    for &id in &body.order {
        let node = &body.nodes[id];
        let weights = contractions.iter().find(|(contraction, _)| *contraction == id).map(|&(_, side)| side);
        let is_moved = matches!(node.op, Op::View(_));
        let others = node.inputs.iter().enumerate().filter(|&(side, _)| !is_moved && weights != Some(side));
        found.extend(others.map(|(_, &value)| moved_from(body, value)));
    }
    found
}

/// A recurrence's step on its way to one that multiplies rounded numbers.
struct Steps {
    to: DType,
    states: usize,
    body: Graph,
    origin: OriginId,
    /// Rounded values of the step.
    rounded: HashMap<ValueId, ValueId>,
    /// States that have a rounded one beside them, each with that one.
    doubled: Vec<(usize, ValueId)>,
}

impl Steps {
    /// A value of the step, rounded.
    fn round(&mut self, value: ValueId) -> ValueId {
        // The views on the way from what is rounded, the last one first.
        let (mut at, mut views) = (value, Vec::new());
        while !self.rounded.contains_key(&at)
            && let Some((_, Node { op: Op::View(view), inputs, .. })) = self.body.producer(at)
        {
            views.push((at, view.clone()));
            at = inputs[0];
        }
        let mut rounded = self.source(at);
        for (value, view) in views.into_iter().rev() {
            let view = ViewOp { otherwise: Const::from_f64(self.to, view.otherwise.to_f64()), ..view };
            let ty = TensorType::new(self.to, self.body.ty(value).shape.clone());
            rounded = self.body.add(Op::View(view), &[rounded], ty, self.origin);
            self.rounded.insert(value, rounded);
        }
        rounded
    }

    /// A value that is no view, or is rounded already, rounded: of a state there is another state.
    fn source(&mut self, value: ValueId) -> ValueId {
        if let Some(&rounded) = self.rounded.get(&value) {
            return rounded;
        }
        let state = input_of(&self.body, value).filter(|&n| n < self.states);
        let rounded = match state {
            Some(n) => {
                let ty = TensorType::new(self.to, self.body.ty(value).shape.clone());
                let name = format!("{}_{}", self.body.inputs[n].name, self.to);
                let state = self.body.add_input(&name, ty);
                self.doubled.push((n, state));
                state
            }
            None => convert(&mut self.body, value, self.to, self.origin),
        };
        self.rounded.insert(value, rounded);
        rounded
    }

    /// Makes weights, and the views on the way to them, numbers of the type.
    fn retype(&mut self, mut value: ValueId) {
        while self.body.ty(value).dtype != self.to {
            self.body.values[value].ty.dtype = self.to;
            let Some((id, node)) = self.body.producer(value) else { return };
            let from = node.inputs.first().copied();
            let (Op::View(view), Some(from)) = (&mut self.body.nodes[id].op, from) else { return };
            view.otherwise = Const::from_f64(self.to, view.otherwise.to_f64());
            value = from;
        }
    }
}

impl Pass {
    /// Rounds factors of the contractions in a recurrence's step.
    pub(super) fn round_steps(&mut self, graph: &mut Graph, id: NodeId, contractions: &[(NodeId, usize)]) {
        let Op::Recurrence(op) = graph.nodes[id].op.clone() else { return };
        let Some(&(first, _)) = contractions.first() else { return };
        let mut steps = Steps {
            to: self.to,
            states: op.states,
            body: op.body.as_ref().clone(),
            origin: op.body.nodes[first].origin,
            rounded: HashMap::new(),
            doubled: Vec::new(),
        };
        let ports = steps.body.inputs.len();
        for inner in std::mem::take(&mut steps.body.order) {
            if let Some(&(_, side)) = contractions.iter().find(|(contraction, _)| *contraction == inner) {
                let [weights, other] = [side, 1 - side].map(|side| steps.body.nodes[inner].inputs[side]);
                steps.retype(weights);
                steps.body.nodes[inner].inputs[1 - side] = steps.round(other);
            }
            steps.body.order.push(inner);
        }
        // What the next step begins with; a state that is a view of another one has that doubled, too.
        let mut next = Vec::new();
        while let Some(&(n, _)) = steps.doubled.get(next.len()) {
            let Port { value, name, .. } = steps.body.outputs[n].clone();
            next.push(Port::new(&format!("{name}_{}", self.to), steps.round(value)));
        }
        let Steps { mut body, doubled, .. } = steps;
        for n in op.states + op.slices..ports {
            if body.ty(body.inputs[n].value).dtype != graph.ty(graph.nodes[id].inputs[n]).dtype {
                graph.nodes[id].inputs[n] = self.outside(graph, id, n);
            }
        }
        // The rounded states come behind the others.
        let behind = op.states..op.states;
        let initial: Vec<ValueId> = doubled.iter().map(|&(n, _)| self.outside(graph, id, n)).collect();
        graph.nodes[id].inputs.splice(behind.clone(), initial);
        let given = body.inputs.split_off(ports);
        body.inputs.splice(behind.clone(), given);
        for (n, port) in body.inputs.iter().enumerate() {
            body.values[port.value].definition = Definition::Input(n as u32);
        }
        body.outputs.splice(behind.clone(), next);
        let histories: Vec<ValueId> = doubled.iter().map(|&(n, _)| graph.nodes[id].outputs[n]).collect();
        let rounded: Vec<ValueId> = histories.iter().map(|&history| self.history(graph, history)).collect();
        graph.nodes[id].outputs.splice(behind, rounded);
        for (n, &value) in graph.nodes[id].outputs.clone().iter().enumerate() {
            graph.values[value].definition = Definition::Node(id, n as u32);
        }
        let states = op.states + doubled.len();
        graph.nodes[id].op = Op::Recurrence(RecurrenceOp { states, body: Arc::new(body), ..op });
    }

    /// The value that has a state of all steps rounded; who reads that state as a factor reads this.
    fn history(&mut self, graph: &mut Graph, of: ValueId) -> ValueId {
        let mut value = graph.values[of].clone();
        value.ty.dtype = self.to;
        let rounded = graph.values.push(value);
        if self.factors.contains(&of) {
            self.rounded.insert(of, rounded);
        }
        rounded
    }

    /// The n-th input of a node, rounded. Others go on to read it as it is, if it is no factor for them.
    fn outside(&mut self, graph: &mut Graph, id: NodeId, n: usize) -> ValueId {
        let (value, origin) = (graph.nodes[id].inputs[n], graph.nodes[id].origin);
        if let Some(&rounded) = self.rounded.get(&value) {
            return rounded;
        }
        *self.for_steps.entry(value).or_insert_with(|| convert(graph, value, self.to, origin))
    }
}
