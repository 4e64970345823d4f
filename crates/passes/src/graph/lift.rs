//! What the steps of a recurrence compute without its states is computed for all of them at once, in front of it.
//!
//! Loops and `Scan`s are exported as they were written: a step looks up its row, multiplies it by weights, and adds what it makes
//! of the state. All rows are one matrix, and their products one product, which runs many times as fast as one per step; the
//! steps see rows of the result. Looked up and multiplied is in front, what is moved and mapped on the way there is with it;
//! what is only mapped stays where it is read.

use super::movement::{var, view};
use super::rewrite::{Operand, Replacement, Rule, Site, sweep};
use super::{Changed, PassContext, PassError};
use infc_ir::access::AccessMap;
use infc_ir::entity::ValueId;
use infc_ir::graph::{Definition, Graph, Node, Port, TensorType};
use infc_ir::index::{Dim, IndexExpr};
use infc_ir::op::{ContractOp, GatherOp, MapOp, Op, RecurrenceOp};
use infc_ir::scalar::{Const, ScalarOp};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const RULES: &[Rule] = &[lift];

/// Applies the rule.
///
/// # Errors
/// None.
pub fn run(graph: &mut Graph, cx: &PassContext) -> Result<Changed, PassError> {
    Ok(sweep(graph, cx, RULES))
}

/// What a value in a step follows from, if not from states.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum From {
    /// What is the same in all steps.
    Shared,
    /// The step.
    Step,
}

// recurrence_f∘g(s, x) = recurrence_f(s, [g(x₀), g(x₁), …]) where g reads no state, and ends in a product or in what is looked up
fn lift(site: &Site<'_>) -> Option<Replacement> {
    let Op::Recurrence(op) = &site.node().op else { return None };
    let stateless = stateless(op);
    let roots = roots(&op.body, &stateless);
    if roots.is_empty() {
        return None;
    }
    let mut new = Replacement::new();
    let mut lifter = Lifter { op, stateless: &stateless, outside: HashMap::new(), new: &mut new };
    let inputs = &site.node().inputs;
    for (port, &input) in op.body.inputs.iter().zip(inputs).skip(op.states) {
        lifter.outside.insert(port.value, input.into());
    }
    lifter.lift(&roots);
    let outside = lifter.outside;
    let rows: Vec<ValueId> = roots.iter().copied().filter(|root| stateless[root] == From::Step).collect();
    let shared: Vec<ValueId> = roots.iter().copied().filter(|root| stateless[root] == From::Shared).collect();
    let given: Vec<Operand> = inputs.iter().map(|&input| input.into()).collect();
    let made = |values: &[ValueId]| values.iter().map(|value| outside[value]).collect::<Vec<_>>();
    let (slices, at) = (op.states + op.slices, op.states);
    let operands = [&given[..at], &given[at..slices], &made(&rows), &given[slices..], &made(&shared)].concat();
    let mut body = op.body.as_ref().clone();
    let mut ports = std::mem::take(&mut body.inputs);
    let behind = ports.split_off(slices);
    ports.extend(rows.iter().map(|&row| as_input(&mut body, row)));
    ports.extend(behind);
    ports.extend(shared.iter().map(|&shared| as_input(&mut body, shared)));
    // What only was read by what is lifted is gone, and no input any more.
    let needed = needed(&body, &HashSet::new());
    body.order.retain(|&id| body.nodes[id].outputs.iter().any(|output| needed.contains(output)));
    let is_kept = |n: usize, port: &Port| n < op.states || needed.contains(&port.value);
    let kept: Vec<bool> = ports.iter().enumerate().map(|(n, port)| is_kept(n, port)).collect();
    let slices = kept[at..slices + rows.len()].iter().filter(|&&kept| kept).count();
    let mut keep = kept.iter();
    ports.retain(|_| *keep.next().unwrap_or(&true));
    let operands: Vec<Operand> = operands.into_iter().zip(&kept).filter(|(_, kept)| **kept).map(|(o, _)| o).collect();
    for (n, port) in ports.iter().enumerate() {
        body.values[port.value].definition = Definition::Input(n as u32);
    }
    body.inputs = ports;
    let op = RecurrenceOp { steps: op.steps.clone(), states: op.states, slices, body: Arc::new(body) };
    let types = site.output_types();
    let outputs = types.len();
    let recurrence = new.add_node(Op::Recurrence(op), &operands, types);
    new.set_outputs((0..outputs).map(|n| Operand::New(recurrence, n)).collect());
    Some(new)
}

/// Makes a value of the body one that is given to it; the caller gives it its place.
fn as_input(body: &mut Graph, value: ValueId) -> Port {
    let ty = body.ty(value).clone();
    let name = format!("lifted{}", body.values.len());
    let input = body.add_input(&name, ty);
    body.replace_uses(value, input);
    body.inputs.pop().unwrap_or_else(|| Port::new(&name, input))
}

/// What outputs follow from, and these; not what only some values follow from that are given otherwise.
fn needed(body: &Graph, given: &HashSet<ValueId>) -> HashSet<ValueId> {
    let mut needed: HashSet<ValueId> = body.outputs.iter().map(|output| output.value).collect();
    for &id in body.order.iter().rev() {
        let node = &body.nodes[id];
        let is_read = |output: &ValueId| needed.contains(output) && !given.contains(output);
        if node.outputs.iter().any(is_read) {
            needed.extend(&node.inputs);
        }
    }
    needed
}

/// The values of a body that follow from no state, by operations that can be done for all steps at once.
fn stateless(op: &RecurrenceOp) -> HashMap<ValueId, From> {
    let body = &op.body;
    if body.order.iter().any(|&id| !body.nodes[id].op.produces().is_empty()) {
        return HashMap::new();
    }
    let from = |n: usize| if n < op.states + op.slices { From::Step } else { From::Shared };
    let mut found: HashMap<ValueId, From> =
        body.inputs.iter().enumerate().skip(op.states).map(|(n, port)| (port.value, from(n))).collect();
    for &id in &body.order {
        let node = &body.nodes[id];
        let inputs: Option<Vec<From>> = node.inputs.iter().map(|input| found.get(input).copied()).collect();
        let (Some(inputs), &[output]) = (inputs, &node.outputs[..]) else { continue };
        let is_liftable = match &node.op {
            Op::Constant(_) | Op::View(_) => true,
            Op::Contract(op) => op.lhs.len() + op.rhs.len() < usize::from(u8::MAX),
            Op::Map(map) => !map.body.ops.iter().any(|op| matches!(op, ScalarOp::InBounds(_) | ScalarOp::Load(_))),
            // One row of what is the same in all steps and has as many rows: there are not more looked up than there are.
            Op::Gather(gather) => {
                let rows = body.ty(node.inputs[0]).shape.first();
                let has_rows = |rows: &Dim| {
                    *rows == op.steps || op.steps.as_const().zip(rows.as_const()).is_some_and(|(n, m)| n <= m)
                };
                let is_row = body.ty(node.inputs[1]).shape.is_empty();
                gather.axis == 0 && inputs[0] == From::Shared && is_row && rows.is_some_and(has_rows)
            }
            _ => false,
        };
        if is_liftable {
            let step = inputs.contains(&From::Step);
            found.insert(output, if step { From::Step } else { From::Shared });
        }
    }
    found
}

/// The products, and what is looked up, that the rest of a step reads.
fn roots(body: &Graph, stateless: &HashMap<ValueId, From>) -> Vec<ValueId> {
    let given: HashSet<ValueId> = body.outputs.iter().map(|output| output.value).collect();
    let root = |node: &Node| {
        // What a step gives has to be made in it.
        let output = *node.outputs.first().filter(|output| !given.contains(output))?;
        let is_root = match (&node.op, stateless.get(&output)) {
            (Op::Contract(_), Some(_)) => true,
            (Op::Gather(_), from) => from == Some(&From::Step),
            _ => false,
        };
        is_root.then_some(output)
    };
    let roots: Vec<ValueId> = body.order.iter().filter_map(|&id| root(&body.nodes[id])).collect();
    let needed = needed(body, &roots.iter().copied().collect());
    roots.into_iter().filter(|root| needed.contains(root)).collect()
}

/// Does outside, for all steps, what the body does in one.
struct Lifter<'a> {
    op: &'a RecurrenceOp,
    stateless: &'a HashMap<ValueId, From>,
    /// What there is outside for values of the body; of those that follow from the step, all steps along a new first axis.
    outside: HashMap<ValueId, Operand>,
    new: &'a mut Replacement,
}

impl Lifter<'_> {
    /// The nodes that these values need.
    fn lift(&mut self, roots: &[ValueId]) {
        let body = &self.op.body;
        let mut needed: HashSet<ValueId> = roots.iter().copied().collect();
        for &id in body.order.iter().rev() {
            let node = &body.nodes[id];
            if node.outputs.iter().any(|output| needed.contains(output) && self.stateless.contains_key(output)) {
                needed.extend(&node.inputs);
            }
        }
        for &id in &body.order {
            let node = &body.nodes[id];
            let is_lifted = |output: &&ValueId| needed.contains(output) && self.stateless.contains_key(output);
            if let Some(&output) = node.outputs.first().filter(is_lifted) {
                let lifted = self.node(node, output);
                self.outside.insert(output, lifted);
            }
        }
    }

    fn of_step(&self, value: ValueId) -> bool {
        self.stateless[&value] == From::Step
    }

    /// A shape with the steps in front.
    fn all(&self, shape: &[Dim]) -> Vec<Dim> {
        [std::slice::from_ref(&self.op.steps), shape].concat()
    }

    fn node(&mut self, node: &Node, output: ValueId) -> Operand {
        let body = &self.op.body;
        let ty = body.ty(output).clone();
        let inputs: Vec<Operand> = node.inputs.iter().map(|input| self.outside[input]).collect();
        if !self.of_step(output) {
            return self.new.add(node.op.clone(), &inputs, ty);
        }
        let shape = self.all(&ty.shape);
        let all = TensorType::new(ty.dtype, shape.clone());
        let of_step: Vec<bool> = node.inputs.iter().map(|&input| self.of_step(input)).collect();
        match &node.op {
            Op::View(op) => {
                let later = later(op.map.rank);
                let index = op.map.index.iter().map(|e| e.substitute_vars(&later));
                let index = std::iter::once(var(0)).chain(index).collect();
                let valid = op.map.valid.iter().map(|bound| bound.map(|e| e.substitute_vars(&later))).collect();
                let map = AccessMap { rank: op.map.rank + 1, index, valid };
                self.new.add(view(map, &shape, op.otherwise), &inputs, all)
            }
            Op::Map(op) => {
                let rank = ty.shape.len();
                let mut spread = Vec::new();
                for ((&input, &value), of_step) in inputs.iter().zip(&node.inputs).zip(of_step) {
                    let dtype = body.ty(value).dtype;
                    let map = AccessMap { rank: rank + 1, index: later(rank), valid: Vec::new() };
                    let spread_out = |new: &mut Replacement| {
                        let ty = TensorType::new(dtype, shape.clone());
                        new.add(view(map, &shape, Const::zero(dtype)), &[input], ty)
                    };
                    spread.push(if of_step { input } else { spread_out(self.new) });
                }
                let mut function = op.body.clone();
                let later = later(rank);
                for op in function.ops.iter_mut() {
                    if let ScalarOp::Index(e) = op {
                        *e = e.substitute_vars(&later);
                    }
                }
                self.new.add(Op::Map(MapOp { body: function, results: op.results.clone() }), &spread, all)
            }
            Op::Contract(op) => {
                let used = |label: &u8| op.lhs.contains(label) || op.rhs.contains(label) || op.output.contains(label);
                let step = (0..=u8::MAX).find(|label| !used(label)).unwrap_or_default();
                let with = |labels: &[u8], of_step: bool| {
                    [if of_step { vec![step] } else { Vec::new() }, labels.to_vec()].concat()
                };
                let (lhs, rhs) = (with(&op.lhs, of_step[0]), with(&op.rhs, of_step[1]));
                let op = ContractOp { lhs, rhs, output: with(&op.output, true) };
                self.new.add(Op::Contract(op), &inputs, all)
            }
            _ => self.new.add(Op::Gather(GatherOp { axis: 0 }), &inputs, all),
        }
    }
}

/// Coordinates behind a first one.
fn later(rank: usize) -> Vec<IndexExpr> {
    (1..=rank).map(var).collect()
}
